"""Vectors follow words: embeds the chunks that have no vector yet, whatever put them there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import structlog

from wikid_daemon.index import dense
from wikid_daemon.index.pages import stored_embedding_text
from wikid_daemon.index.store import Store

WINDOW: Final = 512
STORE_EVERY: Final = 64

log = structlog.get_logger("vectors")


class PassageEncoder(Protocol):
    """What filling needs of an embedder: a unit vector or the failure of each text, made when asked for."""

    @property
    def identity(self) -> str: ...
    @property
    def dims(self) -> int: ...
    def passages(self, texts: Iterable[str]) -> Iterator[dense.Vectors | Exception]: ...


@dataclass(frozen=True, slots=True)
class Filled:
    """Chunks: without a vector before, given one now, and passed over because theirs was fresh."""

    needing: int = 0
    generated: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """Chunks that were tried, and how many of them got a vector."""

    tried: int = 0
    made: int = 0


class Vectors:
    """Fills one vault's store from the indexer's thread."""

    def __init__(self, encoder: Callable[[], PassageEncoder | None]) -> None:
        self._encoder = encoder
        self._refused: set[bytes] = set()

    def adopt(self, store: Store) -> PassageEncoder | None:
        """The embedder, once it is warm; a new one starts with the vectors that the catalog already holds for it."""
        encoder = self._encoder()
        if encoder is not None and store.model != encoder.identity:
            store.use_model(encoder.identity, encoder.dims)
            self._refused.clear()
        return encoder

    def fill(self, store: Store, interrupted: Callable[[], bool]) -> Attempt:
        """Embed up to a window of chunks, stopping between two texts when `interrupted`."""
        encoder = self.adopt(store)
        if encoder is None:
            return Attempt()
        wanted = store.missing_vectors(WINDOW, self._refused)
        if not wanted:
            return Attempt()
        made: list[tuple[bytes, dense.Vectors]] = []
        generated = failed = 0
        texts = (stored_embedding_text(chunk, title) for chunk, title in wanted)
        for (chunk, _), outcome in zip(wanted, encoder.passages(texts), strict=True):
            if isinstance(outcome, Exception):
                self._refused.add(chunk.hash)
                failed += 1
            else:
                made.append((chunk.hash, outcome))
            if len(made) >= STORE_EVERY:
                generated += _keep(store, made)
            if interrupted():
                break
        generated += _keep(store, made)
        if failed:
            log.warning("chunks_not_embedded", dropped=failed)
        return Attempt(generated + failed, generated)

    def fill_all(
        self,
        store: Store,
        force: bool,
        progress: Callable[[str, float | None], None],
        cancelled: Callable[[], bool],
        arrived: Callable[[], bool],
        catch_up: Callable[[], None],
    ) -> Filled:
        """Embed everything that has no vector, or everything at all with `force`; `catch_up` is called on the way, soon
        after something has `arrived`."""
        encoder = self.adopt(store)
        if encoder is None:
            return Filled()
        if force:
            store.forget_vectors()
            self._refused.clear()
        needing, total = store.missing, store.catalog.counts()[1]
        generated = 0
        while not cancelled() and (attempt := self.fill(store, lambda: cancelled() or arrived())).tried:
            generated += attempt.made
            catch_up()
            progress("embedding", 100.0 * (needing - store.missing) / max(needing, 1))
        return Filled(needing, generated, total - needing)


def _keep(store: Store, made: list[tuple[bytes, dense.Vectors]]) -> int:
    count = len(made)
    if count:
        store.add_vectors([digest for digest, _ in made], np.stack([vector for _, vector in made]))
        made.clear()
    return count
