"""Retrieval metrics over ranked ids, and bootstrap confidence intervals of their means. Pure.

Judgements map an id to its grade; a grade of 0 or below means not relevant, and an id without one counts as 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

RESAMPLES: Final = 2_000
CONFIDENCE: Final = 0.95
SEED: Final = 20_240_501
BINS: Final = 10  # of confidence, equally wide


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over queries and the interval that holds it with 95 % confidence."""

    mean: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        return {"mean": round(self.mean, 4), "low": round(self.low, 4), "high": round(self.high, 4)}


def ndcg(ranked: Sequence[str], grades: Mapping[str, int], depth: int) -> float:
    """nDCG at `depth` with linear gain and a log2 discount, as trec_eval's ndcg_cut."""
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:depth]
    best = _discounted(ideal)
    return _discounted([max(grades.get(each, 0), 0) for each in ranked[:depth]]) / best if best > 0 else 0.0


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(place + 1) for place, gain in enumerate(gains, 1))


def reciprocal_rank(ranked: Sequence[str], grades: Mapping[str, int]) -> float:
    """1 / the rank of the first relevant id, 0 where none was retrieved; its mean over queries is MRR."""
    return next((1.0 / rank for rank, each in enumerate(ranked, 1) if grades.get(each, 0) > 0), 0.0)


def recall_at_k(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """The share of the relevant ids that are among the first `k`."""
    relevant = {each for each, grade in grades.items() if grade > 0}
    return len(relevant.intersection(ranked[:k])) / len(relevant) if relevant else 0.0


def bootstrap(values: Sequence[float], *, seed: int = SEED, resamples: int = RESAMPLES) -> Estimate:
    """The mean and its percentile interval over resamples of the queries; the same seed gives the same answer."""
    if not values:
        return Estimate(0.0, 0.0, 0.0)
    sample = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(0, len(sample), (resamples, len(sample)))
    means = sample[drawn].mean(axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Estimate(float(sample.mean()), float(low), float(high))


def calibration_error(judged: Sequence[tuple[float, bool]]) -> float | None:
    """The expected calibration error of (confidence 0–1, relevant?) pairs: how far, on the mean, a bin's share of
    relevant ones is from its mean confidence. None without a pair."""
    if not judged:
        return None
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, relevant in judged:
        bins.setdefault(min(int(confidence * BINS), BINS - 1), []).append((confidence, relevant))
    apart = (abs(sum(confidence - relevant for confidence, relevant in each)) for each in bins.values())
    return sum(apart) / len(judged)
