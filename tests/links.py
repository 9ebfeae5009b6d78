"""Clients that speak each framing of the endpoint, alike to a test: bytes of one message in, parsed messages out."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import aiohttp

from serving import Message

FramingName = Literal["lines", "headers", "websocket", "rpc"]
FRAMINGS: tuple[FramingName, ...] = ("lines", "headers", "websocket", "rpc")
CONVERSATIONS: tuple[FramingName, ...] = ("lines", "headers", "websocket")
"""Those that carry more than one answer a request."""
READ_BYTES = 32_000_000


class Closed(Exception):
    """The daemon closed the connection; `code` is a WebSocket's."""

    def __init__(self, code: int | None = None) -> None:
        super().__init__(code)
        self.code = code


class Link(Protocol):
    """One client's connection. `read` gives the next message of the daemon, or raises Closed."""

    async def send(self, message: bytes) -> None: ...

    async def read(self) -> Any: ...

    async def close(self) -> None: ...


class _StreamLink:
    """Messages as lines, or behind headers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, headers: bool) -> None:
        self._reader, self._writer, self._headers = reader, writer, headers

    async def send(self, message: bytes) -> None:
        self._writer.write(
            b"Content-Length: %d\r\n\r\n%b" % (len(message), message) if self._headers else message + b"\n"
        )

    async def read(self) -> Any:
        try:
            if not self._headers:
                return json.loads(await self._reader.readuntil(b"\n"))
            length = 0
            while (line := await self._reader.readuntil(b"\r\n")) != b"\r\n":
                name, _, value = line.partition(b":")
                assert name == b"Content-Length"
                length = int(value)
            return json.loads(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Closed from error

    async def close(self) -> None:
        self._writer.transport.abort()
        await asyncio.sleep(0)


class _WebSocketLink:
    """Messages as text frames."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def send(self, message: bytes) -> None:
        try:
            await self._socket.send_frame(message, aiohttp.WSMsgType.TEXT)
        except ConnectionError:
            return  # `read` tells

    async def read(self) -> Any:
        frame = await self._socket.receive()
        if frame.type is not aiohttp.WSMsgType.TEXT:
            raise Closed(self._socket.close_code)
        return json.loads(frame.data)

    async def close(self) -> None:
        await self._socket.close()


class _RpcLink:
    """Each message as a request of its own; answers in the order they come, nothing for a notification."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self._posts: set[asyncio.Task[None]] = set()

    async def send(self, message: bytes) -> None:
        post = asyncio.create_task(self._post(message))
        self._posts.add(post)
        post.add_done_callback(self._posts.discard)

    async def read(self) -> Any:
        return await self._answers.get()

    async def close(self) -> None:
        posts = list(self._posts)
        for post in posts:
            post.cancel()
        await asyncio.gather(*posts, return_exceptions=True)

    async def _post(self, message: bytes) -> None:
        async with self._session.post("http://wikid/rpc", data=io.BytesIO(message)) as response:
            if response.status == 204:
                return
            assert response.content_type == "application/json"
            self._answers.put_nowait(json.loads(await response.read()))


@asynccontextmanager
async def http_session(endpoint: Path) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.UnixConnector(os.fspath(endpoint))
    async with aiohttp.ClientSession("http://wikid", connector=connector) as session:
        yield session
    await asyncio.sleep(0)  # its transports close in the next turn


@asynccontextmanager
async def linked(endpoint: Path, framing: FramingName) -> AsyncIterator[Link]:
    """A client that is connected in this framing; closed at the end, if not before."""
    link: Link
    if framing in ("lines", "headers"):
        reader, writer = await asyncio.open_unix_connection(endpoint, limit=READ_BYTES)
        link = _StreamLink(reader, writer, headers=framing == "headers")
        try:
            yield link
        finally:
            await link.close()
        return
    async with http_session(endpoint) as session:
        if framing == "websocket":
            link = _WebSocketLink(await session.ws_connect("/ws", max_msg_size=READ_BYTES))
        else:
            link = _RpcLink(session)
        try:
            yield link
        finally:
            await link.close()


def call(call_id: object, method: str, **params: object) -> Message:
    return {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}


async def ask(link: Link, call_id: object, method: str, **params: object) -> Message:
    """Make one call and wait for what comes next, which is to be its answer."""
    await link.send(json.dumps(call(call_id, method, **params)).encode())
    answer: Message = await link.read()
    assert answer["id"] == call_id, answer
    return answer


async def kind_of(link: Link, message: bytes) -> str:
    """The kind of the error that answers `message`."""
    await link.send(message)
    answer = await link.read()
    assert answer["jsonrpc"] == "2.0"
    return str(answer["error"]["data"]["kind"])
