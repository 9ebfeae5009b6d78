"""One strict decoder: parsed JSON → frozen records, driven by the records' own annotations.

Unknown members are ignored, because fields are only ever added; a missing or mistyped one is an error naming its path.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


class DecodeError(ValueError):
    """`path` is where, `expected` what should have been there. The offending value is never in the text."""

    def __init__(self, path: str, expected: str) -> None:
        super().__init__(f"{path or 'value'}: expected {expected}")
        self.path = path
        self.expected = expected


def decode(kind: type[T], value: object, path: str = "") -> T:
    """`value` as a `kind`, or DecodeError. Records come from objects, tuples from arrays; floats accept integers."""
    return cast(T, _decoder(cast(Any, kind))(value, path))


@cache
def _decoder(kind: Any) -> Callable[[object, str], object]:
    if is_dataclass(kind) and isinstance(kind, type):
        return _record(kind)
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _literal(args)
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is tuple:
        return _array(args[0])
    if origin is dict:
        return _object(args[1])
    if kind in (Any, object):
        return lambda value, _path: value
    return _scalar(getattr(kind, "__supertype__", kind))


def _record(kind: type) -> Callable[[object, str], object]:
    hints = get_type_hints(kind)
    rows = [
        (f.name, _decoder(hints[f.name]), f.default is MISSING and f.default_factory is MISSING) for f in fields(kind)
    ]

    def read(value: object, path: str) -> object:
        if not isinstance(value, dict):
            raise DecodeError(path, "an object")
        found = {}
        for name, read_member, required in rows:
            if name in value:
                found[name] = read_member(value[name], f"{path}.{name}" if path else name)
            elif required:
                raise DecodeError(f"{path}.{name}" if path else name, "a value")
        return kind(**found)

    return read


def _literal(allowed: tuple[object, ...]) -> Callable[[object, str], object]:
    def read(value: object, path: str) -> object:
        for each in allowed:
            if value == each and type(value) is type(each):
                return each
        raise DecodeError(path, "one of " + ", ".join(map(str, allowed)))

    return read


def _union(members: tuple[Any, ...]) -> Callable[[object, str], object]:
    readers = [_decoder(each) for each in members if each is not types.NoneType]
    nullable = types.NoneType in members

    def read(value: object, path: str) -> object:
        if value is None and nullable:
            return None
        error: DecodeError | None = None
        for each in readers:
            try:
                return each(value, path)
            except DecodeError as problem:
                error = error or problem
        raise error or DecodeError(path, "null")

    return read


def _array(member: Any) -> Callable[[object, str], object]:
    read_member = _decoder(member)

    def read(value: object, path: str) -> object:
        if not isinstance(value, list | tuple):
            raise DecodeError(path, "an array")
        return tuple(read_member(each, f"{path}[{i}]") for i, each in enumerate(value))

    return read


def _object(member: Any) -> Callable[[object, str], object]:
    read_member = _decoder(member)

    def read(value: object, path: str) -> object:
        if not isinstance(value, dict):
            raise DecodeError(path, "an object")
        return {str(key): read_member(each, f"{path}.{key}") for key, each in value.items()}

    return read


def _scalar(kind: type) -> Callable[[object, str], object]:
    names = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
    if kind not in names:
        raise TypeError(f"no decoder for {kind!r}")

    def read(value: object, path: str) -> object:
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:
            raise DecodeError(path, names[kind])
        return value

    return read
