"""What every answer may say besides: diagnostics with their remedies, times and sizes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from wikid_client.layout.spans import Line, Span, Style, row
from wikid_client.text import line, wrap, wrap_parts
from wikid_protocol.memories import Diagnostic

_NARROWEST: Final = 20


def diagnostics(found: Iterable[Diagnostic], width: int, indent: int = 0) -> list[Line]:
    """Each message once, and beneath those that have the same remedy that one, once."""
    messages: dict[str, list[str]] = {}
    for message, remedy in dict.fromkeys((each.message, each.remedy) for each in found):
        messages.setdefault(remedy, []).append(message)
    lines: list[Line] = []
    for remedy, same in messages.items():
        for message in same:
            lines += hanging("! ", line(message), width, indent, "warn")
        if remedy:
            lines += hanging("→ ", line(remedy), width, indent + 2, "dim")
    return lines


def hanging(sign: str, text: str, width: int, indent: int = 0, style: Style = "") -> list[Line]:
    """Wrapped text with a sign before its first line and the others set beneath its words."""
    parts = wrap(text, max(width - indent - len(sign), _NARROWEST))
    signs = [sign, *[" " * len(sign)] * len(parts)]
    return [row(Span(before + each, style), indent=indent) for before, each in zip(signs, parts, strict=False)]


def listed(parts: Iterable[str], width: int, indent: int = 0, style: Style = "dim") -> list[Line]:
    """Short facts in a row, broken between facts."""
    return [row(Span(each, style), indent=indent) for each in wrap_parts(parts, max(width - indent, _NARROWEST))]


def moment(text: str | None) -> str:
    """An RFC 3339 time in the local zone, to the minute; a date stays one; anything else stays as it is."""
    if not text or "T" not in text:
        return line(text or "")
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return line(text)


def ago(text: str | None, now: datetime | None) -> str:
    """How long before `now` an RFC 3339 time was; the moment itself without a `now`, or where it is no such time."""
    try:
        seconds = (now - datetime.fromisoformat(text)).total_seconds() if now and text else None
    except (ValueError, TypeError):
        seconds = None
    if seconds is None:
        return moment(text)
    return f"{span_of(seconds)} ago" if seconds >= 1 else "just now"


def span_of(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h 5 min`, `2 d 4 h`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min"
    if whole < 86_400:
        return f"{whole // 3_600} h {whole % 3_600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3_600} h"


def elapsed(milliseconds: float) -> str:
    """`14 ms`, `2.3 s`, `12 min`."""
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1_000:.1f} s" if milliseconds < 60_000 else span_of(milliseconds / 1_000)


def size(count: int) -> str:
    """Bytes in decimal units."""
    return f"{count / 1e6:,.0f} MB" if count >= 1e6 else f"{count / 1e3:,.0f} kB"
