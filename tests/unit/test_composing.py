"""Pages as they are written, and written anew in one place (vault format §2.4, T20)."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wikid_daemon.core.amending import NotAmendable, amended
from wikid_daemon.core.composing import compose, one_line, quoted, scalar, tidy
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.linking import link_to
from wikid_daemon.core.links import extract
from wikid_daemon.core.markdown import outline
from wikid_daemon.core.page import Json, KnowledgeDocument

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
AWKWARD = st.sampled_from(
    [
        "yes",
        "No",
        "null",
        "~",
        "12",
        "0o17",
        "1.5",
        "2026-01-01",
        "a: b",
        "a #b",
        "- x",
        "'",
        '"',
        "\\",
        "?x",
        "[a]",
        "é?b",
    ]
)
WORDS = TEXT | AWKWARD
KEYS = st.text("abcdefghij_", min_size=1, max_size=8).filter(lambda key: key not in ("type",))
VALUES: st.SearchStrategy[Json] = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers(-(2**53), 2**53),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def parsed(data: bytes) -> KnowledgeDocument:
    found = parse_page("concepts/page.md", data, strict=True)
    assert found.document is not None, found.findings
    return found.document


@given(st.dictionaries(KEYS, VALUES, max_size=5), TEXT)
def test_what_is_composed_is_read_back(fields: dict[str, Json], body: str) -> None:
    document = parsed(compose({"type": "concept", **fields}, body))
    assert document.metadata == {"type": "concept", **fields}
    assert document.body.strip("\n") == tidy(body).strip("\n")


def test_known_fields_come_in_their_order_and_sources_last_of_them() -> None:
    data = compose(
        {"zeta": 1, "sources": [], "updated": "2026-01-02", "title": "T", "alpha": 2, "type": "concept"}, "Body"
    )
    assert data.decode() == (
        "---\ntype: concept\ntitle: T\nupdated: 2026-01-02\nsources: []\nzeta: 1\nalpha: 2\n---\n\nBody\n"
    )


def test_lists_and_mappings_are_written_as_blocks() -> None:
    data = compose({"type": "analysis", "tags": ["a", "yes"], "resolution": {"id": "1e3", "scope": None}}, "")
    assert data.decode() == (
        '---\ntype: analysis\ntags:\n  - a\n  - "yes"\nresolution:\n  id: "1e3"\n  scope: null\n---\n'
    )


def test_text_is_bare_only_where_every_reader_agrees() -> None:
    assert [scalar(each) for each in ("Plain words", "2026-01-01", "2026-01-01T10:00:00.000Z", "naïve-approach")] == [
        "Plain words",
        "2026-01-01",
        "2026-01-01T10:00:00.000Z",
        "naïve-approach",
    ]
    assert scalar('He said "no": #1') == '"He said \\"no\\": #1"'
    assert scalar("") == '""'
    assert quoted("a\nb\u2028") == '"a\\nb\\u2028"'


def test_titles_are_folded_to_one_line() -> None:
    assert one_line(" two\r\n lines\0 ") == "two lines\ufffd"


# -- one place alone ---------------------------------------------------------------------------------------------------


WRITTEN = (
    b"---\r\n# a person's own order\r\nupdated: 2026-01-01   # by hand\r\ntype:   concept\r\n"
    b"title: 'It''s mine'\r\nstatus: \"draft\"\r\n"
    b"tags:\r\n  - one\r\nodd: {a: 1}\r\n---\r\n\r\nText \xff without an end"
)


def test_t20_only_the_changed_lines_differ() -> None:
    changed = amended(WRITTEN, {"status": "deprecated", "title": "Not 'yours'", "updated": "2026-02-02"})
    assert changed == (
        WRITTEN.replace(b"2026-01-01 ", b"2026-02-02 ")
        .replace(b"'It''s mine'", b"'Not ''yours'''")
        .replace(b'"draft"', b'"deprecated"')
    )


def test_t20_a_new_field_is_one_new_line() -> None:
    changed = amended(WRITTEN, {"category": "a: b"})
    assert changed == WRITTEN.replace(b"{a: 1}\r\n", b'{a: 1}\r\ncategory: "a: b"\r\n')


def test_a_new_body_leaves_the_head_alone_and_takes_its_line_ends() -> None:
    changed = amended(WRITTEN, {}, "one\ntwo")
    assert changed == WRITTEN[: WRITTEN.index(b"Text")] + b"one\r\ntwo\r\n"


@pytest.mark.parametrize(
    "head",
    [
        "title: |\n  several\n  lines",
        "title:\n- a list",
        '"title": x',
        "other: |\n  text\ntitle: >-\n  folded",
    ],
)
def test_what_cannot_be_changed_in_one_place_is_refused(head: str) -> None:
    data = f"---\ntype: concept\n{head}\n---\nBody".encode()
    with pytest.raises(NotAmendable):
        amended(data, {"title": "New"})


@pytest.mark.parametrize("data", [b"no frontmatter", b"---\ntype: concept\n", b"", b"---\na: [\n---\n"])
def test_a_page_without_a_head_is_refused(data: bytes) -> None:
    with pytest.raises(NotAmendable):
        amended(data, {"title": "New"})


@given(st.dictionaries(KEYS, VALUES, max_size=4), WORDS, WORDS, st.sampled_from(["\n", "\r\n", "\r"]))
def test_an_amended_page_says_the_new_and_all_the_old(
    fields: dict[str, Json], old: str, new: str, line_end: str
) -> None:
    before = compose({"type": "concept", "title": old, **{f"x{key}": each for key, each in fields.items()}}, "Body")
    changed = amended(before.replace(b"\n", line_end.encode()), {"title": new})
    document = parsed(changed)
    assert document.metadata == parsed(before).metadata | {"title": new}
    assert document.body == parsed(before).body


# -- links -------------------------------------------------------------------------------------------------------------


IDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"), min_size=1, max_size=8).filter(
        lambda part: part not in (".", "..") and part == part.strip()
    ),
    min_size=1,
    max_size=3,
).map(lambda parts: unicodedata.normalize("NFC", "/".join(parts)))


@given(IDS, TEXT)
@example("]", "")
@example("a[b", " ")
def test_a_link_leads_to_its_page_whatever_the_title(page_id: str, title: str) -> None:
    body = f"See {link_to(page_id, title)}."
    found = extract("a/b.md", body, 1, outline(body).destinations)
    assert page_id in {link.target for link in found.links if link.kind == "markdown"}
