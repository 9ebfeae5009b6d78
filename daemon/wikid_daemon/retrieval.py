"""First-stage retrieval in one vault: both lists, fused, and the pages of them that may answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from wikid_daemon.core import query as q
from wikid_daemon.core.query import Terms
from wikid_daemon.core.ranking import CANDIDATES, Fused, PageHit, best_per_page, fuse, share_of_vectors
from wikid_daemon.core.resolutions import CATEGORY
from wikid_daemon.core.summary import PageSummary
from wikid_daemon.index.admission import EVERY, Admission
from wikid_daemon.index.catalog_rows import page_of
from wikid_daemon.index.dense import DenseHit, Vectors
from wikid_daemon.index.lucene import NO_TERMS, LexicalHit
from wikid_daemon.index.store import Found, Store

# a page has several chunks in each list, and deleted ones are dropped: ask for more chunks than pages
WANTED: Final = int(CANDIDATES * 1.5)
SPARE: Final = 3  # for pages that are gone or are resolutions


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query's unit vector, the identity of the model that made it, and the share of the fused score it may have."""

    model: str
    values: Vectors
    share: float


@dataclass(frozen=True)
class Question:
    """What is asked: the normalised text, its vector where there is one, the wanted types, and whether a page of some
    date may answer.

    `in_period` is None where pages of every date may.
    """

    text: str
    vector: QueryVector | None
    types: tuple[str, ...] = ()
    in_period: Callable[[str | None], bool] | None = None

    def vector_for(self, store: Store) -> Vectors | None:
        """The vector, where the vault serves vectors of the same model; another's would mean something else."""
        return self.vector.values if self.vector is not None and self.vector.model == store.model else None

    @property
    def model(self) -> str:
        """The identity of the model that made the vector."""
        return "" if self.vector is None else self.vector.model

    @property
    def dense_share(self) -> float:
        return 0.0 if self.vector is None else self.vector.share

    @property
    def judge(self) -> str:
        """The identity of the model that knows the question's language; empty where words alone can judge."""
        return self.model if self.dense_share > 0 else ""

    @cached_property
    def name(self) -> str:
        return q.name(self.text)

    @cached_property
    def literally(self) -> re.Pattern[str]:
        return q.literally(self.text)

    @cached_property
    def _types(self) -> frozenset[str]:
        return frozenset(each.strip().lower() for each in self.types)

    @property
    def is_selective(self) -> bool:
        """Whether some pages may not answer because of what they are."""
        return bool(self.types) or self.in_period is not None

    def admits(self, page: PageSummary) -> bool:
        return self.admits_kind(page.type, page.category, page.updated or page.created)

    def admits_kind(self, kind: str, category: str | None, dated: str | None) -> bool:
        """Whether pages of this type, category and date may answer."""
        # a resolution holds both claims' words, and is shown only with them (vault format §11.34)
        if category == CATEGORY:
            return False
        if self._types and kind.strip().lower() not in self._types:
            return False
        return self.in_period is None or self.in_period(dated)


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The pages that lead each list of one vault, their fusion, the query's terms as this vault weighs them, and the
    share that vectors have in the fusion. Only pages `among` those were looked for."""

    lexical: Sequence[PageHit]
    dense: Sequence[PageHit]
    fused: Sequence[Fused]
    terms: Terms
    dense_share: float = 0.0
    among: Admission = EVERY


def retrieve(store: Store, question: Question) -> Retrieved:
    """The best 40 pages of each list, fused, best first."""
    vector = question.vector_for(store)
    among = _admission(store, question, by_vector=vector is not None)
    lexical = by_words(store, among, question.text)
    dense = [] if vector is None else _best(store.dense(vector, WANTED, question.model, among))
    terms = Terms(*store.terms(q.content_words(question.text)))
    share = 0.0 if vector is None else share_of_vectors(question.dense_share, terms.held)
    fused = fuse(
        lexical,
        dense,
        lambda chunks: store.cosines(vector, chunks, question.model) if vector is not None else {},
        share,
    )
    return Retrieved(lexical, dense, fused, terms, share, among)


def by_words(store: Store, among: Admission, text: str, more: Mapping[str, float] = NO_TERMS) -> list[PageHit]:
    """The best 40 pages by the words of `text`, and by `more` words with their weights."""
    return _best(store.lexical(text, WANTED, among, more))


def _admission(store: Store, question: Question, *, by_vector: bool) -> Admission:
    """Which pages may answer, decided before any list is cut off."""
    if not question.is_selective:
        return EVERY
    if question.in_period is None and not by_vector:
        return Admission(question.types)  # Lucene knows them
    pages: dict[bool, set[int]] = {True: set(), False: set()}
    for page, kind, category, dated in store.catalog.kinds():
        pages[question.admits_kind(kind, category, dated)].add(page)
    return Admission(question.types, frozenset(pages[True]), frozenset(pages[False]))


def _best(hits: Sequence[LexicalHit | DenseHit]) -> list[PageHit]:
    return best_per_page([(hit.key, hit.score) for hit in hits], page_of, CANDIDATES)


def admitted(store: Store, question: Question, fused: Sequence[Fused], keep: int) -> Iterator[tuple[Fused, Found]]:
    """The first `keep` pages that still exist and may answer, with their best chunks."""
    looked_at = fused if question.is_selective else fused[: keep + SPARE]
    found = store.load([each.chunk for each in looked_at])
    left = keep
    for each in looked_at:
        at = found.get(each.chunk)
        if left and at is not None and question.admits(at.page.summary):
            left -= 1
            yield each, at
