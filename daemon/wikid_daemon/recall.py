"""Query → bundles, read top to bottom: normalise, choose the mode, retrieve in each vault, merge, group, write out.

Every step that can do less than asked says so in a diagnostic; nothing here fails because a model or Java is missing.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from wikid_daemon.assembly import Assembly, Searched, merge
from wikid_daemon.core import query as q
from wikid_daemon.core import ranking
from wikid_daemon.core.confidence import AUTOMATIC_FLOOR, EXPLICIT_FLOOR
from wikid_daemon.core.summary import PageSummary
from wikid_daemon.explanation import explain
from wikid_daemon.index.dense import Vectors
from wikid_daemon.index.encoders import EmbedFailed
from wikid_daemon.index.store import Store
from wikid_daemon.retrieval import QueryVector, Question, retrieve
from wikid_daemon.vaults import Applied
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused
from wikid_protocol.methods import RecallParams

MODES: Final[tuple[r.Mode, ...]] = ("lexical", "hybrid", "adaptive", "quality")
DEFAULT_MODE: Final[r.Mode] = "hybrid"
MAX_RESULTS: Final = 10
AUTOMATIC_BUNDLES: Final = 3
KEEP_EXTRA: Final = 2
# what embedding the query may take; with less than this left the words answer alone
HYBRID_MS: Final = 20.0


class QueryEncoder(Protocol):
    """What recall needs of an embedder: a unit vector, and how well it knows the query's language, 0–1."""

    @property
    def identity(self) -> str: ...
    def embed_query(self, text: str) -> Vectors: ...
    def familiarity(self, text: str) -> float: ...


@dataclass(frozen=True, slots=True)
class Model:
    """The embedder as recall meets it: ready, or the reason why not and the remedy."""

    encoder: QueryEncoder | None
    kind: str = ""
    message: str = ""
    remedy: str = ""


class Recaller:
    """Answers `recall`. `marker` is random per daemon start; clients wrap notes' text in it."""

    def __init__(self, model: Callable[[], Model], now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._model = model
        self._now = now
        self.marker = secrets.token_hex(8)

    def recall(self, params: RecallParams, vaults: Sequence[Applied], cancelled: Callable[[], bool]) -> r.Recall:
        """The answer, within `deadline_ms` where that is set. RequestRefused for a query or mode that is none."""
        started = time.perf_counter()
        text = _checked(params)
        automatic = params.policy == "automatic"
        diagnostics: list[r.Diagnostic] = []
        asked = [(each, store) for each in vaults if (store := _store_of(each, diagnostics)) is not None]
        mode, vector = self._mode(params, text, diagnostics)
        if mode == "hybrid" and asked and not any(store.embedded for _, store in asked):
            mode = "lexical"
            diagnostics.append(r.Diagnostic(kind="vectors_missing", message="no page has a vector yet: words answered"))
        question = Question(text, vector if mode == "hybrid" else None, params.types)
        limit = min(params.max_results, AUTOMATIC_BUNDLES if automatic else MAX_RESULTS)
        floor = AUTOMATIC_FLOOR if automatic else EXPLICIT_FLOOR
        bundles: tuple[r.Bundle, ...] = ()
        searched: list[Searched] = []
        if q.has_words(text):
            if cancelled():
                raise RequestRefused("cancelled", "the call was cancelled")
            searched = self._search(params, asked, question, limit, floor)
            bundles = Assembly(self._now(), question, searched, merge(searched)).bundles(limit)
        else:
            diagnostics.append(r.Diagnostic(kind="no_words", message="the query holds no words, numbers or signs"))
        about = tuple(_searched(each) for each in vaults)
        return r.Recall(
            recall_id=secrets.token_hex(8),
            bundles=bundles,
            vaults=about,
            mode_used=mode,
            generation=sum(each.generation for each in about),
            stale=any(each.stale for each in about),
            pending=sum(each.pending for each in about),
            elapsed_ms=round((time.perf_counter() - started) * 1e3, 3),
            marker=self.marker,
            diagnostics=tuple(diagnostics),
            reason=None if bundles else "no_reliable_memory",
            explain=explain(question, floor, searched) if params.explain else None,
        )

    # -- the mode ------------------------------------------------------------------------------------------------------

    def _mode(
        self, params: RecallParams, text: str, diagnostics: list[r.Diagnostic]
    ) -> tuple[r.Mode, QueryVector | None]:
        """What can be answered now: the mode, and the query's vector."""
        wanted = params.mode or DEFAULT_MODE
        if wanted == "lexical" or not q.has_words(text):
            return "lexical", None
        if wanted in ("adaptive", "quality"):
            diagnostics.append(
                r.Diagnostic(kind="reranker_absent", message=f"no reranker is loaded, so {wanted} answered as hybrid")
            )
        if params.deadline_ms is not None and params.deadline_ms < HYBRID_MS:
            diagnostics.append(r.Diagnostic(kind="deadline_short", message="too little time for vectors: words alone"))
            return "lexical", None
        model = self._model()
        if model.encoder is None:
            diagnostics.append(r.Diagnostic(kind=model.kind, message=model.message, remedy=model.remedy))
            return "lexical", None
        try:
            vector = model.encoder.embed_query(text)
        except EmbedFailed as problem:
            message = f"the query could not be embedded, {problem.reason}: words alone answered"
            diagnostics.append(r.Diagnostic(kind="query_not_embedded", message=message))
            return "lexical", None
        share = ranking.DENSE_SHARE * model.encoder.familiarity(text)
        return "hybrid", QueryVector(model.encoder.identity, vector, share)

    # -- candidates to bundles -----------------------------------------------------------------------------------------

    def _search(
        self,
        params: RecallParams,
        asked: Sequence[tuple[Applied, Store]],
        question: Question,
        limit: int,
        floor: float,
    ) -> list[Searched]:
        searched = []
        # before the cut, or pages of other dates would take the places of those that are asked for
        admits = None if params.since is None and params.until is None else lambda page: _in_period(page, params)
        for applied, store in asked:
            candidates, terms = retrieve(store, question, limit * 2 + KEEP_EXTRA, admits)
            passed = [each for each in candidates if each.confidence >= floor]
            searched.append(Searched(applied, store, candidates, passed, terms))
        return searched


def _checked(params: RecallParams) -> str:
    if len(params.query) > q.MAX_CODE_POINTS:
        message = f"a query may have at most {q.MAX_CODE_POINTS} characters, this one has {len(params.query)}"
        raise RequestRefused("recall_query_too_long", message, hint="ask a shorter question")
    if params.mode is not None and params.mode not in MODES:
        raise RequestRefused("invalid_params", "there is no such mode", hint="modes: " + ", ".join(MODES))
    if not 1 <= params.max_results <= MAX_RESULTS:
        raise RequestRefused("invalid_params", f"max_results must be 1 to {MAX_RESULTS}")
    for name, value in (("since", params.since), ("until", params.until)):
        if value is not None and _day(value) is None:
            raise RequestRefused("invalid_params", f"{name} must be a date such as 2026-01-31")
    return q.normalise(params.query)


def _store_of(applied: Applied, diagnostics: list[r.Diagnostic]) -> Store | None:
    """The vault's index, where it can be asked; what it cannot give, a diagnostic tells."""
    indexer, vault = applied.indexer, applied.vault

    def tell(kind: str, message: str, remedy: str = "") -> None:
        diagnostics.append(r.Diagnostic(kind=kind, message=message, remedy=remedy, vault_id=vault.vault_id))

    if vault.blocked is not None and not vault.blocked.serve:
        tell("vault_blocked", f"{vault.name} is not served: {vault.blocked.code}", "repair its config.json")
        return None
    store = indexer.store
    if store is None:
        tell(
            "vault_opening",
            f"{vault.name} is still being opened"
            if indexer.state.state == "indexing"
            else f"{vault.name} could not be opened: {indexer.state.reason}",
            "look at: wikid status",
        )
        return None
    if indexer.state.state == "unavailable":
        tell(
            "vault_unavailable",
            f"the folder of {vault.name} is gone or empty; this is what was known of it",
            "bring the folder back, or: wikid vault remove",
        )
    elif indexer.state.state == "failed":
        tell("indexing_interrupted", f"indexing of {vault.name} rests: {indexer.state.reason}", "look at: wikid status")
    if not store.has_lexical:
        tell("java_unavailable", store.java_missing, "install Java 21 or newer, or reinstall wikid-memory[daemon]")
    return store


def _searched(applied: Applied) -> r.SearchedVault:
    indexer = applied.indexer
    state = indexer.state
    return r.SearchedVault(
        vault_id=r.VaultId(applied.vault.vault_id),
        name=applied.vault.name,
        layer=applied.layer,
        generation=0 if indexer.store is None else indexer.store.generation,
        stale=indexer.stale,
        pending=state.pending,
        embedding_pending=indexer.embedding_pending,
    )


def _in_period(summary: PageSummary, params: RecallParams) -> bool:
    date = summary.updated or summary.created
    day = None if date is None else _day(date[:10])
    if day is None:
        return False
    since, until = _day(params.since or "0001-01-01"), _day(params.until or "9999-12-31")
    return since is not None and until is not None and since <= day <= until


def _day(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d")
    except ValueError:
        return None
