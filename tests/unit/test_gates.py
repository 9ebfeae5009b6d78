"""The gates of a release, with figures made for the purpose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wikid_daemon.bench.gates import ENGLISH, MODES, OTHERS, Gate, Measured, Ranked, gates
from wikid_daemon.bench.tables import gate_table

SYSTEMS = {
    "heuristic": Ranked(0.50, 0.50, 0.60),
    "bm25s": Ranked(0.55, 0.55, 0.70),
    "lexical": Ranked(0.56, 0.56, 0.72),
    "hybrid": Ranked(0.60, 0.60, 0.74),
    "adaptive": Ranked(0.62, 0.62, 0.75),
    "quality": Ranked(0.63, 0.63, 0.76),
}
ALL = dict.fromkeys(MODES, 1.0)

GOOD = Measured(
    collections=dict.fromkeys((*ENGLISH, *OTHERS), SYSTEMS),
    own=SYSTEMS,
    own_pages=230,
    own_queries=150,
    top3=ALL,
    answer_top3=ALL,
    card_first=dict.fromkeys(MODES, 0.97),
    contradictions=ALL,
    unrelated=284,
    false_positives=0.02,
    baseline_false_positives=0.90,
    coverage=0.75,
    calibration=dict.fromkeys(MODES, 0.05),
    degraded=1.0,
    certain_p50_ms=20.0,
    escalated_p95_ms=500.0,
    quality_p95_ms=600.0,
    automatic_longest_ms=200.0,
    timed_pages=10_000,
)


def failing(found: Measured) -> set[str]:
    return {each.name for each in gates(found) if not each.passed}


def changed(collection: str, system: str, ranked: Ranked) -> Measured:
    systems = {**SYSTEMS, system: ranked}
    return replace(GOOD, collections={**GOOD.collections, collection: systems})


def test_a_release_that_reaches_every_figure_passes() -> None:
    assert failing(GOOD) == set()


def test_no_two_gates_have_the_same_name() -> None:
    names = [each.name for each in gates(GOOD)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("change", "gate"),
    [
        ({"own_pages": 149}, "pages of the own vault"),
        ({"own_queries": 99}, "judged queries of the own vault"),
        ({"unrelated": 199}, "unrelated prompts"),
        ({"false_positives": 0.051}, "automatic: unrelated prompts with an injection"),
        ({"coverage": 0.69}, "automatic: answerable prompts with a useful page"),
        ({"degraded": 0.99}, "answered from words where no model is there"),
        ({"certain_p50_ms": 30.1}, "adaptive that hybrid answers, p50 ms"),
        ({"escalated_p95_ms": 701.0}, "adaptive that escalates, p95 ms"),
        ({"escalated_p95_ms": None}, "adaptive that escalates, p95 ms"),
        ({"quality_p95_ms": 701.0}, "quality, p95 ms"),
        ({"automatic_longest_ms": 250.5}, "automatic, longest ms"),
        ({"timed_pages": 9_999}, "pages in the vault for timing"),
        ({"top3": {**ALL, "lexical": 0.99}}, "named pages kept in the top 3, lexical"),
        ({"answer_top3": {**ALL, "adaptive": 0.99}}, "named pages kept in 3 bundles, adaptive"),
        ({"card_first": {**ALL, "quality": 0.94}}, "card first, quality"),
        ({"contradictions": {**ALL, "adaptive": 0.99}}, "contradictions shown together, adaptive"),
        ({"calibration": {**dict.fromkeys(MODES, 0.05), "hybrid": 0.09}}, "calibration error, hybrid"),
    ],
)
def test_one_figure_that_is_missed_fails_its_own_gate_alone(change: Mapping[str, object], gate: str) -> None:
    assert failing(replace(GOOD, **change)) == {gate}  # type: ignore[arg-type]


def test_false_positives_must_fall_by_a_quarter_even_where_they_are_few() -> None:
    old = "automatic: false positives, of the heuristic's"
    assert failing(replace(GOOD, false_positives=0.04, baseline_false_positives=0.05)) == {old}
    assert failing(replace(GOOD, false_positives=0.03, baseline_false_positives=0.04)) == set()


def test_quality_is_compared_with_hybrid_over_all_english_collections_and_in_each() -> None:
    worse = changed("cacm", "quality", Ranked(0.58, 0.63, 0.76))
    assert failing(worse) == {"nDCG@10, quality − hybrid (cacm)"}
    systems = {**SYSTEMS, "quality": SYSTEMS["hybrid"]}
    alike = replace(GOOD, collections=dict.fromkeys(GOOD.collections, systems))
    assert failing(alike) == {"nDCG@10 of quality, of hybrid's (English)"}


def test_no_language_may_lose_by_vectors() -> None:
    lost = changed("jsquad-ja", "hybrid", Ranked(0.549, 0.60, 0.74))
    assert failing(lost) == {"nDCG@10, hybrid − lexical (jsquad-ja)"}
    just = changed("jsquad-ja", "hybrid", Ranked(0.55, 0.60, 0.74))
    assert failing(just) == set()


def test_each_mode_must_keep_the_baselines_mrr_and_recall() -> None:
    own = {**SYSTEMS, "lexical": Ranked(0.56, 0.489, 0.579)}
    assert failing(replace(GOOD, own=own)) == {
        "MRR of lexical, of the heuristic's (own vault)",
        "Recall@20, lexical − heuristic (own vault)",
    }


def test_what_was_not_measured_fails() -> None:
    missing = {name: systems for name, systems in GOOD.collections.items() if name != "scifact"}
    failed = failing(replace(GOOD, collections=missing))
    assert "nDCG@10 of quality, of the heuristic's (English)" in failed
    assert "nDCG@10, quality − hybrid (scifact)" in failed
    assert "nDCG@10, quality − hybrid (cacm)" not in failed


def test_the_baseline_that_finds_nothing_is_no_ratio() -> None:
    failed = failing(replace(GOOD, baseline_false_positives=0.0))
    assert failed == {"automatic: false positives, of the heuristic's"}


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_gate_passes_on_one_side_of_its_bound(value: float, bound: float) -> None:
    least, most = Gate("g", value, "at least", bound), Gate("g", value, "at most", bound)
    assert least.passed or most.passed
    assert least.passed == (value >= bound - 1e-9)
    assert not Gate("g", None, "at least", bound).passed


def test_the_table_shows_each_gate_and_how_many_fail() -> None:
    rows = [Gate("first", 0.5, "at least", 0.4), Gate("second", None, "at most", 30.0)]
    assert [line.split() for line in gate_table(rows).splitlines()] == [
        ["gate", "value", "bound", "passed"],
        ["first", "0.5", "≥", "0.4", "yes"],
        ["second", "not", "measured", "≤", "30", "NO"],
        ["1", "of", "2", "gates", "fail"],
    ]
    assert gate_table(rows[:1]).endswith("every gate passes")
