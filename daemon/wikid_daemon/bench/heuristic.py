"""Recall as the extension does it today, re-implemented to be measured against (vault format §8). Pure.

Substrings are counted, without weighing how rare they are: each query term that occurs in a field gives the field's
points, the best heading chunk adds its own, and frequent words of the first three pages then count a little on all.
It gives what the extension itself gave on the sample vaults. Not taken over: its vectors, off by default; its list of
words that never feed back, which wikid's list of function words stands for; its order among equals outside ASCII.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wikid_daemon.core.function_words import FUNCTION_WORDS
from wikid_daemon.core.page import Json, KnowledgeDocument

AUTOMATIC_RESULTS: Final = 3
AUTOMATIC_FLOOR: Final = 5.0

_ID_POINTS, _TYPE_POINTS = 3, 1
_POINTS: Final[Mapping[str, int]] = {
    "title": 5,
    "aliases": 6,
    "recall_triggers": 7,
    "summary": 3,
    "description": 3,
    "tags": 2,
    "category": 2,
    "domain": 2,
}
_CHUNK_POINTS: Final = (4.0, 1.0)  # heading, content
_FEEDBACK_POINTS: Final = (2.0, 0.5)
_FEEDBACK_SHARE: Final = 0.4
_FEEDBACK_FIELDS: Final = ("title", "aliases", "tags", "summary", "description")
_FEEDBACK_FROM, _FEEDBACK_TO, _FEEDBACK_WORDS, _FEEDBACK_LETTERS = 3, 25, 6, 4
_MAX_TERMS: Final = 30

_HEADING = re.compile(r"#{1,6}\s+(.+)")
_LATIN = re.compile(r"[a-z0-9]{2,}")
# scripts Han, Hiragana and Katakana; the long-vowel mark belongs to none
_CJK = re.compile("[々〇〡-〩〸-〻㐀-䶿一-鿿豈-龎ぁ-ゖゝ-ゟァ-ヺヽ-ヿㇰ-ㇿ\U00020000-\U000323af]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """What the extension holds of a page: its registry entry, and frontmatter and body where it has a file."""

    page_id: str
    registered: Mapping[str, Json]
    frontmatter: Mapping[str, Json]
    body: str


@dataclass(frozen=True, slots=True)
class Ranked:
    page_id: str
    score: float


def entry_of(page_id: str, document: KnowledgeDocument) -> Entry:
    """The entry of a page whose registry is current (vault format §4)."""
    return Entry(page_id, {**document.metadata, "title": document.title}, document.metadata, document.body)


class Heuristic:
    """The pages of one vault, ready to be asked."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._pages = [_prepared(entry) for entry in entries]

    def rank(self, query: str) -> list[Ranked]:
        """Every page with a point, best first, ties by id."""
        terms = _terms(query)
        found = [(page, score) for page in self._pages if (score := page.score(terms)) > 0]
        found.sort(key=lambda each: (-each[1], each[0].page_id))
        expansion = _terms(" ".join(_feedback_words(query, [page for page, _ in found[:_FEEDBACK_FROM]])))
        ranked = [
            Ranked(page.page_id, score + _FEEDBACK_SHARE * _best(page.chunks, expansion, _FEEDBACK_POINTS))
            for page, score in found[:_FEEDBACK_TO]
        ]
        ranked += [Ranked(page.page_id, score) for page, score in found[_FEEDBACK_TO:]]
        return sorted(ranked, key=lambda each: (-each.score, each.page_id))

    def ask(self, query: str, limit: int) -> list[str]:
        """Page ids, best first."""
        return [each.page_id for each in self.rank(query)[:limit]]

    def automatic(self, query: str) -> list[str]:
        """The pages that would be put before an agent's turn, unasked."""
        first = self.rank(query)[:AUTOMATIC_RESULTS]
        return [each.page_id for each in first if each.score >= AUTOMATIC_FLOOR]


@dataclass(frozen=True, slots=True)
class _Page:
    """Text to be searched has no spaces left; `fields` hold what one matching term is worth, `words` feed back."""

    page_id: str
    fields: tuple[tuple[str, int], ...]
    chunks: tuple[tuple[str, str], ...]
    words: tuple[str, ...]

    def score(self, terms: Sequence[str]) -> float:
        return sum(points * _matches(text, terms) for text, points in self.fields) + _best(
            self.chunks, terms, _CHUNK_POINTS
        )


def _prepared(entry: Entry) -> _Page:
    registered, own = entry.registered, entry.frontmatter
    fields: Counter[str] = Counter()  # registry and frontmatter both count; mostly they say the same
    for value, points in (
        (entry.page_id, _ID_POINTS),
        (registered.get("type"), _TYPE_POINTS),
        *((where.get(name), points) for name, points in _POINTS.items() for where in (registered, own)),
    ):
        fields[_compact(_normalised(_flat(value)))] += points
    fed_back = [registered.get(name) for name in _FEEDBACK_FIELDS]
    return _Page(
        entry.page_id,
        tuple(fields.items()),
        tuple((_compact(_normalised(heading)), _compact(_normalised(text))) for heading, text in _chunks(entry.body)),
        tuple(_normalised(f"{_flat(fed_back)} {entry.body}").split()),
    )


def _chunks(body: str) -> list[tuple[str, str]]:
    """(heading, text below it); any line that looks like a heading is one, in code too."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in body.split("\n"):
        heading = _HEADING.fullmatch(line.strip())
        if heading:
            found.append((heading[1], []))
        else:
            found[-1][1].append(line)
    return [(heading, "\n".join(lines)) for heading, lines in found]


def _best(chunks: Sequence[tuple[str, str]], terms: Sequence[str], points: tuple[float, float]) -> float:
    """The points of the chunk with most."""
    for_heading, for_text = points
    return max(
        (for_heading * _matches(heading, terms) + for_text * _matches(text, terms) for heading, text in chunks),
        default=0.0,
    )


def _matches(text: str, terms: Sequence[str]) -> int:
    """How many terms occur in a text; both without spaces, which finds all that is found with them."""
    return sum(term in text for term in terms) if text else 0


def _terms(query: str) -> list[str]:
    """The whole query, its words and parts of words. Each counts by itself, also where two differ by spaces alone."""
    whole = _normalised(query)
    grams = [run[at : at + size] for run in _CJK.findall(whole) for size in (2, 3) for at in range(len(run) - size + 1)]
    words = [word for word in whole.split() if len(word) >= 2]
    terms = dict.fromkeys([whole, _compact(whole), *words, *_LATIN.findall(whole), *grams])
    return [_compact(term) for term in terms if term][:_MAX_TERMS]


def _feedback_words(query: str, first: Sequence[_Page]) -> list[str]:
    """The most frequent words of the first pages that the query lacks, ties by spelling."""
    asked = _normalised(query)
    counts = Counter(
        word
        for page in first
        for word in page.words
        if len(word) >= _FEEDBACK_LETTERS and word not in asked and word not in FUNCTION_WORDS
    )
    return sorted(counts, key=lambda word: (-counts[word], word))[:_FEEDBACK_WORDS]


def _flat(value: Json) -> str:
    """All text of a value, however nested."""
    if isinstance(value, list):
        return " ".join(map(_flat, value))
    if isinstance(value, dict):
        return _flat(list(value.values()))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _normalised(text: str) -> str:
    """Lower case, compatible forms, and spaces for whatever is neither letter, digit, mark nor space."""
    return " ".join(unicodedata.normalize("NFKC", text.lower()).translate(_SPACES).split())


def _compact(text: str) -> str:
    return text.replace(" ", "")


class _Spaces(dict[int, str]):
    """Each character's replacement: a space for punctuation and symbols, filled as characters are met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = " " if unicodedata.category(character)[0] in "PS" else character
        return self[code]


_SPACES: Final = _Spaces()
