"""`index/sync`, `index/reindex` and `index/verify`: each vault by itself, its outcome as a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic, perf_counter, sleep
from typing import Final

from wikid_daemon import health
from wikid_daemon.calls import CallContext
from wikid_daemon.core.names import printable
from wikid_daemon.indexer import Indexer
from wikid_daemon.reindexing import Reindexed
from wikid_daemon.searching import Absence
from wikid_daemon.threads import Cancelled
from wikid_daemon.unserved import NotOpen, Unopened, not_looked_through
from wikid_daemon.vaults import Applied
from wikid_daemon.verification import verify
from wikid_protocol import methods as m
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused

LISTED_DIFFERENCES: Final = 1_000
OPENING_SECONDS: Final = 0.1  # between two looks at whether a vault is open


def sync(
    vaults: Sequence[Applied], left_out: Sequence[Unopened], until: float, cancelled: Callable[[], bool]
) -> r.SyncedVaults:
    """Return once everything saved before is searchable. RequestRefused, VaultError; TimeoutError where it is not
    `until` then (`time.monotonic()`), Cancelled."""
    started = perf_counter()
    synced = []
    for applied in vaults:
        generation = _writer(applied).sync(max(until - monotonic(), 0.0), cancelled)
        if applied.indexer.state.state == "unavailable":
            message = f"the folder of {applied.vault.name} is gone, empty or not answering, so nothing new can be found"
            raise RequestRefused("vault_unavailable", message, hint="bring the folder back")
        synced.append(
            r.Synced(
                vault_id=r.VaultId(applied.vault.vault_id),
                name=applied.vault.name,
                generation=generation,
                elapsed_ms=round((perf_counter() - started) * 1e3, 1),
                stale=applied.indexer.stale,
                pending=applied.indexer.state.pending,
            )
        )
    return r.SyncedVaults(vaults=tuple(synced), diagnostics=_told(left_out))


def opened(
    wanted: str | None,
    find: Callable[[], tuple[Sequence[Applied], Sequence[Unopened]]],
    until: float,
    cancelled: Callable[[], bool],
) -> tuple[Sequence[Applied], Sequence[Unopened]]:
    """What `find` finds of the vaults that are `wanted`, once nothing of it is still being opened. NotOpen where the
    one that is meant cannot be; TimeoutError where it is not `until` then, Cancelled."""
    while True:
        found, left_out = find()
        if not any(each.opening for each in left_out):
            break
        if cancelled():
            raise Cancelled
        if monotonic() >= until:
            raise TimeoutError
        sleep(OPENING_SECONDS)
    # the personal vault alone is not what a call from a project is for
    if left_out and not any(wanted == "all" or each.layer != "personal" for each in found):
        raise NotOpen(left_out[0])
    return found, left_out


def _told(left_out: Sequence[Unopened]) -> tuple[r.Diagnostic, ...]:
    return tuple(map(not_looked_through, left_out))


def reindex(
    params: m.ReindexParams,
    vaults: Sequence[Applied],
    left_out: Sequence[Unopened],
    context: CallContext,
    embedder: Callable[[], object],
) -> r.ReindexReports:
    """Seed A's reindex; what was `left_out` is told. `embedder` gives the embedder, or the Absence that explains why no
    vectors are made."""
    reports = tuple(_reindexed(params, each, context, embedder) for each in vaults)
    return r.ReindexReports(vaults=reports, diagnostics=_told(left_out))


def _reindexed(
    params: m.ReindexParams, applied: Applied, context: CallContext, embedder: Callable[[], object]
) -> r.ReindexReport:
    indexer, started = _writer(applied), perf_counter()
    vectors = "vectors" in params.components
    done = indexer.reindex(
        everything=params.scope == "all",
        lexical="lexical" in params.components,
        vectors=vectors,
        force=params.force,
        progress=progress(context, params.progress_token, applied.vault.name),
        cancelled=context.cancelled.is_set,
    )
    model = embedder()
    warnings = []
    if vectors and isinstance(model, Absence):
        warnings.append(r.Diagnostic(kind=model.kind, message="no vectors were made", remedy=model.remedy))
    return _report(applied, done, tuple(warnings), perf_counter() - started)


def verified(
    params: m.VerifyParams, vaults: Sequence[Applied], left_out: Sequence[Unopened], context: CallContext
) -> r.VerifyReports:
    """Compare each vault's index with a fresh build."""
    reports = tuple(_verified(params, each, context) for each in vaults)
    return r.VerifyReports(vaults=reports, diagnostics=_told(left_out))


def progress(context: CallContext, token: str | None, label: str) -> Callable[[str, float | None], None]:
    """Where a long step tells how far it is: a message and 0–100, under the caller's token where there is one."""
    if token is None:
        return lambda _message, _percentage: None
    prefix = f"{label}: " if label else ""

    def report(message: str, percentage: float | None) -> None:
        context.progress(token, prefix + message, percentage)

    return report


def _writer(applied: Applied) -> Indexer:
    """The indexer, where the vault may be indexed at all."""
    vault = applied.vault
    if vault.blocked is not None and not vault.blocked.serve:
        message = f"{vault.name} is blocked: {vault.blocked.code}"
        raise RequestRefused("vault_blocked", message, hint="repair its config.json")
    return applied.indexer


def _verified(params: m.VerifyParams, applied: Applied, context: CallContext) -> r.VerifyReport:
    indexer, started = _writer(applied), perf_counter()
    done = verify(indexer, progress(context, params.progress_token, applied.vault.name), context.cancelled.is_set)
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


def _report(applied: Applied, done: Reindexed, warnings: tuple[r.Diagnostic, ...], seconds: float) -> r.ReindexReport:
    status = health.vault_status(applied.indexer)
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
        warnings=warnings,
        errors=errors,
    )
