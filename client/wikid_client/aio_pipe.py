"""The asynchronous client's way through a Windows pipe: aiohttp's connector, but for how the pipe is opened.

asyncio opens one with the rights to act as the client, and sends at once what it is given. So the pipe is opened as the
blocking client does: the process at the other end must be this user's, may not act as the client, and is shown the
token first. Only then is it handed to the event loop, for which there is no public name; `_make_duplex_pipe_transport`
is what asyncio's own `create_pipe_connection` calls, and alike in every Python from 3.6 on.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.tracing import Trace

from wikid_client.pipe import PipeCalls, PipeConnection

if sys.platform == "win32":
    from asyncio.windows_utils import PipeHandle

    from wikid_client import pipe
    from wikid_protocol import windows

Open = Callable[[float], PipeConnection | None]
"""Opens the pipe by a deadline (`time.monotonic()`) and shows the token, as `pipe.open_connection` does; may block."""


class Handle(Protocol):
    """An open end, as asyncio's `PipeHandle` holds it."""

    def fileno(self) -> int:
        """ValueError once it is closed."""
        ...

    def close(self) -> None: ...


class PipeLoop(Protocol):
    """What an event loop that knows pipes has besides."""

    def _make_duplex_pipe_transport(self, pipe: Handle, protocol: asyncio.BaseProtocol, /) -> asyncio.Transport: ...


class PipeConnector(aiohttp.NamedPipeConnector):
    """Connects through the pipe that `open_pipe` opens, within `seconds`. The running loop must be a proactor, as it is
    on Windows unless somebody chose another: RuntimeError."""

    def __init__(self, path: Path, seconds: float, open_pipe: Open, hold: Callable[[int], Handle]) -> None:
        super().__init__(str(path))
        self._seconds = seconds
        self._open_pipe = open_pipe
        self._hold = hold

    async def _create_connection(
        self, req: aiohttp.ClientRequest, _traces: list[Trace], _timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        opening = asyncio.ensure_future(asyncio.to_thread(self._open_pipe, time.monotonic() + self._seconds))
        try:
            opened = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_let_go)
            raise
        if opened is None:
            raise aiohttp.ClientConnectorError(req.connection_key, FileNotFoundError(f"nobody has {self.path}"))
        protocol = self._factory()
        cast(PipeLoop, self._loop)._make_duplex_pipe_transport(self._hold(opened.detach()), protocol)
        await asyncio.sleep(0)  # in which the protocol is told of its transport
        return protocol


def _let_go(opening: asyncio.Future[PipeConnection | None]) -> None:
    """Close what was opened for somebody who does not wait any more."""
    if not opening.cancelled() and opening.exception() is None and (opened := opening.result()) is not None:
        opened.close()


def hung_up(handle: Handle | None, calls: PipeCalls) -> bool:
    """Has the other end gone, though the event loop has not come to see it yet?"""
    try:
        return handle is None or calls.is_closed(handle.fileno())
    except ValueError:
        return True


if sys.platform == "win32":

    def connector(path: Path, seconds: float) -> PipeConnector:
        """The way through the pipe at `path`."""
        return PipeConnector(path, seconds, lambda deadline: pipe.try_connect(path, deadline), PipeHandle)

    def is_gone(socket: aiohttp.ClientWebSocketResponse) -> bool:
        """`hung_up` of this system's pipes."""
        return hung_up(socket.get_extra_info("pipe"), windows)
