"""Cutting text to a bound on word pieces, at the least harmful borders, in time linear in the text."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

# One match is one estimated piece: six Latin letters, two digits, one CJK or Hangul sign, two letters of any other
# script, one of anything else visible.
_PIECE = re.compile(
    r"[A-Za-z\u00c0-\u024f]{1,6}|[0-9]{1,2}"
    r"|[\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|[^\W\d_]{1,2}|[^\s]"
)
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])")
_LINE_END = re.compile(r"\n")
_WORD_END = re.compile(r"\s+")
BY_SENTENCE = (_SENTENCE_END, _LINE_END, _WORD_END)
BY_LINE = (_LINE_END, _WORD_END)

_JOINER = "\u200d"
_REGIONAL = range(0x1F1E6, 0x1F200)
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_TAGS = range(0xE0020, 0xE0080)

Borders: TypeAlias = tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """Characters `start` to `end` of a text and their estimated pieces."""

    start: int
    end: int
    pieces: int


def count_pieces(text: str) -> int:
    """An estimate of the word pieces in `text` that errs on the high side for an uncased English vocabulary."""
    return len(_PIECE.findall(text))


def cut(text: str, most: int, borders: Borders) -> list[Slice]:
    """Consecutive slices that cover `text`, each of at most `most` pieces, filled from the front.

    Earlier `borders` are preferred; a run without any border is cut between characters, never inside a joined emoji
    or before a combining mark unless such a run alone exceeds `most`.
    """
    slices: list[Slice] = []
    start = end = pieces = 0
    for part in _parts(text, 0, len(text), most, borders):
        if pieces and pieces + part.pieces > most:
            slices.append(Slice(start, end, pieces))
            start, pieces = end, 0
        end, pieces = part.end, pieces + part.pieces
    if pieces:
        slices.append(Slice(start, end, pieces))
    return slices


def _parts(text: str, start: int, end: int, most: int, borders: Borders) -> Iterator[Slice]:
    pieces = count_pieces(text[start:end])
    if pieces <= most:
        yield Slice(start, end, pieces)
    elif not borders:
        yield from _runs(text, start, end, most)
    else:
        first = start
        for border in borders[0].finditer(text, start, end):
            if border.end() > first:
                yield from _parts(text, first, border.end(), most, borders[1:])
                first = border.end()
        if first < end:
            yield from _parts(text, first, end, most, borders[1:])


def _runs(text: str, start: int, end: int, most: int) -> Iterator[Slice]:
    first, pieces = start, 0
    for piece in _PIECE.finditer(text, start, end):
        while pieces >= most:
            border = _safe_border(text, first, piece.start())
            yield Slice(first, border, pieces)
            first, pieces = border, count_pieces(text[border : piece.start()])
        pieces += 1
    yield Slice(first, end, pieces)


def _safe_border(text: str, first: int, wanted: int) -> int:
    """The last border in (`first`, `wanted`] that splits no grapheme, or `wanted` when there is none."""
    border = wanted
    while border > first and _is_joined(text, first, border):
        border -= 1
    return border if border > first else wanted


def _is_joined(text: str, first: int, border: int) -> bool:
    before, after = text[border - 1], text[border]
    code = ord(after)
    if before == _JOINER or after == _JOINER or code in _SKIN_TONES or code in _TAGS:
        return True
    if code in _REGIONAL:
        flags = border
        while flags > first and ord(text[flags - 1]) in _REGIONAL:
            flags -= 1
        return (border - flags) % 2 == 1
    return unicodedata.category(after).startswith("M")
