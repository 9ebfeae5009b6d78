"""Saved note → searchable: the one thread that writes a vault's index, and what it does when.

What a caller asks comes first, then what changed, then what is due (a scan, a retry, a commit); embedding fills the
idle time between two arrivals, so words are searchable first and vectors follow. Events are hints, the scan is truth.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeVar

import structlog

from wikid_daemon import files
from wikid_daemon.index.catalog import CatalogError
from wikid_daemon.index.lucene import LexicalIndexBusy, LexicalIndexDamaged
from wikid_daemon.index.store import Store
from wikid_daemon.index.vectors import Filled, PassageEncoder, Vectors
from wikid_daemon.updater import Cancelled, Counts, IndexState, RootUnavailable, Updater
from wikid_daemon.vault.mirror import Mirror
from wikid_daemon.vault.vault import Vault, VaultError
from wikid_daemon.vault.watcher import EVERYTHING, Watcher, WatchState

SCAN_SECONDS: Final = 60.0
TROUBLE_SECONDS: Final = 5.0  # until a lost root or a full disk is looked at again
COMMIT_SECONDS: Final = 3.0
MANIFEST_SECONDS: Final = 60.0
CLOSE_SECONDS: Final = 30.0
PREDECESSOR_SECONDS: Final = 0.1  # between two looks at whether an index is free

# what passes by itself, or after a rebuild: a full disk, a damaged index, another process
TROUBLE: Final = (OSError, CatalogError, LexicalIndexDamaged, LexicalIndexBusy)

T = TypeVar("T")

log = structlog.get_logger("indexer")


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What one reindex did: pages, and chunks."""

    pages: Counts
    vectors: Filled


@dataclass(frozen=True, slots=True)
class _Task:
    """Work that a caller waits for."""

    answer: Callable[[], None]
    give_up: Callable[[Exception], None]


class Indexer:
    """The sole writer of one vault's index and mirror. `store` is None until it is open and after it is closed."""

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
        self._vectors = Vectors(encoder)
        self._on_published = on_published
        self._on_thread_end = on_thread_end
        self._wake = threading.Condition()
        self._paths: set[str] = set()
        self._tasks: list[_Task] = []
        self._stopping = False
        self._after: Indexer | None = None
        self._updater: Updater | None = None
        self._next_scan = 0.0
        self._next_commit = float("inf")
        self._next_manifest = 0.0
        self._watcher = Watcher(vault, self.notice, self._on_watch)
        self._thread = threading.Thread(target=self._run, name=f"index-{vault.name}", daemon=True)

    # -- from any thread -----------------------------------------------------------------------------------------------

    def start(self, after: Indexer | None = None) -> None:
        """Open the index and keep it; where `after` still closes the same one, once that is done."""
        self._after = after
        self._thread.start()

    def stop(self) -> None:
        """Commit and stop after the batch in hand, without waiting for it."""
        with self._wake:
            self._stopping = True
            self._wake.notify()

    def close(self) -> None:
        """Stop, and wait until that is done."""
        self.stop()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_SECONDS)

    def join(self, seconds: float) -> None:
        """Wait at most so long for its end."""
        self._thread.join(seconds)

    @property
    def closing(self) -> bool:
        """Whether it was told to stop and still holds its files."""
        return self._stopping and self._thread.is_alive()

    def notice(self, paths: set[str]) -> None:
        """Something may have changed at these paths, relative to the pages' folder; "" is everything."""
        with self._wake:
            self._paths.update(paths)
            self.state.pending = len(self._paths)
            self._wake.notify()

    def wake(self) -> None:
        """Something outside changed, such as a model that became ready."""
        with self._wake:
            self._wake.notify()

    def sync(self, timeout: float) -> int:
        """Wait until everything saved before this call is searchable; the generation then.

        Raises TimeoutError, Cancelled, or VaultError while indexing is interrupted.
        """

        def work() -> int:
            self._look()
            return self._opened().generation

        return self._ask(work).result(timeout)

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
        """Seed A's reindex on the indexer's own thread; blocks until done. Cancelled, VaultError."""

        def given_up() -> bool:
            return self._stopping or cancelled()

        def work() -> Reindexed:
            store = self._opened()
            progress("scanning", None)
            pages = self._look(trust=not (everything or (force and lexical)), cancelled=cancelled)
            if force and lexical:
                progress("building the word index", None)
                store.rebuild_lexical()
            filled = Filled()
            if vectors:
                filled = self._vectors.fill_all(
                    store, force, progress, given_up, lambda: bool(self._paths), self._catch_up
                )
            if given_up():
                raise Cancelled
            self._commit()
            return Reindexed(pages, filled)

        return self._ask(work).result()

    @property
    def embedding_pending(self) -> int:
        """Chunks that have no vector yet."""
        return 0 if self.store is None else self.store.missing

    @property
    def stale(self) -> bool:
        """False only while the last scan found everything and nothing has been noticed since."""
        state = self.state
        unsure = state.state != "ready" or state.pending > 0 or state.last_scan is None
        return unsure or (self._updater is not None and self._updater.retrying)

    def _ask(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def answer() -> None:
            try:
                future.set_result(work())
            except TROUBLE as problem:
                reason = self._interrupted(problem)
                future.set_exception(VaultError(f"indexing of {self.vault.name} is interrupted: {reason}"))
            except Exception as problem:  # noqa: BLE001 - handed to the caller, who reports it
                future.set_exception(problem)

        with self._wake:
            if self._stopping:
                raise Cancelled
            self._tasks.append(_Task(answer, future.set_exception))
            self._wake.notify()
        return future

    def _on_watch(self, watch: WatchState) -> None:
        self.state.watch = watch
        if watch.mode != "watching" and not self._stopping:
            log.warning("watcher_degraded", vault_id=self.vault.vault_id, mode=watch.mode)

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._wait_for_predecessor()
            while self.store is None and not self._stopping:
                self._try_to_open()
            while not self._stopping:
                self._step()
        except Exception as problem:  # the vault is reported as failed in status, with the reason
            self.state.state = "failed"
            self.state.reason = f"{type(problem).__name__}; restart wikid, and run wikid doctor if it comes again"
            log.exception("indexer_failed", vault_id=self.vault.vault_id)
        finally:
            self._finish()

    def _wait_for_predecessor(self) -> None:
        after, self._after = self._after, None
        # also when told to stop meanwhile, since the next one waits for this one alone
        while after is not None and after.closing:
            after.join(PREDECESSOR_SECONDS)

    def _try_to_open(self) -> None:
        """Open, or say why not, refuse what is asked meanwhile, and rest."""
        try:
            self._open()
        except TROUBLE as problem:
            reason = self._interrupted(problem)
            with self._wake:
                waiting, self._tasks = self._tasks, []
            for task in waiting:
                task.give_up(VaultError(f"the index of {self.vault.name} cannot be opened: {reason}"))
            self._rest()

    def _open(self) -> None:
        self._mirror.open()
        store = Store(self.vault.state / "current")
        for kind, _ in store.notes:
            log.warning(kind, vault_id=self.vault.vault_id)
        try:
            self._updater = Updater(self.vault, store, self._mirror, self.state, lambda: len(self._paths))
            self._vectors.adopt(store)
        except BaseException:
            store.close()
            raise
        if self.state.state == "failed":
            self.state.state, self.state.reason = "indexing", ""
        self.store = store
        self._on_published(self)
        self._watcher.start()
        store.warm()

    def _finish(self) -> None:
        with self._wake:
            self._stopping = True
            waiting, self._tasks = self._tasks, []
        for task in waiting:
            task.give_up(Cancelled())
        self._watcher.close()
        store, self.store = self.store, None
        try:
            if store is not None:
                self._mirror.write_manifest()
                store.close()
        except TROUBLE:
            # what could not be made durable is found again by the next start
            log.exception("index_not_closed", vault_id=self.vault.vault_id)
        self._on_thread_end()

    @property
    def _updating(self) -> Updater:
        assert self._updater is not None
        return self._updater

    def _opened(self) -> Store:
        assert self.store is not None
        return self.store

    def _step(self) -> None:
        """One turn: what a caller asked, else what changed, else what is due, else a little embedding, else wait."""
        with self._wake:
            task = self._tasks.pop(0) if self._tasks else None
            paths = set[str]()
            if task is None:
                paths, self._paths = self._paths, set()
        if task is not None:
            task.answer()
            return
        try:
            self._work(paths | self._updating.due_retries())
        except Cancelled:
            return  # by `stop` alone: the loop ends
        except Exception as problem:  # noqa: BLE001 - told in status and in the log; what is indexed stays searchable
            self._interrupted(problem)
            self._rest()

    def _work(self, paths: set[str]) -> None:
        if EVERYTHING in paths or time.monotonic() >= self._next_scan:
            self._look()
        elif paths:
            self._look_at(paths)
        elif time.monotonic() >= self._next_commit:
            self._commit()
        elif not self._embed():
            self._settle()

    def _catch_up(self) -> None:
        """Saved notes do not wait for a long piece of work to end."""
        with self._wake:
            paths, self._paths = self._paths, set()
        if EVERYTHING in paths:
            self._look()
        elif paths:
            self._look_at(paths)

    def _look(self, *, trust: bool = True, cancelled: Callable[[], bool] = lambda: False) -> Counts:
        with self._wake:
            self._paths.clear()
        # until this look has ended well another one is due
        self._next_scan = time.monotonic()
        try:
            counts = self._updating.look(trust=trust, cancelled=lambda: self._stopping or cancelled())
        except RootUnavailable as problem:
            return self._become_unavailable(problem.reason)
        self._next_scan = time.monotonic() + SCAN_SECONDS
        return self._published(counts)

    def _look_at(self, paths: set[str]) -> Counts:
        try:
            return self._published(self._updating.look_at(paths))
        except RootUnavailable as problem:
            return self._become_unavailable(problem.reason)

    def _become_unavailable(self, reason: str) -> Counts:
        """The folder of the pages is gone or empty: keep everything, say so, look again soon."""
        self.state.state, self.state.reason = "unavailable", reason
        self.state.pending = 0
        self._next_scan = time.monotonic() + TROUBLE_SECONDS
        return Counts()

    def _published(self, counts: Counts) -> Counts:
        if counts.changed:
            self._next_commit = min(self._next_commit, time.monotonic() + COMMIT_SECONDS)
            self._on_published(self)
        return counts

    def _embed(self) -> bool:
        """Embed for a while, stopping between two texts when something arrives; False when there was nothing to."""
        attempt = self._vectors.fill(self._opened(), lambda: bool(self._paths or self._tasks or self._stopping))
        if attempt.made:
            self._on_published(self)
        return attempt.tried > 0

    def _settle(self) -> None:
        """Nothing to do: sleep until something arrives or is due."""
        due = min(self._next_scan, self._next_commit, self._updating.next_retry)
        with self._wake:
            if not (self._paths or self._tasks or self._stopping):
                self._wake.wait(max(due - time.monotonic(), 0.01))

    def _commit(self) -> None:
        self._opened().commit()
        self._next_commit = float("inf")
        # the manifest holds every page; one that is behind after a crash is mended at the next start
        if time.monotonic() >= self._next_manifest:
            self._mirror.write_manifest()
            self._next_manifest = time.monotonic() + MANIFEST_SECONDS

    def _interrupted(self, problem: Exception) -> str:
        """A full disk, say: reads go on from the last good generation, and everything is looked at again soon."""
        reason = files.failure_reason(problem) if isinstance(problem, OSError) else type(problem).__name__
        if self.state.reason != reason:
            unexpected = None if isinstance(problem, TROUBLE) else problem
            log.error("indexing_interrupted", vault_id=self.vault.vault_id, kind=reason, exc_info=unexpected)
        self.state.state, self.state.reason = "failed", reason
        self._next_scan = time.monotonic() + TROUBLE_SECONDS
        # batches before the one that failed are published
        self._next_commit = min(self._next_commit, time.monotonic() + COMMIT_SECONDS)
        return reason

    def _rest(self) -> None:
        with self._wake:
            if not (self._tasks or self._stopping):
                self._wake.wait(TROUBLE_SECONDS)
