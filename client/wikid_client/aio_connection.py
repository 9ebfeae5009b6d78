"""One WebSocket to the daemon and the calls in flight over it. It is opened once, and never again once it is lost."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

try:
    import aiohttp
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "wikid's asynchronous client needs aiohttp; run: pip install 'wikid-memory[async]'", name="aiohttp"
    ) from missing

from wikid_client.caller import OnProgress, given, line_of, message_of, progress_of, token_of
from wikid_client.transport import ConnectionLost, check_peer, too_slow
from wikid_protocol.errors import DaemonFailed, RequestRefused
from wikid_protocol.limits import LIMITS
from wikid_protocol.messages import notification

if sys.platform == "win32":
    from wikid_client import aio_pipe

Message = dict[str, Any]
Arrival = Callable[[Message], None]
Listener = Callable[[Message | None], None]
"""Takes each notification of a subscription, and None when the connection is lost."""

_URL: Final = "http://wikid/ws"
_CLOSE_SECONDS: Final = 1.0
_RESTART: Final = "wikid restart"


class NobodyListens(Exception):
    """Nothing accepts a connection at the socket."""


class NeverSent(ConnectionLost):
    """The connection was lost before the call was sent: it may be made again, whatever it does."""


@dataclass(slots=True)
class _Waiting:
    """A call in flight. `end` takes its answer, or the error that ends it."""

    end: asyncio.Future[Message | Exception]
    progress: OnProgress | None
    arrived: Arrival | None


class Connection:
    """Sends calls and hands out what comes: answers by id, progress by token, notifications by subscription."""

    def __init__(self, session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._session = session
        self._socket = socket
        self._calls = 0
        self._waiting: dict[int, _Waiting] = {}
        self._slots = asyncio.Semaphore(1)
        self._errands: set[asyncio.Task[None]] = set()
        self._reader = asyncio.create_task(self._read(), name="wikid-reader")
        self.failure: DaemonFailed | None = None
        self.listeners: dict[str, Listener] = {}  # by the id of the subscription

    async def call(
        self, method: str, params: Message, progress: OnProgress | None = None, arrived: Arrival | None = None
    ) -> Message:
        """The answer. Cancelling the caller cancels the call in the daemon too.

        `arrived` is given the answer before the next message is read. ConnectionLost, NeverSent, DaemonFailed.
        """
        async with self._slots:
            if not self.alive:
                lost = self.failure or _lost()
                raise NeverSent(lost.message, hint=lost.hint)
            self._calls += 1
            call_id = self._calls
            token = None if progress is None else token_of(call_id)
            line = line_of(call_id, method, given(params, token))
            waiting = _Waiting(asyncio.get_running_loop().create_future(), progress, arrived)
            self._waiting[call_id] = waiting
            try:
                await self._send(line)
                answer = await waiting.end
            finally:
                if self._waiting.pop(call_id, None) is not None:
                    self.run_errand(self._cancel(call_id))
            if isinstance(answer, Exception):
                raise answer
            return answer

    @property
    def alive(self) -> bool:
        """Can calls be made over it, as far as is known without waiting?"""
        return self.failure is None and not _hung_up(self._socket)

    def allow(self, calls: int) -> None:
        """How many calls the daemon takes at once; more than these wait here. To be told before the first of them."""
        self._slots = asyncio.Semaphore(calls)

    async def close(self) -> None:
        """Say goodbye and drop the connection; the calls in flight end as lost."""
        with suppress(DaemonFailed):
            async with bounded(_CLOSE_SECONDS):
                await self._socket.close()
        self._reader.cancel()
        for errand in self._errands:
            errand.cancel()
        await asyncio.gather(self._reader, *self._errands, return_exceptions=True)
        await self._session.close()

    def run_errand(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the calls, whose end nobody waits for but `close`."""
        task = asyncio.create_task(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _cancel(self, call_id: int) -> None:
        with suppress(ConnectionLost):  # a lost connection has cancelled its calls
            await self._send(notification("$/cancelRequest", {"id": call_id}))

    async def _send(self, line: bytes) -> None:
        try:
            await self._socket.send_str(line.decode().rstrip("\n"))
        except (OSError, aiohttp.ClientError) as error:
            raise self.failure or _lost() from error

    async def _read(self) -> None:
        failure: DaemonFailed = _lost()
        try:
            async for frame in self._socket:
                if frame.type is not aiohttp.WSMsgType.TEXT:
                    failure = DaemonFailed("the daemon sent a message that is none of the protocol's", hint=_RESTART)
                    break
                self._take(message_of(frame.data.encode()))
        except DaemonFailed as error:
            failure = error
        finally:
            self._end(failure)
            await self._socket.close()
            await self._session.close()

    def _end(self, failure: DaemonFailed) -> None:
        self.failure = failure
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            _settle(each, failure)
        for listener in list(self.listeners.values()):
            listener(None)

    def _take(self, message: Message) -> None:
        if message.get("method") == "$/progress":
            self._progressed(message)
        elif "method" in message:
            self._notified(message)
        elif (call_id := message.get("id")) is None:
            raise DaemonFailed(f"the daemon refuses this connection: {RequestRefused.from_wire(message.get('error'))}")
        elif (waiting := self._waiting.pop(call_id, None)) is not None:
            if waiting.arrived is not None:
                waiting.arrived(message)
            _settle(waiting, message)

    def _progressed(self, message: Message) -> None:
        for call_id, waiting in list(self._waiting.items()):
            if waiting.progress is None or (step := progress_of(message, token_of(call_id))) is None:
                continue
            try:
                waiting.progress(step)
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the one who made the call
                _settle(waiting, error)

    def _notified(self, message: Message) -> None:
        params = message.get("params")
        subscription = params.get("subscription") if isinstance(params, dict) else None
        listener = self.listeners.get(subscription) if isinstance(subscription, str) else None
        if listener is not None:
            listener(message)


async def open_connection(path: Path, seconds: float) -> Connection:
    """Connect to the socket, or through the pipe, at `path`. NobodyListens, DaemonNotRunning where it is another
    user's, DaemonFailed, also where the pipe has no room within `seconds`."""
    session = aiohttp.ClientSession(
        connector=_connector(path, seconds),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),  # calls have time-outs of their own
    )
    try:
        return Connection(session, await _upgrade(session, path))
    except BaseException:
        await session.close()
        raise


async def _upgrade(session: aiohttp.ClientSession, path: Path) -> aiohttp.ClientWebSocketResponse:
    try:
        socket = await session.ws_connect(_URL, max_msg_size=LIMITS.message_bytes)
    except aiohttp.ClientConnectorError as error:
        raise NobodyListens from error
    except aiohttp.WSServerHandshakeError as error:
        raise DaemonFailed(f"the daemon opens no WebSocket (HTTP status {error.status})", hint=_RESTART) from error
    except (OSError, aiohttp.ClientError) as error:
        raise _lost() from error
    _check_peer(socket, path)
    return socket


def _connector(path: Path, seconds: float) -> aiohttp.BaseConnector:
    if sys.platform == "win32":
        return aio_pipe.connector(path, seconds)
    else:  # noqa: RET505 - for a type checker of either platform
        return aiohttp.UnixConnector(path=os.fspath(path))


def _check_peer(socket: aiohttp.ClientWebSocketResponse, path: Path) -> None:
    """Before anything private is sent. Of a pipe it was done when that was opened."""
    if sys.platform != "win32":
        check_peer(socket.get_extra_info("socket"), path)


@asynccontextmanager
async def bounded(seconds: float) -> AsyncIterator[None]:
    """Cancels what is inside after `seconds`, and says so as the blocking client does: DaemonFailed."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise too_slow() from None


def _hung_up(socket: aiohttp.ClientWebSocketResponse) -> bool:
    """Has the other end gone, though the event loop has not come to see it yet?"""
    if sys.platform == "win32":
        return aio_pipe.is_gone(socket)
    else:  # noqa: RET505 - for a type checker of either platform
        plain = socket.get_extra_info("socket")
        if plain is None or plain.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(plain.fileno(), 0)  # hanging up is told without being asked for
        return bool(poll.poll(0))


def _settle(waiting: _Waiting, end: Message | Exception) -> None:
    if not waiting.end.done():  # its caller may have been cancelled in the same turn of the loop
        waiting.end.set_result(end)


def _lost() -> ConnectionLost:
    return ConnectionLost("the daemon closed the connection", hint="call again")
