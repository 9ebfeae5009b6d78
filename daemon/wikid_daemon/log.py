"""The daemon's log: JSON lines in the state folder, a readable copy on stderr when somebody is watching.

Notes, queries and paths never get in: text is kept under the keys of `SAFE_KEYS` only, numbers under any key, and an
exception is reduced to its type and the places it passed through, because its message may quote a note.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import traceback
from collections.abc import MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import orjson
import structlog

FILE_NAME: Final = "wikid.log"
MAX_BYTES: Final = 2_000_000
KEPT_FILES: Final = 3

SAFE_KEYS: Final = frozenset(
    {
        *("event", "level", "timestamp", "call", "method", "kind", "error", "trace", "dropped", "logger", "where"),
        *("endpoint", "signal", "version", "vault_id", "model", "component", "step", "mode", "watcher", "java"),
    }
)
"""The only keys whose value may be text: words of the program's own, ids, and the socket's path."""

CALL: Final[ContextVar[str]] = ContextVar("call", default="")
"""Correlation id of the call being answered; also in the error a caller gets, so that the two can be matched."""

Event = MutableMapping[str, Any]


@dataclass(slots=True)
class Lost:
    """What this process could not write, since it started."""

    lines: int = 0


LOST: Final = Lost()


def configure(folder: Path, *, console: bool, verbose: bool = False) -> None:
    """Log to `folder`/wikid.log (0600, rotated by size) and, with `console`, to stderr; `verbose` adds debug events."""
    level = logging.DEBUG if verbose else logging.INFO
    sinks = _Sinks(RotatingFile(folder / FILE_NAME), console)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _describe_exception,
            _keep_safe,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: sinks,
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_Foreign()], level=logging.WARNING, force=True)


def places(error: BaseException) -> list[str]:
    """Where `error` came through, outermost first, then its causes; never its message."""
    lines: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        lines += [type(current).__qualname__, *_frames(current.__traceback__)]
        current = current.__cause__ or current.__context__
    return lines


def _frames(tb: TracebackType | None) -> list[str]:
    return [f"{frame.f_code.co_filename}:{line} {frame.f_code.co_name}" for frame, line in traceback.walk_tb(tb)]


def _describe_exception(_logger: object, _name: str, event: Event) -> Event:
    found = event.pop("exc_info", None)
    error = sys.exc_info()[1] if found is True else found
    if isinstance(error, BaseException):
        event["error"] = type(error).__qualname__
        event["trace"] = places(error)
    return event


def _keep_safe(_logger: object, _name: str, event: Event) -> Event:
    call = CALL.get()
    kept: Event = {"call": call} if call else {}
    dropped = []
    for key, value in event.items():
        if value is None or isinstance(value, bool | int | float):
            kept[key] = value
        elif key not in SAFE_KEYS:
            dropped.append(key)
        else:
            kept[key] = [_text(each) for each in value] if isinstance(value, list | tuple) else _text(value)
    if dropped:
        kept["dropped"] = dropped
    return kept


def _text(value: object) -> str:
    return str(value).encode("utf-8", "replace").decode("utf-8")


class RotatingFile:
    """A private file of lines: past `max_bytes` it becomes `.1`, older ones move up, `kept` of them stay."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES, kept: int = KEPT_FILES) -> None:
        self._path, self._max_bytes, self._kept = path, max_bytes, kept
        self._turn = threading.Lock()
        self._complained = False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._open()

    def write(self, line: bytes) -> None:
        """Append one line. A full disk never stops the daemon: the first failure is told on stderr."""
        with self._turn:
            try:
                if self._size and self._size + len(line) > self._max_bytes:
                    self._rotate()
                self._size += os.write(self._file, line)
            except OSError as error:
                LOST.lines += 1
                if not self._complained:
                    _say(f"wikid: cannot write {self._path}: {error.strerror}")
                self._complained = True

    def close(self) -> None:
        with self._turn:
            os.close(self._file)

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        self._size = os.fstat(self._file).st_size

    def _rotate(self) -> None:
        for number in range(self._kept - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            if older.exists():
                older.replace(self._path.with_name(f"{self._path.name}.{number + 1}"))
        # closed before the rename because Windows refuses to rename an open file
        os.close(self._file)
        try:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        finally:
            self._open()


def _say(line: str) -> None:
    """A line for whoever watches; a terminal that has gone away must not fail the call that is logged."""
    with contextlib.suppress(OSError, ValueError):
        print(line, file=sys.stderr)


class _Sinks:
    """The end of structlog's chain: one event to each place that wants it."""

    def __init__(self, file: RotatingFile, console: bool) -> None:
        self._file = file
        self._render = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()) if console else None

    def write(self, **event: Any) -> None:
        self._file.write(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS))
        if self._render is not None:
            _say(self._render(None, "", dict(event)))

    debug = info = warning = error = critical = exception = write


class _Foreign(logging.Handler):
    """What libraries log through the standard module: where and what kind, without words that may quote a note."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        structlog.get_logger().log(
            record.levelno,
            "a library reported a problem",
            logger=record.name,
            where=f"{record.module}:{record.lineno}",
            exc_info=error,
        )
