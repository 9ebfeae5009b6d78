"""One connection to the daemon: JSON, one message a line, every wait bounded by a deadline.

Deadlines are `time.monotonic()` seconds. The daemon is started only where nothing listens at the endpoint.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

from wikid_protocol.errors import DaemonFailed, DaemonNotRunning
from wikid_protocol.limits import LIMITS

if sys.platform == "win32":
    from wikid_client import pipe

START_HINT: Final = "start one with: wikid start"
GLANCE_SECONDS: Final = 0.05  # for finding out whether a daemon that refuses a call goes away
GLANCE_STEP: Final = 0.005

_ABSENT: Final = (errno.ENOENT, errno.ECONNREFUSED)
_CHUNK: Final = 65_536


class ConnectionLost(DaemonFailed):
    """The daemon closed the connection before it answered."""


class TooSlow(DaemonFailed):
    """The daemon did not take, or answer, something in the time it had."""


class Transport(Protocol):
    """What `Client` needs from a connection; anything that carries lines will do."""

    def connect(self, deadline: float) -> None:
        """Open the connection, or do nothing when it is open. DaemonNotRunning, DaemonFailed."""

    def send(self, line: bytes, deadline: float) -> None:
        """Write one message, newline included. ConnectionLost, DaemonFailed when the deadline passes."""

    def receive(self, deadline: float) -> bytes:
        """The next message without its newline. ConnectionLost, DaemonFailed when the deadline passes."""

    def close(self) -> None:
        """Drop the connection; the daemon cancels the calls of a connection that is gone."""


class PeerSocket(Protocol):
    """A connected socket, as far as it tells who is at the other end."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


class Connection(Protocol):
    """What `SocketTransport` needs from a socket, which a Windows pipe has too."""

    def settimeout(self, seconds: float | None, /) -> None: ...

    def sendall(self, data: bytes, /) -> None: ...

    def recv(self, size: int, /) -> bytes: ...

    def shutdown(self, how: int, /) -> None: ...

    def close(self) -> None: ...


class SocketTransport:
    """The Unix socket, or the Windows pipe, at `path`. With `start`, a daemon is started where none answers."""

    def __init__(self, path: Path, *, start: bool = True) -> None:
        self.path = path
        self._start = start
        self._socket: Connection | None = None
        self._unread = bytearray()
        self._process = os.getpid()
        self._file: tuple[int, int, int] | None = None  # that was connected to

    def connect(self, deadline: float) -> None:
        self._drop_inherited()
        if self._socket is not None and _was_closed(self._socket):
            self.close()  # seen before anything is sent, so that a call that writes survives a restart between calls
        if self._socket is not None:
            return
        self._process = os.getpid()
        self._socket = try_connect(self.path, deadline)
        if self._socket is None:
            self._socket = self._connect_after_start(deadline)
        self._file = socket_file(self.path)

    def _connect_after_start(self, deadline: float) -> Connection:
        if not _may_be_bound(self.path):
            raise DaemonNotRunning(
                f"{self.path} is in the way: it is not a socket", hint="move it elsewhere, or set WIKID_SOCKET"
            )
        if not self._start:
            raise DaemonNotRunning(f"no wikid daemon answers at {self.path}", hint=START_HINT)
        # loaded here because a daemon is nearly always there, and starting one needs `subprocess`
        launch: Any = import_module("wikid_client.launch")
        found: Connection = launch.start_daemon(self.path, lambda: try_connect(self.path, deadline), deadline)
        return found

    def send(self, line: bytes, deadline: float) -> None:
        try:
            connection = self._ready(deadline)
            connection.sendall(line)
        except (BrokenPipeError, ConnectionResetError):
            return  # what the daemon said before it closed is still there, and `receive` tells its end
        except TimeoutError:
            raise self._too_slow() from None
        except OSError as error:
            raise self._lost(error) from error

    def receive(self, deadline: float) -> bytes:
        line = self.receive_by(deadline)
        if line is None:
            raise self._too_slow()
        return line

    def receive_by(self, deadline: float) -> bytes | None:
        """Like `receive`, but None, with the connection kept, where the deadline passes first."""
        self._drop_inherited()
        searched = 0
        while True:
            end = self._unread.find(b"\n", searched)
            if end >= 0:
                line = bytes(self._unread[:end])
                del self._unread[: end + 1]
                return line
            searched = len(self._unread)
            if searched > LIMITS.message_bytes:
                self.close()
                raise DaemonFailed("the daemon sent a message longer than the protocol allows", hint="wikid restart")
            try:
                self._unread += self._read(deadline)
            except TimeoutError:
                return None

    def _read(self, deadline: float) -> bytes:
        connection = self._ready(deadline)
        try:
            found = connection.recv(_CHUNK)
        except TimeoutError:
            raise
        except OSError as error:
            raise self._lost(error) from error
        if not found:
            raise self._lost(None)
        return found

    def _ready(self, deadline: float) -> Connection:
        if self._socket is None:
            raise self._lost(None)
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._socket

    def sibling(self, *, start: bool | None = None) -> SocketTransport:
        """Another connection to the same place, for whoever needs one of its own."""
        return SocketTransport(self.path, start=self._start if start is None else start)

    def is_left(self) -> bool:
        """Whether the daemon goes away, or has: it hung up, or its socket file is gone or another's. A daemon that
        stops does both within moments of saying so."""
        give_up = time.monotonic() + GLANCE_SECONDS
        while self._socket is not None and not _was_closed(self._socket):
            if socket_file(self.path) != self._file:
                return True
            if time.monotonic() >= give_up:
                return False
            time.sleep(GLANCE_STEP)
        return True

    def _drop_inherited(self) -> None:
        """A connection that another process opened before it was forked: each would read answers to the other."""
        if self._process != os.getpid():
            self.close()

    def _too_slow(self) -> TooSlow:
        self.close()
        return too_slow()

    def _lost(self, error: OSError | None) -> ConnectionLost:
        self.close()
        why = f" ({error.strerror})" if error and error.strerror else ""
        return ConnectionLost(f"the daemon closed the connection{why}", hint="run the command again")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._unread.clear()


def too_slow() -> TooSlow:
    """What a call ends with whose time is up."""
    return TooSlow("the daemon did not answer in time", hint="allow more with --timeout, or look at: wikid status")


def try_connect(path: Path, deadline: float) -> Connection | None:
    """A connection to the endpoint at `path`, or None where nothing listens. Another user's process is refused."""
    if sys.platform == "win32":
        return pipe.try_connect(path, deadline)
    else:  # noqa: RET505 - for a type checker of either platform
        return _try_socket(path, deadline)


if sys.platform != "win32":

    def _try_socket(path: Path, deadline: float) -> socket.socket | None:
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.settimeout(max(deadline - time.monotonic(), 0.001))
                connection.connect(os.fspath(path))
                check_peer(connection, path)
            except TimeoutError:
                connection.close()
                raise TooSlow(f"the daemon at {path} accepts no connection", hint="wikid restart") from None
            except OSError as error:
                connection.close()
                if error.errno in _ABSENT:
                    return None
                if error.errno != errno.EAGAIN:
                    raise DaemonNotRunning(
                        f"cannot reach {path}: {error.strerror or error}", hint="check who owns it, or set WIKID_SOCKET"
                    ) from error
                if time.monotonic() >= deadline:
                    raise TooSlow(f"the daemon at {path} is too busy to accept a connection") from error
                time.sleep(0.005)  # the backlog is full
            except DaemonNotRunning:
                connection.close()
                raise
            else:
                return connection


def _was_closed(connection: Connection) -> bool:
    """Has the other end hung up, as far as is known without waiting?"""
    if sys.platform == "win32":
        return isinstance(connection, pipe.PipeConnection) and connection.was_closed()
    else:  # noqa: RET505 - as above
        if not isinstance(connection, socket.socket):
            return False
        connection.settimeout(0)
        try:
            return not connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True


def socket_file(path: Path) -> tuple[int, int, int] | None:
    """Which socket file is at `path`. On Windows none: to look at a pipe is to connect to it."""
    if sys.platform == "win32":
        return None
    else:  # noqa: RET505 - for a type checker of either platform
        try:
            found = os.lstat(path)
        except OSError:
            return None
        return (found.st_dev, found.st_ino, found.st_mtime_ns)


def check_peer(connection: PeerSocket, path: Path) -> None:
    """DaemonNotRunning where the process at the other end is another user's."""
    if not _is_ours(connection):
        raise DaemonNotRunning(f"the process at {path} belongs to another user", hint="set WIKID_SOCKET to your own")


def _is_ours(connection: PeerSocket) -> bool:
    """Whether the other end's user is this one; True where the system does not tell."""
    if sys.platform == "linux":
        uid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        return bool(uid == os.getuid())
    elif sys.platform == "darwin":  # noqa: RET505 - as above
        uid = struct.unpack_from("2I", connection.getsockopt(0, 1, 76))[1]  # SOL_LOCAL, LOCAL_PEERCRED: struct xucred
        return bool(uid == os.getuid())
    else:
        return True


def _may_be_bound(path: Path) -> bool:
    if sys.platform == "win32":
        return True  # a pipe has no file, and a look at its name would connect to it
    else:  # noqa: RET505 - as above
        try:
            return stat.S_ISSOCK(os.lstat(path).st_mode)
        except FileNotFoundError:
            return True
        except OSError:
            return False
