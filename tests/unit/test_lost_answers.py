"""What the clients make of a daemon that speaks and hangs up, or does not speak in time."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from builders import HANG_GUARD_SECONDS
from wikid_client import AsyncClient, Client, DaemonFailed, RequestRefused, stopping
from wikid_client.testing import FakeDaemon, Held
from wikid_client.transport import ConnectionLost, SocketTransport, try_connect
from wikid_protocol import messages
from wikid_protocol import records as r
from wikid_protocol.subscriptions import IndexChanged

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")

BUSY = messages.failure(None, RequestRefused("busy", "the daemon has 128 connections"))


class Full:
    """A daemon with too many connections: says `last` to each who comes, and hangs up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = BUSY
        self.hung_up = threading.Semaphore(0)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                if not self.last:
                    return
                connection.sendall(self.last)
            self.hung_up.release()

    def stop(self) -> None:
        self.last = b""
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(self.path))
        self._thread.join(HANG_GUARD_SECONDS)
        self._listener.close()


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Full]:
    daemon = Full(tmp_path / "w.sock")
    yield daemon
    daemon.stop()


def test_a_daemon_that_refuses_to_be_asked_has_not_stopped(full: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(path: Path, deadline: float) -> Any:
        connection = try_connect(path, deadline)
        assert full.hung_up.acquire(timeout=HANG_GUARD_SECONDS)
        return connection

    monkeypatch.setattr(stopping, "try_connect", late)
    with pytest.raises(RequestRefused) as refused:
        stopping.shut_down(full.path, HANG_GUARD_SECONDS)
    assert refused.value.kind == "busy"


def test_what_a_daemon_said_before_it_hung_up_is_the_answer(full: Full) -> None:
    transport = SocketTransport(full.path, start=False)
    deadline = time.monotonic() + HANG_GUARD_SECONDS
    transport.connect(deadline)
    assert full.hung_up.acquire(timeout=HANG_GUARD_SECONDS)
    transport.send(messages.request(1, "ping", {}), deadline)
    assert transport.receive(deadline) + b"\n" == BUSY
    with pytest.raises(ConnectionLost):
        transport.receive(deadline)


def test_a_daemon_that_works_on_has_not_stopped_though_its_socket_file_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "w.sock"
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as pool:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(HANG_GUARD_SECONDS)
        stopped = pool.submit(stopping.shut_down, path, 1.0)
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(4_096)
            path.unlink()
            connection.sendall(messages.result("shutdown", r.Done()))
            with pytest.raises(DaemonFailed, match="has not yet"):
                stopped.result(HANG_GUARD_SECONDS)


def changed(generation: int) -> IndexChanged:
    counts = r.IndexCounts(pages=1, chunks=2, embedded=0, pending=0)
    return IndexChanged(subscription="s", vault_id=r.VaultId("v"), generation=generation, counts=counts)


@pytest.mark.parametrize("patience", [0.1, HANG_GUARD_SECONDS * 100])
def test_a_daemon_too_slow_to_take_a_subscription_again_does_not_end_it(patience: float) -> None:
    with FakeDaemon() as daemon, ThreadPoolExecutor(1) as pool:
        begun = r.Subscribed(subscription="s", generations={"v": 1})
        daemon.answers["subscribe"] = begun
        client = Client(endpoint=daemon.endpoint, start=False, timeout=patience)
        with client.subscribe() as changes:
            held = daemon.answers["subscribe"] = Held(begun)
            daemon.drop()
            assert pool.submit(changes.next, 0.01).result(HANG_GUARD_SECONDS / 3) is None
            held.release()
            daemon.answers["subscribe"] = begun
            told = None
            while told is None:
                daemon.notify("index/changed", changed(2))
                told = changes.next(0.01)
            assert isinstance(told, IndexChanged)


def test_an_async_subscription_outlives_a_daemon_too_slow_to_take_it_again() -> None:
    begun = r.Subscribed(subscription="s", generations={"v": 1})

    async def scenario(daemon: FakeDaemon) -> None:
        async with (
            AsyncClient(endpoint=daemon.endpoint, start=False, timeout=0.3) as client,
            client.subscribe() as changes,
        ):
            held = daemon.answers["subscribe"] = Held(begun)
            daemon.calls.clear()
            daemon.drop()
            waiting = asyncio.create_task(anext(changes))
            while sum(name == "subscribe" for name, _ in daemon.calls) < 2:
                assert not waiting.done()
                await asyncio.sleep(0.005)
            held.release()
            daemon.answers["subscribe"] = begun
            while not waiting.done():
                daemon.notify("index/changed", changed(2))
                await asyncio.sleep(0.005)
            assert isinstance(await waiting, IndexChanged)

    with FakeDaemon({"subscribe": begun}) as daemon:
        asyncio.run(asyncio.wait_for(scenario(daemon), HANG_GUARD_SECONDS))
