"""How good the ranking is: judged queries asked of an index made for them, per system.

Pages are ranked, without the confidence floor and the bundles that an answer adds. Nothing is written into a measured
vault.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wikid_daemon.bench.collection import Collection, opened
from wikid_daemon.bench.dataset import DatasetUnusable, Half, JudgedQuery, chosen
from wikid_daemon.bench.engines import Engines
from wikid_daemon.bench.indexing import Indexed, Say, Workplace, indexed
from wikid_daemon.bench.metrics import Estimate, bootstrap, calibration_error, ndcg, recall_at_k, reciprocal_rank
from wikid_daemon.bench.rankers import BASELINES, SYSTEMS, Ranker, System, ranker
from wikid_daemon.bench.serving import percentile
from wikid_daemon.searching import Models

NDCG_AT: Final = (5, 10)
RECALL_AT: Final = 20
JUDGED_PAGES: Final = 5  # of each query, whose confidences are compared with their judgements
WORDS_ALONE: Final = frozenset({"heuristic", "lexical"})  # what needs no model


@dataclass(frozen=True, slots=True)
class SystemQuality:
    """One system's means over the queries. `query_ms` is the median time of one ranking in process.

    `escalated` is the share of queries that were looked at twice, None for a baseline; `believed` are its (confidence,
    relevant?) pairs.
    """

    ndcg5: Estimate
    ndcg10: Estimate
    mrr: Estimate
    recall: Estimate
    query_ms: float
    escalated: float | None
    believed: Sequence[tuple[float, bool]]

    @property
    def calibration(self) -> float | None:
        return calibration_error(self.believed)

    def to_json(self) -> dict[str, Any]:
        return {
            "ndcg_at_5": self.ndcg5.to_json(),
            "ndcg_at_10": self.ndcg10.to_json(),
            "mrr": self.mrr.to_json(),
            f"recall_at_{RECALL_AT}": self.recall.to_json(),
            "query_ms": round(self.query_ms, 2),
            "escalated": None if self.escalated is None else round(self.escalated, 4),
            "calibration_error": None if self.calibration is None else round(self.calibration, 4),
        }


@dataclass(frozen=True, slots=True)
class QualityReport:
    """`half` is the part of the judged queries that was asked, `versions` what the index was made with."""

    name: str
    pages: int
    chunks: int
    queries: int
    half: Half
    index_seconds: float
    versions: Mapping[str, str]
    systems: Mapping[System, SystemQuality]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "collection": self.name,
            "pages": self.pages,
            "chunks": self.chunks,
            "queries": self.queries,
            "half": self.half,
            "index_seconds": round(self.index_seconds, 1),
            "versions": dict(self.versions),
            "systems": {name: found.to_json() for name, found in self.systems.items()},
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """What is measured: which systems, and which of the judged queries. `queries` 0 is all of the half."""

    systems: Sequence[System] = SYSTEMS
    queries: int = 0
    half: Half = "all"

    @property
    def needs_models(self) -> bool:
        return not WORDS_ALONE.issuperset(self.systems)


def measure(
    place: Path, *, vault: Path | None, asked: Asked, engines: Engines, workplace: Workplace, say: Say
) -> QualityReport:
    """Measure the BEIR folder or golden file at `place`. DatasetUnusable."""
    model = engines.identities["embedder"]
    with opened(place, vault, workplace, model) as collection:
        queries = chosen(collection.queries, asked.queries, asked.half, collection.split)
        if not queries:
            raise DatasetUnusable(f"{place}: no query has a relevant document")
        return _measured(collection, queries, asked, engines, say)


def _measured(
    collection: Collection, queries: Sequence[JudgedQuery], asked: Asked, engines: Engines, say: Say
) -> QualityReport:
    started = time.perf_counter()
    with indexed(collection.root, collection.state, engines.encoder, say) as vault:
        seconds = time.perf_counter() - started
        notes = list(engines.notes) if asked.needs_models else []
        if not vault.store.has_lexical:
            notes.append(vault.store.java_missing)
        notes += _unknown_pages(collection, queries, vault)
        systems, lacking = rank_all(asked.systems, collection, queries, vault, engines.models, say)
        pages, chunks = vault.store.catalog.counts()
        versions = vault.store.versions()
    return QualityReport(
        collection.name,
        pages,
        chunks,
        len(queries),
        asked.half,
        seconds,
        versions,
        systems,
        (*notes, *lacking),
    )


def rank_all(
    systems: Sequence[System],
    collection: Collection,
    queries: Sequence[JudgedQuery],
    vault: Indexed,
    models: Models,
    say: Say,
) -> tuple[dict[System, SystemQuality], list[str]]:
    """Each system's quality, and why one has none."""
    found: dict[System, SystemQuality] = {}
    lacking: list[str] = []
    for system in systems:
        ranks = ranker(system, vault, models)
        if isinstance(ranks, str):
            lacking.append(ranks)
            continue
        say(f"{collection.name}: asking {len(queries)} queries, {system}")
        found[system] = _quality(system, collection, queries, ranks)
    return found, lacking


def _quality(system: System, collection: Collection, queries: Sequence[JudgedQuery], ranks: Ranker) -> SystemQuality:
    scores: list[tuple[float, float, float, float]] = []
    times: list[float] = []
    escalated = 0
    believed: list[tuple[float, bool]] = []
    for query in queries:
        started = time.perf_counter()
        ranking = ranks(query.text)
        times.append((time.perf_counter() - started) * 1e3)
        documents, grades = collection.documents(ranking.pages), query.grades
        shallow, deep = (ndcg(documents, grades, depth) for depth in NDCG_AT)
        rank, recall = reciprocal_rank(documents, grades), recall_at_k(documents, grades, RECALL_AT)
        scores.append((shallow, deep, rank, recall))
        escalated += ranking.used == "quality"
        relevant = [grades.get(each, 0) > 0 for each in documents]
        believed += zip(ranking.confidences[:JUDGED_PAGES], relevant[:JUDGED_PAGES], strict=False)
    ndcg5, ndcg10, mrr, recalls = (bootstrap(column) for column in zip(*scores, strict=True))
    share = None if system in BASELINES else escalated / len(queries)
    return SystemQuality(ndcg5, ndcg10, mrr, recalls, percentile(times, 50), share, believed)


def _unknown_pages(collection: Collection, queries: Sequence[JudgedQuery], vault: Indexed) -> list[str]:
    """Relevant documents that are not in the vault count as missed; say how many."""
    known = set(collection.documents(sorted(vault.store.catalog.page_ids())))
    wanted = {each for query in queries for each, grade in query.grades.items() if grade > 0}
    missing = len(wanted - known)
    return [f"{missing} of {len(wanted)} relevant pages are not in the vault"] if missing else []
