"""How likely a retrieved page is to answer the query, 0–1: one scale for floors and for people (spec, calibrated
confidence). A logistic model over what retrieval says of the page, one row of weights per (embedder, evidence).

The rows were fitted by `wikid bench calibrate` on the tuning halves of Cranfield, CACM, SciFact, XQuAD-en and the
judged vault, the multilingual embedder's on those of Cranfield, XQuAD-en and -de, CMRC, JSQuAD and the judged vault:
the five best pages of every query, against the five best for as many queries that belong elsewhere (other collections'
queries; for the judged vault also small talk, stack traces, code). The judged vault, which alone is like what people
have and the only one judged to the end, counts twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

EXPLICIT_FLOOR: Final = 0.25  # seed A, first-release limits
UNCALIBRATED_FLOOR: Final = 0.60  # for automatic recall with an embedder that no row was fitted for
# what a prompt's rarities must sum to before anything but a page it names is injected: less says too little to judge by
AUTOMATIC_TERMS: Final = 1.5
IDENTITY_CONFIDENCE: Final = 0.80  # a page the query names outright (seed A, the adaptive bypass)
LITERAL_CONFIDENCE: Final = 0.28  # a page that holds the query as it was typed: worth showing, never worth injecting

Evidence = Literal["lexical", "dense", "hybrid", "quality"]
"""What a page is judged by: words alone, vectors alone, both, or both and a reranker."""


@dataclass(frozen=True, slots=True)
class Signals:
    """What is known of a page. `coverage`: share of the query's weight in its best chunk and title, None where nothing
    can weigh words, as without Java. `cosine`: its best chunk's, None without vectors. `terms`: how many rare words the
    query is worth, its rarities summed. `rank` counts from 1, and `margin` is the fused score before the next page's.
    `rerank`: the late interaction's score, None without.
    """

    coverage: float | None
    cosine: float | None
    terms: float
    rank: int = 1
    margin: float = 0.0
    rerank: float | None = None

    @property
    def evidence(self) -> Evidence:
        if self.cosine is None:
            return "lexical"
        if self.coverage is None:
            return "dense"
        return "hybrid" if self.rerank is None else "quality"


@dataclass(frozen=True, slots=True)
class Weights:
    """Of the logit; what each is multiplied with is in `features`."""

    bias: float
    coverage: float = 0.0
    cosine: float = 0.0
    terms: float = 0.0
    margin: float = 0.0
    rank: float = 0.0
    rerank: float = 0.0


@dataclass(frozen=True, slots=True)
class Background:
    """The cosines of random pairs of chunks, what an embedder says of texts that have nothing to do with each other."""

    mean: float
    deviation: float


CALIBRATED: Final = "all-minilm-l6-v2"
MULTILINGUAL: Final = "multilingual-e5-small"
# for automatic recall seed A's .50 is of another scale (vault format §11.20). By embedder, and "" for words alone: the
# lowest twentieth at which fewer than one in twenty unrelated prompts gets anything, in every mode, on the judged
# vault's tuning half. There .50 gave a useful page to 44 % of the answerable prompts by the first one, and .30 to 64 %
AUTOMATIC_FLOORS: Final[Mapping[str, float]] = {CALIBRATED: 0.30, MULTILINGUAL: 0.45, "": 0.35}
# which fit the rows are of, told in the results file: another of these may mean other cosines, coverages or margins
FITTED_ON: Final[Mapping[str, Mapping[str, str]]] = {
    CALIBRATED: {
        "embedder": "all-minilm-l6-v2@d0e9d4020e8b-721565df",
        "reranker": "late-interaction:all-minilm-l6-v2@d0e9d4020e8b-721565df",
        "chunker": "2",
        "lexical": "lucene-9.9/1",
        "judged_weight": "2",
        "date": "2026-12-01",
    },
    MULTILINGUAL: {
        "embedder": "multilingual-e5-small@1335d8cd7448-5192763e",
        "reranker": "late-interaction:multilingual-e5-small@1335d8cd7448-5192763e",
        "chunker": "2",
        "lexical": "lucene-9.9/2",
        "judged_weight": "2",
        "date": "2026-12-01",
    },
}
ROWS: Final[Mapping[tuple[str, Evidence], Weights]] = {
    (CALIBRATED, "lexical"): Weights(-4.2, coverage=5.2, terms=0.95, margin=1.39, rank=-0.53),
    (CALIBRATED, "dense"): Weights(-5.08, cosine=7.81, margin=3.83, rank=-0.4),
    (CALIBRATED, "hybrid"): Weights(-6.71, coverage=2.42, cosine=5.39, terms=2.2, margin=3.73, rank=-0.41),
    (CALIBRATED, "quality"): Weights(-4.54, coverage=2.06, cosine=4.77, margin=3.5, rank=-0.53, rerank=1.17),
    (MULTILINGUAL, "dense"): Weights(-4.59, cosine=7.1, margin=9.59, rank=-0.79),
    (MULTILINGUAL, "hybrid"): Weights(-7.56, coverage=2.99, cosine=4.51, terms=3.27, margin=6.05, rank=-0.93),
    (MULTILINGUAL, "quality"): Weights(
        -8.32, coverage=3.04, cosine=4.76, terms=2.58, margin=6.1, rank=-0.84, rerank=2.14
    ),
}
# of each fitted embedder, the mean over its collections
BACKGROUNDS: Final[Mapping[str, Background]] = {
    CALIBRATED: Background(mean=0.15, deviation=0.121),
    MULTILINGUAL: Background(mean=0.798, deviation=0.025),
}
REFERENCE: Final = BACKGROUNDS[CALIBRATED]  # onto whose scale every other embedder's cosines are moved

ENOUGH_COSINE: Final = 0.75
ENOUGH_TERMS: Final = 1.5
ENOUGH_MARGIN: Final = 0.3


def is_calibrated(model: str) -> bool:
    """Whether rows were fitted for the embedder of this identity, `name@hash`."""
    return name_of(model) in BACKGROUNDS


def floor(model: str, *, automatic: bool) -> float:
    """The confidence from which a page is worth showing, or injecting before a turn. `model`: the identity of the
    embedder that had a say, empty where words alone answered."""
    return AUTOMATIC_FLOORS.get(name_of(model), UNCALIBRATED_FLOOR) if automatic else EXPLICIT_FLOOR


def confidence(signals: Signals, model: str = CALIBRATED, background: Background | None = None) -> float:
    """The probability that the page answers the query. `background` is the embedder's own, where it has no rows: its
    cosines are then compared with that, and its reranker, of which nothing is known, is left out."""
    name = name_of(model)
    if not is_calibrated(model):
        signals = replace(signals, rerank=None)
    signals = on_the_reference_scale(signals, BACKGROUNDS.get(name, background))
    return probability(row_of(name, signals.evidence), signals)


def row_of(name: str, evidence: Evidence) -> Weights:
    """The weights for an embedder of this name; words alone weigh the same beside each, and so does what no row was
    fitted for."""
    return ROWS.get((name, evidence), ROWS[CALIBRATED, evidence])


def probability(weights: Weights, signals: Signals) -> float:
    """What one row of weights makes of a page."""
    of = (weights.coverage, weights.cosine, weights.terms, weights.margin, weights.rank, weights.rerank)
    z = weights.bias + sum(weight * found for weight, found in zip(of, features(signals), strict=True))
    return 1.0 / (1.0 + math.exp(-z))


def features(signals: Signals) -> tuple[float, ...]:
    """What the weights after the bias are multiplied with, in their order; more than enough of one counts no further,
    and the rank by its logarithm."""
    return (
        signals.coverage or 0.0,
        min(max(signals.cosine or 0.0, 0.0), ENOUGH_COSINE),
        min(signals.terms / ENOUGH_TERMS, 1.0),
        min(max(signals.margin, 0.0), ENOUGH_MARGIN),
        math.log(max(signals.rank, 1)),
        signals.rerank or 0.0,
    )


def on_the_reference_scale(signals: Signals, background: Background | None) -> Signals:
    """As far above the reference background as above this one."""
    cosine = signals.cosine
    if cosine is None or background in (None, REFERENCE):
        return signals
    away = (cosine - background.mean) / max(background.deviation, 1e-6)
    return replace(signals, cosine=REFERENCE.mean + away * REFERENCE.deviation)


def name_of(model: str) -> str:
    """The name in a model's identity, `name@hash`."""
    return model.partition("@")[0]
