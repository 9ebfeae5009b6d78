"""The second look at one vault: the query expanded, and the best candidates judged again (seed A, quality).

Expansion finds candidates; what they are worth is judged in `rescoring`: by the first look's score, the reranker,
and what stands near them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np

from wikid_daemon.core import query as q
from wikid_daemon.core.expansion import FEEDBACK_CHUNKS, other_names, relevant_words
from wikid_daemon.core.ranking import CANDIDATES, DENSE_SHARE, RERANK, Fused
from wikid_daemon.index.dense import Vectors
from wikid_daemon.index.late_interaction import Asked, Passage
from wikid_daemon.index.pages import stored_embedding_text
from wikid_daemon.index.store import Found, Store
from wikid_daemon.rescoring import NEIGHBOUR_WEIGHT, RERANK_WEIGHT, Matrix, combined
from wikid_daemon.retrieval import Question, Retrieved, admitted, by_words
from wikid_daemon.timing import Clock

FROM_EXPANSION: Final = 5  # candidates that only the expanded query found


class Reranker(Protocol):
    """Judges how well passages answer a query, as many as it can in the time that is left; None for the rest."""

    @property
    def identity(self) -> str: ...
    def scores(
        self, asked: Asked, passages: Sequence[Passage], left_ms: Callable[[], float]
    ) -> Sequence[float | None]: ...


@dataclass(frozen=True, slots=True)
class SecondLook:
    """The new order, and how it came about: the words and names that were added, and how many pages were `reranked` of
    those that there were to judge."""

    retrieved: Retrieved
    words: Mapping[str, float]
    names: Sequence[str]
    reranker: str
    reranked: int
    pages: int

    def explained(self) -> dict[str, Any]:
        return {
            "expansion": {word: round(weight, 4) for word, weight in self.words.items()},
            "names": list(self.names),
            "reranker": self.reranker,
            "reranked": self.reranked,
            "weights": {"rerank": RERANK_WEIGHT, "neighbours": NEIGHBOUR_WEIGHT},
        }


def look_again(
    store: Store, question: Question, first: Retrieved, reranker: Reranker, clock: Clock, intent: str
) -> SecondLook:
    """Order the first look's candidates, and a few more, anew."""
    best = list(admitted(store, question, first.fused, CANDIDATES))
    names = other_names(question.text, [found.page.summary for _, found in best])
    words = _relevant_words(store, first, best)
    more = _found_by(store, question, first, words, names, {fused.page for fused, _ in best})
    pool = [*best[: CANDIDATES - len(more)], *more]
    passages = [
        Passage(found.chunk.hash, stored_embedding_text(found.chunk, found.page.summary.title)) for _, found in pool
    ]
    asked = Asked(question.text, first.terms.rarity, intent)
    scores = reranker.scores(asked, passages, lambda: clock.left_ms)
    order = _ordered(store, question, [fused for fused, _ in pool], scores)
    order += [fused for fused, _ in best[CANDIDATES - len(more) :]]
    reranked = sum(score is not None for score in scores)
    return SecondLook(replace(first, fused=order), words, names, reranker.identity, reranked, len(pool))


def _relevant_words(store: Store, first: Retrieved, best: Sequence[tuple[Fused, Found]]) -> dict[str, float]:
    chunks = [(fused.score, store.words(found.chunk.text)) for fused, found in best[:FEEDBACK_CHUNKS]]
    return relevant_words(chunks, first.terms.weights, len(first.terms))


def _found_by(
    store: Store,
    question: Question,
    first: Retrieved,
    words: Mapping[str, float],
    names: Sequence[str],
    known: set[int],
) -> list[tuple[Fused, Found]]:
    """Pages that only the expanded query finds, with what the first look would have made of them."""
    if not words and not names:
        return []
    text = " ".join([question.text, *names])[: q.MAX_CODE_POINTS]
    new = [hit for hit in by_words(store, first.among, text, words) if hit.page not in known]
    vector = question.vector_for(store)
    near = store.cosines(vector, [hit.chunk for hit in new], question.model) if vector is not None else {}
    found = [_as_first_look(first, hit.page, hit.chunk, near.get(hit.chunk)) for hit in new]
    return list(admitted(store, question, found, FROM_EXPANSION))


def _as_first_look(first: Retrieved, page: int, chunk: int, cosine: float | None) -> Fused:
    """The score of a page that stood behind the first forty of both lists: no share for its words, and that of its
    cosine on their scale."""
    known = [each.cosine for each in first.fused if each.cosine is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    near = 0.0 if cosine is None or high <= low else max((cosine - low) / (high - low), 0.0)
    return Fused(page, chunk, first.dense_share * near, None, cosine)


def _ordered(store: Store, question: Question, pool: Sequence[Fused], scores: Sequence[float | None]) -> list[Fused]:
    if not pool:
        return []
    known = question.dense_share / DENSE_SHARE
    vectors = store.vectors([fused.chunk for fused in pool])
    near = _nearness([vectors.get(fused.chunk) for fused in pool])
    final = combined(np.asarray([fused.score for fused in pool]), scores, near, known)
    signals = [() if score is None else ((RERANK, score),) for score in scores]
    order = [replace(fused, score=score, signals=told) for fused, score, told in zip(pool, final, signals, strict=True)]
    order.sort(key=lambda each: (-each.score, each.page))
    return order


def _nearness(vectors: Sequence[Vectors | None]) -> Matrix:
    """The cosines between all candidates' chunks, 0 for those without a vector and for a chunk with itself."""
    near = np.zeros((len(vectors), len(vectors)))
    have = [place for place, vector in enumerate(vectors) if vector is not None]
    if have:
        rows = np.stack([vector for vector in vectors if vector is not None])
        near[np.ix_(have, have)] = np.clip(rows @ rows.T, 0.0, 1.0)
    np.fill_diagonal(near, 0.0)
    return near
