"""A disk that fills at each kind of write: what is indexed goes on answering, and all is found once there is room."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from builders import FakeEmbedder, page, tree, until, write
from comparison import SETTLE_SECONDS, contents, differences, fresh_build, settle, start_indexer
from wikid_daemon import files
from wikid_daemon.index.catalog import Catalog
from wikid_daemon.index.lucene import LexicalIndex, LexicalIndexDamaged
from wikid_daemon.indexer import Indexer
from wikid_daemon.vault.vault import VaultError

QUERIES = ("retry budget", "outbox pattern", "tokfull")
KINDS = {
    "a page's copy": (files, "atomic_write", OSError(errno.ENOSPC, "full")),
    "a page in the catalog": (Catalog, "put", apsw.FullError("full")),
    "the end of a transaction": (Catalog, "set_state", apsw.FullError("full")),
    "a page in Lucene": (LexicalIndex, "put", LexicalIndexDamaged("full")),
    "what Lucene makes lasting": (LexicalIndex, "commit", LexicalIndexDamaged("full")),
    "a vector": (Catalog, "add_vectors", apsw.FullError("full")),
}


def own_files(indexer: Indexer) -> dict[str, str]:
    return {path: digest for path, digest in tree(indexer.vault.root).items() if "/meta/wikid/" not in path}


def found(indexer: Indexer, query: str) -> bool:
    store = indexer.store
    try:
        return store is not None and bool(store.lexical(query, 1))
    except LexicalIndexDamaged:
        return False  # it was closed meanwhile, to be opened anew


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_costs_no_answer_and_all_is_found_when_there_is_room(
    sample_vault: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    owner, name, problem = KINDS[kind]
    met: list[str] = []

    def refuse(*_given: object, **_options: object) -> None:
        met.append(kind)
        raise problem

    monkeypatch.setattr("wikid_daemon.indexer.TROUBLE_SECONDS", 0.05)
    monkeypatch.setattr("wikid_daemon.indexer.COMMIT_SECONDS", 0.05)
    fake = FakeEmbedder()
    indexer = start_indexer(sample_vault("project"), tmp_path / "state", fake)
    settle(indexer)
    with monkeypatch.context() as full:
        full.setattr(owner, name, refuse)
        write(indexer.vault.pages_root, "concepts/full.md", page("tokfull", title="Full"))
        before = own_files(indexer)
        indexer.wake()
        until(lambda: len(met) > 2, "the trouble, and two more tries")
        until(lambda: indexer.state.state == "failed" and indexer.state.reason, "the trouble being told")
        until(lambda: found(indexer, "outbox pattern"), "an answer meanwhile")
        with pytest.raises(VaultError):
            indexer.reindex(
                everything=True,
                lexical=True,
                vectors=True,
                force=True,
                progress=lambda _words, _share: None,
                cancelled=lambda: False,
            )
    indexer.sync(SETTLE_SECONDS)
    settle(indexer)
    assert own_files(indexer) == before
    assert indexer.state.state == "ready"
    with fresh_build(indexer.vault.root, tmp_path / "fresh", FakeEmbedder()) as fresh:
        assert differences(contents(indexer, QUERIES, fake), contents(fresh, QUERIES, fake)) == []
    indexer.close()
