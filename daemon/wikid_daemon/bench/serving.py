"""What a caller feels: a running daemon's start, recall, saves and memory, measured from outside."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np

from wikid_client.client import Client
from wikid_daemon.bench.sandbox import BenchmarkFailed, PrivateDaemon, Sandbox
from wikid_protocol.records import Recall

COMMAND: Final = "import sys; from wikid_client.cli import main; sys.exit(main())"  # what the `wikid` script does
POLL_SECONDS: Final = 0.002
PAUSE_SECONDS: Final = 0.25  # between two saves, as between two thoughts
GIVE_UP_SECONDS: Final = 20.0
READY_SECONDS: Final = 120.0
MEANING: Final = "meaning"  # how an item says that its vector matched

Mode = Literal["lexical", "hybrid"]


@dataclass(frozen=True, slots=True)
class RecallTimes:
    """Warm recalls of one mode: milliseconds as the caller sees them, and of processor time on either side.

    `daemon_cpu_ms` is None where the system does not tell. `bundles` is the mean count in an answer.
    """

    p50_ms: float
    p95_ms: float
    daemon_cpu_ms: float | None
    client_cpu_ms: float
    bundles: float


def percentile(values: Sequence[float], share: float) -> float:
    return float(np.percentile(values, share))


def await_ready(client: Client, *, with_vectors: bool) -> None:
    """Wait until the vault is indexed and, if asked, the models are warm and every chunk has its vector."""

    def is_ready() -> bool:
        status = client.status()
        if not all(each.state == "ready" and each.pending == 0 for each in status.vaults):
            return False
        if not with_vectors:
            return True
        states = {each.state for each in status.models}
        warm = "ready" in states and "loading" not in states
        return warm and all(each.embedded == each.chunks for each in status.vaults)

    _await(is_ready, "the daemon to be ready", seconds=READY_SECONDS, poll=0.1)


def first_recall(daemon: PrivateDaemon, root: Path, query: str) -> float:
    """Milliseconds from the daemon's spawn to the first lexical answer that holds something."""
    with daemon.client() as client:
        _await(lambda: bool(_recall(client, query, root, "lexical").bundles), "a first answer")
    return (time.perf_counter() - daemon.spawned) * 1e3


def recall_times(
    daemon: PrivateDaemon, root: Path, mode: Mode, warm_up: Sequence[str], queries: Sequence[str]
) -> RecallTimes:
    """Ask each query once, over one connection, one after the other."""
    times, bundles = [], 0
    with daemon.client() as client:
        for query in warm_up:
            _recall(client, query, root, mode)
        daemon_before, client_before = daemon.cpu_seconds(), time.thread_time()
        for query in queries:
            started = time.perf_counter()
            answer = _recall(client, query, root, mode)
            times.append((time.perf_counter() - started) * 1e3)
            if answer.mode_used != mode:
                raise BenchmarkFailed(f"{mode} recall was answered as {answer.mode_used}")
            bundles += len(answer.bundles)
        client_used = time.thread_time() - client_before
        daemon_after = daemon.cpu_seconds()
    count = len(queries)
    daemon_cpu = None
    if daemon_before is not None and daemon_after is not None:
        daemon_cpu = (daemon_after - daemon_before) * 1e3 / count
    return RecallTimes(
        percentile(times, 50), percentile(times, 95), daemon_cpu, client_used * 1e3 / count, bundles / count
    )


def save_times(
    daemon: PrivateDaemon,
    root: Path,
    folder: Path,
    mode: Mode,
    texts: Sequence[str],
    *,
    seconds: float = GIVE_UP_SECONDS,
    poll: float = POLL_SECONDS,
) -> list[float]:
    """Milliseconds from writing a new page into `folder` to a recall that finds it, for each text.

    For `hybrid` the page counts as found once its vector matched.
    """
    times = []
    with daemon.client() as client:
        for number, text in enumerate(texts):
            name = f"saved-{mode}-{number:03d}"
            path = folder / f"{name}.md"
            page = f"---\ntype: concept\ntitle: {name}\n---\n\n# {name}\n\n{text}\n"
            time.sleep(PAUSE_SECONDS)
            started = time.perf_counter()
            path.write_text(page, encoding="utf-8")
            await_found(client, text, name, root, mode, seconds=seconds, poll=poll)
            times.append((time.perf_counter() - started) * 1e3)
    return times


def await_found(
    client: Client,
    text: str,
    name: str,
    root: Path,
    mode: Mode,
    *,
    seconds: float = GIVE_UP_SECONDS,
    poll: float = POLL_SECONDS,
) -> None:
    """Ask for `text` until the page called `name` is among the answers. BenchmarkFailed."""
    _await(lambda: _finds(client, text, name, root, mode), f"a saved page ({mode})", seconds=seconds, poll=poll)


def command_times(place: Sandbox, root: Path, queries: Sequence[str]) -> list[float]:
    """Milliseconds of `wikid recall` as a whole process, for each query. BenchmarkFailed.

    In mode hybrid, since it is the process that is timed: whether adaptive looks a second time is the vectors' doing,
    and those of the generated vault are stand-ins.
    """
    times = []
    for query in queries:
        command = [sys.executable, "-P", "-c", COMMAND, "recall", "--mode", "hybrid", query]
        started = time.perf_counter()
        done = subprocess.run(command, cwd=root, env=place.environment, stdout=subprocess.DEVNULL, check=False)
        times.append((time.perf_counter() - started) * 1e3)
        if done.returncode not in (0, 1):  # 1: nothing found
            raise BenchmarkFailed(f"wikid recall left with exit code {done.returncode}")
    return times


def _recall(client: Client, query: str, root: Path, mode: Mode) -> Recall:
    return client.recall(query, cwd=str(root), mode=mode)


def _finds(client: Client, text: str, name: str, root: Path, mode: Mode) -> bool:
    for bundle in _recall(client, text, root, mode).bundles:
        for item in (bundle.card, *bundle.evidence):
            if item is not None and item.page_id.endswith(f"/{name}"):
                return mode == "lexical" or any(reason.startswith(MEANING) for reason in item.match_reasons)
    return False


def _await(
    happened: Callable[[], bool], what: str, *, seconds: float = GIVE_UP_SECONDS, poll: float = POLL_SECONDS
) -> None:
    until = time.perf_counter() + seconds
    while not happened():
        if time.perf_counter() > until:
            raise BenchmarkFailed(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(poll)
