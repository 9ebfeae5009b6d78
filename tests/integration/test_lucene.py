"""Lucene over a real index folder; Java runs in this process."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from wikid_daemon.index.admission import Admission
from wikid_daemon.index.lucene import LexicalIndex, LexicalIndexDamaged
from wikid_daemon.index.lucene_document import LexicalChunk


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LexicalIndex]:
    found = LexicalIndex(tmp_path / "lucene")
    yield found
    found.close()


def chunk(key: int, body: str, **more: str) -> LexicalChunk:
    given = {"title": "", "aliases": "", "headings": "", "page_id": f"p{key}", "type": "concept", **more}
    return LexicalChunk(key=key, body=body, **given)


def fill(index: LexicalIndex, *chunks: LexicalChunk) -> None:
    for each in chunks:
        index.put(each.key, [each])
    index.refresh()


def found(index: LexicalIndex, query: str, *types: str) -> list[int]:
    return [hit.key for hit in index.search(query, 10, Admission(types))]


def test_a_chunk_is_found_once_it_is_shown(index: LexicalIndex) -> None:
    index.put(1, [chunk(1, "the harbour master")])
    assert found(index, "harbour") == []
    index.refresh()
    assert found(index, "harbours") == [1]


def test_a_page_is_replaced_and_removed_with_all_its_chunks(index: LexicalIndex) -> None:
    index.put(7, [chunk(1, "alpha"), chunk(2, "beta")])
    index.put(7, [chunk(3, "gamma")])
    index.refresh()
    assert (found(index, "alpha beta"), found(index, "gamma")) == ([], [3])
    index.remove(7)
    index.refresh()
    assert found(index, "gamma") == []
    assert index.counts()[0] == 0


def test_pages_of_many_chunks_are_written_whole(index: LexicalIndex) -> None:
    index.put(1, [chunk(n, f"word{n}") for n in range(1, 200)])
    index.put(2, [chunk(500, "few")])
    index.put(3, [chunk(n, f"word{n}") for n in range(600, 700)])
    index.refresh()
    assert index.counts()[0] == 199 + 1 + 100
    assert [found(index, f"word{n}") for n in (1, 64, 65, 199, 699)] == [[1], [64], [65], [199], [699]]


def test_only_a_commit_outlives_the_process(tmp_path: Path) -> None:
    first = LexicalIndex(tmp_path / "lucene")
    fill(first, chunk(1, "alpha"))
    first.commit(5)
    fill(first, chunk(2, "beta"))
    first.close()
    again = LexicalIndex(tmp_path / "lucene")
    assert (again.cursor, found(again, "alpha"), found(again, "beta")) == (5, [1], [])
    again.close()


@pytest.mark.parametrize(
    ("body", "query"),
    [
        ("call foo_bar.baz first", "foo_bar.baz"),
        ("call foo_bar.baz first", "baz"),
        ("release 1.0.21 is out", "1.0.21"),
        ("see src/index/store.py there", "src/index/store.py"),
        ("see src/index/store.py there", "store.py"),
        ("use C++ for it", "C++"),
        ("set --no-start now", "no-start"),
        ("class HttpServerFactory here", "HttpServerFactory"),
        ("class HttpServerFactory here", "server factory"),
        ("the pre-edit hook", "pre-edit"),
        ("mail me@example.org", "me@example.org"),
        ("AND stands alone", "AND"),
        ("not to be", "NOT"),
        ("party 🎉 time", "🎉"),
        ("数据库连接池配置", "连接池"),
        ("東京都の天気", "天気"),
        ("데이터베이스를 설정", "데이터베이스"),
        ("Redis 缓存 雪崩", "redis缓存"),
        ("ＡＰＩ 設計", "API"),
        (unicodedata.normalize("NFD", "Café Übergabe"), "café"),
        ("Café Übergabe", unicodedata.normalize("NFD", "übergabe")),
        (unicodedata.normalize("NFD", "학점인정"), "학점인정"),
    ],
)
def test_words_identifiers_and_scripts(index: LexicalIndex, body: str, query: str) -> None:
    fill(index, chunk(1, body), chunk(2, "something else entirely"))
    assert found(index, query)[:1] == [1]


@pytest.mark.parametrize(
    "query",
    [
        *("", " ", "*", "(", "???", 'say "hi', "a AND (b", "field:value", "x~2", "[a TO b]", "\\", "/re(/", "\0"),
        *("汉" * 2_000, "x" * 2_000, " ".join("abcdefghij"[n % 10] for n in range(1_000)), "a_b." * 500, "\U0010ffff"),
    ],
)
def test_no_query_is_an_error(index: LexicalIndex, query: str) -> None:
    fill(index, chunk(1, "something"))
    assert isinstance(index.search(query, 10), list)
    assert isinstance(index.terms(query), tuple)


def test_a_title_an_alias_and_a_heading_are_searched(index: LexicalIndex) -> None:
    fill(index, chunk(1, "x", title="Moorings"), chunk(2, "x", aliases="Anchorage"), chunk(3, "x", headings="Tides"))
    assert [found(index, query) for query in ("mooring", "anchorage", "tide")] == [[1], [2], [3]]


def test_japanese_is_found_by_its_words_in_any_form(index: LexicalIndex) -> None:
    fill(index, chunk(1, "毎朝公園を走った。"), chunk(2, "夜は本を読んだ。"))
    assert found(index, "走る") == [1]
    assert found(index, "読む") == [2]


def test_japanese_without_kana_is_found_and_chinese_stays_as_it_is(index: LexicalIndex) -> None:
    fill(index, chunk(1, "接続プールの設定です。"), chunk(2, "数据库连接池的设置"), chunk(3, "데이터베이스 연결 풀"))
    assert found(index, "接続") == [1]
    assert found(index, "连接池") == [2]
    assert found(index, "연결") == [3]


def test_types_narrow_the_search_without_minding_case(index: LexicalIndex) -> None:
    fill(index, chunk(1, "harbour", type="Concept "), chunk(2, "harbour", type="entity"))
    assert found(index, "harbour", "concept") == [1]
    assert found(index, "harbour", " ENTITY") == [2]
    assert sorted(found(index, "harbour", "entity", "concept")) == [1, 2]
    assert found(index, "harbour", "case") == []


def test_rare_words_weigh_more_than_common_ones(index: LexicalIndex) -> None:
    fill(index, *(chunk(n, "harbour" + (" lighthouse" if n == 5 else "")) for n in range(1, 11)))
    weights = dict(index.terms("harbour lighthouse")[0])
    assert weights["lighthous"] > weights["harbour"]
    assert found(index, "harbour lighthouse")[0] == 5


def test_words_that_stand_nowhere_are_told_apart_from_rare_ones(index: LexicalIndex) -> None:
    fill(index, chunk(1, "the harbour lighthouse"), chunk(2, "灯台 の 光"))
    weights, unknown = index.terms("lighthouse Leuchtturm 灯台 燈塔")
    assert weights[0] == ("lighthous", 1.0)
    assert unknown == ["leuchtturm", "燈塔"]


def test_a_word_of_another_name_is_not_unknown(index: LexicalIndex) -> None:
    fill(index, chunk(1, "a cluster of machines", aliases="K8s \n Operation Heron"))
    assert index.terms("operation heron k8s elsewhere")[1] == ["elsewher"]


def test_clearing_drops_everything(index: LexicalIndex) -> None:
    fill(index, chunk(1, "alpha"))
    index.commit(3)
    index.clear()
    index.refresh()
    assert (index.counts()[0], index.cursor) == (0, 0)


def test_expunging_forgets_the_deleted(index: LexicalIndex) -> None:
    fill(index, *(chunk(n, "alpha") for n in range(1, 21)))
    for page in range(1, 20):
        index.remove(page)
    index.refresh()
    index.expunge()
    index.refresh()
    assert index.counts() == (1, 0)


@pytest.mark.parametrize("damage", ["garbage", "truncated", "missing"])
def test_a_damaged_folder_is_told_apart_from_an_error(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "lucene"
    first = LexicalIndex(folder)
    fill(first, chunk(1, "alpha"))
    first.commit(1)
    first.close()
    for path in folder.iterdir():
        if path.name == "write.lock":
            continue
        if damage == "missing" and not path.name.startswith("segments"):
            path.unlink()
        elif damage == "truncated":
            path.write_bytes(path.read_bytes()[:10])
        elif damage == "garbage":
            path.write_bytes(b"garbage" * 100)
    with pytest.raises(LexicalIndexDamaged):
        LexicalIndex(folder)


def test_a_lock_file_left_by_a_crash_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / "lucene"
    folder.mkdir()
    (folder / "write.lock").touch()
    LexicalIndex(folder).close()


@pytest.mark.parametrize("field", ["title", "headings", "aliases", "page_id", "type", "body"])
def test_no_chunk_is_too_much_for_the_index(index: LexicalIndex, field: str) -> None:
    given = {"body": "harbour", field: "y" * 40_000 + " harbour"}
    fill(index, chunk(1, given.pop("body"), **given))
    assert found(index, "harbour") == [1]


def test_an_index_that_stops_writing_is_searched_until_it_is_closed(tmp_path: Path) -> None:
    first = LexicalIndex(tmp_path / "lucene")
    first.put(1, [chunk(1, "harbour")])
    first.commit(1)
    first.put(2, [chunk(2, "harbour lights")])
    first.refresh()
    first.stop_writing()
    second = LexicalIndex(tmp_path / "lucene")
    assert [len(each.search("harbour", 10)) for each in (first, second)] == [2, 1]
    with pytest.raises(LexicalIndexDamaged):
        first.put(3, [chunk(3, "harbour")])
    first.close()
    assert len(second.search("harbour", 10)) == 1
    second.close()
