"""JSON Schema (draft 2020-12) of the records on the wire, from the same annotations that the decoder follows.

Objects allow members they do not name, because fields are only ever added.
"""

from __future__ import annotations

import inspect
import types
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import orjson

Schema = dict[str, Any]

DEFINITIONS: Final = "#/$defs/"
_SCALARS: Final[dict[Any, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema_of(kind: Any, refs: str = DEFINITIONS) -> Schema:
    """The schema of a type that the decoder knows; records in it are references, `refs` and the record's name.

    TypeError where the decoder would have none either.
    """
    if is_record(kind):
        return {"$ref": refs + kind.__name__}
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"type": _common_type(args), "enum": list(args)}
    if origin in (Union, types.UnionType):
        return _union([schema_of(each, refs) for each in args if each is not types.NoneType], types.NoneType in args)
    if origin is tuple:
        return {"type": "array", "items": schema_of(args[0], refs)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(args[1], refs)}
    if kind in (Any, object):
        return {}
    base = getattr(kind, "__supertype__", kind)
    if base not in _SCALARS:
        raise TypeError(f"no schema for {kind!r}")
    return {"type": _SCALARS[base]}


def record_schema(kind: type, refs: str = DEFINITIONS, meanings: dict[str, str] | None = None) -> Schema:
    """The schema of one record: every field with its type and default, and its meaning where one is given."""
    hints = get_type_hints(kind)
    properties: dict[str, Schema] = {}
    for each in fields(kind):
        found = schema_of(hints[each.name], refs)
        if meanings and each.name in meanings:
            found["description"] = meanings[each.name]
        if each.default is not MISSING or each.default_factory is not MISSING:
            found["default"] = default_of(each)
        properties[each.name] = found
    schema: Schema = {"type": "object", "properties": properties}
    required = [each.name for each in fields(kind) if is_required(each)]
    return {**schema, "required": required} if required else schema


def bundled(kind: type, *, described: bool = False) -> Schema:
    """The schema of a record with all that it refers to in its own `$defs`; with `described`, with docstrings."""
    inner = [each for each in records_in(kind) if each is not kind]
    schema = record_schema(kind)
    if described:
        schema["description"] = doc_of(kind)
    return {**schema, "$defs": {each.__name__: record_schema(each) for each in inner}} if inner else schema


def records_in(*kinds: Any) -> list[type]:
    """Every record that these types lead to, themselves among them, each once, in the order in which they are met."""
    found: dict[type, None] = {}
    for kind in kinds:
        _collect(kind, found)
    return list(found)


def doc_of(kind: type) -> str:
    """A record's docstring as running text, paragraphs apart; empty where it has none of its own."""
    if (kind.__doc__ or "").startswith(f"{kind.__name__}("):  # what a dataclass writes by itself
        return ""
    paragraphs = inspect.cleandoc(kind.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def is_record(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind)


def is_required(each: Field[Any]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def default_of(each: Field[Any]) -> Any:
    """A field's default as JSON has it."""
    made = each.default_factory() if each.default_factory is not MISSING else each.default
    return orjson.loads(orjson.dumps(made))


def _collect(kind: Any, found: dict[type, None]) -> None:
    if not is_record(kind):
        for each in get_args(kind) if get_origin(kind) is not Literal else ():
            _collect(each, found)
    elif kind not in found:
        found[kind] = None
        for hint in get_type_hints(kind).values():
            _collect(hint, found)


def _union(members: list[Schema], nullable: bool) -> Schema:
    simple = [each["type"] for each in members if set(each) == {"type"} and isinstance(each["type"], str)]
    if len(simple) == len(members):
        names = list(dict.fromkeys([*simple, *(["null"] if nullable else [])]))
        return {"type": names[0] if len(names) == 1 else names}
    return {"anyOf": [*members, *([{"type": "null"}] if nullable else [])]}


def _common_type(values: tuple[object, ...]) -> str | list[str]:
    names = sorted({_SCALARS[type(each)] for each in values})
    return names[0] if len(names) == 1 else names
