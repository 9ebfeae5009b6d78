"""JSON text byte for byte as JavaScript's `JSON.stringify` gives it, for files that the extension writes as well."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from decimal import Decimal

from wikid_daemon.core.names import sort_key
from wikid_daemon.core.page import Json

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_FIRST_NON_INDEX = 2**32 - 1
_EXACT = 2**53  # integers beyond it are doubles there
_LONGEST_PLAIN = 21  # digits before the point; longer numbers get an exponent
_LEAST_PLAIN = -6  # zeros behind the point, likewise


def json_text(value: Json, *, indent: int = 0, canonical: bool = False) -> str:
    """`value` on one line, or with `indent` spaces a level; `canonical` sorts the keys of every object."""
    return _text(value, "\n" if indent else "", " " * indent, canonical)


def json_file(value: Json) -> bytes:
    """A whole file: two spaces a level and a final newline."""
    # half a surrogate pair, which YAML can spell, is escaped there too
    return (json_text(value, indent=2) + "\n").encode("utf-8", "backslashreplace")


def _text(value: Json, line: str, step: str, canonical: bool) -> str:
    deeper = line + step
    if isinstance(value, dict):
        names = _ordered(value, canonical)
        colon = ": " if line else ":"
        pairs = [f"{_string(name)}{colon}{_text(value[name], deeper, step, canonical)}" for name in names]
        return "{" + deeper + f",{deeper}".join(pairs) + line + "}" if pairs else "{}"
    if isinstance(value, list):
        items = [_text(item, deeper, step, canonical) for item in value]
        return "[" + deeper + f",{deeper}".join(items) + line + "]" if items else "[]"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return _number(value)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _ordered(names: Iterable[str], canonical: bool) -> list[str]:
    """JavaScript keeps keys in the order they came in, but for those that could be an array's, which come first."""
    given = sorted(names, key=sort_key) if canonical else list(names)
    indexes = sorted((name for name in given if _is_index(name)), key=int)
    return indexes + [name for name in given if not _is_index(name)] if indexes else given


def _is_index(name: str) -> bool:
    return _INDEX.fullmatch(name) is not None and int(name) < _FIRST_NON_INDEX


def _number(value: float) -> str:
    if isinstance(value, int) and abs(value) <= _EXACT:
        return str(value)
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    assert isinstance(exponent, int)  # neither JSON nor the frontmatter has infinities
    text = "".join(map(str, digits))
    point = len(text) + exponent
    if text == "0":
        return "0"
    if len(text) <= point <= _LONGEST_PLAIN:
        shown = text + "0" * (point - len(text))
    elif 0 < point <= _LONGEST_PLAIN:
        shown = f"{text[:point]}.{text[point:]}"
    elif _LEAST_PLAIN < point <= 0:
        shown = "0." + "0" * -point + text
    else:
        rest = f".{text[1:]}" if len(text) > 1 else ""
        shown = f"{text[0]}{rest}e{point - 1:+d}"
    return f"-{shown}" if sign else shown
