"""Bytes of whole connections: each framing's own ways of being wrong, some of them right.

As with messages, the input of a seed and a number is always the same.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from torture.mutations import Mutations, pieces
from torture.talk import FramingName, framed, handshake, ws_frame
from wikid_protocol.limits import LIMITS

PATHS: Final = (
    b"/rpc",
    b"/ws",
    b"/health",
    b"/metrics",
    b"/",
    b"/nowhere",
    b"//rpc",
    b"/rpc/../rpc",
    b"/%2e%2e/etc",
    b"*",
)
VERBS: Final = (b"GET", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"PATCH", b"CONNECT", b"get", b"BREW")
VERSIONS: Final = (b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/9", b"", b"HTTP/1.1 x", b"\x00")
LENGTHS: Final = (
    *(b"-1", b"+5", b"0x10", b"1e3", b"", b" ", b"five", b"5, 5", b"5 5", b"9" * 30, b"0", b"00005", b"\xd9\xa5"),
    *(b"%d" % (LIMITS.message_bytes + 1), b"4294967296", b"18446744073709551616", b"1_000", b"5;q=1"),
)
HEADERS: Final = (
    *(b"Origin: http://example.org", b"Expect: 100-continue", b"Expect: a miracle", b"Connection: close", b"Host:"),
    *(
        b"Transfer-Encoding: identity",
        b"Transfer-Encoding: gzip, chunked",
        b"Content-Encoding: gzip",
        b"Range: bytes=0-1",
    ),
    *(b"Upgrade: h2c", b"Connection: Upgrade", b"Host: a\r\nHost: b", b"X: \x00", b"X\x00: y", b": empty", b"no colon"),
    *(b" folded: yes", b"X: a\r\n folded", b"Content-Length: 3", b"X: " + b"y" * 9_000, b"Accept-Encoding: gzip, br"),
    *(
        b"Cookie: " + b"a=b; " * 2_000,
        b"Content-Type: text/plain; charset=utf-7",
        b"X: \xff\xfe",
        b"Transfer-Encoding: chunked",
    ),
)


@dataclass(frozen=True, slots=True)
class WireInput:
    """What one connection sends, piece by piece; then it says that it is done, hangs up, or `waits` for the daemon."""

    framing: FramingName
    pieces: tuple[bytes, ...]
    end: str

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)


class Wires:
    """Makes the connections of a campaign. One in `wait_every` leaves it to the daemon to give up on it."""

    def __init__(self, seed: int, messages: Mutations, *, wait_every: int) -> None:
        self._seed = seed
        self._messages = messages
        self._wait_every = wait_every
        self._makers: tuple[tuple[FramingName, Callable[[random.Random], bytes], int], ...] = (
            ("lines", self._lines, 6),
            ("lines", self._noise, 3),
            ("headers", self._headers, 8),
            ("headers", self._bad_length, 5),
            ("headers", self._header_bomb, 3),
            ("rpc", self._requests, 6),
            ("rpc", self._bad_request, 10),
            ("rpc", self._chunked, 7),
            ("rpc", self._body_in_code, 1),
            ("websocket", self._frames, 12),
            ("websocket", self._odd_handshake, 4),
        )

    def wire(self, number: int) -> WireInput:
        """The connection with this number."""
        chance = random.Random(f"{self._seed}/wires/{number}")
        framing, make, _ = chance.choices(self._makers, [weight for _, _, weight in self._makers])[0]
        data = make(chance)
        if chance.random() < 0.25:
            data = data[: chance.randrange(len(data) + 1)]
        if data and chance.random() < 0.15:
            changed = bytearray(data)
            changed[chance.randrange(len(data))] = chance.randrange(256)
            data = bytes(changed)
        end = (
            "waits"
            if number % self._wait_every == self._wait_every - 1
            else chance.choice(("done", "done", "done", "hangs up"))
        )
        return WireInput(framing, tuple(pieces(data, chance)), end)

    # -- messages behind each other ------------------------------------------------------------------------------------

    def _some(self, framing: FramingName, chance: random.Random) -> bytes:
        return b"".join(framed(framing, self._messages.plain(chance)) for _ in range(chance.choice((1, 1, 2, 4))))

    def _lines(self, chance: random.Random) -> bytes:
        begin = chance.choice((b"", b"", b"{}\n", b"[]\n", b"[1,2]\n\n \t\n", b"{" * 100))
        return begin + self._some("lines", chance)

    def _noise(self, chance: random.Random) -> bytes:
        noise = chance.randbytes(chance.choice((1, 3, 50, 5_000)))
        return (
            chance.choice((b"", b"{", b"[", b"Content-", b"GET ", b"POST /rpc", b"\x00", b"\x16\x03\x01", b" {"))
            + noise
        )

    def _headers(self, chance: random.Random) -> bytes:
        begin = chance.choice((b"", b"", b"Content-Length: 0\r\n\r\n", b"content-length:2\r\n\r\n{}"))
        return begin + self._some("headers", chance)

    def _bad_length(self, chance: random.Random) -> bytes:
        body = self._messages.plain(chance)
        good = b"Content-Length: %d" % len(body)
        head = chance.choice(
            (
                b"Content-Length: " + chance.choice(LENGTHS),
                good + b"\r\n" + good,
                b"Content-Length: %d" % chance.choice((0, 1, len(body) - 1, len(body) + 1)),
                b"Content-Type: application/vscode-jsonrpc; charset="
                + chance.choice((b"utf-16", b"utf8", b'"utf-8"', b"")),
                good + b"\r\nContent-Type: x; charset=latin-1",
                good + b"\r\nX",
                good + b"\r\n: y",
                b"Content-Length:%d\r\nX: \xff\x00" % len(body),
                b"Content-Length\t: %d " % len(body),
            )
        )
        return head + chance.choice((b"\r\n\r\n", b"\r\n\r\n", b"\n\n", b"\r\r")) + body + self._some("headers", chance)

    def _header_bomb(self, chance: random.Random) -> bytes:
        return chance.choice(
            (
                b"Content-Length: 2\r\n" + b"X: y\r\n" * 5_000 + b"\r\n{}",
                b"Content-Type: " + b"x" * 100_000,
                b"Content-" + b"-" * 2_000,
                b"Content-Length: 2\r\n\r\n{}" * 2_000,
            )
        )

    # -- HTTP ----------------------------------------------------------------------------------------------------------

    def _requests(self, chance: random.Random) -> bytes:
        gets = b"".join(
            b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % chance.choice(PATHS[2:]) for _ in range(chance.randrange(4))
        )
        return gets + self._some("rpc", chance)

    def _bad_request(self, chance: random.Random) -> bytes:
        body = self._messages.plain(chance)
        line = b" ".join((chance.choice(VERBS), chance.choice(PATHS), chance.choice(VERSIONS)))
        if chance.random() < 0.5:
            line = b"POST /rpc HTTP/1.1"
        length = b"%d" % len(body) if chance.random() < 0.7 else chance.choice(LENGTHS)
        many = [chance.choice(HEADERS) for _ in range(chance.choice((0, 1, 2, 4)))]
        if chance.random() < 0.03:
            many = [b"X%d: y" % number for number in range(chance.choice((200, 5_000)))]
        lines = [line, b"Host: wikid", b"Content-Length: " + length, *many]
        if chance.random() < 0.1:
            lines = [line]
        return (
            chance.choice((b"\r\n", b"\r\n", b"\r\n", b"\n")).join(lines)
            + b"\r\n\r\n"
            + body
            + self._some("rpc", chance)
        )

    def _chunked(self, chance: random.Random) -> bytes:
        body = self._messages.plain(chance)
        parts = [
            (chance.choice((b"%x", b"%X", b"000%x")) % len(each))
            + chance.choice((b"", b"", b";a=b", b' ; q="x"'))
            + b"\r\n"
            + each
            for each in pieces(body, chance)
        ]
        if chance.random() < 0.4:
            bad = (
                b"zz\r\n",
                b"-1\r\n",
                b"f" * 40 + b"\r\n",
                b"\r\n",
                b"5\r\nab",
                b"0x5\r\nabcde",
                b"7fffffff\r\n",
                b"1" + b"0" * 20_000,
            )
            parts.insert(chance.randrange(len(parts) + 1), chance.choice(bad))
        last = chance.choice(
            (b"0\r\n\r\n", b"0\r\nTrailer: x\r\n\r\n", b"0\r\n" + b"T: x\r\n" * 3_000 + b"\r\n", b"", b"0\r\n")
        )
        both = chance.choice((b"", b"", b"Content-Length: 5\r\n"))
        head = b"POST /rpc HTTP/1.1\r\nHost: wikid\r\n" + both + b"Transfer-Encoding: chunked\r\n\r\n"
        return head + b"".join(each + b"\r\n" for each in parts) + last + self._some("rpc", chance)

    def _body_in_code(self, chance: random.Random) -> bytes:
        body = gzip.compress(b"[" * 3_000_000 if chance.random() < 0.5 else self._messages.plain(chance))
        head = b"POST /rpc HTTP/1.1\r\nHost: wikid\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
        return head + body

    # -- WebSocket -----------------------------------------------------------------------------------------------------

    def _frames(self, chance: random.Random) -> bytes:
        return handshake(b"AAAAAAAAAAAAAAAAAAAAAA==") + b"".join(
            self._frame(chance) for _ in range(chance.choice((1, 2, 4, 12)))
        )

    def _frame(self, chance: random.Random) -> bytes:
        message = self._messages.plain(chance)
        match chance.randrange(12):
            case 0:
                return ws_frame(message, opcode=chance.randrange(16))
            case 1:
                return ws_frame(message, reserved=chance.randrange(8))
            case 2:
                return ws_frame(message, masked=False)
            case 3:
                return ws_frame(message, wide=chance.choice((2, 8)))
            case 4:
                return ws_frame(
                    message,
                    said_length=chance.choice((0, 1, 125, 126, 65_536, LIMITS.message_bytes + 1, 2**63, 2**64 - 1)),
                )
            case 5:  # in parts, a ping between them
                half = len(message) // 2
                parts = [ws_frame(message[:half], last=False), ws_frame(message[half:], opcode=0)]
                return chance.choice((b"", ws_frame(b"there?", opcode=9))).join(parts)
            case 6:  # parts that belong to nothing
                return ws_frame(message, opcode=0, last=chance.random() < 0.5)
            case 7:
                return ws_frame(chance.randbytes(chance.choice((0, 1, 125, 126, 300))), opcode=chance.choice((9, 10)))
            case 8:
                code = chance.choice((0, 999, 1000, 1005, 1006, 1011, 3000, 65_535)).to_bytes(2, "big")
                return ws_frame(chance.choice((b"", b"x", code, code + b"bye", code + b"\xff\xfe")), opcode=8)
            case 9:
                return ws_frame(chance.choice((b"\xff\xfe", b"\xed\xa0\x80", b"", chance.randbytes(60))))
            case 10:
                return ws_frame(b"", opcode=9) * chance.choice((1, 200))
            case _:
                return ws_frame(message)

    def _odd_handshake(self, chance: random.Random) -> bytes:
        good = handshake(b"AAAAAAAAAAAAAAAAAAAAAA==")
        return chance.choice(
            (
                handshake(chance.choice((b"", b"short", b"A" * 5_000, b"\xff\x00"))),
                handshake(version=chance.choice((b"", b"8", b"99", b"13, 8", b"x"))),
                good.replace(b"GET ", b"POST "),
                good.replace(b"websocket", chance.choice((b"", b"h2c", b"WebSocket, x"))),
                good.replace(b"Connection: Upgrade", b"Connection: close"),
                good[:-2] + b"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=99\r\n\r\n",
                good[:-2] + b"Sec-WebSocket-Protocol: a, b, ,\r\n\r\n",
                good[:-2] + b"Origin: http://example.org\r\n\r\n",
                good[:-2] + b"Content-Length: 10\r\n\r\n0123456789",
            )
        ) + self._frame(chance)
