"""What each hot path cost at which commit, and whether one costs more now. Pure: nothing is measured here.

A results file has one JSON object a line, each a `Record`. Only records of the same kind are compared: the same
statistic on the same minor version of Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal

from wikid_daemon.bench.report import rounded, table

WORSE: Final = 0.20  # more than recorded, as a share of it
BETTER: Final = -0.20
AGAIN: Final = 2  # times that a path is measured once more before it counts as worse

Verdict = Literal["same", "better", "worse", "noise", "new", "missing"]
Costs = Mapping[str, float]
Kind = tuple[str, str]
MeasureAgain = Callable[[Collection[str]], Costs]


class RecordsUnreadable(Exception):
    """A line of the results file is no record; the message says which."""


@dataclass(frozen=True, slots=True)
class Record:
    """The cost of each path at one commit, as multiples of a fixed piece of work; `micros`, microseconds of processor
    time that it took there, is for people and never compared."""

    commit: str
    date: str
    python: str
    cpu: str
    statistic: str
    paths: Costs
    micros: Costs

    @property
    def kind(self) -> Kind:
        return kind_of(self.python, self.statistic)

    def to_line(self) -> str:
        return json.dumps(rounded(asdict(self)), ensure_ascii=False) + "\n"


def kind_of(python: str, statistic: str) -> Kind:
    """What records must agree in to be comparable: Python's minor version, and the statistic."""
    return ".".join(python.split(".")[:2]), statistic


@dataclass(frozen=True, slots=True)
class Compared:
    """One path: its cost as recorded and now, and what that means. `measured` is every measurement of now, in order."""

    path: str
    verdict: Verdict
    recorded: float | None
    measured: Sequence[float]

    @property
    def now(self) -> float | None:
        """The lowest: other programs only ever make a path look dearer."""
        return min(self.measured, default=None)

    @property
    def change(self) -> float | None:
        if self.recorded is None or self.now is None:
            return None
        return self.now / self.recorded - 1


def read_records(text: str) -> list[Record]:
    """Every record of a results file, in order; fields that a later version adds are left out. RecordsUnreadable."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            found.append(Record(**{name: fields[name] for name in Record.__slots__}))
            _check(found[-1])
        except (ValueError, TypeError, KeyError) as problem:
            raise RecordsUnreadable(f"line {number} is no record of hot paths") from problem
    return found


def _check(record: Record) -> None:
    costs = record.paths.values()
    if not all(isinstance(each, int | float) and each > 0 for each in costs):
        raise ValueError("a path's cost is a positive number")


def last_of_kind(records: Iterable[Record], kind: Kind) -> Record | None:
    """The newest record that can be compared with costs of this kind."""
    return next((each for each in reversed(list(records)) if each.kind == kind), None)


def compare(recorded: Costs, now: Costs, again: MeasureAgain) -> list[Compared]:
    """Every path of either, in the order of now. What seems worse is measured `AGAIN` times by `again`, and counts as
    worse only where it was so each time."""
    measured = {path: [cost] for path, cost in now.items()}
    for _ in range(AGAIN):
        suspects = [path for path, costs in measured.items() if _is_worse(recorded.get(path), min(costs))]
        if not suspects:
            break
        for path, cost in again(suspects).items():
            measured[path].append(cost)
    gone = [path for path in recorded if path not in measured]
    found = [_compared(path, recorded.get(path), costs) for path, costs in measured.items()]
    return [*found, *(Compared(path, "missing", recorded[path], ()) for path in gone)]


def _compared(path: str, recorded: float | None, measured: Sequence[float]) -> Compared:
    if recorded is None:
        return Compared(path, "new", None, measured)
    lowest = min(measured)
    if _is_worse(recorded, lowest):
        return Compared(path, "worse", recorded, measured)
    if _is_worse(recorded, measured[0]):
        return Compared(path, "noise", recorded, measured)
    better = lowest / recorded - 1 < BETTER
    return Compared(path, "better" if better else "same", recorded, measured)


def _is_worse(recorded: float | None, now: float) -> bool:
    return recorded is not None and now / recorded - 1 > WORSE


def is_worse(compared: Iterable[Compared]) -> bool:
    """Whether any path costs more than it may."""
    return any(each.verdict == "worse" for each in compared)


_NOTES: Final[Mapping[Verdict, str]] = {
    "same": "",
    "better": "better; record it: make bench-record",
    "worse": f"WORSE by more than {WORSE:.0%}, each of {AGAIN + 1} times",
    "noise": "seemed worse at first; measured again it is not",
    "new": "new, never recorded: make bench-record",
    "missing": "recorded, but not measured here: the model is not built, or the path is gone",
}


def comparison_table(compared: Sequence[Compared]) -> str:
    """For people: path, cost recorded and now, change, and what to think of it."""
    rows = [("path", "recorded", "now", "change", "")]
    rows += [
        (each.path, _cost(each.recorded), _cost(each.now), _percent(each.change), _NOTES[each.verdict])
        for each in compared
    ]
    return table(rows)


def _cost(value: float | None) -> str:
    return "–" if value is None else f"{rounded(value):g}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:+.1%}"
