"""Method → use case. Each handler turns decoded parameters into one call below and its errors into stable kinds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeVar

import structlog

from wikid_daemon import health, pages
from wikid_daemon.calls import CallContext
from wikid_daemon.core.names import printable
from wikid_daemon.index.catalog import CatalogError
from wikid_daemon.index.lucene import LexicalIndexDamaged
from wikid_daemon.indexer import Indexer
from wikid_daemon.models.failures import ModelBuildFailed
from wikid_daemon.recall import Recaller
from wikid_daemon.reindexing import Reindexed
from wikid_daemon.updater import Cancelled
from wikid_daemon.vault.registry import RegistryUnreadable
from wikid_daemon.vault.vault import FolderUnreadable, NotAFolder, Vault, VaultError, VaultExists, VaultMissing
from wikid_daemon.vaults import AmbiguousVault, Applied, UnknownVault, Vaults
from wikid_daemon.verification import verify
from wikid_daemon.warm import WarmEmbedder
from wikid_protocol import __version__
from wikid_protocol import methods as m
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused
from wikid_protocol.methods import Method

log = structlog.get_logger("handlers")

T = TypeVar("T")
Handler = Callable[[Any, CallContext], Awaitable[object]]

RECALL_THREADS: Final = 4
SLOW_THREADS: Final = 8
LONG_THREADS: Final = 8
LISTED_DIFFERENCES: Final = 1_000
CAPABILITIES: Final = ("core",)


class Handlers:
    """Implements `Dispatcher`. Recalls have threads of their own, and so has work that may take minutes."""

    def __init__(
        self, vaults: Vaults, recaller: Recaller, embedder: WarmEmbedder, started: datetime, endpoint: Path
    ) -> None:
        self._vaults = vaults
        self._recaller = recaller
        self._embedder = embedder
        self._started = started
        self._endpoint = endpoint
        self.connections: Callable[[], int] = lambda: 0
        self._quick = ThreadPoolExecutor(RECALL_THREADS, "recall")
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
            "page/search": self._page_search,
            "page/get": self._page_get,
            "index/reindex": self._reindex,
            "index/sync": self._sync,
            "index/verify": self._verify,
            "models/list": self._models_list,
            "models/build": self._models_build,
        }

    async def call(self, method: Method, params: object, context: CallContext) -> object:
        """Answer one call. RequestRefused says no."""
        return await self._table[method.name](params, context)

    def close(self) -> None:
        self._quick.shutdown(wait=False, cancel_futures=True)
        self._slow.shutdown(wait=False, cancel_futures=True)
        self._long.shutdown(wait=False, cancel_futures=True)

    # -- threads -------------------------------------------------------------------------------------------------------

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, _translated, work)

    def _chosen(self, vault: str | None, cwd: str | None, *, automatic: bool = False) -> list[Applied]:
        return self._vaults.chosen(vault, None if cwd is None else Path(cwd), automatic=automatic)

    # -- daemon --------------------------------------------------------------------------------------------------------

    async def _initialize(self, _params: m.InitializeParams, _context: CallContext) -> r.Initialized:
        indexers = await self._in(self._quick, self._vaults.all)
        return r.Initialized(
            protocol=m.PROTOCOL_VERSION,
            server=r.Server(name="wikid", version=__version__),
            capabilities=CAPABILITIES,
            limits=m.LIMITS,
            vaults=tuple(health.vault_record(each.vault) for each in indexers),
            generation=sum(each.store.generation for each in indexers if each.store is not None),
        )

    async def _ping(self, _params: m.NoParams, _context: CallContext) -> r.Pong:
        return r.Pong(version=__version__, pid=os.getpid(), protocol=m.PROTOCOL_VERSION)

    async def _status(self, params: m.StatusParams, _context: CallContext) -> r.StatusReport:
        def work() -> r.StatusReport:
            wanted = self._vaults.all() if params.vault is None else [self._vaults.find(params.vault)]
            statuses = [health.vault_status(each) for each in wanted]
            if params.vault is None:
                statuses += [health.unopened_status(each) for each in self._vaults.unopened()]
            faults = [r.Diagnostic(kind="registry_damaged", message=fault) for fault in self._vaults.faults()]
            return r.StatusReport(
                daemon=health.daemon_status(self._started, self._endpoint, self.connections()),
                models=self._embedder.records(),
                vaults=tuple(statuses),
                diagnostics=tuple(faults),
            )

        return await self._in(self._slow, work)

    # -- vaults --------------------------------------------------------------------------------------------------------

    async def _vault_list(self, _params: m.NoParams, _context: CallContext) -> r.VaultList:
        opened = await self._in(self._quick, self._vaults.all)
        vaults = tuple(health.vault_record(each.vault) for each in opened)
        gone = tuple(health.unopened_status(each).vault for each in self._vaults.unopened())
        faults = tuple(r.Diagnostic(kind="registry_damaged", message=fault) for fault in self._vaults.faults())
        return r.VaultList(vaults=vaults + gone, diagnostics=faults)

    async def _vault_add(self, params: m.VaultAddParams, _context: CallContext) -> r.VaultRecord:
        def work() -> r.VaultRecord:
            return health.vault_record(self._vaults.add(_absolute(params.path), params.name).vault)

        return await self._in(self._slow, work)

    async def _vault_init(self, params: m.VaultInitParams, _context: CallContext) -> r.VaultRecord:
        def work() -> r.VaultRecord:
            indexer = self._vaults.init(_absolute(params.path), params.topic, params.mode, params.name)
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
            cwd = _absolute(params.cwd)
            return r.Resolution(
                cwd=str(cwd),
                vaults=tuple(map(_resolved, self._vaults.applying(cwd, automatic=False))),
                automatic=tuple(map(_resolved, self._vaults.applying(cwd, automatic=True))),
            )

        return await self._in(self._slow, work)

    # -- recall and pages ----------------------------------------------------------------------------------------------

    async def _recall(self, params: m.RecallParams, context: CallContext) -> r.Recall:
        def work() -> r.Recall:
            vaults = self._chosen(params.vault, params.cwd, automatic=params.policy == "automatic")
            return self._recaller.recall(params, vaults, context.cancelled.is_set)

        return await self._in(self._quick, work)

    async def _page_search(self, params: m.PageSearchParams, _context: CallContext) -> r.PageMatches:
        return await self._in(self._slow, lambda: pages.search(params, self._chosen(params.vault, params.cwd)))

    async def _page_get(self, params: m.PageGetParams, _context: CallContext) -> r.Page:
        def work() -> r.Page:
            vaults = self._chosen(params.vault_id, params.cwd)
            return pages.get(params, vaults, self._recaller.marker)

        return await self._in(self._slow, work)

    # -- index ---------------------------------------------------------------------------------------------------------

    async def _sync(self, params: m.SyncParams, _context: CallContext) -> r.SyncedVaults:
        def work() -> r.SyncedVaults:
            started = perf_counter()
            synced = []
            for applied in self._chosen(params.vault, params.cwd):
                left = params.timeout_ms / 1e3 - (perf_counter() - started)
                generation = _writer(applied).sync(max(left, 0.0))
                if applied.indexer.state.state == "unavailable":
                    message = f"the folder of {applied.vault.name} is gone or empty, so nothing new can be found"
                    raise RequestRefused("vault_unavailable", message, hint="bring the folder back")
                synced.append(
                    r.Synced(
                        vault_id=r.VaultId(applied.vault.vault_id),
                        name=applied.vault.name,
                        generation=generation,
                        elapsed_ms=round((perf_counter() - started) * 1e3, 1),
                    )
                )
            return r.SyncedVaults(vaults=tuple(synced))

        return await self._in(self._long, work)

    async def _reindex(self, params: m.ReindexParams, context: CallContext) -> r.ReindexReports:
        def work() -> r.ReindexReports:
            vaults = self._chosen(params.vault, params.cwd)
            return r.ReindexReports(vaults=tuple(self._reindex_one(params, each, context) for each in vaults))

        return await self._in(self._long, work)

    def _reindex_one(self, params: m.ReindexParams, applied: Applied, context: CallContext) -> r.ReindexReport:
        indexer, started = _writer(applied), perf_counter()
        vectors = "vectors" in params.components
        done = indexer.reindex(
            everything=params.scope == "all",
            lexical="lexical" in params.components,
            vectors=vectors,
            force=params.force,
            progress=_progress(context, params.progress_token, applied.vault.name),
            cancelled=context.cancelled.is_set,
        )
        return self._report(applied, done, vectors, perf_counter() - started)

    async def _verify(self, params: m.VerifyParams, context: CallContext) -> r.VerifyReports:
        def work() -> r.VerifyReports:
            vaults = self._chosen(params.vault, params.cwd)
            return r.VerifyReports(vaults=tuple(_verified(params, each, context) for each in vaults))

        return await self._in(self._long, work)

    def _report(self, applied: Applied, done: Reindexed, vectors: bool, seconds: float) -> r.ReindexReport:
        status = health.vault_status(applied.indexer)
        model = self._embedder.for_recall()
        warnings = []
        if vectors and model.encoder is None:
            warnings.append(r.Diagnostic(kind=model.kind, message="no vectors were made", remedy=model.remedy))
        errors = tuple(
            r.Diagnostic(kind=each.reason, message=f"{each.path}: {each.reason.replace('_', ' ')}")
            for each in status.failed
        )
        return r.ReindexReport(
            vault_id=status.vault.vault_id,
            name=status.vault.name,
            collections=("canonical", "evidence"),
            indexed=done.pages.indexed,
            updated=done.pages.updated,
            unchanged=done.pages.unchanged,
            removed=done.pages.removed,
            needing=done.vectors.needing,
            generated=done.vectors.generated,
            skipped=done.vectors.skipped,
            versions=status.versions,
            elapsed_ms=round(seconds * 1e3, 1),
            warnings=tuple(warnings),
            errors=errors,
        )

    # -- models --------------------------------------------------------------------------------------------------------

    async def _models_list(self, _params: m.NoParams, _context: CallContext) -> r.ModelList:
        return r.ModelList(models=await self._in(self._slow, self._embedder.records))

    async def _models_build(self, params: m.ModelBuildParams, context: CallContext) -> r.ModelRecord:
        def work() -> r.ModelRecord:
            report = _progress(context, params.progress_token, "")

            def progress(message: str, share: float | None) -> None:
                report(message, None if share is None else 100.0 * share)

            return self._embedder.build(params.name, progress, context.cancelled.is_set)

        return await self._in(self._long, work)


def _absolute(path: str) -> Path:
    given = Path(path).expanduser()
    if not given.is_absolute():
        raise RequestRefused("invalid_params", "a path must be absolute: the daemon has another working folder")
    return given


def _resolved(applied: Applied) -> r.ResolvedVault:
    vault = applied.vault
    return r.ResolvedVault(
        vault_id=r.VaultId(vault.vault_id),
        name=vault.name,
        path=str(vault.root),
        layer=applied.layer,
        reason=applied.reason,
    )


def _writer(applied: Applied) -> Indexer:
    """The indexer, where the vault may be indexed at all."""
    vault = applied.vault
    if vault.blocked is not None and not vault.blocked.serve:
        message = f"{vault.name} is blocked: {vault.blocked.code}"
        raise RequestRefused("vault_blocked", message, hint="repair its config.json")
    return applied.indexer


def _verified(params: m.VerifyParams, applied: Applied, context: CallContext) -> r.VerifyReport:
    indexer, started = _writer(applied), perf_counter()
    done = verify(indexer, _progress(context, params.progress_token, applied.vault.name), context.cancelled.is_set)
    listed = tuple(
        r.Difference(kind=each.kind, path=printable(each.path), detail=each.detail)
        for each in done.differences[:LISTED_DIFFERENCES]
    )
    return r.VerifyReport(
        vault_id=r.VaultId(applied.vault.vault_id),
        name=applied.vault.name,
        generation=done.generation,
        pages=done.pages,
        chunks=done.chunks,
        embedded=done.embedded,
        embedding_pending=done.embedding_pending,
        compared=done.compared,
        probes=done.probes,
        deleted_share=done.deleted_share,
        differing=len(done.differences),
        elapsed_ms=round((perf_counter() - started) * 1e3, 1),
        differences=listed,
    )


def _progress(context: CallContext, token: str | None, label: str) -> Callable[[str, float | None], None]:
    if token is None:
        return lambda _message, _percentage: None
    prefix = f"{label}: " if label else ""

    def report(message: str, percentage: float | None) -> None:
        context.progress(token, "report", prefix + message, percentage)

    return report


def _translated(work: Callable[[], T]) -> T:
    """Run `work`; what it raises on purpose becomes the refusal that the wire knows."""
    try:
        return work()
    except UnknownVault as problem:
        known = ", ".join(problem.known) or "none yet; add one with: wikid vault add PATH"
        raise RequestRefused("vault_not_found", "no vault has that name, id or path", hint=f"vaults: {known}") from None
    except AmbiguousVault as problem:
        hint = "give its path: " + ", ".join(problem.paths)
        raise RequestRefused("invalid_params", "several vaults have that name or id", hint=hint) from None
    except RegistryUnreadable as problem:
        raise RequestRefused("config_unreadable", str(problem), hint="check the file and its permissions") from None
    except VaultExists as problem:
        raise RequestRefused("vault_exists", str(problem), hint="register it with: wikid vault add PATH") from None
    except (NotAFolder, VaultMissing) as problem:
        raise RequestRefused("not_a_folder", str(problem), hint="give an existing folder of notes") from None
    except FolderUnreadable as problem:
        raise RequestRefused("vault_unavailable", str(problem), hint="check its permissions") from None
    except VaultError as problem:
        raise RequestRefused("vault_unavailable", str(problem)) from None
    except ModelBuildFailed as problem:
        kind = "cancelled" if problem.kind == "cancelled" else "model_unavailable"
        raise RequestRefused(kind, problem.reason, hint=problem.hint) from None
    except (CatalogError, LexicalIndexDamaged) as problem:
        log.warning("index_not_readable", kind=type(problem).__name__)
        message = "an index was closed, or repaired, while it was read"
        raise RequestRefused("vault_unavailable", message, hint="ask again, or look at: wikid status") from None
    except Cancelled:
        raise RequestRefused("cancelled", "the call was cancelled, or the daemon is stopping") from None
    except TimeoutError:
        raise RequestRefused(
            "timeout", "not everything was searchable in time", hint="ask again, or see: wikid status"
        ) from None
