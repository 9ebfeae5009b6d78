"""A place of its own for a benchmark: folders, environment and a private daemon, all gone afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wikid_client.client import Client
from wikid_protocol.endpoint import folders
from wikid_protocol.errors import WikidError

POLL_SECONDS: Final = 0.005
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 15.0
# what would lead to the user's own folders, and what would have every start compile the program anew, as no
# installed one does
_OF_THE_USER: Final = ("XDG_", "WIKI_", "PYTHONDONTWRITEBYTECODE")


class BenchmarkFailed(Exception):
    """A measurement could not be taken; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The folder everything is below, and the environment in which a daemon and its commands find nothing else."""

    root: Path
    environment: dict[str, str]

    @property
    def endpoint(self) -> Path:
        return Path(self.environment["WIKID_SOCKET"])

    @property
    def state(self) -> Path:
        return folders(self.environment).state


@contextmanager
def sandbox() -> Iterator[Sandbox]:
    """Make one; only the cache stays the user's own, because the models are there."""
    with tempfile.TemporaryDirectory(prefix="wikid-bench-", ignore_cleanup_errors=True) as folder:
        root = Path(os.path.realpath(folder))
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_OF_THE_USER)},
            "HOME": str(root / "home"),
            "XDG_CONFIG_HOME": str(root / "config"),
            "XDG_STATE_HOME": str(root / "state"),
            "XDG_RUNTIME_DIR": str(root / "run"),
            "XDG_CACHE_HOME": str(folders().cache.parent),
            "WIKID_SOCKET": str(root / "run" / "wikid" / "s"),
        }
        for name in ("home", "run"):
            (root / name).mkdir(mode=0o700)
        yield Sandbox(root, environment)


@dataclass(frozen=True, slots=True)
class PrivateDaemon:
    """A running daemon: when its process was started, on `time.perf_counter`'s clock, and when it first answered."""

    pid: int
    spawned: float
    answered_ms: float
    endpoint: Path

    def client(self) -> Client:
        return Client(endpoint=self.endpoint, start=False)

    def cpu_seconds(self) -> float | None:
        """User and system time that the process has used, where /proc tells (Linux)."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text("ascii")
        except OSError:
            return None
        after_name = stat.rpartition(")")[2].split()
        if sys.platform == "win32":
            return None
        else:  # noqa: RET505 - for a type checker of either platform
            return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def daemon(place: Sandbox) -> Iterator[PrivateDaemon]:
    """Start a daemon in the sandbox, wait for its first answer, and stop it in the end. BenchmarkFailed."""
    log = place.root / "daemon.log"
    spawned = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "wikid_daemon"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=place.root,
            env=place.environment,
            start_new_session=True,
        )
    try:
        _await_answer(place.endpoint, process, log)
        yield PrivateDaemon(process.pid, spawned, (time.perf_counter() - spawned) * 1e3, place.endpoint)
    finally:
        _stop(process)


def _await_answer(endpoint: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.perf_counter() + START_SECONDS
    while True:
        try:
            with Client(endpoint=endpoint, start=False) as client:
                client.ping(timeout=1.0)
            return
        except WikidError as problem:
            if process.poll() is not None or time.perf_counter() > until:
                said = log.read_text(errors="replace")[-2_000:]
                raise BenchmarkFailed(f"the private daemon does not answer ({problem}): {said}") from problem
        time.sleep(POLL_SECONDS)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
