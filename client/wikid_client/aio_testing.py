"""The HTTP face of `FakeDaemon`: `POST /rpc` and `GET /ws`."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Final

from aiohttp import WSMsgType, web

from wikid_client.testing import FakeDaemon, Peer
from wikid_protocol.limits import LIMITS

_SHUTDOWN_SECONDS: Final = 1.0


class HttpRoutes:
    """What the fake daemon answers over HTTP, in the running event loop."""

    def __init__(self, daemon: FakeDaemon) -> None:
        self._daemon = daemon
        self._loop = asyncio.get_running_loop()
        app = web.Application(client_max_size=LIMITS.message_bytes)
        app.add_routes([web.post("/rpc", self._rpc), web.get("/ws", self._ws)])
        self._runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)

    async def start(self) -> None:
        """To be awaited before the first `protocol`."""
        await self._runner.setup()

    async def stop(self) -> None:
        await self._runner.cleanup()

    def protocol(self) -> asyncio.Protocol:
        """What one more connection speaks, from its first byte on."""
        if self._runner.server is None:
            raise ConnectionError("the fake daemon is stopping")
        return self._runner.server()

    async def _rpc(self, request: web.Request) -> web.Response:
        answered: asyncio.Future[bytes] = self._loop.create_future()

        def settle(line: bytes) -> None:
            if not answered.done():
                answered.set_result(line)

        peer = Peer(self._later(settle), lambda _: None, self._dropping(request))
        if not self._daemon.receive(await request.read(), peer):
            return web.Response(status=204)
        return web.Response(body=await answered, content_type="application/json")

    async def _ws(self, request: web.Request) -> web.WebSocketResponse:
        response = web.WebSocketResponse(max_msg_size=LIMITS.message_bytes)
        await response.prepare(request)
        outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        send = self._later(outgoing.put_nowait)
        peer = Peer(send, send, self._dropping(request))
        writer = asyncio.create_task(_write(response, outgoing))
        self._daemon.join(peer)
        try:
            async for message in response:
                if message.type is WSMsgType.TEXT:
                    self._daemon.receive(message.data.encode(), peer)
        finally:
            self._daemon.leave(peer)
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
        return response

    def _later(self, work: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """The same from any thread, in the order of the calls."""

        def called(line: bytes) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(work, line)

        return called

    def _dropping(self, request: web.Request) -> Callable[[], None]:
        def abort() -> None:
            if request.transport is not None:
                request.transport.abort()

        def called() -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(abort)

        return called


class HttpFace:
    """Speaks HTTP on sockets that the fake daemon has accepted, in an event loop of its own."""

    def __init__(self, daemon: FakeDaemon) -> None:
        self._daemon = daemon
        self._ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._main(),), name="wikid-fake-http", daemon=True)
        self._thread.start()
        self._ready.wait()

    def adopt(self, connection: socket.socket) -> None:
        """Serve `connection` from here on; nothing of it has been read yet."""
        connection.setblocking(False)
        asyncio.run_coroutine_threadsafe(self._adopt(connection), self._loop).result()

    def close(self) -> None:
        """End the event loop; the connections are broken already."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._routes = HttpRoutes(self._daemon)
        await self._routes.start()
        self._ready.set()
        await self._stop.wait()
        await self._routes.stop()

    async def _adopt(self, connection: socket.socket) -> None:
        await self._loop.connect_accepted_socket(self._routes.protocol, connection)


async def _write(response: web.WebSocketResponse, outgoing: asyncio.Queue[bytes]) -> None:
    while True:
        await response.send_str((await outgoing.get()).decode().rstrip("\n"))
