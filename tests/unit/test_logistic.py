"""Fitting confidence: the logistic fit, its constraint, and the measures of calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_daemon.bench.calibrate import believed, fit_row, floor_points, shares_of
from wikid_daemon.bench.dataset import JudgedQuery
from wikid_daemon.bench.evidence import Kind, Sample, Source, asked_of
from wikid_daemon.bench.logistic import Floats, fitted, log_loss
from wikid_daemon.bench.reliability import expected_error, reliability
from wikid_daemon.core.confidence import IDENTITY_CONFIDENCE, Evidence, Signals, Weights, probability

TRUE: Floats = np.asarray([2.0, -1.5])
BIAS = -0.5

shares = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans(), st.floats(0.1, 10.0)), min_size=1, max_size=60)


def drawn(rows: int, seed: int = 3) -> tuple[Floats, Floats]:
    """Features, and labels that come true with the probability that TRUE and BIAS give."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(rows, 2))
    likely = 1 / (1 + np.exp(-(BIAS + features @ TRUE)))
    return features, (random.random(rows) < likely).astype(np.float64)


# -- the fit -----------------------------------------------------------------------------------------------------------


def test_the_fit_finds_the_weights_that_the_data_were_made_with() -> None:
    features, labels = drawn(40_000)
    fit = fitted(features, labels, np.ones(len(labels)), (1, -1))
    assert fit.bias == pytest.approx(BIAS, abs=0.1)
    assert fit.coefficients == pytest.approx(TRUE, abs=0.1)


def test_its_probabilities_come_true() -> None:
    features, labels = drawn(20_000)
    unseen, came_true = drawn(20_000, seed=4)
    found = fitted(features, labels, np.ones(len(labels)), (1, -1)).probabilities(unseen)
    assert expected_error(reliability(found, came_true, np.ones(len(came_true)))) < 0.02


def test_a_weight_of_two_is_the_same_row_twice() -> None:
    features, labels = drawn(300)
    twice = np.arange(300) % 3 == 0
    weighted = fitted(features, labels, np.where(twice, 2.0, 1.0), (1, -1))
    again = np.concatenate([np.arange(300), np.flatnonzero(twice)])
    repeated = fitted(features[again], labels[again], np.ones(len(again)), (1, -1))
    assert weighted.coefficients == pytest.approx(repeated.coefficients, abs=1e-6)


def test_a_coefficient_with_the_wrong_sign_is_left_out_and_the_others_fitted_without_it() -> None:
    features, labels = drawn(5_000)
    constrained = fitted(features, labels, np.ones(len(labels)), (1, 1))
    alone = fitted(features[:, :1], labels, np.ones(len(labels)), (1,))
    assert constrained.coefficients == pytest.approx((*alone.coefficients, 0.0))
    assert constrained.bias == pytest.approx(alone.bias)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.booleans()), min_size=1, max_size=40))
@settings(deadline=None)
def test_every_coefficient_has_the_sign_it_must_have(rows: list[tuple[float, float, bool]]) -> None:
    features = np.asarray([row[:2] for row in rows], np.float64)
    labels = np.asarray([row[2] for row in rows], np.float64)
    first, second = fitted(features, labels, np.ones(len(rows)), (1, -1)).coefficients
    assert first >= 0 >= second


def test_a_column_that_says_nothing_is_left_out() -> None:
    features, labels = drawn(200)
    features[:, 1] = 0.7
    assert fitted(features, labels, np.ones(200), (1, 1)).coefficients[1] == 0.0


def test_log_loss_is_what_was_believed_of_what_came_true() -> None:
    found = log_loss(np.asarray([0.5, 0.9]), np.asarray([1.0, 0.0]), np.asarray([1.0, 3.0]))
    assert found == pytest.approx(-(np.log(0.5) + 3 * np.log(0.1)) / 4)


# -- calibration -------------------------------------------------------------------------------------------------------


def test_the_calibration_error_is_the_distance_of_belief_from_truth_by_weight() -> None:
    beliefs, labels = np.asarray([0.65, 0.65, 0.05]), np.asarray([1.0, 0.0, 0.0])
    bins = reliability(beliefs, labels, np.asarray([3.0, 1.0, 4.0]))
    assert [(each.low, each.count, each.share) for each in bins] == [(0.0, 1, 0.5), (0.6, 2, 0.5)]
    assert expected_error(bins) == pytest.approx(0.5 * 0.05 + 0.5 * abs(0.65 - 0.75))


def test_certainty_is_in_the_last_bin() -> None:
    (last,) = reliability(np.asarray([1.0, 0.95]), np.ones(2), np.ones(2))
    assert (last.low, last.count) == (0.9, 2)


@given(shares)
def test_the_calibration_error_is_a_share_and_the_bins_hold_everything(rows: list[tuple[float, bool, float]]) -> None:
    beliefs, labels, weights = (np.asarray(column, np.float64) for column in zip(*rows, strict=True))
    bins = reliability(beliefs, labels, weights)
    assert sum(each.count for each in bins) == len(rows)
    assert sum(each.share for each in bins) == pytest.approx(1.0)
    assert 0.0 <= expected_error(bins) <= 1.0


# -- what is fitted on -------------------------------------------------------------------------------------------------


def sample(query: str, kind: Kind, signals: Signals, *, relevant: bool = False, named: bool = False) -> Sample:
    return Sample(query, kind, "tuning", signals.evidence, signals, named, relevant)


def hybrid(coverage: float, cosine: float) -> Signals:
    return Signals(coverage, cosine, terms=2.0)


def test_each_collection_counts_the_same_and_in_it_both_kinds_of_queries() -> None:
    judged, foreign, unrelated = (sample(kind, kind, hybrid(0.5, 0.5)) for kind in ("judged", "foreign", "unrelated"))
    asked = [("a", judged), ("a", foreign), ("a", foreign), ("a", unrelated), ("b", judged), ("b", judged)]
    found = shares_of([*asked, ("b", foreign)])
    assert found.tolist() == pytest.approx([1, 1 / 3, 1 / 3, 1 / 3, 0.5, 0.5, 1])


@pytest.mark.parametrize(
    ("evidence", "unused"),
    [("lexical", ("cosine", "rerank")), ("dense", ("coverage", "terms", "rerank")), ("hybrid", ("rerank",))],
)
def test_a_row_weighs_only_what_its_evidence_knows(evidence: Evidence, unused: Sequence[str]) -> None:
    random = np.random.default_rng(1)
    found = []
    for _ in range(400):
        good = bool(random.random() < 0.5)
        values = [float(random.random()) + good for _ in range(3)]
        signals = Signals(values[0] / 2, values[1] / 2, 1.0 + values[0], int(random.integers(1, 6)), 0.1, values[2] / 2)
        found.append(("a", sample("q", "judged" if good else "foreign", signals, relevant=good)))
    weights = fit_row(evidence, found, {})
    assert all(getattr(weights, name) == 0.0 for name in unused)
    assert max(weights.coverage, weights.cosine) > 0.0
    assert weights.rank <= 0.0


def test_a_collection_that_counts_more_is_believed_more_nearly() -> None:
    rows = {"often": 3, "seldom": 1}  # of four pages that look the same, how many answer
    found = [
        (name, sample(f"{n}", "judged", hybrid(coverage, 0.5), relevant=n < relevant))
        for name, relevant in rows.items()
        for n in range(4)
        for coverage in (0.45, 0.55)
    ]
    alike, often = (
        probability(fit_row("hybrid", found, counting), hybrid(0.5, 0.5)) for counting in ({}, {"often": 3.0})
    )
    assert alike == pytest.approx(0.5, abs=0.02)
    assert often == pytest.approx((3 * 0.75 + 0.25) / 4, abs=0.02)


def test_a_page_that_is_named_is_believed_as_much_as_that_is_worth() -> None:
    weights = Weights(-3.0, coverage=2.0)
    plain = sample("q", "judged", hybrid(0.5, 0.0))
    found = believed(weights, [plain, replace(plain, named=True)])
    assert found.tolist() == pytest.approx([probability(weights, plain.signals), IDENTITY_CONFIDENCE])


def test_the_trade_off_counts_queries_that_found_nothing() -> None:
    weights = Weights(-4.0, coverage=8.0)  # 0.5 at half of the query
    samples = [
        sample("q1", "judged", hybrid(1.0, 0.0), relevant=True),
        sample("q2", "judged", hybrid(1.0, 0.0)),  # passes, but is of no use
        sample("u1", "unrelated", hybrid(0.5, 0.0)),
        sample("f1", "foreign", hybrid(1.0, 0.0)),  # another collection's: none of the prompts
    ]
    found = {each.floor: each for each in floor_points(weights, samples, {"judged": 4, "unrelated": 2})}
    assert (found[0.5].unrelated, found[0.5].relevant) == (0.5, 0.25)
    assert (found[0.6].unrelated, found[0.6].relevant) == (0.0, 0.25)


def source(name: str, count: int, unrelated: int = 0) -> Source:
    def made(prefix: str, count: int) -> dict[str, list[JudgedQuery]]:
        return {half: [JudgedQuery(f"{prefix}-{half}-{n}", "?", {"d": 1}) for n in range(count)] for half in HALVES}

    def never(*_: object) -> None:
        raise AssertionError("nothing is opened here")

    return Source(name, made(name, count), made("u", unrelated), "", never)  # type: ignore[arg-type]


HALVES = ("tuning", "reporting")


def test_as_many_foreign_queries_are_asked_as_judged_ones_of_the_same_half() -> None:
    here, others = source("here", 20, unrelated=3), [source("north", 30), source("south", 30)]
    asked = asked_of(here, others, 9)
    for half in HALVES:
        kinds = [each.kind for each in asked if each.half == half]
        assert (kinds.count("judged"), kinds.count("foreign"), kinds.count("unrelated")) == (9, 9, 3)
    assert all(f"-{each.half}-" in each.query.id for each in asked)
    foreign = {each.query.id.split("-")[0] for each in asked if each.kind == "foreign"}
    assert foreign == {"north", "south"}
    assert asked == asked_of(here, others, 9)
