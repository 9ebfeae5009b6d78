"""Frontmatter and body → a page's text, in the order that every writer of a vault keeps (vault format §2.4). Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from wikid_daemon.core.frontmatter import core_scalar
from wikid_daemon.core.page import Json

_FIELDS: Final = (
    *("type", "title", "description", "resource", "tags", "generated", "verified", "status", "stale_after"),
    *("category", "domain", "aliases", "recall_triggers", "created", "updated", "summary", "raw_path", "source_id"),
    "sources",
)
_RANK: Final = {name: rank for rank, name in enumerate(_FIELDS)}
_WORDS: Final = re.compile(r"[^\W\d_][\w./-]*(?: [\w./-]+)*")
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z)?")
_OLD_WORDS: Final = frozenset(("y", "n", "yes", "no", "on", "off"))  # which YAML 1.1 takes for true and false
_UNPRINTABLE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_INDENT: Final = "  "
_FENCE: Final = "---"


def compose(fields: Mapping[str, Json], body: str) -> bytes:
    """The page: known fields in their order, then all others in the order given; a blank line; the body; one LF."""
    ordered = sorted(fields, key=lambda name: _RANK.get(name, len(_RANK)))
    head = "\n".join(line for name in ordered for line in _entry(name, fields[name], ""))
    text = tidy(body).strip("\n")
    return "\n".join((_FENCE, head, _FENCE, *(("", text) if text else ()), "")).encode()


def tidy(text: str) -> str:
    """The same text with LF for every line end, and without what no file of text may hold."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    return _SURROGATE.sub("\ufffd", lines)


def one_line(text: str) -> str:
    """The same words on one line."""
    return " ".join(tidy(text).split())


def scalar(text: str) -> str:
    """The text as a YAML scalar: bare where YAML 1.1 and 1.2 both read it as this very text, else in double quotes."""
    is_word = _WORDS.fullmatch(text) is not None and core_scalar(text) == text and text.lower() not in _OLD_WORDS
    return text if is_word or _TIME.fullmatch(text) else quoted(text)


def quoted(text: str) -> str:
    """The text in double quotes, on one line."""
    written = json.dumps(_SURROGATE.sub("\ufffd", text), ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def _entry(name: str, value: Json, indent: str) -> Iterator[str]:
    """The lines of one key and its value."""
    key = scalar(name)
    if not isinstance(value, dict | list) or not value:
        yield f"{indent}{key}: {_flat(value)}"
        return
    yield f"{indent}{key}:"
    yield from _block(value, indent + _INDENT)


def _block(value: dict[str, Json] | list[Json], indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _entry(name, each, indent)
        return
    for each in value:
        if isinstance(each, dict | list) and each:
            first, *rest = _block(each, indent + _INDENT)
            yield f"{indent}- {first.lstrip(' ')}"
            yield from rest
        else:
            yield f"{indent}- {_flat(each)}"


def _flat(value: Json) -> str:
    return scalar(value) if isinstance(value, str) else json.dumps(value)
