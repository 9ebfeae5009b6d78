"""What the daemon counts of its calls: plain numbers, so that counting costs nothing and nothing is loaded for it.

All of it lives in the event loop's thread. `exposition` makes text of it when monitoring asks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the histogram of call times, in seconds; one more bucket has no bound."""

ANSWERED: Final = "ok"
UNKNOWN_METHOD: Final = "unknown"

SLOW_SECONDS: Final = 1.0
LONG_SLOW_SECONDS: Final = 60.0
LONG_CALLS: Final = ("index/", "models/", "vault/lint", "vault/rebuild_meta", "doctor")
"""What may take minutes by its nature: the work grows with the vault or with a model."""


def slow_after(method: str) -> float:
    """Seconds from which on a call of this method is told in the log."""
    return LONG_SLOW_SECONDS if method.startswith(LONG_CALLS) else SLOW_SECONDS


@dataclass(slots=True)
class Spans:
    """How long calls took: `counts` has one number for each of `BUCKETS`, and a last one for all that were longer."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds


@dataclass(slots=True)
class Meter:
    """Counts since the daemon's start. `calls` is by method and outcome, which is `ok` or the kind of the refusal."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    spans: dict[str, Spans] = field(default_factory=dict)
    slow: Counter[str] = field(default_factory=Counter)
    events_sent: int = 0
    events_dropped: int = 0

    def ended(self, method: str, outcome: str, seconds: float) -> bool:
        """Count a call that has been answered; True where it was slow for what it is."""
        self.calls[method, outcome] += 1
        self.spans.setdefault(method, Spans()).add(seconds)
        slow = seconds > slow_after(method)
        self.slow[method] += slow
        return slow

    def refused(self, method: str, kind: str) -> None:
        """Count a call that never began; `method` is one of the table's, or `UNKNOWN_METHOD`."""
        self.calls[method, kind] += 1

    def event(self, *, sent: bool) -> None:
        """Count a notification that went out, or that there was no room for."""
        if sent:
            self.events_sent += 1
        else:
            self.events_dropped += 1
