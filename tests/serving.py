"""The daemon's listening side in the event loop of a test, with a small dispatcher in place of the use cases."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ParamSpec

from wikid_daemon.calls import CallContext, Face
from wikid_daemon.instance import Instance
from wikid_daemon.server import Server
from wikid_protocol import records
from wikid_protocol.errors import RequestRefused
from wikid_protocol.limits import LIMITS
from wikid_protocol.methods import Method, PageSearchParams, RecallParams, ReindexParams

P = ParamSpec("P")
Message = dict[str, Any]
HANG_GUARD_SECONDS = 30


def scenario(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run a coroutine as a test, with a guard against hanging."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def guarded() -> None:
            await asyncio.wait_for(test(*args, **kwargs), HANG_GUARD_SECONDS)

        asyncio.run(guarded())

    return run


class Calls:
    """A dispatcher that is told what to do by the call itself.

    `recall` waits for `release` (or, with mode `thread`, in a worker until cancelled), `page/search` answers with
    `limit` matches of about 1 kB, `index/reindex` reports progress (a flood of it with `force`), `vault/list` breaks,
    `models/list` is cancelled by itself.
    """

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.started: list[str] = []
        self.sessions: list[str | None] = []
        self.cancelled: list[str] = []
        self.worker_done = threading.Event()
        self._changed = asyncio.Condition()

    async def call(self, method: Method, params: object, context: CallContext) -> object:
        self.sessions.append(context.session)
        if isinstance(params, RecallParams):
            return await self._wait(params, context)
        if isinstance(params, PageSearchParams):
            return records.PageMatches(matches=(_match(),) * params.limit)
        if isinstance(params, ReindexParams):
            await asyncio.to_thread(self._reindex, params, context)
            return records.ReindexReports(vaults=())
        if method.name == "vault/list":
            raise KeyError("the text of a note")
        if method.name == "models/list":
            raise asyncio.CancelledError
        if method.name == "vault/resolve":
            raise RequestRefused("vault_not_found", "no vault has this folder", hint="wikid vault add PATH")
        if method.name == "initialize":
            return records.Initialized(
                protocol=1, server=records.Server(name="wikid", version="1"), capabilities=(), limits=LIMITS
            )
        return records.Pong(version="1", pid=os.getpid())

    async def running(self, count: int) -> None:
        """Return once `count` recalls have begun."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.started) >= count)

    async def told(self, count: int) -> None:
        """Return once `count` recalls were cancelled, their workers included."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.cancelled) >= count)

    async def _wait(self, params: RecallParams, context: CallContext) -> object:
        await self._note(self.started, params.query)
        try:
            if params.mode == "thread":
                await asyncio.to_thread(self._work, context.cancelled)
            else:
                await self.release.wait()
        except asyncio.CancelledError:
            assert context.cancelled.is_set()
            await self._note(self.cancelled, params.query)
            raise
        return records.PageMatches(matches=())

    def _work(self, cancelled: threading.Event) -> None:
        if cancelled.wait(HANG_GUARD_SECONDS / 3):
            self.worker_done.set()

    def _reindex(self, params: ReindexParams, context: CallContext) -> None:
        token = params.progress_token or ""
        for _ in range(3_000 if params.force else 0):
            context.progress(token, "x" * 1_000, None)
        context.progress(token, "half way", 50.0)

    async def _note(self, where: list[str], what: str) -> None:
        async with self._changed:
            where.append(what)
            self._changed.notify_all()


def _match() -> records.PageMatch:
    return records.PageMatch(
        vault_id=records.VaultId("v"),
        vault="v",
        page_id=records.PageId("p" * 900),
        title="t",
        type="concept",
        path="p.md",
    )


class Peer:
    """The other end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, *messages: object) -> None:
        self.writer.write(b"".join(json.dumps(each).encode() + b"\n" for each in messages))

    def call(self, call_id: object, method: str, **params: object) -> None:
        self.send({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})

    async def read(self) -> Any:
        return json.loads(await self.reader.readuntil(b"\n"))

    async def ask(self, call_id: object, method: str, **params: object) -> Message:
        self.call(call_id, method, **params)
        answer: Message = await self.read()
        assert answer["id"] == call_id
        return answer

    async def closed(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionResetError:
            return True

    async def alive(self) -> bool:
        return "result" in await self.ask("alive", "ping")


class Daemon:
    def __init__(self, calls: Calls, server: Server, instance: Instance, serving: asyncio.Task[None]) -> None:
        self.calls, self.server, self.instance, self.serving = calls, server, instance, serving
        self._peers: list[Peer] = []

    @property
    def endpoint(self) -> Path:
        return self.instance.endpoint

    async def connect(self) -> Peer:
        reader, writer = await asyncio.open_unix_connection(self.endpoint, limit=32_000_000)
        self._peers.append(Peer(reader, writer))
        return self._peers[-1]

    async def hang_up(self) -> None:
        for peer in self._peers:
            peer.writer.transport.abort()
        await asyncio.sleep(0)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)


def claim(root: Path, **options: Any) -> Instance:
    return Instance.claim(root / "run" / "w.sock", root / "state", **options)


@asynccontextmanager
async def daemon(
    root: Path, *, check_seconds: float = 5.0, face: Face | None = None, **limits: Any
) -> AsyncIterator[Daemon]:
    calls, instance = Calls(), claim(root)
    kept = dataclasses.replace(LIMITS, **limits)
    server = Server(calls, instance, limits=kept, endpoint_check_seconds=check_seconds, face=face)
    ready = asyncio.Event()
    serving = asyncio.create_task(server.serve(ready.set))
    begun = asyncio.create_task(ready.wait())
    await asyncio.wait({serving, begun}, return_when=asyncio.FIRST_COMPLETED)
    running = Daemon(calls, server, instance, serving)
    try:
        if serving.done():
            begun.cancel()
            await serving
        yield running
    finally:
        await running.hang_up()
        if not serving.done():
            server.stop(0)
        await asyncio.wait({serving})
        instance.release()
