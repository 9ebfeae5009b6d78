"""The client's end of a Windows pipe, with the few methods of a socket that `SocketTransport` uses.

A pipe's name is free to whoever makes it first. So the process that made it must be this user's before it is sent
anything, and it may learn who the client is but never act as the client. The first line sent is the one of the
daemon's token file, which this user alone can read.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final, Protocol

from wikid_protocol.endpoint import folders, token_path
from wikid_protocol.errors import DaemonFailed, DaemonNotRunning

if sys.platform == "win32":
    from wikid_protocol import windows

_PIPE_BUSY: Final = 231
_GONE: Final = (109, 232, 233)  # ERROR_BROKEN_PIPE, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED
_LONGEST_MS: Final = 0x7FFF_FFFF


class PipeCalls(Protocol):
    """The system, as `wikid_protocol.windows` asks it."""

    def open_pipe(self, name: str, /) -> int: ...

    def wait_for_pipe(self, name: str, milliseconds: int, /) -> None: ...

    def server_process(self, handle: int, /) -> int: ...

    def user_of(self, pid: int, /) -> str: ...

    def current_user(self) -> str: ...

    def read(self, handle: int, size: int, milliseconds: int, /) -> bytes: ...

    def write(self, handle: int, data: bytes, milliseconds: int, /) -> None: ...

    def is_closed(self, handle: int, /) -> bool: ...

    def close(self, handle: int, /) -> None: ...


class PipeConnection:
    """An open pipe. Errors are those of a socket: TimeoutError, and OSError once the other end is gone."""

    def __init__(self, handle: int, calls: PipeCalls) -> None:
        self._handle: int | None = handle
        self._calls = calls
        self._seconds: float | None = None

    def settimeout(self, seconds: float | None) -> None:
        """How long each later call may wait; None for as long as it takes."""
        self._seconds = seconds

    def sendall(self, data: bytes) -> None:
        self._calls.write(self._open(), data, self._milliseconds())

    def recv(self, size: int) -> bytes:
        return self._calls.read(self._open(), size, self._milliseconds())

    def shutdown(self, how: int) -> None:
        """Does nothing: a pipe has no halves to close by themselves."""

    def was_closed(self) -> bool:
        """Has the other end hung up, as far as is known without waiting?"""
        return self._handle is None or self._calls.is_closed(self._handle)

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            self._calls.close(handle)

    def detach(self) -> int:
        """The open handle, for somebody else to use and to close; this is closed then."""
        handle, self._handle = self._open(), None
        return handle

    def _open(self) -> int:
        if self._handle is None:
            raise OSError("the connection is closed")
        return self._handle

    def _milliseconds(self) -> int:
        return _LONGEST_MS if self._seconds is None else _whole(self._seconds)


def open_connection(path: Path, deadline: float, calls: PipeCalls, state: Path | None = None) -> PipeConnection | None:
    """A connection through the pipe at `path` that the daemon has been shown the token on, or None where nobody has
    the pipe. `state` is the folder of the token. DaemonNotRunning for a stranger's pipe, DaemonFailed for one that has
    no room until the deadline."""
    handle = _open(path, deadline, calls)
    if handle is None:
        return None
    connection = PipeConnection(handle, calls)
    try:
        _check_server(path, handle, calls)
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        connection.sendall(_token(path, folders().state if state is None else state))
    except TimeoutError:
        connection.close()
        raise _no_room(path) from None
    except OSError as error:
        connection.close()
        if getattr(error, "winerror", None) in _GONE:
            return None  # it was about to end
        raise _unreachable(path, error) from error
    except DaemonNotRunning:
        connection.close()
        raise
    return connection


if sys.platform == "win32":

    def try_connect(path: Path, deadline: float) -> PipeConnection | None:
        """`open_connection` by this system."""
        return open_connection(path, deadline, windows)


def _open(path: Path, deadline: float, calls: PipeCalls) -> int | None:
    name = os.fspath(path)
    while True:
        try:
            return calls.open_pipe(name)
        except FileNotFoundError:
            return None
        except OSError as error:
            if getattr(error, "winerror", None) != _PIPE_BUSY:
                raise _unreachable(path, error) from error
        left = deadline - time.monotonic()
        if left <= 0:
            raise _no_room(path)
        try:
            calls.wait_for_pipe(name, _whole(left))
        except OSError:
            continue  # none was free in time, or the daemon ended: the next attempt tells


def _check_server(path: Path, handle: int, calls: PipeCalls) -> None:
    hint = "end that program, or set WIKID_SOCKET to another pipe"
    try:
        owner = calls.user_of(calls.server_process(handle))
    except OSError as error:
        # an elevated process does not tell an ordinary one who it is
        raise DaemonNotRunning(f"whose process has {path} cannot be told", hint=hint) from error
    if owner != calls.current_user():
        raise DaemonNotRunning(f"the process at {path} belongs to another user", hint=hint)


def _token(path: Path, state: Path) -> bytes:
    place = token_path(path, state)
    try:
        return place.read_bytes()
    except OSError as error:
        raise DaemonNotRunning(
            f"cannot read {place}, which a client of {path} needs",
            hint="use the state folder that the daemon uses, or run: wikid restart",
        ) from error


def _unreachable(path: Path, error: OSError) -> DaemonNotRunning:
    why = error.strerror or type(error).__name__
    return DaemonNotRunning(f"cannot reach {path}: {why}", hint="check who owns it, or set WIKID_SOCKET")


def _no_room(path: Path) -> DaemonFailed:
    return DaemonFailed(f"the daemon at {path} is too busy to accept a connection", hint="wikid restart")


def _whole(seconds: float) -> int:
    """Milliseconds, never less than the seconds given."""
    return min(int(seconds * 1000) + 1, _LONGEST_MS)
