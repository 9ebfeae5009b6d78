"""One scale from nought to one, for floors and for people."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_daemon.core.confidence import (
    AUTOMATIC_FLOOR,
    EXPLICIT_FLOOR,
    IDENTITY_CONFIDENCE,
    Signals,
    confidence,
)

shares = st.floats(0.0, 1.0)
cosines = st.one_of(st.none(), st.floats(-1.0, 1.0))
masses = st.floats(0.0, 64.0)


@given(shares, cosines, masses)
@settings(deadline=None)
def test_confidence_is_a_probability(coverage: float, cosine: float | None, mass: float) -> None:
    assert 0.0 < confidence(Signals(coverage, cosine, mass)) < 1.0


@given(shares, shares, cosines, masses)
@settings(deadline=None)
def test_more_of_the_query_never_means_less_confidence(a: float, b: float, cosine: float | None, mass: float) -> None:
    low, high = sorted((a, b))
    assert confidence(Signals(low, cosine, mass)) <= confidence(Signals(high, cosine, mass))


@given(shares, st.floats(-1.0, 1.0), st.floats(-1.0, 1.0), masses)
@settings(deadline=None)
def test_a_nearer_meaning_never_means_less_confidence(coverage: float, a: float, b: float, mass: float) -> None:
    low, high = sorted((a, b))
    assert confidence(Signals(coverage, low, mass)) <= confidence(Signals(coverage, high, mass))


@given(shares, cosines, masses, masses)
@settings(deadline=None)
def test_a_query_that_says_more_never_means_less_confidence(
    coverage: float, cosine: float | None, a: float, b: float
) -> None:
    low, high = sorted((a, b))
    assert confidence(Signals(coverage, cosine, low)) <= confidence(Signals(coverage, cosine, high))


@pytest.mark.parametrize("cosine", [None, 0.0])
def test_a_page_with_nothing_of_the_query_is_below_every_floor(cosine: float | None) -> None:
    assert confidence(Signals(0.0, cosine, 30.0)) < EXPLICIT_FLOOR


@pytest.mark.parametrize("cosine", [None, 0.75])
def test_a_page_with_all_of_a_full_query_passes_the_automatic_floor(cosine: float | None) -> None:
    assert confidence(Signals(1.0, cosine, 5.0)) > AUTOMATIC_FLOOR


def test_the_floors_are_the_seeds() -> None:
    assert (EXPLICIT_FLOOR, AUTOMATIC_FLOOR, IDENTITY_CONFIDENCE) == (0.25, 0.50, 0.80)
