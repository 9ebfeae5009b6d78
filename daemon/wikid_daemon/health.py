"""What `status` tells: the daemon, its models, and the truth about each vault."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from wikid_daemon.core import names
from wikid_daemon.index import jvm
from wikid_daemon.index.catalog import CatalogError
from wikid_daemon.index.store import Store
from wikid_daemon.indexer import Indexer
from wikid_daemon.unserved import Unopened
from wikid_daemon.vault.vault import Vault
from wikid_protocol import __version__
from wikid_protocol import records as r

if sys.platform == "win32":
    from wikid_daemon import win32
else:
    import resource

LISTED_PATHS = 100
_STARTED = time.monotonic()  # the wall clock may be moved, and the process is what is asked about


def vault_record(vault: Vault) -> r.VaultRecord:
    blocked = vault.blocked
    return r.VaultRecord(
        vault_id=r.VaultId(vault.vault_id),
        name=vault.name,
        path=str(vault.root),
        kind=vault.kind,
        topic=vault.topic,
        mode=vault.mode,
        read_only=vault.read_only,
        state_path=str(vault.state),
        blocked=None if blocked is None else f"{blocked.code}: {blocked.message}",
    )


def state_of(indexer: Indexer) -> Literal["indexing", "ready", "unavailable", "blocked", "failed"]:
    """The one word for how a vault is."""
    blocked = indexer.vault.blocked
    return "blocked" if blocked is not None and not blocked.serve else indexer.state.state


def vault_status(indexer: Indexer) -> r.VaultStatus:
    """Counts come from the catalog, doubts from the indexer; nothing is guessed, and what cannot be read left out."""
    known, store = _without_catalog(indexer), indexer.store
    if store is None:
        return known
    try:
        return _with_catalog(known, indexer, store)
    except CatalogError as problem:  # closed, or not to be opened, at this moment: one vault must not hide the others
        return replace(known, reason=known.reason or f"its catalog cannot be read now: {type(problem).__name__}")


def _without_catalog(indexer: Indexer) -> r.VaultStatus:
    vault, state = indexer.vault, indexer.state
    return r.VaultStatus(
        vault=vault_record(vault),
        state=state_of(indexer),
        pending=state.pending,
        stale=indexer.stale,
        failed=tuple(r.PathReason(path=path, reason=why) for path, why in list(state.failed.items())[:LISTED_PATHS]),
        skipped=dict(Counter(reason for _, reason in state.skipped)),
        skipped_paths=tuple(r.PathReason(path=path, reason=why) for path, why in state.skipped[:LISTED_PATHS]),
        packets_without_page=state.packets_without_page,
        last_scan=_moment(state.last_scan),
        last_canary=_moment(indexer.watcher.last_proof),
        watcher=state.watch.mode,
        watcher_reason=state.watch.reason,
        reason=state.reason,
    )


def _with_catalog(known: r.VaultStatus, indexer: Indexer, store: Store) -> r.VaultStatus:
    pages, chunks = store.catalog.counts()
    refused = map(names.printable, indexer.refused(LISTED_PATHS))
    told = {each.path for each in known.failed}
    not_embedded = (r.PathReason(path=path, reason="not_embedded") for path in refused if path not in told)
    codes = Counter(store.catalog.finding_counts())
    codes.update(finding.code for finding in (*indexer.state.collisions, *indexer.vault.findings))
    return replace(
        known,
        generation=store.generation,
        pages=pages,
        chunks=chunks,
        embedded=store.embedded,
        embedding_pending=indexer.embedding_pending,
        failed=(*not_embedded, *known.failed),
        findings=sum(codes.values()),
        findings_by_code=dict(sorted(codes.items())),
        versions=store.versions(),
        rebuilt=tuple(r.Diagnostic(kind=kind, message=words) for kind, words in list(store.notes)),
    )


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds")


def unopened_status(unopened: Unopened) -> r.VaultStatus:
    entry = unopened.entry
    record = r.VaultRecord(
        vault_id=r.VaultId(entry.vault_id), name=entry.name, path=str(entry.path), kind="plain", blocked=unopened.reason
    )
    return r.VaultStatus(vault=record, state=state_of_unopened(unopened), reason=unopened.reason)


def state_of_unopened(unopened: Unopened) -> Literal["indexing", "unavailable"]:
    """The same word for a registered vault that is not open."""
    return "indexing" if unopened.opening else "unavailable"


def daemon_status(started: datetime, endpoint: Path, connections: int) -> r.DaemonStatus:
    return r.DaemonStatus(
        version=__version__,
        pid=os.getpid(),
        started=started.isoformat(timespec="seconds"),
        uptime_s=round(time.monotonic() - _STARTED, 1),
        endpoint=str(endpoint),
        rss_bytes=_rss(),
        java=jvm.running(),
        connections=connections,
    )


def _rss() -> int:
    """Resident bytes now where the system tells (Linux, Windows), else the peak so far."""
    if sys.platform == "win32":
        return win32.resident_bytes()
    else:  # noqa: RET505 - for a type checker of either platform
        try:
            pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return peak if sys.platform == "darwin" else peak * 1024
