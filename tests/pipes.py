"""A made-up Windows: sockets stand in for pipes, and each call of the system is noted."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import aiohttp
import pytest

from serving import Calls, Peer, claim
from wikid_client import aio_connection, aio_pipe
from wikid_client import transport as client_transport
from wikid_client.pipe import PipeCalls, PipeConnection
from wikid_daemon import server as server_module
from wikid_daemon.server import Server
from wikid_daemon.transport import pipe
from wikid_protocol.endpoint import token_path
from wikid_protocol.limits import LIMITS

NAME = "\\\\.\\pipe\\wikid-test"
US, THEM = "S-1-5-21-1-2-3-1001", "S-1-5-21-1-2-3-1002"
OURS, STRANGE, GONE = 10, 20, 30  # process ids
PIPE_BUSY, BROKEN_PIPE = 231, 109


class WindowsError(OSError):
    """An OSError as Windows has it."""

    def __init__(self, winerror: int) -> None:
        super().__init__(0, "the system says no")
        self.winerror = winerror


@dataclass
class Made:
    """What one instance was made with."""

    name: str
    open_mode: int
    pipe_mode: int
    timeout_ms: int
    descriptor: str


class Instance:
    """One pipe instance. `served` tells how many instances there were when it was handed to the loop."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.came: asyncio.Future[pipe.Pipe] = asyncio.get_running_loop().create_future()
        self.client = OURS
        self.closed = False
        self.served = 0

    def fileno(self) -> int:
        return self.ours.fileno()

    def close(self) -> None:
        self.closed = True
        self.ours.close()


class System:
    """Windows, as far as the listener asks it, and the two private names of its event loop."""

    def __init__(self) -> None:
        self.made: list[Made] = []
        self.instances: list[Instance] = []
        self.fails: deque[OSError | None] = deque()
        self.files: dict[Path, tuple[bytes, str]] = {}
        self._proactor: pipe.Proactor = self
        self.transports: list[asyncio.Future[Any]] = []

    def create_pipe(self, name: str, open_mode: int, pipe_mode: int, timeout_ms: int, descriptor: str) -> Instance:
        if self.fails and (problem := self.fails.popleft()) is not None:
            raise problem
        self.made.append(Made(name, open_mode, pipe_mode, timeout_ms, descriptor))
        self.instances.append(Instance())
        return self.instances[-1]

    def client_process(self, handle: int) -> int:
        return next(each.client for each in self.instances if not each.closed and each.fileno() == handle)

    def user_of(self, pid: int) -> str:
        if pid == GONE:
            raise WindowsError(87)
        return US if pid == OURS else THEM

    def current_user(self) -> str:
        return US

    def write_private(self, path: Path, data: bytes, descriptor: str) -> None:
        self.files[path] = (data, descriptor)

    def accept_pipe(self, instance: Any) -> asyncio.Future[pipe.Pipe]:
        came: asyncio.Future[pipe.Pipe] = instance.came
        return came

    def _make_duplex_pipe_transport(self, instance: Any, protocol: asyncio.Protocol) -> Any:
        instance.served = len(self.instances)
        connecting = asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, instance.ours)
        self.transports.append(asyncio.ensure_future(connecting))

    async def connect(self, process: int = OURS) -> Peer:
        """A client, at the instance that waits."""
        waiting = self.instances[-1]
        waiting.client = process
        waiting.came.set_result(waiting)
        return Peer(*await asyncio.open_connection(sock=waiting.theirs))


@dataclass
class Running:
    system: System
    calls: Calls
    server: Server
    token: bytes
    peers: list[Peer] = field(default_factory=list)

    async def connect(self, sent: bytes, process: int = OURS) -> Peer:
        peer = await self.system.connect(process)
        peer.writer.write(sent)
        self.peers.append(peer)
        return peer


@asynccontextmanager
async def daemon(root: Path, monkeypatch: pytest.MonkeyPatch, **limits: Any) -> AsyncIterator[Running]:
    """The whole listening side of a daemon on Windows."""
    system, calls, instance = System(), Calls(), claim(root)

    def listen(endpoint: Path, state: Path, make_stream: Callable[[], asyncio.Protocol], kept: Any) -> Any:
        token = pipe.new_token(token_path(endpoint, state), system)
        return pipe.PipeListener(NAME, token, make_stream, kept, system, system)

    monkeypatch.setattr(server_module, "sys", SimpleNamespace(platform="win32"))
    monkeypatch.setattr(server_module, "pipe", SimpleNamespace(listen=listen), raising=False)
    server = Server(calls, instance, limits=dataclasses.replace(LIMITS, **limits))
    ready = asyncio.Event()
    serving = asyncio.create_task(server.serve(ready.set))
    await ready.wait()
    ((line, _),) = system.files.values()
    running = Running(system, calls, server, line)
    try:
        yield running
    finally:
        for peer in running.peers:
            peer.writer.transport.abort()
        server.stop(0)
        await serving
        instance.release()
        for each in system.instances:
            each.theirs.close()


# -- the client's end, with an event loop ------------------------------------------------------------------------------


class Handle:
    """A socket as asyncio's `PipeHandle`."""

    def __init__(self, held: socket.socket) -> None:
        self.held = held

    def fileno(self) -> int:
        if self.held.fileno() < 0:
            raise ValueError("closed")
        return self.held.fileno()

    def close(self) -> None:
        self.held.close()


class PipeSockets(PipeCalls, Protocol):
    """A system whose handles are those of `sockets`."""

    sockets: dict[int, socket.socket]


def pretend_windows(
    monkeypatch: pytest.MonkeyPatch, try_connect: Callable[[Path, float], PipeConnection | None], system: PipeSockets
) -> None:
    """Have both clients connect by `try_connect`, the asynchronous one in the running event loop."""
    loop: Any = asyncio.get_running_loop()
    win32 = SimpleNamespace(platform="win32")

    def hold(handle: int) -> Handle:
        system.sockets[handle].setblocking(False)
        return Handle(system.sockets[handle])

    def connector(path: Path, seconds: float) -> aiohttp.BaseConnector:
        return aio_pipe.PipeConnector(path, seconds, lambda deadline: try_connect(path, deadline), hold)

    def is_gone(found: aiohttp.ClientWebSocketResponse) -> bool:
        return aio_pipe.hung_up(found.get_extra_info("pipe"), system)

    def transport(held: Handle, protocol: asyncio.BaseProtocol) -> asyncio.Transport:
        made: asyncio.Transport = loop._make_socket_transport(held.held, protocol, extra={"pipe": held})
        return made

    monkeypatch.setattr(asyncio, "ProactorEventLoop", type(loop), raising=False)
    monkeypatch.setattr(loop, "_make_duplex_pipe_transport", transport, raising=False)
    monkeypatch.setattr(aio_connection, "sys", win32)
    found = SimpleNamespace(connector=connector, is_gone=is_gone)
    monkeypatch.setattr(aio_connection, "aio_pipe", found, raising=False)
    pretend_blocking(monkeypatch, try_connect)


def pretend_blocking(
    monkeypatch: pytest.MonkeyPatch, try_connect: Callable[[Path, float], PipeConnection | None]
) -> None:
    """Have the blocking client connect by `try_connect`."""
    monkeypatch.setattr(client_transport, "sys", SimpleNamespace(platform="win32"))
    found = SimpleNamespace(try_connect=try_connect, PipeConnection=PipeConnection)
    monkeypatch.setattr(client_transport, "pipe", found, raising=False)
