"""The listening side on Windows: a pipe that this user alone can open, and a token before anything is parsed.

asyncio can serve a pipe by itself (`start_serving_pipe`), but it makes the instances too, with Windows' default
descriptor, which lets everybody read, and without the flags below. So they are made here, every one with the same
descriptor and flags, and then handed to the loop, for which there are no public names. The two private ones in
`PipeLoop` are all that `start_serving_pipe` itself uses for that; they are alike in every Python from 3.6 to 3.13.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, cast

import structlog
from structlog.typing import FilteringBoundLogger

from wikid_protocol import messages
from wikid_protocol.endpoint import EndpointRefused, token_path
from wikid_protocol.errors import RequestRefused
from wikid_protocol.records import Limits

if sys.platform == "win32":
    from wikid_daemon import win32

PIPE_ACCESS_DUPLEX: Final = 0x0000_0003
FILE_FLAG_OVERLAPPED: Final = 0x4000_0000
FILE_FLAG_FIRST_PIPE_INSTANCE: Final = 0x0008_0000
PIPE_TYPE_BYTE: Final = 0x0
PIPE_READMODE_BYTE: Final = 0x0
PIPE_REJECT_REMOTE_CLIENTS: Final = 0x8

OPEN_MODE: Final = PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED
PIPE_MODE: Final = PIPE_TYPE_BYTE | PIPE_READMODE_BYTE | PIPE_REJECT_REMOTE_CLIENTS
WAIT_MS: Final = 2_000
"""How long a client that names no time of its own waits for a free instance."""
TOKEN: Final = "$/token"
_TOKEN_BYTES: Final = 32
_AGAIN_SECONDS: Final = 0.1

_log: FilteringBoundLogger = structlog.get_logger()


class Pipe(Protocol):
    """One instance, as asyncio's `PipeHandle` holds it."""

    def fileno(self) -> int: ...

    def close(self) -> None: ...


class PipeSystem(Protocol):
    """The system, as `wikid_daemon.win32` asks it."""

    def create_pipe(self, name: str, open_mode: int, pipe_mode: int, timeout_ms: int, descriptor: str, /) -> Pipe: ...

    def client_process(self, handle: int, /) -> int: ...

    def user_of(self, pid: int, /) -> str: ...

    def current_user(self) -> str: ...

    def write_private(self, path: Path, data: bytes, descriptor: str, /) -> None: ...


class Proactor(Protocol):
    def accept_pipe(self, pipe: Pipe, /) -> asyncio.Future[Pipe]: ...


class PipeLoop(Protocol):
    """What an event loop that serves pipes has besides."""

    _proactor: Proactor

    def _make_duplex_pipe_transport(self, pipe: Pipe, protocol: asyncio.Protocol, /) -> asyncio.Transport: ...


def owner_only(sid: str) -> str:
    """A descriptor that lets this user do anything and nobody else anything; nothing is inherited."""
    return f"D:P(A;;GA;;;{sid})"


def new_token(place: Path, system: PipeSystem) -> bytes:
    """The line that clients have to send first, in a file at `place` that this user alone can read. OSError."""
    line = messages.notification(TOKEN, {"token": secrets.token_hex(_TOKEN_BYTES)})
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    system.write_private(place, line, owner_only(system.current_user()))
    return line


class PipeListener:
    """Accepts on the pipe `name` until `close`. What each client sends goes to a protocol that `make_stream` makes,
    once the client has been seen to be this user's and has sent the line `token`."""

    def __init__(
        self,
        name: str,
        token: bytes,
        make_stream: Callable[[], asyncio.Protocol],
        limits: Limits,
        system: PipeSystem,
        loop: PipeLoop,
    ) -> None:
        self._name = name
        self._token = token
        self._make_stream = make_stream
        self._limits = limits
        self._system = system
        self._loop = loop
        self._user = system.current_user()
        self._admissions: set[Admission] = set()
        self._told = False
        try:
            self._waiting = self._create(FILE_FLAG_FIRST_PIPE_INSTANCE)
        except OSError as error:
            raise EndpointRefused(f"another program has {name}; end it, or set WIKID_SOCKET to another pipe") from error
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def close(self) -> None:
        """Accept nobody more, and drop whoever has not shown the token yet. Connections that have it stay."""
        self._task.cancel()
        self._waiting.close()
        for each in list(self._admissions):
            each.abort()

    async def _serve(self) -> None:
        while True:
            came = await self._came(self._waiting)
            # First a new instance, then the one that is taken: while one of ours is there, every client finds the name,
            # and nobody else can be the one to make it.
            following = await self._another()
            taken, self._waiting = self._waiting, following
            if came and self._is_ours(taken) and len(self._admissions) < self._limits.connections:
                admission = Admission(self._token, self._make_stream, self._limits.frame_seconds, self._admissions)
                self._loop._make_duplex_pipe_transport(taken, admission)
            else:
                taken.close()

    async def _came(self, pipe: Pipe) -> bool:
        """Wait for a client; False for one that was gone before it was seen."""
        try:
            await self._loop._proactor.accept_pipe(pipe)
        except BrokenPipeError:
            return False
        except OSError as error:
            self._trouble(error)
            await asyncio.sleep(_AGAIN_SECONDS)
            return False
        return True

    async def _another(self) -> Pipe:
        while True:
            try:
                made = self._create()
            except OSError as error:
                self._trouble(error)
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                self._told = False
                return made

    def _create(self, more_flags: int = 0) -> Pipe:
        descriptor = owner_only(self._user)
        return self._system.create_pipe(self._name, OPEN_MODE | more_flags, PIPE_MODE, WAIT_MS, descriptor)

    def _is_ours(self, pipe: Pipe) -> bool:
        try:
            user = self._system.user_of(self._system.client_process(pipe.fileno()))
        except OSError as error:
            _log.warning("a peer without credentials was refused", error=type(error).__name__, errno=error.errno)
            return False
        if user != self._user:
            _log.warning("another user was refused", sid=user)
            return False
        return True

    def _trouble(self, error: OSError) -> None:
        if not self._told:
            _log.error("the pipe takes nobody for now", error=type(error).__name__, errno=error.errno)
        self._told = True


class Admission(asyncio.Protocol):
    """A connection until its first line, which must be the token's; then the stream takes over.

    The process at the other end was this user's, but its number may be another's by now; who can read the token's file
    still is this user. Until then no byte is parsed: the line is only compared, in constant time.
    """

    def __init__(
        self,
        token: bytes,
        make_stream: Callable[[], asyncio.Protocol],
        seconds: float,
        others: set[Admission],
    ) -> None:
        self._token = token
        self._make_stream = make_stream
        self._others = others
        self._head = b""
        self._refused = False
        self._late = asyncio.get_running_loop().call_later(seconds, self.abort)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._others.add(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._leave()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._head += data
        size = len(self._token)
        if len(self._head) < size and b"\n" not in self._head:
            return
        if not hmac.compare_digest(self._head[:size], self._token):
            self._refuse()
            return
        self._leave()
        stream = self._make_stream()
        self._transport.set_protocol(stream)
        stream.connection_made(self._transport)
        if rest := self._head[size:]:
            stream.data_received(rest)

    def abort(self) -> None:
        self._leave()
        self._transport.abort()

    def _refuse(self) -> None:
        self._refused = True
        error = RequestRefused(
            "invalid_request",
            "a connection through a Windows pipe must begin with the line of the daemon's token file",
            hint="docs/windows.md says where it is",
        )
        self._transport.write(messages.failure(None, error))
        self._transport.close()

    def _leave(self) -> None:
        self._late.cancel()
        self._others.discard(self)


if sys.platform == "win32":

    def listen(
        endpoint: Path, state: Path, make_stream: Callable[[], asyncio.Protocol], limits: Limits
    ) -> PipeListener:
        """Listen at `endpoint` in the running loop, which must be a proactor, with a new token in the folder `state`.
        EndpointRefused, OSError."""
        loop = cast(PipeLoop, asyncio.get_running_loop())
        token = new_token(token_path(endpoint, state), win32)
        return PipeListener(os.fspath(endpoint), token, make_stream, limits, win32, loop)
