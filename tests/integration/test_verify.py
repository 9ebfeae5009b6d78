"""`index/verify`: a live index against a fresh build, over real folders and a real index that is harmed on purpose."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest

from builders import FakeEmbedder, base_notes, numbered_note, until, write
from wikid_daemon import files
from wikid_daemon.files import FileBytes
from wikid_daemon.fresh import FreshIndex
from wikid_daemon.index import jvm
from wikid_daemon.index.store import Store
from wikid_daemon.indexer import Indexer
from wikid_daemon.updater import Cancelled
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import VaultError, open_vault
from wikid_daemon.verification import Verified, verify

ALL_PARTS = ("pages", "vectors", "documents", "ranking")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "notes"
    base_notes(place)
    return place


@pytest.fixture
def indexer(tmp_path: Path, root: Path) -> Iterator[Indexer]:
    """A settled index of twenty notes, each chunk with its vector."""
    fake, home = FakeEmbedder(), tmp_path / "state"
    made = Indexer(
        open_vault(root, name=None, state_home=home), machine_id(home), lambda: fake, lambda _: None, jvm.detach
    )
    made.start()
    made.sync(30)
    until(lambda: made.embedding_pending == 0 and made.store, "every chunk having a vector")
    yield made
    made.close()


def verified(indexer: Indexer) -> Verified:
    return verify(indexer, lambda _words, _share: None, lambda: False)


def kinds(indexer: Indexer) -> set[tuple[str, str, str]]:
    return {(each.kind, each.path, each.detail) for each in verified(indexer).differences}


def store_of(indexer: Indexer) -> Store:
    assert indexer.store is not None
    return indexer.store


def harmed(indexer: Indexer, statement: str, *values: object) -> None:
    """Change the live catalog behind the daemon's back."""
    connection = apsw.Connection(str(indexer.vault.state / "current" / "catalog.sqlite"))
    connection.set_busy_timeout(5_000)
    connection.execute(statement, values)
    connection.close()


def test_an_index_that_went_through_edits_equals_a_fresh_build(indexer: Indexer, root: Path) -> None:
    for number in range(1, 8):
        write(root, f"n{number:02}.md", numbered_note(number) + f"\n## More {number}\n\n" + "many more words " * 200)
        (root / f"n{number + 8:02}.md").unlink()
        indexer.sync(30)
    (root / "n01.md").rename(root / "N01 again.md")
    found = verified(indexer)
    assert found.differences == ()
    assert found.compared == ALL_PARTS
    assert (found.pages, found.probes) == (13, 26)
    assert found.chunks > 13


def test_documents_that_are_deleted_and_not_merged_away_are_told(indexer: Indexer, root: Path) -> None:
    assert verified(indexer).deleted_share == 0
    (root / "n07.md").unlink()
    assert verified(indexer).deleted_share == 0.05


def test_verifying_embeds_nothing_and_leaves_nothing_behind(indexer: Indexer, root: Path) -> None:
    before = store_of(indexer).embedded
    write(root, "late.md", "# Late\n\nlate words\n")
    assert verified(indexer).differences == ()
    assert sorted(each.name for each in indexer.vault.state.iterdir() if each.name.startswith("staging-")) == []
    until(lambda: store_of(indexer).embedded == before + 1, "the new note having its vector")


def test_a_page_that_the_index_lost_or_made_up_is_named(indexer: Indexer) -> None:
    harmed(indexer, "DELETE FROM pages WHERE path='n03.md'")
    harmed(indexer, "UPDATE pages SET path='ghost.md', page_id='ghost' WHERE path='n04.md'")
    found = kinds(indexer)
    assert ("page_missing", "n03.md", "") in found
    assert ("page_missing", "n04.md", "") in found
    assert ("page_extra", "ghost.md", "") in found


def test_each_part_of_a_page_is_compared(indexer: Indexer) -> None:
    harmed(indexer, "UPDATE pages SET content_hash='0' WHERE path='n01.md'")
    harmed(indexer, "UPDATE chunks SET heading='Other' WHERE page=(SELECT page FROM pages WHERE path='n02.md')")
    harmed(indexer, "INSERT INTO links SELECT page, 'n09', NULL, NULL FROM pages WHERE path='n03.md'")
    harmed(indexer, "INSERT INTO findings VALUES('n04.md', 'error', 'code', 'message', 1, 1)")
    harmed(indexer, "UPDATE pages SET summary=NULL WHERE path='n05.md'")
    found = kinds(indexer)
    for path, part in (("1", "hash"), ("2", "chunks"), ("3", "links"), ("4", "findings"), ("5", "summary")):
        assert ("page_differs", f"n0{path}.md", part) in found


def test_lucene_documents_are_compared_with_the_chunks(indexer: Indexer) -> None:
    lexical, catalog = store_of(indexer).lexical_index, store_of(indexer).catalog
    assert lexical is not None
    number = catalog.numbers_of(["n01", "n02"])
    lexical.remove(number["n01"])
    harmed(indexer, "DELETE FROM chunks WHERE page=?", number["n02"])
    lexical.refresh()
    lexical.commit(catalog.generation)
    found = kinds(indexer)
    assert ("document_missing", "n01.md", "") in found
    assert ("document_extra", "n02.md", "") in found


def test_words_that_lucene_has_wrong_show_in_the_ranking(indexer: Indexer) -> None:
    store = store_of(indexer)
    lexical, number = store.lexical_index, store.catalog.numbers_of(["n01"])["n01"]
    assert lexical is not None
    other = store.catalog.numbers_of(["n02"])["n02"]
    harmed(indexer, "UPDATE chunks SET text='# Note 1\n\nquite other words' WHERE page=?", number)
    store.rebuild_lexical()
    text = store.catalog.chunks_of(other)[0].text
    harmed(indexer, "UPDATE chunks SET text=? WHERE page=?", text.replace("tok02", "tok01"), number)
    found = kinds(indexer)
    assert any(kind == "ranking_differs" and path == "n01.md" for kind, path, _ in found)


def test_vectors_that_are_searched_are_compared_with_those_kept(indexer: Indexer) -> None:
    store = store_of(indexer)
    dense, numbers = store.dense_index, store.catalog.numbers_of(["n01", "n02"])
    assert dense is not None
    first, second = (store.catalog.chunks_of(numbers[each])[0].chunk for each in ("n01", "n02"))
    wrong = np.zeros((1, dense.dims), np.float32)
    wrong[0, 0] = 1.0
    dense.remove([first])
    dense.add([second], wrong)
    dense.add([999 << 16], wrong)
    assert kinds(indexer) == {
        ("vector_missing", "n01.md", ""),
        ("vector_differs", "n02.md", ""),
        ("vector_extra", "", ""),
    }


def test_a_page_that_cannot_be_read_now_is_kept_and_no_difference(
    indexer: Indexer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = files.read_regular

    def refused(path: Path, limit: int) -> FileBytes:
        if path.name == "n05.md":
            raise PermissionError(errno.EACCES, "no")
        return read(path, limit)

    monkeypatch.setattr(files, "read_regular", refused)
    found = verified(indexer)
    assert found.differences == ()
    assert found.compared == ("pages", "vectors", "documents")


def test_a_note_saved_while_both_are_compared_is_no_difference(
    indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, saved = FreshIndex.look, list[int]()

    def looks(self: FreshIndex) -> bool:
        if len(saved) < 2:
            saved.append(1)
            write(root, f"between{len(saved)}.md", "# Between\n\nbetween two looks\n")
        return look(self)

    monkeypatch.setattr(FreshIndex, "look", looks)
    assert kinds(indexer) == set()
    assert len(saved) == 2


def test_a_folder_that_is_gone_is_refused_and_a_cancelled_call_ends(indexer: Indexer, root: Path) -> None:
    with pytest.raises(Cancelled):
        verify(indexer, lambda _words, _share: None, lambda: True)
    root.rename(root.with_name("away"))
    with pytest.raises(VaultError):
        verified(indexer)


def test_progress_is_told(indexer: Indexer) -> None:
    told: list[str] = []
    verify(indexer, lambda words, _share: told.append(words), lambda: False)
    assert set(told) == {"building a fresh index", "comparing"}
