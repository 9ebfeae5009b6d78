"""How far beliefs are from what came true: bins of equal width, and the expected calibration error over them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wikid_daemon.bench.logistic import Floats
from wikid_daemon.bench.metrics import BINS


@dataclass(frozen=True, slots=True)
class Bin:
    """Beliefs from `low` up to the next bin: their share of all the weight, their mean, and what share came true."""

    low: float
    count: int
    share: float
    believed: float
    true: float


def reliability(beliefs: Floats, labels: Floats, weights: Floats) -> list[Bin]:
    """The bins that hold anything, lowest first, for beliefs 0–1 and labels 0 or 1."""
    places = np.minimum((beliefs * BINS).astype(int), BINS - 1)
    total = float(weights.sum())
    found = []
    for place in range(BINS):
        inside = places == place
        weight = float(weights[inside].sum())
        if weight > 0:
            believed, true = (float(np.average(each[inside], weights=weights[inside])) for each in (beliefs, labels))
            found.append(Bin(place / BINS, int(inside.sum()), weight / total, believed, true))
    return found


def expected_error(bins: Sequence[Bin]) -> float:
    """The expected calibration error: the mean distance of belief from truth, each bin by its share."""
    return sum(each.share * abs(each.believed - each.true) for each in bins)
