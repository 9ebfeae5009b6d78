"""Which of the noticed paths is looked at next: the latest first, but not with every change of one that never rests.

A save is looked at when it comes. After that its path rests for a moment, and for longer each time that it was noticed
more than once since, so that a log which a program appends to costs a bounded share of a processor however large it is.
Times are seconds of a clock that never goes back.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

FIRST_REST = 0.05
LONGEST_REST = 2.0
COST_SHARE = 3  # a path rests at least so many times as long as a processor was busy with it


@dataclass(slots=True)
class _Rest:
    """`notices` came since the look that it follows."""

    until: float
    length: float
    notices: int = 0


class Arrivals:
    """The noticed paths; "" stands for all there are."""

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}
        self._rests: dict[str, _Rest] = {}

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    @property
    def paths(self) -> set[str]:
        return set(self._paths)

    def add(self, paths: Collection[str]) -> None:
        """Something may have changed at these."""
        for path in paths:
            self._paths.pop(path, None)
            self._paths[path] = None
            if (rest := self._rests.get(path)) is not None:
                rest.notices += 1

    def clear(self) -> None:
        """Everything is being looked at."""
        self._paths.clear()

    def take(self, now: float, most: int, needed: Collection[str] = ()) -> set[str]:
        """Remove and return at most so many that do not rest, or rest and are `needed`; or "" alone."""
        taken = {""} if "" in self._paths else set(islice(self._ready(now, needed), most))
        for path in taken:
            del self._paths[path]
        return taken

    def any_ready(self, now: float) -> bool:
        """Whether `take` would return something."""
        return "" in self._paths or any(True for _ in self._ready(now, ()))

    @property
    def next_ready(self) -> float:
        """When `take` will: the time, 0 where it would now, infinity where nothing was noticed."""
        times = (self._rests[path].until if path in self._rests else 0.0 for path in self._paths)
        return min(times, default=float("inf"))

    def looked_at(self, paths: Collection[str], now: float, busy: float) -> None:
        """A look at these ended now and kept a processor busy for so many seconds."""
        cost = COST_SHARE * busy / max(len(paths), 1)
        lengths = {path: max(self._length(path), cost) for path in paths}
        self._rests = {path: rest for path, rest in self._rests.items() if now <= rest.until + rest.length}
        self._rests.update((path, _Rest(now + length, length)) for path, length in lengths.items())

    def _length(self, path: str) -> float:
        before = self._rests.get(path)
        if before is None:
            return FIRST_REST
        return min(before.length * 2, LONGEST_REST) if before.notices > 1 else max(before.length / 2, FIRST_REST)

    def _ready(self, now: float, needed: Collection[str]) -> Iterator[str]:
        for path in reversed(self._paths):
            rest = self._rests.get(path)
            if rest is None or rest.until <= now or path in needed:
                yield path
