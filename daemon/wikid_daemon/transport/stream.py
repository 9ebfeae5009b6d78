"""One connection: choose its framing by the first bytes, keep it within limits, hand whole messages to a session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Literal, Protocol, cast

import structlog
from structlog.typing import FilteringBoundLogger

from wikid_daemon.transport.headers import HeaderFraming
from wikid_daemon.transport.lines import LineFraming
from wikid_daemon.transport.peer import CredentialSocket, hung_up, own_uid, peer_uid
from wikid_daemon.transport.session import BUSY_RETRY_MS, Session, Switchboard
from wikid_protocol.errors import RequestRefused
from wikid_protocol.records import Limits

UNREAD_OUTPUT_BYTES: Final = 1_000_000
"""Unread output from which on events are dropped, no input is taken, and the client has `frame_seconds` to catch up."""
FRAMES_A_TURN: Final = 64
BLANK: Final = b" \t\r\n"
"""What may come before a connection's first message, as between two lines."""
_HALF_CLOSED_SECONDS: Final = 0.1

_log: FilteringBoundLogger = structlog.get_logger()


class Framing(Protocol):
    """Bytes → messages, and one message → bytes."""

    @property
    def pending(self) -> bool: ...

    def feed(self, data: bytes) -> Iterator[bytes]: ...

    def encode(self, line: bytes) -> bytes: ...


class Guest(Protocol):
    """A library's own `asyncio.Protocol`, for what is no messages alone. The stream carries it and keeps the limits."""

    @property
    def in_flight(self) -> int: ...

    def connection_made(self, transport: asyncio.Transport) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def eof_received(self) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, exc: BaseException | None) -> None: ...

    def end(self) -> None:
        """End the calls in flight and close when their answers are sent."""
        ...


def most_unread(limits: Limits) -> int:
    """Bytes that may wait for a client, which has `frame_seconds` to take them: each call it may have in flight is
    answered, and no more are taken from it once `UNREAD_OUTPUT_BYTES` wait. More than this is a fault."""
    return limits.calls_in_flight * limits.answer_bytes + UNREAD_OUTPUT_BYTES


FramingName = Literal["lines", "headers", "http"]
_VERBS: Final = (b"GET ", b"POST ", b"HEAD ", b"PUT ", b"PATCH ", b"DELETE ", b"OPTIONS ", b"TRACE ", b"CONNECT ")
_MARKS: Final[dict[bytes, FramingName]] = {
    b"{": "lines",
    b"[": "lines",
    b"content-": "headers",
    **dict.fromkeys(_VERBS, "http"),
}


def choose_framing(head: bytes) -> FramingName | None:
    """The framing that a connection's first bytes ask for; None while they are too few to tell. RequestRefused
    `parse_error` where they begin nothing known."""
    undecided = False
    for mark, name in _MARKS.items():
        # headers are written in any case, verbs in capitals only
        given = head[: len(mark)].lower() if name == "headers" else head[: len(mark)]
        if given == mark:
            return name
        undecided = undecided or mark.startswith(given)
    if undecided:
        return None
    raise RequestRefused("parse_error", "a connection must begin with a JSON object or array, a header, or HTTP")


class Stream(asyncio.Protocol):
    """A connection from accept to close. `streams` is the set of all open ones, where it adds and removes itself;
    `http` makes the guest for a client that speaks HTTP."""

    def __init__(
        self, number: int, board: Switchboard, streams: set[Stream], http: Callable[[], Awaitable[Guest]]
    ) -> None:
        self._number = number
        self._board = board
        self._streams = streams
        self._http = http
        self._limits = board.limits
        self._loop = asyncio.get_running_loop()
        self._session = Session(number, board, self)
        self._head = b""
        self._framing: Framing | None = None
        self._guest: Guest | None = None
        self._inviting: asyncio.Task[None] | None = None
        self._frames: Iterator[bytes] = iter(())
        self._deadline: asyncio.TimerHandle | None = None
        self._deaf = False
        self._congested = False
        self._dropped_events = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=UNREAD_OUTPUT_BYTES, low=UNREAD_OUTPUT_BYTES // 2)
        self._socket: CredentialSocket = transport.get_extra_info("socket")
        if not self._peer_is_us():
            self._deaf = True
            self._transport.abort()
            return
        if self._board.connections >= self._limits.connections:
            text = f"the daemon has {self._limits.connections} connections"
            error = RequestRefused("busy", text, hint="close one", retry_after_ms=BUSY_RETRY_MS)
            self._deaf = True
            self.answer(self._session.refusal(None, error))
            self._transport.close()
            return
        self._board.connections += 1
        self._streams.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deaf = True
        self._frames = iter(())
        self._disarm()
        if self in self._streams:
            self._streams.remove(self)
            self._board.connections -= 1
        self._session.cancel_all()
        if self._inviting is not None:
            self._inviting.cancel()
        if self._guest is not None:
            self._guest.connection_lost(exc)
        if self._dropped_events:
            _log.warning("a client did not read its events", connection=self._number, count=self._dropped_events)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._guest is not None:
            self._guest.data_received(data)
        elif self._framing is not None:
            self._frames = self._framing.feed(data)
            self._take_turn()
        else:
            self._begin(self._head + data)

    def _begin(self, head: bytes) -> None:
        try:
            head = head.lstrip(BLANK)
            name = choose_framing(head)
        except RequestRefused as error:
            self._refuse(error)
            return
        if name == "http":
            self._disarm()
            self._head = b""
            self._transport.pause_reading()
            self._inviting = self._loop.create_task(self._invite(head))
        elif name is not None:
            make = LineFraming if name == "lines" else HeaderFraming
            self._head, self._framing = b"", make(self._limits.message_bytes)
            self._frames = self._framing.feed(head)
            self._take_turn()
        else:
            self._head = head
            self._watch_frame(0)

    async def _invite(self, head: bytes) -> None:
        """Hand the connection on to HTTP, beginning with what has come in already."""
        try:
            guest = await self._http()
        except Exception as error:  # noqa: BLE001 - a broken installation must not take the other framings along
            _log.error("HTTP cannot be served", exc_info=error)
            self._transport.abort()
            return
        self._inviting = None
        if self._transport.is_closing():
            return
        self._guest = guest
        guest.connection_made(self._transport)
        self._transport.resume_reading()
        guest.data_received(head)

    def eof_received(self) -> bool:
        """A client that only finished sending still gets its answers; one that is gone has its calls cancelled."""
        if self._pending and not self._deaf:
            self._refuse(RequestRefused("parse_error", "the last message was not finished"))
        if self._guest is not None:
            self._guest.eof_received()
        if self._guest is None or hung_up(self._socket):
            self._close_when_answered()
        else:  # a request that has just come in is not in flight before a guest has had its turn
            self._loop.call_later(_HALF_CLOSED_SECONDS, self._close_when_answered)
        return True

    def pause_writing(self) -> None:
        if self._deaf:
            return
        self._congested = True
        if self._guest is not None:
            self._guest.pause_writing()
        else:
            self._transport.pause_reading()
        self._arm("a client did not read its answers")

    def resume_writing(self) -> None:
        if self._deaf:
            return
        self._congested = False
        self._disarm()
        if self._guest is not None:
            self._guest.resume_writing()
        else:
            self._take_turn()

    def answer(self, line: bytes) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(self._encoded(line))
        if self._transport.get_write_buffer_size() > most_unread(self._limits):
            self._give_up("a client did not read its answers")

    def event(self, line: bytes) -> bool:
        if self._congested:
            self._dropped_events += 1
            return False
        if self._transport.is_closing():
            return False
        self._transport.write(self._encoded(line))
        return True

    def end(self, *, abort: bool = False) -> None:
        """End the calls in flight, send what is written, and close; with `abort` close at once."""
        self._session.cancel_all()
        if abort:
            self._transport.abort()
        elif self._guest is not None:
            self._guest.end()
        else:
            self._transport.close()

    @property
    def _pending(self) -> bool:
        return bool(self._head) if self._framing is None else self._framing.pending

    @property
    def _in_flight(self) -> int:
        return self._session.in_flight if self._guest is None else self._guest.in_flight

    def _encoded(self, line: bytes) -> bytes:
        return line if self._framing is None else self._framing.encode(line)

    def _peer_is_us(self) -> bool:
        try:
            uid = peer_uid(self._socket)
        except OSError as error:
            _log.warning("a peer without credentials was refused", error=type(error).__name__, errno=error.errno)
            return False
        if uid != own_uid():
            _log.warning("another user was refused", uid=uid)
            return False
        return True

    def _takes_input(self) -> bool:
        return not (self._deaf or self._congested)

    def _take_turn(self) -> None:
        """Hand on at most `FRAMES_A_TURN` messages, then let the other connections have theirs."""
        if not self._takes_input():
            return  # a turn that was put off may find the client behind with reading, and comes again once it is not
        taken = 0
        try:
            for frame in self._frames:
                self._session.receive(frame)
                taken += 1
                if not self._takes_input():
                    return
                if taken == FRAMES_A_TURN:
                    self._transport.pause_reading()
                    self._loop.call_soon(self._take_turn)
                    return
        except RequestRefused as error:
            self._refuse(error)
            return
        self._transport.resume_reading()
        self._watch_frame(taken)

    def _watch_frame(self, taken: int) -> None:
        pending = self._pending
        if self._deadline is not None and (taken or not pending):
            self._disarm()
        if pending and self._deadline is None:
            self._deadline = self._loop.call_later(self._limits.frame_seconds, self._frame_late)

    def _frame_late(self) -> None:
        self._deadline = None
        text = f"a message must be finished in {self._limits.frame_seconds} s"
        self._refuse(RequestRefused("timeout", text))

    def _refuse(self, error: RequestRefused) -> None:
        """Say why and close. What still comes in is thrown away for a while, so that a client in the middle of sending
        gets to read the reason instead of a broken pipe."""
        self._deaf = True
        self._frames = iter(())
        self._session.cancel_all()
        self.answer(self._session.refusal(None, error))
        if not self._transport.is_closing():
            if self._transport.can_write_eof():
                self._transport.write_eof()
            else:
                self._transport.close()  # a pipe is only closed whole; left open, it would swallow the next call
            self._transport.resume_reading()
            self._arm("a refused client did not close")

    def _close_when_answered(self) -> None:
        if self._transport.is_closing():
            return
        if hung_up(self._socket):
            self._transport.abort()
        elif self._in_flight == 0:
            self._transport.close()
        else:
            self._loop.call_later(_HALF_CLOSED_SECONDS, self._close_when_answered)

    def _arm(self, why: str) -> None:
        self._disarm()
        self._deadline = self._loop.call_later(self._limits.frame_seconds, self._give_up, why)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self, why: str) -> None:
        _log.warning(why, connection=self._number)
        self._transport.abort()
