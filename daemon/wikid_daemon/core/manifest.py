"""What a scan saw, what is already known, and the plan that follows. No file is read here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from wikid_daemon.core.page import Finding

RACY_WINDOW_NS = 2_000_000_000


class Stamp(NamedTuple):
    """What a file system tells of a file without reading it. ``inode`` is 0 where that number is not stable."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    def is_racy(self, at_ns: int) -> bool:
        """Whether a later change could leave the same stamp, because the last one is within 2 s of ``at_ns``.

        Clocks of file systems are coarse, and some store seconds only; git distrusts its index the same way.
        """
        return abs(at_ns - self.mtime_ns) < RACY_WINDOW_NS or abs(at_ns - self.ctime_ns) < RACY_WINDOW_NS

    def distrusted(self) -> "Stamp":
        """A stamp that equals none from a file system, so that the next plan reads the file again."""
        return self._replace(inode=-1)


@dataclass(frozen=True, slots=True)
class Known:
    """A page as it was last read: the stamp that came with the bytes, and their SHA-256 in hex."""

    stamp: Stamp
    content_hash: str


@dataclass(frozen=True, slots=True)
class Scan:
    """One look at a vault, or at some of its paths.

    ``entries`` are pages in `names.sort_key` order; ``skipped`` (left out by rule) and ``failed`` (could not be looked
    at, files or folders) hold (path, reason); ``findings`` are the identity collisions of a strict vault; ``folders``
    are those walked, "" being the root.
    """

    entries: Mapping[str, Stamp]
    scanned_at_ns: int
    skipped: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    findings: tuple[Finding, ...] = ()
    folders: tuple[str, ...] = field(default=("",), repr=False)
    packets_without_page: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do after a scan: read ``check``, drop ``removed``, keep and mark ``unreachable``."""

    check: tuple[str, ...]
    removed: tuple[str, ...]
    unreachable: tuple[str, ...]
    unchanged: int


def plan(previous: Mapping[str, Known], scan: Scan) -> Plan:
    """Compare a complete scan with what is known; pages at or below a failed path are unreachable, never removed."""
    check: list[str] = []
    for path, stamp in scan.entries.items():
        known = previous.get(path)
        if known is None or known.stamp != stamp or stamp.is_racy(scan.scanned_at_ns):
            check.append(path)
    missing = [path for path in previous if path not in scan.entries]
    unreachable = set(below(missing, (path for path, _ in scan.failed)))
    return Plan(
        check=tuple(check),
        removed=tuple(path for path in missing if path not in unreachable),
        unreachable=tuple(path for path in missing if path in unreachable),
        unchanged=len(scan.entries) - len(check),
    )


def below(paths: Iterable[str], roots: Iterable[str]) -> list[str]:
    """Those of ``paths`` that are one of ``roots`` or lie below one; "" is above everything."""
    tops = set(roots)
    if not tops or "" in tops:
        return list(paths) if tops else []
    return [path for path in paths if path in tops or any(path[:at] in tops for at in _separators(path))]


def _separators(path: str) -> Iterable[int]:
    at = path.find("/")
    while at >= 0:
        yield at
        at = path.find("/", at + 1)
