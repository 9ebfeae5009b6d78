"""How well a tokenizer knows the language of a text, read off how finely it has to cut the words.

A tokenizer trained on a language keeps its words in long pieces and shreds others: English comes out of an English
word-piece vocabulary at about 4.5 letters a piece, German at 2.8, Chinese one character at a time or unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = re.compile(r"[^\W\d_]+")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")


@dataclass(frozen=True, slots=True)
class Fineness:
    """Letters per piece: at ``shredded`` and below a word is foreign, at ``whole`` and above it is at home."""

    shredded: float
    whole: float

    def score(self, letters_per_piece: float) -> float:
        return min(1.0, max(0.0, (letters_per_piece - self.shredded) / (self.whole - self.shredded)))


ALPHABETIC = Fineness(shredded=2.0, whole=3.5)
CJK = Fineness(shredded=1.05, whole=1.35)


def familiarity(text: str, spans: Sequence[tuple[int, int]], unknown: Sequence[bool]) -> float:
    """Familiarity of ``text`` in 0..1, from the character span of each piece and whether the piece is unknown.

    Words count by their letters; one in a single known piece is fully known, unless its script has no spaces between
    words. Digits and punctuation say nothing about a language: a text without any letter scores 1.
    """
    known = total = 0.0
    piece = 0
    for word in _WORD.finditer(text):
        start, end = word.span()
        while piece < len(spans) and spans[piece][1] <= start:
            piece += 1
        last = piece
        while last < len(spans) and spans[last][0] < end:
            last += 1
        known += (end - start) * _word_score(word.group(), unknown[piece:last])
        total += end - start
        piece = max(piece, last - 1)
    return known / total if total else 1.0


def _word_score(word: str, unknown: Sequence[bool]) -> float:
    if not unknown:
        return 0.0
    cjk = _CJK.search(word) is not None
    if len(unknown) == 1 and not cjk:
        return float(not unknown[0])
    share_known = 1 - sum(unknown) / len(unknown)
    return share_known * (CJK if cjk else ALPHABETIC).score(len(word) / len(unknown))
