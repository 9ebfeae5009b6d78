"""What an index was made with is recorded, and a part made with something else is made anew by itself, and told."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders import FakeEmbedder, base_notes, until
from wikid_daemon import files, health, updater
from wikid_daemon.core import chunking
from wikid_daemon.files import FileBytes
from wikid_daemon.index import catalog, jvm, lucene
from wikid_daemon.index import store as store_module
from wikid_daemon.index.catalog_rows import NewPage
from wikid_daemon.index.pages import new_page
from wikid_daemon.indexer import Indexer
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import open_vault

Open = Callable[..., Indexer]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens the same vault of twenty notes again, after closing it, and waits until it is settled."""
    running: list[Indexer] = []
    base_notes(tmp_path / "notes")

    def again(fake: FakeEmbedder | None = None) -> Indexer:
        for each in running:
            each.close()
        home = tmp_path / "home"
        vault = open_vault(tmp_path / "notes", name=None, state_home=home)
        indexer = Indexer(vault, machine_id(home), lambda: fake, lambda _: None, jvm.detach)
        running.append(indexer)
        indexer.start()
        indexer.sync(30)
        if fake is not None:
            until(lambda: indexer.embedding_pending == 0, "every chunk having a vector")
        return indexer

    yield again
    for each in running:
        each.close()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the files that were read and cut, in order."""
    paths: list[str] = []
    cut = new_page

    def counted(path: str, *given: object, **options: bool) -> NewPage:
        paths.append(path)
        return cut(path, *given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(updater, "new_page", counted)
    return paths


def rebuilt(indexer: Indexer) -> list[str]:
    return [each.kind for each in health.vault_status(indexer).rebuilt]


def found(indexer: Indexer) -> int:
    return 0 if indexer.store is None else len(indexer.store.lexical("tok05zebra", 10))


def test_nothing_is_made_anew_without_a_reason(opened: Open, parsed: list[str]) -> None:
    fake = FakeEmbedder()
    assert rebuilt(opened(fake)) == []
    parsed.clear()
    indexer = opened(fake)
    assert (rebuilt(indexer), parsed) == ([], [])
    assert health.vault_status(indexer).versions["chunker"] == chunking.VERSION


def test_pages_cut_by_another_version_are_read_again_once(
    opened: Open, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeEmbedder()
    opened(fake)
    parsed.clear()
    fake.embedded.clear()
    monkeypatch.setattr(store_module, "CHUNKER", "another")
    indexer = opened(fake)
    assert (rebuilt(indexer), len(parsed), found(indexer)) == (["pages_read_again"], 20, 1)
    parsed.clear()
    assert (rebuilt(opened(fake)), parsed) == ([], [])
    assert fake.embedded == []


def test_a_file_that_cannot_be_read_now_is_cut_anew_later(
    opened: Open, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened()
    read = files.read_regular

    def refused(path: Path, limit: int) -> FileBytes:
        if path.name == "n05.md":
            raise PermissionError(errno.EACCES, "no")
        return read(path, limit)

    monkeypatch.setattr(store_module, "CHUNKER", "another")
    with monkeypatch.context() as patched:
        patched.setattr(files, "read_regular", refused)
        indexer = opened()
        assert found(indexer) == 1
        # a look that comes after the patch would read the file
        indexer.close()
    parsed.clear()
    assert rebuilt(opened()) == ["pages_read_again"]
    assert "n05.md" in parsed
    assert rebuilt(opened()) == []


@pytest.mark.parametrize("part", ["LUCENE", "SCHEMA"])
def test_a_lucene_index_of_another_version_is_fed_anew(
    opened: Open, parsed: list[str], monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    opened().close()  # which commits
    parsed.clear()
    monkeypatch.setattr(lucene, part, "another")
    indexer = opened()
    assert (rebuilt(indexer), found(indexer), parsed) == (["lexical_rebuilt"], 1, [])
    assert rebuilt(opened()) == []


def test_vectors_of_another_model_are_made_anew_and_told(opened: Open) -> None:
    first, other = FakeEmbedder(), FakeEmbedder("fake-2")
    opened(first)
    assert rebuilt(opened(other)) == ["vectors_rebuilt"]
    assert rebuilt(opened(other)) == []
    # those of the first one are still there
    assert rebuilt(opened(first)) == []


def test_a_catalog_of_another_schema_is_made_anew(
    opened: Open, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened()
    parsed.clear()
    monkeypatch.setattr(catalog, "SCHEMA", 99)
    indexer = opened()
    assert "catalog_rebuilt" in rebuilt(indexer)
    assert (len(parsed), found(indexer)) == (20, 1)
