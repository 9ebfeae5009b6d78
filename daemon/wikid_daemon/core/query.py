"""A query: normalised, cut into weighted terms, and matched against pages. Text is never parsed as a language."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from wikid_daemon.core.function_words import FUNCTION_CHARACTERS, FUNCTION_WORDS
from wikid_daemon.core.summary import PageSummary

MAX_CODE_POINTS: Final = 2_000
MAX_TERMS: Final = 64
MAX_INTENT: Final = 256  # code points (seed A, Query and intent construction)
_PENDING: Final = "pending"  # the topic of a vault that nobody has named yet

_SPACE = re.compile(r"\s+")
_HAS_WORD = re.compile(r"\w|[^\x00-\x7f]")
_DIGIT = re.compile(r"\d")
_NAME_NOISE = re.compile(r"[\s_\-]+")
_CUT_BEFORE = "… "
_CUT_AFTER = " …"


def normalise(query: str) -> str:
    """NFKC, trimmed, white space collapsed; punctuation, quotes and identifiers stay (seed A, Query construction)."""
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", query)).strip()


def intent(topic: str, mode: str) -> str:
    """What a vault is about, for a reranker; empty where the vault does not say (vault format §11.24)."""
    given = (each.strip() for each in (topic, mode))
    return " ".join(each for each in given if each and each.casefold() != _PENDING)[:MAX_INTENT]


def content_words(query: str) -> str:
    """The query without its function words, or as it is where nothing else is in it."""
    kept = [word for word in query.split(" ") if word.casefold().strip(".,;:!?\"'()") not in FUNCTION_WORDS]
    return " ".join(kept) or query


def has_words(query: str) -> bool:
    """False for an empty query and for pure ASCII punctuation."""
    return _HAS_WORD.search(query) is not None


class Terms:
    """The query's analysed terms with their rarities (0–1), and where they stand in a text.

    Terms are stems: `databas` stands where database and databases do. `mass` is the sum of all rarities, `held` the
    share of it (0–1) that is not of the `unknown` terms, which stand nowhere in the vault; 1 where a number or code is
    known, which means the same in every language, and which no embedder tells from its neighbours.
    """

    def __init__(self, weights: Sequence[tuple[str, float]], unknown: Collection[str] = ()) -> None:
        # of a text without spaces terms are pairs of characters, and many of them join a word to grammar
        telling = [each for each in weights if FUNCTION_CHARACTERS.isdisjoint(each[0])]
        self.weights = dict(sorted(telling or weights, key=lambda each: -each[1])[:MAX_TERMS])
        self.mass = sum(self.weights.values())
        self.held = self._held(set(unknown))
        self._forms = [
            (_form(fold(compatible(word))), weight, word.isascii()) for word, weight in self.weights.items() if word
        ]

    def _held(self, unknown: Collection[str]) -> float:
        known = [word for word in self.weights if word not in unknown]
        if self.mass <= 0 or any(_DIGIT.search(word) for word in known):
            return 1.0
        return sum(self.weights[word] for word in known) / self.mass

    def __len__(self) -> int:
        return len(self.weights)

    def rarity(self, word: str) -> float:
        """How rare a word, or a character of a script without spaces, is in the vault: 0 for one that is not asked for
        by its meaning, such as a function word."""
        folded = fold(compatible(word))
        found = (
            weight
            for form, weight, bounded in self._forms
            if folded.startswith(form) or (not bounded and folded in form)
        )
        return max(found, default=0.0)

    def coverage(self, text: str) -> float:
        """The share of the query's weight whose terms stand in `text`, 0–1."""
        if self.mass <= 0:
            return 0.0
        plain = compatible(text)
        folded = fold(plain)
        found = (weight for form, weight, bounded in self._forms if _stands(plain, folded, form, bounded, 0) >= 0)
        return sum(found) / self.mass

    def densest(self, text: str, width: int) -> int:
        """The offset of the stretch of `width` code points that holds the most of the query's weight; 0 for none."""
        plain = compatible(text)
        places = sorted(self._places(plain, fold(plain)))
        best, best_at, total, first = 0.0, 0, 0.0, 0
        for at, weight in places:
            total += weight
            while places[first][0] + width <= at:
                total -= places[first][1]
                first += 1
            if total > best:
                best, best_at = total, places[first][0]
        # normalising may have changed the length a little
        return best_at * len(text) // max(len(plain), 1)

    def _places(self, plain: str, folded: str) -> Iterator[tuple[int, float]]:
        for form, weight, bounded in self._forms:
            at = _stands(plain, folded, form, bounded, 0)
            while at >= 0:
                yield at, weight
                at = _stands(plain, folded, form, bounded, at + 1)


def _stands(plain: str, folded: str, form: str, bounded: bool, start: int) -> int:
    """Where `form` next begins a word, or a part of an identifier, from `start` on; -1 for nowhere."""
    at = folded.find(form, start)
    while at > 0 and bounded:
        before = plain[at - 1]
        if not before.isalnum() or (before.islower() and plain[at].isupper()):
            break
        at = folded.find(form, at + 1)
    return at


def literally(query: str) -> re.Pattern[str]:
    """Matches a text in which all that the query asks for stands as one phrase, not inside a longer word.

    Case counts only for a query of function words, such as the operator `AND`. The text must be NFKC.
    """
    words = content_words(query)
    pattern = rf"(?<!\w){re.escape(words)}(?!\w)" if words.isascii() else re.escape(words)
    only_function_words = all(word.casefold() in FUNCTION_WORDS for word in words.split(" "))
    return re.compile(pattern, re.NOFLAG if only_function_words else re.IGNORECASE)


def compatible(text: str) -> str:
    """NFKC, in which the query is compared with a text."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def fold(text: str) -> str:
    """The form in which terms are compared; one code point stays one, so that offsets hold."""
    if text.isascii():
        return text.lower()
    folded = text.lower()
    return folded if len(folded) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _form(word: str) -> str:
    # Porter turns a final y into i
    return word[:-1] if len(word) > 3 and word.endswith("i") else word


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
    return _NAME_NOISE.sub(" ", compatible(text).casefold()).strip(" \"'`[]?.!")


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
        begin = max(text.rfind(" ", begin, at) + 1, begin)
    if at - begin > width // 2:
        begin = at
    end = min(len(text), begin + width)
    if end < len(text):
        border = max(text.rfind("\n", begin, end), text.rfind(" ", begin, end))
        end = border if border > begin + width // 2 else end
    before, after = _CUT_BEFORE if begin > first else "", _CUT_AFTER if end < len(text) else ""
    begin += len(text[begin:end]) - len(text[begin:end].lstrip())
    return Excerpt(before + text[begin:end].rstrip() + after, start_line + text.count("\n", 0, begin))
