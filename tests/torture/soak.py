"""A day's work in half an hour: `python tests/torture/soak.py` prints what a crowd feels and what stays behind.

One client first, for the rate that one alone gets; then a crowd beside a client that does not read and files that
change; then calls of every kind until the time is over. It leaves with 1 where a bound is broken.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

TESTS: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from builders import base_notes, until, write  # noqa: E402 - the path above leads to it
from daemon_process import DaemonProcess  # noqa: E402
from torture.crowd import Request, Tally, crowd  # noqa: E402
from torture.occupying import occupy  # noqa: E402
from torture.resources import Usage, resting, settled, threads  # noqa: E402
from torture.unrest import Background, Churn, Mixed, Stalled, big_note  # noqa: E402
from wikid_daemon.models.catalogue import DEFAULT_MODEL  # noqa: E402
from wikid_daemon.models.location import SETTINGS_FILE, models_folder  # noqa: E402
from wikid_daemon.vault.vault import init_vault  # noqa: E402
from wikid_protocol.endpoint import folders  # noqa: E402

MINUTES: Final = 30.0
CLIENTS: Final = 64
CALLS: Final = 1_000
WARM_CALLS: Final = 10
NOTES: Final = 2_000
MIXED_CLIENTS: Final = 4
WARM_SHARE: Final = 0.15
LEAST_SHARE_OF_ONE: Final = 0.9
MOST_GROWTH: Final = 0.05
SAVES_A_SECOND: Final = NOTES / (MINUTES * 60 * (1 - WARM_SHARE))  # every note once, in a soak of full length
INDEX_SECONDS: Final = 900.0
OCCUPYING_SECONDS: Final = 120.0


@dataclass(slots=True)
class Report:
    """What a soak measured; times in milliseconds, rates in calls a second. `broken` names each bound that was."""

    modes: tuple[str, ...]
    minutes: float
    one: dict[str, float] = field(default_factory=dict)
    many: dict[str, float] = field(default_factory=dict)
    busy: int = 0
    files_saved: int = 0
    thrown_out: int = 0
    mixed: dict[str, int] = field(default_factory=dict)
    before: Usage | None = None
    after: Usage | None = None
    broken: list[str] = field(default_factory=list)

    def table(self) -> str:
        rows: list[tuple[str, ...]] = [("", "calls", "calls/s", "p50 ms", "p95 ms", "p99 ms")]
        rows += [
            (name, *(f"{found[each]:.0f}" if each == "calls" else f"{found[each]:.1f}" for each in found))
            for name, found in (("one client", self.one), (f"{CLIENTS} clients", self.many))
        ]
        lines = ["".join(f"{cell:>12}" for cell in row) for row in rows]
        lines.append(f"modes {', '.join(self.modes)}; {self.busy} times busy; {self.files_saved} files saved")
        lines.append(f"a reader that did not read was closed {self.thrown_out} times")
        lines.append("mixed load: " + ", ".join(f"{count} {name}" for name, count in sorted(self.mixed.items())))
        lines += [f"after warm-up: {self.before}", f"at the end:    {self.after}"]
        return "\n".join(lines + [f"BROKEN: {each}" for each in self.broken])


class Soak:
    """One daemon below `folder`, with the default model where this user has built it."""

    def __init__(self, folder: Path, minutes: float) -> None:
        self._notes, self._diary = folder / "notes", init_vault(folder / "diary", "soak", "personal")
        base_notes(self._notes, NOTES)
        write(self._notes, "big.md", big_note())
        models = models_folder(folders().cache)
        self._has_model = (models / DEFAULT_MODEL / SETTINGS_FILE).is_file()
        more = {"WIKID_MODEL_DIR": str(models)} if self._has_model else {}
        self._daemon = DaemonProcess(folder / "home", **more)
        self._seconds = minutes * 60
        self._calls = max(20, round(CALLS * min(minutes / MINUTES, 1)))
        # three recalls by words for each that embeds its query
        modes = ("lexical", "lexical", "lexical", "hybrid") if self._has_model else ("lexical",)
        self._requests: list[Request] = [
            ("recall", {"query": f"tok{number % NOTES + 1:02}zebra harbour", "vault": "notes", "mode": mode})
            for number, mode in enumerate(modes * 250)
        ]
        self._threads: Counter[str] = Counter()
        self._churn = Churn(self._notes, NOTES, SAVES_A_SECOND)
        self._stalled = Stalled(self._daemon.endpoint, "notes")
        self._report = Report(tuple(dict.fromkeys(modes)), minutes)

    def run(self) -> Report:
        """All of it, then the report."""
        report, daemon = self._report, self._daemon
        with daemon:
            self._index()
            occupy(daemon.endpoint, OCCUPYING_SECONDS)
            began = time.monotonic()
            with Background(self._churn, self._stalled):
                crowd(daemon.endpoint, CLIENTS, WARM_CALLS, self._requests)
                self._mixed(began + self._seconds * WARM_SHARE)
            self._calm()
            report.before = resting(daemon.pid)
            self._threads = threads(daemon.pid)
            say(f"warm: {report.before}")
            one = crowd(daemon.endpoint, 1, max(200, self._calls), self._requests)
            report.one = _figures(one)
            say(f"one client: {report.one}")
            with Background(self._churn, self._stalled) as beside:
                many = crowd(daemon.endpoint, CLIENTS, self._calls, self._requests)
                report.many, report.busy = _figures(many), many.busy
                say(f"{CLIENTS} clients: {report.many}")
                self._mixed(began + self._seconds)
            report.files_saved, report.thrown_out = self._churn.saved, self._stalled.thrown_out
            report.broken += [*one.errors, *many.errors, *beside.errors]
            if many.rate < LEAST_SHARE_OF_ONE * one.rate:
                report.broken.append(f"the crowd got {many.rate / one.rate:.0%} of what one client gets")
            self._calm()
            self._settle(report.before)
        return report

    def _index(self) -> None:
        """Register both vaults, and wait until every chunk has its vector."""
        say(f"indexing {NOTES} notes, {'with' if self._has_model else 'without'} a model")
        for root, name in ((self._notes, "notes"), (self._diary, "diary")):
            self._daemon.add(root, name)
        if self._has_model:
            until(lambda: self._embedded() or None, "every chunk being embedded", INDEX_SECONDS)

    def _embedded(self) -> bool:
        status = self._daemon.status("notes")
        return status.chunks > 0 and status.embedded == status.chunks and not status.pending

    def _mixed(self, until_then: float) -> None:
        """Calls of every kind until that time."""
        works = [
            Mixed(self._daemon.connect, self._daemon.endpoint, self._diary, NOTES, number)
            for number in range(MIXED_CLIENTS)
        ]
        with Background(*works) as load:
            time.sleep(max(until_then - time.monotonic(), 1.0))
        self._report.broken += load.errors
        total = sum((each.done for each in works), Counter(self._report.mixed))
        self._report.mixed = dict(total)

    def _calm(self) -> None:
        """Wait until all that was saved is indexed."""
        for name in ("notes", "diary"):
            self._daemon.client.sync(vault=name, timeout_ms=120_000)
        if self._has_model:
            until(lambda: self._embedded() or None, "every chunk being embedded", INDEX_SECONDS)

    def _settle(self, before: Usage) -> None:
        most = before.resident * (1 + MOST_GROWTH)

        def holds(now: Usage) -> bool:
            return now.files <= before.files and now.threads <= before.threads and now.resident <= most

        after = self._report.after = settled(self._daemon.pid, holds)
        if not holds(after):
            more = dict(threads(self._daemon.pid) - self._threads)
            self._report.broken.append(f"something stayed behind: {after} instead of {before}, threads: {more}")


def _figures(tally: Tally) -> dict[str, float]:
    return {
        "calls": len(tally.milliseconds),
        "rate": round(tally.rate, 1),
        **{f"p{share}": round(tally.percentile(share / 100), 1) for share in (50, 95, 99)},
    }


def say(words: str) -> None:
    print(f"soak: {words}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description="Many clients for a long time; what do they leave?")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="%(default)s")
    options = parser.parse_args()
    say(f"{options.minutes:g} minutes on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory(prefix="wikid-soak-") as folder:
        report = Soak(Path(folder), options.minutes).run()
    print(report.table())
    told: dict[str, Any] = asdict(report)
    print(json.dumps(told), flush=True)
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
