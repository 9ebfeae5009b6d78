"""How far each retrieved page can be relied on: what speaks for it, on the one scale of confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wikid_daemon.core import query as q
from wikid_daemon.core.confidence import (
    CALIBRATED,
    IDENTITY_CONFIDENCE,
    LITERAL_CONFIDENCE,
    Background,
    Signals,
    confidence,
    is_calibrated,
)
from wikid_daemon.core.query import Identity, Terms
from wikid_daemon.core.ranking import RERANK, Fused
from wikid_daemon.index.store import Found, Store
from wikid_daemon.retrieval import Question, Retrieved, admitted


@dataclass(frozen=True, slots=True)
class Candidate:
    """A retrieved page. `rank` counts from 1 in its vault's list; `confidence` is unadjusted."""

    found: Found
    rank: int
    fused: Fused
    coverage: float
    confidence: float
    identity: Identity | None


@dataclass(frozen=True, slots=True)
class Scale:
    """What makes the confidences of one vault comparable: the embedder's identity, and its background where it has not
    been calibrated."""

    model: str
    background: Background | None

    @classmethod
    def of(cls, store: Store, question: Question) -> Scale:
        if question.vector is None:
            return cls(CALIBRATED, None)  # words alone: no embedder has a part in it
        model = question.vector.model
        return cls(model, None if is_calibrated(model) else store.background())


@dataclass(frozen=True, slots=True)
class Standing:
    """How a page stands among the others of its vault: rank from 1, lead over the next, and what a reranker said."""

    rank: int
    margin: float
    rerank: float | None


# a page that a relation brought in stands behind the retrieved ones
BROUGHT_IN: Final = Standing(rank=5, margin=0.0, rerank=None)


@dataclass(frozen=True, slots=True)
class Judged:
    coverage: float
    confidence: float
    identity: Identity | None


def candidates(store: Store, question: Question, retrieved: Retrieved, keep: int) -> list[Candidate]:
    """The best `keep` pages of one vault that may answer, best first."""
    found = list(admitted(store, question, retrieved.fused, keep + 1))
    scores = [fused.score for fused, _ in found] + [0.0]
    scale = Scale.of(store, question)
    judged = []
    for place, (fused, at) in enumerate(found[:keep]):
        standing = Standing(place + 1, scores[place] - scores[place + 1], dict(fused.signals).get(RERANK))
        one = judge(question, at, retrieved.terms, fused.cosine, scale, standing)
        judged.append(Candidate(at, place + 1, fused, one.coverage, one.confidence, one.identity))
    return judged


def judge(
    question: Question, found: Found, terms: Terms, cosine: float | None, scale: Scale, standing: Standing
) -> Judged:
    """How likely the chunk's page answers the question, whether it was retrieved or brought in by a relation."""
    summary, chunk = found.page.summary, found.chunk
    whole = f"{summary.title}\n{' '.join(summary.aliases)}\n{chunk.heading}\n{chunk.text}"
    coverage = terms.coverage(whole)
    named = q.identity(question.name, found.page.page_id, summary)
    # a language that the embedder does not know says nothing through its cosine
    known = cosine if question.dense_share > 0 else None
    signals = Signals(
        coverage if len(terms) else None, known, terms.mass, standing.rank, standing.margin, standing.rerank
    )
    believed = confidence(signals, scale.model, scale.background)
    if named is not None:
        believed = max(believed, IDENTITY_CONFIDENCE)
    elif believed < LITERAL_CONFIDENCE and question.literally.search(q.compatible(whole)):
        believed = LITERAL_CONFIDENCE
    return Judged(coverage, believed, named)
