"""Runs a child process to its end, handing on each line it says and stopping it when the caller loses interest."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

from wikid_daemon.models.failures import BuildFailure, ModelBuildFailed

Report = Callable[[str], None]
Cancelled = Callable[[], bool]

POLL_SECONDS = 0.2
GRACE_SECONDS = 5.0
KEPT_LINES = 40

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def run_child(command: list[str], folder: Path, report: Report, cancelled: Cancelled) -> tuple[int, list[str]]:
    """Exit code and last lines (both streams) of ``command``, run in ``folder`` without a terminal.

    Raises ModelBuildFailed of kind CANCELLED after stopping the child, and OSError when it cannot be started.
    """
    lines: list[str] = []
    spoken: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    with subprocess.Popen(
        command,
        cwd=folder,
        # what an installer leaves behind when it is stopped goes with the folder
        env={**os.environ, "TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    ) as process:
        threading.Thread(target=_pump, args=(process.stdout, spoken), name="wikid-child-output", daemon=True).start()
        while True:
            if cancelled():
                _stop(process)
                raise cancellation()
            try:
                line = spoken.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            if line is None:
                return process.wait(), lines
            lines = [*lines[1 - KEPT_LINES :], line]
            report(line)


def cancellation() -> ModelBuildFailed:
    """The failure of a build whose caller asked to stop."""
    return ModelBuildFailed(BuildFailure.CANCELLED, "The model build was cancelled.", "Start it again at any time.")


def _pump(stream: IO[str], spoken: queue.SimpleQueue[str | None]) -> None:
    try:
        for line in stream:
            if text := _ESCAPES.sub("", line).strip():
                spoken.put(text)
    finally:
        spoken.put(None)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
