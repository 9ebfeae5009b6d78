"""The days that `since` and `until` name, and whether a page's date lies among them, in the person's time zone. Pure.

A page's date with an hour is an instant, and belongs to the local day in which it falls; a date alone is that day
everywhere (known input T26).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from wikid_daemon.core.dates import instant

_RELATIVE: Final = {"today": 0, "yesterday": 1}
_MIDNIGHT: Final = "T00:00:00Z"  # how `dates.normalised` writes a date without an hour


@dataclass(frozen=True, slots=True)
class Period:
    """Whole local days, both ends included; None is open."""

    since: date | None
    until: date | None

    def __bool__(self) -> bool:
        return self.since is not None or self.until is not None

    def holds(self, dated: str | None, local: Callable[[datetime], datetime]) -> bool:
        """Whether a normalised page date is in the period. A page without a date is in no bounded period."""
        if dated is None:
            return False
        day = local_day(dated, local)
        return (self.since is None or self.since <= day) and (self.until is None or day <= self.until)


def local_day(dated: str, local: Callable[[datetime], datetime]) -> date:
    """The day a normalised page date belongs to; `local` turns an instant into the person's time zone."""
    if dated.endswith(_MIDNIGHT):
        return date.fromisoformat(dated[: -len(_MIDNIGHT)])
    return local(instant(dated)).date()


def day_named(text: str, today: date) -> date | None:
    """The day that `2026-01-31`, `today` or `yesterday` names; None for anything else."""
    word = text.strip().casefold()
    if word in _RELATIVE:
        return today - timedelta(days=_RELATIVE[word])
    try:
        return date.fromisoformat(word) if len(word) == len("2026-01-31") else None
    except ValueError:
        return None
