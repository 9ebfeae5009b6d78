"""Vectors follow words: embeds the chunks that have no vector yet, whatever put them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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


class FailedText(Protocol):
    @property
    def index(self) -> int: ...


class PassageBatch(Protocol):
    """Vectors (n, dims) of the texts at `indexes`, and those that got none."""

    @property
    def indexes(self) -> Sequence[int]: ...
    @property
    def vectors(self) -> dense.Vectors: ...
    @property
    def failed(self) -> Sequence[FailedText]: ...


class PassageEncoder(Protocol):
    """What filling needs of an embedder; `passage_batches` may be left between two batches."""

    @property
    def identity(self) -> str: ...
    @property
    def dims(self) -> int: ...
    def passage_batches(self, texts: Sequence[str]) -> Iterator[PassageBatch]: ...


@dataclass(frozen=True, slots=True)
class Filled:
    """Chunks: without a vector before, given one now, and passed over because theirs was fresh."""

    needing: int = 0
    generated: int = 0
    skipped: int = 0


class Vectors:
    """Fills one vault's store from the indexer's thread. `pending` counts the chunks that still have no vector."""

    def __init__(self, encoder: Callable[[], PassageEncoder | None]) -> None:
        self._encoder = encoder
        self._refused: set[bytes] = set()
        self.pending = 0

    def adopt(self, store: Store) -> PassageEncoder | None:
        """The embedder, once it is warm; a new one starts with the vectors that the catalog already holds for it."""
        encoder = self._encoder()
        if encoder is not None and store.model != encoder.identity:
            store.use_model(encoder.identity, encoder.dims)
            self._refused.clear()
        return encoder

    def fill(self, store: Store, interrupted: Callable[[], bool]) -> int:
        """Embed up to a window of chunks, stopping between two batches when `interrupted`; how many got a vector."""
        encoder = self.adopt(store)
        if encoder is None:
            return 0
        found = store.missing_vectors(WINDOW + len(self._refused))
        wanted = [(chunk, title) for chunk, title in found if chunk.hash not in self._refused]
        if not wanted:
            self.pending = len(self._refused)
            return 0
        hashes: list[bytes] = []
        parts: list[dense.Vectors] = []
        generated = 0
        for batch in encoder.passage_batches([stored_embedding_text(chunk, title) for chunk, title in wanted]):
            if batch.failed:
                self._refused.update(wanted[each.index][0].hash for each in batch.failed)
                log.warning("chunks_not_embedded", count=len(batch.failed))
            hashes.extend(wanted[index][0].hash for index in batch.indexes)
            parts.append(batch.vectors)
            stop = interrupted()
            if hashes and (stop or len(hashes) >= STORE_EVERY):
                generated += _keep(store, hashes, parts)
            if stop:
                break
        if hashes:
            generated += _keep(store, hashes, parts)
        self.pending = store.catalog.missing_vector_count(encoder.identity)
        return generated

    def fill_all(
        self,
        store: Store,
        force: bool,
        progress: Callable[[str, float | None], None],
        cancelled: Callable[[], bool],
    ) -> Filled:
        """Embed everything that has no vector, or everything at all with `force`."""
        encoder = self.adopt(store)
        if encoder is None:
            return Filled()
        if force:
            store.forget_vectors()
            self._refused.clear()
        needing = store.catalog.missing_vector_count(encoder.identity)
        total = store.catalog.counts()[1]
        generated = 0
        while not cancelled() and (made := self.fill(store, cancelled)):
            generated += made
            progress("embedding", 100.0 * (needing - self.pending) / max(needing, 1))
        return Filled(needing, generated, total - needing)


def _keep(store: Store, hashes: list[bytes], parts: list[dense.Vectors]) -> int:
    store.add_vectors(hashes, np.concatenate(parts))
    count = len(hashes)
    hashes.clear()
    parts.clear()
    return count
