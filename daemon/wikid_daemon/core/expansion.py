"""Words that the query lacks: those of its best pages (RM3), and the other names of what it names. Pure.

Lavrenko and Croft's relevance model with the constants usual since Anserini: what the best chunks have in common, half
of the weight of the query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from wikid_daemon.core import query as q
from wikid_daemon.core.summary import PageSummary

FEEDBACK_CHUNKS: Final = 5
FEEDBACK_WORDS: Final = 10
LONGEST_WORD: Final = 20
MAX_NAMES: Final = 8


def relevant_words(
    chunks: Sequence[tuple[float, Counter[str]]], known: Iterable[str], query_words: int
) -> dict[str, float]:
    """The words that speak most for these chunks, given as (score, analysed words), with their weights.

    All together weigh as much as the query's own words, 1 each; words of the query are left out.
    """
    model: dict[str, float] = {}
    mass = sum(score for score, _ in chunks)
    for score, words in chunks:
        length = words.total()
        for word, times in words.items():
            model[word] = model.get(word, 0.0) + (score / mass * times / length if mass > 0 else 0.0)
    for word in known:
        model.pop(word, None)
    best = sorted(
        ((word, share) for word, share in model.items() if _tells(word)), key=lambda each: (-each[1], each[0])
    )
    best = best[:FEEDBACK_WORDS]
    total = sum(share for _, share in best)
    return {word: max(query_words, 1) * share / total for word, share in best if total > 0}


def other_names(query: str, pages: Iterable[PageSummary]) -> list[str]:
    """The titles and aliases that the named pages also go by, where the query holds one of their names as a phrase."""
    text = f" {q.name(query)} "
    found: dict[str, None] = {}
    for page in pages:
        names = [name for name in (page.title, *page.aliases) if q.name(name)]
        if any(f" {q.name(name)} " in text for name in names):
            found.update(dict.fromkeys(name for name in names if f" {q.name(name)} " not in text))
    return list(found)[:MAX_NAMES]


def _tells(word: str) -> bool:
    return 2 <= len(word) <= LONGEST_WORD and not word.isdecimal()
