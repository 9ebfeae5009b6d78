"""The framing of the language server protocol: a block of headers, then as many bytes as it says. Pure, memory bounded
by one message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from wikid_protocol.errors import RequestRefused

HEADER_BYTES: Final = 1_024
_END: Final = b"\r\n\r\n"
_CHARSETS: Final = (b"utf-8", b"utf8")  # the second is what old clients send
_DIGITS: Final = 18


class HeaderFraming:
    """Collects bytes, gives the bodies of messages."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._length: int | None = None

    @property
    def pending(self) -> bool:
        """True where a message has begun and not ended."""
        return self._length is not None or bool(self._rest)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages that `data` completes. RequestRefused `message_too_large` where a header announces one over the
        limit, `parse_error` where a block of headers is none; nothing can be read after either."""
        self._rest += data
        while True:
            if self._length is None:
                head = self._head()
                if head is None:
                    return
                self._length = _content_length(head)
                if self._length > self._limit:
                    raise RequestRefused("message_too_large", f"a message may have at most {self._limit} bytes")
            if len(self._rest) < self._length:
                return
            body = bytes(self._rest[: self._length])
            del self._rest[: self._length]
            self._length = None
            yield body

    def encode(self, line: bytes) -> bytes:
        """One message, given as a line, as it goes out."""
        return b"Content-Length: %d\r\n\r\n%b" % (len(line) - 1, line[:-1])

    def _head(self) -> bytes | None:
        """The block of headers that comes next, once all of it is there."""
        end = self._rest.find(_END, 0, HEADER_BYTES)
        if end < 0:
            if len(self._rest) >= HEADER_BYTES:
                raise _malformed(f"the headers of a message may have at most {HEADER_BYTES} bytes")
            return None
        head = bytes(self._rest[:end])
        del self._rest[: end + len(_END)]
        return head


def _content_length(head: bytes) -> int:
    found: bytes | None = None
    for line in head.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if not colon:
            raise _malformed("a header is a name, a colon and a value")
        match name.strip().lower():
            case b"content-length" if found is None:
                found = value.strip()
            case b"content-length":
                raise _malformed("a message has one Content-Length")
            case b"content-type":
                _check_charset(value)
    if found is None or not found.isdigit() or len(found) > _DIGITS:
        raise _malformed("a message needs a Content-Length, in bytes")
    return int(found)


def _check_charset(content_type: bytes) -> None:
    for parameter in content_type.split(b";")[1:]:
        name, _, value = parameter.partition(b"=")
        if name.strip().lower() == b"charset" and value.strip().strip(b'"').lower() not in _CHARSETS:
            raise _malformed("a message must be in UTF-8")


def _malformed(why: str) -> RequestRefused:
    return RequestRefused("parse_error", why)
