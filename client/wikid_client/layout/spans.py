"""Lines of styled spans: what every answer becomes before it is printed, plain or with colour. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from wikid_client.text import cells, split_matches

Style = Literal["", "title", "id", "dim", "match", "label", "good", "warn", "bad"]


class Span(NamedTuple):
    """A piece of a line. `link` is the path of the file that the text stands for, and `at` a line in it, or 0."""

    text: str
    style: Style = ""
    link: str = ""
    at: int = 0


Line = tuple[Span, ...]

BLANK: Line = ()


def row(*parts: str | Span, indent: int = 0) -> Line:
    """One line; bare strings are unstyled."""
    spans = tuple(each if isinstance(each, Span) else Span(each) for each in parts if each)
    return (Span(" " * indent), *spans) if indent else spans


def marked(text: str, words: re.Pattern[str] | None, indent: int = 0, style: Style = "") -> Line:
    """`text` with its matched words styled as such."""
    return row(*(Span(piece, "match" if hit else style) for piece, hit in split_matches(text, words)), indent=indent)


def plain(lines: Iterable[Line]) -> str:
    """The lines as text, each with its newline and without trailing spaces."""
    return "".join("".join(span.text for span in each).rstrip() + "\n" for each in lines)


def width_of(spans: Line) -> int:
    return sum(cells(span.text) for span in spans)


def beside(left: list[Line], right: list[Line], *, width: int, gap: str = " │ ", indent: int = 0) -> list[Line]:
    """Two columns, the left one padded to `width` cells."""
    found = []
    for i in range(max(len(left), len(right))):
        mine = left[i] if i < len(left) else BLANK
        yours = right[i] if i < len(right) else BLANK
        filler = Span(" " * max(width - width_of(mine), 0))
        found.append(row(*mine, filler, Span(gap, "dim"), *yours, indent=indent))
    return found


def table(rows: list[list[str | Span]], indent: int = 0, gap: int = 2) -> list[Line]:
    """Columns as wide as their widest member; the last one is not padded."""
    spans = [[each if isinstance(each, Span) else Span(each) for each in cols] for cols in rows]
    widths = [
        max(cells(cols[i].text) for cols in spans if i < len(cols)) for i in range(max(map(len, spans), default=0))
    ]
    found = []
    for cols in spans:
        line: list[Span] = []
        for i, each in enumerate(cols):
            line.append(each)
            if i + 1 < len(cols):
                line.append(Span(" " * (widths[i] - cells(each.text) + gap)))
        found.append(row(*line, indent=indent))
    return found
