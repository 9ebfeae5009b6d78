"""The client's end of each framing, in plain sockets: what goes out may be anything, what comes back are messages."""

from __future__ import annotations

import base64
import os
import secrets
import socket
import struct
import time
from pathlib import Path
from typing import Final, Literal

FramingName = Literal["lines", "headers", "websocket", "rpc"]
FRAMINGS: Final[tuple[FramingName, ...]] = ("lines", "headers", "websocket", "rpc")

RECEIVE_BYTES: Final = 65_536
TEXT: Final = 1
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10


class Closed(Exception):
    """The daemon closed the connection."""


class Hung(Exception):
    """Nothing came within the bound, and the connection stayed open."""


class Wire:
    """One connection. Everything that is read comes within `bound` seconds, or Hung is raised."""

    def __init__(self, endpoint: Path, bound: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(bound)
        try:
            self._socket.connect(os.fspath(endpoint))
        except OSError:
            self._socket.close()
            raise
        self._bound = bound
        self._opened = time.monotonic()
        self._rest = bytearray()

    @property
    def age(self) -> float:
        """Seconds since it was opened."""
        return time.monotonic() - self._opened

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Closed where the daemon takes no more; what it said before that can still be read."""
        try:
            self._socket.sendall(data)
        except TimeoutError as error:
            raise Hung from error
        except OSError as error:
            raise Closed from error

    def finish(self) -> None:
        """Say that nothing more will be sent."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the daemon was faster

    def until(self, mark: bytes) -> bytes:
        """All up to `mark`, without it."""
        while (end := self._rest.find(mark)) < 0:
            self._more()
        found = bytes(self._rest[:end])
        del self._rest[: end + len(mark)]
        return found

    def exactly(self, count: int) -> bytes:
        while len(self._rest) < count:
            self._more()
        found = bytes(self._rest[:count])
        del self._rest[:count]
        return found

    def everything(self, patience: float | None = None) -> bytes:
        """All that comes until the daemon closes; with `patience` Hung when it has not, so long after the opening."""
        try:
            while True:
                if patience is not None:
                    self._socket.settimeout(max(self._opened + patience - time.monotonic(), 0.01))
                self._more()
        except Closed:
            return bytes(self._rest)
        finally:
            self._socket.settimeout(self._bound)

    def _more(self) -> None:
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError as error:
            raise Hung from error
        except OSError as error:
            raise Closed from error
        if not data:
            raise Closed
        self._rest += data


class Talk:
    """A conversation in one framing: whole messages out, whole messages in."""

    def __init__(self, endpoint: Path, framing: FramingName, bound: float) -> None:
        self.framing = framing
        self.wire = Wire(endpoint, bound)
        if framing == "websocket":
            try:
                self._shake_hands()
            except BaseException:
                self.wire.close()
                raise

    def _shake_hands(self) -> None:
        self.wire.send(handshake())
        if not self.wire.until(b"\r\n\r\n").startswith(b"HTTP/1.1 101 "):
            raise Closed

    def close(self) -> None:
        self.wire.close()

    def send(self, message: bytes) -> None:
        self.wire.send(framed(self.framing, message))

    def read(self) -> bytes:
        """The next message; empty where a request over HTTP is answered without one."""
        match self.framing:
            case "lines":
                return self.wire.until(b"\n")
            case "headers":
                return self.wire.exactly(_length(self.wire.until(b"\r\n\r\n")))
            case "rpc":
                head = self.wire.until(b"\r\n\r\n")
                return self.wire.exactly(0 if head.startswith(b"HTTP/1.1 204 ") else _length(head))
            case _:
                return self._text()

    def _text(self) -> bytes:
        while True:
            first, second = self.wire.exactly(2)
            length = second & 127
            if length > 125:
                length = int.from_bytes(self.wire.exactly(2 if length == 126 else 8), "big")
            payload = self.wire.exactly(length)
            if first & 15 == TEXT:
                return payload
            if first & 15 == CLOSE:
                raise Closed
            if first & 15 == PING:
                self.wire.send(ws_frame(payload, opcode=PONG))


def framed(framing: FramingName, message: bytes) -> bytes:
    """One message as it goes out."""
    match framing:
        case "lines":
            return message + b"\n"
        case "headers":
            return b"Content-Length: %d\r\n\r\n%b" % (len(message), message)
        case "rpc":
            return b"POST /rpc HTTP/1.1\r\nHost: wikid\r\nContent-Length: %d\r\n\r\n%b" % (len(message), message)
        case _:
            return ws_frame(message)


def handshake(key: bytes | None = None, version: bytes = b"13") -> bytes:
    """A request to open a WebSocket."""
    key = base64.b64encode(secrets.token_bytes(16)) if key is None else key
    return (
        b"GET /ws HTTP/1.1\r\nHost: wikid\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: %b\r\nSec-WebSocket-Key: %b\r\n\r\n" % (version, key)
    )


def ws_frame(
    payload: bytes,
    *,
    opcode: int = TEXT,
    last: bool = True,
    reserved: int = 0,
    masked: bool = True,
    said_length: int | None = None,
    wide: int = 0,
) -> bytes:
    """One frame. `reserved` are its three reserved bits, `wide` the least width of its length in bytes (0, 2 or 8)."""
    length = len(payload) if said_length is None else said_length
    mask = b"\x5a\xa5\x3c\xc3" if masked else b""
    flag = 128 if masked else 0
    if length > 65_535 or wide == 8:
        head = struct.pack(">BQ", flag | 127, length & (2**64 - 1))
    elif length > 125 or wide == 2:
        head = struct.pack(">BH", flag | 126, length)
    else:
        head = bytes([flag | length])
    if masked:
        key = int.from_bytes((mask * (len(payload) // 4 + 1))[: len(payload)], "big")
        payload = (int.from_bytes(payload, "big") ^ key).to_bytes(len(payload), "big")
    return bytes([(128 if last else 0) | (reserved & 7) << 4 | opcode & 15]) + head + mask + payload


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    raise Closed
