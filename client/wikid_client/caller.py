"""One connection to the daemon and the calls over it, one at a time."""

from __future__ import annotations

import os
import time
from _thread import LockType, allocate_lock, get_ident  # `threading` would be loaded for these alone
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

from wikid_client.transport import ConnectionLost, SocketTransport, Transport
from wikid_protocol.decode import DecodeError, decode
from wikid_protocol.endpoint import socket_path
from wikid_protocol.errors import DaemonFailed, RequestRefused
from wikid_protocol.limits import LIMITS
from wikid_protocol.messages import parse, request

T = TypeVar("T")

DEFAULT_TIMEOUT: Final = 30.0
LONG_TIMEOUT: Final = 3_600.0
OWN_CLIENT_HINT: Final = "give each thread a client of its own"

_LONGEST_WAIT: Final = 1_000_000.0  # neither locks nor sockets take an endless one


class LaterRecords:
    """The records, loaded when a call first needs one of them: defining them all takes as long as a recall."""

    def __getattr__(self, name: str) -> object:
        return getattr(import_module("wikid_protocol.records"), name)


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of a long call. `percentage` is 0–100, or None where the daemon cannot tell."""

    kind: Literal["begin", "report", "end"]
    message: str = ""
    percentage: float | None = None


OnProgress = Callable[[Progress], None]


class Caller:
    """Opens the connection at the first call, starting a daemon where none runs (unless `start=False`).

    `timeout` is in seconds and holds for each call that names none. Threads that share one take turns, and the wait for
    a turn counts as part of the call.
    """

    def __init__(
        self,
        *,
        endpoint: str | os.PathLike[str] | None = None,
        transport: Transport | None = None,
        start: bool = True,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._transport = transport or SocketTransport(_socket(endpoint), start=start)
        self._timeout = timeout
        self._calls = 0
        self._turns: dict[int, LockType] = {}
        self._caller: tuple[int, int] | None = None  # process and thread

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection. The next call opens a new one."""
        self._transport.close()

    def _read(self, kind: type[T], method: str, params: dict[str, Any], timeout: float | None) -> T:
        deadline = self._deadline(timeout)
        try:
            return self._call(kind, method, params, deadline, again=True)
        except ConnectionLost:  # the daemon was restarted; reading twice harms nothing
            return self._call(kind, method, params, deadline)

    def _write(
        self,
        kind: type[T],
        method: str,
        params: dict[str, Any],
        timeout: float | None,
        progress: OnProgress | None = None,
    ) -> T:
        return self._call(kind, method, params, self._deadline(timeout), progress)

    def _deadline(self, timeout: float | None) -> float:
        return time.monotonic() + within(timeout, self._timeout)

    def _call(
        self,
        kind: type[T],
        method: str,
        params: dict[str, Any],
        deadline: float,
        progress: OnProgress | None = None,
        *,
        again: bool = False,
    ) -> T:
        """With `again`, ConnectionLost also where a daemon that is going away refuses the call."""
        turn = self._take_turn(deadline)
        try:
            return answer_of(kind, method, self._ask(method, params, deadline, progress))
        except RequestRefused as refused:
            if again and may_ask_again(refused) and self._daemon_leaves():
                self._transport.close()
                raise ConnectionLost(refused.message, hint=refused.hint) from refused
            raise
        finally:
            self._caller = None
            turn.release()

    def _take_turn(self, deadline: float) -> LockType:
        caller = (os.getpid(), get_ident())
        if self._caller == caller:
            raise RuntimeError("a client makes one call at a time: a progress callback needs a client of its own")
        turn = own_lock(self._turns)
        if not turn.acquire(timeout=min(max(deadline - time.monotonic(), 0), _LONGEST_WAIT)):
            raise DaemonFailed("another thread's call over this client did not end in time", hint=OWN_CLIENT_HINT)
        self._caller = caller
        return turn

    def _daemon_leaves(self) -> bool:
        return isinstance(self._transport, SocketTransport) and self._transport.is_left()

    def _ask(self, method: str, params: dict[str, Any], deadline: float, progress: OnProgress | None) -> dict[str, Any]:
        self._calls += 1
        call_id = self._calls
        token = None if progress is None else token_of(call_id)
        line = line_of(call_id, method, given(params, token))
        answered = False
        try:
            self._transport.connect(deadline)
            self._transport.send(line, deadline)
            answer = self._await(call_id, deadline, progress)
            answered = True
        finally:
            if not answered:
                self._transport.close()  # whatever still arrives belongs to a call that is over
        return answer

    def _await(self, call_id: int, deadline: float, progress: OnProgress | None) -> dict[str, Any]:
        while True:
            message = self._message(deadline)
            if message.get("method") == "$/progress":
                if progress is not None and (step := progress_of(message, token_of(call_id))):
                    progress(step)
            elif "method" not in message and message.get("id") in (call_id, None):
                return message

    def _message(self, deadline: float) -> dict[str, Any]:
        return message_of(self._transport.receive(deadline))


def _socket(endpoint: str | os.PathLike[str] | None) -> Path:
    return socket_path({"WIKID_SOCKET": os.fspath(endpoint)}) if endpoint is not None else socket_path()


def within(timeout: float | None, otherwise: float) -> float:
    """How long a call may take that has a time-out of its own. None at all, 0, is one too; for ever is very long."""
    return min(otherwise if timeout is None else timeout, _LONGEST_WAIT)


def token_of(call_id: int) -> str:
    """Under which a call's progress is reported."""
    return f"call-{call_id}"


def given(params: dict[str, Any], progress_token: str | None) -> dict[str, Any]:
    """The params that are sent: those the caller set, since the daemon knows the defaults."""
    sent = {name: value for name, value in params.items() if value is not None}
    if progress_token is not None:
        sent["progress_token"] = progress_token
    return sent


def own_lock(locks: dict[int, LockType]) -> LockType:
    """This process's lock: one that was held while the process was forked would never be free in it."""
    return locks.setdefault(os.getpid(), allocate_lock())


def line_of(call_id: int, method: str, params: dict[str, Any]) -> bytes:
    """A call as it is sent; RequestRefused where no message can hold it."""
    try:
        line = request(call_id, method, params)
    except TypeError as error:  # text with half a character, such as the name of a file that is not in UTF-8
        raise RequestRefused("invalid_params", f"{method} cannot be asked with this: {error}") from error
    if len(line) > LIMITS.message_bytes:
        raise RequestRefused("message_too_large", f"a message may have at most {LIMITS.message_bytes} bytes")
    return line


def may_ask_again(refused: RequestRefused) -> bool:
    """Whether another daemon, or this one later, may do what was asked: one that stops cancels what it has begun."""
    return refused.row.retry or refused.kind == "cancelled"


def message_of(data: bytes) -> dict[str, Any]:
    """One message from the daemon; DaemonFailed where it is none."""
    try:
        message = parse(data)
    except RequestRefused:
        message = None
    if not isinstance(message, dict):
        raise DaemonFailed("what answers at the endpoint does not speak wikid's protocol", hint="wikid restart")
    return message


def answer_of(kind: type[T], method: str, answer: dict[str, Any]) -> T:
    """The result in an answer, as a `kind`. RequestRefused where it is an error, DaemonFailed where it fits nothing."""
    if "error" in answer:
        raise RequestRefused.from_wire(answer["error"])
    try:
        return decode(kind, answer.get("result"))
    except DecodeError as error:
        raise DaemonFailed(
            f"the daemon's answer to {method} cannot be read: {error}",
            hint="client and daemon may differ in version; see: wikid doctor",
        ) from error


def progress_of(message: dict[str, Any], token: str) -> Progress | None:
    """The step that a `$/progress` tells under `token`, if it does."""
    params = message.get("params")
    if not isinstance(params, dict) or params.get("token") != token:
        return None
    try:
        return decode(Progress, params.get("value"))
    except DecodeError:
        return None  # progress is a courtesy: a step from a newer daemon may be missed
