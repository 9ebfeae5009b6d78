"""Chunks: nothing lost, everything bounded, cuts where a reader would make them."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wikid_daemon.core.chunking import WINDOW, Chunk, chunk, embedding_text
from wikid_daemon.core.cutting import BY_LINE, BY_SENTENCE, count_pieces, cut
from wikid_daemon.core.document import parse_page

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
SENTENCE = "The deploy took nine minutes because the image was rebuilt twice. "


def chunks(body: str, title: str = "", window: int = WINDOW) -> list[Chunk]:
    head = f"---\ntitle: {title}\n---\n" if title else ""
    document = parse_page("note.md", (head + body).encode(), strict=False).document
    assert document is not None
    return chunk(document, window)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def covered(found: list[Chunk]) -> str:
    return "\n".join(" ".join((*one.heading, one.text)) for one in found)


def test_sections_become_chunks_under_their_heading_path() -> None:
    text = (SENTENCE * 5).strip()
    body = f"# Note\n\nIntro {text}\n\n## One\n\n{text}\n\n### Deep\n\n{text}\n## Two\n{text}\n"
    found = chunks(body, "Note")
    assert [one.heading for one in found] == [(), ("One",), ("One", "Deep"), ("Two",)]
    assert [one.ordinal for one in found] == [0, 1, 2, 3]
    lines = ("---\ntitle: Note\n---\n" + body).split("\n")
    for one in found:
        assert lines[one.start_line - 1] == one.text.split("\n")[0]


def test_a_heading_that_is_not_the_title_stays_in_the_path() -> None:
    assert [one.heading for one in chunks("# Other\n\ntext\n", "Title")] == [("Other",)]


def test_prose_fills_chunks_from_the_front_and_ends_at_sentences() -> None:
    found = chunks(SENTENCE * 60)
    assert all(one.text.endswith("twice.") for one in found)
    assert all(150 <= len(one.text.split()) <= 220 for one in found[:-1])


def test_tiny_brothers_share_a_chunk_and_others_do_not() -> None:
    body = f"# T\n\n## A\n\none\n\n## B\n\ntwo\n\n### C\n\nthree\n\n## Long\n\n{SENTENCE * 6}\n\n## D\n\nfour\n\n## E\n"
    found = [(one.heading, one.text) for one in chunks(body, "T")]
    assert found[0] == ((), "## A\n\none\n\n## B\n\ntwo")
    assert found[1] == (("B", "C"), "three")
    assert found[2][0] == ("Long",)
    assert found[3] == ((), "## D\n\nfour\n\n## E")


def test_code_stays_whole_when_it_fits() -> None:
    code = "```python\n" + "\n".join(f"call_{n}(value)" for n in range(20)) + "\n```"
    found = chunks(f"{SENTENCE * 8}\n\n{code}\n\n{SENTENCE * 8}\n")
    assert any(code in one.text for one in found)


def test_a_split_table_repeats_its_header() -> None:
    header = "| name | value |\n| --- | --- |"
    rows = [f"| row {n} | token{n}zebra with some words around it |" for n in range(120)]
    found = chunks("Before.\n\n" + header + "\n" + "\n".join(rows) + "\n\nAfter.\n")
    with_row = next(one for one in found if "token117zebra" in one.text)
    assert with_row.text.startswith(header)
    assert len(found) > 5
    assert all(any(row in one.text for one in found) for row in rows)


def test_an_unterminated_fence_loses_nothing() -> None:
    body = "# T\n\n```\n" + "\n".join(f"line {n}" for n in range(200)) + "\nlastunique"
    assert "lastunique" in chunks(body)[-1].text
    assert words(body) <= words(covered(chunks(body))) | {"T"}


@pytest.mark.parametrize(
    "body", ["x" * 1_000_000, "漢字" * 100_000, FAMILY * 4000, "\u200d" * 50_000, "\U0001f1e9\U0001f1ea" * 20_000]
)
def test_endless_lines_are_bounded_and_complete(body: str) -> None:
    found = chunks(body, "A title")
    assert "".join(one.text for one in found) == body
    assert all(count_pieces(embedding_text("A title", one)) <= WINDOW for one in found)


def test_joined_emoji_flags_and_accents_stay_whole() -> None:
    assert all(one.text.replace(FAMILY, "") == "" for one in chunks(FAMILY * 4000))
    flag = "\U0001f1e9\U0001f1ea"
    assert all(one.text.replace(flag, "") == "" for one in chunks(flag * 4001, window=101))
    assert not any(one.text.startswith("\u0301") for one in chunks("e\u0301" * 3000))
    assert not any(one.text.startswith("\U0001f3fd") for one in chunks("\U0001f44b\U0001f3fd" * 1000, window=101))


def test_an_endless_title_and_heading_leave_room_for_text() -> None:
    title = "word " * 600
    for one in chunks(f"# {'long ' * 90}\n\n{SENTENCE * 40}", title):
        assert count_pieces(embedding_text(title, one)) <= WINDOW
        assert one.text in embedding_text(title, one)


def test_a_heading_too_long_for_a_path_is_text() -> None:
    found = chunks("# " + "endless " * 200 + "\n\ntext\n")
    assert {one.heading for one in found} == {()}
    assert "endless" in found[0].text


def test_pages_without_body() -> None:
    described = parse_page("a.md", b"---\ntype: concept\ndescription: Says it.\n---\n", strict=True).document
    titled = parse_page("a.md", b"---\ntype: concept\ntitle: Name\n---\n\n***\n", strict=True).document
    assert described is not None
    assert titled is not None
    assert chunk(described) == [Chunk(0, (), "Says it.", 1)]
    assert chunk(titled) == [Chunk(0, (), "Name", 1)]
    assert [one.text for one in chunks("# Only a title\n")] == ["# Only a title"]


def test_very_long_bodies_keep_headings_and_fences() -> None:
    body = "intro\n" + "- item\n" * 30_000 + "# One\ntext\n```\n# not a heading\n```\n## Two ##\nlast\n"
    found = chunks(body, "T")
    assert {one.heading for one in found} == {(), ("One",), ("One", "Two")}
    assert any("# not a heading" in one.text and one.heading == ("One",) for one in found)


_LINES = st.one_of(
    st.lists(st.sampled_from(["alpha", "beta7", "gamma", "数据库", "naïve", "x_y"]), min_size=1, max_size=30).map(
        " ".join
    ),
    st.sampled_from(
        [
            *(
                "",
                "",
                "# One",
                "## Two",
                "### Three",
                "#",
                "```",
                "~~~",
                "| a | b |",
                "|---|---|",
                "- item",
                "  - deep",
            ),
            *("> quote", "---", "===", "    code", "<div>", "[ref]: /x.md", "<!-- note", "1. first", "\ttab"),
        ]
    ),
)


@settings(deadline=None, max_examples=200)
@given(st.lists(_LINES, max_size=40), st.integers(40, 300))
@example(["# One", "---"], 40)
@example(["# One", "[ref]: /x.md", "alpha"], 40)
def test_every_word_is_in_some_chunk_and_every_chunk_fits(lines: list[str], window: int) -> None:
    body = "\n".join(lines)
    found = chunks(body, "Page", window)
    assert words(body) <= words(covered(found)) | {"Page"}
    assert all(count_pieces(embedding_text("Page", one, window)) <= window for one in found)
    starts = [one.start_line for one in found]
    assert starts == sorted(starts)


@settings(deadline=None)
@given(st.text(max_size=400), st.integers(1, 40), st.sampled_from([BY_SENTENCE, BY_LINE]))
@example("00\u0300", 1, BY_LINE)
def test_slices_cover_the_text_in_order(text: str, most: int, borders: tuple[re.Pattern[str], ...]) -> None:
    slices = cut(text, most, borders)
    assert all(left.end == right.start for left, right in pairwise(slices))
    kept = text[slices[0].start : slices[-1].end] if slices else ""
    assert kept.split() == text.split()
    assert all(count_pieces(text[one.start : one.end]) <= most for one in slices)
