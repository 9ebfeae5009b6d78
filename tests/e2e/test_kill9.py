"""T31 in short: a daemon killed at random moments of indexing and saving starts each time and lost nothing."""

from __future__ import annotations

from pathlib import Path

from torture.kill9 import COMPARED_EVERY, Campaign

ROUNDS = COMPARED_EVERY
NOTES = 120


def test_after_each_kill_the_index_equals_a_fresh_build(tmp_path: Path) -> None:
    totals = Campaign(tmp_path, NOTES, 1, print, longest_seconds=1.5).run(ROUNDS)
    assert totals.differences == []
    assert (totals.rounds, totals.verified, totals.compared) == (ROUNDS, 2 * ROUNDS, 2)
    assert totals.operations > 0
