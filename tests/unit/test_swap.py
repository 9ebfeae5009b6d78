"""What a start does about an interrupted replacement, for every phase and every set of folders."""

from __future__ import annotations

from itertools import product

import pytest

from wikid_daemon.index.lifecycle import Phase, Recovery, decide

KEEP, PLACE, TRY, RESTORE = Recovery.KEEP, Recovery.PLACE, Recovery.TRY, Recovery.RESTORE

# (current, previous, staging) → what is done when swap.json says nothing, prepared, retired, placed
EXPECTED = {
    (False, False, False): (KEEP, KEEP, KEEP, KEEP),
    (False, False, True): (KEEP, PLACE, PLACE, PLACE),
    (False, True, False): (RESTORE, RESTORE, RESTORE, RESTORE),
    (False, True, True): (RESTORE, PLACE, PLACE, PLACE),
    (True, False, False): (KEEP, KEEP, KEEP, KEEP),
    (True, False, True): (KEEP, KEEP, KEEP, KEEP),
    (True, True, False): (TRY, TRY, TRY, TRY),
    (True, True, True): (TRY, KEEP, TRY, TRY),
}
PHASES: tuple[Phase | None, ...] = (None, "prepared", "retired", "placed")
ALL = list(product(PHASES, *([(False, True)] * 3)))


def test_the_table_is_complete() -> None:
    assert set(EXPECTED) == set(product(*([(False, True)] * 3)))
    assert all(len(row) == len(PHASES) for row in EXPECTED.values())


@pytest.mark.parametrize(("phase", "current", "previous", "staging"), ALL)
def test_each_combination(phase: Phase | None, current: bool, previous: bool, staging: bool) -> None:
    expected = EXPECTED[current, previous, staging][PHASES.index(phase)]
    assert decide(phase, current=current, previous=previous, staging=staging) is expected


@pytest.mark.parametrize(("phase", "current", "previous", "staging"), ALL)
def test_a_start_never_leaves_without_an_index_that_was_there(
    phase: Phase | None, current: bool, previous: bool, staging: bool
) -> None:
    recovery = decide(phase, current=current, previous=previous, staging=staging)
    if recovery is RESTORE:
        assert previous
        assert not current
    if recovery is PLACE:
        assert staging
        assert not current
    if recovery is KEEP and not current:
        # only what nobody has said to be whole is given up
        assert not previous
        assert not (staging and phase)
    if recovery is TRY:
        assert current
        assert previous
