"""What a release must reach: every gate of seed A's Evaluation and of the figures that were set later. Pure.

Gates are computed from measurements of the same run, never read from a file. A value that could not be measured fails
its gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

ENGLISH: Final = ("cranfield", "cacm", "scifact", "xquad-en")
OTHERS: Final = ("xquad-de", "cmrc2018-zh", "jsquad-ja")
REPORTED: Final = ("xquad-crosslingual-en",)  # no gate is on it
MODES: Final = ("lexical", "hybrid", "adaptive", "quality")
SECOND_LOOKS: Final = ("adaptive", "quality")  # the default, and the most that wikid can do
ROUNDING: Final = 1e-9

Bound = Literal["at least", "at most"]


@dataclass(frozen=True, slots=True)
class Gate:
    """One figure beside what it must be."""

    name: str
    value: float | None
    sense: Bound
    bound: float

    @property
    def passed(self) -> bool:
        if self.value is None:
            return False
        if self.sense == "at least":
            return self.value >= self.bound - ROUNDING
        return self.value <= self.bound + ROUNDING

    def to_json(self) -> dict[str, Any]:
        value = None if self.value is None else round(self.value, 4)
        return {"gate": self.name, "value": value, "sense": self.sense, "bound": self.bound, "passed": self.passed}


@dataclass(frozen=True, slots=True)
class Ranked:
    """One system's means over the queries of one set."""

    ndcg10: float
    mrr: float
    recall20: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything that gates are computed from. Keys are collections, systems and modes by name; shares are 0–1, times
    in milliseconds; None is what could not be measured.

    `top3`: per mode, of the named pages that the baseline has among its first three, those that are still there;
    `answer_top3` the same of whole answers. `degraded`: of the questions asked without any model, those answered from
    words with the reason told.
    """

    collections: Mapping[str, Mapping[str, Ranked]]
    own: Mapping[str, Ranked]
    own_pages: int
    own_queries: int
    top3: Mapping[str, float | None]
    answer_top3: Mapping[str, float | None]
    card_first: Mapping[str, float | None]
    contradictions: Mapping[str, float | None]
    unrelated: int
    false_positives: float | None
    baseline_false_positives: float | None
    coverage: float | None
    calibration: Mapping[str, float | None]
    degraded: float | None
    certain_p50_ms: float | None
    escalated_p95_ms: float | None
    quality_p95_ms: float | None
    automatic_longest_ms: float | None
    timed_pages: int = field(default=0)


def gates(found: Measured) -> list[Gate]:
    """Every gate, in the order of the table."""
    return [*_ranking(found), *_answers(found), *_automatic(found), *_times(found), *_data(found)]


def _ranking(found: Measured) -> Iterator[Gate]:
    english = {name: found.collections.get(name, {}) for name in ENGLISH}
    quality = _mean(english, "quality", "ndcg10")
    over_old = _ratio(quality, _mean(english, "heuristic", "ndcg10"))
    yield Gate("nDCG@10 of quality, of the heuristic's (English)", over_old, "at least", 1.10)
    over_hybrid = _ratio(quality, _mean(english, "hybrid", "ndcg10"))
    yield Gate("nDCG@10 of quality, of hybrid's (English)", over_hybrid, "at least", 1.02)
    for name, systems in english.items():
        yield Gate(f"nDCG@10, quality − hybrid ({name})", _difference(systems, "quality", "hybrid"), "at least", -0.01)
    for name in (*ENGLISH, *OTHERS):
        systems = found.collections.get(name, {})
        for mode in ("hybrid", "quality"):
            apart = _difference(systems, mode, "lexical")
            yield Gate(f"nDCG@10, {mode} − lexical ({name})", apart, "at least", -0.01)
    over_old = _ratio(_of(found.own, "quality", "ndcg10"), _of(found.own, "heuristic", "ndcg10"))
    yield Gate("nDCG@10 of quality, of the heuristic's (own vault)", over_old, "at least", 1.10)
    for mode in MODES:
        kept = _ratio(_of(found.own, mode, "mrr"), _of(found.own, "heuristic", "mrr"))
        yield Gate(f"MRR of {mode}, of the heuristic's (own vault)", kept, "at least", 0.98)
        kept = _ratio(_mean(english, mode, "mrr"), _mean(english, "heuristic", "mrr"))
        yield Gate(f"MRR of {mode}, of the heuristic's (English)", kept, "at least", 0.98)
        apart = _minus(_of(found.own, mode, "recall20"), _of(found.own, "heuristic", "recall20"))
        yield Gate(f"Recall@20, {mode} − heuristic (own vault)", apart, "at least", -0.02)
        apart = _minus(_mean(english, mode, "recall20"), _mean(english, "heuristic", "recall20"))
        yield Gate(f"Recall@20, {mode} − heuristic (English)", apart, "at least", -0.02)
        yield Gate(f"named pages kept in the top 3, {mode}", found.top3.get(mode), "at least", 1.0)


def _answers(found: Measured) -> Iterator[Gate]:
    for mode in SECOND_LOOKS:
        yield Gate(f"named pages kept in 3 bundles, {mode}", found.answer_top3.get(mode), "at least", 1.0)
        yield Gate(f"card first, {mode}", found.card_first.get(mode), "at least", 0.95)
        yield Gate(f"contradictions shown together, {mode}", found.contradictions.get(mode), "at least", 1.0)
    for mode in MODES:
        yield Gate(f"calibration error, {mode}", found.calibration.get(mode), "at most", 0.08)
    yield Gate("answered from words where no model is there", found.degraded, "at least", 1.0)


def _automatic(found: Measured) -> Iterator[Gate]:
    yield Gate("automatic: unrelated prompts with an injection", found.false_positives, "at most", 0.05)
    old = _ratio(found.false_positives, found.baseline_false_positives)
    yield Gate("automatic: false positives, of the heuristic's", old, "at most", 0.75)
    yield Gate("automatic: answerable prompts with a useful page", found.coverage, "at least", 0.70)


def _times(found: Measured) -> Iterator[Gate]:
    yield Gate("pages in the vault for timing", found.timed_pages, "at least", 10_000)
    yield Gate("adaptive that hybrid answers, p50 ms", found.certain_p50_ms, "at most", 30.0)
    yield Gate("adaptive that escalates, p95 ms", found.escalated_p95_ms, "at most", 700.0)
    yield Gate("quality, p95 ms", found.quality_p95_ms, "at most", 700.0)
    yield Gate("automatic, longest ms", found.automatic_longest_ms, "at most", 250.0)


def _data(found: Measured) -> Iterator[Gate]:
    yield Gate("pages of the own vault", found.own_pages, "at least", 150)
    yield Gate("judged queries of the own vault", found.own_queries, "at least", 100)
    yield Gate("unrelated prompts", found.unrelated, "at least", 200)


def _of(systems: Mapping[str, Ranked], system: str, figure: str) -> float | None:
    ranked = systems.get(system)
    return None if ranked is None else float(getattr(ranked, figure))


def _mean(collections: Mapping[str, Mapping[str, Ranked]], system: str, figure: str) -> float | None:
    """Over all collections alike; None where one of them lacks it."""
    values: Sequence[float | None] = [_of(systems, system, figure) for systems in collections.values()]
    return _sum(values, len(values))


def _sum(values: Iterable[float | None], share: int) -> float | None:
    total = 0.0
    for each in values:
        if each is None:
            return None
        total += each / share
    return total


def _difference(systems: Mapping[str, Ranked], one: str, other: str) -> float | None:
    return _minus(_of(systems, one, "ndcg10"), _of(systems, other, "ndcg10"))


def _minus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _ratio(one: float | None, other: float | None) -> float | None:
    """None where there is nothing to compare with."""
    return None if one is None or not other else one / other
