"""Vectors follow words: embeds the chunks that have no vector yet, whatever put them there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import structlog

from wikid_daemon.index import dense
from wikid_daemon.index.pages import stored_embedding_text
from wikid_daemon.index.store import Store
from wikid_daemon.steps import Progress, telling

WINDOW: Final = 512
STORE_EVERY: Final = 64
RETRY_SECONDS: Final = (5.0, 30.0, 120.0)  # a text refused once more after the last is given up

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
        # by chunk hash: the tries so far, and when (monotonic seconds) the next one is
        self._refused: dict[bytes, tuple[int, float]] = {}

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
        now = time.monotonic()
        resting = {digest for digest, (_, at) in self._refused.items() if at > now}
        wanted = store.missing_vectors(WINDOW, resting)
        if len(wanted) < WINDOW:
            kept = resting.union(chunk.hash for chunk, _ in wanted)
            self._refused = {digest: refusal for digest, refusal in self._refused.items() if digest in kept}
        if not wanted:
            return Attempt()
        made: list[tuple[bytes, dense.Vectors]] = []
        generated = failed = told = 0
        texts = (stored_embedding_text(chunk, title) for chunk, title in wanted)
        for (chunk, _), outcome in zip(wanted, encoder.passages(texts), strict=True):
            if isinstance(outcome, Exception):
                failed += 1
                told += self._refuse(chunk.hash) == 1
            else:
                self._refused.pop(chunk.hash, None)
                made.append((chunk.hash, outcome))
            if len(made) >= STORE_EVERY:
                generated += _keep(store, made)
            # one that was replaced meanwhile makes vectors nobody will ask for
            if interrupted() or self._encoder() is not encoder:
                break
        generated += _keep(store, made)
        if told:
            log.warning("chunks_not_embedded", dropped=told)
        return Attempt(generated + failed, generated)

    def _refuse(self, digest: bytes) -> int:
        """Note one more refusal of a text; how many there are."""
        tries = self._refused.get(digest, (0, 0.0))[0] + 1
        rest = RETRY_SECONDS[tries - 1] if tries <= len(RETRY_SECONDS) else float("inf")
        self._refused[digest] = (tries, time.monotonic() + rest)
        return tries

    @property
    def next_retry(self) -> float:
        """When (monotonic seconds) a refused text should be tried again; never while there is no embedder."""
        if self._encoder() is None:
            return float("inf")
        return min((at for _, at in self._refused.values()), default=float("inf"))

    def refused_paths(self, store: Store, limit: int) -> list[str]:
        """The pages that hold a text without a vector because the model refused it. Any thread."""
        hashes = list(self._refused)[:limit]
        chunks = store.catalog.chunks([chunk for chunk, _ in store.catalog.chunks_with_hash(hashes)])
        pages = store.catalog.pages(list({chunk.page for chunk in chunks.values()}))
        return sorted(each.path for each in pages.values())[:limit]

    def fill_all(
        self,
        store: Store,
        force: bool,
        progress: Progress,
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
        told, tried, whole, generated = telling(progress, "embedding"), 0, needing, 0

        def interrupted() -> bool:  # asked after each text
            nonlocal tried
            tried += 1
            told(tried, whole + 1)
            return cancelled() or arrived()

        while not cancelled() and (attempt := self.fill(store, interrupted)).tried:
            generated += attempt.made
            catch_up()
            whole = tried + store.missing  # which grows with what has arrived
        if not cancelled():
            told(whole, whole)
        return Filled(needing, generated, total - needing)


def _keep(store: Store, made: list[tuple[bytes, dense.Vectors]]) -> int:
    count = len(made)
    if count:
        store.add_vectors([digest for digest, _ in made], np.stack([vector for _, vector in made]))
        made.clear()
    return count
