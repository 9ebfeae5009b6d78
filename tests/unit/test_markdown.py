"""The outline of a body: blocks that cover it, headings as a reader sees them, links with the line of their block."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_daemon.core import markdown
from wikid_daemon.core.markdown import LONGEST_HEADING, Destination, ParserFailed, outline


def blocks(body: str) -> list[tuple[str, int, int]]:
    return [(block.kind, block.start, block.end) for block in outline(body).blocks]


def links(body: str) -> list[tuple[str, int]]:
    return [(found.href, found.line) for found in outline(body).destinations]


def heading(line: str) -> str:
    (block,) = outline(line).blocks
    assert block.kind == "heading"
    return block.heading


def test_each_kind_of_block_lasts_until_the_next() -> None:
    body = (
        "\n# One\n\nprose\nmore\n\n```\ncode\n\n# no heading\n```\n    \n    indented\n\n| a |\n|---|\n| b |\n\n"
        "> # quoted\n> text\n\n---\n<div>\n# no heading\n</div>\n\nTwo\n===\n"
    )
    assert blocks(body) == [
        ("lines", 0, 1),
        ("heading", 1, 3),
        ("prose", 3, 6),
        ("code", 6, 12),
        ("code", 12, 14),
        ("table", 14, 18),
        ("lines", 18, 21),
        ("lines", 21, 22),
        ("lines", 22, 26),
        ("heading", 26, 29),
    ]
    assert [block.level for block in outline(body).blocks if block.level] == [1, 1]


def test_each_item_of_a_list_at_the_top_is_a_block() -> None:
    body = "- [ ] one\n  - deep\n\n  # no heading of the page\n- two\n\n1. first\n2) other list\n"
    assert blocks(body) == [("lines", 0, 4), ("lines", 4, 6), ("lines", 6, 7), ("lines", 7, 9)]


def test_link_definitions_are_lines_and_never_part_of_a_heading() -> None:
    assert blocks("[a]: /a\n# H\n[b]: /b\n[c]:\n/c\nprose\n\n[d]: /d\n\n[e]: /e\n") == [
        ("lines", 0, 1),
        ("heading", 1, 2),
        ("lines", 2, 5),
        ("prose", 5, 7),
        ("lines", 7, 11),
    ]
    assert blocks("[a]: /a") == [("lines", 0, 1)]


@pytest.mark.parametrize("body", ["", "\n", " \n\t\n", "\ufeff", "\u00a0"])
def test_a_body_that_says_nothing_is_one_block(body: str) -> None:
    (block,) = outline(body).blocks
    assert (block.start, block.end) == (0, body.count("\n") + 1)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("# The *big* `idea` __now__ ##", "The big idea now"),
        ("## Fish &amp; chips \\*raw\\* &copy;", "Fish & chips *raw* \u00a9"),
        ("# See [[Page]] and [[Page|its label]], ![[Embed]]", "See Page and its label, Embed"),
        ("# [label](/x.md) ![alt *text*](i.png) <https://e.org>", "label alt text https://e.org"),
        ("# List<String> of\tthings", "List<String> of things"),
        ("two\n  *lines*  \nlong\n---", "two lines long"),
        ("# cafe\u0301 \U0001f468\u200d\U0001f469 数据", "cafe\u0301 \U0001f468\u200d\U0001f469 数据"),
        ("#", ""),
    ],
)
def test_a_heading_is_told_as_a_reader_sees_it(line: str, text: str) -> None:
    assert heading(line) == text


def test_a_heading_longer_than_any_path_is_text() -> None:
    assert heading("# " + "x" * LONGEST_HEADING) == "x" * LONGEST_HEADING
    assert blocks("# " + "x" * (LONGEST_HEADING + 1)) == [("prose", 0, 1)]


def test_destinations_keep_percent_escapes_and_lose_markdown_escapes() -> None:
    assert links("[a](/x%20y%zz.md) [b](</a b\\_c.md> 'title') [c](/d&amp;e.md)") == [
        ("/x%20y%zz.md", 0),
        ("/a b_c.md", 0),
        ("/d&e.md", 0),
    ]
    assert links("[a](javascript:x) [b]() <https://e.org> <a@e.org> [c](mailto:a@e.org)") == [
        ("javascript:x", 0),
        ("", 0),
        ("mailto:a@e.org", 0),
    ]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("first\nsecond\n[a](/x)", 0),
        ("# H\n\n*first*\n[a](/x)", 2),
        ("é\n\n- one\n- two\n  [a](/x)", 3),
        ("-\n  [a](/x)", 1),
        ("- # h\n  text\n  [a](/x)", 1),
        ("- ```\n  ```\n  [a](/x)", 2),
        ("> one\n>\n> two\n> [a](/x)", 2),
        ("| h |\n|---|\n| b |\n| [a](/x) |", 3),
        ("[a]\n\n\n[a]: /x", 0),
    ],
)
def test_a_link_has_the_line_where_its_text_begins(body: str, line: int) -> None:
    assert outline(body).destinations == (Destination("/x", line),)


def test_the_text_of_an_image_holds_no_links() -> None:
    assert links("![[a](/x) ![b](/y)](/z) [c](/w)") == [("/w", 0)]


@pytest.mark.parametrize(
    "line", ["- x\n", "-\n", "# h\n", "[", "[a](", "> ", ">", "1. ", "*a ", "_a", "`a\n", "<a ", "|a", "&", "a\n\n"]
)
def test_floods_are_read_like_any_other_page(line: str) -> None:
    body = line * (200_000 // len(line)) + "\n\n# Last\n\n[a](/x)\n"
    found = outline(body).blocks
    assert all(left.end == right.start for left, right in pairwise(found))
    assert (found[0].start, found[-1].end) == (0, body.count("\n") + 1)
    assert found[-2].heading == "Last"
    assert links(body)[-1] == ("/x", body.count("\n") - 1)


@pytest.mark.parametrize("deep", ["> " * 10_000, "- a\n" + "".join(" " * 2 * n + "- a\n" for n in range(1_000))])
def test_nesting_is_no_limit(deep: str) -> None:
    assert outline(f"{deep}[a](/x)").destinations


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("ab é数\U0001f600\u0301\u200d\n\n\t>-*_`~|[]()<>!#:=&\\1.'\""), max_size=200))
def test_blocks_cover_any_body_without_gaps(body: str) -> None:
    found = outline(body)
    assert (found.blocks[0].start, found.blocks[-1].end) == (0, body.count("\n") + 1)
    assert all(left.end == right.start for left, right in pairwise(found.blocks))
    assert all(block.start < block.end for block in found.blocks)
    lines = [link.line for link in found.destinations]
    assert lines == sorted(lines)


def test_a_panic_of_the_parser_is_an_ordinary_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """What pyo3 raises for a panic in Rust."""

    class Panicking:
        def __init__(self, problem: BaseException) -> None:
            self._problem = problem

        def events_with_range(self, *_body: str, **_options: bool) -> Iterator[object]:
            raise self._problem

    monkeypatch.setattr(markdown, "_PARSER", Panicking(PanicException("byte 3 of the page")))
    with pytest.raises(ParserFailed) as caught:
        outline("body")
    assert "byte" not in str(caught.value)
    monkeypatch.setattr(markdown, "_PARSER", Panicking(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        outline("body")
