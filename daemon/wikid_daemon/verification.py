"""Proof that an index is what a fresh build of the same files would be, or a list of where it is not.

The fresh index is built beside the live one, which goes on answering. Both then look at the files again, one right
after the other on the indexer's own thread, and are compared there, so that no save in between shows as a difference.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wikid_daemon.fresh import FreshIndex
from wikid_daemon.index import comparison
from wikid_daemon.index.comparison import Difference
from wikid_daemon.index.lifecycle import discard, new_staging
from wikid_daemon.index.lucene import LexicalIndex
from wikid_daemon.index.store import Store
from wikid_daemon.indexer import Indexer
from wikid_daemon.steps import Progress
from wikid_daemon.updater import Cancelled
from wikid_daemon.vault.mirror import NoMirror

ROUNDS: Final = 5  # until the files keep still between two looks
LUCENE_LOCK: Final = "write.lock"


@dataclass(frozen=True, slots=True)
class Verified:
    """What was compared and where it differs. `deleted_share` is that of Lucene documents not merged away yet."""

    generation: int
    pages: int
    chunks: int
    embedded: int
    embedding_pending: int
    compared: tuple[str, ...]
    probes: int
    deleted_share: float
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The live index at one moment: its differences so far, and what is needed to compare its words at leisure."""

    found: list[Difference]
    settled: bool
    generation: int
    vectors: bool
    embedded: int
    embedding_pending: int
    deleted_share: float
    chunks: set[int]
    paths: dict[int, str]
    page_ids: dict[int, str]
    copied: bool
    same_collection: bool


def verify(indexer: Indexer, progress: Progress, cancelled: Callable[[], bool]) -> Verified:
    """Compare the live index with a fresh build; blocks. Raises Cancelled, VaultError and what building raises."""
    # before building, for a folder that is gone would look like one without pages
    indexer.after_look(lambda _store: None, cancelled)
    folder = new_staging(indexer.vault.state)
    try:
        fresh = FreshIndex(indexer.reader, folder / "fresh", NoMirror(), cancelled)
        try:
            fresh.build(progress)
            progress("comparing", None)
            return _compared(indexer, fresh, folder / "lucene", cancelled)
        finally:
            fresh.store.close()
    finally:
        discard(folder)


def _compared(indexer: Indexer, fresh: FreshIndex, copy: Path, cancelled: Callable[[], bool]) -> Verified:
    for _ in range(ROUNDS):
        taken = indexer.after_look(lambda store: _snapshot(store, fresh, copy, cancelled), cancelled)
        if taken.settled or not taken.found:
            break
    compared = ["pages", "vectors"] if taken.vectors else ["pages"]
    found, probes = list(taken.found), comparison.probes(fresh.store.catalog)
    if taken.copied and fresh.store.lexical_index is not None:
        compared += ["documents", "ranking"] if taken.same_collection else ["documents"]
        found += _words_compared(taken, fresh, copy, probes if taken.same_collection else [])
    if cancelled():
        raise Cancelled
    pages, chunks = fresh.store.catalog.counts()
    return Verified(
        generation=taken.generation,
        pages=pages,
        chunks=chunks,
        embedded=taken.embedded,
        embedding_pending=taken.embedding_pending,
        compared=tuple(compared),
        probes=len(probes) if "ranking" in compared else 0,
        deleted_share=taken.deleted_share,
        differences=tuple(found),
    )


def _snapshot(store: Store, fresh: FreshIndex, copy: Path, cancelled: Callable[[], bool]) -> _Snapshot:
    """On the indexer's thread, right after its look."""
    moved = fresh.look()
    known = store.catalog.versions_of_files()
    paths = {page: path for path, (page, _, _) in known.items()}
    found = comparison.page_differences(store.catalog, fresh.store.catalog, fresh.unreadable, cancelled)
    found += comparison.vector_differences(store, paths)
    lexical = store.lexical_index
    live, deleted = (0, 0) if lexical is None else lexical.counts()
    if lexical is not None:
        store.commit()
        _link(lexical.folder, copy)
    return _Snapshot(
        found=found,
        settled=not moved,
        generation=store.generation,
        vectors=store.dense_index is not None,
        embedded=store.embedded,
        embedding_pending=store.missing,
        deleted_share=round(deleted / max(live + deleted, 1), 4),
        chunks=store.catalog.chunk_numbers(),
        paths=paths,
        page_ids={page: page_id for page, page_id, _ in known.values()},
        copied=lexical is not None,
        # a page that cannot be read now is only in the live one, and counts in every score there
        same_collection=not any(map(fresh.unreadable, known.keys() - fresh.store.catalog.versions_of_files().keys())),
    )


def _words_compared(
    taken: _Snapshot, fresh: FreshIndex, copy: Path, probes: list[comparison.Probe]
) -> list[Difference]:
    """Documents and rankings, on a copy without deleted documents, which count in scores until they are merged away."""
    theirs = fresh.store.lexical_index
    assert theirs is not None
    ours = LexicalIndex(copy)
    try:
        for each in (ours, theirs):
            each.expunge()
            each.refresh()
        found = comparison.document_differences(Counter(ours.keys()), taken.chunks, taken.paths)
        known = fresh.store.catalog.versions_of_files()
        their_ids = {page: page_id for page, page_id, _ in known.values()}
        return found + comparison.ranking_differences(probes, ours, taken.page_ids, theirs, their_ids)
    finally:
        ours.close()


def _link(source: Path, target: Path) -> None:
    """Lucene's files under another name: they are written once and never changed. What is not committed may vanish
    meanwhile, and is not needed."""
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    for name in os.listdir(source):
        if name == LUCENE_LOCK:
            continue
        try:
            os.link(source / name, target / name)
        except FileNotFoundError:
            continue
        except OSError:  # a file system without links
            shutil.copyfile(source / name, target / name)
