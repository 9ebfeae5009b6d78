"""The catalog over a real SQLite file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from builders import summary
from wikid_daemon.core.manifest import Known, Stamp
from wikid_daemon.core.page import Finding
from wikid_daemon.index.catalog import Catalog, CatalogDamaged
from wikid_daemon.index.catalog_rows import NewChunk, NewLink, NewPage, Written, page_of

STAMP = Stamp(10, 20, 30, 40)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    found = Catalog(tmp_path / "catalog.sqlite")
    yield found
    found.close()


def new(path: str = "a.md", *texts: str, served: bool = True, **more: object) -> NewPage:
    chunks = [NewChunk(n, n + 1, "", text, text.encode().ljust(16, b"\0")[:16]) for n, text in enumerate(texts)]
    given: dict[str, object] = {"chunks": chunks, **more}
    about = summary(title=path) if served else None
    return NewPage(path, path.removesuffix(".md"), Known(STAMP, f"hash of {texts}"), about, **given)  # type: ignore[arg-type]


def put(catalog: Catalog, *pages: NewPage) -> list[Written]:
    with catalog.write() as generation:
        return [catalog.put(each, generation) for each in pages]


def test_a_page_comes_back_as_it_was_put(catalog: Catalog) -> None:
    (written,) = put(catalog, new("a.md", "one", "two"))
    page = catalog.page_by_id("a")
    assert page is not None
    assert (page.page, page.path, page.generation, page.summary) == (written.page, "a.md", 1, summary(title="a.md"))
    assert [each.text for each in catalog.chunks_of(page.page)] == ["one", "two"]
    assert catalog.known_files() == {"a.md": Known(STAMP, "hash of ('one', 'two')")}
    assert catalog.counts() == (1, 2)
    assert catalog.generation == 1


def test_putting_a_page_again_replaces_all_of_it(catalog: Catalog) -> None:
    (first,) = put(catalog, new("a.md", "one", "two", links=[NewLink("b")]))
    (again,) = put(catalog, new("a.md", "three"))
    assert again.page == first.page
    assert sorted(again.dropped) == sorted(first.added)
    assert [page_of(chunk) for chunk in again.added] == [again.page]
    assert catalog.backlinks("b", 5) == ([], 0)
    put(catalog, new("z.md", "four"))
    assert [each.text for each in catalog.chunks(first.added).values()] == ["three"]


def test_a_removed_page_leaves_a_tombstone_until_it_comes_back(catalog: Catalog) -> None:
    (written,) = put(catalog, new("a.md", "one"))
    with catalog.write() as generation:
        removed = catalog.remove("a.md", generation)
        assert catalog.remove("never.md", generation) is None
    assert removed is not None
    assert (removed.page, list(removed.dropped)) == (written.page, list(written.added))
    assert catalog.gone_after(1) == [written.page]
    assert catalog.gone_after(2) == []
    catalog.drop_tombstones(2)
    assert catalog.gone_after(0) == []
    assert catalog.counts() == (0, 0)


def test_a_page_that_is_no_longer_served_counts_as_gone(catalog: Catalog) -> None:
    (written,) = put(catalog, new("a.md", "one"))
    finding = Finding("error", "frontmatter_missing", "a.md", "no frontmatter", 1)
    put(catalog, new("a.md", served=False, findings=[finding]))
    assert catalog.gone_after(1) == [written.page]
    assert catalog.page_by_id("a") is None
    assert list(catalog.pages_after(0)) == []
    assert set(catalog.known_files()) == {"a.md"}
    assert catalog.finding_counts() == {"frontmatter_missing": 1}


def test_a_batch_that_fails_leaves_nothing_behind(catalog: Catalog) -> None:
    put(catalog, new("a.md", "one"))
    with pytest.raises(RuntimeError), catalog.write() as generation:  # noqa: PT012
        catalog.put(new("b.md", "two"), generation)
        catalog.remove("a.md", generation)
        raise RuntimeError
    assert catalog.generation == 1
    assert set(catalog.known_files()) == {"a.md"}
    put(catalog, new("c.md", "three"))
    assert catalog.generation == 2


def test_what_was_committed_is_there_after_opening_again(tmp_path: Path) -> None:
    first = Catalog(tmp_path / "catalog.sqlite")
    put(first, new("a.md", "one"))
    first.close()
    again = Catalog(tmp_path / "catalog.sqlite")
    assert (again.generation, again.counts()) == (1, (1, 1))
    again.close()


def test_readers_of_other_threads_see_a_batch_whole_or_not_at_all(catalog: Catalog) -> None:
    seen: list[tuple[int, int]] = []

    def read() -> None:
        seen.append(catalog.counts())

    put(catalog, new("a.md", "one"))
    with catalog.write() as generation:
        catalog.put(new("b.md", "two"), generation)
        thread = threading.Thread(target=read)
        thread.start()
        thread.join(30)
    read()
    assert seen == [(1, 1), (2, 2)]


def test_vectors_belong_to_text_and_model_and_outlive_the_page(catalog: Catalog) -> None:
    a, b = put(catalog, new("a.md", "same", "own"), new("b.md", "same"))
    assert sorted(catalog.chunks_without_vector("m1")) == sorted([*a.added, *b.added])
    digest = catalog.chunks(b.added)[b.added[0]].hash
    catalog.add_vectors("m1", [(digest, b"\0\0\0\0")])
    assert {chunk for chunk, _ in catalog.vectors("m1")} == {a.added[0], b.added[0]}
    assert list(catalog.vectors("m2")) == []
    assert catalog.chunks_without_vector("m1") == [a.added[1]]
    with catalog.write() as generation:
        catalog.remove("a.md", generation)
        catalog.remove("b.md", generation)
    (moved,) = put(catalog, new("moved.md", "same"))
    assert [chunk for chunk, _ in catalog.vectors("m1", moved.page)] == list(moved.added)
    catalog.drop_vectors("m1")
    assert catalog.chunks_without_vector("m1") == list(moved.added)


def test_touching_a_file_changes_its_stamp_and_no_generation(catalog: Catalog) -> None:
    put(catalog, new("a.md", "one"))
    catalog.touch([("a.md", Stamp(1, 2, 3, 4))])
    assert catalog.known_files()["a.md"].stamp == Stamp(1, 2, 3, 4)
    page = catalog.page_by_id("a")
    assert page is not None
    assert page.generation == 1


def test_relations_and_backlinks_are_found_from_either_end(catalog: Catalog) -> None:
    a, b = put(
        catalog,
        new("a.md", "x", links=[NewLink("b"), NewLink("b", "contradicts"), NewLink("b", "applies_under", "on Linux")]),
        new("b.md", "y", links=[NewLink("a")]),
    )
    assert {(each.source, each.relation, each.scope) for each in catalog.relations_to(["b"])} == {
        (a.page, "contradicts", None),
        (a.page, "applies_under", "on Linux"),
    }
    assert catalog.backlinks("b", 5) == (["a"], 1)
    assert catalog.backlinks("b", 0) == ([], 1)
    assert catalog.backlinks("a", 5) == (["b"], 1)
    assert catalog.numbers_of(["a", "b", "c"]) == {"a": a.page, "b": b.page}


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_file_that_is_no_catalog_is_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "catalog.sqlite"
    path.write_bytes(content)
    with pytest.raises(CatalogDamaged):
        Catalog(path)


def test_another_schema_is_damaged_rather_than_guessed_at(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    Catalog(path).close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version=9999")
    connection.close()
    with pytest.raises(CatalogDamaged):
        Catalog(path)


def test_a_database_that_lost_a_table_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    Catalog(path).close()
    connection = apsw.Connection(str(path))
    connection.execute("DROP TABLE state")
    connection.close()
    with pytest.raises(CatalogDamaged):
        Catalog(path)


def in_place(catalog: Catalog) -> bool:
    return catalog.in_place


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_file_that_is_not_the_one_that_was_opened_is_noticed(tmp_path: Path, suffix: str, how: str) -> None:
    catalog = Catalog(tmp_path / "catalog.sqlite")
    catalog.set_state("key", "value")
    assert in_place(catalog)
    path = tmp_path / f"catalog.sqlite{suffix}"
    copy = path.read_bytes()
    path.unlink()
    if how == "replaced":
        path.write_bytes(copy)
    assert not in_place(catalog)
    catalog.close()


def test_a_database_that_became_shorter_is_noticed(tmp_path: Path) -> None:
    Catalog(tmp_path / "catalog.sqlite").close()
    catalog = Catalog(tmp_path / "catalog.sqlite")
    assert in_place(catalog)
    with (tmp_path / "catalog.sqlite").open("r+b") as file:
        file.truncate(4_096)
    assert not in_place(catalog)
    catalog.close()
