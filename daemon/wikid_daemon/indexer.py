"""Saved note → searchable: the one thread that writes a vault's index, and what it does when.

What a caller asks comes first, then what changed, then what is due (a scan, a retry, a commit); embedding fills the
idle time between two arrivals, so words are searchable first and vectors follow. Events are hints, the scan is truth.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

import structlog

from wikid_daemon import files
from wikid_daemon.index import lifecycle
from wikid_daemon.index.catalog import CatalogCorrupt, CatalogError, catalog_reason
from wikid_daemon.index.lucene import LexicalIndexBusy, LexicalIndexDamaged
from wikid_daemon.index.store import Store
from wikid_daemon.index.vectors import PassageEncoder, Vectors
from wikid_daemon.noticing import Noticing
from wikid_daemon.reindexing import Reindexed, Request, Staged, Upkeep, reindex_in_place, stage
from wikid_daemon.steps import Told, untold
from wikid_daemon.updater import Cancelled, Counts, RootUnavailable, Updater
from wikid_daemon.vault.canary import ProvenWatcher
from wikid_daemon.vault.mirror import Mirror
from wikid_daemon.vault.reading import VaultReader
from wikid_daemon.vault.vault import Vault, VaultError
from wikid_daemon.vault.watcher import EVERYTHING, WatchState
from wikid_daemon.worker import finished, outcome

SCAN_SECONDS: Final = 60.0
TROUBLE_SECONDS: Final = 5.0  # until a lost root or a full disk is looked at again
MARKER_SECONDS: Final = 1.0  # until a scan proves what the watcher has not
COMMIT_SECONDS: Final = 3.0
MANIFEST_SECONDS: Final = 60.0

TROUBLE: Final = (OSError, CatalogError, LexicalIndexDamaged, LexicalIndexBusy)  # passes by itself, or after a rebuild

T = TypeVar("T")
Asked = Callable[[], bool]
log = structlog.get_logger("indexer")


class Indexer(Noticing):
    """The sole writer of one vault's index and mirror. `store` is None until it is open and after it is closed."""

    def __init__(
        self,
        vault: Vault,
        machine: str,
        encoder: Callable[[], PassageEncoder | None],
        on_published: Callable[[Indexer], None],
        on_thread_end: Callable[[], None],
    ) -> None:
        super().__init__(f"index-{vault.name}")
        self.vault = vault
        self.reader = VaultReader(vault)
        self.store: Store | None = None
        self._mirror = Mirror(vault, machine)
        self._vectors = Vectors(encoder)
        self._on_published = on_published
        self._on_thread_end = on_thread_end
        self._updater: Updater | None = None
        self._watched = False
        self._next_scan = self._next_manifest = 0.0
        self._next_commit = float("inf")
        self.watcher = ProvenWatcher(vault, self.notice, self._on_watch)

    # -- from any thread -----------------------------------------------------------------------------------------------

    def stop(self) -> None:
        super().stop()
        self.reader.close()

    def sync(self, timeout: float, cancelled: Callable[[], bool] = lambda: False) -> int:
        """Wait until all saved before this is searchable; the generation then. TimeoutError, Cancelled, VaultError."""
        until = time.monotonic() + timeout
        if self.state.last_scan is None:  # the watcher begins with the index, and calls for a look at everything
            outcome(self._ask(lambda: None, soon=True), until, cancelled)
            self.watcher.begun.wait(min(until - time.monotonic(), MARKER_SECONDS))
        told = self.watcher.reached(min(until - time.monotonic(), MARKER_SECONDS))

        def work() -> int:
            if told and self.state.state == "ready" and not self._updating.retrying:
                self._look_at_all()
            else:
                self._look()
            return self._opened().generation

        return outcome(self._ask(work, soon=True), until, cancelled)

    def after_look(self, work: Callable[[Store], T], cancelled: Asked = lambda: False) -> T:
        """Run `work` on the indexer's own thread, right after a look at everything. Raises what it raises, Cancelled,
        and VaultError where the pages' folder is gone or indexing is interrupted."""

        def looked() -> T:
            self._look_surely(cancelled=cancelled)
            return work(self._opened())

        return finished(self._ask(looked), cancelled)

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
        request = Request(everything, lexical, vectors, force, progress, lambda: self._stopping or cancelled())
        upkeep = Upkeep(self._look_surely, self._catch_up, lambda: self._arrived or bool(self._soon))

        def work() -> Reindexed:
            store = self._opened()
            if request.anew:
                staged = stage(self.reader, self._mirror, store, self._vectors, request, upkeep)
                self._replace(staged)
                done = staged.done
            else:
                done = reindex_in_place(store, self._vectors, request, upkeep)
            self._commit()
            return done

        return finished(self._ask(work), cancelled)

    @property
    def embedding_pending(self) -> int:
        """Chunks that have no vector yet."""
        return 0 if self.store is None else self.store.missing

    def refused(self, limit: int) -> list[str]:
        """Paths of pages of which the model refused some text."""
        return [] if self.store is None else self._vectors.refused_paths(self.store, limit)

    @property
    def stale(self) -> bool:
        """False only while the last scan found everything, nothing came since and the watcher is not in doubt."""
        state = self.state
        unsure = state.state != "ready" or state.pending > 0 or state.last_scan is None
        unsure = unsure or self.watcher.doubtful
        return unsure or (self._updater is not None and self._updater.retrying)

    def _ask(self, work: Callable[[], T], *, soon: bool = False) -> Future[T]:
        def uninterrupted() -> T:
            try:
                return work()
            except TROUBLE as problem:
                reason = self._interrupted(problem)
                raise VaultError(f"indexing of {self.vault.name} is interrupted: {reason}") from problem

        return self._add(uninterrupted, soon=soon)

    def _on_watch(self, watch: WatchState) -> None:
        self.state.watch = watch
        if watch.mode != "watching" and not self._stopping:
            log.warning("watcher_degraded", vault_id=self.vault.vault_id, mode=watch.mode)

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._wait_for_predecessor()
            while not self._stopping:
                if self.store is None:
                    self._try_to_open()
                else:
                    self._step()
        except Exception as problem:  # the vault is reported as failed in status, with the reason
            self.state.state = "failed"
            self.state.reason = f"{type(problem).__name__}; restart wikid, and run wikid doctor if it comes again"
            log.exception("indexer_failed", vault_id=self.vault.vault_id)
        finally:
            self._finish()

    def _try_to_open(self) -> None:
        """Open, or say why not, refuse what is asked meanwhile, and rest."""
        try:
            self._open()
        except CatalogCorrupt as problem:
            self._discard_index(problem)
        except TROUBLE as problem:
            reason = self._interrupted(problem)
            self._refuse(VaultError(f"the index of {self.vault.name} cannot be opened: {reason}"))
            self._rest()

    def _open(self) -> None:
        self._mirror.open()
        self._serve(lifecycle.open_current(self.vault.state))
        if self._watched:
            self.watcher.prove_soon()
        else:
            self._watched = True
            self.watcher.start()

    def _serve(self, store: Store) -> None:
        for kind, _ in store.notes:
            log.warning(kind, vault_id=self.vault.vault_id)
        try:
            self._updater = Updater(self.reader, store, self._mirror, self.state, lambda: len(self._arrivals))
        except BaseException:
            store.close()
            raise
        if self.state.state == "failed":
            self.state.state, self.state.reason = "indexing", ""
        self.store = store
        self._on_published(self)
        store.warm()
        # words answer meanwhile: a large vault's vectors take seconds to load
        self._vectors.adopt(store)

    def _replace(self, staged: Staged) -> None:
        """The new index in the place of the old one; for that moment nothing answers."""
        old, self.store = self._opened(), None
        self.state.state = "indexing"
        old.close()
        self._serve(lifecycle.replace(self.vault.state, staged.folder, staged.pages, staged.chunks))
        self._look()
        if any(kind == lifecycle.UNDONE for kind, _ in self._opened().notes):
            raise VaultError(f"the new index of {self.vault.name} was not whole; the one before it answers again")

    def _discard_index(self, problem: Exception) -> None:
        """The catalog is damaged where opening it does not look: everything is built anew from the files."""
        log.warning("catalog_rebuilt", vault_id=self.vault.vault_id, kind=type(problem).__name__)
        self._let_go()
        shutil.rmtree(self.vault.state / lifecycle.CURRENT, ignore_errors=True)

    def _let_go(self) -> None:
        """Close the index, so that the next turn opens what is there."""
        self.state.state = "indexing" if self.state.state == "ready" else self.state.state
        self._next_scan = time.monotonic()
        store, self.store, self._updater = self.store, None, None
        try:
            if store is not None:
                store.close()
        except TROUBLE:
            log.exception("index_not_closed", vault_id=self.vault.vault_id)

    def _finish(self) -> None:
        with self._wake:
            self._stopping = True
        self._refuse(Cancelled())
        self.watcher.close()
        try:
            if self.store is not None:
                self._mirror.write_manifest()
        except TROUBLE:
            log.exception("manifest_not_written", vault_id=self.vault.vault_id)
        self._let_go()
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
        if not self._updating.in_place:
            log.warning("tree_opened_anew", vault_id=self.vault.vault_id)
            self._let_go()
            return
        with self._wake:
            task = self._next_task()
        if task is not None:
            task.answer()
            return
        try:
            self._work(self._taken() | self._updating.due_retries())
        except Cancelled:
            return  # by `stop` alone: the loop ends
        except Exception as problem:  # noqa: BLE001 - told in status and in the log; what is indexed stays searchable
            self._interrupted(problem)
            self._rest()

    def _work(self, paths: set[str]) -> None:
        self.watcher.tend()
        self._vectors.adopt(self._opened())  # those that the catalog has of it serve while everything is looked at
        if time.monotonic() >= self._next_scan:
            self._look()
        elif paths:
            self._look_at(paths)
        elif time.monotonic() >= self._next_commit:
            self._commit()
        elif not self._embed():
            self._settle()

    def _catch_up(self) -> None:
        """Saved notes do not wait for a long piece of work to end."""
        self._look_at(self._taken())
        self._answer_soon()

    def _look_at_all(self) -> None:
        """Look at everything noticed before this call, and first at what comes meanwhile."""
        due = self._noticed
        while due and (paths := self._taken(due)):
            self._look_at(paths)
            due = set() if EVERYTHING in paths else due - paths

    def _look(self, *, trust: bool = True, cancelled: Asked = lambda: False, told: Told = untold) -> Counts:
        with self._wake:
            self._arrivals.clear()
        self._next_scan = time.monotonic()  # until this look has ended well another one is due
        ready, batches = self.state.state == "ready", itertools.count()

        def between() -> bool:
            # saved notes do not wait for all others, but for the first batch, which drops what the scan found gone
            over = self._stopping or cancelled()
            if not over and next(batches) > 0 and ready and EVERYTHING not in self._arrivals:
                self._published(self._updating.look_at(self._taken()))
            return over

        try:
            counts = self._updating.look(trust=trust, cancelled=between, told=told)
        except RootUnavailable as problem:
            return self._become_unavailable(problem.reason)
        self._next_scan = time.monotonic() + SCAN_SECONDS
        if ready and trust:
            self.watcher.compare(counts.paths)
        return self._published(counts)

    def _look_surely(self, *, trust: bool = True, cancelled: Asked = lambda: False, told: Told = untold) -> Counts:
        """The same, or VaultError where the folder is gone, empty or not answering: nothing is known of its pages."""
        counts = self._look(trust=trust, cancelled=cancelled, told=told)
        if self.state.state == "unavailable":
            raise VaultError(f"the folder of {self.vault.name} is gone, empty or not answering: nothing new is found")
        return counts

    def _look_at(self, paths: set[str]) -> None:
        if EVERYTHING in paths:
            self._look()
        elif paths:
            started = time.thread_time()
            try:
                self._published(self._updating.look_at(paths))
            except RootUnavailable as problem:
                self._become_unavailable(problem.reason)
            self._looked_at(paths, time.thread_time() - started)

    def _become_unavailable(self, reason: str) -> Counts:
        """The folder of the pages is gone, empty or not answering: keep everything, say so, look again soon."""
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
        attempt = self._vectors.fill(self._opened(), lambda: self._called)
        if attempt.made:
            self._on_published(self)
        return attempt.tried > 0

    def _settle(self) -> None:
        """Nothing to do: sleep until something arrives or is due."""
        retry = min(self._updating.next_retry, self._vectors.next_retry)
        self._wait_until(min(self._next_scan, self._next_commit, retry, self.watcher.due))

    def _commit(self) -> None:
        self._opened().commit()
        self._next_commit = float("inf")
        # the manifest holds every page; one that is behind after a crash is mended at the next start
        if time.monotonic() >= self._next_manifest:
            self._mirror.write_manifest()
            self._next_manifest = time.monotonic() + MANIFEST_SECONDS

    def _interrupted(self, problem: Exception) -> str:
        """A full disk, say: reads go on from the last good generation, and everything is looked at again soon."""
        reason = files.failure_reason(problem) if isinstance(problem, OSError) else catalog_reason(problem)
        if self.state.reason != reason:
            unexpected = None if isinstance(problem, TROUBLE) else problem
            log.error("indexing_interrupted", vault_id=self.vault.vault_id, kind=reason, exc_info=unexpected)
        self.state.state, self.state.reason = "failed", reason
        self._next_scan = time.monotonic() + TROUBLE_SECONDS
        # batches before the one that failed are published
        self._next_commit = min(self._next_commit, time.monotonic() + COMMIT_SECONDS)
        if isinstance(problem, CatalogCorrupt):
            self._discard_index(problem)
        return reason

    def _rest(self) -> None:
        with self._wake:
            if not (self._asked or self._stopping):
                self._wake.wait(TROUBLE_SECONDS)
