"""The soak in short: a crowd of clients beside one that does not read and files that change; nothing stays behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from builders import HANG_GUARD_SECONDS, base_notes, until, write
from daemon_process import DaemonProcess
from torture.crowd import Request, crowd
from torture.occupying import occupy
from torture.resources import resting, settled
from torture.unrest import Background, Churn, Stalled, big_note

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

NOTES = 100
CLIENTS = 32
CALLS = 20
SAVES_A_SECOND = 50.0
REQUESTS: list[Request] = [
    ("recall", {"query": f"tok{number:02}zebra", "vault": "notes", "mode": "lexical"}) for number in range(1, NOTES + 1)
]


def test_a_crowd_is_answered_beside_a_stalled_reader_and_leaves_nothing_behind(tmp_path: Path) -> None:
    base_notes(tmp_path / "notes", NOTES)
    write(tmp_path / "notes", "big.md", big_note())
    with DaemonProcess(tmp_path / "home") as daemon:
        daemon.add(tmp_path / "notes", "notes")
        occupy(daemon.endpoint, HANG_GUARD_SECONDS)
        crowd(daemon.endpoint, CLIENTS, 2, REQUESTS, processes=1)
        before = resting(daemon.pid)
        churn = Churn(tmp_path / "notes", NOTES, SAVES_A_SECOND)
        with Background(churn, Stalled(daemon.endpoint, "notes")) as beside:
            tally = crowd(daemon.endpoint, CLIENTS, CALLS, REQUESTS, processes=1)
            until(lambda: churn.saved >= NOTES, "every file being saved again")
        daemon.client.sync(vault="notes")
        after = settled(daemon.pid, lambda now: now.files <= before.files and now.threads <= before.threads)
    assert tally.errors + beside.errors == []
    assert len(tally.milliseconds) == CLIENTS * CALLS
    assert after.files <= before.files
    assert after.threads <= before.threads
