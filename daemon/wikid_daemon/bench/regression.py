"""Records what the hot paths cost at the current commit, and says whether one costs more now than was recorded."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from wikid_daemon.bench import compare, cost, report
from wikid_daemon.bench.compare import Compared, Costs, Record, RecordsUnreadable
from wikid_daemon.bench.cost import STATISTIC, Measured
from wikid_daemon.bench.dataset import DatasetUnusable
from wikid_daemon.bench.indexing import Say
from wikid_daemon.bench.sandbox import BenchmarkFailed, sandbox

RESULTS: Final = Path("quality/speed/hot-paths.jsonl")
MEMORY: Final = "/dev/shm"
ROOM_BYTES: Final = 500_000_000
ROUNDS: Final = 3  # processes whose middle is recorded: whatever is wrong with a record is wrong for long
DIRTY: Final = "-dirty"  # behind the commit, where the tree was not as that is


def record(results: Path, *, force: bool, say: Say) -> Record:
    """Measure, and append that to the results as HEAD's. BenchmarkFailed where the tree is another, unless `force`."""
    commit = _git("rev-parse", "HEAD")
    if _is_dirty(results):
        if not force:
            raise BenchmarkFailed("the working tree is not as committed: commit first, or record with --force")
        commit += DIRTY
    found = cost.middle([measure((), say) for _ in range(ROUNDS)])
    made = Record(
        commit=commit,
        date=datetime.now(UTC).date().isoformat(),
        python=platform.python_version(),
        cpu=report.machine()["cpu"],
        statistic=STATISTIC,
        paths=found.paths,
        micros=found.micros,
    )
    results.parent.mkdir(parents=True, exist_ok=True)
    with results.open("a", encoding="utf-8", newline="\n") as file:
        file.write(made.to_line())
    return made


def against_recorded(results: Path, say: Say) -> tuple[Record, list[Compared]]:
    """The record that was compared with, and what became of each path. DatasetUnusable without one of this kind."""
    kind = compare.kind_of(platform.python_version(), STATISTIC)
    try:
        records = compare.read_records(results.read_text(encoding="utf-8"))
    except FileNotFoundError:
        records = []
    except (OSError, RecordsUnreadable) as problem:
        raise DatasetUnusable(f"{results} cannot be used: {problem}") from problem
    last = compare.last_of_kind(records, kind)
    if last is None:
        raise DatasetUnusable(f"{results} has no record of Python {kind[0]} by {kind[1]}: make bench-record")

    def again(suspects: Collection[str]) -> Costs:
        say(f"measuring again what seems to cost more: {', '.join(suspects)}")
        return measure(suspects, say).paths

    return last, compare.compare(last.paths, measure((), say).paths, again)


def measure(names: Collection[str], say: Say) -> Measured:
    """The named hot paths, or all, in a new process that finds nothing of the user's but models. BenchmarkFailed."""
    say("measuring the hot paths; about a minute")
    # made here, because whoever kills the child has it leave everything behind
    with sandbox() as place, tempfile.TemporaryDirectory(prefix="wikid-bench-", dir=_in_memory()) as folder:
        # how a dictionary or set is laid out is a matter of chance otherwise
        environment = {**place.environment, "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-P", "-m", "wikid_daemon.bench.hot_paths", str(Path(folder).resolve()), *names]
        # a session of its own: Ctrl-C comes to the parent, which ends the child
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, start_new_session=True, check=False)
    if done.returncode:
        raise BenchmarkFailed(f"measuring the hot paths left with exit code {done.returncode}")
    return Measured(**json.loads(done.stdout))


def _in_memory() -> str | None:
    """A file system without a disk: what a disk makes of a path that writes is twice as much in one minute as in the
    next. None, for the usual place, where there is none."""
    return MEMORY if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM_BYTES else None


def record_table(made: Record) -> str:
    """For people: what each path costs, as it is compared and in microseconds on this machine."""
    rows: list[Sequence[str]] = [("path", "cost", "µs here")]
    rows += [(path, f"{value:.4g}", f"{made.micros[path]:.4g}") for path, value in made.paths.items()]
    return report.table(rows)


def _is_dirty(results: Path) -> bool:
    """Whether anything but the results is not as committed."""
    top, place = Path(_git("rev-parse", "--show-toplevel")).resolve(), results.resolve()
    but = [f":(exclude,top,literal){place.relative_to(top).as_posix()}"] if place.is_relative_to(top) else []
    return bool(_git("status", "--porcelain", "--untracked-files=all", "--", ":/", *but))


def _git(*words: str) -> str:
    """What git says. BenchmarkFailed."""
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        raise BenchmarkFailed(f"git {words[0]} failed: a record belongs to a commit") from problem
    return done.stdout.strip()
