"""The HTTP face of the endpoint, by aiohttp: health, metrics, one call a request, and WebSockets (protocol, framing).

Imported when the first HTTP client comes, since most daemons never meet one. Every request that carries calls, and
every WebSocket, is a session of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final, cast

import structlog
from aiohttp import HttpVersion11, StreamReader, web
from structlog.typing import FilteringBoundLogger

from wikid_daemon.calls import Face
from wikid_daemon.transport.session import Session, Switchboard
from wikid_daemon.transport.websocket import WebSocketTalk, accept
from wikid_protocol import messages
from wikid_protocol.errors import RequestRefused
from wikid_protocol.records import Limits

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_HEAD_END: Final = b"\r\n\r\n"
_HANDSHAKE: Final = (
    "Upgrade",
    "Connection",
    "Sec-WebSocket-Key",
    "Sec-WebSocket-Version",
    "Sec-WebSocket-Protocol",
    "Sec-WebSocket-Extensions",
)
_HINT: Final = "GET /health, GET /metrics, POST /rpc and GET /ws are there"
_STATUSES: Final = {
    "timeout": HTTPStatus.REQUEST_TIMEOUT,
    "message_too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "internal": HTTPStatus.INTERNAL_SERVER_ERROR,
}
_REASONS: Final = {
    HTTPStatus.BAD_REQUEST: "this path takes WebSocket requests only",
    HTTPStatus.NOT_FOUND: "there is no such path",
    HTTPStatus.METHOD_NOT_ALLOWED: "this path takes another verb",
}

_log: FilteringBoundLogger = structlog.get_logger()


class HttpFace:
    """All that is served over HTTP. `face` is what monitoring is told; without one there are no paths for it."""

    def __init__(self, board: Switchboard, face: Face | None, numbers: Iterator[int]) -> None:
        self._board = board
        self._face = face
        self._numbers = numbers

    async def start(self) -> None:
        """To be awaited before the first `connect`."""
        application = web.Application(middlewares=[self._guard])
        if self._face is not None:
            application.router.add_get("/health", self._health, expect_handler=_expect)
            application.router.add_get("/metrics", self._metrics, expect_handler=_expect)
        application.router.add_post("/rpc", self._rpc, expect_handler=_expect)
        application.router.add_get("/ws", self._websocket, allow_head=False, expect_handler=_expect)
        runner = web.AppRunner(application, handler_cancellation=True)
        await runner.setup()
        self._server = cast(web.Server, runner.server)

    def connect(self) -> Connection:
        """The protocol for one more connection."""
        return Connection(self._server, self._board.limits)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        with _connection(request).answering():
            response = await self._outcome(request, handler)
            if self._board.draining:
                response.force_close()
            return response

    async def _outcome(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if "Origin" in request.headers:
            # no browser opens such a socket, but something may forward it to a port that one can reach
            return _refused(RequestRefused("invalid_request", "web pages cannot use wikid"), HTTPStatus.FORBIDDEN)
        try:
            return await handler(request)
        except RequestRefused as error:
            return _refused(error, _STATUSES.get(error.kind, HTTPStatus.BAD_REQUEST))
        except web.HTTPException as error:
            reason = _REASONS.get(HTTPStatus(error.status), error.reason)
            response = _refused(RequestRefused("invalid_request", reason, hint=_HINT), error.status)
            response.headers.update({name: value for name, value in error.headers.items() if name == "Allow"})
            return response
        except ConnectionError:
            raise  # the client is gone: aiohttp knows what to do
        except Exception as error:  # noqa: BLE001 - any fault is one answer and one line in the log
            _log.error("a request failed", exc_info=error)
            return _failed()

    async def _health(self, _request: web.Request) -> web.Response:
        face = cast(Face, self._face)
        status = HTTPStatus.SERVICE_UNAVAILABLE if self._board.draining else HTTPStatus.OK
        return _json(messages.encode(await face.health()), status)

    async def _metrics(self, _request: web.Request) -> web.Response:
        body, content_type = await cast(Face, self._face).metrics()
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _rpc(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        exchange = _Exchange()
        session = Session(next(self._numbers), self._board, exchange, events=False)
        try:
            with _connection(request).talking(session.cancel_all):
                session.receive(body)
                await session.settled()
        finally:
            session.cancel_all()
        if exchange.line is None:
            return web.Response(status=HTTPStatus.NO_CONTENT)
        return _json(exchange.line)

    async def _body(self, request: web.Request) -> bytes:
        limits = self._board.limits
        if (request.content_length or 0) > limits.message_bytes:
            raise _too_large(limits)
        body = bytearray()
        try:
            with _connection(request).reading(request.content):
                async with asyncio.timeout(limits.frame_seconds):
                    async for piece in request.content.iter_any():
                        body += piece
                        if len(body) > limits.message_bytes:
                            raise _too_large(limits)
        except TimeoutError:
            raise RequestRefused("timeout", f"a message must be finished in {limits.frame_seconds} s") from None
        except web.RequestPayloadError:
            raise RequestRefused("parse_error", "the body of the request cannot be read") from None
        return bytes(body)

    async def _websocket(self, request: web.Request) -> web.WebSocketResponse:
        if not all(value.isascii() for name in _HANDSHAKE for value in request.headers.getall(name, ())):
            # aiohttp fails over what it cannot encode, instead of refusing it
            raise RequestRefused("invalid_request", "the headers of a WebSocket handshake are ASCII")
        socket = accept(self._board.limits.message_bytes)
        await socket.prepare(request)
        transport = request.transport
        if transport is not None:
            talk = WebSocketTalk(next(self._numbers), self._board, socket, transport)
            with _connection(request).talking(talk.end, talk.heard, lambda: talk.in_flight):
                await talk.run()
        return socket


class Connection(web.RequestHandler):
    """aiohttp's side of one client, and what the stream that carries it asks of a guest.

    A client has `frame_seconds` for the headers of its first request, and as long between requests.
    """

    def __init__(self, server: web.Server, limits: Limits) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.frame_seconds,
            lingering_time=limits.frame_seconds,
            tcp_keepalive=False,
            auto_decompress=False,
            access_log=None,  # type: ignore[arg-type]  # as its documentation says
        )
        self._in_flight = 0
        self._last_bytes = b""
        self._end_talk: Callable[[], None] = _nothing
        self._heard: Callable[[], None] = _nothing
        self._unanswered: Callable[[], int] | None = None
        self._reading: StreamReader | None = None
        self._finished = self._cut_short = False

    @property
    def in_flight(self) -> int:
        """Requests being answered, 1 at most; of an open WebSocket its calls."""
        return self._in_flight if self._unanswered is None else self._unanswered()

    def data_received(self, data: bytes) -> None:
        self._last_bytes = data[-len(_HEAD_END) :]
        self._heard()
        super().data_received(data)

    def eof_received(self) -> None:
        """A body that was begun will never be whole: who waits for the rest is told so."""
        self._finished = True
        if self._reading is not None and not self._reading.is_eof():
            self._cut_short = True
            self._reading.feed_eof()  # not an exception, which aiohttp would find again and report

    def end(self) -> None:
        """End the calls in flight and close when their answers are sent."""
        self._end_talk()
        if not self._in_flight:
            self.force_close()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """While a request is being answered."""
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    @contextmanager
    def reading(self, body: StreamReader) -> Iterator[None]:
        """While the body of a request is taken in. RequestPayloadError where it ends before its time."""
        self._reading = body
        if self._finished:
            self.eof_received()
        try:
            yield
            if self._cut_short:
                raise web.RequestPayloadError
        finally:
            self._reading = None

    @contextmanager
    def talking(
        self,
        end: Callable[[], None],
        heard: Callable[[], None] | None = None,
        unanswered: Callable[[], int] | None = None,
    ) -> Iterator[None]:
        """While a session is open: `end` ends its calls, `heard` is told of every arrival of bytes, and `unanswered`
        counts what is still to be said to a client that sends no more."""
        self._end_talk, self._heard, self._unanswered = end, heard or _nothing, unanswered
        if self._last_bytes != _HEAD_END:
            self._heard()  # more than the request's head has come in
        try:
            yield
        finally:
            self._end_talk = self._heard = _nothing
            self._unanswered = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it quotes the request
    ) -> web.StreamResponse:
        """What is no HTTP, or broke outside of every handler, gets an error like any other instead of a page."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun")
        if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            response = _refused(RequestRefused("parse_error", "the request is not valid HTTP"), status)
        else:
            _log.error("a request failed", exc_info=exc)
            response = _failed()
        response.force_close()
        return response


class _Exchange:
    """The Output of a session that has one answer, or none: there is nobody to tell of anything else."""

    def __init__(self) -> None:
        self.line: bytes | None = None

    def answer(self, line: bytes) -> None:
        self.line = line

    def event(self, line: bytes) -> bool:  # noqa: ARG002
        return False


async def _expect(request: web.Request) -> web.StreamResponse | None:
    """Tell a client that waits for it to send its body; other expectations are refused in JSON, like all else."""
    if request.version != HttpVersion11:
        return None  # older clients know of no such thing
    if request.headers["Expect"].lower() != "100-continue":
        error = RequestRefused("invalid_request", "there is no such expectation")
        return _refused(error, HTTPStatus.EXPECTATION_FAILED)
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # what was written belongs to no answer, which begins after it
    request.writer.output_size = 0
    return None


def _connection(request: web.Request) -> Connection:
    return cast(Connection, request.protocol)


def _json(line: bytes, status: int = HTTPStatus.OK) -> web.Response:
    return web.Response(body=line, status=status, content_type="application/json")


def _refused(error: RequestRefused, status: int) -> web.Response:
    return _json(messages.failure(None, error), status)


def _failed() -> web.Response:
    return _refused(RequestRefused("internal", "wikid failed; its log has why"), HTTPStatus.INTERNAL_SERVER_ERROR)


def _too_large(limits: Limits) -> RequestRefused:
    return RequestRefused("message_too_large", f"a message may have at most {limits.message_bytes} bytes")


def _nothing() -> None:
    pass
