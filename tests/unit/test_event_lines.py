"""Events as lines: what is written, what is read back, and when feedback may no longer be trusted."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_daemon.core.events import (
    CLOSE_TORN,
    MAX_EVENT_BYTES,
    EventRefused,
    event_line,
    parse_events,
    scan_events,
    timestamp_of,
)

DATA = Path(__file__).parents[1] / "data"
STAMP = "2026-07-01T12:00:00.000Z"
BAD = b'{"timestamp":"2026-07-01"\n'

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
DETAILS = st.dictionaries(TEXT.filter(lambda key: key not in ("kind", "timestamp")), JSON, max_size=4)
EVENTS = st.tuples(DETAILS, TEXT.filter(str.strip)).map(lambda pair: {**pair[0], "kind": pair[1]})


def feedback(action: str = "shown") -> bytes:
    return event_line({"schema": 1, "visibility": "internal", "action": action, "kind": "recall_feedback"}, STAMP)


def noted() -> bytes:
    return event_line({"kind": "events_acknowledged"}, STAMP)


# -- the sample vaults -------------------------------------------------------------------------------------------------


def test_the_broken_vault_s_log_is_read_as_the_extension_reads_it() -> None:
    stream = parse_events((DATA / "ugly/.llm-wiki/meta/events.jsonl").read_bytes())
    expected = json.loads((DATA / "expected/ugly.events.json").read_text())
    assert [[each.code, str(each.line)] for each in stream.findings] == expected["codes"]
    assert [each.line for each in stream.events] == [1, 14, 15, 16]
    in_its_log = [line for line in expected["log_lines"] if line.startswith("- ")]
    ours = [
        f"- **{each.kind}**"
        + (f": {json.dumps(each.details, sort_keys=True, separators=(',', ':'))}" * bool(each.details))
        for each in sorted(stream.events, key=lambda event: event.timestamp, reverse=True)
    ]
    assert sorted(line.replace("\\_", "_").replace("\\", "") for line in in_its_log) == sorted(
        line.replace("\\", "") for line in ours
    )
    assert not stream.malformed_after_wikid, "its last line is torn, and all others are from before wikid"


@pytest.mark.parametrize("name", ["personal", "project"])
def test_the_sound_vaults_logs_have_no_finding(name: str) -> None:
    data = (DATA / name / ".llm-wiki/meta/events.jsonl").read_bytes()
    stream = parse_events(data)
    assert not stream.findings
    assert [each.line for each in stream.events] == list(range(1, data.count(b"\n") + 1))


# -- writing -----------------------------------------------------------------------------------------------------------


def test_a_line_has_its_details_first_then_time_and_kind() -> None:
    line = event_line({"kind": "observe", "slug": "größe-数据", "n": [1, None]}, STAMP)
    assert line.decode() == f'{{"slug":"größe-数据","n":[1,null],"timestamp":"{STAMP}","kind":"observe"}}\n'


@settings(deadline=None)
@given(st.lists(EVENTS, max_size=5))
def test_what_is_written_is_read_back_in_order(events: list[dict[str, Any]]) -> None:
    data = b"".join(event_line(each, STAMP) for each in events)
    stream = parse_events(data)
    assert data.count(b"\n") == len(events)
    assert not stream.findings
    assert [{**each.details, "kind": each.kind} for each in stream.events] == events
    assert [each.line for each in stream.events] == list(range(1, len(events) + 1))
    assert {each.timestamp for each in stream.events} <= {STAMP}


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({}, "event_missing_kind"),
        ({"kind": " \n"}, "event_missing_kind"),
        ({"kind": 7}, "event_missing_kind"),
        ({"kind": "k", "timestamp": STAMP}, "event_reserved_field"),
        ({"kind": "k", "x": float("nan")}, "event_not_json"),
        ({"kind": "k", "x": {1, 2}}, "event_not_json"),
        ({"kind": "k", "x": "secret" * MAX_EVENT_BYTES}, "event_too_large"),
    ],
)
def test_what_is_no_event_is_refused_without_quoting_it(event: dict[str, Any], reason: str) -> None:
    with pytest.raises(EventRefused) as refused:
        event_line(event, STAMP)
    assert refused.value.reason == reason
    assert "secret" not in str(refused.value)


def test_a_time_is_in_utc_with_milliseconds() -> None:
    there = datetime(2026, 7, 1, 2, 3, 4, 567_890, timezone(timedelta(hours=13)))
    assert timestamp_of(there) == "2026-06-30T13:03:04.567Z"
    assert timestamp_of(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00.000Z"


# -- reading -----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_and_every_line_is_accounted_for(data: bytes) -> None:
    stream = parse_events(data)
    lines = [number for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()]
    assert sorted([*(e.line for e in stream.events), *(f.line or 0 for f in stream.findings)]) == lines


@pytest.mark.parametrize(
    "line",
    [
        b'{"timestamp":"2026-07-01T12:00:00.000Z","kind":"caf\xe9"}',
        b'{"timestamp":"2026-07-01T12:00:00.000Z","kind":"cut \\ud83d"}\r',
        b'{"timestamp":"2026-07-01T14:00:00+02:00","kind":"k","deep":' + b"[" * 90 + b"]" * 90 + b"}",
        b'{"timestamp":"2026-07-01T12:00:00.000Z","kind":"k","n":123456789012345678901234567890,"e":1e999,"\\udc00":1}',
    ],
)
def test_what_other_programs_write_is_read_and_fit_for_an_answer(line: bytes) -> None:
    [event] = parse_events(line + b"\n").events
    assert orjson.dumps((event.kind, event.details))


def test_what_nests_too_deep_or_is_no_number_of_json_is_a_finding() -> None:
    deep = b'{"timestamp":"2026-07-01","kind":"k","x":' + b"[" * 100_000
    stream = parse_events(deep + b'\n{"timestamp":"2026-07-01","kind":"k","x":NaN}\n')
    assert [each.code for each in stream.findings] == ["event_invalid_json"] * 2


def test_a_finding_never_quotes_the_line() -> None:
    for each in parse_events(b'{"secret\n{"timestamp":"secret"}\n{"timestamp":"2026-01-01","secret":1}\n').findings:
        assert "secret" not in each.message
        assert (each.severity, each.path) == ("warning", "meta/events.jsonl")


@settings(deadline=None)
@given(st.lists(st.sampled_from((BAD, b"\n", feedback(), noted(), event_line({"kind": "k"}, STAMP))), max_size=8))
def test_reading_on_from_any_mark_is_reading_in_one_go(lines: list[bytes]) -> None:
    data = b"".join(lines)
    whole = list(scan_events(data))
    for number, (_, mark) in enumerate(whole, start=1):
        assert list(scan_events(data[mark.offset :], mark)) == whole[number:]
        assert data[mark.offset - 1 : mark.offset] == b"\n"
        assert data[: mark.offset].count(b"\n") == mark.line


# -- trust -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "malformed"),
    [
        (BAD, False),
        (BAD + feedback(), False),
        (feedback() + BAD, True),
        (feedback() + BAD + feedback(), True),
        (feedback() + b'{"kind":"no_time"}\n', True),
        (feedback() + b"\n  \n" + feedback(), False),
        (feedback() + BAD.rstrip(), False),
        (feedback() + BAD.rstrip() + CLOSE_TORN + feedback(), False),
        (feedback() + BAD + BAD.rstrip() + CLOSE_TORN + feedback(), True),
        (feedback() + BAD + noted(), False),
        (feedback() + BAD + noted() + BAD + feedback(), True),
        (noted() + feedback() + BAD, True),
    ],
)
def test_a_line_that_cannot_be_read_ends_trust_after_wikid_s_first_event_until_somebody_takes_note(
    data: bytes, malformed: bool
) -> None:
    stream = parse_events(data)
    assert stream.malformed_after_wikid is malformed
    assert len(stream.findings) == data.count(BAD.rstrip()) + data.count(b"no_time")


@settings(deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=3), st.data())
def test_wherever_an_append_was_torn_the_next_ones_are_whole_and_trusted(
    events: list[dict[str, Any]], data: st.DataObject
) -> None:
    line = event_line({**events[0], "kind": "recall_feedback"}, STAMP)
    torn = line[: data.draw(st.integers(1, len(line) - 2))]
    later = b"".join(event_line(each, STAMP) for each in events)
    stream = parse_events(feedback() + torn + CLOSE_TORN + later)
    assert [each.kind for each in stream.events] == ["recall_feedback", *(each["kind"] for each in events)]
    assert not stream.malformed_after_wikid
