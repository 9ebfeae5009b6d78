"""JSON-RPC 2.0 envelopes: bytes ↔ requests and answers, within the size and depth limits. No IO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

from wikid_protocol.errors import RequestRefused
from wikid_protocol.limits import LIMITS

CallId = int | str | None

_OPTIONS: Final = orjson.OPT_NON_STR_KEYS


@dataclass(frozen=True, slots=True)
class Call:
    """A request, or a notification where `notification` is True (then nothing is answered)."""

    id: CallId
    method: str
    params: dict[str, Any]
    notification: bool = False


@dataclass(frozen=True, slots=True)
class BadCall:
    """Something that was meant as a call but is none; answered with `error` under the id that could be read."""

    id: CallId
    error: RequestRefused


def encode(message: object) -> bytes:
    """One message as one line, newline included. Records are written as objects."""
    return orjson.dumps(message, option=_OPTIONS | orjson.OPT_APPEND_NEWLINE)


def request(call_id: int | str, method: str, params: object) -> bytes:
    return encode({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})


def notification(method: str, params: object) -> bytes:
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def result(call_id: CallId, value: object) -> bytes:
    return encode({"jsonrpc": "2.0", "id": call_id, "result": value})


def failure(call_id: CallId, error: RequestRefused, call: str = "") -> bytes:
    """An error answer; `call` is what the daemon's log knows the call by."""
    return encode({"jsonrpc": "2.0", "id": call_id, "error": error.to_wire(call)})


def parse(data: bytes) -> object:
    """The JSON value in `data`; RequestRefused `parse_error` or `message_too_large` otherwise."""
    if len(data) > LIMITS.message_bytes:
        raise RequestRefused("message_too_large", f"a message may have at most {LIMITS.message_bytes} bytes")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise RequestRefused("parse_error", "not valid JSON in UTF-8") from None
    # a message with fewer openers than levels needs no walk, and hardly any has more
    if data.count(b"[") + data.count(b"{") > LIMITS.depth and _deeper(value, LIMITS.depth):
        raise RequestRefused("parse_error", f"a message may nest at most {LIMITS.depth} levels")
    return value


def read_call(value: object) -> Call | BadCall:
    """Check one parsed member of a batch, or a lone message, as JSON-RPC 2.0 asks."""
    if not isinstance(value, dict):
        return BadCall(None, RequestRefused("invalid_request", "a call must be a JSON object"))
    call_id = value.get("id")
    if isinstance(call_id, bool) or not isinstance(call_id, int | str | None):
        return BadCall(None, RequestRefused("invalid_request", "an id must be a string, an integer or null"))
    method, params = value.get("method"), value.get("params", {})
    if value.get("jsonrpc") != "2.0" or not isinstance(method, str):
        return BadCall(call_id, RequestRefused("invalid_request", 'a call needs "jsonrpc": "2.0" and a method name'))
    if params is None:
        params = {}
    if not isinstance(params, dict):
        return BadCall(call_id, RequestRefused("invalid_params", "params must be an object"))
    return Call(call_id, method, params, notification="id" not in value)


def _deeper(value: object, limit: int) -> bool:
    """True where containers nest more than `limit` deep. Level by level: a hostile message costs no recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        level = [
            each
            for container in level
            for each in (container.values() if isinstance(container, dict) else container)
            if isinstance(each, dict | list)
        ]
        if not level:
            return False
    return bool(level)
