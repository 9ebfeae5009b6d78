"""One recall's way through its vaults: a first look in each, and a second where the mode or the doubt asks for it.

The fallback table is in `core.modes`: a part that is lacking leaves a diagnostic, and the cheaper mode answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from wikid_daemon.core import modes, ranking
from wikid_daemon.core import query as q
from wikid_daemon.core.bundles import CONTRADICTS
from wikid_daemon.core.modes import FirstStage, Mode, Part
from wikid_daemon.index.catalog import CatalogError
from wikid_daemon.index.dense import Vectors
from wikid_daemon.index.encoders import EmbedFailed
from wikid_daemon.index.lucene import LexicalIndexDamaged
from wikid_daemon.index.store import Store
from wikid_daemon.judging import Candidate, candidates
from wikid_daemon.reranking import Reranker, SecondLook, look_again
from wikid_daemon.retrieval import QueryVector, Question, Retrieved, retrieve
from wikid_daemon.timing import Clock
from wikid_daemon.vaults import Applied
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused

JAVA_UNAVAILABLE: Final = "java_unavailable"
FIRST_LOOK: Final = 10  # candidates that adaptive judges before it decides (seed A, adapter mapping)
# what embedding the query may take; with less than this left the words answer alone
EMBED_MS: Final = 20.0
# what a second look takes at least; with less than this left the first one answers
SECOND_LOOK_MS: Final = 60.0
# what it may take at most where the caller sets no deadline: a quality answer is to come within 700 ms
SECOND_LOOK_MOST_MS: Final = 450.0
ANSWER_MS: Final = 30.0  # left for judging, merging and writing out what was found
# a search may meet these where an index is damaged, or closed for the one that takes its place
UNANSWERED: Final = (CatalogError, LexicalIndexDamaged)


class QueryEncoder(Protocol):
    """What recall needs of an embedder: a unit vector, and how well it knows the query's language, 0–1."""

    @property
    def identity(self) -> str: ...
    def embed_query(self, text: str) -> Vectors: ...
    def familiarity(self, text: str) -> float: ...


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a model cannot be used now, as a diagnostic says it. `want` is called where a recall lacks it."""

    kind: str
    message: str
    remedy: str = ""
    want: Callable[[], None] = field(default=lambda: None, compare=False)


@dataclass(frozen=True, slots=True)
class Models:
    """The warm models, or why one is not there."""

    embedder: QueryEncoder | Absence
    reranker: Reranker | Absence


@dataclass(slots=True)
class Call:
    """One recall as it goes: what is asked, its time, and what was lacked and decided on the way.

    `used` is the path that was taken and `reasons` says why, in stable words, those of what was `lacking` last;
    `spent_ms` is per step.
    """

    question: Question
    wanted: Mode
    clock: Clock
    cancelled: Callable[[], bool]
    diagnostics: list[r.Diagnostic]
    intent: str = ""
    used: Mode = "lexical"
    reasons: tuple[str, ...] = ()
    lacking: list[str] = field(default_factory=list)
    spent_ms: dict[str, float] = field(default_factory=dict)

    def tell(self, absence: Absence) -> None:
        absence.want()
        kind, message, remedy = absence.kind, absence.message, absence.remedy
        self.lacking.append(kind)
        self.diagnostics.append(r.Diagnostic(kind=kind, message=message, remedy=remedy))

    def ended(self, step: str) -> None:
        """The step has just ended; the next one begins, unless the caller is gone."""
        self.spent_ms[step] = self.clock.elapsed_ms - sum(self.spent_ms.values())
        if self.cancelled():
            raise RequestRefused("cancelled", "the call was cancelled")


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found in one vault: the first look, and the second where there was one."""

    applied: Applied
    store: Store
    first: Retrieved
    second: SecondLook | None = None

    @property
    def retrieved(self) -> Retrieved:
        return self.first if self.second is None else self.second.retrieved


def search(call: Call, asked: Sequence[tuple[Applied, Store]], models: Models) -> list[Looked]:
    """Look in each vault by the mode that is wanted, or by the best that can be served."""
    vector = _vector(call, asked, models.embedder)
    call.question = replace(call.question, vector=vector)
    call.ended("query")
    looked = [Looked(applied, store, retrieve(store, call.question)) for applied, store in asked]
    call.ended("first_look")
    path, call.reasons = _path(call, looked)
    reranker = _reranker(call, models.reranker) if path == "quality" and vector is not None else models.reranker
    lacking: set[Part] = set()
    if vector is None:
        lacking.add("vectors")
    if isinstance(reranker, Absence):
        lacking.add("reranker")
    call.used = modes.answered_by(path, lacking)
    if call.used == "quality" and not isinstance(reranker, Absence):
        looked = _again(call, looked, reranker)
    if any(not store.has_lexical for _, store in asked):
        call.lacking.append(JAVA_UNAVAILABLE)
    call.reasons = tuple(dict.fromkeys((*call.reasons, *call.lacking)))
    return looked


def answers(store: Store | None, text: str) -> bool:
    """Whether the index can be searched at all; where there is none, it is not what fails."""
    question = Question(q.normalise(text), None)
    try:
        if store is not None:
            candidates(store, question, retrieve(store, question), 1)
    except UNANSWERED:
        return False
    return True


def _again(call: Call, looked: Sequence[Looked], reranker: Reranker) -> list[Looked]:
    """A second look in each vault, in an equal share of the time."""
    whole = Clock(min(call.clock.left_ms - ANSWER_MS, SECOND_LOOK_MOST_MS))
    again = []
    for place, each in enumerate(looked):
        # a caller that is gone leaves no time at all, which ends what is being judged
        share = Clock(whole.left_ms / (len(looked) - place), call.cancelled)
        second = look_again(each.store, call.question, each.first, reranker, share, call.intent)
        again.append(replace(each, second=second))
    call.ended("second_look")
    seconds = [each.second for each in again if each.second is not None]
    if any(each.pages for each in seconds) and not any(each.reranked for each in seconds):
        call.used = "hybrid"
        call.tell(Absence("reranker_failed", "the reranker judged nothing in time: the first look answered"))
    return again


def _vector(call: Call, asked: Sequence[tuple[Applied, Store]], embedder: QueryEncoder | Absence) -> QueryVector | None:
    """The query's vector; None, with the reason told, where words alone must answer."""
    if call.wanted == "lexical":
        return None
    if call.clock.left_ms < EMBED_MS:
        call.tell(Absence("deadline_short", "too little time for vectors: words alone answered"))
    elif isinstance(embedder, Absence):
        call.tell(embedder)
    elif asked and not any(store.embedded and store.model == embedder.identity for _, store in asked):
        call.tell(Absence("vectors_missing", "no page has a vector yet: words alone answered"))
    else:
        try:
            values = embedder.embed_query(call.question.text)
        except EmbedFailed as problem:
            message = f"the query could not be embedded, {problem.reason}: words alone answered"
            call.tell(Absence("query_not_embedded", message))
        else:
            share = ranking.DENSE_SHARE * embedder.familiarity(call.question.text)
            return QueryVector(embedder.identity, values, share)
    return None


def _path(call: Call, looked: Sequence[Looked]) -> tuple[Mode, tuple[str, ...]]:
    """The path that the wanted mode asks for, and why."""
    if call.wanted != "adaptive":
        return call.wanted, ("requested",)
    if call.question.vector is None:
        return call.wanted, ()  # there was nothing to decide; what is lacking says why
    doubts = modes.escalations(call.question.text, [_first_stage(call.question, each) for each in looked])
    return ("quality", doubts) if doubts else ("hybrid", ("certain",))


def _first_stage(question: Question, looked: Looked) -> FirstStage:
    judged = candidates(looked.store, question, looked.first, FIRST_LOOK)
    return FirstStage(
        confidences=[each.confidence for each in judged],
        lexical=[hit.page for hit in looked.first.lexical],
        dense=[hit.page for hit in looked.first.dense],
        named=bool(judged) and judged[0].identity is not None,
        disputed=_are_disputed(looked.store, judged),
    )


def _are_disputed(store: Store, judged: Sequence[Candidate]) -> bool:
    """Whether one of these pages declares that it contradicts another of them."""
    pages = {each.found.page.page: each.found.page.page_id for each in judged}
    ids = set(pages.values())
    links = store.catalog.relations_from(list(pages)) if pages else []
    return any(link.relation == CONTRADICTS and link.target in ids for link in links)


def _reranker(call: Call, reranker: Reranker | Absence) -> Reranker | Absence:
    """The reranker, unless it is absent or there is no time for it, which is told."""
    if not isinstance(reranker, Absence) and call.clock.left_ms < SECOND_LOOK_MS:
        reranker = Absence("deadline_short", "too little time to rerank: the first look answered")
    if isinstance(reranker, Absence):
        call.tell(reranker)
    return reranker
