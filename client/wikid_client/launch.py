"""Start a daemon that outlives this process, and wait until somebody answers.

Any number of clients may do this at once: the daemon's own lock lets one live, the others' children leave when that one
answers, and everybody waits for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeVar

from wikid_protocol.endpoint import folders
from wikid_protocol.errors import DaemonNotRunning

T = TypeVar("T")

DAEMON: Final = "wikid_daemon"
INSTALL_HINT: Final = "install its daemon as the README of wikid-memory says"

_OF_A_SERVICE: Final = (
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "XPC_SERVICE_NAME",
)
_START_SECONDS: Final = 10.0
_FIRST_PAUSE: Final = 0.004
_LONGEST_PAUSE: Final = 0.1


def daemon_command(module: str, *arguments: str) -> list[str]:
    """How to run one of the daemon's modules; DaemonNotRunning where the daemon is not installed."""
    if find_spec(DAEMON) is None:
        raise DaemonNotRunning("the wikid daemon is not installed in this Python", hint=INSTALL_HINT)
    # -P keeps the current folder off the module path: it may be anybody's
    return [sys.executable, "-P", "-m", module, *arguments]


def start_daemon(path: Path, connect: Callable[[], T | None], deadline: float) -> T:
    """The first connection that `connect` makes once a daemon is up; DaemonNotRunning when none comes up in time."""
    log = folders().state / "start.log"
    child = _spawn(daemon_command(DAEMON), path, log)
    deadline = min(deadline, time.monotonic() + _START_SECONDS)
    pause = _FIRST_PAUSE
    while True:
        gone = child.poll() is not None  # asked first: a daemon that gave way to another leaves once that one answers
        found = connect()
        if found is not None:
            _reap_later(child)
            return found
        if gone:
            how = f"left at once with exit code {child.returncode}"
            break
        if time.monotonic() >= deadline:
            _reap_later(child)
            how = "does not answer yet"
            break
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
    # what it said went nowhere where the file could not be opened
    hint = f"see {log}, or run: wikid serve" if os.access(log, os.W_OK) else "see why with: wikid serve"
    raise DaemonNotRunning(f"the wikid daemon was started but {how}", hint=hint)


def _spawn(command: list[str], path: Path, log: Path) -> subprocess.Popen[bytes]:
    output = _open_log(log)

    def spawn(flags: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env={**_own_environment(), "WIKID_SOCKET": os.fspath(path)},
            start_new_session=True,
            creationflags=flags,
        )

    try:
        if sys.platform == "win32":
            # a console of its own that nobody sees: with none at all, each program that the daemon runs would open one
            flags = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
            try:
                # out of the terminal's job, which ends all its processes when the terminal closes
                return spawn(flags | subprocess.CREATE_BREAKAWAY_FROM_JOB)
            except PermissionError:
                return spawn(flags)  # a job that lets nobody go
        else:
            return spawn(0)
    finally:
        os.close(output)


def _own_environment() -> dict[str, str]:
    """Without what a service manager told this process alone: the daemon is not the service that it waits for."""
    return {name: value for name, value in os.environ.items() if name not in _OF_A_SERVICE}


def _open_log(log: Path) -> int:
    """What the daemon says before its own log is open; nowhere, if the state folder cannot be written."""
    try:
        os.makedirs(log.parent, mode=0o700, exist_ok=True)
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def _reap_later(child: subprocess.Popen[bytes]) -> None:
    threading.Thread(target=child.wait, name="wikid-daemon-exit", daemon=True).start()
