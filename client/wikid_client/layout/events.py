"""What happened in a vault, for a person. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import orjson

from wikid_client.layout.notes import hanging, moment
from wikid_client.layout.spans import BLANK, Line, Span, row
from wikid_client.text import count, line
from wikid_protocol.records import EventAppended, EventList, EventRecord

_LONGEST_VALUE: Final = 160


def events(found: EventList, width: int) -> list[Line]:
    """All events, oldest first, then what is wrong with the log."""
    lines = news(found, width) or [row(Span("No event.", "title"))]
    if found.findings or found.malformed:
        lines.append(BLANK)
    if found.findings:
        lines += hanging(
            "! ", f"{count(found.findings, 'finding')} in the log of {line(found.vault)}", width, 0, "warn"
        )
    if found.malformed:
        lines += hanging("! ", "what it says about feedback is not used, since a part cannot be read", width, 0, "warn")
        lines.append(row(Span("→ take note of that, and use the rest: wikid events --acknowledge", "dim"), indent=2))
    return lines


def news(found: EventList, width: int) -> list[Line]:
    """The events alone."""
    return [each for event in found.events for each in _event(event, width)]


def acknowledged(added: EventAppended) -> list[Line]:
    """That a person has seen what cannot be read."""
    return [row("Noted in the log of ", Span(line(added.vault), "title"), "; feedback counts again")]


def _event(event: EventRecord, width: int) -> Iterable[Line]:
    yield row(Span(moment(event.timestamp), "dim"), "  ", Span(line(event.kind), "title"))
    if event.cut:
        yield row(Span(f"too much to show; see line {event.line:,} of the log", "dim"), indent=2)
    told = " · ".join(f"{line(key)}: {_value(value)}" for key, value in event.details.items())
    if told:
        yield from hanging("", told, width, 2)


def _value(value: object) -> str:
    text = line(value if isinstance(value, str) else orjson.dumps(value).decode())
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + " …"
