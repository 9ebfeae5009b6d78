"""A vault's `meta/events.jsonl`: appended to by one writer at a time, read whole, never rewritten (vault format §6).

Programs that know nothing of the lock append too. So a line goes out in one write at the end of the file, wherever that
is by then, and a line that somebody left torn is closed first.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog

from wikid_daemon import files
from wikid_daemon.core.events import (
    CLOSE_TORN,
    START,
    EventStream,
    Mark,
    event_line,
    parse_events,
    source_missing,
    source_unreadable,
    timestamp_of,
)
from wikid_daemon.core.page import Json
from wikid_daemon.vault.event_lock import EventLock, LockBusy, LockRecord, is_alive, now_utc

EXPLICIT_MS: Final = 2_000.0
IMPLICIT_MS: Final = 250.0
LOG_NAME: Final = "events.jsonl"
LOCK_NAME: Final = "events.lock"
MAX_LOG_BYTES: Final = 1 << 30
_FLAGS: Final = (
    os.O_RDWR
    | os.O_APPEND
    | os.O_CREAT
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOINHERIT", 0)
)
_FORBIDDEN: Final = frozenset(("permission_denied", "read_only"))

log = structlog.get_logger("events")


class ReadOnlyVault(Exception):
    """Nothing may be written into the vault, not even an event."""

    def __init__(self) -> None:
        super().__init__("nothing may be written into this vault")


class EventNotWritten(Exception):
    """The system refused; `reason` is a stable word. A part of the line may be at the end of the file: the next append
    closes it, and no reader takes it for an event."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the vault's event log cannot be written: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a log from `start` on: that of the file where it is no longer the one in which a mark was made.

    `fault` is what takes their place where there is no file, or none that can be read.
    """

    data: bytes
    start: Mark
    fault: EventStream | None = None


class EventLog:
    """The events of the vault whose meta folder this is, or of none, where `meta` is None: a plain folder has no log.

    One for each vault in a process; any thread may call. `dropped` counts the events that `offer` did not write.
    """

    def __init__(
        self,
        meta: Path | None,
        writer: str,
        *,
        read_only: bool = False,
        is_alive: Callable[[LockRecord], bool] = is_alive,
        clock: Callable[[], datetime] = now_utc,
    ) -> None:
        self.dropped = 0
        self._meta = None if read_only else meta
        self._path = None if meta is None else meta / LOG_NAME
        self._clock = clock
        self._lock: EventLock | None = None
        if meta is not None and not read_only:
            self._lock = EventLock(meta / LOCK_NAME, writer, is_alive=is_alive, clock=clock)

    @contextmanager
    def locked(self, wait_ms: float) -> Iterator[Appender]:
        """Keep every other writer of wikid's out meanwhile; each append in it lasts through a power cut.

        LockBusy after `wait_ms`, ReadOnlyVault, EventNotWritten. Not to be nested.
        """
        with self._held(wait_ms, durable=True) as appender:
            yield appender

    def append(self, event: Mapping[str, Json], *, wait_ms: float = EXPLICIT_MS) -> str:
        """Append what somebody asked for, a `kind` and its details, and return its timestamp.

        As `locked` and `Appender.append` raise.
        """
        with self.locked(wait_ms) as appender:
            return appender.append(event)

    def offer(self, event: Mapping[str, Json]) -> bool:
        """Append what nobody would miss much; False where that cannot be done within 250 ms. EventRefused."""
        try:
            with self._held(IMPLICIT_MS, durable=False) as appender:
                appender.append(event)
        except (LockBusy, ReadOnlyVault, EventNotWritten) as problem:
            self.dropped += 1
            log.debug("event_dropped", error=type(problem).__name__)
            return False
        return True

    def read(self) -> EventStream:
        """All events, and what is wrong with the other lines. Never raises."""
        if self._path is None:
            return EventStream()
        try:
            return parse_events(files.read_log(self._path, MAX_LOG_BYTES))
        except FileNotFoundError:
            return source_missing()
        except (OSError, files.NotReadable) as problem:
            return source_unreadable(files.failure_reason(problem))

    def read_behind(self, mark: Mark) -> Lines:
        """The whole lines behind the mark, however many there are before it. Never raises."""
        if self._path is None:
            return Lines(b"", START)
        try:
            if mark.offset:
                data = files.read_log(self._path, MAX_LOG_BYTES, mark.offset - 1)
                if data[:1] == b"\n":
                    return Lines(data[1 : data.rfind(b"\n") + 1], mark)
            data = files.read_log(self._path, MAX_LOG_BYTES)
        except FileNotFoundError:
            return Lines(b"", START, fault=source_missing())
        except (OSError, files.NotReadable) as problem:
            return Lines(b"", START, fault=source_unreadable(files.failure_reason(problem)))
        return Lines(data[: data.rfind(b"\n") + 1], START)

    @contextmanager
    def _held(self, wait_ms: float, *, durable: bool) -> Iterator[Appender]:
        if self._meta is None or self._lock is None or self._path is None:
            raise ReadOnlyVault
        with _told():
            self._meta.mkdir(exist_ok=True)
            self._lock.acquire(wait_ms / 1_000.0)
        try:
            yield Appender(self._path, durable=durable, clock=self._clock)
        finally:
            self._lock.release()


class Appender:
    """Appends to the file while its maker holds the lock."""

    def __init__(self, path: Path, *, durable: bool, clock: Callable[[], datetime]) -> None:
        self._path = path
        self._durable = durable
        self._clock = clock

    def append(self, event: Mapping[str, Json]) -> str:
        """Append one event, a `kind` and its details, and return the timestamp that it got.

        EventRefused for what is none, ReadOnlyVault, EventNotWritten.
        """
        timestamp = timestamp_of(self._clock())
        line = event_line(event, timestamp)
        with _told():
            descriptor = os.open(self._path, _FLAGS, 0o666)
            try:
                self._write(descriptor, line)
            finally:
                os.close(descriptor)
        return timestamp

    def _write(self, descriptor: int, line: bytes) -> None:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise files.NotRegular(files.kind_of(status.st_mode))
        data = CLOSE_TORN + line if status.st_size and not _ends_a_line(descriptor) else line
        written = os.write(descriptor, data)
        if written < len(data):
            _finish(descriptor, data, written)
        if self._durable:
            os.fsync(descriptor)
            if not status.st_size:
                files.sync_folder(self._path.parent)


def _ends_a_line(descriptor: int) -> bool:
    os.lseek(descriptor, -1, os.SEEK_END)
    return os.read(descriptor, 1) == b"\n"


def _finish(descriptor: int, data: bytes, written: int) -> None:
    """Write the rest of what was cut short, and prove that nobody else's line came between. OSError."""
    while written < len(data):
        more = os.write(descriptor, data[written:])
        if not more:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written += more
    os.lseek(descriptor, -len(data), os.SEEK_END)
    if os.read(descriptor, len(data)) != data:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (OSError, files.NotReadable) as problem:
        reason = files.failure_reason(problem)
        raise (ReadOnlyVault() if reason in _FORBIDDEN else EventNotWritten(reason)) from problem
