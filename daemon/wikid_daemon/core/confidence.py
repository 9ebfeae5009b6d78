"""How likely a retrieved page is to answer the query, 0–1: one scale for floors and for people (spec, calibrated
confidence). A logistic model over what both lists say of the page, one row of weights per mode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

AUTOMATIC_FLOOR: Final = 0.50  # seed A, first-release limits
EXPLICIT_FLOOR: Final = 0.25
IDENTITY_CONFIDENCE: Final = 0.80  # a page the query names outright (seed A, the adaptive bypass)


@dataclass(frozen=True, slots=True)
class Signals:
    """`coverage`: share of the query's idf weight in the page's best chunk and title. `cosine`: of the best chunk, None
    without vectors. `mass`: the idf weight of the whole query, how much it says at all."""

    coverage: float
    cosine: float | None
    mass: float


@dataclass(frozen=True, slots=True)
class Weights:
    bias: float
    coverage: float
    cosine: float
    mass: float


# Fitted on the tuning halves of Cranfield, CACM, SciFact and XQuAD-en: judged pages against the best pages for queries
# of another collection.
LEXICAL: Final = Weights(bias=-4.0, coverage=5.5, cosine=0.0, mass=0.5)
HYBRID: Final = Weights(bias=-5.0, coverage=3.0, cosine=8.0, mass=0.5)
MASS_SCALE: Final = 20.0


def confidence(signals: Signals) -> float:
    """The probability that the page answers the query."""
    weights = LEXICAL if signals.cosine is None else HYBRID
    z = weights.bias + weights.coverage * signals.coverage + weights.mass * min(signals.mass / MASS_SCALE, 1.0)
    if signals.cosine is not None:
        z += weights.cosine * max(signals.cosine, 0.0)
    return 1.0 / (1.0 + math.exp(-z))
