"""Method → use case. Each handler turns decoded parameters into one call below and its errors into stable kinds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar

import structlog

from wikid_daemon import health, index_calls, pages
from wikid_daemon.calls import CallContext, absolute
from wikid_daemon.feedback import Feedback
from wikid_daemon.indexer import Indexer
from wikid_daemon.lanes import never
from wikid_daemon.metrics import LONG_CALLS
from wikid_daemon.recall import Recaller, clock_of
from wikid_daemon.refusals import translated
from wikid_daemon.settings_files import Effective
from wikid_daemon.threads import FOREVER
from wikid_daemon.timing import Clock
from wikid_daemon.unserved import NotOpen, Unopened, unregistered
from wikid_daemon.vault.opening import LOOK_SECONDS, NotAnswering
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vaults import Applied, Vaults
from wikid_daemon.warm import WarmEmbedder
from wikid_daemon.warm_reranker import WarmReranker
from wikid_protocol import __version__
from wikid_protocol import methods as m
from wikid_protocol import records as r
from wikid_protocol.methods import Method

log = structlog.get_logger("handlers")

T = TypeVar("T")
Handler = Callable[[Any, CallContext], Awaitable[object]]

RECALL_THREADS: Final = 4
LIST_THREADS: Final = 2
SLOW_THREADS: Final = 8
LONG_THREADS: Final = 8
AUTOMATIC_LOOK_SECONDS: Final = 0.25  # for a folder to answer; nobody asked, so nobody should have to wait
LEAST_SHARE: Final = 1 / 8  # of the time for a look that it has even where a call has none left
WAITING_SHARE: Final = 1 / 2  # of what a recall has left, for vaults to be opened; the rest is for searching


class Handlers:
    """Implements `Dispatcher`. Recalls have threads of their own, and so have lists, which wait for the vaults to be
    opened, and work that may take minutes.

    `plain` are the methods that need nothing but their params, each with the function that answers it; `talking` are
    those that have to do with the connection a call came over, `long` those that may take minutes and look at the
    call's context.
    """

    def __init__(
        self,
        vaults: Vaults,
        recaller: Recaller,
        embedder: WarmEmbedder,
        reranker: WarmReranker,
        started: datetime,
        endpoint: Path,
        settings_for: Callable[[Path | None], Effective],
        feedback: Feedback,
        plain: Mapping[str, Callable[[Any], object]],
        talking: Mapping[str, Handler],
        long: Mapping[str, Callable[[Any, CallContext], object]],
    ) -> None:
        self._vaults = vaults
        self._recaller = recaller
        self._embedder = embedder
        self._reranker = reranker
        self._started = started
        self._endpoint = endpoint
        self._settings_for = settings_for
        self._feedback = feedback
        self.connections: Callable[[], int] = lambda: 0
        self._quick = ThreadPoolExecutor(RECALL_THREADS, "recall")
        self._lists = ThreadPoolExecutor(LIST_THREADS, "list")
        self._slow = ThreadPoolExecutor(SLOW_THREADS, "work")
        self._long = ThreadPoolExecutor(LONG_THREADS, "long")
        self._table: dict[str, Handler] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "status": self._status,
            "vault/list": self._vault_list,
            "vault/add": self._vault_add,
            "vault/remove": self._vault_remove,
            "vault/init": self._vault_init,
            "vault/resolve": self._vault_resolve,
            "recall": self._recall,
            "feedback/judge": self._feedback_judge,
            "feedback/signal": self._feedback_signal,
            "page/search": self._page_search,
            "page/get": self._page_get,
            "index/reindex": self._reindex,
            "index/sync": self._sync,
            "index/verify": self._verify,
            **{name: self._plain(name, work) for name, work in plain.items()},
            **talking,
            **{name: self._lengthy(work) for name, work in long.items()},
        }

    async def call(self, method: Method, params: object, context: CallContext) -> object:
        """Answer one call. RequestRefused says no."""
        return await self._table[method.name](params, context)

    def close(self) -> None:
        for pool in (self._quick, self._lists, self._slow, self._long):
            pool.shutdown(wait=False, cancel_futures=True)

    # -- threads -------------------------------------------------------------------------------------------------------

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[[], T], context: CallContext | None = None) -> T:
        cancelled = never if context is None else context.cancelled.is_set
        return await asyncio.get_running_loop().run_in_executor(pool, translated, work, cancelled)

    def _plain(self, name: str, work: Callable[[Any], object]) -> Handler:
        pool = self._long if name in LONG_CALLS else self._slow

        async def answer(params: object, context: CallContext) -> object:
            return await self._in(pool, lambda: work(params), context)

        return answer

    def _lengthy(self, work: Callable[[Any, CallContext], object]) -> Handler:
        async def answer(params: object, context: CallContext) -> object:
            return await self._in(self._long, lambda: work(params, context), context)

        return answer

    def _looked_through(
        self, vault: str | None, cwd: str | None, until: float = FOREVER
    ) -> tuple[list[Applied], list[Unopened]]:
        where = None if cwd is None else absolute(cwd)
        return self._vaults.looked_through(vault, where, automatic=False, until=until)

    def _captures(self, vault: Vault) -> bool:
        """Whether signals are kept of what a recall from the vault's own folder shows."""
        try:
            _, effective = self._vaults.seen(vault.root, lambda: self._settings_for(vault.root))
        except NotAnswering:
            effective = self._settings_for(None)
        return effective.settings.recall_feedback

    # -- daemon --------------------------------------------------------------------------------------------------------

    async def _initialize(self, _params: m.InitializeParams, _context: CallContext) -> r.Initialized:
        indexers = await self._in(self._lists, self._vaults.all)
        return r.Initialized(
            protocol=m.PROTOCOL_VERSION,
            server=r.Server(name="wikid", version=__version__),
            capabilities=m.CAPABILITIES,
            limits=m.LIMITS,
            vaults=tuple(health.vault_record(each.vault) for each in indexers),
            generation=sum(each.store.generation for each in indexers if each.store is not None),
        )

    async def _ping(self, _params: m.NoParams, _context: CallContext) -> r.Pong:
        return r.Pong(version=__version__, pid=os.getpid(), protocol=m.PROTOCOL_VERSION)

    async def _status(self, params: m.StatusParams, _context: CallContext) -> r.StatusReport:
        return await self.report(params.vault)

    async def report(self, vault: str | None = None) -> r.StatusReport:
        """What `status` tells of everything, or of the one vault with that id or name. RequestRefused."""

        def work() -> r.StatusReport:
            wanted, unopened = self._asked_about(vault)
            statuses = [self._feedback.told(health.vault_status(each), each.vault, self._captures) for each in wanted]
            statuses += map(health.unopened_status, unopened)
            faults = [r.Diagnostic(kind="registry_damaged", message=fault) for fault in self._vaults.faults()]
            return r.StatusReport(
                daemon=health.daemon_status(self._started, self._endpoint, self.connections()),
                models=(*self._embedder.records(), self._reranker.record()),
                vaults=tuple(statuses),
                diagnostics=tuple(faults),
            )

        return await self._in(self._slow, work)

    def _asked_about(self, vault: str | None) -> tuple[list[Indexer], list[Unopened]]:
        try:
            return (self._vaults.all(), self._vaults.unopened()) if vault is None else ([self._vaults.find(vault)], [])
        except NotOpen as problem:
            return [], [problem.unopened]

    # -- vaults --------------------------------------------------------------------------------------------------------

    async def _vault_list(self, _params: m.NoParams, _context: CallContext) -> r.VaultList:
        opened = await self._in(self._lists, self._vaults.all)
        vaults = tuple(health.vault_record(each.vault) for each in opened)
        gone = tuple(health.unopened_status(each).vault for each in self._vaults.unopened())
        faults = tuple(r.Diagnostic(kind="registry_damaged", message=fault) for fault in self._vaults.faults())
        return r.VaultList(vaults=vaults + gone, diagnostics=faults)

    async def _vault_add(self, params: m.VaultAddParams, _context: CallContext) -> r.VaultRecord:
        def work() -> r.VaultRecord:
            return health.vault_record(self._vaults.add(absolute(params.path), params.name).vault)

        return await self._in(self._slow, work)

    async def _vault_init(self, params: m.VaultInitParams, _context: CallContext) -> r.VaultRecord:
        def work() -> r.VaultRecord:
            indexer = self._vaults.init(absolute(params.path), params.topic, params.mode, params.name)
            return health.vault_record(indexer.vault)

        return await self._in(self._slow, work)

    async def _vault_remove(self, params: m.VaultRemoveParams, _context: CallContext) -> r.VaultRecord:
        def work() -> r.VaultRecord:
            removed = self._vaults.remove(params.vault)
            if isinstance(removed, Vault):
                return health.vault_record(removed)
            return r.VaultRecord(
                vault_id=r.VaultId(removed.vault_id), name=removed.name, path=str(removed.path), kind="plain"
            )

        return await self._in(self._slow, work)

    async def _vault_resolve(self, params: m.VaultResolveParams, _context: CallContext) -> r.Resolution:
        def work() -> r.Resolution:
            cwd = absolute(params.cwd)
            where, effective = self._vaults.seen(cwd, lambda: self._settings_for(cwd))
            ambient = effective.settings.ambient_personal_vault
            vaults, _ = self._vaults.applying(where, automatic=False)
            automatic, _ = self._vaults.applying(where, automatic=True, ambient=ambient)
            return r.Resolution(
                cwd=str(cwd), vaults=tuple(map(_resolved, vaults)), automatic=tuple(map(_resolved, automatic))
            )

        return await self._in(self._slow, work)

    # -- recall and pages ----------------------------------------------------------------------------------------------

    async def _recall(self, params: m.RecallParams, context: CallContext) -> r.Recall:
        clock = clock_of(params)  # the wait for a thread is part of it

        def work() -> tuple[r.Recall, list[Applied], Effective]:
            vaults, left_out, effective = self._to_recall(params, clock)
            answer = self._recaller.recall(params, vaults, effective, context.cancelled.is_set, left_out, clock)
            return answer, vaults, effective

        answer, vaults, effective = await self._in(self._quick, work, context)
        session = params.session or context.session
        if session is not None:
            implicit = effective.settings.recall_feedback
            self._feedback.delivered(session, params.query, answer, vaults, implicit=implicit)
        return answer

    def _to_recall(self, params: m.RecallParams, clock: Clock) -> tuple[list[Applied], Sequence[Unopened], Effective]:
        """The vaults that a recall searches, those that it cannot, and what applies where it is made."""
        cwd = None if params.cwd is None else absolute(params.cwd)
        automatic = params.policy == "automatic"
        most = AUTOMATIC_LOOK_SECONDS if automatic else LOOK_SECONDS
        within = min(most, max(clock.left_ms / 1e3, most * LEAST_SHARE))
        try:
            where, effective = self._vaults.seen(cwd, lambda: self._settings_for(cwd), within)
        except NotAnswering as problem:
            if not automatic or problem.folder is None:
                raise
            return [], [unregistered(problem.folder, str(problem))], self._settings_for(None)
        ambient = effective.settings.ambient_personal_vault
        until = monotonic() + clock.left_ms * WAITING_SHARE / 1e3
        found = self._vaults.looked_through(params.vault, where, automatic=automatic, ambient=ambient, until=until)
        return *found, effective

    async def _feedback_judge(self, params: m.JudgeParams, context: CallContext) -> r.Judged:
        return await self._in(self._slow, lambda: self._feedback.judge(params, context.session))

    async def _feedback_signal(self, params: m.SignalParams, context: CallContext) -> r.Signalled:
        return await self._in(self._slow, lambda: self._feedback.signal(params, context.session))

    async def _page_search(self, params: m.PageSearchParams, _context: CallContext) -> r.PageMatches:
        return await self._in(self._slow, lambda: pages.search(params, *self._looked_through(params.vault, params.cwd)))

    async def _page_get(self, params: m.PageGetParams, context: CallContext) -> r.Page:
        def work() -> r.Page:
            vaults, left_out = self._looked_through(params.vault_id, params.cwd)
            page = pages.get(params, vaults, self._recaller.marker, left_out)
            session = params.session or context.session
            if session is not None:
                self._feedback.read(page, session)
            return page

        return await self._in(self._slow, work)

    # -- index ---------------------------------------------------------------------------------------------------------

    def _opened(
        self, vault: str | None, cwd: str | None, until: float, context: CallContext
    ) -> tuple[Sequence[Applied], Sequence[Unopened]]:
        cancelled = context.cancelled.is_set
        return index_calls.opened(vault, lambda: self._looked_through(vault, cwd, until), until, cancelled)

    async def _sync(self, params: m.SyncParams, context: CallContext) -> r.SyncedVaults:
        until = monotonic() + params.timeout_ms / 1e3  # the wait for a thread is part of it
        return await self._in(
            self._long,
            lambda: index_calls.sync(
                *self._opened(params.vault, params.cwd, until, context),
                until,
                context.cancelled.is_set,
            ),
            context,
        )

    async def _reindex(self, params: m.ReindexParams, context: CallContext) -> r.ReindexReports:
        def work() -> r.ReindexReports:
            if "vectors" in params.components:
                self._embedder.awaken()
            return index_calls.reindex(
                params, *self._opened(params.vault, params.cwd, FOREVER, context), context, self._embedder.for_recall
            )

        return await self._in(self._long, work, context)

    async def _verify(self, params: m.VerifyParams, context: CallContext) -> r.VerifyReports:
        def work() -> r.VerifyReports:
            return index_calls.verified(params, *self._opened(params.vault, params.cwd, FOREVER, context), context)

        return await self._in(self._long, work, context)


def _resolved(applied: Applied) -> r.ResolvedVault:
    vault = applied.vault
    return r.ResolvedVault(
        vault_id=r.VaultId(vault.vault_id),
        name=vault.name,
        path=str(vault.root),
        layer=applied.layer,
        reason=applied.reason,
    )
