"""What an answer may be, whatever was asked: JSON-RPC of a known kind, without a word of what went wrong inside."""

from __future__ import annotations

import http.client
import io
import json
import re
from http import HTTPStatus
from typing import Any, Final

from privacy import leaks
from torture.talk import CLOSE, TEXT
from wikid_protocol.decode import DecodeError, decode
from wikid_protocol.errors import KINDS
from wikid_protocol.methods import METHODS
from wikid_protocol.subscriptions import EVENTS

NOTIFICATIONS: Final = {"$/progress", *EVENTS}
_VERSION: Final = re.compile(rb"\AHTTP/\d\.\d ")
INSIDES: Final = ("Traceback", 'File "', ".py", "Error(", "Exception")


class Fault(Exception):
    """A promise that was broken. Its text never grows long."""


def check_message(data: bytes, allowed: set[Any] | None = None, method: str | None = None) -> int:
    """How many messages that answer are in `data`: 0 where it is a notification of the daemon's own. With `allowed`,
    only these ids may be answered; a result must be that of `method`, where it is known. Fault."""
    try:
        value = json.loads(data, parse_constant=_refuse_constant)
    except ValueError as error:
        raise Fault(f"an answer is no JSON: {data[:200]!r}") from error
    if isinstance(value, dict) and "method" in value:
        _check_notification(value)
        return 0
    answers = value if isinstance(value, list) else [value]
    if not answers:
        raise Fault("an empty batch was answered")
    for each in answers:
        _check_answer(each, allowed, method)
    return 1


def check_stream(data: bytes) -> None:
    """All that a connection sent until it closed, when anything at all had been sent to it. Fault."""
    if data.startswith(b"HTTP/"):
        _check_http(data)
        return
    if data.startswith(b"Content-Length"):
        while data:
            head, _, data = data.partition(b"\r\n\r\n")
            length = int(head.partition(b":")[2])
            check_message(data[:length])
            data = data[length:]
        return
    for line in data.splitlines():
        check_message(line)


def _check_http(data: bytes) -> None:
    while data:
        # aiohttp answers in the version that it was asked in, whatever that was
        replay = _Replay(_VERSION.sub(b"HTTP/1.1 ", data, count=1))
        response = http.client.HTTPResponse(replay)  # type: ignore[arg-type]  # all it asks of a socket is makefile
        try:
            response.begin()
            if response.status == 101:
                _check_frames(replay.file.read())
                return
            body = response.read()
        except (http.client.HTTPException, ValueError) as error:
            raise Fault(f"an answer is no HTTP: {data[:200]!r}") from error
        data = replay.file.read()
        if response.status >= 500:
            raise Fault(f"HTTP status {response.status}: {body[:200]!r}")
        if response.status == HTTPStatus.EXPECTATION_FAILED and not body.startswith(b"{"):
            continue  # where there is no such path, aiohttp sees to it alone
        if response.status >= 400 or (body and response.headers.get_content_type() == "application/json"):
            _check_body(body, failed=response.status >= 400)


def _check_body(body: bytes, *, failed: bool) -> None:
    value = json.loads(body)
    if failed or not (isinstance(value, dict) and "jsonrpc" not in value):  # but for /health, which is no answer
        check_message(body)


def _check_frames(data: bytes) -> None:
    while len(data) >= 2:
        opcode, length, data = data[0] & 15, data[1] & 127, data[2:]
        if length > 125:
            width = 2 if length == 126 else 8
            length, data = int.from_bytes(data[:width], "big"), data[width:]
        if opcode == TEXT and len(data) >= length:
            check_message(data[:length])
        if opcode == CLOSE:
            return
        data = data[length:]


def _check_answer(answer: object, allowed: set[Any] | None, method: str | None) -> None:
    if not isinstance(answer, dict) or answer.get("jsonrpc") != "2.0" or "id" not in answer:
        raise Fault(f"an answer is no JSON-RPC: {_short(answer)}")
    if allowed is not None and answer["id"] is not None and answer["id"] not in allowed:
        raise Fault(f"an answer to nobody: {_short(answer)}")
    if ("error" in answer) == ("result" in answer):
        raise Fault(f"an answer is both a result and an error, or neither: {_short(answer)}")
    if "error" in answer:
        _check_error(answer["error"])
    elif method in METHODS:
        try:
            decode(METHODS[method].result, answer["result"])
        except DecodeError as error:
            raise Fault(f"a result of {method} is none: {error}") from error


def _check_error(error: Any) -> None:
    data = error.get("data", {}) if isinstance(error, dict) else {}
    kind = data.get("kind")
    if kind not in KINDS or error.get("code") != KINDS[kind].code or not isinstance(data.get("retry"), bool):
        raise Fault(f"an error of no known kind: {_short(error)}")
    if kind == "internal":
        raise Fault(f"internal: {_short(error)}")
    words = f"{error.get('message')} {data.get('hint')}"
    if any(each in words for each in INSIDES) or leaks(words, ()):
        raise Fault(f"an error tells too much: {_short(error)}")


def _check_notification(message: dict[str, Any]) -> None:
    method = message["method"]
    if method not in NOTIFICATIONS or "id" in message:
        raise Fault(f"a notification of no known kind: {_short(message)}")
    if method in EVENTS:
        decode(EVENTS[method], message["params"])


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


def _short(value: object) -> str:
    return repr(value)[:400]


class _Replay:
    """Bytes that were read already, to be read again as a response."""

    def __init__(self, data: bytes) -> None:
        self.file = _Kept(data)

    def makefile(self, *_: object, **__: object) -> io.BytesIO:
        return self.file


class _Kept(io.BytesIO):
    """Stays open when the response that was read from it closes it."""

    def close(self) -> None:
        pass
