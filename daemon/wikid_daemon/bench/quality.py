"""How good the ranking is: judged queries asked of an index made for them, per mode.

First-stage retrieval of one vault is measured, without the confidence floor and the bundles that an answer adds: a page
that is ranked well counts even where recall would rather say nothing. Nothing is written into a measured vault.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from wikid_daemon.bench import beir, golden
from wikid_daemon.bench.dataset import DatasetUnusable, JudgedQuery, chosen
from wikid_daemon.bench.metrics import Estimate, bootstrap, ndcg, recall_at_k, reciprocal_rank
from wikid_daemon.core import query as q
from wikid_daemon.core import ranking
from wikid_daemon.index import jvm
from wikid_daemon.index.encoders import Embedder
from wikid_daemon.index.store import Store
from wikid_daemon.indexer import Indexer
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import ModelFolder, locate
from wikid_daemon.retrieval import QueryVector, Question, retrieve
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import Vault, VaultError, open_vault
from wikid_protocol.endpoint import folders

Mode = Literal["lexical", "hybrid"]
MODES: Final[tuple[Mode, ...]] = ("lexical", "hybrid")
DEPTH: Final = ranking.CANDIDATES  # ranks that MRR looks at
NDCG_AT: Final = 10
RECALL_AT: Final = 20

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Collection:
    """A vault to be asked: `document_of` names a page's document where that is not the page id itself."""

    name: str
    root: Path
    queries: Sequence[JudgedQuery]
    document_of: dict[str, str] | None


@dataclass(frozen=True, slots=True)
class ModeQuality:
    """One mode's means over the queries. `query_ms` is the median time of one retrieval in process."""

    ndcg: Estimate
    mrr: Estimate
    recall: Estimate
    query_ms: float


@dataclass(frozen=True, slots=True)
class QualityReport:
    name: str
    pages: int
    chunks: int
    queries: int
    index_seconds: float
    model: str
    modes: dict[Mode, ModeQuality]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        def estimate(value: Estimate) -> dict[str, float]:
            return {"mean": round(value.mean, 4), "low": round(value.low, 4), "high": round(value.high, 4)}

        return {
            "collection": self.name,
            "pages": self.pages,
            "chunks": self.chunks,
            "queries": self.queries,
            "index_seconds": round(self.index_seconds, 1),
            "model": self.model,
            "modes": {
                mode: {
                    f"ndcg_at_{NDCG_AT}": estimate(found.ndcg),
                    "mrr": estimate(found.mrr),
                    f"recall_at_{RECALL_AT}": estimate(found.recall),
                    "query_ms": round(found.query_ms, 2),
                }
                for mode, found in self.modes.items()
            },
            "notes": list(self.notes),
        }


def measure(place: Path, *, vault: Path | None, modes: Sequence[Mode], queries: int, say: Say) -> QualityReport:
    """Measure the BEIR folder or golden file at `place`; `queries` is how many are asked, 0 = all. DatasetUnusable."""
    with tempfile.TemporaryDirectory(prefix="wikid-bench-") as folder, _collection(place, vault, Path(folder)) as found:
        asked = chosen(found.queries, queries)
        if not asked:
            raise DatasetUnusable(f"{place}: no query has a relevant document")
        embedder, notes = _embedder() if "hybrid" in modes else (None, [])
        if embedder is None:
            modes = [mode for mode in modes if mode == "lexical"]
        return _measure(found, asked, embedder, modes, notes, Path(folder) / "state", say)


def _measure(
    collection: Collection,
    asked: Sequence[JudgedQuery],
    embedder: Embedder | None,
    modes: Sequence[Mode],
    notes: list[str],
    state: Path,
    say: Say,
) -> QualityReport:
    started = time.perf_counter()
    with _indexed(collection.root, state, embedder, say) as store:
        seconds = time.perf_counter() - started
        if not store.has_lexical:
            notes.append(store.java_missing)
        notes.extend(_unknown_pages(collection, asked, store))
        found: dict[Mode, ModeQuality] = {}
        for mode in modes:
            say(f"asking {len(asked)} queries, {mode}")
            found[mode] = _ask_all(collection, asked, store, embedder if mode == "hybrid" else None)
        pages, chunks = store.catalog.counts()
    model = "" if embedder is None else embedder.identity
    return QualityReport(collection.name, pages, chunks, len(asked), seconds, model, found, tuple(notes))


@contextmanager
def _collection(place: Path, vault: Path | None, scratch: Path) -> Iterator[Collection]:
    """The vault and its queries; a BEIR folder becomes a vault below `scratch`."""
    if not place.exists():
        raise DatasetUnusable(f"{place} does not exist")
    file = place / golden.GOLDEN if place.is_dir() else place
    if place.is_dir() and not file.exists():
        document_of = beir.write_vault(beir.read_documents(place), scratch / "vault")
        yield Collection(place.resolve().name, scratch / "vault", beir.read_queries(place), document_of)
    else:
        root = vault or file.parent
        yield Collection(root.resolve().name, root, golden.read_golden(file), None)


@contextmanager
def _indexed(root: Path, state: Path, embedder: Embedder | None, say: Say) -> Iterator[Store]:
    """The vault's index, complete, with its generated tree below `state` whatever vault it is."""
    indexer = Indexer(_outside(root, state), machine_id(state), lambda: embedder, _ignore, jvm.detach)
    indexer.start()
    try:
        progress = Progress(say)
        indexer.reindex(
            everything=False,
            lexical=True,
            vectors=embedder is not None,
            force=False,
            progress=progress.tell,
            cancelled=lambda: False,
        )
        if indexer.store is None:
            raise DatasetUnusable(f"{root} could not be indexed: {indexer.state.reason}")
        yield indexer.store
    finally:
        indexer.close()


def _outside(root: Path, state: Path) -> Vault:
    try:
        vault = open_vault(root, name=None, state_home=state, may_backfill=False)
    except VaultError as problem:
        raise DatasetUnusable(str(problem)) from problem
    return replace(vault, state=state / "index", state_outside="benchmark")


def _ignore(_indexer: Indexer) -> None:
    """Nobody waits for a generation here."""


class Progress:
    """Tells a long step once for every tenth of it."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._last = ("", -1)

    def tell(self, message: str, percentage: float | None) -> None:
        step = (message, -1 if percentage is None else int(percentage // 10))
        if step != self._last:
            self._last = step
            self._say(message if percentage is None else f"{message} {percentage:.0f} %")


def _embedder() -> tuple[Embedder | None, list[str]]:
    """The model that recall would use, or a note why there is none."""
    try:
        folder = model_folder()
        if folder is None:
            return None, ["no embedding model has been built (wikid models build): words alone were measured"]
        return Embedder.load(folder, workers=min(2, os.cpu_count() or 1)), []
    except ModelUnusable as problem:
        return None, [f"{problem.reason} Words alone were measured. {problem.hint}"]


def model_folder() -> ModelFolder | None:
    """The built model of this user. ModelUnusable."""
    return locate(os.environ, folders().cache, None)


def _ask_all(
    collection: Collection, asked: Sequence[JudgedQuery], store: Store, embedder: Embedder | None
) -> ModeQuality:
    scores: list[tuple[float, float, float]] = []
    times: list[float] = []
    for query in asked:
        started = time.perf_counter()
        ranked = _ask(query.text, store, embedder)
        times.append((time.perf_counter() - started) * 1e3)
        if collection.document_of is not None:
            ranked = [collection.document_of[page] for page in ranked]
        grades = query.grades
        scores.append(
            (ndcg(ranked, grades, NDCG_AT), reciprocal_rank(ranked, grades), recall_at_k(ranked, grades, RECALL_AT))
        )
    gains, ranks, recalls = zip(*scores, strict=True)
    return ModeQuality(bootstrap(gains), bootstrap(ranks), bootstrap(recalls), sorted(times)[len(times) // 2])


def _ask(query: str, store: Store, embedder: Embedder | None) -> list[str]:
    """Page ids, best first."""
    text = q.normalise(query)[: q.MAX_CODE_POINTS]
    if not q.has_words(text):
        return []
    vector = None
    if embedder is not None:
        share = ranking.DENSE_SHARE * embedder.familiarity(text)
        vector = QueryVector(embedder.identity, embedder.embed_query(text), share)
    candidates, _ = retrieve(store, Question(text, vector), DEPTH)
    return [each.found.page.page_id for each in candidates]


def _unknown_pages(collection: Collection, asked: Sequence[JudgedQuery], store: Store) -> list[str]:
    """Relevant documents that are not in the vault count as missed; say how many."""
    known = store.catalog.page_ids()
    if collection.document_of is not None:
        known = set(collection.document_of.values())
    wanted = {each for query in asked for each, grade in query.grades.items() if grade > 0}
    missing = len(wanted - known)
    return [f"{missing} of {len(wanted)} relevant pages are not in the vault"] if missing else []
