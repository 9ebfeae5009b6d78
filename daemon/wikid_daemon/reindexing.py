"""Seed A's reindex of one vault: in place where that is enough, else as a new index beside the one that answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from wikid_daemon.fresh import FreshIndex
from wikid_daemon.index.lifecycle import discard, new_staging
from wikid_daemon.index.store import Store
from wikid_daemon.index.vectors import Filled, Vectors
from wikid_daemon.steps import Progress, Told, telling, untold
from wikid_daemon.updater import Cancelled, Counts
from wikid_daemon.vault.mirror import Mirror, MirrorBeside
from wikid_daemon.vault.reading import VaultReader
from wikid_daemon.vault.vault import VaultError


@dataclass(frozen=True, slots=True)
class Request:
    """What a caller wants (seed A, Explicit tool). `cancelled` is asked on the way."""

    everything: bool
    lexical: bool
    vectors: bool
    force: bool
    progress: Progress
    cancelled: Callable[[], bool]

    @property
    def anew(self) -> bool:
        """Whether nothing of the old index is to be trusted, except vectors by their hashes."""
        return self.everything and self.lexical and self.force


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What one reindex did: pages, and chunks."""

    pages: Counts
    vectors: Filled


@dataclass(frozen=True, slots=True)
class Staged:
    """A whole index in a staging folder, closed: its served pages and chunks, and what building it did."""

    folder: Path
    pages: int
    chunks: int
    done: Reindexed


class Look(Protocol):
    def __call__(self, *, trust: bool = True, cancelled: Callable[[], bool], told: Told = untold) -> Counts:
        """Bring the index that answers up to every file; without `trust` each is read and written again."""
        ...


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What goes on while a reindex has the indexer's thread: `catch_up` brings the index that answers up to what has
    `arrived`."""

    look: Look
    catch_up: Callable[[], None]
    arrived: Callable[[], bool]


def reindex_in_place(store: Store, vectors: Vectors, request: Request, upkeep: Upkeep) -> Reindexed:
    """Look at everything, and fill what is missing. Cancelled."""
    request.progress("scanning", None)
    anew = request.force and request.lexical
    told, trust = telling(request.progress, "reading"), not (request.everything or anew)
    pages = upkeep.look(trust=trust, cancelled=request.cancelled, told=told)
    if anew:
        request.progress("building the word index", None)
        store.rebuild_lexical()
    filled = _filled(store, vectors, request, upkeep, request.force) if request.vectors else Filled()
    return Reindexed(pages, filled)


def stage(
    reader: VaultReader, mirror: Mirror, live: Store, vectors: Vectors, request: Request, upkeep: Upkeep
) -> Staged:
    """Build a new index of every file, while the live one answers and is kept up. Cancelled, VaultError, with nothing
    left behind."""
    folder = new_staging(reader.vault.state)

    def between() -> bool:
        upkeep.catch_up()
        return request.cancelled()

    try:
        fresh = FreshIndex(reader, folder, MirrorBeside(mirror), between)
        try:
            return _staged(folder, fresh, live, vectors, request, upkeep)
        finally:
            fresh.store.close()
    except BaseException:
        discard(folder)
        raise


def _staged(folder: Path, fresh: FreshIndex, live: Store, vectors: Vectors, request: Request, upkeep: Upkeep) -> Staged:
    # an empty folder is one that is not mounted, which only an index with pages can tell
    upkeep.look(cancelled=request.cancelled)
    store, before = fresh.store, live.catalog.known_files().keys()
    fresh.build(request.progress)
    again = request.vectors and request.force
    filled = _filled(store, vectors, request, upkeep, False) if again else Filled()
    upkeep.look(cancelled=request.cancelled)
    fresh.look()
    known = live.catalog.known_files().keys()
    store.take_over(live, [path for path in known - store.catalog.known_files().keys() if fresh.unreadable(path)])
    now = store.catalog.known_files().keys()
    pages, chunks = store.catalog.counts()
    if store.lexical_index is not None and store.lexical_index.counts()[0] != chunks:
        raise VaultError("the new index is not whole; the old one goes on answering")
    counts = Counts(indexed=len(now - before), updated=len(now & before), removed=len(before - now))
    return Staged(folder, pages, chunks, Reindexed(counts, filled))


def _filled(store: Store, vectors: Vectors, request: Request, upkeep: Upkeep, force: bool) -> Filled:
    filled = vectors.fill_all(store, force, request.progress, request.cancelled, upkeep.arrived, upkeep.catch_up)
    if request.cancelled():
        raise Cancelled
    return filled
