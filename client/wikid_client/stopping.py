"""Stop the daemon at an endpoint, and know when it has.

All of it goes over one connection, so that what is stopped is what was looked at: at a service manager's socket the
next connection is already the next daemon's. Its end is the daemon's own word that its calls are done.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from wikid_client.caller import answer_of, message_of
from wikid_client.transport import Connection, socket_file, try_connect
from wikid_protocol.errors import DaemonFailed, DaemonNotRunning
from wikid_protocol.memories import Done, Pong
from wikid_protocol.messages import request

T = TypeVar("T")

DRAIN_MS: Final = 2_000

_POLL_SECONDS: Final = 0.02
_CHUNK: Final = 4_096


@dataclass(frozen=True, slots=True)
class Stopped:
    """`daemon` is what it said of itself, where it was asked. With `held`, a service manager keeps the socket and
    starts it again for the next who calls."""

    was_running: bool
    daemon: Pong | None = None
    held: bool = False


class _Ended(Exception):
    """The daemon closed the connection."""


def shut_down(path: Path, timeout: float, *, wanted: Callable[[Pong], bool] | None = None) -> Stopped:
    """Drain and stop the daemon at `path`, if there is one and it is `wanted`. DaemonFailed when it does not stop."""
    deadline = time.monotonic() + timeout
    connection = try_connect(path, deadline)
    if connection is None:
        if sys.platform != "win32" and path.exists() and not path.is_socket():
            raise DaemonNotRunning(f"{path} is in the way: it is not a socket", hint="move it elsewhere")
        return Stopped(was_running=False)
    found, file = None, socket_file(path)
    try:
        if wanted is not None:
            found = _ask(connection, Pong, "ping", {}, deadline)
            if not wanted(found):
                return Stopped(was_running=False, daemon=found)
        _ask(connection, Done, "shutdown", {"drain_ms": DRAIN_MS}, deadline)
        _await_end(connection, deadline)
    except _Ended:
        pass  # somebody else was first
    finally:
        connection.close()
    return Stopped(was_running=True, daemon=found, held=file is not None and socket_file(path) == file)


def _ask(connection: Connection, kind: type[T], method: str, params: dict[str, object], deadline: float) -> T:
    connection.settimeout(max(deadline - time.monotonic(), _POLL_SECONDS))
    answer = b""
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # what it said before it closed is still there
            connection.sendall(request(method, method, params))
        while not answer.endswith(b"\n"):
            piece = connection.recv(_CHUNK)
            if not piece:
                raise _Ended
            answer += piece
    except TimeoutError:
        raise DaemonFailed("the daemon did not answer in time", hint="allow more with --timeout") from None
    except OSError:
        raise _Ended from None
    return answer_of(kind, method, message_of(answer))


def _await_end(connection: Connection, deadline: float) -> None:
    """The socket file goes as soon as the daemon begins to stop, while calls are still being answered."""
    connection.settimeout(max(deadline - time.monotonic(), _POLL_SECONDS))
    try:
        while connection.recv(_CHUNK):
            connection.settimeout(max(deadline - time.monotonic(), _POLL_SECONDS))
    except TimeoutError:
        raise DaemonFailed("the daemon said it would stop but has not yet", hint="see: wikid status") from None
    except OSError:
        return
