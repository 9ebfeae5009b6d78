"""Whether an index equals a fresh build: the same pages, chunks, postings, vectors and answers, and what differs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from builders import FakeEmbedder, tree
from wikid_daemon.index import jvm
from wikid_daemon.index.lucene import LexicalIndex
from wikid_daemon.index.store import Store
from wikid_daemon.indexer import Indexer
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import open_vault

SETTLE_SECONDS = 60.0
TOP = 10
DIGITS = 4  # scores are sums of floats, whose order may differ

ChunkKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Contents:
    """What an index holds and answers, without the numbers that depend on its history.

    `postings` are the live Lucene documents; `words` and `meaning` map a query to its best pages with their scores.
    """

    pages: Mapping[str, tuple[str, str]]
    chunks: Mapping[ChunkKey, tuple[str, int, str, bytes]]
    postings: Sequence[ChunkKey]
    vectors: Mapping[ChunkKey, bytes]
    findings: Sequence[tuple[object, ...]]
    copies: Mapping[str, str]
    skipped: Sequence[tuple[str, str]]
    failed: Mapping[str, str]
    collisions: Sequence[str]
    words: Mapping[str, Sequence[tuple[float, str]]]
    meaning: Mapping[str, Sequence[tuple[float, str]]]


def start_indexer(root: Path, home: Path, fake: FakeEmbedder) -> Indexer:
    """The real indexer over the vault at `root`, with the state directory `home`; another one is a fresh build."""
    vault = open_vault(root, name=None, state_home=home)
    indexer = Indexer(vault, machine_id(home), lambda: fake, lambda _indexer: None, jvm.detach)
    indexer.start()
    return indexer


def settle(indexer: Indexer) -> None:
    """Wait until everything saved is indexed, embedded and durable."""
    indexer.sync(SETTLE_SECONDS)
    indexer.reindex(
        everything=False,
        lexical=True,
        vectors=True,
        force=False,
        progress=lambda _words, _share: None,
        cancelled=lambda: False,
    )


@contextmanager
def fresh_build(root: Path, home: Path, fake: FakeEmbedder) -> Iterator[Indexer]:
    """A settled index of the same files that was never anything else; gone afterwards."""
    indexer = start_indexer(root, home, fake)
    try:
        settle(indexer)
        yield indexer
    finally:
        indexer.close()
        shutil.rmtree(home, ignore_errors=True)


def hashes(indexer: Indexer) -> dict[str, str]:
    """Page id → content hash, of every served page."""
    store = indexer.store
    return {} if store is None else {page: digest for page, (_, digest) in store.catalog.served().items()}


def contents(indexer: Indexer, queries: Sequence[str], fake: FakeEmbedder) -> Contents:
    """All that a settled index holds, and its answers to `queries`."""
    store, state = indexer.store, indexer.state
    assert store is not None
    chunks = {
        each.chunk: ((page.page_id, each.ordinal), each)
        for page in store.catalog.all_pages()
        for each in store.catalog.chunks_of(page.page)
    }
    keys = {number: key for number, (key, _) in chunks.items()}
    return Contents(
        pages=dict(store.catalog.served()),
        chunks={key: (each.heading, each.line, each.text, each.hash) for key, each in chunks.values()},
        # a document of a chunk that is gone shows as its bare number
        postings=sorted(keys.get(number, ("", number)) for number in _live_documents(_lexical(store))),
        vectors={keys.get(chunk, ("", chunk)): vector for chunk, vector in store.catalog.vectors(fake.identity)},
        findings=sorted(store.catalog.findings(10_000), key=repr),
        copies=tree(indexer.vault.state / "documents"),
        skipped=state.skipped,
        failed=state.failed,
        collisions=sorted(each.path for each in state.collisions),
        words=_best_by_words(store, keys, queries),
        meaning=_best_by_meaning(store, keys, queries, fake),
    )


def differences(found: Contents, fresh: Contents) -> list[str]:
    """What differs, one line a part; empty where both are equal."""
    lines = []
    for part in fields(Contents):
        ours, theirs = getattr(found, part.name), getattr(fresh, part.name)
        if ours != theirs:
            lines.append(f"{part.name}: {_only(ours, theirs)} instead of {_only(theirs, ours)}")
    return lines


def _only(one: Any, other: Any) -> list[Any]:
    if isinstance(one, Mapping):
        return [item for item in one.items() if item[0] not in other or other[item[0]] != item[1]][:5]
    return [item for item in one if item not in other][:5]


def _lexical(store: Store) -> LexicalIndex:
    lexical = store._lexical
    assert lexical is not None
    return lexical


def _live_documents(index: LexicalIndex) -> list[int]:
    """The chunk number of every document that is not deleted, from Lucene itself."""
    live, _ = index.counts()
    everything = jvm.java_class("org.apache.lucene.search.MatchAllDocsQuery")
    with index._reading() as searcher:
        query = everything()
        top = searcher.search(query, max(live, 1))
        scored = index._java.ScoredDocs.fromTopDocs(top, searcher)
        return [int(key) for key in scored.docids]


def _best_by_words(
    store: Store, keys: Mapping[int, ChunkKey], queries: Sequence[str]
) -> dict[str, list[tuple[float, str]]]:
    """Ranked on a copy without deleted documents, whose words still count until they are merged away."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "lucene")
        shutil.copytree(store._folder / "lucene", copy, ignore=shutil.ignore_patterns("write.lock"))
        index = LexicalIndex(copy)
        try:
            index.expunge()
            index.refresh()
            assert index.counts()[1] == 0
            found = {}
            for query in queries:
                hits = index.search(query, max(len(keys), 1))
                found[query] = _ranked((keys.get(hit.key, ("", hit.key)), hit.score) for hit in hits)
            return found
        finally:
            index.close()


def _best_by_meaning(
    store: Store, keys: Mapping[int, ChunkKey], queries: Sequence[str], fake: FakeEmbedder
) -> dict[str, list[tuple[float, str]]]:
    found = {}
    for query in queries:
        hits = store.dense(fake.embed_query(query), max(len(keys), 1))
        found[query] = _ranked((keys.get(hit.key, ("", hit.key)), hit.score) for hit in hits)
    return found


def _ranked(hits: Iterator[tuple[ChunkKey, float]]) -> list[tuple[float, str]]:
    """The best pages by their best chunk, ties by page id."""
    best: dict[str, float] = {}
    for (page_id, _), score in hits:
        best[page_id] = max(best.get(page_id, score), score)
    return sorted((-round(score, DIGITS), page_id) for page_id, score in best.items())[:TOP]
