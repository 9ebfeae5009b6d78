"""Days in the person's own time zone (known input T26)."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wikid_daemon.core.dates import normalised
from wikid_daemon.core.period import Period, day_named, local_day

AUCKLAND = ZoneInfo("Pacific/Auckland")


def local(moment: datetime) -> datetime:
    return moment.astimezone(AUCKLAND)


def stored(text: str) -> str:
    found = normalised(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("written", "day"),
    [
        ("2026-05-26T23:59:00+12:00", date(2026, 5, 26)),
        ("2026-05-27T00:01:00+12:00", date(2026, 5, 27)),
        # the same instants as another machine writes them
        ("2026-05-26T11:59:00Z", date(2026, 5, 26)),
        ("2026-05-26T12:01:00Z", date(2026, 5, 27)),
        # the night in which the clocks go back: 02:30 comes twice
        ("2026-04-05T02:30:00+13:00", date(2026, 4, 5)),
        ("2026-04-05T02:30:00+12:00", date(2026, 4, 5)),
        ("2026-04-04T23:59:00+13:00", date(2026, 4, 4)),
        # a date alone is that day wherever it is read
        ("2026-05-26", date(2026, 5, 26)),
    ],
)
def test_t26_an_instant_belongs_to_the_local_day_it_falls_in(written: str, day: date) -> None:
    assert local_day(stored(written), local) == day
    assert Period(day, day).holds(stored(written), local)


def test_t26_today_is_the_local_day() -> None:
    period = Period(day_named("today", date(2026, 5, 27)), None)
    assert not period.holds(stored("2026-05-26T23:59:00+12:00"), local)
    assert period.holds(stored("2026-05-27T00:01:00+12:00"), local)
    assert day_named("Yesterday", date(2026, 3, 1)) == date(2026, 2, 28)


def test_a_page_without_a_date_is_in_no_period() -> None:
    assert not Period(date(2026, 1, 1), None).holds(None, local)
    assert not Period(None, None)


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "2026-1-1", "20260101", "2026-01-01T00:00:00Z"])
def test_what_names_no_day_is_none(text: str) -> None:
    assert day_named(text, date(2026, 1, 1)) is None


@given(st.dates(), st.dates(), st.dates())
def test_both_ends_are_included(day: date, since: date, until: date) -> None:
    assert Period(since, until).holds(f"{day.isoformat()}T00:00:00Z", local) == (since <= day <= until)
