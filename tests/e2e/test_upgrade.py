"""Two versions of wikid on one machine: the newer one's daemon takes over where it must, and nobody fights.

The older version is a copy of the packages under another version number that lacks a method.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from builders import until
from daemon_process import DaemonProcess, environ_with
from wikid_client import Client, DaemonNotRunning
from wikid_client.upgrading import is_older
from wikid_protocol import __version__

ROOT = Path(__file__).parents[2]
OLDER = "0.0.9"
MISSING = "config/get"  # what the older one lacks, and `wikid config list` needs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sessions of processes")


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which `wikid` is of the older version."""
    root = tmp_path_factory.mktemp("older")
    for package in ("protocol/wikid_protocol", "client/wikid_client", "daemon/wikid_daemon"):
        # caches come along: what is unchanged need not be compiled again
        shutil.copytree(ROOT / package, root / Path(package).name, ignore=shutil.ignore_patterns("demo", "bench"))
    head = root / "wikid_protocol" / "__init__.py"
    head.write_text(head.read_text().replace(f'"{__version__}"', f'"{OLDER}"'))
    table = root / "wikid_protocol" / "methods.py"
    table.write_text(table.read_text() + f'\ndel METHODS["{MISSING}"]\n')
    assert is_older(OLDER)
    return environ_with([root])


class Versions:
    """A world of its own, in which either version's command can be run."""

    def __init__(self, process: DaemonProcess, older: dict[str, str]) -> None:
        self.process = process
        self.plain = process.env
        self.changed = {**process.env, **older}

    def newer(self, *words: str) -> subprocess.CompletedProcess[str]:
        self.process.env = self.plain
        return self.process.wikid(*words)

    def older(self, *words: str) -> subprocess.CompletedProcess[str]:
        self.process.env = self.changed
        return self.process.wikid(*words)

    def running(self) -> tuple[str, int]:
        """The version and the process of the daemon."""
        with Client(endpoint=self.process.endpoint, start=False) as client:
            found = client.ping()
        return found.version, found.pid

    def stop(self) -> None:
        try:
            pid = self.running()[1]
        except DaemonNotRunning:
            return
        self.newer("stop")
        until(lambda: not _is_alive(pid), "the daemon's end")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def versions(tmp_path: Path, older: dict[str, str]) -> Iterator[Versions]:
    process = DaemonProcess(tmp_path / "home")
    found = Versions(process, older)
    yield found
    found.stop()
    process.discard()


def test_an_older_daemon_is_talked_to_until_it_is_too_old_and_then_replaced(versions: Versions) -> None:
    assert json.loads(versions.older("start", "--json").stdout)["version"] == OLDER
    before = versions.running()

    listed = versions.newer("vault", "list")
    assert (listed.returncode, listed.stderr) == (0, "")
    told = versions.newer("status")
    assert told.returncode == 0
    assert f"wikid {OLDER}, older than this command" in told.stderr
    assert "wikid restart" in told.stderr
    refused = versions.newer("config", "list", "--no-start")
    assert refused.returncode == 2
    assert "wikid restart" in refused.stderr
    assert versions.running() == before

    done = versions.newer("config", "list")
    assert done.returncode == 0, done.stderr
    assert "retrievalMode" in done.stdout
    assert done.stderr == f"wikid {OLDER} was running and makes way for {__version__}.\n"
    version, pid = versions.running()
    assert version == __version__
    until(lambda: not _is_alive(before[1]), "the older daemon's end")

    assert versions.older("status").returncode == 0
    assert versions.older("start").returncode == 0
    assert versions.running() == (version, pid), "an older command leaves a newer daemon alone"


def test_start_replaces_an_older_daemon_however_many_ask(versions: Versions) -> None:
    assert versions.older("start").returncode == 0
    old = versions.running()[1]
    versions.process.env = versions.plain
    with ThreadPoolExecutor(4) as pool:
        started = list(pool.map(lambda _: versions.process.wikid("start", "--json"), range(4)))
    assert [each.returncode for each in started] == [0] * 4, [each.stderr for each in started]
    answers = [json.loads(each.stdout) for each in started]
    assert {each["version"] for each in answers} == {__version__}
    assert {each["pid"] for each in answers} == {versions.running()[1]}
    until(lambda: not _is_alive(old), "the older daemon's end")


def test_a_daemon_in_the_foreground_is_its_users_own_to_stop(versions: Versions) -> None:
    versions.process.env = versions.changed
    versions.process.start()  # a child of this process, as of a shell: not a session of its own
    try:
        before = versions.running()
        assert before[0] == OLDER
        refused = versions.newer("config", "list")
        assert refused.returncode == 2
        assert "wikid restart" in refused.stderr
        assert versions.newer("start").returncode == 0
        assert versions.running() == before
    finally:
        versions.process.stop()
