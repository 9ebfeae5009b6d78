"""Query → bundles, read top to bottom: check, search the vaults, judge, merge, assemble, say how it went.

Every step that can do less than asked says so in a diagnostic; nothing here fails because a model or Java is missing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from wikid_daemon.assembly import Assembly, Policy
from wikid_daemon.core import query as q
from wikid_daemon.core.confidence import AUTOMATIC_TERMS, floor, is_calibrated
from wikid_daemon.core.modes import MODES, Mode
from wikid_daemon.core.packing import AUTOMATIC_BUNDLES
from wikid_daemon.core.period import Period, day_named
from wikid_daemon.explanation import explain
from wikid_daemon.index.store import Store
from wikid_daemon.indexer import Indexer
from wikid_daemon.judging import candidates
from wikid_daemon.lanes import Lane
from wikid_daemon.merging import Feedback, Searched, merge, no_feedback
from wikid_daemon.retrieval import Question
from wikid_daemon.searching import JAVA_UNAVAILABLE, UNANSWERED, Call, Looked, Models, answers, search
from wikid_daemon.settings_files import Effective
from wikid_daemon.timing import Clock
from wikid_daemon.unserved import OPENING_REMEDY, STATUS_REMEDY, Unopened, not_looked_through
from wikid_daemon.vaults import Applied
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused
from wikid_protocol.methods import RecallParams

MAX_RESULTS: Final = 10  # seed A, first-release limits
KEEP_EXTRA: Final = 2
TRIES: Final = 3  # where one vault of several fails, while its index is replaced say
AUTOMATIC_MS: Final = 250.0  # the whole of it, or nothing is injected
NO_MEMORY: Final = "no_reliable_memory"
NOT_SEARCHED: Final = ("vault_opening", "vault_not_opened")  # with these, that nothing was found says little


class Recaller:
    """Answers `recall`, and has the `lane` meanwhile. `marker` is random per daemon start; clients wrap notes' text in
    it."""

    def __init__(
        self,
        models: Callable[[], Models],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        feedback: Feedback = no_feedback,
        lane: Lane | None = None,
    ) -> None:
        self._models = models
        self._now = now
        self._feedback = feedback
        self._lane = lane or Lane()
        self.marker = secrets.token_hex(8)

    def recall(
        self,
        params: RecallParams,
        vaults: Sequence[Applied],
        effective: Effective,
        cancelled: Callable[[], bool],
        left_out: Sequence[Unopened] = (),
        clock: Clock | None = None,
    ) -> r.Recall:
        """The answer, within `deadline_ms` where that is set, by the `clock` of the call's arrival. `left_out` are
        vaults that were meant as well and are not open. RequestRefused for a query or mode that is none."""
        with self._lane.call():
            clock, tries = clock or clock_of(params), TRIES if len(vaults) > 1 else 1
            broken: frozenset[Indexer] = frozenset()
            while True:
                try:
                    return self._answer(params, vaults, effective, cancelled, left_out, clock, broken)
                except UNANSWERED:
                    broken |= {each.indexer for each in vaults if not answers(each.indexer.store, params.query)}
                    tries -= 1
                    if not tries or all(each.indexer in broken for each in vaults):
                        raise

    def _answer(
        self,
        params: RecallParams,
        vaults: Sequence[Applied],
        effective: Effective,
        cancelled: Callable[[], bool],
        left_out: Sequence[Unopened],
        clock: Clock,
        broken: frozenset[Indexer],
    ) -> r.Recall:
        now, automatic = self._now(), params.policy == "automatic"
        settings, diagnostics = effective.settings, [*effective.diagnostics, *map(not_looked_through, left_out)]
        asked = [(each, store) for each in vaults if (store := _store_of(each, diagnostics, broken)) is not None]
        call = Call(
            _question(params, now),
            effective.mode(_asked_mode(params)),
            clock,
            cancelled,
            diagnostics,
            _intent(vaults),
        )
        # before the search: what is published meanwhile must not make this answer look newer than it is
        about = tuple(map(_searched, vaults))
        bundles: tuple[r.Bundle, ...] = ()
        explanation = None
        if q.has_words(call.question.text):
            looked = search(call, asked, self._models())
            if call.question.vector is not None and not is_calibrated(call.question.model):
                diagnostics.append(_uncalibrated(call.question.model))
            policy = Policy(
                automatic,
                min(params.max_results, AUTOMATIC_BUNDLES if automatic else MAX_RESULTS),
                floor(call.question.judge, automatic=automatic),
                settings.recall_skill_inline_max,
            )
            searched = [reliable(each, call.question, policy) for each in looked]
            ranked = merge(searched, now, self._feedback)
            bundles, undecided = Assembly(now, call.question, searched, ranked, policy).assemble()
            diagnostics += map(_undecided, undecided)
            explanation = explain(call, policy, looked, searched, ranked) if params.explain else None
        else:
            diagnostics.append(r.Diagnostic(kind="no_words", message="the query holds no words, numbers or signs"))
        if automatic and call.clock.left_ms < 0:
            bundles = ()
            message = f"the answer took longer than {AUTOMATIC_MS:.0f} ms, so nothing is injected"
            diagnostics.append(r.Diagnostic(kind="too_late", message=message))
        return r.Recall(
            recall_id=secrets.token_hex(8),
            bundles=bundles,
            vaults=about,
            mode_used=call.used,
            mode_reasons=call.reasons,
            generation=sum(each.generation for each in about),
            stale=bool(left_out or broken) or any(each.stale for each in about),
            pending=sum(each.pending for each in about),
            elapsed_ms=round(call.clock.elapsed_ms, 3),
            marker=self.marker,
            diagnostics=tuple(diagnostics),
            links_first=not automatic
            and _have_more_pages([each for _, each in asked], settings.recall_links_threshold),
            reason=None if bundles else _reason(diagnostics),
            explain=explanation,
        )


# -- what is asked -----------------------------------------------------------------------------------------------------


def _question(params: RecallParams, now: datetime) -> Question:
    if len(params.query) > q.MAX_CODE_POINTS:
        message = f"a query may have at most {q.MAX_CODE_POINTS} characters, this one has {len(params.query)}"
        raise RequestRefused("recall_query_too_long", message, hint="ask a shorter question")
    if not 1 <= params.max_results <= MAX_RESULTS:
        raise RequestRefused("invalid_params", f"max_results must be 1 to {MAX_RESULTS}")
    period = _period(params, now)

    def in_period(dated: str | None) -> bool:
        return period.holds(dated, _local)

    return Question(q.normalise(params.query), None, params.types, in_period if period else None)


def _period(params: RecallParams, now: datetime) -> Period:
    days = []
    for name, text in (("since", params.since), ("until", params.until)):
        day = None if text is None else day_named(text, _local(now).date())
        if text is not None and day is None:
            raise RequestRefused("invalid_params", f"{name} must be a date such as 2026-01-31, today or yesterday")
        days.append(day)
    return Period(*days)


def _local(moment: datetime) -> datetime:
    """In the time zone of the person whose daemon this is."""
    return moment.astimezone()


def _asked_mode(params: RecallParams) -> Mode | None:
    if params.mode is None:
        return None
    known = next((mode for mode in MODES if mode == params.mode), None)
    if known is None:
        raise RequestRefused("invalid_params", "there is no such mode", hint="modes: " + ", ".join(MODES))
    return known


def _limit_ms(deadline_ms: int | None, *, automatic: bool) -> float | None:
    return min(AUTOMATIC_MS, deadline_ms or AUTOMATIC_MS) if automatic else deadline_ms


def clock_of(params: RecallParams) -> Clock:
    """Of a recall that arrives now."""
    return Clock(_limit_ms(params.deadline_ms, automatic=params.policy == "automatic"))


def _intent(vaults: Sequence[Applied]) -> str:
    """What the first vault is about, for a reranker that takes an instruction (seed A, Query and intent)."""
    return next((intent for each in vaults if (intent := q.intent(each.vault.topic, each.vault.mode))), "")


# -- what was found ----------------------------------------------------------------------------------------------------


def reliable(looked: Looked, question: Question, policy: Policy) -> Searched:
    """The candidates of one vault, and which of them the policy lets pass."""
    found = candidates(looked.store, question, looked.retrieved, policy.limit * 2 + KEEP_EXTRA)
    terms = looked.retrieved.terms
    says_enough = not policy.automatic or not len(terms) or terms.mass >= AUTOMATIC_TERMS
    # floors test the unadjusted confidence (vault format §11.40)
    passed = [each for each in found if each.confidence >= policy.floor and (says_enough or each.identity is not None)]
    return Searched(looked.applied, looked.store, found, passed, looked.retrieved.terms)


def _uncalibrated(model: str) -> r.Diagnostic:
    return r.Diagnostic(
        kind="uncalibrated",
        message=f"confidence was never fitted for {model.partition('@')[0]}: it is estimated from this vault alone",
        remedy="judge your own queries with: wikid bench",
    )


def _undecided(pair: tuple[str, str]) -> r.Diagnostic:
    return r.Diagnostic(
        kind="conflict_undecided",
        message=f"several decisions on {pair[0]} and {pair[1]} stand at once, so the conflict is open",
        remedy="decide again, and name the record to replace: wikid resolve … --replaces ID",
    )


def _have_more_pages(stores: Sequence[Store], threshold: int) -> bool:
    left = threshold
    for store in stores:
        left -= store.catalog.count_pages(left + 1, store.generation)
        if left < 0:
            return True
    return False


def _store_of(applied: Applied, diagnostics: list[r.Diagnostic], broken: frozenset[Indexer]) -> Store | None:
    """The vault's index, where it can be asked; what it cannot give, a diagnostic tells. `broken` are those whose
    index failed to answer."""
    indexer, vault = applied.indexer, applied.vault

    def tell(kind: str, message: str, remedy: str = "") -> None:
        diagnostics.append(r.Diagnostic(kind=kind, message=message, remedy=remedy, vault_id=vault.vault_id))

    if vault.blocked is not None and not vault.blocked.serve:
        tell("vault_blocked", f"{vault.name} is not served: {vault.blocked.code}", "repair its config.json")
        return None
    store = indexer.store
    if store is None:
        if indexer.state.state == "indexing":
            tell("vault_opening", f"{vault.name} is still being opened", OPENING_REMEDY)
        else:
            tell("vault_not_opened", f"{vault.name} could not be opened: {indexer.state.reason}", STATUS_REMEDY)
        return None
    if indexer in broken:
        tell("vault_opening", f"the index of {vault.name} is damaged or being replaced", OPENING_REMEDY)
        return None
    if indexer.state.state == "unavailable":
        tell(
            "vault_unavailable",
            f"the folder of {vault.name} is gone, empty or not answering; this is what was known of it",
            "bring the folder back, or: wikid vault remove",
        )
    elif indexer.state.state == "failed":
        tell("indexing_interrupted", f"indexing of {vault.name} rests: {indexer.state.reason}", STATUS_REMEDY)
    if not store.has_lexical:
        tell(JAVA_UNAVAILABLE, store.java_missing, "install Java 21 or newer, or reinstall wikid-memory[daemon]")
    return store


def _reason(diagnostics: Sequence[r.Diagnostic]) -> str:
    """Why there is no bundle: only a search of every vault can tell that there is no memory."""
    kinds = {each.kind for each in diagnostics}
    return next((each for each in NOT_SEARCHED if each in kinds), NO_MEMORY)


def _searched(applied: Applied) -> r.SearchedVault:
    indexer = applied.indexer
    return r.SearchedVault(
        vault_id=r.VaultId(applied.vault.vault_id),
        name=applied.vault.name,
        layer=applied.layer,
        generation=0 if indexer.store is None else indexer.store.generation,
        stale=indexer.stale,
        pending=indexer.state.pending,
        embedding_pending=indexer.embedding_pending,
    )
