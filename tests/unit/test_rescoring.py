"""The score of a second look over one query's candidates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wikid_daemon.rescoring import NEIGHBOUR_POWER, combined

scores = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def alone(count: int) -> np.ndarray:
    return np.zeros((count, count))


def test_without_a_reranker_and_neighbours_the_order_stays() -> None:
    found = combined(np.array([0.9, 0.5, 0.1]), [None] * 3, alone(3), 1.0)
    assert found == pytest.approx([1.0, 0.5, 0.0])


def test_the_reranker_weighs_as_much_as_the_first_look() -> None:
    # by the definition: both standardised and added
    first, late = np.array([1.0, 0.0, 0.5]), np.array([0.0, 0.9, 0.3])
    expected = (first - first.mean()) / first.std() + (late - late.mean()) / late.std()
    expected = (expected - expected.min()) / np.ptp(expected)
    assert combined(first, late.tolist(), alone(3), 1.0) == pytest.approx(expected.tolist())


def test_what_was_not_judged_counts_as_the_lowest_that_was() -> None:
    first = np.array([0.5, 0.5, 0.5, 0.5])
    found = combined(first, [0.9, 0.1, None, 0.4], alone(4), 1.0)
    assert found[2] == found[1] == 0.0


def test_a_candidate_is_lifted_by_good_ones_that_stand_very_near() -> None:
    first = np.array([1.0, 0.2, 0.2, 0.0])
    near = alone(4)
    near[0, 1] = near[1, 0] = 0.9
    near[2, 3] = near[3, 2] = 0.9
    found = combined(first, [None] * 4, near, 1.0)
    assert found[1] > found[2]


def test_a_little_nearness_hardly_counts() -> None:
    assert 0.5**NEIGHBOUR_POWER < 0.02 < 0.9**NEIGHBOUR_POWER


@given(scores)
def test_a_model_that_knows_nothing_of_the_language_changes_nothing(first: list[float]) -> None:
    draw = np.random.default_rng(hash(str(first)) % 2**32)
    near = np.clip(draw.random((len(first), len(first))), 0, 1)
    near = np.triu(near, 1) + np.triu(near, 1).T
    found = combined(np.array(first), draw.random(len(first)).tolist(), near, 0.0)
    plain = combined(np.array(first), [None] * len(first), alone(len(first)), 0.0)
    assert found == pytest.approx(plain)


@given(scores)
def test_scores_are_between_nought_and_one(first: list[float]) -> None:
    found = combined(np.array(first), [*first[::-1]], alone(len(first)), 1.0)
    assert all(0.0 <= each <= 1.0 for each in found)
    assert max(found) == 1.0
