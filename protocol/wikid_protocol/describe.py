"""The contract in words: the page for authors of plugins, made from the method table, the records and their meanings.

The running text is `contract.md`, in which `@@name@@` stands for what is filled in here. Only `wikid protocol` loads
this module.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator
from dataclasses import fields
from importlib.resources import files
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import orjson

from wikid_protocol import __version__, messages
from wikid_protocol.endpoint import MAX_SOCKET_BYTES
from wikid_protocol.error_meanings import ERRORS
from wikid_protocol.errors import KINDS, REQUEST_CANCELLED, RequestRefused
from wikid_protocol.examples import answer_example, params_example, record_example, request_example
from wikid_protocol.limits import LIMITS, OLDEST_PROTOCOL, PAGE_BACKLINKS, PAGE_TEXT_CODE_POINTS, PROTOCOL_VERSION
from wikid_protocol.meanings import meanings_of
from wikid_protocol.methods import CAPABILITIES, METHODS, Method
from wikid_protocol.schema import default_of, doc_of, is_record, is_required, record_schema, records_in
from wikid_protocol.subscriptions import EVENTS, SUBSCRIPTIONS_A_CONNECTION
from wikid_protocol.words import DIAGNOSTICS, MODE_REASONS, REASONS

SCHEMAS: Final = "#/records/"

_TEXT: Final = "contract.md"
_FILLED: Final = re.compile(r"@@([a-z_]+)@@")
_SCALARS: Final[dict[Any, str]] = {str: "string", int: "integer", float: "number", bool: "true or false"}


def markdown() -> str:
    """The whole page."""
    text = files(__package__).joinpath(_TEXT).read_text(encoding="utf-8")
    parts = _parts()
    return _FILLED.sub(lambda found: parts[found[1]], text)


def table() -> dict[str, Any]:
    """The same as data: limits, errors, methods with examples, notifications, and the records' JSON Schemas."""
    return {
        "version": __version__,
        "protocol": {"min": OLDEST_PROTOCOL, "max": PROTOCOL_VERSION},
        "capabilities": list(CAPABILITIES),
        "limits": messages.parse(messages.encode(LIMITS)),
        "errors": {kind: _error_row(kind) for kind in KINDS},
        "words": {"reason": REASONS, "mode_reasons": MODE_REASONS, "diagnostics": DIAGNOSTICS},
        "methods": {row.name: _method_row(row) for row in METHODS.values()},
        "notifications": {name: {"params": {"$ref": SCHEMAS + kind.__name__}} for name, kind in EVENTS.items()},
        "records": {kind.__name__: described(kind, SCHEMAS) for kind in all_records()},
    }


def all_records() -> list[type]:
    """Every record that crosses the wire, params and results first."""
    params = [row.params for row in METHODS.values()]
    return records_in(*params, *(row.result for row in METHODS.values()), *EVENTS.values())


def described(kind: type, refs: str) -> dict[str, Any]:
    """The schema of a record with the meaning of each field and of itself."""
    schema = record_schema(kind, refs, meanings_of(kind))
    return {**schema, "description": doc_of(kind)} if doc_of(kind) else schema


def type_name(kind: Any) -> str:
    """A type in words that need no programming language: `string`, `integer or null`, `array of Item`."""
    if is_record(kind):
        return f"[{kind.__name__}](#{_anchor(_heading(kind))})"
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in args)
    if origin in (Union, types.UnionType):
        members = [type_name(each) for each in args if each is not types.NoneType]
        return " or ".join([*members, *(["null"] if types.NoneType in args else [])])
    if origin is tuple:
        return f"array of {type_name(args[0])}"
    if origin is dict:
        return "object" if args[1] in (Any, object) else f"object of {type_name(args[1])}"
    return "any JSON" if kind in (Any, object) else _SCALARS[getattr(kind, "__supertype__", kind)]


def _parts() -> dict[str, str]:
    ping = METHODS["ping"]
    call = request_example(ping).rstrip(b"\n")
    refused = RequestRefused("busy", "the daemon has 256 calls in flight", hint="try again shortly", retry_after_ms=250)
    step = {"kind": "report", "message": "embedding", "percentage": 40}
    marker = str(record_example(METHODS["recall"].result)["marker"])
    head = b"POST /rpc HTTP/1.1\r\nHost: wikid\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return {
        "protocol": str(PROTOCOL_VERSION),
        "oldest": str(OLDEST_PROTOCOL),
        "version": __version__,
        "socket_bytes": str(MAX_SOCKET_BYTES),
        "ping_request": _line(request_example(ping)),
        "ping_answer": _line(answer_example(ping)),
        "ping_headers": _escaped(b"Content-Length: %d\r\n\r\n" % len(call) + call),
        "ping_http": _escaped(head % len(call) + call),
        "capabilities": ", ".join(f"`{each}`" for each in CAPABILITIES),
        "queue": str(LIMITS.queue),
        "in_flight": str(LIMITS.calls_in_flight),
        "page_text": f"{PAGE_TEXT_CODE_POINTS:,}",
        "page_backlinks": str(PAGE_BACKLINKS),
        "reasons": _words(REASONS),
        "mode_reasons": _words(MODE_REASONS),
        "diagnostics": _words(DIAGNOSTICS),
        "cancelled": str(REQUEST_CANCELLED),
        "cancel": _line(messages.notification("$/cancelRequest", {"id": 1})),
        "progress": _line(messages.notification("$/progress", {"token": "p1", "value": step})),
        "subscriptions": str(SUBSCRIPTIONS_A_CONNECTION),
        "events": "\n".join(_event(name, kind) for name, kind in EVENTS.items()),
        "limits": _limits(),
        "frame_seconds": str(LIMITS.frame_seconds),
        "error": _line(messages.failure(1, refused, "3fa9c1-7-12")),
        "errors": _errors(),
        "marker": marker,
        "index": _index(),
        "methods": "\n\n".join(_method(row) for row in METHODS.values()),
        "notifications": "\n\n".join(f"### `{name}`\n\nParams: {type_name(kind)}." for name, kind in EVENTS.items()),
        "records": "\n\n".join(_record(kind) for kind in all_records() if not _is_params(kind)),
    }


def _words(meanings: dict[str, str]) -> str:
    return "\n".join(_rows((f"`{word}`", meaning) for word, meaning in meanings.items()))


def _limits() -> str:
    meanings = meanings_of(type(LIMITS))
    named = ((each.name, getattr(LIMITS, each.name)) for each in fields(LIMITS))
    return _table(("limit", "value", "meaning"), ((f"`{name}`", f"{value:,}", meanings[name]) for name, value in named))


def _errors() -> str:
    heads = ("kind", "code", "exit code", "retry", "meaning")
    rows = (
        (f"`{kind}`", str(row.code), str(row.exit_code), "yes" if row.retry else "no", ERRORS[kind])
        for kind, row in KINDS.items()
    )
    return _table(heads, rows)


def _index() -> str:
    rows = ((f"[`{row.name}`](#{_anchor(row.name)})", row.access, row.doc) for row in METHODS.values())
    return _table(("method", "access", "what it does"), rows)


def _method(row: Method) -> str:
    facts = [f"Access: {row.access}.", f"Capability: `{row.capability}`.", f"Since {row.since}."]
    facts += ["Its shape never changes."] if row.frozen else []
    taken = ["**Params:**", _fields(row.params)] if fields(row.params) else ["**Params:** none"]
    said = doc_of(row.params) if fields(row.params) else ""
    example = f"```json\n{_line(request_example(row))}\n{_line(answer_example(row))}\n```"
    parts = [
        f"### `{row.name}`",
        row.doc,
        said,
        " ".join(facts),
        *taken,
        f"**Result:** {type_name(row.result)}",
        example,
    ]
    return "\n\n".join(each for each in parts if each)


def _record(kind: type) -> str:
    return "\n\n".join(each for each in (f"### {_heading(kind)}", doc_of(kind), _fields(kind)) if each)


def _fields(kind: type) -> str:
    hints, meanings = get_type_hints(kind), meanings_of(kind)
    rows = (
        (f"`{each.name}`", type_name(hints[each.name]), _default(each), meanings.get(each.name, ""))
        for each in fields(kind)
    )
    return _table(("member", "type", "default", "meaning"), rows)


def _default(each: Any) -> str:
    if is_required(each):
        return "needed"
    return f"`{orjson.dumps(default_of(each)).decode()}`"


def _is_params(kind: type) -> bool:
    return any(kind is row.params for row in METHODS.values())


def _event(name: str, kind: type) -> str:
    return _line(messages.notification(name, record_example(kind)))


def _error_row(kind: str) -> dict[str, object]:
    row = KINDS[kind]
    return {"code": row.code, "exit_code": row.exit_code, "retry": row.retry, "meaning": ERRORS[kind]}


def _method_row(row: Method) -> dict[str, Any]:
    return {
        "doc": row.doc,
        "access": row.access,
        "capability": row.capability,
        "since": row.since,
        "frozen": row.frozen,
        "params": {"$ref": SCHEMAS + row.params.__name__},
        "result": {"$ref": SCHEMAS + row.result.__name__},
        "example": {"params": params_example(row), "result": record_example(row.result)},
    }


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(heads)
    return "\n".join(_rows([names, ["---"] * len(names), *rows]))


def _rows(rows: Iterable[Iterable[str]]) -> Iterator[str]:
    for row in rows:
        yield "| " + " | ".join(each.replace("|", "\\|") for each in row) + " |"


def _heading(kind: type) -> str:
    """Of a record's section; a method may have the same name."""
    return f"{kind.__name__} record"


def _anchor(heading: str) -> str:
    """What hosts of Markdown make of a heading."""
    return re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-")


def _line(data: bytes) -> str:
    return data.decode().rstrip("\n")


def _escaped(data: bytes) -> str:
    """Bytes with their line ends written out."""
    return data.decode().replace("\r\n", "\\r\\n\n")
