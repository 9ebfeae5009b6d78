"""What is wrong with one vault, for `doctor`: its folder, its index, its watcher, its log, and what stands beside it.

What the indexer knows costs nothing. What has to be looked at on disk is looked at by a thread that may hang alone.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from wikid_daemon import processes
from wikid_daemon.core.languages import ENGLISH, languages
from wikid_daemon.core.names import printable
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.index.catalog import CatalogError
from wikid_daemon.index.lifecycle import STAGING
from wikid_daemon.indexer import Indexer
from wikid_daemon.threads import Cancelled
from wikid_daemon.unserved import Unopened
from wikid_daemon.vault.event_lock import STALE_AFTER, EventLock, is_alive
from wikid_daemon.vault.event_log import LOCK_NAME
from wikid_daemon.vault.filesystem import network_filesystem, sync_folder
from wikid_daemon.vault.opening import FolderThreads, NotAnswering
from wikid_daemon.vault.vault import Vault
from wikid_protocol.records import DoctorFinding, Severity

SCAN_OVERDUE: Final = timedelta(minutes=10)  # a scan is due every minute
PENDING_OVERDUE: Final = timedelta(minutes=5)
ABANDONED_SECONDS: Final = 6 * 3_600.0
SAMPLE: Final = 300  # chunks whose language is told
FOREIGN_SHARE: Final = 0.2
SHOWN_PATHS: Final = 3
_DAMAGE: Final = frozenset({"LexicalIndexDamaged", "catalog_damaged"})  # of them only a new index helps
_UNKNOWN: Final = "wait a moment; if it stays: wikid restart"
_PASSING: Final = {
    "temporarily_unavailable": "wait a moment; if it stays, see what else uses its disk or share",
    "vanished": "see that its folder is in its place; if it stays: wikid restart",
    "permission_denied": "check who owns its folder and wikid's own state, and who may write there",
    "read_only": "its disk is read-only: make it writable",
    "input_output_error": "check its disk or share: the system reports an error of it",
    "cannot_be_opened": "check who owns wikid's own state; if it stays: wikid restart",
    "LexicalIndexBusy": "another wikid writes this index: end that one, or wait until it has",
    "BusyError": "another program has the index open: end it, or wait until it has",
}
_ENDED: Final = "restart wikid"  # in the reason of an indexer whose thread is gone
FULL_BYTES: Final = 100_000_000
LOW_BYTES: Final = 1_000_000_000

Report = Callable[..., DoctorFinding]


def unopened(found: Unopened) -> DoctorFinding:
    """A registered vault that is not open."""
    entry, place = found.entry, printable(str(found.entry.path))
    if found.opening:
        message = f"{place} is still being opened"
        return DoctorFinding(
            severity="info",
            kind="vault_opening",
            message=message,
            remedy="ask again in a moment",
            vault_id=entry.vault_id,
            vault=entry.name,
        )
    return DoctorFinding(
        severity="error",
        kind="vault_not_opened",
        message=f"{place} cannot be opened: {_words(found.reason)}",
        remedy=f"bring the folder back, or forget it with: wikid vault remove {shlex.quote(entry.name)}",
        vault_id=entry.vault_id,
        vault=entry.name,
    )


def room(what: str, place: Path, free: int) -> Iterator[DoctorFinding]:
    """That a disk is full or nearly so; nothing where there is room."""
    message = f"the disk of {what} has {free / 1e6:,.0f} MB left ({printable(str(place))})"
    if free < FULL_BYTES:
        yield DoctorFinding(severity="error", kind="disk_full", message=message, remedy="make room")
    elif free < LOW_BYTES:
        yield DoctorFinding(severity="warning", kind="disk_low", message=message, remedy="make room before it is full")


def existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    return next((each for each in (folder, *folder.parents) if each.exists()), Path(folder.anchor))


class Checkup:
    """Looks at vaults one by one; any thread may call. `knows_english_alone` is about the embedding model in use, and
    `free` gives the bytes left where a folder is; the disk of `state_home` is somebody else's to look at."""

    def __init__(
        self,
        logs: EventLogs,
        knows_english_alone: Callable[[], bool],
        state_home: Path,
        free: Callable[[Path], int],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._logs = logs
        self._knows_english_alone = knows_english_alone
        self._state_home = state_home
        self._free = free
        self._now = now
        self._folders = FolderThreads()

    def of(self, indexer: Indexer) -> Iterator[DoctorFinding]:
        """All findings about the vault. Cancelled while the daemon stops."""
        vault = indexer.vault
        report = partial(_finding, vault)
        yield from _access(vault, report)
        yield from self._index(indexer, report)
        yield from _watcher(indexer, report)
        yield from _pages(indexer, report)
        if self._knows_english_alone():
            yield from _language(indexer, report)
        try:
            yield from self._folders.begin(vault.root, lambda _alive: list(self._on_disk(vault, report)))()
        except NotAnswering:
            yield report("error", "vault_not_answering", "its folder does not answer", "check its disk or share")

    def _index(self, indexer: Indexer, report: Report) -> Iterator[DoctorFinding]:
        state, name = indexer.state, shlex.quote(indexer.vault.name)
        if state.state == "unavailable":
            message = f"its folder is gone, empty or unreadable ({_words(state.reason)}): answers are from before"
            yield report("error", "vault_unavailable", message, f"bring back {printable(str(indexer.vault.root))}")
        elif state.state == "failed" and state.reason == "disk_full":
            yield report("error", "index_disk_full", "the disk is full: nothing new is indexed", "make room")
        elif state.state == "failed" and _ENDED in state.reason:
            message = f"its index is not kept up to date any more: {_words(state.reason)}"
            yield report("error", "index_stopped", message, "wikid restart", fix=True)
        elif state.state == "failed" and state.reason in _DAMAGE:
            message = f"its index is damaged: {_words(state.reason)}"
            anew = f"wikid reindex --vault {name} --scope all --components lexical --force"
            yield report("error", "index_damaged", message, f"{anew}; if that fails: wikid restart", fix=True)
        elif state.state == "failed":
            message = f"indexing is interrupted: {_words(state.reason)}; it is tried again every few seconds"
            yield report("error", "index_interrupted", message, _PASSING.get(state.reason, _UNKNOWN))
        store = indexer.store
        if store is not None and store.java_missing:
            yield report("error", "java_missing", f"it is not searched by words: {store.java_missing}", "wikid restart")
        age = None if state.last_scan is None else self._now() - state.last_scan
        if age is not None and age > SCAN_OVERDUE and state.state == "ready":
            message = f"the last whole look at its files was {_minutes(age)} ago; one is due every minute"
            yield report("warning", "scan_overdue", message, "wikid restart")
        if state.pending and age is not None and age > PENDING_OVERDUE and state.state in ("ready", "indexing"):
            message = f"{state.pending:,} saved pages wait to be indexed for longer than is usual"
            yield report("warning", "pending_overdue", message, f"watch it with: wikid status --watch --vault {name}")

    def _on_disk(self, vault: Vault, report: Report) -> Iterator[DoctorFinding]:
        yield from _surroundings(vault, report)
        yield from _leftovers(vault, report)
        place = existing(vault.state)
        if place.stat().st_dev != existing(self._state_home).stat().st_dev:
            yield from room(f"the index of {vault.name}", place, self._free(place))
        if vault.meta is not None:
            yield from self._log(vault, vault.meta, report)

    def _log(self, vault: Vault, meta: Path, report: Report) -> Iterator[DoctorFinding]:
        stream = self._logs.of(vault).read()
        if stream.malformed_after_wikid:
            message = f"{_count(len(stream.findings), 'line')} of its event log cannot be read, so feedback is not used"
            remedy = f"once you have seen it: wikid events --acknowledge --vault {shlex.quote(vault.name)}"
            yield report("warning", "events_malformed", message, remedy)
        yield from _lock(meta / LOCK_NAME, report)


def _finding(
    vault: Vault, severity: Severity, kind: str, message: str, remedy: str = "", *, fix: bool = False
) -> DoctorFinding:
    return DoctorFinding(
        severity=severity,
        kind=kind,
        message=message,
        remedy=remedy,
        fix=fix,
        vault_id=vault.vault_id,
        vault=vault.name,
    )


def _access(vault: Vault, report: Report) -> Iterator[DoctorFinding]:
    if vault.blocked is not None:
        what = "it is not served" if not vault.blocked.serve else "nothing is written into it"
        remedy = f"correct {printable(str(vault.config_path))}"
        yield report("error", "vault_blocked", f"{what}: {vault.blocked.message}", remedy)
    elif vault.read_only and vault.strict:  # into other folders nothing is ever written
        message = "it may not be written: notes and decisions are refused"
        yield report("warning", "vault_read_only", message, f"give yourself the right to write into {vault.meta}")


def _watcher(indexer: Indexer, report: Report) -> Iterator[DoctorFinding]:
    watch, state = indexer.state.watch, indexer.state.state
    if watch.mode == "polling":
        why, limit, remedy = watch.reason.partition("; raise the limit with: ")
        message = f"changes are found by looking every few seconds, not told by the system: {why}"
        severity: Severity = "warning" if limit else "info"  # a share cannot do better
        yield report(severity, "watcher_polling", message, remedy)
    elif state == "ready" and indexer.watcher.doubtful:
        message = "its watcher does not prove that it lives: changes are found by the scan each minute"
        yield report("warning", "canary_failed", message, "it is replaced by itself; if this stays: wikid restart")


def _pages(indexer: Indexer, report: Report) -> Iterator[DoctorFinding]:
    state, name = indexer.state, shlex.quote(indexer.vault.name)
    if state.failed:
        reasons = ", ".join(sorted({_words(why) for why in state.failed.values()}))
        message = f"{_count(len(state.failed), 'page')} cannot be read or indexed: {reasons}"
        yield report("warning", "pages_failed", message, f"see which: wikid status --vault {name}")
    copies = [path for path, reason in state.skipped if reason == "conflict_copy"]
    if copies:
        shown = ", ".join(printable(path) for path in copies[:SHOWN_PATHS])
        more = f" and {len(copies) - SHOWN_PATHS:,} more" if len(copies) > SHOWN_PATHS else ""
        message = f"a sync tool left {_count(len(copies), 'conflict copy', 'conflict copies')}: {shown}{more}"
        yield report("warning", "conflict_copies", message, "merge what differs into the page, then delete the copy")


def _language(indexer: Indexer, report: Report) -> Iterator[DoctorFinding]:
    store = indexer.store
    if store is None:
        return
    try:
        numbers = sorted(store.catalog.chunk_numbers())
        chosen = numbers[:: max(len(numbers) // SAMPLE, 1)][:SAMPLE]
        found = languages(each.text for each in store.catalog.chunks(chosen).values())
    except (CatalogError, Cancelled):  # it is being closed or built anew: the next call tells
        return
    others = [(number, name) for name, number in found.items() if name != ENGLISH]
    share = sum(number for number, _ in others) / max(found.total(), 1)
    if share >= FOREIGN_SHARE:
        message = (
            f"about {share:.0%} of its text is not English (mostly {max(others)[1]}), and the model that finds notes "
            "by meaning knows English alone"
        )
        yield report("warning", "language_unknown_to_model", message, "wikid models use multilingual")


def _surroundings(vault: Vault, report: Report) -> Iterator[DoctorFinding]:
    network = network_filesystem(vault.root)
    synced = sync_folder(vault.root)
    if network is not None:
        message = f"it is on a network file system ({network}): changes that other machines make are found by looking"
        yield report("info", "vault_on_network", message)
    if synced is not None:
        message = f"{printable(synced.name)} keeps it in sync: its index is kept outside, and two machines that write"
        message += " the same page leave conflict copies"
        yield report("info", "vault_in_sync_folder", message)


def _leftovers(vault: Vault, report: Report) -> Iterator[DoctorFinding]:
    left = [each for each in vault.state.glob(f"{STAGING}*") if _age(each) > ABANDONED_SECONDS]
    if left:
        message = f"{_count(len(left), 'folder')} of an index that was never finished in {printable(str(vault.state))}"
        yield report("warning", "staging_left", message, "wikid restart removes them")


def _lock(path: Path, report: Report) -> Iterator[DoctorFinding]:
    age = _age(path)
    if age <= STALE_AFTER.total_seconds():
        return
    holder = EventLock(path, "doctor").holder()
    remedy = f"if nothing else writes into this vault now, delete {printable(str(path))}"
    if holder is None:
        yield report("warning", "event_lock_unreadable", "the lock of its event log says nothing of its holder", remedy)
    elif holder.host != processes.host() or is_alive(holder):  # one that is gone from this machine is taken over
        message = f"process {holder.pid} on {holder.host} holds its event log for {_minutes(timedelta(seconds=age))}"
        yield report("warning", "event_lock_held", message, remedy)


def _age(path: Path) -> float:
    """Seconds since the file or folder was last changed; none where it is not there."""
    try:
        return time.time() - os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _minutes(span: timedelta) -> str:
    seconds = span.total_seconds()
    return f"{seconds / 60:,.0f} min" if seconds < 7_200 else f"{seconds / 3_600:,.0f} h"


def _words(reason: str) -> str:
    return printable(reason).replace("_", " ")


def _count(number: int, singular: str, plural: str = "") -> str:
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"
