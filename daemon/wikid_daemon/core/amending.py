"""A page with some of its frontmatter or its body made anew: every byte outside of that stays what it was. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from wikid_daemon.core import frontmatter
from wikid_daemon.core.composing import quoted, scalar, tidy
from wikid_daemon.core.page import Json

_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_FENCE: Final = "---"
_VALUE: Final = re.compile(
    r"""(?P<gap>[ \t]*)(?P<value>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|(?:(?![ \t]#)[^\r\n])*?)(?=[ \t]*$|[ \t]+#)"""
)


class NotAmendable(ValueError):
    """The page is written in a way that cannot be changed in one place alone; the message says where, without text."""


def amended(data: bytes, fields: Mapping[str, str], body: str | None = None) -> bytes:
    """The page with these top-level fields set to these texts and, unless None, with this body.

    Comments, order, quotes, line ends and bytes that are no UTF-8 stay. NotAmendable for a page without frontmatter and
    for a value of several lines.
    """
    text = data.decode("utf-8", "surrogateescape")
    lines = [match[0] for match in _LINE.finditer(text) if match[0]]
    close = _closing(text)
    eol = lines[0][len(_FENCE) :]
    for name, value in fields.items():
        at = _line_of(name, lines[1:close])
        if at is None:
            lines.insert(close, f"{scalar(name)}: {scalar(value)}{eol}")
            close += 1
        else:
            lines[at + 1] = _with_value(lines[at + 1], name, value, lines[at + 2])
    if body is not None:
        written = tidy(body).strip("\n") + "\n"
        lines[close:] = [_FENCE, eol, eol, written.replace("\n", eol)]
    result = "".join(lines)
    _prove(text, result, fields)
    return result.encode("utf-8", "surrogateescape")


def _closing(text: str) -> int:
    """The 0-based line of the fence that ends the frontmatter."""
    fenced = frontmatter.split(_with_lf(text))
    if isinstance(fenced, frontmatter.Fault):
        raise NotAmendable(fenced.message)
    return 1 + fenced.yaml.count("\n")


def _line_of(name: str, lines: Sequence[str]) -> int | None:
    start = re.compile(rf"{re.escape(name)}[ \t]*:(?=[ \t\r\n])")
    return next((at for at, line in enumerate(lines) if start.match(line)), None)


def _with_value(line: str, name: str, value: str, following: str) -> str:
    if following[:1] in (" ", "\t") or following.startswith("- "):
        raise NotAmendable(f"the value of {name} has several lines")
    ended = len(line.rstrip("\r\n"))
    start = line.index(":") + 1
    found = _VALUE.match(line[:ended], start)
    if found is None:
        raise NotAmendable(f"the value of {name} cannot be told from what is around it")
    old = found["value"]
    new = quoted(value) if old.startswith('"') else _single(value) if old.startswith("'") else scalar(value)
    return f"{line[:start]}{found['gap'] or ' '}{new}{line[found.end() :]}"


def _single(value: str) -> str:
    """In single quotes, which know no escapes, where that says the same."""
    doubled = value.replace("'", "''")
    return f"'{doubled}'" if value.isprintable() else quoted(value)


def _prove(before: str, after: str, fields: Mapping[str, str]) -> None:
    """That these fields changed and nothing else did."""
    expected: dict[str, Json] = {**_metadata(before), **fields}
    if _metadata(after) != expected:
        raise NotAmendable("the frontmatter is written in a way that cannot be changed in one place alone")


def _metadata(text: str) -> dict[str, Json]:
    fenced = frontmatter.split(_with_lf(text))
    found = fenced if isinstance(fenced, frontmatter.Fault) else frontmatter.parse(fenced.yaml)
    if isinstance(found, frontmatter.Fault):
        raise NotAmendable(found.message)
    return found


def _with_lf(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
