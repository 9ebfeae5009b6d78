"""Carries bytes between two file descriptors and the daemon's connection, whatever framing they are in.

Each direction waits for its reader, so nothing piles up here. When the input ends, the daemon is told, and what it
still answers is carried for as long as a host may be kept waiting.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from wikid_client.transport import Connection

DRAIN_SECONDS: Final = 1.5

_CHUNK: Final = 65_536


class Bridge:
    """One connection to the daemon, and the descriptors of a host. `leave` ends the process `drain` seconds after the
    input has ended, where the host does not read what is left or the daemon does not end by itself."""

    def __init__(
        self,
        connection: Connection,
        incoming: int,
        outgoing: int,
        leave: Callable[[], None],
        *,
        drain: float = DRAIN_SECONDS,
    ) -> None:
        self._connection = connection
        self._incoming = incoming
        self._outgoing = outgoing
        self._leave = leave
        self._drain = drain
        self._input_ended = threading.Event()

    def run(self) -> bool:
        """Carry until one side has ended; False where that was the daemon, before its host had said all."""
        self._connection.settimeout(None)
        threading.Thread(target=self._feed, name="wikid-stdio-input", daemon=True).start()
        with suppress(BrokenPipeError):  # the host is gone
            while self._output_is_read() and (data := self._received()):
                _write(self._outgoing, data)
            return self._input_ended.is_set() or not self._output_is_read(wait=False)
        return True

    def _feed(self) -> None:
        with suppress(OSError):  # the daemon is gone, which the other direction sees as well
            while data := os.read(self._incoming, _CHUNK):
                self._connection.sendall(data)
        self._input_ended.set()
        ending = threading.Timer(self._drain, self._leave)
        ending.daemon = True
        ending.start()
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def _received(self) -> bytes:
        try:
            return self._connection.recv(_CHUNK)
        except OSError:
            return b""  # broken off by the daemon

    def _output_is_read(self, *, wait: bool = True) -> bool:
        """Wait for bytes from the daemon, or only look; False where nobody reads the output any more."""
        if sys.platform == "win32":
            return True  # there a write will tell
        else:  # noqa: RET505 - for a type checker of either platform
            assert isinstance(self._connection, socket.socket)
            watch = select.poll()
            watch.register(self._connection, select.POLLIN)
            watch.register(self._outgoing, 0)
            ready = dict(watch.poll(None if wait else 0))
            return not ready.get(self._outgoing, 0) & (select.POLLERR | select.POLLHUP | select.POLLNVAL)


def _write(outgoing: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(outgoing, rest) :]
