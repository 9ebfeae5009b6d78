"""One top-level key of a TOML text, set or removed; every other byte stays. Pure.

The text is changed by the line and then read again: only a text that differs in exactly that key is given back, so a
line that merely looks like the key's, in a long string or below a table's head, is never taken for it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final

_TABLE: Final = re.compile(r"^[ \t]*\[", re.MULTILINE)


class EditRefused(Exception):
    """The key cannot be set without rewriting the text around it."""


def with_key(text: str, key: str, value: bool | int | str | None) -> str:
    """The text with `key` set, or without it for None. `key` is a bare key; `text` must be TOML, with LF or CRLF."""
    before = tomllib.loads(text)
    wanted = {name: each for name, each in before.items() if name != key}
    if value is None and key not in before:
        return text
    if value is not None:
        wanted[key] = value
    for edited in _edits(text, key, value):
        if _read(edited) == wanted:
            return edited
    raise EditRefused(key)


def _edits(text: str, key: str, value: bool | int | str | None) -> Iterator[str]:
    """Every way to try: at each line that looks like the key's, then above the first table, then at the end."""
    newline = "\r\n" if "\r\n" in text else "\n"
    assignment = rf"""^[ \t]*(?:{key}|"{key}"|'{key}')[ \t]*=[ \t]*(?P<rest>[^\r\n]*)(?:\r?\n)?"""
    for found in re.finditer(assignment, text, re.MULTILINE):
        if value is None:
            yield text[: found.start()] + text[found.end() :]
        else:
            rest = found["rest"]
            yield text[: found.start("rest")] + _literal(value) + _comment(rest) + text[found.end("rest") :]
    if value is None:
        return
    line = f"{key} = {_literal(value)}{newline}"
    table = _TABLE.search(text)
    if table is not None:
        yield text[: table.start()] + line + text[table.start() :]
    yield text + ("" if not text or text.endswith("\n") else newline) + line


def _comment(rest: str) -> str:
    """The comment after a value, with the space before it."""
    for sign in re.finditer(r"[ \t]*#", rest):
        if _read(f"value = {rest[: sign.start()]}") is not None:
            return rest[sign.start() :]
    return ""


def _literal(value: bool | int | str) -> str:
    # a string without control characters reads the same in JSON and in TOML
    return json.dumps(value, ensure_ascii=False)


def _read(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):  # a number of too many digits is the former
        return None
