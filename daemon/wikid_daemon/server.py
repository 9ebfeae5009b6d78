"""The listening side: accept, count, drain, stop. What is said on a connection is the transport's business."""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog
from structlog.typing import FilteringBoundLogger

from wikid_daemon import stop_signals
from wikid_daemon.calls import Dispatcher, Face
from wikid_daemon.instance import BACKLOG, AlreadyRunning, Instance
from wikid_daemon.metrics import Meter
from wikid_daemon.transport.session import Switchboard
from wikid_daemon.transport.stream import Guest, Stream
from wikid_protocol.endpoint import EndpointRefused
from wikid_protocol.limits import LIMITS
from wikid_protocol.records import Limits

if sys.platform == "win32":
    from wikid_daemon.transport import pipe
if TYPE_CHECKING:
    from wikid_daemon.transport.http import HttpFace

DRAIN_MS: Final = 2_000
ENDPOINT_CHECK_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 1.0
_CLOSE_STEP_SECONDS: Final = 0.01

_log: FilteringBoundLogger = structlog.get_logger()


class Listener(Protocol):
    """Accepts connections until it is closed."""

    def close(self) -> None: ...


class Server:
    """Serves one claimed endpoint until `stop`, SIGTERM, SIGINT or a client's `shutdown`. `face` is what monitoring is
    told over HTTP."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        instance: Instance,
        *,
        limits: Limits = LIMITS,
        endpoint_check_seconds: float = ENDPOINT_CHECK_SECONDS,
        face: Face | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._instance = instance
        self._board = Switchboard(dispatcher, self.stop, limits, meter or Meter())
        self._face = face
        self._check_seconds = endpoint_check_seconds
        self._numbers = itertools.count(1)
        self._http: asyncio.Task[HttpFace] | None = None
        self._streams: set[Stream] = set()
        self._listener: Listener
        self._stir = self._board.idle
        self._stop_at: float | None = None

    @property
    def connections(self) -> int:
        """Connections open now."""
        return self._board.connections

    @property
    def calls_in_flight(self) -> int:
        return self._board.running

    @property
    def draining(self) -> bool:
        """Whether no more calls are taken, because the daemon is stopping."""
        return self._board.draining

    async def serve(self, ready: Callable[[], None] = lambda: None) -> None:
        """Bind, call `ready`, answer until told to stop, then drain and close. The lock stays with the instance."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_report)
        self._listener = await self._listen()
        forget_signals = stop_signals.watch(self._on_signal)
        watch = loop.create_task(self._keep_endpoint())
        try:
            _log.info("listening", endpoint=self._instance.endpoint)
            ready()
            while self._stop_at is None:
                await self._stirred(None)
        finally:
            watch.cancel()
            await self._close()
            forget_signals()

    def stop(self, drain_ms: int = DRAIN_MS) -> None:
        """Take no more calls, let those in flight finish for `drain_ms`, then cancel them. May be called again to
        hurry. In the event loop's thread."""
        at = asyncio.get_running_loop().time() + max(drain_ms, 0) / 1000
        self._stop_at = at if self._stop_at is None else min(at, self._stop_at)
        self._board.draining = True
        self._stir.set()

    def _on_signal(self, name: str) -> None:
        _log.info("stopping", signal=name)
        self.stop(DRAIN_MS if self._stop_at is None else 0)

    async def _listen(self) -> Listener:
        if sys.platform == "win32":
            return pipe.listen(self._instance.endpoint, self._instance.state, self._stream, self._board.limits)
        else:  # noqa: RET505 - for a type checker of either platform
            return await self._accept(self._instance.listen())

    async def _accept(self, listener: socket.socket) -> asyncio.Server:
        # from Python 3.13 on create_unix_server unlinks the socket file by itself; here that is the instance's task
        loop = asyncio.get_running_loop()
        return await loop.create_server(self._stream, sock=listener, backlog=BACKLOG)

    def _stream(self) -> Stream:
        return Stream(next(self._numbers), self._board, self._streams, self._guest)

    async def _guest(self) -> Guest:
        """For one more connection that speaks HTTP."""
        if self._http is None or (self._http.done() and self._http.exception() is not None):
            self._http = asyncio.get_running_loop().create_task(self._load_http())
        return (await asyncio.shield(self._http)).connect()

    async def _load_http(self) -> HttpFace:
        # aiohttp takes 15 MB and a fraction of a second, which a daemon without such clients saves
        module: Any = await asyncio.to_thread(import_module, "wikid_daemon.transport.http")
        http: HttpFace = module.HttpFace(self._board, self._face, self._numbers)
        await http.start()
        return http

    async def _keep_endpoint(self) -> None:
        """Bind again when the socket file was removed, for without it nobody can reach, or stop, this daemon."""
        told = ""
        while True:
            await asyncio.sleep(self._check_seconds)
            if not self._instance.lost():
                told = ""
                continue
            try:
                listener = await self._accept(self._instance.listen_again())
            except (OSError, EndpointRefused, AlreadyRunning) as error:
                if told != type(error).__name__:
                    told = type(error).__name__
                    _log.error("the socket file is lost and cannot be made again", error=told)
                continue
            self._listener.close()
            self._listener = listener
            _log.warning("the socket file was lost and is made again", endpoint=self._instance.endpoint)

    async def _close(self) -> None:
        loop = asyncio.get_running_loop()
        self._board.draining = True
        self._listener.close()
        self._instance.unlink()
        until = loop.time() if self._stop_at is None else self._stop_at
        while self._board.running and loop.time() < until:
            await self._stirred(until - loop.time())
            until = until if self._stop_at is None else self._stop_at
        for stream in list(self._streams):
            stream.end()
        until = loop.time() + _CLOSE_SECONDS
        while (self._streams or self._board.running) and loop.time() < until:
            await asyncio.sleep(_CLOSE_STEP_SECONDS)
        for stream in list(self._streams):
            stream.end(abort=True)
        _log.info("stopped", abandoned=self._board.running)

    async def _stirred(self, seconds: float | None) -> None:
        self._stir.clear()
        try:
            await asyncio.wait_for(self._stir.wait(), seconds)
        except TimeoutError:
            return


def _report(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    _log.error("the event loop reported a problem", exc_info=context.get("exception"))
