"""Watching a vault: settled batches of changed paths from the system's events, or from polling where those fail.

Events are hints. A caller must still scan from time to time, and scans everything when a batch holds "".
"""

import os
import stat
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from watchfiles import Change
from watchfiles._rust_notify import RustNotify

from wikid_daemon.core import names
from wikid_daemon.core.manifest import Stamp
from wikid_daemon.vault.filesystem import network_filesystem
from wikid_daemon.vault.scan import RootUnavailable, folders_below, scan
from wikid_daemon.vault.state import MARKERS
from wikid_daemon.vault.vault import Vault

SETTLE_MS = 30
LONGEST_BATCH_MS = 200
EVERYTHING = ""
MARKER_PREFIX = ".sync-"
_WAKE_MS = 1_000
_SLEPT_SECONDS = 5.0
_POLL_SECONDS = 2.0
_POLL_SHARE = 20  # a poll may take a twentieth of the time
_FIRST_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 300.0
_STEADY_SECONDS = 10.0
_CLOSE_SECONDS = 1.0
# The system's queue holds 16,384 events; after a flood some may be lost, and one scan is cheaper than so many paths.
_FLOOD = 4_096
_DRAIN_MS = 5
_RESTARTS_IN_A_ROW = 3

_INOTIFY_REMEDY = (
    "raise the limit with: sudo sysctl fs.inotify.max_user_watches=1048576 fs.inotify.max_user_instances=1024"
)
# Events come through folders that are watched one by one on Linux: its recursive watch follows symlinks out of the
# vault and spends its scarce watches on `.git`. The other systems watch a tree as a whole, and follow nothing.
_WATCHES_TREES = sys.platform != "linux"


@dataclass(frozen=True, slots=True)
class WatchState:
    """How changes are noticed now: by the system's events, by polling (degraded), or not at all; and why."""

    mode: Literal["watching", "polling", "stopped"]
    reason: str = ""


class Notifier(Protocol):
    """The part of `RustNotify` in use."""

    def watch(
        self, debounce_ms: int, step_ms: int, timeout_ms: int, stop_event: threading.Event | None, /
    ) -> set[tuple[int, str]] | Literal["signal", "stop", "timeout"]: ...

    def close(self) -> None: ...


def watch_folders(folders: list[str]) -> Notifier:
    """Start watching these absolute folders, with all below them where the system watches trees."""
    return RustNotify(folders, False, False, 0, _WATCHES_TREES, _WATCHES_TREES)


class Watcher:
    """A thread that reports what changes below a vault's pages.

    ``on_change`` gets paths relative to ``pages_root``: pages, folders whose whole content must be looked at (made,
    moved or removed), or `EVERYTHING` after events may have been lost. ``on_marker`` gets the name of a dropped marker
    after every change made before it was reported. All callbacks run on the watcher's thread and must return quickly.
    """

    def __init__(
        self,
        vault: Vault,
        on_change: Callable[[set[str]], None],
        on_state: Callable[[WatchState], None],
        *,
        on_marker: Callable[[str], None] | None = None,
        start_notifier: Callable[[list[str]], Notifier] = watch_folders,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        self._vault = vault
        self._root = os.fspath(vault.pages_root)
        self._on_change = on_change
        self._on_state = on_state
        self._on_marker = on_marker
        self._start_notifier = start_notifier
        self._poll_seconds = poll_seconds
        self._markers = vault.state / MARKERS if vault.state_outside is None else None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch-{vault.name}", daemon=True)
        self._state = WatchState("stopped", "not started")
        self._folders: frozenset[str] = frozenset()
        self._watched_root: tuple[int, int] | None = None
        self._watches_markers = False
        self._polled: dict[str, Stamp] | None = None

    @property
    def state(self) -> WatchState:
        """The state last reported."""
        return self._state

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    @property
    def misses_markers(self) -> bool:
        """Whether it watches, and the folder of the markers is there, and no event would tell of one."""
        watching = self._state.mode == "watching" and not self._watches_markers
        return watching and self._markers is not None and self._markers.is_dir()

    def start(self) -> None:
        """Start the thread; changes are noticed once the state is no longer stopped."""
        self._thread.start()

    def close(self) -> None:
        """Stop within a second. Callbacks that are still running are not waited for any longer."""
        self._stop.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_SECONDS)

    def drop_marker(self) -> str | None:
        """Make a marker file and return its name; None where no event would tell of it (then a scan must prove it)."""
        if self._markers is None or not self._watches_markers or self._state.mode != "watching":
            return None
        name = f"{MARKER_PREFIX}{uuid.uuid4().hex}"
        try:
            (self._markers / name).touch()
        except OSError:
            return None  # no room or no permission: the scan that proves it instead needs neither
        return name

    def _run(self) -> None:
        retry_after = _FIRST_RETRY_SECONDS
        try:
            while not self._stop.is_set():
                started = time.monotonic()
                reason = self._watch()
                if self._stop.is_set():
                    break
                if time.monotonic() - started > _STEADY_SECONDS:
                    retry_after = _FIRST_RETRY_SECONDS
                self._poll(reason, retry_after)
                retry_after = min(retry_after * 2, _LONGEST_RETRY_SECONDS)
        finally:
            self._become("stopped", "closed" if self._stop.is_set() else "the watcher failed")

    def _become(self, mode: Literal["watching", "polling", "stopped"], reason: str = "") -> None:
        state = WatchState(mode, reason)
        if state != self._state:
            self._state = state
            self._on_state(state)

    # -- events

    def _watch(self) -> str:
        """Report events until stopped; the result says why the system's events cannot be used (any more)."""
        network = network_filesystem(self._vault.pages_root)
        if network is not None:
            return f"{network} does not report changes made by other machines"
        notifier: Notifier | None = None
        try:
            notifier = self._start()
            self._polled = None
            # in this order: nobody takes it for a proof that nothing changed before the watch began
            self._on_change({EVERYTHING})
            self._become("watching")
            last_wake, unsettled = time.time(), False
            while not self._stop.is_set():
                events = notifier.watch(LONGEST_BATCH_MS, SETTLE_MS, _WAKE_MS, self._stop)
                slept, last_wake = time.time() - last_wake > _WAKE_MS / 1000 + _SLEPT_SECONDS, time.time()
                if events in ("stop", "signal"):
                    return "interrupted"
                batch = self._batch(set() if isinstance(events, str) else events)
                if slept or unsettled:
                    batch.lose()
                restarts = 0
                while batch.rewatch and restarts < _RESTARTS_IN_A_ROW:
                    batch.rewatch = False
                    notifier, late = self._restart(notifier)
                    batch.add(late)
                    restarts += 1
                unsettled = batch.rewatch
                if unsettled:
                    batch.lose()  # folders come and go faster than they can be watched; the next round tries again
                self._report(batch)
                unsettled |= _identity(self._root) != self._watched_root
        except (OSError, RuntimeError, RootUnavailable) as error:
            return _explain(error)
        finally:
            if notifier is not None:
                notifier.close()
        return "closed"

    def _start(self) -> Notifier:
        """Watch the folders that exist now; one that vanishes meanwhile means looking again."""
        while True:
            # a folder whose name is not decodable cannot be named to the notifier, and holds no pages
            below = [EVERYTHING] if _WATCHES_TREES else folders_below(self._vault.pages_root)
            relative = [folder for folder in below if not names.has_undecodable(folder)]
            self._folders = frozenset(relative)
            self._watched_root = _identity(self._root)
            folders = [os.path.join(self._root, folder) if folder else self._root for folder in relative]
            self._watches_markers = False
            if self._markers is not None and self._markers.is_dir():
                self._watches_markers = True
                folders.append(os.fspath(self._markers))
            try:
                return self._start_notifier(folders)
            except FileNotFoundError:
                if self._stop.is_set() or not os.path.isdir(self._root):
                    raise

    def _restart(self, old: Notifier) -> tuple[Notifier, "_Batch"]:
        """Watch the folders that exist now; what the old notifier has seen until then comes along."""
        fresh = self._start()
        try:
            late = old.watch(SETTLE_MS, _DRAIN_MS, _DRAIN_MS, None)
        finally:
            old.close()
        return fresh, self._batch(set() if isinstance(late, str) else late)

    def _batch(self, events: set[tuple[int, str]]) -> "_Batch":
        batch = _Batch(set(), set(), rewatch=False)
        markers = None if self._markers is None else os.fspath(self._markers) + os.sep
        flood = len(events) >= _FLOOD
        if flood:
            batch.lose()
        for change, path in events:
            if markers is not None and path.startswith(markers):
                batch.markers.add(path[len(markers) :])
            elif path == self._root:
                batch.lose()
            elif markers is not None and path == markers[:-1]:
                self._watches_markers, batch.rewatch = False, True
            elif not flood and path.startswith(self._root + os.sep):
                self._sort(path, batch, made=change == Change.added)
        return batch

    def _sort(self, path: str, batch: "_Batch", *, made: bool) -> None:
        relative = path[len(self._root) + 1 :].replace(os.sep, "/")
        reason = names.skip_reason(relative, strict=self._vault.strict)
        if reason == "hidden":
            return
        watched = relative in self._folders
        try:
            exists, is_folder = True, stat.S_ISDIR(os.lstat(path).st_mode)
        except OSError:
            # Gone: on systems that watch trees nothing tells whether it was a folder, unless its name is a page's.
            exists, is_folder = False, _WATCHES_TREES and reason == "not_markdown"
        if is_folder or watched:
            batch.paths.add(relative)
            batch.rewatch |= not _WATCHES_TREES and (made or not (exists and is_folder and watched))
        elif reason in (None, "conflict_copy"):  # a copy is no page, but told in status
            batch.paths.add(relative)

    def _report(self, batch: "_Batch") -> None:
        if batch.paths:
            self._on_change({EVERYTHING} if EVERYTHING in batch.paths else batch.paths)
        for name in batch.markers:
            if self._take_marker(name) and self._on_marker is not None:
                self._on_marker(name)

    def _take_marker(self, name: str) -> bool:
        """Remove a marker file; False for the event of its removal."""
        if self._markers is None:
            return False
        try:
            (self._markers / name).unlink()
        except FileNotFoundError:
            return False
        except OSError:
            return True  # it was seen all the same
        return True

    # -- polling

    def _poll(self, reason: str, seconds: float) -> None:
        """Compare scans for so many seconds, then let events be tried again; at once when a lost root is back."""
        until = time.monotonic() + seconds
        root_lost = False
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                now = dict(scan(self._vault, known_pages=0).entries)
            except RootUnavailable as error:
                if not root_lost:
                    self._on_change({EVERYTHING})
                root_lost, self._polled = True, None
                self._become("stopped", str(error))
            else:
                if root_lost:
                    return
                self._become("polling", reason)
                changed = {EVERYTHING} if self._polled is None else _differences(self._polled, now)
                self._polled = now
                if changed:
                    self._on_change(changed)
            took = time.monotonic() - started
            if not root_lost and started + took >= until:
                return
            self._stop.wait(max(self._poll_seconds, took * _POLL_SHARE))


@dataclass(slots=True)
class _Batch:
    paths: set[str]
    markers: set[str]
    rewatch: bool

    def add(self, later: "_Batch") -> None:
        self.paths |= later.paths
        self.markers |= later.markers
        self.rewatch |= later.rewatch

    def lose(self) -> None:
        """Events may be missing: everything must be looked at, and watched anew."""
        self.paths.add(EVERYTHING)
        self.rewatch = True


def _identity(folder: str) -> tuple[int, int] | None:
    """What tells a folder from another one put in its place, without an event, by a mount or a rename further up."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _differences(before: dict[str, Stamp], now: dict[str, Stamp]) -> set[str]:
    return {path for path, _ in before.items() ^ now.items()}


def _explain(error: Exception) -> str:
    """A reason for a person: system limits come with the line that raises them."""
    text = str(error)
    limits = ("watch limit reached", "os error 24", "os error 28", "no space left", "too many open files")
    if any(limit in text.lower() for limit in limits):
        return f"the system's limit for watched folders is reached; {_INOTIFY_REMEDY}"
    if isinstance(error, RootUnavailable):
        return text
    return f"the system's change events failed ({type(error).__name__})"
