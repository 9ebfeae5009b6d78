"""`feedback/judge` and `feedback/signal`: what became of the pages that a recall has shown, as events of their vaults.

What a person says is written before it is answered. Everything else is noted by a thread in the background, or dropped
where that cannot keep up: no recall waits for it.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog

from wikid_daemon.addressing import writable
from wikid_daemon.calls import absolute
from wikid_daemon.core.feedback import Action, Showing, cites, event_of, query_hash
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.indexer import Indexer
from wikid_daemon.shown import Shown, ShownPages
from wikid_daemon.standings import Standings
from wikid_daemon.vault.event_lock import LockBusy
from wikid_daemon.vault.event_log import EventNotWritten, ReadOnlyVault
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vaults import Applied
from wikid_protocol import methods as m
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused

QUEUED: Final = 2_000
TICK_SECONDS: Final = 2.0  # between two looks at the logs
LAST_SECONDS: Final = 1.0  # that the daemon's end may wait for what is still to be noted

log = structlog.get_logger("feedback")

SaveCorrection = Callable[[Vault, str, str, str], str]
"""Saves the observation that corrects a page of the vault, given the page's id, what is right, and the hash of the
query that had shown it, and returns the observation's id. Raises as every write does."""


class Feedback:
    """Takes feedback for all vaults, and keeps what it comes to. Any thread may call."""

    def __init__(
        self,
        indexers: Callable[[], Sequence[Indexer]],
        logs: EventLogs,
        standings: Standings,
        save_correction: SaveCorrection,
        *,
        reranker: Callable[[], str] = lambda: "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`reranker` gives the identity of the one in use."""
        self._indexers = indexers
        self._logs = logs
        self._standings = standings
        self._save_correction = save_correction
        self._reranker = reranker
        self._shown = ShownPages()
        self._now = now
        self._queue: queue.Queue[tuple[Shown, Action] | None] = queue.Queue(QUEUED)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feedback", daemon=True)

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Note what happens, and learn from the logs, in the background."""
        self._thread.start()

    def close(self) -> None:
        """Note what is left, if that does not take long, and stop."""
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=LAST_SECONDS)
        if self._thread.ident is not None:
            self._thread.join(LAST_SECONDS)
            self._over.set()
            self._thread.join(LAST_SECONDS)  # not to leave a lock behind

    def _run(self) -> None:
        while True:
            try:
                if not self._noted():
                    return
                self._standings.catch_up()
            except Exception:  # told in the log; the next round may do better
                log.exception("feedback_not_learned")

    def _noted(self) -> bool:
        """Note what comes until it is time to look at the logs; False at the end."""
        until = time.monotonic() + TICK_SECONDS
        with contextlib.suppress(queue.Empty):
            while (left := until - time.monotonic()) > 0.0:
                item = self._queue.get(timeout=left)
                if item is None or self._over.is_set():
                    return False
                shown, action = item
                event = event_of(shown.vault.vault_id, shown.page_id, shown.showing, action)
                self._logs.of(shown.vault).offer(event)
        return True

    # -- what is shown -------------------------------------------------------------------------------------------------

    def delivered(
        self, session: str, query: str, answer: r.Recall, applied: Sequence[Applied], *, implicit: bool
    ) -> None:
        """Remember what the answer shows to the session and, where it is `implicit`, note it in the background."""
        reranker = self._reranker() if answer.mode_used == "quality" else ""
        about = Showing(query_hash(query), answer.mode_used, "", (reranker,) if reranker else (), 0)
        pages: dict[tuple[Path, str], Shown] = {}
        for item in _items(answer):
            found = _vault_of(item, applied)
            if found is not None:
                showing = _showing(about, found.indexer, item.rank)
                shown = Shown(answer.recall_id, found.vault, item.page_id, item.path, showing, implicit)
                pages.setdefault(shown.key, shown)
        if pages:
            self._shown.add(session, list(pages.values()))
            self._note(pages.values(), "shown")

    def _note(self, pages: Iterable[Shown], action: Action) -> int:
        """Have these noted, as far as they may be; how many."""
        count = 0
        for each in pages:
            if each.implicit and not _why_off(each.vault) and not self._standings.is_disabled(each.vault):
                try:
                    self._queue.put_nowait((each, action))
                except queue.Full:  # nobody would miss it much
                    log.debug("feedback_dropped", vault_id=each.vault.vault_id)
                else:
                    count += 1
        return count

    def told(self, status: r.VaultStatus, vault: Vault, captures: Callable[[Vault], bool]) -> r.VaultStatus:
        """The status with what there is to say of the vault's feedback; `captures` is the settings' answer."""
        reason = _why_off(vault) or ("" if captures(vault) else "recallFeedback")
        dropped = self._logs.of(vault).dropped
        if self._standings.is_disabled(vault):
            return replace(status, feedback="disabled", feedback_reason="events_malformed", feedback_dropped=dropped)
        return replace(status, feedback="off" if reason else "on", feedback_reason=reason, feedback_dropped=dropped)

    # -- what is said of it --------------------------------------------------------------------------------------------

    def judge(self, params: m.JudgeParams, session: str | None) -> r.Judged:
        """Write down what a person says of a page that was shown. RequestRefused, LockBusy, EventNotWritten."""
        if (params.judgment == "corrected") != bool((params.correction or "").strip()):
            message = "a correction is needed for corrected, and for nothing else"
            raise RequestRefused("invalid_params", message, hint="say what is right with: --correction TEXT")
        shown = self._judged(params, params.session or session)
        indexer = self._indexer(shown.vault)
        vault, said = writable(indexer.vault), params.judgment
        event = event_of(vault.vault_id, shown.page_id, shown.showing, said)
        page, recorded = None, True
        if params.correction is not None and said == "corrected":
            page = self._save_correction(vault, shown.page_id, params.correction, shown.showing.query_hash)
            try:
                self._logs.of(vault).append(event)
            except (LockBusy, EventNotWritten, ReadOnlyVault) as problem:
                # the page is what counts: its event is made up for from it
                log.info("feedback_pending", vault_id=vault.vault_id, error=type(problem).__name__)
                recorded = False
        else:
            self._logs.of(vault).append(event)
        self._standings.refresh(indexer)
        return r.Judged(
            vault_id=r.VaultId(vault.vault_id),
            vault=vault.name,
            page_id=r.PageId(shown.page_id),
            judgment=said,
            state="recorded" if recorded else "correction_saved_feedback_pending",
            correction_page_id=None if page is None else r.PageId(page),
            adjustment=round(self._standings.adjustment(vault, shown.page_id, self._now()), 4),
            feedback="disabled" if self._standings.is_disabled(vault) else "on",
        )

    def _judged(self, params: m.JudgeParams, session: str | None) -> Shown:
        found = [each for each in self._shown.all(session or "") if each.page_id == params.page_id]
        if params.recall_id is not None:
            found = [each for each in found if each.recall_id == params.recall_id]
        if params.vault_id is not None:
            found = [each for each in found if _is_named(each.vault, params.vault_id)]
        if not found:
            raise RequestRefused(
                "not_shown", "no recall has shown that page to this session", hint="recall it first, then judge it"
            )
        if len({each.vault.root for each in found}) > 1 and params.vault_id is None:
            names = ", ".join(sorted({each.vault.name for each in found}))
            raise RequestRefused("invalid_params", "pages of several vaults have that id", hint=f"vaults: {names}")
        return found[0]

    def _indexer(self, vault: Vault) -> Indexer:
        for each in self._indexers():
            if each.vault.root == vault.root:
                return each
        raise RequestRefused("vault_unavailable", "the page's vault is not open any more", hint="wikid vault list")

    # -- what was done with it -----------------------------------------------------------------------------------------

    def signal(self, params: m.SignalParams, session: str | None) -> r.Signalled:
        """Note what a host saw happen in the session's turn: a page opened, pages cited, or the end of it."""
        name = params.session or session or ""
        if params.kind == "turn_end":
            return r.Signalled(counted=self._note(self._shown.end_turn(name), "shown_only"))
        if params.kind == "opened":
            return r.Signalled(counted=self._seen(name, "opened", _opened(params.path)))
        return r.Signalled(counted=self._seen(name, "cited", _cited(params.text)))

    def read(self, page: r.Page, session: str) -> None:
        """A page was given to the session by its id, which is as good as opening its file."""
        self._seen(session, "opened", lambda shown: shown.path == page.path)

    def _seen(self, session: str, action: Action, is_meant: Callable[[Shown], bool]) -> int:
        meant = [each for each in self._shown.turn(session) if is_meant(each)]
        return self._note(self._shown.note(session, action, meant), action)


def _is_named(vault: Vault, wanted: str) -> bool:
    return wanted in (vault.vault_id, vault.name, str(vault.root))


def _why_off(vault: Vault) -> str:
    """Why nothing can be noted in the vault, whatever the settings say; empty where it can."""
    if vault.kind == "plain":
        return "plain_folder"
    if vault.blocked is not None:
        return "vault_blocked"
    return "read_only" if vault.read_only else ""


def _items(answer: r.Recall) -> Iterable[r.Item]:
    for bundle in answer.bundles:
        found = (bundle.card, *bundle.evidence, *bundle.conflicts)
        yield from (each for each in found if each is not None and not each.missing)


def _showing(about: Showing, indexer: Indexer, rank: int) -> Showing:
    """The same with what the vault's index was made with."""
    versions = {} if indexer.store is None else indexer.store.versions()
    model = versions.pop("model", "") if about.mode != "lexical" else ""
    index = "/".join(f"{part}-{made_with}" for part, made_with in versions.items() if made_with)
    return replace(about, index_version=index, models=(model, *about.models) if model else about.models, rank=rank)


def _vault_of(item: r.Item, applied: Sequence[Applied]) -> Applied | None:
    """The one the item is from: copies of a vault share its id."""
    found = [each for each in applied if each.vault.vault_id == item.vault_id]
    if len(found) > 1:
        found = [each for each in found if Path(item.path).is_relative_to(each.vault.pages_root)]
    return found[0] if found else None


def _opened(path: str | None) -> Callable[[Shown], bool]:
    if path is None:
        raise RequestRefused("invalid_params", "opened needs the path of the file that was opened")
    given = absolute(path)

    def is_it(shown: Shown) -> bool:
        place = Path(shown.path)
        try:
            return given == place or given.samefile(place)
        except OSError:  # one of them is not there
            return False

    return is_it


def _cited(text: str | None) -> Callable[[Shown], bool]:
    if text is None:
        raise RequestRefused("invalid_params", "cited needs the text in which pages may be cited")
    return lambda shown: cites(text, shown.page_id)
