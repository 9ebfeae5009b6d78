"""The judged vault, measured: pages ranked by each system, answers per mode, automatic recall, ablations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wikid_daemon.bench import answers
from wikid_daemon.bench.answers import AnswerQuality, answer_quality
from wikid_daemon.bench.asking import Asking
from wikid_daemon.bench.collection import Collection
from wikid_daemon.bench.dataset import DatasetUnusable, Half, by_hash
from wikid_daemon.bench.engines import NONE, Engines
from wikid_daemon.bench.heuristic import Heuristic
from wikid_daemon.bench.indexing import Indexed, Say, Workplace, indexed
from wikid_daemon.bench.judged import EXACT, JudgedAnswer, JudgedVault, Unrelated, read_judged
from wikid_daemon.bench.metrics import Estimate, bootstrap
from wikid_daemon.bench.quality import SystemQuality, rank_all
from wikid_daemon.bench.rankers import SYSTEMS, System, heuristic, ranker
from wikid_daemon.bench.serving import percentile
from wikid_daemon.core.confidence import EXPLICIT_FLOOR
from wikid_daemon.core.modes import MODES, Mode
from wikid_daemon.searching import Models
from wikid_protocol import records as r

FLOORS: Final = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7, 0.9)
DEFAULT_MODE: Final[Mode] = "adaptive"
WARM_UP: Final = 5  # queries that are asked before any is timed


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of whole recalls in process. Modes follow each other over the same queries, so the later ones find
    what they read in the reranker's cache: how long unseen pages take is measured by `latency`."""

    p50: float
    p95: float
    longest: float

    def to_json(self) -> dict[str, float]:
        return {"p50_ms": round(self.p50, 2), "p95_ms": round(self.p95, 2), "longest_ms": round(self.longest, 2)}


@dataclass(frozen=True, slots=True)
class ModeAnswers:
    """One mode's answers. `used`: how many queries each path answered; `top3`: of the names that the baseline has among
    its first three, those whose page is in the first three bundles, and `lost` the ids of the others."""

    quality: AnswerQuality
    times: Times
    used: Mapping[str, int]
    top3: Estimate | None
    lost: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            **self.quality.to_json(),
            **self.times.to_json(),
            "paths": dict(self.used),
            "top_3_kept": None if self.top3 is None else self.top3.to_json(),
            "top_3_lost": list(self.lost),
        }


@dataclass(frozen=True, slots=True)
class FloorPoint:
    """Automatic recall with another floor. `precision`: of all that is injected, over both kinds of prompts, what holds
    a page of use; None where nothing is."""

    floor: float
    false_positives: float
    coverage: float
    precision: float | None


@dataclass(frozen=True, slots=True)
class AutomaticQuality:
    """Automatic recall: the share of unrelated prompts that get anything, and of answerable ones that get a page of
    use; the same of the baseline. `too_late` is the share of all that the time did not suffice for."""

    prompts: int
    false_positives: Estimate
    coverage: Estimate
    baseline_false_positives: Estimate
    baseline_coverage: Estimate
    too_late: float
    times: Times
    curve: Sequence[FloorPoint]
    injected: tuple[str, ...]
    missed: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "unrelated_prompts": self.prompts,
            "false_positives": self.false_positives.to_json(),
            "coverage": self.coverage.to_json(),
            "baseline_false_positives": self.baseline_false_positives.to_json(),
            "baseline_coverage": self.baseline_coverage.to_json(),
            "too_late": round(self.too_late, 4),
            **self.times.to_json(),
            "curve": [
                {
                    "floor": each.floor,
                    "false_positives": round(each.false_positives, 4),
                    "coverage": round(each.coverage, 4),
                    "precision": None if each.precision is None else round(each.precision, 4),
                }
                for each in self.curve
            ],
            "unrelated_with_an_injection": list(self.injected),
            "answerable_without_a_useful_injection": list(self.missed),
        }


@dataclass(frozen=True, slots=True)
class OwnVaultReport:
    """`top3` is what `ModeAnswers.top3` is, of ranked pages; `alone` are the answers without relations, and `degraded`
    the share of questions that words answered, and said why, when there was no model."""

    pages: int
    queries: int
    judged: int
    half: Half
    versions: Mapping[str, str]
    systems: Mapping[System, SystemQuality]
    top3: Mapping[Mode, Estimate | None]
    answers: Mapping[Mode, ModeAnswers]
    alone: AnswerQuality
    degraded: float
    automatic: AutomaticQuality
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "pages": self.pages,
            "judged_queries": self.judged,
            "queries": self.queries,
            "half": self.half,
            "versions": dict(self.versions),
            "systems": {name: found.to_json() for name, found in self.systems.items()},
            "top_3_kept": {mode: None if each is None else each.to_json() for mode, each in self.top3.items()},
            "answers": {mode: found.to_json() for mode, found in self.answers.items()},
            "quality_without_relations": self.alone.to_json(),
            "degraded": round(self.degraded, 4),
            "automatic": self.automatic.to_json(),
            "notes": list(self.notes),
        }


def measure(
    folder: Path, *, half: Half, queries: int, engines: Engines, workplace: Workplace, say: Say
) -> OwnVaultReport:
    """Measure the judged vault in `folder`; `queries` is how many of the half are asked, 0 = all. DatasetUnusable."""
    judged = read_judged(folder)
    asked = judged.half(half, queries)
    if not asked:
        raise DatasetUnusable(f"{folder}: no query is in that half")
    root = judged.root.resolve()
    with workplace.folder(folder.resolve().name, str(root), engines.identities["embedder"]) as kept:
        state = kept / "state"
        with indexed(root, state, engines.encoder, say) as vault:
            return _measured(
                judged, asked, half, Collection("own vault", root, state, (), by_hash), vault, engines, say
            )


def _measured(
    judged: JudgedVault,
    asked: Sequence[JudgedAnswer],
    half: Half,
    collection: Collection,
    vault: Indexed,
    engines: Engines,
    say: Say,
) -> OwnVaultReport:
    asking, old = Asking(vault, engines.models), heuristic(vault)
    systems, lacking = rank_all(SYSTEMS, collection, [each.as_query() for each in asked], vault, engines.models, say)
    named = [each for each in asked if each.kind in EXACT]
    before = [old.ask(each.query, answers.TOP) for each in named]
    for each in asked[:WARM_UP]:
        asking.explicit(each.query, DEFAULT_MODE)
    found = {}
    for mode in MODES:
        say(f"answering {len(asked)} queries, {mode}")
        found[mode] = _answers(asking, mode, asked, named, before)
    say(f"answering {len(asked)} queries, quality without relations")
    policy = asking.policy(EXPLICIT_FLOOR, automatic=False)
    alone = [(each, asking.unhurried(each.query, "quality", policy, related=False)) for each in asked]
    say(f"automatic recall for {len(asked)} answerable and {len(judged.unrelated)} unrelated prompts")
    return OwnVaultReport(
        pages=vault.store.catalog.counts()[0],
        queries=len(asked),
        judged=len(judged.answers),
        half=half,
        versions=vault.store.versions(),
        systems=systems,
        top3={mode: _names_kept(mode, vault, engines.models, named, before) for mode in MODES},
        answers=found,
        alone=answer_quality(alone),
        degraded=_degraded(Asking(vault, NONE.models), asked),
        automatic=_automatic(asking, old, asked, judged.unrelated),
        notes=(*engines.notes, *lacking),
    )


def _answers(
    asking: Asking,
    mode: Mode,
    asked: Sequence[JudgedAnswer],
    named: Sequence[JudgedAnswer],
    before: Sequence[Sequence[str]],
) -> ModeAnswers:
    given = {each.id: asking.explicit(each.query, mode) for each in asked}
    on_top = [{item.page_id for item in answers.items(given[each.id].bundles[: answers.TOP])} for each in named]
    top3, lost = answers.kept_on_top(named, before, on_top)
    paths = [each.mode_used for each in given.values()]
    return ModeAnswers(
        answer_quality([(each, given[each.id].bundles) for each in asked]),
        _times(list(given.values())),
        {path: paths.count(path) for path in MODES if path in paths},
        top3,
        lost,
    )


def _names_kept(
    mode: Mode, vault: Indexed, models: Models, named: Sequence[JudgedAnswer], before: Sequence[Sequence[str]]
) -> Estimate | None:
    ranks = ranker(mode, vault, models)
    assert not isinstance(ranks, str)  # only a baseline may be lacking
    return answers.kept_on_top(named, before, [ranks(each.query).pages[: answers.TOP] for each in named])[0]


def _degraded(bare: Asking, asked: Sequence[JudgedAnswer]) -> float:
    given = [bare.explicit(each.query, "quality") for each in asked]
    told = [any(one.kind == "model_absent" for one in each.diagnostics) for each in given]
    return sum(why and each.mode_used == "lexical" for why, each in zip(told, given, strict=True)) / len(given)


def _automatic(
    asking: Asking, old: Heuristic, asked: Sequence[JudgedAnswer], unrelated: Sequence[Unrelated]
) -> AutomaticQuality:
    helped = {each.id: asking.automatic(each.query) for each in asked}
    disturbed = {each.id: asking.automatic(each.prompt) for each in unrelated}
    useful = {each.id: answers.helps(each, helped[each.id].bundles) for each in asked}
    recalls = [*helped.values(), *disturbed.values()]
    late = [any(told.kind == "too_late" for told in each.diagnostics) for each in recalls]
    return AutomaticQuality(
        prompts=len(unrelated),
        false_positives=bootstrap([bool(each.bundles) for each in disturbed.values()]),
        coverage=bootstrap(list(useful.values())),
        baseline_false_positives=bootstrap([bool(old.automatic(each.prompt)) for each in unrelated]),
        baseline_coverage=bootstrap(
            [any(each.grades.get(page, 0) > 0 for page in old.automatic(each.query)) for each in asked]
        ),
        too_late=sum(late) / len(late) if late else 0.0,
        times=_times(recalls),
        curve=_curve(asking, asked, unrelated),
        injected=tuple(prompt for prompt, each in disturbed.items() if each.bundles),
        missed=tuple(query for query, helps in useful.items() if not helps),
    )


def _curve(asking: Asking, asked: Sequence[JudgedAnswer], unrelated: Sequence[Unrelated]) -> list[FloorPoint]:
    """What other floors would do, were time no matter; each prompt is searched once."""
    helped = [(each, asking.looked(each.query, DEFAULT_MODE)) for each in asked]
    disturbed = [asking.looked(each.prompt, DEFAULT_MODE) for each in unrelated]
    points = []
    for floor in FLOORS:
        policy = asking.policy(floor, automatic=True)
        wrong = sum(bool(each.bundles(policy)) for each in disturbed)
        given = [(judged, found.bundles(policy)) for judged, found in helped]
        useful = sum(answers.helps(judged, bundles) for judged, bundles in given)
        injected = wrong + sum(bool(bundles) for _, bundles in given)
        points.append(
            FloorPoint(
                floor,
                wrong / len(disturbed) if disturbed else 0.0,
                useful / len(helped) if helped else 0.0,
                useful / injected if injected else None,
            )
        )
    return points


def _times(recalls: Sequence[r.Recall]) -> Times:
    spent = [each.elapsed_ms for each in recalls]
    return Times(percentile(spent, 50), percentile(spent, 95), max(spent))
