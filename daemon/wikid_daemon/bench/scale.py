"""How speed and memory grow with a vault: the same measurements at several sizes, for one table.

Vectors are stand-ins with the cosines of real ones (see `child.fill_vectors`); how fast real ones are made does not
depend on the size, and is measured by `speed`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from wikid_daemon.bench import serving, speed
from wikid_daemon.bench.report import rounded
from wikid_daemon.bench.sandbox import daemon, sandbox
from wikid_daemon.bench.serving import percentile
from wikid_daemon.bench.speed import MEGABYTE, Ground, Say

SIZES: Final = (1_000, 10_000, 50_000)


@dataclass(frozen=True, slots=True)
class Size:
    """One vault's figures, in the units that their names end with. Those of hybrid recall are None without a model,
    which else is warm in all of them.

    `first_answer_ms` and `proof_s` count from the start of a daemon whose files did not change: to a lexical answer,
    and until every file has been compared with the index.
    """

    pages: int
    chunks: int
    cold_index_s: float
    index_mb: float
    rss_mb: float
    lexical_p50_ms: float
    lexical_p95_ms: float
    hybrid_p50_ms: float | None
    hybrid_p95_ms: float | None
    save_p50_ms: float
    save_p95_ms: float
    first_answer_ms: float
    proof_s: float

    def to_json(self) -> dict[str, Any]:
        return {name: rounded(value) for name, value in asdict(self).items()}


def measure(sizes: Sequence[int], say: Say) -> list[Size]:
    """One size after the other, each in a sandbox of its own. Fifty thousand pages take about ten minutes."""
    model = speed.has_model(say)
    return [_measured(pages, say, model=model) for pages in sizes]


def _measured(pages: int, say: Say, *, model: bool) -> Size:
    with sandbox() as place:
        ground = speed.generated(place, "vault", pages, say)
        say("indexing words")
        cold = ground.run("index_wikid")
        if model:
            say("filling the catalog with vectors")
            ground.run("fill_vectors", pages=pages, seed=speed.SEED)
        with daemon(place) as running, running.client() as client:
            client.vault_add(str(ground.root), name="bench")
        queries = ground.generator.queries(speed.RECALLS)
        warm_up = ground.generator.queries(speed.WARM_UP, stream="warm-up")
        first, proof = _start(ground, warm_up[0], say)
        with speed.ready_daemon(ground, model=model) as running:
            say(f"{len(queries)} recalls, lexical")
            lexical = serving.recall_times(running, ground.root, "lexical", warm_up, queries)
            hybrid = None
            if model:
                say(f"{len(queries)} recalls, hybrid")
                hybrid = serving.recall_times(running, ground.root, "hybrid", warm_up, queries)
            saves = speed.saves_by_words(ground, running, say)
            with running.client() as client:
                rss = client.status().daemon.rss_bytes
        return Size(
            pages=cold["pages"],
            chunks=cold["chunks"],
            cold_index_s=cold["wall"],
            index_mb=_size_of_index(ground) / MEGABYTE,
            rss_mb=rss / MEGABYTE,
            lexical_p50_ms=lexical.p50_ms,
            lexical_p95_ms=lexical.p95_ms,
            hybrid_p50_ms=None if hybrid is None else hybrid.p50_ms,
            hybrid_p95_ms=None if hybrid is None else hybrid.p95_ms,
            save_p50_ms=percentile(saves, 50),
            save_p95_ms=percentile(saves, 95),
            first_answer_ms=first,
            proof_s=proof,
        )


def _start(ground: Ground, query: str, say: Say) -> tuple[float, float]:
    """Milliseconds to the first answer and seconds to the proof that nothing changed, without a wait in between."""
    say("a start over unchanged files")
    with daemon(ground.place) as running:
        first = serving.first_recall(running, ground.root, query)
        with running.client() as client:
            serving.await_ready(client, with_vectors=False)
        return first, time.perf_counter() - running.spawned


def _size_of_index(ground: Ground) -> int:
    return sum(path.stat().st_size for path in ground.catalog.parent.rglob("*") if path.is_file())
