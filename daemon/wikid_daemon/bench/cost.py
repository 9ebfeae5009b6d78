"""What a piece of work costs in processor time, as a multiple of what something fixed costs at the same moment.

Seconds differ from machine to machine, and on one machine from minute to minute: a busy neighbour takes caches and
memory, and a third of the speed with them. The fixed thing is measured beside every run, so that it meets the same.

Chosen by experiment: six processes over ten minutes on two virtual cores that had four to seven processes to run.
Medians of plain seconds were up to 75 % off their middle. Medians of ratios deviate by 1 to 6 % from process to
process, at most 12 %, and where a model computes 7 %, at most 21 %; a matrix product beside those does no better. The
ratio of the smallest or of the lower quartiles repeats worse (up to 30 %), runs of 5 ms beside a loop in ten lines
worse than these of 2 ms, and a process is best held against a bare interpreter (3 %, against 14 % for the loop).
Counting instructions would repeat better, but virtual machines such as that one hide the counters.
"""

from __future__ import annotations

import gc
import os
import re
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Final

if sys.platform != "win32":
    import resource

# another loop, or another way from runs to a cost, gives other numbers and so needs another name
STATISTIC: Final = "cpu-ratio/1"
RUNS: Final = (3, 150)  # at least, and at most
RUN_SECONDS: Final = 1.2  # of processor time, after which no run is added
WARM_UP_SHARE: Final = 0.4  # of that, before the first run
SHORTEST_SECONDS: Final = 0.002  # of a run; a shorter one is done several times over
BESIDE_SHARE: Final = 0.2  # of a run's length, which the fixed thing takes before it and after it
BESIDE_MOST: Final = 8  # times over
TICK_SECONDS: Final = 1e-7  # what a clock that has not moved stands for

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Work:
    """Something that can be done again and again. `clock` counts whatever does it; `items` are done each time."""

    work: Callable[[], object]
    items: int = 1
    clock: Clock = time.thread_time


@dataclass(frozen=True, slots=True)
class Run:
    """Processor seconds of the work once, and of the fixed thing beside it: the mean of before and after."""

    work: float
    beside: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one item: how many times the fixed thing's cost it takes, and the fewest microseconds that it took here."""

    value: float
    micros: float


@dataclass(frozen=True, slots=True)
class Measured:
    """`Cost.value` and `Cost.micros` by the name of what was measured."""

    paths: Mapping[str, float]
    micros: Mapping[str, float]


def children() -> float:
    """Processor seconds of the processes that this one has started and that have ended."""
    if sys.platform == "win32":
        times = os.times()
        return times.children_user + times.children_system
    else:  # noqa: RET505 - for a type checker of either platform
        # os.times counts in hundredths of a second
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime


# -- the fixed things --------------------------------------------------------------------------------------------------

_MEMORY: Final = bytearray(8 << 20)  # more than the caches of one core
_HTML: Final = "<div class='a'><p>text &amp; more <a href='x'>link</a></p></div>" * 12
_PATTERNS: Final = [rf"(?:a|b)+c{{2,3}}[^\d]{number}(?P<x>\w+)\s*(?=foo)" for number in range(4)]
_PROSE: Final = "what a neighbour takes from one piece of work it takes from the other as well " * 40


def loop() -> int:
    """A little of what programs in Python do: tight and wide code, small objects, strings, and a walk through memory.

    Wide code matters: a loop of ten lines never leaves the caches that a neighbour takes from a parser.
    """
    counts: dict[str, int] = {}
    for number in range(1_500):
        key = f"word{number * 7_919 % 1_009}"
        counts[key] = counts.get(key, 0) + number
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    re.purge()
    groups = sum(re.compile(each).groups for each in _PATTERNS)
    parser = HTMLParser()
    parser.feed(_HTML)
    parser.close()
    lines = textwrap.wrap(_PROSE, 60)
    small = [{"number": number, "list": [number]} for number in range(3_000)]
    touched = sum(_MEMORY[::2_048]) + len(bytes(_MEMORY[: 1 << 18]))
    return len(ordered) + groups + len(lines) + len(small) + touched


def interpreter() -> None:
    """A Python that does nothing: what a process is compared with, most of whose cost is the system's."""
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], stdin=subprocess.DEVNULL, check=True)


# -- measuring ---------------------------------------------------------------------------------------------------------


def measure(work: Work, *, seconds: float = RUN_SECONDS) -> Cost:
    """What one item costs, after about `seconds` of processor time."""
    return judged(runs(work, seconds=seconds), work.items)


def judged(found: Sequence[Run], items: int) -> Cost:
    """The statistic of it."""
    ratio = statistics.median(each.work / each.beside for each in found)
    return Cost(ratio / items, min(each.work for each in found) / items * 1e6)


def middle(found: Sequence[Measured]) -> Measured:
    """Of several processes: the median cost, and the fewest microseconds."""
    names = list(dict.fromkeys(name for each in found for name in each.paths))
    return Measured(
        {name: statistics.median(each.paths[name] for each in found if name in each.paths) for name in names},
        {name: min(each.micros[name] for each in found if name in each.paths) for name in names},
    )


def runs(work: Work, *, seconds: float) -> list[Run]:
    """The work and the fixed thing in turn, warm, and without a collection of garbage in either."""
    beside = Work(interpreter, clock=children) if work.clock is children else Work(loop)
    once, once_beside = warm_up(work, seconds * WARM_UP_SHARE), warm_up(beside, 0.0)
    repeats = max(1, round(SHORTEST_SECONDS / once))
    fixed = min(max(1, round(repeats * once * BESIDE_SHARE / once_beside)), BESIDE_MOST)
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        found, spent, before = list[Run](), 0.0, _timed(beside, fixed)
        while len(found) < RUNS[0] or (spent < seconds and len(found) < RUNS[1]):
            used = _timed(work, repeats)
            after = _timed(beside, fixed)
            found.append(Run(used / repeats, (before + after) / 2 / fixed))
            before, spent = after, spent + used
        return found
    finally:
        if collecting:
            gc.enable()


def warm_up(work: Work, seconds: float) -> float:
    """Do the work until caches and compilers are warm; the seconds that it takes then."""
    took, spent = float("inf"), 0.0
    while True:
        used = max(_timed(work, 1), TICK_SECONDS)
        took, spent = min(took, used), spent + used
        if spent > max(seconds, SHORTEST_SECONDS):
            return took


def _timed(work: Work, repeats: int) -> float:
    started = work.clock()
    for _ in range(repeats):
        work.work()
    return work.clock() - started
