"""Fit the rows of `core.confidence` on the tuning halves of judged collections, and measure them on the others.

In each collection the queries that it answers count as much as those that it does not. Every collection counts the same
in what is reported; in the fit the judged vault, which alone is like what wikid is for, may count more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

from wikid_daemon.bench import report
from wikid_daemon.bench.dataset import DatasetUnusable, Half
from wikid_daemon.bench.engines import Engines
from wikid_daemon.bench.evidence import (
    Asked,
    Gathered,
    Route,
    Sample,
    asked_of,
    collection_source,
    gather,
    judged_source,
)
from wikid_daemon.bench.indexing import Say, Workplace
from wikid_daemon.bench.logistic import Floats, fitted, log_loss
from wikid_daemon.bench.reliability import Bin, expected_error, reliability
from wikid_daemon.core.chunking import VERSION as CHUNKER
from wikid_daemon.core.confidence import (
    AUTOMATIC_TERMS,
    CALIBRATED,
    IDENTITY_CONFIDENCE,
    MULTILINGUAL,
    Background,
    Evidence,
    Weights,
    features,
    name_of,
    probability,
    row_of,
)
from wikid_daemon.index.lucene import LUCENE
from wikid_daemon.index.lucene import SCHEMA as LEXICAL_SCHEMA

COLLECTIONS: Final[Mapping[str, Sequence[str]]] = {
    CALIBRATED: ("cranfield", "cacm", "scifact", "xquad-en"),
    MULTILINGUAL: ("cranfield", "xquad-en", "xquad-de", "cmrc2018-zh", "jsquad-ja"),
}
JUDGED_WEIGHT: Final = 2.0  # with more of it the error over all judged queries passes .08
QUERIES: Final = 150  # of each collection and half
FLOORS: Final = (0.3, 0.4, 0.5, 0.6)
# by the weights' order: what speaks for a page may not count against it, and a low place may not count for it
SIGNS: Final = {"coverage": 1, "cosine": 1, "terms": 1, "margin": 1, "rank": -1, "rerank": 1}
USES: Final[Mapping[Evidence, frozenset[str]]] = {
    "lexical": frozenset({"coverage", "terms", "margin", "rank"}),
    "dense": frozenset({"cosine", "margin", "rank"}),
    "hybrid": frozenset({"coverage", "cosine", "terms", "margin", "rank"}),
    "quality": frozenset(SIGNS),
}
ROUTE_OF: Final[Mapping[Evidence, Route]] = {
    "lexical": "lexical",
    "dense": "hybrid",
    "hybrid": "hybrid",
    "quality": "quality",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Folders of BEIR folders and of the judged vault, how many queries of each half are asked, and for how many
    collections the judged vault counts in the fit."""

    collections: Path
    judged: Path
    queries: int = QUERIES
    judged_weight: float = JUDGED_WEIGHT


@dataclass(frozen=True, slots=True)
class FloorPoint:
    """On the judged vault: the share of unrelated prompts that any page passes the floor for, and of judged queries
    that a relevant page does."""

    floor: float
    unrelated: float
    relevant: float


@dataclass(frozen=True, slots=True)
class RowReport:
    """One row, and its expected calibration errors on the reporting halves: over all, of each collection, and of the
    judged queries alone; with the row that is in use as well, over all. `loss` is the log loss."""

    weights: Weights
    samples: int
    error: float
    errors: Mapping[str, float]
    judged_alone: float
    in_use: float
    loss: float
    loss_in_use: float
    bins: Sequence[Bin]
    floors: Sequence[FloorPoint]

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = report.rounded(asdict(self))
        return {**found, "bins": [report.rounded(asdict(each)) for each in self.bins]}


@dataclass(frozen=True, slots=True)
class Calibration:
    """Of the embedder of this `name`. `fitted_on`: the versions of everything that has a part in a row; `backgrounds`
    by collection."""

    name: str
    fitted_on: Mapping[str, str]
    rows: Mapping[Evidence, RowReport]
    backgrounds: Mapping[str, Background]

    @property
    def background(self) -> Background:
        return _mean(self.backgrounds)

    def to_json(self) -> dict[str, Any]:
        return {
            "fitted_on": dict(self.fitted_on),
            "rows": {evidence: each.to_json() for evidence, each in self.rows.items()},
            "background": report.rounded(asdict(self.background)),
            "backgrounds": {name: report.rounded(asdict(each)) for name, each in self.backgrounds.items()},
        }


@dataclass(frozen=True, slots=True)
class _Found:
    """What was gathered of one collection, and what was asked for it."""

    name: str
    asked: Sequence[Asked]
    gathered: Mapping[Route, Gathered]

    def on_scale(self, background: Background) -> _Found:
        """The same, with cosines as recall will weigh them."""
        return replace(self, gathered={route: each.on_scale(background) for route, each in self.gathered.items()})


def calibrate(plan: Plan, engines: Engines, workplace: Workplace, date: str | None, say: Say) -> Calibration:
    """Gather, fit and measure. DatasetUnusable where a collection or a model is missing."""
    if engines.notes:
        raise DatasetUnusable(engines.notes[0])
    name = name_of(engines.identities["embedder"])
    if name not in COLLECTIONS:
        raise DatasetUnusable(f"there are no collections for {name}; there are for {', '.join(COLLECTIONS)}")
    own = judged_source(plan.judged)
    sources = [own, *(collection_source(plan.collections / each) for each in COLLECTIONS[name])]
    found = []
    for source in sources:
        others = [each for each in sources if each is not source]
        asked = asked_of(source, others, plan.queries)
        found.append(_Found(source.name, asked, gather(source, asked, engines, workplace, say)))
    backgrounds = {each.name: known for each in found if (known := each.gathered["hybrid"].background) is not None}
    scaled = [each.on_scale(_mean(backgrounds)) for each in found] if name != CALIBRATED else found
    # words alone know of no embedder
    fitted_for = [evidence for evidence in USES if evidence != "lexical" or name == CALIBRATED]
    rows = {evidence: _row(name, evidence, scaled, own.name, plan.judged_weight) for evidence in fitted_for}
    lexical = f"lucene-{LUCENE}/{LEXICAL_SCHEMA}"
    fitted_on = {**engines.identities, "chunker": CHUNKER, "lexical": lexical, **({"date": date} if date else {})}
    return Calibration(name, fitted_on, rows, backgrounds)


def _mean(backgrounds: Mapping[str, Background]) -> Background:
    every = backgrounds.values()
    return Background(fmean(each.mean for each in every), fmean(each.deviation for each in every))


def _row(name: str, evidence: Evidence, found: Sequence[_Found], own: str, own_weight: float) -> RowReport:
    weights = fit_row(evidence, _half(evidence, "tuning", found), {own: own_weight})
    reported = _half(evidence, "reporting", found)
    samples = [sample for _, sample in reported]
    beliefs, labels, shares = believed(weights, samples), labels_of(samples), shares_of(reported)
    in_use = believed(row_of(name, evidence), samples)
    judged = np.asarray([sample.kind == "judged" for sample in samples])
    names = np.asarray([name for name, _ in reported])
    bins = reliability(beliefs, labels, shares)
    return RowReport(
        weights,
        len(samples),
        expected_error(bins),
        {each.name: _error(beliefs, labels, shares, names == each.name) for each in found},
        _error(beliefs, labels, np.ones(len(samples)), judged),
        expected_error(reliability(in_use, labels, shares)),
        log_loss(beliefs, labels, shares),
        log_loss(in_use, labels, shares),
        bins,
        list(floor_points(weights, [sample for name, sample in reported if name == own], _asked(found, own))),
    )


def _half(evidence: Evidence, half: Half, found: Sequence[_Found]) -> list[tuple[str, Sample]]:
    return [
        (each.name, sample)
        for each in found
        for sample in each.gathered[ROUTE_OF[evidence]].samples
        if sample.evidence == evidence and sample.half == half
    ]


def _asked(found: Sequence[_Found], own: str) -> Counter[str]:
    """How many queries of each kind the judged vault was asked in the reporting half."""
    (vault,) = (each for each in found if each.name == own)
    return Counter(each.kind for each in vault.asked if each.half == "reporting")


def fit_row(evidence: Evidence, samples: Sequence[tuple[str, Sample]], counting: Mapping[str, float]) -> Weights:
    """The weights of one kind of evidence, to two decimals, fitted on samples with their collections' names; `counting`
    is what a collection counts for where that is not 1."""
    uses = np.asarray([name in USES[evidence] for name in SIGNS])
    columns = np.asarray([features(sample.signals) for _, sample in samples]) * uses
    shares = shares_of(samples) * np.asarray([counting.get(name, 1.0) for name, _ in samples])
    fit = fitted(columns, labels_of([sample for _, sample in samples]), shares, list(SIGNS.values()))
    named = dict(zip(SIGNS, (round(each, 2) for each in fit.coefficients), strict=True))
    return Weights(round(fit.bias, 2), **named)


def believed(weights: Weights, samples: Sequence[Sample]) -> Floats:
    """What recall would believe of each page; one that the query names is never believed less than that is worth."""
    return np.asarray(
        [max(probability(weights, each.signals), IDENTITY_CONFIDENCE if each.named else 0.0) for each in samples]
    )


def labels_of(samples: Sequence[Sample]) -> Floats:
    return np.asarray([float(each.relevant) for each in samples])


def shares_of(samples: Sequence[tuple[str, Sample]]) -> Floats:
    """Weights with which each collection counts the same, and in it what is judged as much as what is foreign."""
    groups = [(name, sample.kind == "judged") for name, sample in samples]
    sizes = Counter(groups)
    return np.asarray([1 / sizes[group] for group in groups])


def _error(beliefs: Floats, labels: Floats, shares: Floats, among: Any) -> float:
    return expected_error(reliability(beliefs[among], labels[among], shares[among]))


def floor_points(weights: Weights, samples: Sequence[Sample], asked: Mapping[str, int]) -> Iterator[FloorPoint]:
    """The trade-off of automatic recall over one vault's samples; `asked` counts the queries by kind, so that one that
    found nothing counts as well."""
    best: dict[tuple[str, str], float] = defaultdict(float)
    for sample, belief in zip(samples, believed(weights, samples).tolist(), strict=True):
        if (sample.relevant or sample.kind == "unrelated") and _says_enough(sample):
            best[sample.kind, sample.query] = max(best[sample.kind, sample.query], belief)

    def share(kind: str, floor: float) -> float:
        return sum(found >= floor for (each, _), found in best.items() if each == kind) / max(asked.get(kind, 0), 1)

    for floor in FLOORS:
        yield FloorPoint(floor, share("unrelated", floor), share("judged", floor))


def _says_enough(sample: Sample) -> bool:
    """Whether automatic recall would look at the page's confidence at all."""
    return sample.named or sample.signals.coverage is None or sample.signals.terms >= AUTOMATIC_TERMS


# -- for a person ------------------------------------------------------------------------------------------------------


def calibration_text(found: Calibration) -> str:
    """The tables, and the rows as they stand in `core/confidence.py`."""
    names = next(iter(found.rows.values())).errors
    errors = [("evidence", "pages", "error", *names, "judged alone", "in use", "log loss", "in use")]
    floors = [("evidence", *(f"unrelated ≥ {each}" for each in FLOORS), *(f"relevant ≥ {each}" for each in FLOORS))]
    bins = [("evidence", "from", "pages", "share", "believed", "true")]
    for evidence, row in found.rows.items():
        figures = (row.error, *row.errors.values(), row.judged_alone, row.in_use, row.loss, row.loss_in_use)
        errors.append((evidence, str(row.samples), *(f"{each:.3f}" for each in figures)))
        shares = (*(each.unrelated for each in row.floors), *(each.relevant for each in row.floors))
        floors.append((evidence, *(f"{each:.1%}" for each in shares)))
        bins += [
            (
                evidence,
                f"{each.low:.1f}",
                str(each.count),
                f"{each.share:.3f}",
                f"{each.believed:.3f}",
                f"{each.true:.3f}",
            )
            for each in row.bins
        ]
    backgrounds = ", ".join(f"{name} {each.mean:.3f}/{each.deviation:.3f}" for name, each in found.backgrounds.items())
    tables = (report.table(each) for each in (errors, floors, bins))
    return "\n\n".join([*tables, f"backgrounds, mean/deviation: {backgrounds}", as_python(found)])


def as_python(found: Calibration) -> str:
    """What replaces the constants of `core/confidence.py`."""
    name = "CALIBRATED" if found.name == CALIBRATED else "MULTILINGUAL"
    lines = [f"FITTED_ON[{name}]: {{"]
    lines += [f'    "{key}": "{value}",' for key, value in found.fitted_on.items()]
    lines += ["}", "ROWS:"]
    for evidence, row in found.rows.items():
        bias, *rest = astuple(row.weights)
        given = "".join(f", {key}={value}" for key, value in zip(SIGNS, rest, strict=True) if value)
        lines.append(f'    ({name}, "{evidence}"): Weights({bias}{given}),')
    own = found.background
    lines.append(f"BACKGROUNDS[{name}]: Background(mean={own.mean:.3f}, deviation={own.deviation:.3f})")
    return "\n".join(lines)
