"""One writer of a vault's events at a time: a queue of this process's threads, then a lock file for all processes.

The lock file `events.lock` comes into being whole or not at all, so its record can always be read. It is taken over
from its holder when it is older than 30 seconds and that process is proved gone on this host, never from another host
(vault format §11.41). Windows has nothing to take it over safely with: there it waits for a person.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import orjson
import structlog

from wikid_daemon import files, processes
from wikid_daemon.core.dates import instant, normalised

if sys.platform != "win32":
    import fcntl

STALE_AFTER: Final = timedelta(seconds=30)
_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.02
_RECORD_LIMIT: Final = 4_096
_NEW_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_OLD_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_NO_LINKS: Final = frozenset((errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK))

log = structlog.get_logger("events")


@dataclass(frozen=True, slots=True)
class LockRecord:
    """Who holds the lock, and since when (RFC 3339). `started` and `boot_id` are empty where nobody could tell."""

    writer: str
    host: str
    pid: int
    started: str
    boot_id: str
    acquired: str


class LockBusy(Exception):
    """Another writer kept the lock for as long as there was time. `holder` is known where its record can be read."""

    def __init__(self, holder: LockRecord | None) -> None:
        super().__init__("another writer holds the vault's event log")
        self.holder = holder


def is_alive(record: LockRecord) -> bool:
    """Whether the holder may still run. It is gone where this machine was started again since, or has no such process,
    or gave its id to another."""
    boot = processes.boot_id()
    if boot and record.boot_id and boot != record.boot_id:
        return False
    if not processes.is_running(record.pid):
        return False
    began = processes.started(record.pid)
    return not began or not record.started or began == record.started


def now_utc() -> datetime:
    return datetime.now(UTC)


class EventLock:
    """The lock at `path` for the writer of that id; its folder must be there. Any thread may call."""

    def __init__(
        self,
        path: Path,
        writer: str,
        *,
        is_alive: Callable[[LockRecord], bool] = is_alive,
        clock: Callable[[], datetime] = now_utc,
    ) -> None:
        self._path = path
        self._writer = writer
        self._is_alive = is_alive
        self._clock = clock
        self._turns = _Turns()
        self._own = b""

    def acquire(self, seconds: float) -> None:
        """Wait for at most so long. LockBusy, with nothing changed; OSError where there can be no such file."""
        until = time.monotonic() + seconds
        if not self._turns.take(until):
            raise LockBusy(self.holder())
        try:
            pause = _FIRST_PAUSE
            while not (self._made() or self._taken_over()):
                left = until - time.monotonic()
                if left <= 0.0:
                    raise LockBusy(self.holder())
                time.sleep(min(pause, left))
                pause = min(2.0 * pause, _LONGEST_PAUSE)
        except BaseException:
            self._turns.give()
            raise

    def release(self) -> None:
        """Let the next writer in. A file that cannot be removed is told in the log: what was written is written."""
        try:
            if self._bytes() == self._own:  # a person may have removed it, and another writer made its own
                self._path.unlink()
        except OSError as problem:
            log.warning("event_lock_not_removed", kind=files.failure_reason(problem))
        finally:
            self._turns.give()

    def holder(self) -> LockRecord | None:
        """The record in the file, or None where there is none that can be read."""
        return _record(self._bytes())

    # -- the file ------------------------------------------------------------------------------------------------------

    def _bytes(self) -> bytes:
        try:
            return files.read_regular(self._path, _RECORD_LIMIT).data
        except (OSError, files.NotReadable):
            return b""

    def _made(self) -> bool:
        if os.path.lexists(self._path):
            return False
        with self._written() as temporary:
            try:
                os.link(temporary, self._path)
            except FileExistsError:
                return False
            except OSError as problem:
                if problem.errno not in _NO_LINKS:
                    raise
                return self._made_in_place()
        return True

    def _made_in_place(self) -> bool:
        """Where the file system has no hard links; a crash right here leaves a lock that only a person can remove."""
        try:
            descriptor = os.open(self._path, _NEW_FLAGS, 0o666)
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "wb") as file:
            file.write(self._own)
        return True

    @contextmanager
    def _written(self) -> Iterator[Path]:
        """A file beside the lock with a new record of this process."""
        pid = os.getpid()
        record = LockRecord(
            writer=self._writer,
            host=processes.host(),
            pid=pid,
            started=processes.started(pid),
            boot_id=processes.boot_id(),
            acquired=self._clock().isoformat(),
        )
        self._own = orjson.dumps(asdict(record)) + b"\n"
        temporary = self._path.with_name(f"{self._path.name}.tmp-{pid}-{uuid.uuid4().hex}")
        try:
            with os.fdopen(os.open(temporary, _NEW_FLAGS, 0o666), "wb") as file:
                file.write(self._own)
            yield temporary
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()

    # -- taking over ---------------------------------------------------------------------------------------------------

    def _taken_over(self) -> bool:
        seen = self._bytes()
        record = _record(seen)
        if record is None or not self._is_stale(record):
            return False
        # of several that have seen the same record one gets the file itself, and the others find another in its place
        try:
            descriptor = os.open(self._path, _OLD_FLAGS)
        except FileNotFoundError:
            return False
        try:
            if not _is_mine_alone(descriptor) or not self._is_at_path(descriptor):
                return False
            if os.read(descriptor, _RECORD_LIMIT) != seen:
                return False
            with self._written() as temporary:
                os.replace(temporary, self._path)
        finally:
            os.close(descriptor)
        log.warning("event_lock_taken_over")
        return True

    def _is_stale(self, record: LockRecord) -> bool:
        if record.host != processes.host() or self._clock() - instant(record.acquired) <= STALE_AFTER:
            return False
        return not self._is_alive(record)

    def _is_at_path(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(self._path))
        except FileNotFoundError:
            return False


def _is_mine_alone(descriptor: int) -> bool:
    if sys.platform == "win32":
        return False
    else:  # noqa: RET505 - for a type checker of either platform
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # another takes it over right now, or the file system knows no such locks
            return False
        return True


def _record(data: bytes) -> LockRecord | None:
    """What a lock file says; None for one that does not say all of it."""
    try:
        value = orjson.loads(data)
        record = LockRecord(**{name: value[name] for name in LockRecord.__slots__})
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    texts = (record.writer, record.host, record.started, record.boot_id, record.acquired)
    is_sound = type(record.pid) is int and record.pid > 0 and all(isinstance(each, str) for each in texts)
    acquired = normalised(record.acquired)
    return replace(record, acquired=acquired) if is_sound and acquired is not None else None


class _Turns:
    """First come, first served, among the threads of this process."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._queue: deque[threading.Event] = deque()
        self._is_taken = False

    def take(self, until: float) -> bool:
        """Wait for one's turn, until that monotonic time at most."""
        mine = threading.Event()
        with self._guard:
            if not self._is_taken:
                self._is_taken = True
                return True
            self._queue.append(mine)
        if mine.wait(max(until - time.monotonic(), 0.0)):
            return True
        with self._guard:
            if mine.is_set():  # it came between the two
                return True
            self._queue.remove(mine)
            return False

    def give(self) -> None:
        """End one's turn."""
        with self._guard:
            if self._queue:
                self._queue.popleft().set()
            else:
                self._is_taken = False
