"""What a person is told of feedback."""

from __future__ import annotations

from typing import Any

import pytest

from wikid_client.layout import feedback, status
from wikid_client.layout.spans import plain
from wikid_protocol import records as r


def judged(**changes: Any) -> str:
    given: dict[str, Any] = {
        "vault_id": "v",
        "vault": "notes",
        "page_id": "concepts/tide",
        "judgment": "relevant",
        "state": "recorded",
        **changes,
    }
    return plain(feedback.judged(r.Judged(**given), 100))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"adjustment": 0.02}, "concepts/tide is relevant; its score is changed by +2.0%"),
        ({"judgment": "irrelevant", "adjustment": -0.005}, "is irrelevant; its score is changed by -0.5%"),
        ({"judgment": "corrected", "correction_page_id": "sources/obs-1"}, "the correction is the page sources/obs-1"),
        ({"state": "correction_saved_feedback_pending"}, "the event log could not be written; the page makes up for"),
        ({"feedback": "disabled"}, "wikid events --acknowledge"),
    ],
)
def test_a_judgment_is_told_with_what_it_does(changes: dict[str, Any], said: str) -> None:
    assert said in judged(**changes)


def test_a_judgment_that_moves_nothing_says_nothing_of_scores() -> None:
    assert "score" not in judged()


def test_signals_are_counted() -> None:
    assert plain(feedback.signalled(r.Signalled(counted=2))).strip() == "Noted for 2 pages"


@pytest.mark.parametrize(("state", "is_told"), [("on", False), ("off", False), ("disabled", True)])
def test_status_tells_of_feedback_where_that_is_disabled(state: Any, is_told: bool) -> None:
    vault = r.VaultRecord(vault_id=r.VaultId("v"), name="notes", path="/notes", kind="wiki")
    found = r.VaultStatus(vault=vault, state="ready", feedback=state, feedback_reason="events_malformed")
    daemon = r.DaemonStatus(version="1", pid=1, started="", uptime_s=1, endpoint="")
    shown = plain(status.status(r.StatusReport(daemon=daemon, vaults=(found,)), 100))
    assert ("feedback is disabled: events malformed" in shown) == is_told
