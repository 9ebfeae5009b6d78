"""The fake daemon behind a Windows pipe, on a made-up system: a Unix socket stands in for the pipe."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from pipes import OURS, US, pretend_blocking, pretend_windows
from types import SimpleNamespace

import pytest

from serving import HANG_GUARD_SECONDS
from wikid_client import AsyncClient, Client, DaemonFailed, DaemonNotRunning, Progress, pipe, pipe_testing, testing
from wikid_client.testing import FakeDaemon, Held, sample_recall
from wikid_protocol import records as r
from wikid_protocol.endpoint import token_path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sockets stand in for pipes")


class Windows:
    """The system as a client asks it; a pipe's handle is that of one of `sockets`."""

    def __init__(self) -> None:
        self.sockets: dict[int, socket.socket] = {}

    def open_pipe(self, name: str) -> int:
        found = socket.socket(socket.AF_UNIX)
        try:
            found.connect(name)
        except ConnectionRefusedError:
            found.close()
            raise FileNotFoundError from None
        except OSError:
            found.close()
            raise
        self.sockets[found.fileno()] = found
        return found.fileno()

    def wait_for_pipe(self, _name: str, _milliseconds: int) -> None:
        raise AssertionError("never busy")

    def server_process(self, _handle: int) -> int:
        return OURS

    def user_of(self, _pid: int) -> str:
        return US

    def current_user(self) -> str:
        return US

    def read(self, handle: int, size: int, milliseconds: int) -> bytes:
        self.sockets[handle].settimeout(milliseconds / 1_000)
        return self.sockets[handle].recv(size)

    def write(self, handle: int, data: bytes, milliseconds: int) -> None:
        self.sockets[handle].settimeout(milliseconds / 1_000)
        self.sockets[handle].sendall(data)

    def is_closed(self, handle: int) -> bool:
        self.sockets[handle].setblocking(False)
        try:
            return not self.sockets[handle].recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self, handle: int) -> None:
        self.sockets[handle].close()


async def serve(make_protocol: Callable[[], asyncio.Protocol], name: str) -> Sequence[pipe_testing.Listening]:
    return [await asyncio.get_running_loop().create_unix_server(make_protocol, name)]


class World:
    """Where both ends of the pipe find their token, and how a client connects."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.windows = Windows()

    def try_connect(self, path: Path, deadline: float) -> pipe.PipeConnection | None:
        return pipe.open_connection(path, deadline, self.windows, self.state)

    def token(self, daemon: FakeDaemon) -> Path:
        return token_path(daemon.endpoint, self.state)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path / "state")
    monkeypatch.setattr(testing, "sys", SimpleNamespace(platform="win32"))
    monkeypatch.setattr(testing, "socket_path", lambda env: Path(env["WIKID_SOCKET"]))
    monkeypatch.setattr(
        pipe_testing, "door", lambda daemon: pipe_testing.PipeDoor(daemon, made.state, serve), raising=False
    )
    pretend_blocking(monkeypatch, made.try_connect)
    yield made
    for each in made.windows.sockets.values():
        each.close()


def test_a_plugin_is_tested_through_a_pipe(world: World) -> None:
    def build(params: dict[str, object]) -> Generator[Progress, None, r.ModelRecord]:
        yield Progress("report", f"building {params['name']}", 50)
        return r.ModelRecord(name="m", purpose="embedder", state="ready")

    steps: list[Progress] = []
    with (
        FakeDaemon({"recall": sample_recall(), "models/build": build}) as daemon,
        Client(endpoint=daemon.endpoint, start=False) as client,
    ):
        assert client.recall("deploy").recall_id == "recall-1"
        client.models_build("small", progress=steps.append)
        assert [name for name, _ in daemon.calls] == ["recall", "models/build"]
        assert world.token(daemon).exists()
    assert [each.percentage for each in steps if each.kind == "report"] == [50]
    assert not world.token(daemon).exists()


def test_a_plugin_outlives_a_restart(world: World) -> None:
    with FakeDaemon() as daemon, Client(endpoint=daemon.endpoint, start=False) as client:
        client.ping()
        before = world.token(daemon).read_bytes()
        daemon.stop()
        with pytest.raises(DaemonNotRunning):
            client.ping()
        daemon.start()
        assert client.ping()
        assert world.token(daemon).read_bytes() != before
        daemon.drop()
        assert client.ping()


def test_an_event_loop_s_client_speaks_to_it_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(sample_recall())

    async def scenario(daemon: FakeDaemon) -> None:
        pretend_windows(monkeypatch, world.try_connect, world.windows)
        async with (
            asyncio.timeout(HANG_GUARD_SECONDS),
            AsyncClient(endpoint=daemon.endpoint, start=False) as client,
            client.subscribe() as changes,
        ):
            recall = asyncio.create_task(client.recall("deploy"))
            await asyncio.to_thread(held.arrived.wait)
            recall.cancel()
            await asyncio.to_thread(daemon.until_called, "$/cancelRequest")
            counts = {"pages": 3, "chunks": 9, "embedded": 9, "pending": 0}
            next_change = asyncio.ensure_future(anext(changes))
            await asyncio.to_thread(daemon.until_called, "subscribe")
            while not daemon.notify("index/changed", {"vault_id": "v", "generation": 8, "counts": counts}):
                await asyncio.sleep(0.005)
            assert (await next_change).vault_id == "v"
            daemon.drop()
            assert await client.ping()

    with FakeDaemon({"recall": held}) as daemon:
        asyncio.run(scenario(daemon))


def test_without_aiohttp_it_speaks_lines_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> None:
        raise ModuleNotFoundError

    monkeypatch.setattr(pipe_testing, "import_module", missing)
    with FakeDaemon() as daemon, Client(endpoint=daemon.endpoint, start=False) as client:
        assert client.ping()
        assert world.token(daemon).exists()


def test_who_does_not_have_the_token_is_dropped(world: World) -> None:
    with FakeDaemon() as daemon, Client(endpoint=daemon.endpoint, start=False, timeout=HANG_GUARD_SECONDS) as client:
        world.token(daemon).write_bytes(b"x" * 200)
        with pytest.raises(DaemonFailed):
            client.ping()
        assert daemon.calls == []


def test_a_pipe_that_somebody_has_is_told_and_leaves_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def taken(_make: object, _name: str) -> Sequence[pipe_testing.Listening]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(pipe_testing, "door", lambda daemon: pipe_testing.PipeDoor(daemon, world.state, taken))
    daemon = FakeDaemon()
    with pytest.raises(PermissionError):
        daemon.start()
    assert not world.token(daemon).exists()
    daemon.stop()


def test_a_daemon_that_is_told_to_shut_down_takes_nobody_more(world: World) -> None:
    with FakeDaemon() as daemon, Client(endpoint=daemon.endpoint, start=False) as client:
        client.shutdown()
        assert daemon.wait(HANG_GUARD_SECONDS)
        assert world.try_connect(daemon.endpoint, time.monotonic() + 1) is None
