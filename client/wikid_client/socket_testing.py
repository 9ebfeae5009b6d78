"""The Unix socket of a `FakeDaemon`, with a thread for each connection. Not for Windows."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

from wikid_client.testing import HTTP_VERBS, FakeDaemon, Peer

assert sys.platform != "win32"  # a type checker of that platform stops here


class SocketDoor:
    """A Unix socket, with a thread for each connection."""

    def __init__(self, daemon: FakeDaemon) -> None:
        self._daemon = daemon
        self._listener: socket.socket | None = _bound(daemon.endpoint)
        self._connections: list[socket.socket] = []
        self._guard = threading.Lock()
        self._http: Any = None
        daemon.run(self._accept, self._listener)

    def close(self) -> bool:
        listener, self._listener = self._listener, None
        if listener is None:
            return False
        with contextlib.suppress(FileNotFoundError):
            self._daemon.endpoint.unlink()
        _shut(listener)
        listener.close()
        return True

    def drop(self) -> None:
        with self._guard:
            open_now, self._connections = self._connections, []
        for connection in open_now:
            _shut(connection)

    def end(self) -> None:
        with self._guard:
            http, self._http = self._http, None
        if http is not None:
            http.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # stopped
            with self._guard:
                self._connections.append(connection)
            self._daemon.run(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if connection.recv(1, socket.MSG_PEEK) in HTTP_VERBS:
                self._http_face().adopt(connection)
                return
        sending = threading.Lock()

        def send(line: bytes) -> None:
            with sending:
                connection.sendall(line)

        def tell(line: bytes) -> None:
            with contextlib.suppress(OSError):  # nobody there to be told
                send(line)

        peer = Peer(send, tell, lambda: _shut(connection), lambda: _shut(connection))
        self._daemon.join(peer)
        with connection, connection.makefile("rb") as lines, contextlib.suppress(OSError):
            for line in lines:
                self._daemon.receive(line, peer)
        self._daemon.leave(peer)

    def _http_face(self) -> Any:
        with self._guard:
            if self._http is None:
                # loaded here because it takes aiohttp, which few tests need
                self._http = import_module("wikid_client.aio_testing").HttpFace(self._daemon)
            return self._http


def door(daemon: FakeDaemon) -> SocketDoor:
    """Listen at the daemon's endpoint. OSError."""
    return SocketDoor(daemon)


def _bound(endpoint: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(os.fspath(endpoint))
    listener.listen(16)
    return listener


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # already closed by the other end
        connection.shutdown(socket.SHUT_RDWR)
