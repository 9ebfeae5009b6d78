"""One client's conversation, whatever its framing: calls, batches, cancellation, progress (protocol, Messages)."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog
from structlog.typing import FilteringBoundLogger

from wikid_daemon.calls import CallContext, Dispatcher, ProgressKind
from wikid_daemon.log import CALL
from wikid_daemon.metrics import ANSWERED, UNKNOWN_METHOD, Meter
from wikid_protocol import messages
from wikid_protocol.decode import DecodeError, decode
from wikid_protocol.errors import RequestRefused
from wikid_protocol.limits import LIMITS, OLDEST_PROTOCOL, PROTOCOL_VERSION
from wikid_protocol.messages import BadCall, Call, CallId
from wikid_protocol.methods import METHODS, InitializeParams, Method, ProtocolRange, ShutdownParams
from wikid_protocol.records import Done, Limits

CANCEL: Final = "$/cancelRequest"
PROGRESS: Final = "$/progress"
BUSY_RETRY_MS: Final = 250

Reply = Callable[[CallId, bytes], None]
"""Takes the id of the call and its answer as a line, which is empty for a notification."""

_log: FilteringBoundLogger = structlog.get_logger()
_run_mark: Final = secrets.token_hex(3)


class Output(Protocol):
    """Where a session's messages go, each one whole line. Both are called in the event loop's thread only."""

    def answer(self, line: bytes) -> None: ...

    def event(self, line: bytes) -> bool:
        """Like `answer`, but dropped when the client does not read; False where it was."""
        ...


@dataclass(slots=True)
class Switchboard:
    """What all sessions share. `running` counts the calls in flight, `connections` those who may make them;
    `idle` is set when the last call ends while `draining`."""

    dispatcher: Dispatcher
    stop: Callable[[int], None]
    limits: Limits = LIMITS
    meter: Meter = field(default_factory=Meter)
    running: int = 0
    connections: int = 0
    draining: bool = False
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def finished(self) -> None:
        self.running -= 1
        if self.draining and self.running == 0:
            self.idle.set()


class Session:
    """Turns messages into calls and their results into answers. Lives in the event loop's thread.

    With `events` False, as for a request that has one answer and no more, nothing can be subscribed to.
    """

    def __init__(self, connection_id: int, board: Switchboard, output: Output, *, events: bool = True) -> None:
        self._connection_id = connection_id
        self._board = board
        self._output = output
        self._events = events
        self._over = False
        self._at_end: list[Callable[[], None]] = []
        self._session: str | None = None
        self._count = 0
        self._running: set[_Running] = set()
        self._by_id: dict[CallId, _Running] = {}
        self._waiting: deque[tuple[object, _Batch]] = deque()

    @property
    def in_flight(self) -> int:
        return len(self._running) + len(self._waiting)

    async def settled(self) -> None:
        """Return once no call is in flight."""
        while self._running:
            await asyncio.wait([each.task for each in self._running])

    def receive(self, frame: bytes) -> None:
        """One whole message. Every fault in it becomes an error answer."""
        try:
            value = messages.parse(frame)
            if not isinstance(value, list):
                self._accept(value, self._reply)
                return
            if not 0 < len(value) <= self._board.limits.queue:
                raise RequestRefused("invalid_request", f"a batch has 1 to {self._board.limits.queue} calls")
        except RequestRefused as error:
            self._output.answer(self.refusal(None, error))
            return
        batch = _Batch(len(value), self._board.limits.answer_bytes, self._output.answer, self.refusal)
        for each in value:
            self._take_member(each, batch)
        batch.seal()

    def refusal(self, call_id: CallId, error: RequestRefused) -> bytes:
        """The error answer for what never became a call, under a mark that the log knows as well."""
        mark = self._next_mark()
        _log.debug("a refusal", call=mark, kind=error.kind)
        return messages.failure(call_id, error, mark)

    def cancel_all(self) -> None:
        """The conversation is over: end every call in flight, tell its worker, and end what was subscribed to."""
        self._over = True
        while self._waiting:
            self._drop(*self._waiting.popleft())
        for running in list(self._running):
            self._cancel(running)
        ending, self._at_end = self._at_end, []
        for work in ending:
            work()

    def notify(self, method: str, params: object) -> bool:
        """Send a notification; False where it is dropped, because the client does not read or is gone."""
        sent = not self._over and self._output.event(messages.notification(method, params))
        self._board.meter.event(sent=sent)
        return sent

    def at_end(self, work: Callable[[], None]) -> None:
        """Call `work` when the conversation is over; at once where it is."""
        if self._over:
            work()
        else:
            self._at_end.append(work)

    def _take_member(self, value: object, batch: _Batch) -> None:
        """A member of a batch begins now, or waits for room. Only one batch may wait, so that what waits is never more
        than one message."""
        if self._is_full and not _is_cancellation(value) and (not self._waiting or self._waiting[-1][1] is batch):
            self._waiting.append((value, batch))
        else:
            self._accept(value, batch.add)

    @property
    def _is_full(self) -> bool:
        # one that is cancelled has been answered a moment before its task ends
        return sum(not each.answered for each in self._running) >= self._board.limits.calls_in_flight

    def _drop(self, value: object, batch: _Batch) -> None:
        """A member that waited is cancelled before it began."""
        call = messages.read_call(value)
        silent = isinstance(call, Call) and call.notification
        batch.add(call.id, b"" if silent else self.refusal(call.id, _cancelled()))

    def _next_mark(self) -> str:
        self._count += 1
        return f"{_run_mark}-{self._connection_id}-{self._count}"

    def _reply(self, _call_id: CallId, line: bytes) -> None:
        if line:
            self._output.answer(line)

    def _accept(self, value: object, reply: Reply) -> None:
        call = messages.read_call(value)
        if isinstance(call, BadCall):
            self._board.meter.refused(UNKNOWN_METHOD, call.error.kind)
            reply(call.id, self.refusal(call.id, call.error))
            return
        if _is_cancellation(value):
            self._cancel_id(call.params.get("id"))
            reply(None, b"")
            return
        try:
            method = self._admit(call)
            params = _decode(method, call)
            if isinstance(params, InitializeParams):
                _check_protocol(params.protocol)
                self._session = params.session or None
        except RequestRefused as error:
            known = call.method if call.method in METHODS else UNKNOWN_METHOD
            self._board.meter.refused(known, error.kind)
            reply(call.id, b"" if call.notification else self.refusal(call.id, error))
            return
        if isinstance(params, ShutdownParams):
            self._board.meter.ended(method.name, ANSWERED, 0.0)
            reply(call.id, b"" if call.notification else messages.result(call.id, Done()))
            self._board.stop(params.drain_ms)
            return
        self._start(call, method, params, reply)

    def _admit(self, call: Call) -> Method:
        method = METHODS.get(call.method)
        if method is None:
            raise RequestRefused("method_not_found", "no such method", hint="wikid protocol lists them")
        limits = self._board.limits
        if self._is_full:
            raise _busy(f"a connection may have {limits.calls_in_flight} calls in flight")
        if self._board.draining and not method.frozen:
            raise _busy("the daemon is stopping")
        if self._board.running >= limits.queue and not method.frozen:
            raise _busy(f"the daemon has {limits.queue} calls in flight")
        if not call.notification and call.id in self._by_id:
            raise RequestRefused("invalid_request", "a call with this id is in flight")
        return method

    def _start(self, call: Call, method: Method, params: object, reply: Reply) -> None:
        token: str | None = getattr(params, "progress_token", None)
        event = self._output.event if self._events else None
        running = _Running(call, self._next_mark(), token, reply, event, self._board.meter)
        connection = self if self._events else None
        context = CallContext(self._session, running.cancelled, running.progress, self._connection_id, connection)
        running.task = asyncio.get_running_loop().create_task(self._run(running, method, params, context))
        running.task.add_done_callback(lambda _: self._ended(running))
        self._running.add(running)
        if not call.notification:
            self._by_id[call.id] = running
        self._board.running += 1
        running.tell("begin")

    async def _run(self, running: _Running, method: Method, params: object, context: CallContext) -> None:
        CALL.set(running.mark)
        try:
            line = messages.result(running.call.id, await self._board.dispatcher.call(method, params, context))
            if len(line) > self._board.limits.answer_bytes:
                raise _answer_too_large(self._board.limits.answer_bytes)
        except RequestRefused as error:
            self._fail(running, error)
        except Exception as error:  # noqa: BLE001 - any fault of a handler is one answer and one line in the log
            _log.error("a call failed", method=method.name, exc_info=error)
            self._fail(running, RequestRefused("internal", f"wikid failed; its log has why, under call {running.mark}"))
        else:
            self._answer(running, ANSWERED, line)

    def _ended(self, running: _Running) -> None:
        # a handler that was cancelled by anybody but this session has answered nothing yet
        if not running.answered:
            self._cancel(running)
        self._running.discard(running)
        self._board.finished()
        while self._waiting and not self._is_full:
            value, batch = self._waiting.popleft()
            self._accept(value, batch.add)

    def _cancel_id(self, call_id: object) -> None:
        if not isinstance(call_id, int | str) or isinstance(call_id, bool):
            return
        if call_id in self._by_id:
            self._cancel(self._by_id[call_id])
            return
        for waiting in self._waiting:
            call = messages.read_call(waiting[0])
            if isinstance(call, Call) and not call.notification and call.id == call_id:
                self._waiting.remove(waiting)
                self._drop(*waiting)
                return

    def _cancel(self, running: _Running) -> None:
        running.cancelled.set()
        running.task.cancel()
        self._fail(running, _cancelled())

    def _fail(self, running: _Running, error: RequestRefused) -> None:
        self._answer(running, error.kind, messages.failure(running.call.id, error, running.mark))

    def _answer(self, running: _Running, outcome: str, line: bytes) -> None:
        if running.answered:
            return
        running.tell("end", 100.0 if outcome == ANSWERED else None)
        running.answered = True
        method, seconds = running.call.method, time.monotonic() - running.began
        slow = self._board.meter.ended(method, outcome, seconds)
        tell, event = (_log.warning, "a slow call") if slow else (_log.debug, "a call")
        tell(event, call=running.mark, method=method, kind=outcome, ms=round(seconds * 1_000, 1))
        if not running.call.notification:
            del self._by_id[running.call.id]
        running.reply(running.call.id, b"" if running.call.notification else line)


class _Running:
    """A call in flight."""

    task: asyncio.Task[None]

    def __init__(
        self,
        call: Call,
        mark: str,
        token: str | None,
        reply: Reply,
        event: Callable[[bytes], bool] | None,
        meter: Meter,
    ) -> None:
        self.call = call
        self.mark = mark
        self.token = token
        self.reply = reply
        self.event = event
        self.meter = meter
        self.began = time.monotonic()
        self.cancelled = threading.Event()
        self.answered = False
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()

    def tell(self, kind: ProgressKind, percentage: float | None = None) -> None:
        """That the call begins or ends, to a caller who wants to know. In the loop's thread."""
        if self.token is not None:
            self._emit(_step(self.token, kind, "", percentage))

    def progress(self, token: str, message: str, percentage: float | None) -> None:
        line = _step(token, "report", message, percentage)
        if threading.get_ident() == self.thread:
            self._emit(line)
        elif not self.answered and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._emit, line)

    def _emit(self, line: bytes) -> None:
        if self.event is not None and not self.answered:
            self.meter.event(sent=self.event(line))


class _Batch:
    """Collects the answers of a batch and sends them as one array; members for which it has no room become errors."""

    def __init__(
        self,
        members: int,
        limit: int,
        send: Callable[[bytes], None],
        refusal: Callable[[CallId, RequestRefused], bytes],
    ) -> None:
        self._waiting = members + 1  # one for `seal`: members may answer at once
        self._limit = limit
        self._send = send
        self._refusal = refusal
        self._size = 0
        self._parts: list[bytes] = []

    def add(self, call_id: CallId, line: bytes) -> None:
        if line and self._size + len(line) > self._limit:
            line = self._refusal(call_id, _answer_too_large(self._limit))
        if line:
            self._size += len(line)
            self._parts.append(line[:-1])
        self.seal()

    def seal(self) -> None:
        self._waiting -= 1
        if self._waiting == 0 and self._parts:
            self._send(b"[" + b",".join(self._parts) + b"]\n")


def _is_cancellation(value: object) -> bool:
    call = messages.read_call(value)
    return isinstance(call, Call) and call.method == CANCEL and call.notification


def _step(token: str, kind: ProgressKind, message: str, percentage: float | None) -> bytes:
    value = {"kind": kind, "message": message, "percentage": percentage}
    return messages.notification(PROGRESS, {"token": token, "value": value})


def _decode(method: Method, call: Call) -> object:
    try:
        return decode(method.params, call.params)
    except DecodeError as error:
        raise RequestRefused("invalid_params", str(error)) from None


def _check_protocol(wanted: ProtocolRange) -> None:
    if wanted.min > wanted.max or wanted.min > PROTOCOL_VERSION or wanted.max < OLDEST_PROTOCOL:
        raise RequestRefused(
            "protocol_unsupported",
            f"this daemon speaks protocol {OLDEST_PROTOCOL} to {PROTOCOL_VERSION}",
            hint="update the older of client and daemon",
        )


def _busy(why: str) -> RequestRefused:
    return RequestRefused("busy", why, hint="try again shortly", retry_after_ms=BUSY_RETRY_MS)


def _cancelled() -> RequestRefused:
    return RequestRefused("cancelled", "the call was cancelled")


def _answer_too_large(limit: int) -> RequestRefused:
    return RequestRefused(
        "message_too_large",
        f"the answer has more than {limit} bytes",
        hint="ask for less at a time: limit with cursor, or from_line with max_lines",
    )
