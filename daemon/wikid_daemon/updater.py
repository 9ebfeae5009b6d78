"""Bringing one vault's index up to its files: look, read, hash, parse, chunk, mirror, publish. No thread of its own."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

import structlog

from wikid_daemon import files
from wikid_daemon.core import names
from wikid_daemon.core.manifest import Known, Scan, Stamp, below, plan
from wikid_daemon.core.page import Finding
from wikid_daemon.index.catalog_rows import NewPage
from wikid_daemon.index.pages import new_page
from wikid_daemon.index.soundness import unsound_paths
from wikid_daemon.index.store import Store
from wikid_daemon.steps import Told, untold
from wikid_daemon.threads import Cancelled
from wikid_daemon.vault.mirror import Mirror, MirrorRecord, NoMirror
from wikid_daemon.vault.reading import READ_TIMED_OUT, VaultReader
from wikid_daemon.vault.scan import RootUnavailable
from wikid_daemon.vault.watcher import EVERYTHING, WatchState

BATCH_PAGES: Final = 400  # a cold index takes 15 % less of the processor than with 200, and shows itself every 2 s
BATCH_BYTES: Final = 32 << 20
RETRY_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
TRANSIENT: Final = frozenset({"temporarily_unavailable", "vanished", READ_TIMED_OUT})

log = structlog.get_logger("updater")


@dataclass(slots=True)
class IndexState:
    """What is known of a vault's index. Written by the indexer's thread, read by any; fields are replaced, not mutated.

    `failed` maps paths to reasons; `skipped` holds (path, reason); `pending` counts files noticed, not yet published.
    """

    state: Literal["indexing", "ready", "unavailable", "failed"] = "indexing"
    reason: str = ""
    pending: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    skipped: tuple[tuple[str, str], ...] = ()
    collisions: tuple[Finding, ...] = ()
    packets_without_page: int = 0
    last_scan: datetime | None = None
    watch: WatchState = field(default_factory=lambda: WatchState("stopped", "not started"))


@dataclass(slots=True)
class Counts:
    """Pages that one look found: new, changed, the same, gone. `paths` are those whose bytes are not the known ones."""

    indexed: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    paths: set[str] = field(default_factory=set)

    @property
    def changed(self) -> bool:
        return bool(self.indexed or self.updated or self.removed)


@dataclass(frozen=True, slots=True)
class _Read:
    """One file that was read: the page to write, or None where its bytes are the known ones."""

    path: str
    file: Known
    data: bytes
    page: NewPage | None


class Updater:
    """Keeps store and mirror equal to the vault's files, one call at a time. `waiting` counts what is still to come."""

    def __init__(
        self,
        reader: VaultReader,
        store: Store,
        mirror: Mirror | NoMirror,
        state: IndexState,
        waiting: Callable[[], int],
    ) -> None:
        self._reader = reader
        self._vault = reader.vault
        self._store = store
        self._mirror = mirror
        self._state = state
        self._waiting = waiting
        self._known = store.catalog.known_files()
        self._by_fold = {names.folded(path): path for path in self._known}
        self._folders = Counter(folder for path in self._known for folder in _folders_of(path))
        self._failed = dict(state.failed)
        self._untold = Counter[str]()
        self._retries: dict[str, tuple[float, int]] = {}
        self._checked = False

    def _mend_mirror(self) -> None:
        """After a crash the mirror is behind the catalog: pages that it lacks are read again by the next look, and
        copies that nothing tells of go."""
        served, records = self._store.catalog.served(), self._mirror.records
        lacking = {
            page_id
            for page_id, (_, digest) in served.items()
            if (record := records.get(page_id)) is None or record.content_hash != digest
        }
        for page_id in lacking | (self._mirror.sweep() & served.keys()):
            self._distrust(served[page_id][0])

    def _distrust(self, path: str) -> None:
        """Have the next look read and write this page again."""
        if path in self._known:
            self._known[path] = Known(self._known[path].stamp.distrusted(), "")

    def _drop_extra_copies(self) -> None:
        served = self._store.catalog.served()
        for page_id in [page_id for page_id in self._mirror.records if page_id not in served]:
            self._mirror.remove(page_id)

    @property
    def in_place(self) -> bool:
        """False once another program took away a part of the generated tree, but not where the vault is away with it.
        What is written then is lost."""
        try:
            whole = self._mirror.in_place and self._store.in_place
            # asked afterwards: a vault that is moved away between the two takes its tree along
            return whole or (self._vault.state_outside is None and not self._vault.pages_root.is_dir())
        except OSError:
            return True  # nobody can tell; what is wrong shows when it is written

    # -- looking -------------------------------------------------------------------------------------------------------

    def look(self, *, trust: bool = True, cancelled: Callable[[], bool] = lambda: False, told: Told = untold) -> Counts:
        """Compare the whole vault with what is known; without `trust` every page is read and written again. `told` is
        how many files were read, of those that have to be.

        Raises RootUnavailable, with nothing dropped, and Cancelled, with what was published kept.
        """
        seen = self._reader.scan(len(self._known))
        if not self._checked:  # not before the first answer, since it reads every text and lists every copy
            for path in list(self._known) if self._store.pages_outdated else unsound_paths(self._store.catalog):
                self._distrust(path)
            self._mend_mirror()
            if self._store.mend_lexical():
                log.warning("lexical_rebuilt", vault_id=self._vault.vault_id)
        planned = plan(self._known, seen)
        self._state.skipped = seen.skipped
        self._state.collisions = seen.findings
        self._state.packets_without_page = seen.packets_without_page
        still = seen.entries.keys() | dict(seen.failed).keys()
        for path in [path for path in self._failed if path not in still]:
            self._forget_failure(path)
        for path, reason in seen.failed:
            self._note_failure(path, reason)
        check = self._with_failed(planned.check, seen) if trust else tuple(seen.entries)
        counts = self._update(check, planned.removed, cancelled, told, trust=trust)
        counts.unchanged += len(seen.entries) - len(check)
        if not self._checked:
            self._drop_extra_copies()
            self._checked = True
        # a file that cannot be read now keeps its page as it was, and the version as it is
        if self._store.pages_outdated and all(known.content_hash for known in self._known.values()):
            self._store.pages_renewed()
        self._state.last_scan = datetime.fromtimestamp(seen.scanned_at_ns / 1e9, UTC)
        self._state.state, self._state.reason = "ready", ""
        return counts

    def look_at(self, paths: Collection[str]) -> Counts:
        """Bring the index up to these paths, files or folders, or to everything where a page id may change hands."""
        seen = self._reader.scan_paths(paths)
        if self._identity_in_doubt(seen, paths):
            return self.look()
        lost = self._lost(seen, paths)
        unreachable = set(below(lost, (path for path, _ in seen.failed)))
        check = [path for path, stamp in seen.entries.items() if self._differs(path, stamp, seen)]
        failed = dict(seen.failed)
        for path, reason in failed.items():
            self._note_failure(path, reason)
        for path in paths:
            if path not in seen.entries and path not in failed:
                self._forget_failure(path)
        self._merge_skipped(seen, paths)
        return self._update(check, sorted(lost - unreachable), lambda: False, untold, trust=True)

    def _with_failed(self, check: Sequence[str], seen: Scan) -> Sequence[str]:
        """What to check, with the files that could not be read: that one may be read again no stamp tells."""
        if not self._failed:
            return check
        due = set(check)
        return [path for path in seen.entries if path in due or names.printable(path) in self._failed]

    def _lost(self, seen: Scan, paths: Iterable[str]) -> set[str]:
        """The known pages at or below these paths that are not there now."""
        lost = {path for path in paths if path in self._known and path not in seen.entries}
        # a folder costs a look at every known path, which a saved page must not
        folders = [path for path in paths if path == EVERYTHING or self._folders[path] > 0]
        if folders:
            lost.update(below([path for path in self._known if path not in seen.entries], folders))
        return lost

    def _differs(self, path: str, stamp: Stamp, seen: Scan) -> bool:
        known = self._known.get(path)
        differs = known is None or known.stamp != stamp or stamp.is_racy(seen.scanned_at_ns)
        return differs or names.printable(path) in self._failed

    def _identity_in_doubt(self, seen: Scan, paths: Iterable[str]) -> bool:
        """Whether a page id may have changed hands; only the whole set of a strict vault can tell."""
        if not self._vault.strict:
            return False
        if any(self._by_fold.get(names.folded(path), path) != path for path in seen.entries):
            return True
        disputed = {names.folded(finding.path) for finding in self._state.collisions}
        return any(names.folded(path) in disputed for path in paths)

    def _merge_skipped(self, seen: Scan, paths: Iterable[str]) -> None:
        old = dict(self._state.skipped)
        for path in below(list(old), paths):
            del old[path]
        old.update(seen.skipped)
        self._state.skipped = tuple(sorted(old.items()))

    # -- updating ------------------------------------------------------------------------------------------------------

    def _update(
        self, check: Sequence[str], removed: Sequence[str], cancelled: Callable[[], bool], told: Told, *, trust: bool
    ) -> Counts:
        """Read `check`, publish what differs, drop `removed`: in batches, each searchable when it is done."""
        counts = Counts(removed=len(removed))
        total, gone = len(check), list(removed)
        for start in range(0, max(total, 1), BATCH_PAGES):
            if cancelled():
                raise Cancelled
            # after it was asked, since it may look at more
            self._state.pending = total - start + self._waiting()
            read: list[_Read] = []
            size = 0
            for done, (path, found) in enumerate(self._reader.pages(check[start : start + BATCH_PAGES]), start):
                told(done, total)
                if (each := self._parsed(path, found, trust=trust)) is not None:
                    read.append(each)
                    size += len(each.data)
                if size >= BATCH_BYTES:
                    self._publish(read, gone, counts)
                    read, gone, size = [], [], 0
            self._tell_failures()
            self._publish(read, gone, counts)
            gone = []
        self._state.pending = self._waiting()
        told(total, total)
        return counts

    def _parsed(self, path: str, found: files.FileBytes | str, *, trust: bool) -> _Read | None:
        """One file that was read; None where it could not be, for which `status` then tells the reason."""
        if isinstance(found, str):
            self._note_failure(path, found)
            return None
        file = Known(found.stamp, files.content_hash(found.data))
        known = self._known.get(path)
        if trust and known is not None and known.content_hash == file.content_hash:
            self._forget_failure(path)
            return _Read(path, file, b"", None)
        try:
            page = new_page(path, self._vault.page_id(path), found.data, file, strict=self._vault.strict)
        except Exception as problem:  # noqa: BLE001 - told in status: a page never stops the others
            self._note_failure(path, f"not_parsed_{type(problem).__name__}")
            return None
        self._forget_failure(path)
        return _Read(path, file, found.data, page)

    def _publish(self, read: Sequence[_Read], removed: Sequence[str], counts: Counts) -> None:
        pages = [each.page for each in read if each.page is not None]
        counts.unchanged += len(read) - len(pages)
        counts.indexed += sum(page.path not in self._known for page in pages)
        counts.updated += sum(page.path in self._known for page in pages)
        for path in removed:
            self._mirror.remove(self._vault.page_id(path))
        for each in read:
            if each.page is not None:
                self._mirror_page(each.page, each.data)
        if pages or removed:
            self._store.apply(pages, removed)
        self._store.touch([(each.path, each.file.stamp) for each in read if each.page is None])
        counts.paths.update(removed, (each.path for each in read if self._is_other(each)))
        for path in removed:
            if self._known.pop(path, None) is not None:
                self._folders.subtract(_folders_of(path))
            self._by_fold.pop(names.folded(path), None)
        for each in read:
            if each.path not in self._known:
                self._folders.update(_folders_of(each.path))
            self._known[each.path] = each.file
            self._by_fold[names.folded(each.path)] = each.path

    def _is_other(self, read: _Read) -> bool:
        known = self._known.get(read.path)
        return known is None or known.content_hash != read.file.content_hash

    def _mirror_page(self, page: NewPage, data: bytes) -> None:
        summary = page.summary
        if summary is None:
            self._mirror.remove(page.page_id)
            return
        record = MirrorRecord(page.page_id, page.path, page.file.content_hash, summary.role, summary.type)
        self._mirror.apply(record, data)

    # -- files that could not be read ----------------------------------------------------------------------------------

    def _note_failure(self, path: str, reason: str) -> None:
        """Keep the page as it was, tell why, and try again by and by where that can help."""
        tries = self._retries.get(path, (0.0, 0))[1]
        if reason in TRANSIENT and tries < len(RETRY_SECONDS):
            self._retries[path] = (time.monotonic() + RETRY_SECONDS[tries], tries + 1)
        shown = names.printable(path)
        if self._failed.get(shown) != reason:
            self._failed[shown] = reason
            self._untold[reason] += 1

    def _forget_failure(self, path: str) -> None:
        self._retries.pop(path, None)
        self._failed.pop(names.printable(path), None)

    def _tell_failures(self) -> None:
        """Have `status` show what failed, and the log how often: a disk that is away fails every file at once."""
        if self._failed != self._state.failed:
            self._state.failed = dict(self._failed)
        for reason, count in self._untold.items():
            log.info("file_not_read", vault_id=self._vault.vault_id, kind=reason, count=count)
        self._untold.clear()

    @property
    def retrying(self) -> bool:
        """Whether a file that could not be read may be read yet."""
        return self.next_retry < float("inf")

    @property
    def next_retry(self) -> float:
        """When (monotonic seconds) the next unreadable file should be tried again."""
        retries = tuple(self._retries.values())  # any thread asks while the indexer's adds some
        return min((at for at, _ in retries), default=float("inf"))

    def due_retries(self) -> set[str]:
        """The files to try again now."""
        now = time.monotonic()
        due = {path for path, (at, _) in self._retries.items() if at <= now}
        for path in due:
            self._retries[path] = (float("inf"), self._retries[path][1])
        return due


def _folders_of(path: str) -> Iterator[str]:
    """Every folder that the path lies in, below the root."""
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


__all__ = ["Cancelled", "Counts", "IndexState", "RootUnavailable", "Updater"]
