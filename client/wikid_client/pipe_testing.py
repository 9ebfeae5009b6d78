"""The Windows pipe of a `FakeDaemon`, served in an event loop of its own; clients find its token as that of any daemon.

asyncio makes the pipe, with Windows' own descriptor: what a test says in it is no secret.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import secrets
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast

from wikid_client.testing import HTTP_VERBS, FakeDaemon, Peer
from wikid_protocol.endpoint import folders, token_path
from wikid_protocol.messages import notification

_TOKEN_BYTES: Final = 32


class Listening(Protocol):
    def close(self) -> None:
        """Take no more connections; those that are there stay."""
        ...


Serve = Callable[[Callable[[], asyncio.Protocol], str], Awaitable[Sequence[Listening]]]
"""Has the running loop take connections at a pipe, each with a protocol of its own. OSError."""


class PipeDoor:
    """Takes connections through the pipe at the daemon's endpoint. `state` is the folder of its token. OSError."""

    def __init__(
        self,
        daemon: FakeDaemon,
        state: Path,
        serve: Serve,
        make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        self.token = notification("$/token", {"token": secrets.token_hex(_TOKEN_BYTES)})
        self._daemon = daemon
        self._place = token_path(daemon.endpoint, state)
        self._serve = serve
        self._make_loop = make_loop
        self._open = True
        self.entered: set[_Entrance] = set()
        self.http: Any = None
        self._place.parent.mkdir(parents=True, exist_ok=True)
        self._place.write_bytes(self.token)
        begun: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(begun,), name="wikid-fake-pipe", daemon=True)
        self._thread.start()
        try:
            begun.result()
        except BaseException:
            self._place.unlink()
            raise

    def close(self) -> bool:
        was_open, self._open = self._open, False
        if was_open:
            self._place.unlink(missing_ok=True)
            self._in_loop(self._close)
        return was_open

    def drop(self) -> None:
        self._in_loop(self._drop)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _in_loop(self, work: Callable[[], Awaitable[None]]) -> None:
        async def done() -> None:
            await work()

        asyncio.run_coroutine_threadsafe(done(), self._loop).result()

    def _run(self, begun: Future[None]) -> None:
        with asyncio.Runner(loop_factory=self._make_loop) as runner:
            runner.run(self._main(begun))

    async def _main(self, begun: Future[None]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            with contextlib.suppress(ModuleNotFoundError):  # without aiohttp it speaks lines alone
                self.http = import_module("wikid_client.aio_testing").HttpRoutes(self._daemon)
                await self.http.start()
            self._listening = await self._serve(lambda: _Entrance(self, self._daemon), os.fspath(self._daemon.endpoint))
        except Exception as problem:  # noqa: BLE001 - raised to whoever waits for the pipe
            begun.set_exception(problem)
        else:
            begun.set_result(None)
            await self._stop.wait()
            await self._drop()  # who came meanwhile
        if self.http is not None:
            await self.http.stop()

    async def _close(self) -> None:
        for each in self._listening:
            each.close()

    async def _drop(self) -> None:
        """Return when the connections are gone: as long as one is there, nobody can make the pipe anew."""
        gone = [each.gone for each in self.entered]
        for each in list(self.entered):
            each.drop()
        await asyncio.gather(*gone)
        await asyncio.sleep(0)  # the loop lets go of a pipe after it has told


class _Entrance(asyncio.Protocol):
    """A connection: the token's line, then JSON lines, or HTTP by a protocol of its own."""

    def __init__(self, door: PipeDoor, daemon: FakeDaemon) -> None:
        self._door = door
        self._daemon = daemon
        self._loop = asyncio.get_running_loop()
        self._unread = b""
        self._next: asyncio.Protocol | None = None
        self._peer: Peer | None = None
        self._admitted = False
        self.gone: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._door.entered.add(self)

    def data_received(self, data: bytes) -> None:
        if self._next is not None:
            self._next.data_received(data)
            return
        self._unread += data
        if self._may_enter():
            self._read()

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.entered.discard(self)
        if self._next is not None:
            self._next.connection_lost(exc)
        if self._peer is not None:
            self._daemon.leave(self._peer)
        self.gone.set_result(None)

    def eof_received(self) -> bool | None:
        return None if self._next is None else self._next.eof_received()

    def pause_writing(self) -> None:
        if self._next is not None:
            self._next.pause_writing()

    def resume_writing(self) -> None:
        if self._next is not None:
            self._next.resume_writing()

    def drop(self) -> None:
        self._transport.abort()

    def _may_enter(self) -> bool:
        size = len(self._door.token)
        if not self._admitted and len(self._unread) >= size:
            self._admitted = hmac.compare_digest(self._unread[:size], self._door.token)
            self._unread = self._unread[size:]
            if not self._admitted:
                self.drop()
        return self._admitted and bool(self._unread)

    def _read(self) -> None:
        if self._peer is None and self._door.http is not None and self._unread[:1] in HTTP_VERBS:
            self._next = cast(asyncio.Protocol, self._door.http.protocol())
            self._next.connection_made(self._transport)
            self._next.data_received(self._unread)
            return
        if self._peer is None:
            self._peer = Peer(self._send, self._send, lambda: self._call(self.drop), self._hang_up)
            self._daemon.join(self._peer)
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._daemon.receive(line, self._peer)

    def _hang_up(self) -> None:
        self._call(self._transport.close)

    def _send(self, line: bytes) -> None:
        self._call(lambda: self._transport.write(line))

    def _call(self, work: Callable[[], None]) -> None:
        """From any thread, in the order of the calls."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is there
            self._loop.call_soon_threadsafe(work)


if sys.platform == "win32":

    async def _serve(make_protocol: Callable[[], asyncio.Protocol], name: str) -> Sequence[Listening]:
        # its types know of no other protocol than that of streams
        loop: Any = asyncio.get_running_loop()
        found: Sequence[Listening] = await loop.start_serving_pipe(make_protocol, name)
        return found

    def door(daemon: FakeDaemon) -> PipeDoor:
        """Listen at the daemon's endpoint. OSError."""
        return PipeDoor(daemon, folders().state, _serve, asyncio.ProactorEventLoop)
