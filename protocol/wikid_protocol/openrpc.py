"""The contract for programs: an OpenRPC document, from which other languages make their clients."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from wikid_protocol import __version__
from wikid_protocol.describe import all_records, described
from wikid_protocol.error_meanings import ERRORS
from wikid_protocol.errors import KINDS
from wikid_protocol.examples import params_example, record_example
from wikid_protocol.meanings import meanings_of
from wikid_protocol.methods import METHODS, Method
from wikid_protocol.schema import doc_of, is_required, record_schema
from wikid_protocol.subscriptions import EVENTS

OPENRPC: Final = "1.3.2"
SCHEMAS: Final = "#/components/schemas/"


def document() -> dict[str, Any]:
    """The document. What OpenRPC has no word for is under `x-wikid`; every method may end in any of the errors."""
    return {
        "openrpc": OPENRPC,
        "info": {
            "title": "wikid",
            "version": __version__,
            "description": "One memory over Markdown vaults, over one local socket for each user.",
            "license": {"name": "Apache-2.0"},
        },
        "methods": [*(_method(row) for row in METHODS.values()), _cancellation()],
        "components": {
            "schemas": {kind.__name__: described(kind, SCHEMAS) for kind in all_records()},
            "errors": {kind: {"code": row.code, "message": ERRORS[kind]} for kind, row in KINDS.items()},
        },
        "x-wikid": {
            "notifications": {name: {"$ref": SCHEMAS + kind.__name__} for name, kind in EVENTS.items()},
            "retry": sorted(kind for kind, row in KINDS.items() if row.retry),
        },
    }


def _method(row: Method) -> dict[str, Any]:
    name = row.result.__name__
    return {
        "name": row.name,
        "summary": row.doc,
        "description": doc_of(row.params),
        "paramStructure": "by-name",
        "params": _params(row.params),
        "result": {"name": name, "schema": {"$ref": SCHEMAS + name}},
        "examples": [_example(row)],
        "x-wikid": {"access": row.access, "capability": row.capability, "since": row.since, "frozen": row.frozen},
    }


def _params(kind: type) -> list[dict[str, Any]]:
    schemas, meanings = record_schema(kind, SCHEMAS)["properties"], meanings_of(kind)
    needed_first = sorted(fields(kind), key=lambda each: not is_required(each))  # as the standard asks
    return [
        {
            "name": each.name,
            "description": meanings.get(each.name, ""),
            "required": is_required(each),
            "schema": schemas[each.name],
        }
        for each in needed_first
    ]


def _example(row: Method) -> dict[str, Any]:
    params = [{"name": name, "value": value} for name, value in params_example(row).items()]
    result = {"name": row.result.__name__, "value": record_example(row.result)}
    return {"name": "typical", "params": params, "result": result}


def _cancellation() -> dict[str, Any]:
    """A notification, which OpenRPC has as a method without a result."""
    call_id = {"type": ["integer", "string"]}
    return {
        "name": "$/cancelRequest",
        "summary": "Cancel a call of this connection.",
        "paramStructure": "by-name",
        "params": [{"name": "id", "description": "The call's id.", "required": True, "schema": call_id}],
    }
