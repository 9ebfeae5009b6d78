"""A query: normalised, cut into weighted terms, and matched against pages. Text is never parsed as a language."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wikid_daemon.core.function_words import FUNCTION_WORDS
from wikid_daemon.core.summary import PageSummary

MAX_CODE_POINTS: Final = 2_000
MAX_TERMS: Final = 64
INITIAL_MODES: Final = ("lexical", "hybrid")

_SPACE = re.compile(r"\s+")
_HAS_WORD = re.compile(r"\w|[^\x00-\x7f]")
_NAME_NOISE = re.compile(r"[\s_\-]+")
_CUT_BEFORE = "… "
_CUT_AFTER = " …"


def normalise(query: str) -> str:
    """NFKC, trimmed, white space collapsed; punctuation, quotes and identifiers stay (seed A, Query construction)."""
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", query)).strip()


def content_words(query: str) -> str:
    """The query without its function words, or as it is where nothing else is in it."""
    kept = [word for word in query.split(" ") if word.casefold().strip(".,;:!?\"'()") not in FUNCTION_WORDS]
    return " ".join(kept) or query


def has_words(query: str) -> bool:
    """False for an empty query and for pure ASCII punctuation."""
    return _HAS_WORD.search(query) is not None


class Terms:
    """The query's analysed terms with their rarities (0–1), and where they stand in a text.

    Terms are stems, so `databas` matches database and databases; of two that fit, the longer one counts.
    """

    def __init__(self, weights: Sequence[tuple[str, float]]) -> None:
        kept = sorted(weights, key=lambda each: -each[1])[:MAX_TERMS]
        self.weights = dict(kept)
        self.mass = sum(self.weights.values())
        longest_first = sorted(self.weights, key=len, reverse=True)
        self._of_form = {_form(word): word for word in longest_first}
        pattern = "|".join(_boundary(word) + re.escape(_form(word)) for word in longest_first)
        # a lookahead, because the two-character terms of Chinese, Japanese and Korean overlap
        self._pattern = re.compile(f"(?=({pattern}))") if pattern else None

    def __len__(self) -> int:
        return len(self.weights)

    def coverage(self, text: str) -> float:
        """The share of the query's weight whose terms stand in `text`, 0–1."""
        if self._pattern is None or self.mass <= 0:
            return 0.0
        found = {self._of_form[form] for form in self._pattern.findall(fold(text))}
        return sum(self.weights[word] for word in found) / self.mass

    def first_match(self, text: str) -> int:
        """The offset of the first matched word, or 0."""
        found = self._pattern.search(fold(text)) if self._pattern is not None else None
        return 0 if found is None else found.start()

    def densest(self, text: str, width: int) -> int:
        """The offset of the stretch of `width` code points that holds the most of the query's weight."""
        if self._pattern is None:
            return 0
        places = [(m.start(), self.weights[self._of_form[m.group(1)]]) for m in self._pattern.finditer(fold(text))]
        best, best_at = 0.0, 0
        for i, (at, _) in enumerate(places):
            inside = {start: weight for start, weight in places[i:] if start < at + width}
            total = sum(inside.values())
            if total > best:
                best, best_at = total, at
        return best_at


def literally(query: str) -> re.Pattern[str]:
    """Matches a text in which all that the query asks for stands as one phrase, not inside a longer word.

    Case counts only for a query of function words, such as the operator `AND`. The text must be NFKC.
    """
    words = content_words(query)
    pattern = rf"(?<!\w){re.escape(words)}(?!\w)" if words.isascii() else re.escape(words)
    only_function_words = all(word.casefold() in FUNCTION_WORDS for word in words.split(" "))
    return re.compile(pattern, re.NOFLAG if only_function_words else re.IGNORECASE)


def fold(text: str) -> str:
    """The form in which terms are compared; one code point stays one, so that offsets hold."""
    if text.isascii():
        return text.lower()
    folded = text.lower()
    return folded if len(folded) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _form(word: str) -> str:
    # Porter turns a final y into i
    return word[:-1] if len(word) > 3 and word.endswith("i") else word


def _boundary(word: str) -> str:
    return r"(?<!\w)" if word.isascii() else ""


@dataclass(frozen=True, slots=True)
class Identity:
    """A page that the query names outright: `by` is title, alias or page id."""

    by: str


def identity(wanted: str, page_id: str, summary: PageSummary) -> Identity | None:
    """Whether the whole query, as a `name`, is the page's title, one of its aliases, its id or its file name."""
    if not wanted:
        return None
    if wanted == name(summary.title):
        return Identity("title")
    if any(wanted == name(alias) for alias in summary.aliases):
        return Identity("alias")
    whole, last = name(page_id), name(page_id.rsplit("/", 1)[-1])
    if wanted in (whole, last) or (wanted.endswith(".md") and wanted.removesuffix(".md") in (whole, last)):
        return Identity("page id")
    return None


def name(text: str) -> str:
    """The form in which names are compared: case, quotes and the sort of word separator do not matter."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _NAME_NOISE.sub(" ", plain.casefold()).strip(" \"'`[]?.!")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A slice of a chunk around what matched; `line` is the file line where it begins."""

    text: str
    line: int


def excerpt(text: str, start_line: int, terms: Terms | None, width: int) -> Excerpt:
    """At most `width` code points of the chunk, on line borders: from a little before the densest match, or from the
    start without `terms`."""
    text = text.rstrip()
    first = len(text) - len(text.lstrip())
    if len(text) - first <= width:
        return Excerpt(text[first:], start_line + text.count("\n", 0, first))
    width -= len(_CUT_BEFORE) + len(_CUT_AFTER)
    at = first if terms is None else max(first, terms.densest(text, width) - width // 8)
    begin = max(text.rfind("\n", 0, at) + 1, first)
    if at - begin > width // 4:
        begin = text.rfind(" ", 0, at) + 1
    end = min(len(text), begin + width)
    if end < len(text):
        border = max(text.rfind("\n", begin, end), text.rfind(" ", begin, end))
        end = border if border > begin + width // 2 else end
    before, after = _CUT_BEFORE if begin > first else "", _CUT_AFTER if end < len(text) else ""
    begin += len(text[begin:end]) - len(text[begin:end].lstrip())
    return Excerpt(before + text[begin:end].rstrip() + after, start_line + text.count("\n", 0, begin))
