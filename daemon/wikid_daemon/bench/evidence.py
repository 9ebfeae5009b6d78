"""What retrieval says of the pages it ranks first, on the path that recall takes: for queries that a collection was
judged for, and for queries that belong elsewhere, which nothing in it answers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal

from wikid_daemon import judging, reranking, rescoring, retrieval
from wikid_daemon.bench import beir
from wikid_daemon.bench.collection import Collection, opened
from wikid_daemon.bench.dataset import DatasetUnusable, Half, JudgedQuery, by_hash, by_ordinal, chosen, half_of
from wikid_daemon.bench.engines import Engines
from wikid_daemon.bench.indexing import KEY_LENGTH, Indexed, Say, Workplace, fingerprint, indexed
from wikid_daemon.bench.judged import JudgedVault, read_judged
from wikid_daemon.bench.rankers import call_for
from wikid_daemon.core import expansion, ranking
from wikid_daemon.core import query as q
from wikid_daemon.core.confidence import Background, Evidence, Signals, on_the_reference_scale
from wikid_daemon.core.query import Terms
from wikid_daemon.core.ranking import RERANK
from wikid_daemon.files import atomic_write
from wikid_daemon.judging import candidates
from wikid_daemon.retrieval import Question, Retrieved
from wikid_daemon.searching import Looked, Models, search

Kind = Literal["judged", "foreign", "unrelated"]
Route = Literal["lexical", "hybrid", "quality"]
ROUTES: Final[tuple[Route, ...]] = ("lexical", "hybrid", "quality")
BOTH: Final[tuple[Half, ...]] = ("tuning", "reporting")
PAGES: Final = 5  # of each query, best first
CODE: Final = (expansion, judging, q, ranking, reranking, rescoring, retrieval)  # what decides the samples


@dataclass(frozen=True, slots=True)
class Sample:
    """A ranked page: what is known of it, whether the query names it outright, and whether it answers.

    `query` is the query's id; `evidence` is what the page was found by.
    """

    query: str
    kind: Kind
    half: Half
    evidence: Evidence
    signals: Signals
    named: bool
    relevant: bool


@dataclass(frozen=True, slots=True)
class Asked:
    kind: Kind
    half: Half
    query: JudgedQuery


@dataclass(frozen=True, slots=True)
class Source:
    """A judged collection that is not opened yet: its queries by half, prompts that were written to have no answer in
    it, and the fingerprint of all that is read of it. `open` takes the identity of the embedder."""

    name: str
    queries: Mapping[Half, Sequence[JudgedQuery]]
    unrelated: Mapping[Half, Sequence[JudgedQuery]]
    content: str
    open: Callable[[Workplace, str], AbstractContextManager[Collection]]


@dataclass(frozen=True, slots=True)
class Gathered:
    """What one route found in one collection, and the embedder's background there."""

    samples: Sequence[Sample]
    background: Background | None

    def on_scale(self, background: Background) -> Gathered:
        """The same, with cosines moved from this background onto the reference's."""
        moved = [replace(each, signals=on_the_reference_scale(each.signals, background)) for each in self.samples]
        return Gathered(moved, self.background)

    def to_json(self) -> dict[str, Any]:
        return {
            "background": None if self.background is None else asdict(self.background),
            "samples": [asdict(each) for each in self.samples],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Gathered:
        samples = [Sample(**{**each, "signals": Signals(**each["signals"])}) for each in found["samples"]]
        return cls(samples, None if found["background"] is None else Background(**found["background"]))


# -- what is asked -----------------------------------------------------------------------------------------------------


def collection_source(place: Path) -> Source:
    """The BEIR folder at `place`. DatasetUnusable."""
    judged = beir.read_queries(place)
    content = fingerprint([place / name for name in (beir.CORPUS, beir.QUERIES, beir.QRELS)])
    queries = {half: chosen(judged, 0, half, by_ordinal) for half in BOTH}
    return Source(place.resolve().name, queries, {}, content, partial(opened, place, None))


def judged_source(folder: Path) -> Source:
    """The judged vault in `folder`. DatasetUnusable."""
    judged = read_judged(folder)
    prompts = [JudgedQuery(each.id, each.prompt, {}) for each in judged.unrelated]
    return Source(
        folder.resolve().name,
        {half: [each.as_query() for each in judged.half(half)] for half in BOTH},
        {half: [each for each in prompts if half_of(each.id) == half] for half in BOTH},
        fingerprint([*sorted(folder.glob("*.jsonl")), *sorted(judged.root.rglob("*.md"))]),
        partial(_judged_vault, folder, judged),
    )


@contextmanager
def _judged_vault(folder: Path, judged: JudgedVault, workplace: Workplace, model: str) -> Iterator[Collection]:
    root, name = judged.root.resolve(), folder.resolve().name
    with workplace.folder(name, str(root), model) as kept:
        yield Collection(name, root, kept / "state", [each.as_query() for each in judged.answers], by_hash)


def asked_of(source: Source, others: Sequence[Source], limit: int) -> list[Asked]:
    """Of each half up to `limit` judged queries, as many of the others' together, and up to `limit` unrelated prompts;
    chosen by the hash of their ids, so that the same ones are asked again."""
    asked = []
    for half in BOTH:
        judged = _drawn(source.queries[half], limit)
        each_other = -(-len(judged) // max(len(others), 1))
        foreign = [query for other in others for query in _drawn(other.queries[half], each_other)]
        asked += [Asked("judged", half, query) for query in judged]
        asked += [Asked("foreign", half, query) for query in foreign[: len(judged)]]
        asked += [Asked("unrelated", half, query) for query in _drawn(source.unrelated.get(half, ()), limit)]
    return asked


def _drawn(queries: Sequence[JudgedQuery], limit: int) -> list[JudgedQuery]:
    return sorted(queries, key=lambda each: hashlib.sha256(each.id.encode()).digest())[:limit]


# -- what is found -----------------------------------------------------------------------------------------------------


def gather(
    source: Source, asked: Sequence[Asked], engines: Engines, workplace: Workplace, say: Say
) -> dict[Route, Gathered]:
    """What each route finds; read from the workplace where the same was gathered before. DatasetUnusable."""
    with workplace.folder("evidence", _code(), *engines.identities.values()) as kept:
        places = {route: kept / f"{source.name}-{route}-{_key(source, asked)}.json" for route in ROUTES}
        found = {route: _read(place) for route, place in places.items() if place.exists()}
        missing = [route for route in ROUTES if route not in found]
        if missing:
            with _indexed(source, engines, workplace, say) as (collection, vault):
                for route in missing:
                    say(f"{source.name}: asking {len(asked)} queries, {route}")
                    found[route] = _gathered(collection, vault, route, asked, engines.models)
                    atomic_write(places[route], json.dumps(found[route].to_json()).encode())
        return found


@cache
def _code() -> str:
    """As it is when it is first asked for, since that is what runs."""
    return fingerprint([Path(each.__file__ or "") for each in CODE])


def _key(source: Source, asked: Sequence[Asked]) -> str:
    queries = [(each.kind, each.half, each.query.text) for each in asked]
    return hashlib.sha256(json.dumps([source.content, queries]).encode()).hexdigest()[:KEY_LENGTH]


def _read(place: Path) -> Gathered:
    return Gathered.from_json(json.loads(place.read_text(encoding="utf-8")))


@contextmanager
def _indexed(source: Source, engines: Engines, workplace: Workplace, say: Say) -> Iterator[tuple[Collection, Indexed]]:
    with (
        source.open(workplace, engines.identities["embedder"]) as collection,
        indexed(collection.root, collection.state, engines.encoder, say) as vault,
    ):
        if not vault.store.has_lexical:
            raise DatasetUnusable(vault.store.java_missing)
        yield collection, vault


def _gathered(collection: Collection, vault: Indexed, route: Route, asked: Sequence[Asked], models: Models) -> Gathered:
    samples: list[Sample] = []
    for each in asked:
        call = call_for(each.query.text, route, vault)
        if not q.has_words(call.question.text):
            continue
        (looked,) = search(call, vault.asked, models)
        samples += _samples(collection, each, call.question, looked.retrieved, looked, route)
        if route == "hybrid":
            samples += _samples(
                collection, each, call.question, vectors_alone(looked.first, call.question), looked, "dense"
            )
    return Gathered(samples, vault.store.background())


def vectors_alone(first: Retrieved, question: Question) -> Retrieved:
    """What the first look would have been where nothing can be searched by its words, as without Java."""
    fused = ranking.fuse((), first.dense, lambda _chunks: {}, question.dense_share)
    return Retrieved((), first.dense, fused, Terms(()))


def _samples(
    collection: Collection, asked: Asked, question: Question, retrieved: Retrieved, looked: Looked, evidence: Evidence
) -> list[Sample]:
    """The first pages that are judged by this evidence; a page of which less is known belongs to another row."""
    found = []
    for signals, page_id, named in signals_of(looked, question, retrieved):
        if signals.evidence == evidence:
            (document,) = collection.documents([page_id])
            relevant = asked.query.grades.get(document, 0) > 0
            found.append(Sample(asked.query.id, asked.kind, asked.half, evidence, signals, named, relevant))
    return found


def signals_of(looked: Looked, question: Question, retrieved: Retrieved) -> list[tuple[Signals, str, bool]]:
    """Of the first pages what `judging` judges them by, their ids, and whether they are named outright."""
    # the last one's margin is its lead over a page that is not looked at
    judged = candidates(looked.store, question, retrieved, PAGES + 1)
    scores = [each.fused.score for each in judged] + [0.0]
    found = []
    for place, each in enumerate(judged[:PAGES]):
        signals = Signals(
            coverage=each.coverage if len(retrieved.terms) else None,
            cosine=each.fused.cosine if question.dense_share > 0 else None,
            terms=retrieved.terms.mass,
            rank=each.rank,
            margin=scores[place] - scores[place + 1],
            rerank=dict(each.fused.signals).get(RERANK),
        )
        found.append((signals, each.found.page.page_id, each.identity is not None))
    return found
