"""The release benchmark from top to bottom: the collections, the own vault, a large vault, and every gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from wikid_daemon.bench import gates, latency, metrics, own_vault, quality, report
from wikid_daemon.bench.beir import CORPUS
from wikid_daemon.bench.dataset import DatasetUnusable, Half
from wikid_daemon.bench.engines import Engines
from wikid_daemon.bench.gates import ENGLISH, OTHERS, REPORTED, Gate, Measured, Ranked
from wikid_daemon.bench.indexing import Say, Workplace
from wikid_daemon.bench.judged import read_judged
from wikid_daemon.bench.latency import Latency
from wikid_daemon.bench.metrics import Estimate
from wikid_daemon.bench.own_vault import OwnVaultReport
from wikid_daemon.bench.quality import Asked, QualityReport, SystemQuality
from wikid_daemon.bench.rankers import System
from wikid_daemon.core.confidence import FITTED_ON

FORMAT: Final = 1  # of the results file
PAGES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run. `collections` None leaves them out, and `pages` 0 the large vault: their gates then fail.

    `queries` is how many of the half are asked of each collection and of the own vault, 0 = all.
    """

    judged: Path
    collections: Path | None
    half: Half = "reporting"
    queries: int = 300
    pages: int = PAGES


@dataclass(frozen=True, slots=True)
class ReleaseReport:
    plan: Plan
    date: str
    models: Mapping[str, str]
    collections: Sequence[QualityReport]
    own: OwnVaultReport
    latency: Latency | None
    gates: Sequence[Gate]
    calibration: Mapping[str, float | None]

    @property
    def passed(self) -> bool:
        return all(each.passed for each in self.gates)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "date": self.date,
            "wikid": report.version_of("wikid-memory"),
            "models": dict(self.models),
            "confidence": FITTED_ON,
            "machine": report.machine(),
            "half": self.plan.half,
            "queries_at_most": self.plan.queries,
            "bootstrap": {"resamples": metrics.RESAMPLES, "confidence": metrics.CONFIDENCE, "seed": metrics.SEED},
            "passed": self.passed,
            "gates": [each.to_json() for each in self.gates],
            "calibration_error": report.rounded(dict(self.calibration)),
            "collections": [each.to_json() for each in self.collections],
            "own_vault": self.own.to_json(),
            "ablations": [each.to_json() for each in ablations(self.own)],
            "latency": None if self.latency is None else self.latency.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Ablation:
    """One of seed A's seven runs over the own vault; None is what a baseline does not give."""

    number: int
    name: str
    ndcg10: Estimate | None
    card_first: Estimate | None
    contradictions: Estimate | None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        estimates = {"ndcg_at_10": self.ndcg10, "card_first": self.card_first, "contradictions": self.contradictions}
        values = {name: None if value is None else value.to_json() for name, value in estimates.items()}
        return {"ablation": self.number, "name": self.name, **values, "note": self.note}


def measure(plan: Plan, engines: Engines, workplace: Workplace, say: Say) -> ReleaseReport:
    """Everything, and the gates computed from it. DatasetUnusable."""
    places = [] if plan.collections is None else _places(plan.collections)
    judged = read_judged(plan.judged)
    own = own_vault.measure(
        plan.judged, half=plan.half, queries=plan.queries, engines=engines, workplace=workplace, say=say
    )
    asked = Asked(queries=plan.queries, half=plan.half)
    found = [
        quality.measure(each, vault=None, asked=asked, engines=engines, workplace=workplace, say=say) for each in places
    ]
    texts = [each.query for each in judged.half(plan.half, plan.queries)]
    timed = latency.measure(plan.pages, texts, engines, workplace, say) if plan.pages else None
    calibration = {mode: _calibration(mode, found, own) for mode in gates.MODES}
    passed = gates.gates(_measured(own, found, timed, calibration))
    date = datetime.now(UTC).date().isoformat()
    return ReleaseReport(plan, date, engines.identities, found, own, timed, passed, calibration)


def _places(folder: Path) -> list[Path]:
    """The collections that gates and the report are about. DatasetUnusable where one is missing."""
    places = [folder / name for name in (*ENGLISH, *OTHERS, *REPORTED)]
    for each in places:
        if not (each / CORPUS).is_file():
            raise DatasetUnusable(f"{each} is not there: the gates need {', '.join((*ENGLISH, *OTHERS, *REPORTED))}")
    return places


def ablations(own: OwnVaultReport) -> list[Ablation]:
    """Seed A's runs 1–7, over the own vault."""

    def of(number: int, system: System) -> Ablation:
        ranked = own.systems.get(system)
        answered = next((each.quality for mode, each in own.answers.items() if mode == system), None)
        return Ablation(
            number,
            system,
            None if ranked is None else ranked.ndcg10,
            None if answered is None else answered.card_first,
            None if answered is None else answered.contradictions,
        )

    best = of(5, "quality")
    alone = replace(
        best,
        number=6,
        name="quality without relations",
        card_first=own.alone.card_first,
        contradictions=own.alone.contradictions,
    )
    note = "the vault holds no feedback, so nothing is adjusted by it"
    unadjusted = replace(best, number=7, name="quality without feedback", note=note)
    systems: tuple[System, ...] = ("heuristic", "lexical", "hybrid", "adaptive")
    return [*(of(number, system) for number, system in enumerate(systems, 1)), best, alone, unadjusted]


def _calibration(mode: System, found: Sequence[QualityReport], own: OwnVaultReport) -> float | None:
    """Over everything that was asked in languages the collection is in, since there is one scale for all."""
    reports = [each.systems for each in found if each.name not in REPORTED]
    return metrics.calibration_error(
        [pair for systems in (own.systems, *reports) if mode in systems for pair in systems[mode].believed]
    )


def _measured(
    own: OwnVaultReport,
    found: Sequence[QualityReport],
    timed: Latency | None,
    calibration: Mapping[str, float | None],
) -> Measured:
    automatic = own.automatic
    return Measured(
        collections={each.name: _ranked(each.systems) for each in found},
        own=_ranked(own.systems),
        own_pages=own.pages,
        own_queries=own.judged,
        top3={mode: _mean(each) for mode, each in own.top3.items()},
        answer_top3={mode: _mean(each.top3) for mode, each in own.answers.items()},
        card_first={mode: _mean(each.quality.card_first) for mode, each in own.answers.items()},
        contradictions={mode: _mean(each.quality.contradictions) for mode, each in own.answers.items()},
        unrelated=automatic.prompts,
        false_positives=automatic.false_positives.mean,
        baseline_false_positives=automatic.baseline_false_positives.mean,
        coverage=automatic.coverage.mean,
        calibration=calibration,
        degraded=own.degraded,
        certain_p50_ms=None if timed is None else timed.certain_p50_ms,
        escalated_p95_ms=None if timed is None else timed.escalated_p95_ms,
        quality_p95_ms=None if timed is None else timed.quality_p95_ms,
        automatic_longest_ms=None if timed is None else timed.automatic_longest_ms,
        timed_pages=0 if timed is None else timed.pages,
    )


def _ranked(systems: Mapping[System, SystemQuality]) -> dict[str, Ranked]:
    return {name: Ranked(each.ndcg10.mean, each.mrr.mean, each.recall.mean) for name, each in systems.items()}


def _mean(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.mean
