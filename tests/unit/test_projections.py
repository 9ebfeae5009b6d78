"""The generated files: registry and backlinks byte for byte, the catalogues, and what counts as a person's text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import page
from wikid_daemon.core import catalogues, projections
from wikid_daemon.core.catalogues import is_generated_index, is_generated_log
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.events import parse_events
from wikid_daemon.core.json_text import json_file, json_text
from wikid_daemon.core.page import Json, KnowledgeDocument
from wikid_daemon.core.projections import Packet

DATA = Path(__file__).parents[1] / "data"
WRITTEN_AT = "2026-07-05T07:00:00.000Z"  # the clock of the sample vaults


def document(path: str, text: str) -> KnowledgeDocument:
    found = parse_page(path, text.encode(), strict=True).document
    assert found is not None
    return found


def documents(pages: dict[str, str]) -> list[KnowledgeDocument]:
    return [document(path, text) for path, text in pages.items()]


def entry(text: str) -> dict[str, Any]:
    return projections.entries(documents({"a/b.md": text}), [])["a/b"]


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def packet(folder: str, kind: Literal["sources", "trajectories"] = "sources", **manifest: Json) -> Packet:
    return Packet(kind, folder, manifest)


# -- JSON --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (123456789012345680000.0, "123456789012345680000"),
        (2**53, "9007199254740992"),
        (2**53 + 1, "9007199254740992"),
        (999999999999999999, "1000000000000000000"),
        (0.000001, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (-12.5, "-12.5"),
        (100.0, "100"),
        (True, "true"),
        (None, "null"),
        ("a\u2028\x7f\x1f\t\"\\é", '"a\u2028\x7f\\u001f\\t\\"\\\\é"'),
        ({"b": 1, "10": 2, "2": 3, "01": 4}, '{"2":3,"10":2,"b":1,"01":4}'),
        ([[], {}, [1]], "[[],{},[1]]"),
    ],
)  # fmt: skip
def test_values_are_written_as_javascript_writes_them(value: Json, text: str) -> None:
    assert json_text(value) == text


def test_files_have_two_spaces_and_a_final_newline() -> None:
    assert json_file({"a": [], "b": {"c": [1, {}]}}) == (
        b'{\n  "a": [],\n  "b": {\n    "c": [\n      1,\n      {}\n    ]\n  }\n}\n'
    )
    assert json_file("\ud800") == b'"\\ud800"\n'


_NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(_VALUES, st.sampled_from([0, 2]), st.booleans())
def test_what_is_written_reads_back_as_it_was(value: Any, indent: int, canonical: bool) -> None:
    # whole numbers of more digits than a double has are padded with zeros there
    assert json.loads(json_text(value, indent=indent, canonical=canonical), parse_int=float) == value


# -- registry and backlinks --------------------------------------------------------------------------------------------


def test_an_entry_has_known_fields_in_their_order_then_extensions_then_dates() -> None:
    text = page(
        "Text.",
        updated="2026-01-02",
        zeta="1",
        status="stable",
        tags="[b, a]",
        created="2026-01-01",
        description="D",
        sources="[{id: x}]",
        alpha="{n: 1.0}",
        title="' T '",
    )
    assert list(entry(text).items()) == [
        ("type", "concept"),
        ("title", "T"),
        ("description", "D"),
        ("tags", ["b", "a"]),
        ("status", "stable"),
        ("zeta", 1),
        ("alpha", {"n": 1.0}),
        ("created", "2026-01-01"),
        ("updated", "2026-01-02"),
    ]


def test_a_page_without_title_has_its_name_and_dates_that_are_no_text_are_left_out() -> None:
    assert entry(page("Text.", created="20260101", updated="' '", status="null")) == {
        "type": "concept",
        "title": "b",
        "status": None,
    }


def test_packets_without_a_page_come_last_and_their_own_keys_win() -> None:
    found = projections.entries(
        documents({"sources/SRC-1.md": page("Text.", type="source"), "a.md": page("Text.")}),
        [
            packet("SRC-1", id="SRC-1"),
            packet("SRC-2", id="SRC-2", title="Two", captured="2026-01-01", type="odd"),
            packet("SRC-3"),
            packet("SRC-4", id="SRC-2", title="again"),
            packet("TRJ-1", "trajectories", id="TRJ-1"),
        ],
    )
    assert list(found) == ["a", "sources/SRC-1", "sources/SRC-2", "sources/SRC-3", "trajectories/TRJ-1"]
    assert list(found["sources/SRC-2"].items()) == [
        ("type", "odd"),
        ("title", "Two"),
        ("created", "2026-01-01"),
        ("updated", "2026-01-01"),
        ("id", "SRC-2"),
        ("captured", "2026-01-01"),
    ]
    assert found["sources/SRC-3"] == {"type": "source", "title": "SRC-3"}
    assert found["trajectories/TRJ-1"]["type"] == "trajectory"


def test_backlinks_are_sorted_sets_of_pages_that_are_there() -> None:
    found = json.loads(
        projections.backlinks(
            documents(
                {
                    "b.md": page("[[a]] [a](/a.md) [[b]] [[lost]]"),
                    "a.md": page("[[b]]"),
                    "a-c.md": page("[[a]]"),
                }
            )
        )
    )
    assert list(found.items()) == [("a", ["a-c", "b"]), ("a-c", []), ("b", ["a", "b"])]


def test_a_file_says_the_same_whenever_it_was_written_and_however_it_is_laid_out() -> None:
    rebuilt = projections.registry(projections.entries(documents({"a.md": page("Text.")}), []), WRITTEN_AT)
    values = json.loads(rebuilt)
    assert projections.says_the_same(json.dumps({**values, "last_updated": "long ago"}).encode(), rebuilt)
    values["pages"]["a"]["title"] = "edited"
    assert not projections.says_the_same(json.dumps(values).encode(), rebuilt)
    assert not projections.says_the_same(b"{", rebuilt)
    assert not projections.says_the_same(b"[]", rebuilt)


# -- catalogues --------------------------------------------------------------------------------------------------------


def test_the_catalogue_of_pages_is_by_type() -> None:
    found = projections.entries(
        documents(
            {"b.md": page("x", title="B", created="2026-01-01"), "A.md": page("x"), "c.md": page("x", type="case")}
        ),
        [],
    )
    assert catalogues.meta_index(found, "NOW").decode() == (
        "# Wiki Index\n\n> Auto-generated from meta/registry.json. Do not edit manually.\n\n"
        "## Cases\n\n- [[c]] — c *(created: unknown)*\n\n"
        "## Concepts\n\n- [[A]] — A *(created: unknown)*\n- [[b]] — B *(created: 2026-01-01)*\n\n"
        "---\n*Last updated: NOW* | *Total pages: 3*\n"
    )


def test_the_collation_puts_marks_before_digits_before_letters_of_either_case() -> None:
    assert sorted(["b", "B", "a1", "a-1", "é", "f", "a/1", "E"], key=catalogues.collation) == [
        *("a-1", "a/1", "a1", "b", "B", "E", "é", "f"),
    ]


LINES = (
    b'{"slug":"a_b","10":1,"timestamp":"2026-01-02T23:30:00-02:00","kind":"observe"}\n'
    b'{"b":{"z":1,"a":2},"a":"x","timestamp":"2026-01-02T10:00:00.000Z","kind":"star*[x]_"}\n'
    b'{"timestamp":"2026-01-03","kind":"digest"}\n'
    b"not an event\n"
    b'{"timestamp":"2026-01-02T10:00:00Z","kind":"later line"}\n'
    b'{"timestamp":"2026-01-02T11:00:00Z","kind":"recall_feedback","visibility":"internal"}\n'
)


def test_the_log_of_a_wiki_has_the_newest_day_and_event_first_and_nothing_internal() -> None:
    shown = catalogues.shown(parse_events(LINES).events)
    assert catalogues.update_log(shown).decode() == (
        "# Wiki Update Log\n"
        "\n## 2026-01-03\n\n"
        '- **observe**: {"10":1,"slug":"a_b"}\n'
        "- **digest**\n"
        "\n## 2026-01-02\n\n"
        "- **later line**\n"
        '- **star\\*\\[x\\]\\_**: {"a":"x","b":{"a":2,"z":1}}\n'
    )
    assert "internal" not in catalogues.meta_log(shown).decode()


def test_the_activity_log_keeps_the_order_of_the_file() -> None:
    events = parse_events(LINES).events[:2]
    assert catalogues.meta_log(events).decode() == (
        "# Activity Log\n\n> Auto-generated from meta/events.jsonl. Do not edit manually.\n\n"
        '## [2026-01-02T23:30:00-02:00] observe\n- slug: "a_b", 10: 1\n\n'
        '## [2026-01-02T10:00:00.000Z] star*[x]_\n- b: {"z":1,"a":2}, a: "x"\n\n'
    )
    assert catalogues.meta_log([]).decode().endswith("\n\n_No events recorded yet._\n\n")


def test_the_sample_log_is_what_the_extension_writes() -> None:
    expected = json.loads((DATA / "expected" / "ugly.events.json").read_text())["log_lines"]
    stream = parse_events((DATA / "ugly" / ".llm-wiki" / "meta" / "events.jsonl").read_bytes())
    ours = catalogues.update_log(catalogues.shown(stream.events)).decode().split("\n")
    assert ours == [line for line in expected if '"visibility":"internal"' not in line]


def test_every_folder_with_pages_below_it_has_an_index() -> None:
    found = catalogues.folder_indexes(
        documents(
            {
                "top.md": page("x", description="'a\n\n  b'"),
                "a/b/deep (1).md": page("x", title="'[Deep] \\\\ one'"),
                "a/æ.md": page("x"),
            }
        ),
        "My [wiki]",
    )
    assert {path: data.decode() for path, data in found.items()} == {
        "index.md": '---\nokf_version: "0.2"\n---\n\n# My \\[wiki\\]\n\n## Directories\n\n- [a/](a/)\n\n'
        "## Concepts\n\n- [top](top.md) — a b\n",
        "a/index.md": "# a\n\n## Directories\n\n- [b/](b/)\n\n## Concepts\n\n- [æ](%C3%A6.md)\n",
        "a/b/index.md": "# b\n\n## Concepts\n\n- [\\[Deep\\] \\\\\\\\ one](deep%20(1).md)\n",
    }


def test_an_empty_wiki_has_an_index_of_its_root() -> None:
    assert catalogues.folder_indexes([], "W") == {"index.md": b'---\nokf_version: "0.2"\n---\n\n# W\n'}


_WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(str.strip)
_NAMES = st.text("ab[]()\\ é-1", min_size=1, max_size=6).filter(lambda name: name.strip() == name)


@given(st.dictionaries(st.lists(_NAMES, min_size=1, max_size=3).map("/".join), st.tuples(_WORDS, _WORDS), max_size=5))
def test_what_a_rebuild_writes_is_recognised_again(pages: dict[str, tuple[str, str]]) -> None:
    made = documents(
        {
            f"{name}.md": page("x", title=quoted(title), description=quoted(words))
            for name, (title, words) in pages.items()
        }
    )
    for path, data in catalogues.folder_indexes(made, "W").items():
        assert is_generated_index(path, data), data


@pytest.mark.parametrize(
    "text", ["# b\n", "# b\n\n## Concepts\n\n- [x](x.md)\n", "# b\n\n## Directories\n\n- [x/](x/)\n"]
)
def test_an_index_of_long_ago_is_generated(text: str) -> None:
    assert is_generated_index("a/b/index.md", text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# Something else\n",
        "# b\n\nHello.\n",
        "# b\n\n## Concepts\n\n- [x](x.md)\n\nMine: remember this.\n",
        "# b\n\n## Concepts\n\n- [x](x.md)\n- no link\n",
        "# b\n\n## Reading order\n\n- [x](x.md)\n",
        "# b\n\n## Concepts\n\n- [x](https://example.org/x.md)\n",
        "---\ntitle: b\n---\n\n# b\n",
        "# b\n\n## Concepts\n\n* [x](x.md)\n",
    ],
)
def test_an_index_with_anything_of_a_person_in_it_is_theirs(text: str) -> None:
    assert not is_generated_index("a/b/index.md", text.encode())


def test_only_the_root_s_index_has_frontmatter() -> None:
    whole = b'---\nokf_version: "0.2"\n---\n\n# Any name\n'
    assert is_generated_index("index.md", whole)
    assert not is_generated_index("index.md", b"# Any name\n")
    assert not is_generated_index("b/index.md", whole.replace(b"Any name", b"b"))
    assert not is_generated_index("index.md", whole.replace(b"---\n\n", b"note: mine\n---\n\n", 1))
    assert not is_generated_index("index.md", whole + b"\xff")


def test_a_log_with_anything_of_a_person_in_it_is_theirs() -> None:
    assert is_generated_log(b"# Wiki Update Log\n")
    assert is_generated_log(catalogues.update_log(parse_events(LINES).events))
    assert not is_generated_log(b"# Log\n")
    assert not is_generated_log(b"# Wiki Update Log\n\n## 2026-01-01\n\nWe met.\n")
    assert not is_generated_log(b"# Wiki Update Log\n\n## 2026-01-01\n\n- **digest**: we met\n")
