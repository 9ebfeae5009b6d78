"""The events of a vault as lines of text: one line out of an event, events and findings out of lines (vault format §6).

A line that cannot be read is passed over and told. Whether feedback may still be trusted depends on where it stands
(§11.27): lines from before wikid's first event were never its own, and one that was torn was never acknowledged. A line
torn at the end of the file is closed, by whoever appends next, with an empty line behind it, which tells it ever after.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from wikid_daemon.core.dates import normalised
from wikid_daemon.core.nesting import is_too_deep
from wikid_daemon.core.page import Finding, Json

EVENTS_PATH: Final = "meta/events.jsonl"
FEEDBACK_KIND: Final = "recall_feedback"
ACKNOWLEDGED_KIND: Final = "events_acknowledged"
"""The kind of an event by which a person takes note of every unreadable line before it."""

RESERVED: Final = ("timestamp", "kind")
MAX_EVENT_BYTES: Final = 262_144
CLOSE_TORN: Final = b"\n\n"
_LARGEST_INT: Final = 2**63 - 1
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class EventRefused(ValueError):
    """What was given is no event; `reason` is a stable word, and the message never repeats the event's text."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `line` counts from 1, `timestamp` is the text in the file, `details` everything else, in its order."""

    line: int
    timestamp: str
    kind: str
    details: dict[str, Json]


@dataclass(frozen=True, slots=True)
class EventStream:
    """The events in the order of the file, and a finding for each line that is none.

    With `malformed_after_wikid` feedback is not to be used: a line that may have been wikid's own cannot be read, nor
    has anybody taken note of it, or the whole file cannot be read.
    """

    events: tuple[Event, ...] = ()
    findings: tuple[Finding, ...] = ()
    malformed_after_wikid: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A place between two lines of the file, `offset` bytes and `line` lines from its start, and what is before it."""

    offset: int = 0
    line: int = 0
    findings: int = 0
    after_wikid: bool = False
    malformed: bool = False


START: Final = Mark()


# -- writing -----------------------------------------------------------------------------------------------------------


def event_line(event: Mapping[str, Json], timestamp: str) -> bytes:
    """The line of an event, which holds its kind and its details: details first, then `timestamp` and `kind`.

    EventRefused: `event_reserved_field` for one with a time of its own, `event_missing_kind`, `event_not_json`,
    `event_too_large`.
    """
    kind = event.get("kind")
    if not isinstance(kind, str) or not kind.strip():
        raise EventRefused("event_missing_kind", "an event needs a kind, which is text")
    if "timestamp" in event:
        raise EventRefused("event_reserved_field", "the time of an event is set by its writer")
    details = {key: value for key, value in event.items() if key != "kind"}
    try:
        text = json.dumps(
            {**details, "timestamp": timestamp, "kind": kind},
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
        )
    except (TypeError, ValueError, RecursionError) as problem:
        raise EventRefused("event_not_json", "the details of an event must be JSON") from problem
    line = _LONE_SURROGATE.sub("\ufffd", text).encode() + b"\n"
    if len(line) > MAX_EVENT_BYTES:
        raise EventRefused("event_too_large", f"an event has {MAX_EVENT_BYTES:,} bytes at most")
    return line


def timestamp_of(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds and Z, as every line has it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# -- reading -----------------------------------------------------------------------------------------------------------


def parse_events(data: bytes) -> EventStream:
    """The events of the file's bytes. Never raises; bad UTF-8 is replaced, blank lines are passed over silently."""
    events: list[Event] = []
    findings: list[Finding] = []
    malformed = False
    for found, behind in scan_events(data):
        malformed = behind.malformed
        if isinstance(found, Event):
            events.append(found)
        else:
            findings.append(found)
    return EventStream(tuple(events), tuple(findings), malformed)


def scan_events(data: bytes, start: Mark = START) -> Iterator[tuple[Event | Finding, Mark]]:
    """The events and findings of the file's bytes from `start` on, one by one, each with the mark behind it."""
    mark, at = start, 0
    while at < len(data):
        end = data.find(b"\n", at)
        raw = data[at:] if end < 0 else data[at:end]
        at += len(raw) + 1
        mark = replace(mark, offset=start.offset + at, line=mark.line + 1)
        if not raw.strip():
            continue
        found = _event(raw, mark.line)
        if isinstance(found, Event):
            malformed = mark.malformed and found.kind != ACKNOWLEDGED_KIND
            mark = replace(mark, after_wikid=mark.after_wikid or found.kind == FEEDBACK_KIND, malformed=malformed)
        else:
            malformed = mark.malformed or (mark.after_wikid and not _is_torn(data, at))
            mark = replace(mark, findings=mark.findings + 1, malformed=malformed)
        yield found, mark


def _is_torn(data: bytes, at: int) -> bool:
    """Whether the line before `at`, which cannot be read, ends the file, or ended it when somebody appended."""
    return at > len(data) or (data[at : at + 1] == b"\n" and at + 1 < len(data))


def _event(raw: bytes, number: int) -> Event | Finding:
    try:
        text = raw.decode("utf-8", "replace")
        if is_too_deep(text):
            return _finding("event_invalid_json", "the line nests too deep", number)
        value = json.loads(text, parse_int=_number, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return _finding("event_invalid_json", "the line is not JSON", number)
    if not isinstance(value, dict):
        return _finding("event_invalid_json", "the line is not a JSON object", number)
    timestamp, kind = value.pop("timestamp", None), value.pop("kind", None)
    if not isinstance(timestamp, str) or normalised(timestamp) is None:
        return _finding("event_invalid_timestamp", "the event has no time that can be read", number)
    if not isinstance(kind, str) or not kind.strip():
        return _finding("event_missing_kind", "the event has no kind", number)
    if b"\\u" in raw:
        value, kind = _without_surrogates(value), _without_surrogates(kind)
    return Event(number, timestamp, kind, value)


def _finding(code: str, message: str, number: int | None = None) -> Finding:
    return Finding("warning", code, EVENTS_PATH, message, number)


def source_missing() -> EventStream:
    """A vault that has no file of events yet."""
    return EventStream(findings=(_finding("event_source_missing", "the file of events is missing"),))


def source_unreadable(reason: str) -> EventStream:
    """A file of events that cannot be read; `reason` is a stable word."""
    told = _finding("event_source_unreadable", f"the file of events cannot be read: {reason}")
    return EventStream(findings=(told,), malformed_after_wikid=True)


def _number(text: str) -> int | float:
    number = int(text) if len(text) < 20 else float(text)
    return number if abs(number) <= _LARGEST_INT else float(number)


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _without_surrogates(value: Json) -> Json:
    """The same value fit for UTF-8: half of a pair, which JavaScript writes for text that it cut, is replaced."""
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(each) for each in value]
    if isinstance(value, dict):
        return {_LONE_SURROGATE.sub("\ufffd", key): _without_surrogates(each) for key, each in value.items()}
    return value
