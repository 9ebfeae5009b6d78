"""Saved note → searchable: the one thread that writes a vault's index.

Paths come in from the watcher, a scan or a caller; `_update` is the whole way, top to bottom: look, read, hash, parse,
chunk, mirror, publish. Embedding fills the idle time between two arrivals, so words are searchable first and vectors
follow. Events are hints; a periodic scan is the truth.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

import apsw
import structlog

from wikid_daemon import files
from wikid_daemon.core import names
from wikid_daemon.core.document import MAX_BYTES
from wikid_daemon.core.manifest import Known, Scan, Stamp, below, plan
from wikid_daemon.core.page import Finding
from wikid_daemon.index.catalog import NewPage
from wikid_daemon.index.lucene import LexicalIndexDamaged
from wikid_daemon.index.pages import new_page
from wikid_daemon.index.store import Store
from wikid_daemon.index.vectors import Filled, PassageEncoder, Vectors
from wikid_daemon.vault.mirror import Mirror, MirrorRecord
from wikid_daemon.vault.scan import RootUnavailable, scan, scan_paths
from wikid_daemon.vault.vault import OutsideVault, Vault, read_page
from wikid_daemon.vault.watcher import EVERYTHING, Watcher, WatchState

BATCH_PAGES: Final = 200
SCAN_SECONDS: Final = 60.0
UNAVAILABLE_SECONDS: Final = 5.0
COMMIT_SECONDS: Final = 3.0
TROUBLE_SECONDS: Final = 5.0
RETRY_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
TRANSIENT: Final = frozenset({"temporarily_unavailable", "vanished"})

log = structlog.get_logger("indexer")


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What one reindex did; seed A's counts, in pages and chunks."""

    indexed: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    needing: int = 0
    generated: int = 0
    skipped: int = 0


@dataclass(slots=True)
class IndexState:
    """What the indexer knows of itself. Written by its thread, read by any; each field is replaced, never mutated."""

    state: Literal["indexing", "ready", "unavailable", "failed"] = "indexing"
    reason: str = ""
    pending: int = 0
    embedding_pending: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    skipped: tuple[tuple[str, str], ...] = ()
    collisions: tuple[Finding, ...] = ()
    packets_without_page: int = 0
    last_scan: datetime | None = None
    watch: WatchState = field(default_factory=lambda: WatchState("stopped", "not started"))


@dataclass(slots=True)
class _Counts:
    indexed: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class _Read:
    """One file that was read: the page to write, or None where its bytes are the known ones."""

    path: str
    file: Known
    data: bytes
    page: NewPage | None


class Cancelled(Exception):
    """The caller gave up; what was published stays."""


class Indexer:
    """The sole writer of one vault's index and mirror."""

    def __init__(
        self,
        vault: Vault,
        machine: str,
        encoder: Callable[[], PassageEncoder | None],
        on_published: Callable[[Indexer], None],
        on_thread_end: Callable[[], None],
    ) -> None:
        self.vault = vault
        self.state = IndexState()
        self.store: Store | None = None
        self._mirror = Mirror(vault, machine)
        self._on_published = on_published
        self._on_thread_end = on_thread_end
        self._wake = threading.Condition()
        self._paths: set[str] = set()
        self._tasks: list[tuple[Callable[[], object], Future[object]]] = []
        self._stopping = False
        self._known: dict[str, Known] = {}
        self._by_fold: dict[str, str] = {}
        self._retries: dict[str, tuple[float, int]] = {}
        self._vectors = Vectors(encoder)
        self._next_scan = 0.0
        self._next_commit = 0.0
        self._dirty = False
        self._watcher = Watcher(vault, self.notice, self._on_watch)
        self._thread = threading.Thread(target=self._run, name=f"index-{vault.name}", daemon=True)

    # -- from any thread -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Commit and stop; waits for the batch in hand."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._watcher.close()
        if self._thread.ident is not None:
            self._thread.join(30)

    def notice(self, paths: set[str]) -> None:
        """Something may have changed at these paths, relative to the pages' folder; "" is everything."""
        with self._wake:
            self._paths.update(paths)
            self.state.pending = len(self._paths)
            self._wake.notify()

    def sync(self, timeout: float) -> int:
        """Wait until everything saved before this call is searchable; the generation then. TimeoutError."""
        return int(str(self._ask(self._scan_now).result(timeout)))

    def reindex(
        self,
        *,
        everything: bool,
        lexical: bool,
        vectors: bool,
        force: bool,
        progress: Callable[[str, float | None], None],
        cancelled: Callable[[], bool],
    ) -> Reindexed:
        """Seed A's reindex on the indexer's own thread; blocks until done. Raises Cancelled."""

        def work() -> Reindexed:
            return self._reindex(everything, lexical, vectors, force, progress, cancelled)

        result = self._ask(work).result()
        assert isinstance(result, Reindexed)
        return result

    def wake(self) -> None:
        """Something outside changed, such as a model that became ready."""
        with self._wake:
            self._wake.notify()

    @property
    def stale(self) -> bool:
        """False only while the last scan found everything and nothing has been noticed since."""
        state = self.state
        return state.state != "ready" or state.pending > 0 or state.last_scan is None

    def _ask(self, work: Callable[[], object]) -> Future[object]:
        future: Future[object] = Future()
        with self._wake:
            if self._stopping:
                raise Cancelled
            self._tasks.append((work, future))
            self._wake.notify()
        return future

    def _on_watch(self, watch: WatchState) -> None:
        self.state.watch = watch
        if watch.mode != "watching" and not self._stopping:
            log.warning("watcher_degraded", vault_id=self.vault.vault_id, mode=watch.mode)

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._open()
            self._watcher.start()
            self._look()
            while not self._stopping:
                self._step()
        except Exception as problem:  # the vault is reported as failed in status, with the reason
            self.state.state = "failed"
            self.state.reason = f"{type(problem).__name__}; restart wikid, and run wikid doctor if it comes again"
            log.exception("indexer_failed", vault_id=self.vault.vault_id)
        finally:
            self._finish()

    def _finish(self) -> None:
        self._stopping = True
        for _, future in self._tasks:
            future.set_exception(Cancelled())
        self._watcher.close()
        store, self.store = self.store, None
        if store is not None:
            if self.state.state != "failed":
                self._mirror.write_manifest()
            store.close()
        self._on_thread_end()

    def _open(self) -> None:
        self._mirror.open()
        store = Store(self.vault.state / "current")
        for kind, _ in store.notes:
            log.warning(kind, vault_id=self.vault.vault_id)
        self._known = store.catalog.known_files()
        self._by_fold = {names.folded(path): path for path in self._known}
        self.store = store
        self._vectors.adopt(store)
        self._on_published(self)

    def _step(self) -> None:
        """One turn: what a caller asked, else what changed, else what is due, else a little embedding, else wait."""
        with self._wake:
            task = self._tasks.pop(0) if self._tasks else None
            paths, now = set[str](), time.monotonic()
            if task is None and not self._stopping:
                paths, self._paths = self._paths, set()
        if task is not None:
            work, future = task
            try:
                future.set_result(work())
            except Exception as problem:  # noqa: BLE001 - handed to the caller, who reports it
                future.set_exception(problem)
            return
        paths |= self._due_retries(now)
        try:
            if EVERYTHING in paths or now >= self._next_scan:
                self._look()
            elif paths:
                self._look_at(paths)
            elif not self._embed():
                self._settle(now)
        except (OSError, apsw.Error, LexicalIndexDamaged) as problem:
            self._rest(problem)

    def _rest(self, problem: Exception) -> None:
        """A full disk, say: reads go on from the last good generation, and everything is looked at again soon."""
        reason = files.failure_reason(problem) if isinstance(problem, OSError) else type(problem).__name__
        if self.state.reason != reason:
            log.error("indexing_interrupted", vault_id=self.vault.vault_id, kind=reason)
        self.state.state, self.state.reason = "failed", reason
        self._next_scan = time.monotonic() + TROUBLE_SECONDS
        with self._wake:
            if not (self._tasks or self._stopping):
                self._wake.wait(TROUBLE_SECONDS)

    def _embed(self) -> bool:
        """Embed for a while, stopping between two batches when something arrives; False when there was nothing to."""
        assert self.store is not None
        made = self._vectors.fill(self.store, lambda: bool(self._paths or self._tasks or self._stopping))
        self.state.embedding_pending = self._vectors.pending
        if made:
            self._on_published(self)
        return made > 0

    def _settle(self, now: float) -> None:
        """Nothing to do: make the work durable when it is time, else sleep until something arrives or is due."""
        if self._dirty and now >= self._next_commit:
            self._commit()
            return
        due = min((self._next_scan, *(at for at, _ in self._retries.values())), default=self._next_scan)
        if self._dirty:
            due = min(due, self._next_commit)
        with self._wake:
            if not (self._paths or self._tasks or self._stopping):
                self._wake.wait(max(due - time.monotonic(), 0.01))

    def _commit(self) -> None:
        assert self.store is not None
        self.store.commit()
        self._mirror.write_manifest()
        self._dirty = False

    # -- looking -------------------------------------------------------------------------------------------------------

    def _scan_now(self) -> int:
        self._look()
        assert self.store is not None
        return self.store.generation

    def _look(self, *, trust: bool = True, cancelled: Callable[[], bool] = lambda: False) -> _Counts:
        """Compare the whole vault with what is known and bring the index up to it."""
        with self._wake:
            self._paths.clear()
        try:
            seen = scan(self.vault, known_pages=len(self._known))
        except RootUnavailable as problem:
            self._become_unavailable(problem.reason)
            return _Counts()
        planned = plan(self._known if trust else {}, seen)
        gone = planned.removed if trust else plan(self._known, seen).removed
        self.state.skipped = seen.skipped
        self.state.collisions = seen.findings
        self.state.packets_without_page = seen.packets_without_page
        for path in [path for path in self.state.failed if path not in seen.entries]:
            self._forget_failure(path)
        for path, reason in seen.failed:
            self._note_failure(path, reason)
        counts = self._update(planned.check, gone, cancelled=cancelled, trust=trust)
        counts.unchanged += planned.unchanged
        self.state.last_scan = datetime.fromtimestamp(seen.scanned_at_ns / 1e9, UTC)
        self.state.state, self.state.reason = "ready", ""
        self._next_scan = time.monotonic() + SCAN_SECONDS
        self._on_published_if(bool(planned.check or gone))
        return counts

    def _look_at(self, paths: set[str]) -> None:
        """Bring the index up to these paths only."""
        try:
            seen = scan_paths(self.vault, paths)
        except RootUnavailable as problem:
            self._become_unavailable(problem.reason)
            return
        if self._identity_in_doubt(seen, paths):
            self._look()
            return
        lost = set(below([path for path in self._known if path not in seen.entries], paths))
        unreachable = set(below(lost, (path for path, _ in seen.failed)))
        check = [path for path, stamp in seen.entries.items() if self._differs(path, stamp, seen)]
        for path, reason in seen.failed:
            self._note_failure(path, reason)
        for path in paths - seen.entries.keys():
            if path not in dict(seen.failed):
                self._forget_failure(path)
        self._merge_skipped(seen, paths)
        self._update(check, sorted(lost - unreachable))
        self._on_published_if(bool(check or lost))

    def _differs(self, path: str, stamp: Stamp, seen: Scan) -> bool:
        known = self._known.get(path)
        return known is None or known.stamp != stamp or stamp.is_racy(seen.scanned_at_ns)

    def _identity_in_doubt(self, seen: Scan, paths: Iterable[str]) -> bool:
        """Whether a page id may have changed hands; only the whole set of a strict vault can tell."""
        if not self.vault.strict:
            return False
        if any(self._by_fold.get(names.folded(path), path) != path for path in seen.entries):
            return True
        disputed = {names.folded(finding.path) for finding in self.state.collisions}
        return any(names.folded(path) in disputed for path in paths)

    def _merge_skipped(self, seen: Scan, paths: set[str]) -> None:
        old = dict(self.state.skipped)
        for path in below(list(old), paths):
            del old[path]
        old.update(seen.skipped)
        self.state.skipped = tuple(sorted(old.items()))

    def _become_unavailable(self, reason: str) -> None:
        self.state.state, self.state.reason = "unavailable", reason
        self.state.pending = 0
        self._next_scan = time.monotonic() + UNAVAILABLE_SECONDS

    # -- updating ------------------------------------------------------------------------------------------------------

    def _update(
        self,
        check: Sequence[str],
        removed: Sequence[str],
        *,
        cancelled: Callable[[], bool] = lambda: False,
        trust: bool = True,
    ) -> _Counts:
        """Read `check`, publish what differs, drop `removed`: in batches, each searchable when it is done."""
        counts = _Counts(removed=len(removed))
        total, gone = len(check), list(removed)
        for start in range(0, max(total, 1), BATCH_PAGES):
            if cancelled():
                raise Cancelled
            batch = check[start : start + BATCH_PAGES]
            self.state.pending = total - start + len(self._paths)
            read = [each for path in batch if (each := self._read(path, trust=trust)) is not None]
            self._publish(read, gone, counts)
            gone = []
        self.state.pending = len(self._paths)
        return counts

    def _read(self, path: str, *, trust: bool) -> _Read | None:
        """One file, read and parsed; None where it cannot be read, which `status` then tells."""
        try:
            found = read_page(self.vault, path, MAX_BYTES)
        except files.NotReadable as problem:
            self._note_failure(path, problem.reason)
            return None
        except OutsideVault:
            self._note_failure(path, "outside_vault")
            return None
        except OSError as problem:
            self._note_failure(path, files.failure_reason(problem))
            return None
        self._forget_failure(path)
        digest = files.content_hash(found.data)
        known = self._known.get(path)
        file = Known(found.stamp, digest)
        if trust and known is not None and known.content_hash == digest:
            return _Read(path, file, b"", None)
        return _Read(path, file, found.data, self._parse(path, found.data, file))

    def _parse(self, path: str, data: bytes, file: Known) -> NewPage:
        return new_page(path, self.vault.page_id(path), data, file, strict=self.vault.strict)

    def _publish(self, read: Sequence[_Read], removed: Sequence[str], counts: _Counts) -> None:
        assert self.store is not None
        pages = [each.page for each in read if each.page is not None]
        touched = [(each.path, each.file.stamp) for each in read if each.page is None]
        counts.unchanged += len(touched)
        counts.indexed += sum(page.path not in self._known for page in pages)
        counts.updated += sum(page.path in self._known for page in pages)
        for path in removed:
            self._mirror.remove(self.vault.page_id(path))
        for each in read:
            if each.page is not None:
                self._mirror_page(each.page, each.data)
        if pages or removed or touched:
            self.store.apply(pages, removed, touched)
            self._dirty = True
            self._next_commit = time.monotonic() + COMMIT_SECONDS
        for path in removed:
            self._known.pop(path, None)
            self._by_fold.pop(names.folded(path), None)
        for each in read:
            self._known[each.path] = each.file
            self._by_fold[names.folded(each.path)] = each.path

    def _mirror_page(self, page: NewPage, data: bytes) -> None:
        if page.summary is None:
            self._mirror.remove(page.page_id)
            return
        summary = page.summary
        record = MirrorRecord(page.page_id, page.path, page.file.content_hash, summary.role, summary.type)
        self._mirror.apply(record, data)

    def _on_published_if(self, changed: bool) -> None:
        if changed:
            self._on_published(self)

    # -- files that could not be read ----------------------------------------------------------------------------------

    def _note_failure(self, path: str, reason: str) -> None:
        """Keep the page as it was, tell why, and try again by and by where that can help. One log line a failure."""
        tries = self._retries.get(path, (0.0, 0))[1]
        if reason in TRANSIENT and tries < len(RETRY_SECONDS):
            self._retries[path] = (time.monotonic() + RETRY_SECONDS[tries], tries + 1)
        shown = names.printable(path)
        if self.state.failed.get(shown) != reason:
            log.info("file_not_read", vault_id=self.vault.vault_id, kind=reason)
            self.state.failed = {**self.state.failed, shown: reason}

    def _forget_failure(self, path: str) -> None:
        self._retries.pop(path, None)
        shown = names.printable(path)
        if shown in self.state.failed:
            self.state.failed = {key: why for key, why in self.state.failed.items() if key != shown}

    def _due_retries(self, now: float) -> set[str]:
        due = {path for path, (at, _) in self._retries.items() if at <= now}
        for path in due:
            self._retries[path] = (float("inf"), self._retries[path][1])
        return due

    # -- reindex -------------------------------------------------------------------------------------------------------

    def _reindex(
        self,
        everything: bool,
        lexical: bool,
        vectors: bool,
        force: bool,
        progress: Callable[[str, float | None], None],
        cancelled: Callable[[], bool],
    ) -> Reindexed:
        assert self.store is not None
        progress("scanning", None)
        counts = self._look(trust=not (everything or (force and lexical)), cancelled=cancelled)
        if force and lexical:
            progress("building the word index", None)
            self.store.rebuild_lexical()
        filled = self._vectors.fill_all(self.store, force, progress, cancelled) if vectors else Filled()
        self.state.embedding_pending = self._vectors.pending
        if cancelled():
            raise Cancelled
        self._commit()
        return Reindexed(
            counts.indexed,
            counts.updated,
            counts.unchanged,
            counts.removed,
            filled.needing,
            filled.generated,
            filled.skipped,
        )
