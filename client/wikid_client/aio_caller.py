"""Calls that wait in an event loop: connecting, starting a daemon, time-outs, and what is tried a second time."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar
from weakref import WeakSet

from wikid_client.aio_connection import Connection, Message, NeverSent, NobodyListens, bounded, open_connection
from wikid_client.aio_listening import AsyncSubscription
from wikid_client.caller import DEFAULT_TIMEOUT, OnProgress, answer_of, may_ask_again, within
from wikid_client.transport import (
    GLANCE_SECONDS,
    GLANCE_STEP,
    START_HINT,
    ConnectionLost,
    SocketTransport,
    socket_file,
)
from wikid_protocol import __version__
from wikid_protocol.endpoint import socket_path
from wikid_protocol.errors import DaemonNotRunning, RequestRefused
from wikid_protocol.limits import OLDEST_PROTOCOL, PROTOCOL_VERSION
from wikid_protocol.records import Initialized
from wikid_protocol.subscriptions import EventKind

T = TypeVar("T")

CLIENT_NAME: Final = "wikid-python"
CAPABILITIES: Final = ("core", "subscriptions")


@dataclass(frozen=True, slots=True)
class CallOf(Generic[T]):
    """A call that is still to be made, and the record it answers with. `again` where making it twice does no harm."""

    kind: type[T]
    method: str
    params: Message
    timeout: float | None
    progress: OnProgress | None
    again: bool


class AsyncCaller:
    """Opens the connection at the first call, starting a daemon where none runs (unless `start=False`).

    Any number of calls may be in flight, all in one event loop. `timeout` is in seconds and holds for each call that
    names none. `name` and `version` say which program this is, `session` whose recalls and feedback belong together.
    """

    def __init__(
        self,
        *,
        endpoint: str | os.PathLike[str] | None = None,
        start: bool = True,
        timeout: float = DEFAULT_TIMEOUT,
        name: str = CLIENT_NAME,
        version: str = __version__,
        session: str | None = None,
    ) -> None:
        self._path = socket_path() if endpoint is None else socket_path({"WIKID_SOCKET": os.fspath(endpoint)})
        self._start = start
        self._timeout = timeout
        self._hello: Message = {
            "protocol": {"min": OLDEST_PROTOCOL, "max": PROTOCOL_VERSION},
            "client": {"name": name, "version": version},
            "capabilities": CAPABILITIES,
            "session": session,
        }
        self._connection: Connection | None = None
        self._opening = asyncio.Lock()
        self._server: Initialized | None = None
        self._subscriptions: WeakSet[AsyncSubscription] = WeakSet()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process: int | None = None
        self._file: tuple[int, int, int] | None = None  # that was connected to

    @property
    def server(self) -> Initialized | None:
        """What the daemon said of itself when the connection was opened; None before the first call."""
        return self._server

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Drop the connection, and with it the calls in flight and all subscriptions. The next call opens a new one."""
        for subscription in list(self._subscriptions):
            await subscription.aclose()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def subscribe(
        self,
        *,
        vaults: Sequence[str] | None = None,
        kinds: Sequence[EventKind] = ("index/changed", "vault/state"),
        since: Mapping[str, int] | None = None,
        timeout: float | None = None,
    ) -> AsyncSubscription:
        """Be told what changes in `vaults` (ids or names; all without), from the generations in `since` on.

        `timeout` is for the subscribing, not for the changes, which may take for ever.
        """
        seconds = within(timeout, self._timeout)
        subscription = AsyncSubscription(
            lambda start: self._connected(seconds, start=start and self._start),
            vaults=vaults,
            kinds=kinds,
            since=since,
            timeout=seconds,
        )
        self._subscriptions.add(subscription)
        return subscription

    async def _perform(self, call: CallOf[T]) -> T:
        seconds = within(call.timeout, self._timeout)
        async with bounded(seconds):
            try:
                connection, answer = await self._ask(call, seconds)
                if call.again and await self._was_left(connection, answer):
                    _, answer = await self._ask(call, seconds)
            except ConnectionLost as error:  # the daemon was restarted; reading twice harms nothing
                if not call.again and not isinstance(error, NeverSent):
                    raise
                _, answer = await self._ask(call, seconds)
        return answer_of(call.kind, call.method, answer)

    async def _was_left(self, connection: Connection, answer: Message) -> bool:
        """Whether a daemon that goes away refuses. Its connection may still answer other calls, but takes no more."""
        if "error" not in answer or not may_ask_again(RequestRefused.from_wire(answer["error"])):
            return False
        give_up = time.monotonic() + GLANCE_SECONDS
        while self._connection is connection and connection.alive:
            if socket_file(self._path) != self._file:
                self._connection = None
                return True
            if time.monotonic() >= give_up:
                return False
            await asyncio.sleep(GLANCE_STEP)
        return True

    async def _ask(self, call: CallOf[Any], seconds: float) -> tuple[Connection, Message]:
        connection = await self._connected(seconds, start=self._start)
        return connection, await connection.call(call.method, call.params, call.progress)

    async def _connected(self, seconds: float, *, start: bool) -> Connection:
        """The open connection, made where there is none. Callers that come at once share one."""
        if self._loop not in (None, asyncio.get_running_loop()):
            raise RuntimeError("a client belongs to one event loop: make another AsyncClient for this one")
        if self._process not in (None, os.getpid()):
            raise RuntimeError("a client belongs to one process: make another AsyncClient after a fork")
        self._loop, self._process = asyncio.get_running_loop(), os.getpid()
        async with self._opening:
            if self._connection is not None and self._connection.alive:
                return self._connection
            connection = await _reach(self._path, seconds, start=start)
            try:
                self._server = answer_of(Initialized, "initialize", await connection.call("initialize", self._hello))
            except ConnectionLost as error:
                raise NeverSent(error.message, hint=error.hint) from error
            except BaseException:
                await connection.close()
                raise
            connection.allow(self._server.limits.calls_in_flight)
            self._connection, self._file = connection, socket_file(self._path)
            return connection


async def _reach(path: Path, seconds: float, *, start: bool) -> Connection:
    deadline = time.monotonic() + seconds
    with suppress(NobodyListens):
        return await open_connection(path, seconds)
    # starting a daemon and finding out why none answers is the blocking client's work, and blocks
    await asyncio.to_thread(_probe, SocketTransport(path, start=start), deadline)
    try:
        return await open_connection(path, deadline - time.monotonic())
    except NobodyListens:
        raise DaemonNotRunning(f"no wikid daemon answers at {path}", hint=START_HINT) from None


def _probe(transport: SocketTransport, deadline: float) -> None:
    transport.connect(deadline)
    transport.close()
