"""The whole protocol over a WebSocket: one message a text frame, either way."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

import structlog
from aiohttp import WSCloseCode, WSMsgType, web
from structlog.typing import FilteringBoundLogger

from wikid_daemon.transport.session import Session, Switchboard
from wikid_daemon.transport.stream import FRAMES_A_TURN, UNREAD_OUTPUT_BYTES, most_unread
from wikid_protocol.errors import RequestRefused

HEARTBEAT_SECONDS: Final = 30.0
"""How long a client may be silent before it is asked whether it is there; it has half as long to say so."""
_GOODBYE_SECONDS: Final = 1.0

_log: FilteringBoundLogger = structlog.get_logger()


def accept(limit: int) -> web.WebSocketResponse:
    """The answer that turns a request into a WebSocket, for messages of at most `limit` bytes."""
    return web.WebSocketResponse(
        timeout=_GOODBYE_SECONDS,
        autoping=False,  # so that every frame is seen here, and none can seem unfinished
        heartbeat=HEARTBEAT_SECONDS,
        compress=False,
        max_msg_size=limit,
    )


class WebSocketTalk:
    """One client's conversation, and the Output of its session. `transport` is what the open `socket` is written to.

    What is to be sent waits in a queue for the one task that sends, since a WebSocket may have to wait for its reader.
    """

    def __init__(
        self, number: int, board: Switchboard, socket: web.WebSocketResponse, transport: asyncio.Transport
    ) -> None:
        self._number = number
        self._limits = board.limits
        self._socket = socket
        self._transport = transport
        self._session = Session(number, board, self)
        self._lines: deque[bytes] = deque()
        self._queued = 0
        self._wake = asyncio.Event()
        self._all_sent = asyncio.Event()
        self._goodbye: tuple[WSCloseCode, bytes] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._dropped_events = 0

    async def run(self) -> None:
        """Talk until either side closes."""
        sending = asyncio.get_running_loop().create_task(self._send())
        try:
            await self._listen()
            if self._goodbye is None:
                sending.cancel()
            await asyncio.wait({sending})
        finally:
            sending.cancel()
            self._disarm()
            self._session.cancel_all()
            if self._dropped_events:
                _log.warning("a client did not read its events", connection=self._number, count=self._dropped_events)

    @property
    def in_flight(self) -> int:
        """Calls being answered, and answers that wait to be sent."""
        return self._session.in_flight + len(self._lines)

    def heard(self) -> None:
        """Bytes came in: the frame they belong to must be finished in time."""
        if self._deadline is None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(self._limits.frame_seconds, self._frame_late)

    def end(self) -> None:
        """End the calls in flight, send what waits, and close."""
        self._session.cancel_all()
        self._close(WSCloseCode.GOING_AWAY, b"the daemon is stopping")

    def answer(self, line: bytes) -> None:
        self._put(line)
        if self._unread > most_unread(self._limits):
            _log.warning("a client did not read its answers", connection=self._number)
            self._transport.abort()

    def event(self, line: bytes) -> bool:
        if self._unread > UNREAD_OUTPUT_BYTES:
            self._dropped_events += 1
            return False
        if self._transport.is_closing():
            return False
        self._put(line)
        return True

    @property
    def _unread(self) -> int:
        return self._queued + self._transport.get_write_buffer_size()

    def _put(self, line: bytes) -> None:
        self._lines.append(line)
        self._queued += len(line)
        self._all_sent.clear()
        self._wake.set()

    async def _listen(self) -> None:
        taken = 0
        while True:
            await self._all_sent.wait()  # no input is taken from a client that does not read
            message = await self._socket.receive()
            self._disarm()
            if message.type is WSMsgType.TEXT:
                self._session.receive(message.data.encode())
            elif message.type is WSMsgType.PING:
                await self._socket.pong(message.data)
            elif message.type is WSMsgType.BINARY:
                self._close(WSCloseCode.UNSUPPORTED_DATA, b"a message is a text frame")
            elif message.type is not WSMsgType.PONG:
                return
            taken += 1
            if taken % FRAMES_A_TURN == 0:
                await asyncio.sleep(0)  # what has already come in is received without ever waiting

    async def _send(self) -> None:
        try:
            while True:
                while self._lines:
                    line = self._lines.popleft()
                    self._queued -= len(line)
                    await self._socket.send_str(line[:-1].decode())
                if self._goodbye is not None:
                    code, reason = self._goodbye
                    await self._socket.close(code=code, message=reason)
                    return
                self._all_sent.set()
                self._wake.clear()
                await self._wake.wait()
        except ConnectionError:
            return  # the client is gone, which ends the listening too
        finally:
            self._all_sent.set()

    def _close(self, code: WSCloseCode, reason: bytes) -> None:
        if self._goodbye is None:
            self._goodbye = code, reason
            self._wake.set()

    def _frame_late(self) -> None:
        self._deadline = None
        text = f"a message must be finished in {self._limits.frame_seconds} s"
        self.answer(self._session.refusal(None, RequestRefused("timeout", text)))
        self._close(WSCloseCode.POLICY_VIOLATION, b"a message was not finished")

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
