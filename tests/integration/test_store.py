"""Catalog, Lucene and vectors as one index: one generation, and what a crash or damage leaves."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from builders import FakeEmbedder
from wikid_daemon.core.manifest import Known, Stamp
from wikid_daemon.index import jvm
from wikid_daemon.index.catalog_rows import NewPage
from wikid_daemon.index.lucene import LexicalIndex
from wikid_daemon.index.pages import new_page, stored_embedding_text
from wikid_daemon.index.store import Store

FAKE = FakeEmbedder()


def note(path: str, text: str) -> NewPage:
    stamp = Stamp(len(text), 1, 1, 1)
    return new_page(path, path.removesuffix(".md"), text.encode(), Known(stamp, f"{path}{text}"), strict=False)


def found(store: Store, query: str) -> list[str]:
    chunks = [hit.key for hit in store.lexical(query, 10)]
    loaded = store.load(chunks)
    return [loaded[key].page.page_id for key in chunks if key in loaded]


def embed(store: Store, fake: FakeEmbedder = FAKE) -> int:
    """Give every chunk its vector; how many were made."""
    missing = store.missing_vectors(100, ())
    if missing:
        vectors = [fake.embed_query(stored_embedding_text(chunk, title)) for chunk, title in missing]
        store.add_vectors([chunk.hash for chunk, _ in missing], np.stack(vectors))
    return len(missing)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "current"


def filled(folder: Path) -> Store:
    store = Store(folder)
    store.apply([note(f"n{n}.md", f"# N{n}\n\nword{n} shared\n") for n in range(5)], [])
    return store


def test_a_batch_is_one_generation_and_searchable_at_once(folder: Path) -> None:
    store = filled(folder)
    assert store.generation == 1
    assert found(store, "word3") == ["n3"]
    applied = store.apply([note("n3.md", "# N3\n\nother\n")], ["n4.md", "never.md"])
    assert (applied.written, applied.removed, applied.generation) == (1, 1, 2)
    assert (found(store, "word3"), found(store, "other"), found(store, "word4")) == ([], ["n3"], [])
    store.close()


def test_a_generation_is_told_once_its_pages_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(folder)
    told = []
    refresh = LexicalIndex.refresh

    def shown(index: LexicalIndex) -> None:
        told.append((store.generation, found(store, "later")))
        refresh(index)
        told.append((store.generation, found(store, "later")))

    monkeypatch.setattr(LexicalIndex, "refresh", shown)
    store.apply([note("new.md", "# New\n\nlater\n")], [])
    assert told == [(1, []), (1, ["new"])]
    assert store.generation == 2


def test_unchanged_text_under_another_name_keeps_its_vector(folder: Path) -> None:
    store = filled(folder)
    store.use_model(FAKE.identity, FAKE.dims)
    assert embed(store) == 5
    store.apply([note("moved.md", "# N3\n\nword3 shared\n")], ["n3.md"])
    assert embed(store) == 0
    assert store.embedded == 5
    nearest = store.dense(FAKE.embed_query("N3 word3 shared"), 1)
    assert store.load([nearest[0].key])[nearest[0].key].page.page_id == "moved"
    store.close()


def test_vectors_of_two_models_are_never_mixed(folder: Path) -> None:
    store, other = filled(folder), FakeEmbedder("fake-2", dims=16)
    store.use_model(FAKE.identity, FAKE.dims)
    embed(store)
    store.use_model(other.identity, other.dims)
    assert (store.embedded, store.dense(other.embed_query("word3"), 5)) == (0, [])
    embed(store, other)
    assert store.embedded == 5
    store.use_model(FAKE.identity, FAKE.dims)
    assert (store.embedded, len(store.missing_vectors(10, ()))) == (5, 0)
    store.close()


def test_vectors_are_there_after_opening_again(folder: Path) -> None:
    store = filled(folder)
    store.use_model(FAKE.identity, FAKE.dims)
    embed(store)
    store.close()
    again = Store(folder)
    again.use_model(FAKE.identity, FAKE.dims)
    assert (again.embedded, len(again.missing_vectors(10, ()))) == (5, 0)
    again.close()


CRASH = """
    import os, sys
    sys.path[:0] = {path!r}
    from pathlib import Path
    from test_store import filled, note
    store = filled(Path({folder!r}))
    store.commit()
    store.apply([note("n1.md", "# N1\\n\\nchanged\\n"), note("late.md", "# L\\n\\nlateword\\n")], ["n2.md"])
    store.apply([note("n3.md", "")], ["n4.md"])
    os._exit(9)
"""


def test_what_lucene_had_not_committed_at_a_crash_is_fed_again(folder: Path) -> None:
    here = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    script = textwrap.dedent(CRASH).format(path=here, folder=str(folder))
    crashed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert crashed.returncode == 9, crashed.stderr
    store = Store(folder)
    assert store.notes == []
    assert store.generation == 3
    assert found(store, "changed") == ["n1"]
    assert found(store, "lateword") == ["late"]
    assert [found(store, f"word{n}") for n in range(5)] == [["n0"], [], [], [], []]
    store.close()
    again = Store(folder)
    assert found(again, "lateword") == ["late"]
    again.close()


def empty(lucene: Path) -> None:
    for path in lucene.iterdir():
        path.unlink()


def garbage(lucene: Path) -> None:
    for path in lucene.glob("segments*"):
        path.write_bytes(b"no" * 500)


DAMAGE: dict[str, Callable[[Path], None]] = {"removed": shutil.rmtree, "emptied": empty, "garbage": garbage}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_word_index_is_fed_anew_from_the_catalog(folder: Path, name: str) -> None:
    filled(folder).close()
    DAMAGE[name](folder / "lucene")
    store = Store(folder)
    assert [found(store, f"word{n}") for n in range(5)] == [[f"n{n}"] for n in range(5)]
    if name == "garbage":
        assert [kind for kind, _ in store.notes] == ["lexical_rebuilt"]
    store.close()


def test_a_damaged_catalog_starts_empty_and_says_so(folder: Path) -> None:
    filled(folder).close()
    for path in folder.glob("catalog.sqlite*"):
        path.write_bytes(b"no database" * 500)
    store = Store(folder)
    assert [kind for kind, _ in store.notes] == ["catalog_rebuilt"]
    assert (store.catalog.counts(), found(store, "word1")) == ((0, 0), [])
    store.close()


def test_a_word_index_without_its_catalog_is_not_believed(folder: Path) -> None:
    filled(folder).close()
    for path in folder.glob("catalog.sqlite*"):
        path.unlink()
    store = Store(folder)
    assert found(store, "word1") == []
    store.apply([note("new.md", "# New\n\nfresh\n")], [])
    assert found(store, "fresh") == ["new"]
    assert store.lexical("word1", 10) == []
    store.close()


def test_a_word_index_of_another_catalog_is_not_believed(tmp_path: Path, folder: Path) -> None:
    filled(folder).close()
    other = Store(tmp_path / "other")
    other.apply([note("o1.md", "# O\n\noutsider\n")], [])
    other.apply([note("o2.md", "# O\n\noutsider again\n")], [])
    other.close()
    shutil.rmtree(folder / "lucene")
    shutil.move(tmp_path / "other" / "lucene", folder / "lucene")
    store = Store(folder)
    assert [kind for kind, _ in store.notes] == ["lexical_rebuilt"]
    assert (found(store, "outsider"), found(store, "word1")) == ([], ["n1"])
    store.close()


def test_a_batch_that_fails_is_in_neither_index(folder: Path) -> None:
    store = filled(folder)

    class Broken(Sequence[NewPage]):
        """A batch whose second page cannot be made."""

        def __getitem__(self, place: object) -> NewPage:  # type: ignore[override]
            if place == 0:
                return note("n1.md", "# N1\n\nhalfway\n")
            raise RuntimeError

        def __len__(self) -> int:
            return 2

    with pytest.raises(RuntimeError):
        store.apply(Broken(), ["n2.md"])
    assert (store.generation, found(store, "halfway")) == (1, [])
    assert (found(store, "word1"), found(store, "word2")) == (["n1"], ["n2"])
    store.apply([note("n1.md", "# N1\n\nwhole\n")], [])
    assert found(store, "whole") == ["n1"]
    store.close()


def test_rebuilding_the_word_index_changes_no_answer(folder: Path) -> None:
    store = filled(folder)
    store.apply([], ["n2.md"])
    store.rebuild_lexical()
    assert [found(store, f"word{n}") for n in range(5)] == [["n0"], ["n1"], [], ["n3"], ["n4"]]
    store.close()
    again = Store(folder)
    assert (again.notes, found(again, "word1")) == ([], ["n1"])
    again.close()


def test_without_java_vectors_still_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise jvm.JavaUnavailable("no Java 21 or newer: set JAVA_HOME to one")

    with monkeypatch.context() as patched:
        patched.setattr(jvm, "start", refuse)
        store = filled(folder)
        assert (store.has_lexical, store.java_missing) == (False, "no Java 21 or newer: set JAVA_HOME to one")
        store.use_model(FAKE.identity, FAKE.dims)
        embed(store)
        assert store.lexical("word3", 5) == []
        nearest = store.dense(FAKE.embed_query("N3 word3 shared"), 1)
        assert store.load([nearest[0].key])[nearest[0].key].page.page_id == "n3"
        store.apply([], ["n4.md"])
        store.close()
    back = Store(folder)  # Java is there again: words catch up
    assert (found(back, "word3"), found(back, "word4")) == (["n3"], [])
    back.close()
