"""First-stage retrieval in one vault: both lists, fused, each page with its best chunk and its confidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from wikid_daemon.core import query as q
from wikid_daemon.core.confidence import IDENTITY_CONFIDENCE, LITERAL_CONFIDENCE, Signals, confidence
from wikid_daemon.core.query import Identity, Terms
from wikid_daemon.core.ranking import CANDIDATES, Fused, best_per_page, fuse
from wikid_daemon.core.summary import PageSummary
from wikid_daemon.index.catalog_rows import page_of
from wikid_daemon.index.dense import Vectors
from wikid_daemon.index.store import Found, Store

# a page has several chunks in each list, and deleted ones are dropped: ask for more chunks than pages
# holds both claims' words, and is shown only with them (vault format §11.34)
RESOLUTION: Final = "conflict-resolution"
CHUNKS_PER_PAGE: Final = 1.5
SPARE: Final = 3  # for pages that are gone or are resolutions


@dataclass(frozen=True, slots=True)
class Candidate:
    """A retrieved page. `rank` counts from 1 in its vault's fused list; `confidence` is unadjusted."""

    found: Found
    rank: int
    fused: Fused
    coverage: float
    confidence: float
    identity: Identity | None


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query's unit vector, the identity of the model that made it, and the share of the fused score it may have."""

    model: str
    values: Vectors
    share: float


@dataclass(frozen=True)
class Question:
    """What is asked: the normalised text, its vector where there is one, and the wanted types."""

    text: str
    vector: QueryVector | None
    types: tuple[str, ...] = ()

    def vector_for(self, store: Store) -> Vectors | None:
        """The vector, where the vault serves vectors of the same model; another's would mean something else."""
        return self.vector.values if self.vector is not None and self.vector.model == store.model else None

    @property
    def dense_share(self) -> float:
        return 0.0 if self.vector is None else self.vector.share

    @cached_property
    def name(self) -> str:
        return q.name(self.text)

    @cached_property
    def literally(self) -> re.Pattern[str]:
        return q.literally(self.text)


def retrieve(
    store: Store, question: Question, keep: int, admits: Callable[[PageSummary], bool] | None = None
) -> tuple[list[Candidate], Terms]:
    """The best `keep` pages of one vault that `admits` lets in, best first, and the query's terms as this vault weighs
    them."""
    wanted = int(CANDIDATES * CHUNKS_PER_PAGE)
    lexical = [(hit.key, hit.score) for hit in store.lexical(question.text, wanted, question.types)]
    vector = question.vector_for(store)
    dense = [(hit.key, hit.score) for hit in store.dense(vector, wanted)] if vector is not None else []
    fused = fuse(
        best_per_page(lexical, page_of, CANDIDATES),
        best_per_page(dense, page_of, CANDIDATES),
        lambda chunks: store.cosines(vector, chunks) if vector is not None else {},
        question.dense_share if vector is not None else 0.0,
    )
    terms = Terms(store.terms(q.content_words(question.text)))
    return _candidates(store, question, fused, terms, keep, admits), terms


def _candidates(
    store: Store,
    question: Question,
    fused: Sequence[Fused],
    terms: Terms,
    keep: int,
    admits: Callable[[PageSummary], bool] | None,
) -> list[Candidate]:
    types = {each.strip().lower() for each in question.types}
    # only the dense list can hold a page of another type
    found = store.load([each.chunk for each in (fused if types or admits else fused[: keep + SPARE])])
    candidates: list[Candidate] = []
    for each in fused:
        at = found.get(each.chunk)
        if at is None or (types and at.page.summary.type.strip().lower() not in types):
            continue
        if at.page.summary.category == RESOLUTION:
            continue
        if admits is None or admits(at.page.summary):
            candidates.append(_candidate(question, each, at, terms, len(candidates) + 1))
        if len(candidates) == keep:
            break
    return candidates


def _candidate(question: Question, fused: Fused, found: Found, terms: Terms, rank: int) -> Candidate:
    judged = judge(question, found, terms, fused.cosine)
    return Candidate(found, rank, fused, judged.coverage, judged.confidence, judged.identity)


@dataclass(frozen=True, slots=True)
class Judged:
    coverage: float
    confidence: float
    identity: Identity | None


def judge(question: Question, found: Found, terms: Terms, cosine: float | None) -> Judged:
    """How likely the chunk's page answers the question, whether it was retrieved or brought in by a relation."""
    summary, chunk = found.page.summary, found.chunk
    whole = f"{summary.title}\n{' '.join(summary.aliases)}\n{chunk.heading}\n{chunk.text}"
    coverage = terms.coverage(whole)
    named = q.identity(question.name, found.page.page_id, summary)
    # a language that the embedder does not know says nothing through its cosine
    known = cosine if question.dense_share > 0 else None
    believed = confidence(Signals(coverage if len(terms) else None, known, terms.mass))
    if named is not None:
        believed = max(believed, IDENTITY_CONFIDENCE)
    elif believed < LITERAL_CONFIDENCE and question.literally.search(q.compatible(whole)):
        believed = LITERAL_CONFIDENCE
    return Judged(coverage, believed, named)
