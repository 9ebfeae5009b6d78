"""What a process holds, read from Linux's `/proc`: open files, threads, memory."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from builders import until

SETTLE_SECONDS: Final = 60.0
STILL_SAMPLES: Final = 100  # about a second
_FOUR_GB: Final = 1 << 32
_MAPPING: Final = re.compile(r"[0-9a-f]+-([0-9a-f]+) \S+ \S+ \S+ \S+\s*(.*)")
_CATALOG: Final = "/catalog.sqlite"
_OWN_BUSINESS: Final = ("C1 Compiler", "C2 Compiler", "GC Thread", "VM ", "Cleaner-")
"""Threads that Java starts and ends as it likes."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process holds at one moment; memory is what is resident, in bytes, but for Java's heap.

    Each thread that reads a catalog keeps it open, so it counts as one file, however many threads have come by.
    """

    files: int
    threads: int
    resident: int

    def __str__(self) -> str:
        return f"{self.files} open files, {self.threads} threads, {self.resident / 1e6:.0f} MB"


def usage(pid: int) -> Usage:
    """What the process holds now."""
    files = open_files(pid)
    catalogs = [each for each in files if _CATALOG in each and not each.endswith("(deleted)")]
    return Usage(
        files=len(files) - len(catalogs) + len(set(catalogs)), threads=threads(pid).total(), resident=resident(pid)
    )


def open_files(pid: int) -> list[str]:
    """What the open files of a process are."""
    found = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(each))
        except FileNotFoundError:
            continue
    return found


def threads(pid: int) -> Counter[str]:
    """The threads of a process by name."""
    found: Counter[str] = Counter()
    for each in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (each / "comm").read_text().strip()
        except OSError:
            continue
        if not name.startswith(_OWN_BUSINESS):
            found[name] += 1
    return found


def resident(pid: int) -> int:
    """The resident memory of a process in bytes, without Java's heap: that has a size of its own, up to which it may
    fill with garbage."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") - _java_heap(pid)


def _java_heap(pid: int) -> int:
    """What is resident below 4 GB, where a small Java heap lies, and nothing else that has no name."""
    found, inside = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if mapping := _MAPPING.match(line):
            inside = int(mapping[1], 16) <= _FOUR_GB and not mapping[2]
        elif inside and line.startswith("Rss:"):
            found += int(line.split()[1]) * 1024
    return found


def settled(pid: int, holds: Callable[[Usage], bool], seconds: float = SETTLE_SECONDS) -> Usage:
    """The first usage that `holds`, or the last one seen where none does in time: idle connections, caches and threads
    take a moment to go."""
    last: list[Usage] = []

    def once() -> bool:
        last[:] = [usage(pid)]
        return holds(last[0])

    try:
        until(once, "less in use", seconds)
    except AssertionError:
        pass
    return last[0]


def resting(pid: int) -> Usage:
    """The usage once files and threads have stayed as they are for a while."""
    seen: list[Usage] = []

    def still() -> bool:
        seen.append(usage(pid))
        last = seen[-STILL_SAMPLES:]
        return len(last) == STILL_SAMPLES and len({(each.files, each.threads) for each in last}) == 1

    until(still, "a process at rest", SETTLE_SECONDS)
    return seen[-1]
