"""The default framing: one JSON message a line. Pure, memory bounded by one message."""

from __future__ import annotations

from collections.abc import Iterator

from wikid_protocol.errors import RequestRefused


class LineFraming:
    """Collects bytes, gives lines without their newline; blank lines are skipped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()

    @property
    def pending(self) -> bool:
        """True where a message has begun and not ended."""
        return bool(self._rest)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages that `data` completes. RequestRefused `message_too_large` when one outgrows the limit; nothing
        can be read after that."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self._rest:
                line = bytes(self._rest + line)
                self._rest.clear()
            if len(line) > self._limit:
                raise self._too_large()
            if line and not line.isspace():
                yield line
        if len(self._rest) + len(rest) > self._limit:
            self._rest = bytearray()
            raise self._too_large()
        self._rest += rest

    def encode(self, line: bytes) -> bytes:
        """One message, given as a line, as it goes out."""
        return line

    def _too_large(self) -> RequestRefused:
        return RequestRefused("message_too_large", f"a message may have at most {self._limit} bytes")
