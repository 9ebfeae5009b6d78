"""The client for an event loop through a Windows pipe, on a made-up system in which sockets stand in for pipes."""

from __future__ import annotations

import asyncio
import select
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from pipes import GONE, NAME, OURS, PIPE_BUSY, STRANGE, THEM, US, Running, System, WindowsError, daemon, pretend_windows
from typing import Any

import pytest

from serving import HANG_GUARD_SECONDS, scenario, until
from wikid_client import AsyncClient, DaemonFailed, DaemonNotRunning, pipe
from wikid_protocol.endpoint import token_path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sockets stand in for pipes")


class Windows:
    """The system as the client asks it, from any thread, at the other end of `system`."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._loop = asyncio.get_running_loop()
        self.server = OURS
        self.opening: list[OSError] = []
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.entered = threading.Event()
        self.sockets: dict[int, socket.socket] = {}
        self.sent: list[bytes] = []

    def open_pipe(self, _name: str) -> int:
        self.entered.set()
        assert self.goes_on.wait(HANG_GUARD_SECONDS)
        if self.opening:
            raise self.opening.pop(0)
        found = asyncio.run_coroutine_threadsafe(self._take(), self._loop).result(HANG_GUARD_SECONDS)
        self.sockets[found.fileno()] = found
        return found.fileno()

    async def _take(self) -> socket.socket:
        await until(lambda: not self._system.instances[-1].came.done())
        waiting = self._system.instances[-1]
        waiting.came.set_result(waiting)
        return waiting.theirs

    def wait_for_pipe(self, _name: str, _milliseconds: int) -> None:
        raise WindowsError(121)

    def server_process(self, _handle: int) -> int:
        return self.server

    def user_of(self, pid: int) -> str:
        if pid == GONE:
            raise WindowsError(5)
        return US if pid == OURS else THEM

    def current_user(self) -> str:
        return US

    def read(self, handle: int, size: int, _milliseconds: int) -> bytes:
        return self.sockets[handle].recv(size)

    def write(self, handle: int, data: bytes, _milliseconds: int) -> None:
        self.sent.append(data)
        self.sockets[handle].sendall(data)

    def is_closed(self, handle: int) -> bool:
        poll = select.poll()
        poll.register(handle, select.POLLRDHUP)
        return bool(poll.poll(0))

    def close(self, handle: int) -> None:
        self.sockets[handle].close()


@asynccontextmanager
async def connected(
    root: Path, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> AsyncIterator[tuple[AsyncClient, Windows, Running]]:
    """A daemon with a pipe, and a client of it."""
    async with daemon(root / "daemon", monkeypatch) as running:
        windows = Windows(running.system)
        token_path(Path(NAME), root).write_bytes(running.token)

        def try_connect(_path: Path, deadline: float) -> pipe.PipeConnection | None:
            return pipe.open_connection(Path(NAME), deadline, windows, root)

        pretend_windows(monkeypatch, try_connect, windows)
        async with AsyncClient(**{"endpoint": NAME, "start": False, "timeout": 20.0, **options}) as client:
            yield client, windows, running


@scenario
async def test_calls_go_through_the_pipe_behind_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(tmp_path, monkeypatch) as (client, windows, running):
        answers = await asyncio.gather(*(client.ping() for _ in range(5)))
        assert {each.version for each in answers} == {"1"}
        assert (windows.sent, running.server.connections) == ([running.token], 1)
        steps: list[str] = []
        await client.reindex(progress=lambda step: steps.append(step.message))
        assert "half way" in steps


@scenario
async def test_a_call_that_is_cancelled_ends_in_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(tmp_path, monkeypatch) as (client, _, running):
        recall = asyncio.create_task(client.recall("q"))
        await running.calls.running(1)
        recall.cancel()
        await running.calls.told(1)
        assert (await client.ping()).version == "1"


@scenario
async def test_a_daemon_that_hung_up_is_connected_to_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(tmp_path, monkeypatch) as (client, windows, running):
        await client.ping()
        (served,) = running.system.transports
        (await served)[0].abort()
        await until(lambda: running.server.connections == 0)
        # a call that writes is made once at most, so that the end of the old connection was seen before
        await client.feedback_signal("turn_end", session="s")
        assert windows.sent == [running.token] * 2


@pytest.mark.parametrize("server", [STRANGE, GONE])
@scenario
async def test_a_stranger_s_pipe_is_told_nothing(server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(tmp_path, monkeypatch) as (client, windows, running):
        windows.server = server
        with pytest.raises(DaemonNotRunning, match=r"whose|another user"):
            await client.ping()
        assert (windows.sent, running.calls.sessions) == ([], [])


@scenario
async def test_where_nobody_has_the_pipe_there_is_no_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(tmp_path, monkeypatch) as (client, windows, _):
        windows.opening = [FileNotFoundError(), FileNotFoundError()]
        with pytest.raises(DaemonNotRunning, match="wikid start"):
            await client.ping()
        assert (await client.ping()).version == "1"


@scenario
async def test_a_pipe_that_stays_busy_ends_with_the_time_for_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(tmp_path, monkeypatch, timeout=0.2) as (client, windows, _):
        windows.opening = [WindowsError(PIPE_BUSY)] * 1_000_000
        with pytest.raises(DaemonFailed):
            await client.ping()


@scenario
async def test_a_token_that_the_daemon_refuses_ends_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(tmp_path, monkeypatch) as (client, _, running):
        token_path(Path(NAME), tmp_path).write_bytes(b"x" * len(running.token))
        with pytest.raises(DaemonFailed):
            await client.ping()
        assert running.calls.sessions == []


@scenario
async def test_what_opens_for_nobody_any_more_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(tmp_path, monkeypatch) as (client, windows, _):
        windows.goes_on.clear()
        call = asyncio.create_task(client.ping())
        await asyncio.to_thread(windows.entered.wait, HANG_GUARD_SECONDS)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        windows.goes_on.set()
        await until(lambda: bool(windows.sockets))
        await until(lambda: all(each.fileno() < 0 for each in windows.sockets.values()))
