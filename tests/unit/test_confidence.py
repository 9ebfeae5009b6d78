"""One scale from nought to one, for floors and for people."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_daemon.core.confidence import (
    AUTOMATIC_FLOORS,
    BACKGROUNDS,
    CALIBRATED,
    EXPLICIT_FLOOR,
    FITTED_ON,
    IDENTITY_CONFIDENCE,
    LITERAL_CONFIDENCE,
    MULTILINGUAL,
    REFERENCE,
    ROWS,
    UNCALIBRATED_FLOOR,
    Background,
    Evidence,
    Signals,
    Weights,
    confidence,
    floor,
    is_calibrated,
    name_of,
    probability,
    row_of,
)

STRANGER = "another-model@0123"
shares = st.floats(0.0, 1.0)
# what an embedder and a reranker may say, and that one of them or Java is not there
every_signals = st.builds(
    Signals,
    coverage=st.none() | shares,
    cosine=st.none() | st.floats(-1.0, 1.0),
    terms=st.floats(0.0, 64.0),
    rank=st.integers(1, 40),
    margin=shares,
    rerank=st.none() | shares,
)
# each signal's range; all but the rank speak for a page
RANGES = {
    "coverage": shares,
    "cosine": st.floats(-1.0, 1.0),
    "terms": st.floats(0.0, 64.0),
    "margin": shares,
    "rerank": shares,
}


@given(every_signals, st.sampled_from([*BACKGROUNDS, STRANGER]))
@settings(deadline=None)
def test_confidence_is_a_probability(signals: Signals, model: str) -> None:
    assert 0.0 < confidence(signals, model, Background(0.4, 0.1)) < 1.0


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("model", [*BACKGROUNDS, STRANGER])
@given(st.data())
@settings(deadline=None)
def test_more_of_a_signal_never_means_less_confidence(name: str, model: str, data: st.DataObject) -> None:
    signals = data.draw(every_signals)
    low, high = sorted([data.draw(RANGES[name]), data.draw(RANGES[name])])
    background = Background(0.4, 0.1)
    less, more = (replace(signals, **_one(name, value)) for value in (low, high))
    assert confidence(less, model, background) <= confidence(more, model, background)


def _one(name: str, value: float) -> dict[str, Any]:
    return {name: value}


@given(every_signals, st.integers(1, 40), st.integers(1, 40))
@settings(deadline=None)
def test_a_place_further_down_never_means_more_confidence(signals: Signals, a: int, b: int) -> None:
    first, later = sorted((a, b))
    assert confidence(replace(signals, rank=first)) >= confidence(replace(signals, rank=later))


# -- rows --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signals", "evidence"),
    [
        (Signals(0.6, None, 2.0), "lexical"),
        (Signals(None, 0.6, 0.0), "dense"),
        (Signals(0.6, 0.6, 2.0), "hybrid"),
        (Signals(0.6, 0.6, 2.0, rerank=0.6), "quality"),
        (Signals(None, 0.6, 0.0, rerank=0.6), "dense"),  # no row was fitted for a reranker without words
        (Signals(0.6, None, 2.0, rerank=0.6), "lexical"),
        (Signals(0.0, 0.0, 2.0, rerank=0.0), "quality"),  # nought was measured; it is not the lack of a signal
    ],
)
def test_a_page_is_judged_by_the_row_of_what_is_known_of_it(signals: Signals, evidence: Evidence) -> None:
    assert signals.evidence == evidence
    assert confidence(signals) == probability(ROWS[CALIBRATED, evidence], signals)


@pytest.mark.parametrize("row", ROWS.values(), ids=[f"{name}-{evidence}" for name, evidence in ROWS])
def test_what_speaks_for_a_page_never_counts_against_it(row: Weights) -> None:
    positive = {each.name for each in fields(Weights)} - {"bias", "rank"}
    assert all(getattr(row, name) >= 0.0 for name in positive)
    assert row.rank <= 0.0


@pytest.mark.parametrize("name", BACKGROUNDS)
def test_a_row_weighs_nothing_that_its_evidence_lacks(name: str) -> None:
    evidences: tuple[Evidence, ...] = ("lexical", "dense", "hybrid", "quality")
    rows = {evidence: row_of(name, evidence) for evidence in evidences}
    assert (rows["lexical"].cosine, rows["lexical"].rerank) == (0.0, 0.0)
    assert (rows["dense"].coverage, rows["dense"].terms, rows["dense"].rerank) == (0.0, 0.0, 0.0)
    assert rows["hybrid"].rerank == 0.0


# -- floors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cosine", [None, 0.0])
def test_a_page_with_nothing_of_the_query_is_below_every_floor(cosine: float | None) -> None:
    assert confidence(Signals(0.0, cosine, 30.0)) < EXPLICIT_FLOOR


@pytest.mark.parametrize("cosine", [None, 0.75])
def test_a_page_with_all_of_a_full_query_passes_the_automatic_floor(cosine: float | None) -> None:
    assert confidence(Signals(1.0, cosine, 5.0)) > max(AUTOMATIC_FLOORS.values())


def test_the_floor_of_who_asks_and_the_confidence_of_a_name_are_the_seeds() -> None:
    assert (EXPLICIT_FLOOR, IDENTITY_CONFIDENCE) == (0.25, 0.80)


def test_what_is_typed_literally_is_worth_showing_and_never_worth_injecting() -> None:
    assert EXPLICIT_FLOOR < LITERAL_CONFIDENCE < min(AUTOMATIC_FLOORS.values())


@pytest.mark.parametrize("model", ["", f"{CALIBRATED}@1", f"{MULTILINGUAL}@1", STRANGER])
def test_who_asks_is_shown_more_than_a_turn_is_given(model: str) -> None:
    assert floor(model, automatic=False) == EXPLICIT_FLOOR < floor(model, automatic=True) < IDENTITY_CONFIDENCE


def test_an_embedder_without_a_fit_must_be_surest_before_a_turn() -> None:
    assert floor(STRANGER, automatic=True) == UNCALIBRATED_FLOOR > max(AUTOMATIC_FLOORS.values())
    assert AUTOMATIC_FLOORS.keys() == {"", *BACKGROUNDS}


# -- an embedder that no row was fitted for ----------------------------------------------------------------------------


def test_a_model_is_known_by_its_name_whatever_its_files_hash_to() -> None:
    assert is_calibrated(f"{CALIBRATED}@abc")
    assert not is_calibrated(STRANGER)
    assert not is_calibrated(f"{CALIBRATED}-multilingual@abc")


@given(st.floats(-3.0, 6.0), st.floats(-0.2, 0.8), st.floats(0.02, 0.3), st.floats(-0.2, 0.8), st.floats(0.02, 0.3))
@settings(deadline=None)
def test_as_far_above_the_background_is_the_same_confidence(
    away: float, mean_a: float, deviation_a: float, mean_b: float, deviation_b: float
) -> None:
    one, other = Background(mean_a, deviation_a), Background(mean_b, deviation_b)
    found = [confidence(Signals(0.5, each.mean + away * each.deviation, 2.0), STRANGER, each) for each in (one, other)]
    fitted = confidence(Signals(0.5, REFERENCE.mean + away * REFERENCE.deviation, 2.0))
    assert found == pytest.approx([fitted, fitted], abs=1e-6)


def test_the_same_cosine_means_less_where_everything_is_near_everything() -> None:
    signals = Signals(0.5, 0.6, 2.0)
    spread, crowded = (confidence(signals, STRANGER, Background(mean, 0.08)) for mean in (0.1, 0.55))
    assert crowded < spread


def test_a_reranker_of_which_nothing_is_known_has_no_say() -> None:
    background = Background(0.2, 0.1)
    with_it, without = (Signals(0.5, 0.5, 2.0, rerank=score) for score in (0.9, None))
    assert confidence(with_it, STRANGER, background) == confidence(without, STRANGER, background)
    assert confidence(with_it) != confidence(without)


@pytest.mark.parametrize("name", BACKGROUNDS)
def test_words_alone_weigh_the_same_whatever_embedder_is_there(name: str) -> None:
    signals = Signals(0.6, None, 2.0)
    assert confidence(signals, f"{name}@abc") == confidence(signals)


@pytest.mark.parametrize("name", BACKGROUNDS)
def test_every_fitted_embedder_tells_what_it_was_fitted_on(name: str) -> None:
    assert name_of(FITTED_ON[name]["embedder"]) == name
    assert {(name, evidence) for evidence in ("dense", "hybrid", "quality")} <= ROWS.keys()


@pytest.mark.parametrize("name", BACKGROUNDS)
def test_the_cosine_of_unrelated_texts_speaks_for_no_page(name: str) -> None:
    background = BACKGROUNDS[name]
    near, unrelated = (
        confidence(Signals(0.0, background.mean + away * background.deviation, 2.0), f"{name}@abc") for away in (5, 0)
    )
    assert unrelated < EXPLICIT_FLOOR / 2
    assert near > 2 * unrelated


def test_the_background_moves_nothing_of_a_model_that_was_fitted() -> None:
    signals = Signals(0.5, 0.5, 2.0)
    assert confidence(signals, f"{CALIBRATED}@abc", Background(0.6, 0.05)) == confidence(signals)
