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
LITERAL_CONFIDENCE: Final = 0.30  # a page that holds the query as it was typed: worth showing, never worth injecting


@dataclass(frozen=True, slots=True)
class Signals:
    """What is known of a page. `coverage`: share of the query's weight in its best chunk and title, None where nothing
    can weigh words, as without Java. `cosine`: its best chunk's, None without vectors. `terms`: how many rare words the
    query is worth, its rarities summed."""

    coverage: float | None
    cosine: float | None
    terms: float


@dataclass(frozen=True, slots=True)
class Weights:
    bias: float
    coverage: float
    cosine: float
    terms: float


# Fitted on the tuning halves of Cranfield, CACM and XQuAD-en: the judged among each query's five best pages against the
# unjudged, the best pages for other collections' queries, and small talk. On those halves 92 % of relevant first pages
# pass the explicit floor and 73 % the automatic one; of those for foreign queries 2 % and none (words alone: 88 %,
# 66 %, 8.8 % and 0.9 %).
LEXICAL: Final = Weights(bias=-7.67, coverage=4.32, cosine=0.0, terms=4.95)
DENSE: Final = Weights(bias=-4.94, coverage=0.0, cosine=8.52, terms=0.0)  # 87 %, 59 %, 1.7 % and none
HYBRID: Final = Weights(bias=-6.92, coverage=2.46, cosine=6.53, terms=1.96)
ENOUGH_COSINE: Final = 0.6  # with MiniLM more does not make a page more relevant
ENOUGH_TERMS: Final = 1.5


def confidence(signals: Signals) -> float:
    """The probability that the page answers the query."""
    weights = HYBRID
    if signals.cosine is None:
        weights = LEXICAL
    elif signals.coverage is None:
        weights = DENSE
    said = min(signals.terms / ENOUGH_TERMS, 1.0)
    z = weights.bias + weights.coverage * (signals.coverage or 0.0) + weights.terms * said
    if signals.cosine is not None:
        z += weights.cosine * min(max(signals.cosine, 0.0), ENOUGH_COSINE)
    return 1.0 / (1.0 + math.exp(-z))
