"""How long a warm recall takes in a large vault: every mode, in process, over a generated vault.

Vectors are stand-ins with the cosines of real ones (see `child.fill_catalog`); everything else is what recall does.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from wikid_daemon.bench.asking import Asking
from wikid_daemon.bench.child import fill_catalog
from wikid_daemon.bench.engines import Engines
from wikid_daemon.bench.generate import VaultGenerator, write_pages
from wikid_daemon.bench.indexing import CATALOG_OF_INDEX, Say, Workplace, indexed
from wikid_daemon.bench.report import rounded
from wikid_daemon.bench.serving import percentile
from wikid_daemon.vault.vault import init_vault

SEED: Final = 1
WRITTEN: Final = "written"  # a file that is made last: the vault beside it is whole
WORDS: Final = 40  # queries of each run, besides titles and a part of those that people would ask
TITLES: Final = 20
WARM_UP: Final = 20
# each with queries of its own: what one run reads must not be in the reranker's cache for the next
RUNS: Final = ("lexical", "hybrid", "adaptive", "quality", "automatic")


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of whole recalls. `certain`: adaptive ones that the first look answered; `escalated`: the others,
    which are `escalated_share` of them. A figure is None where there was no such recall."""

    pages: int
    chunks: int
    queries: int
    lexical_p50_ms: float
    hybrid_p50_ms: float
    certain_p50_ms: float | None
    certain_p95_ms: float | None
    escalated_p50_ms: float | None
    escalated_p95_ms: float | None
    escalated_share: float
    quality_p50_ms: float | None
    quality_p95_ms: float | None
    automatic_p95_ms: float
    automatic_longest_ms: float

    def to_json(self) -> dict[str, Any]:
        return {name: rounded(value) for name, value in asdict(self).items()}


def measure(pages: int, asked: Sequence[str], engines: Engines, workplace: Workplace, say: Say) -> Latency:
    """Over a vault of so many generated pages, by queries made for it and those of `asked`. DatasetUnusable."""
    generator = VaultGenerator(pages, SEED)
    with workplace.folder("generated", str(pages), str(SEED), engines.identities["embedder"]) as folder:
        root, state = folder / "vault", folder / "state"
        _write(generator, root, folder / WRITTEN, say)
        if engines.encoder is not None:
            with indexed(root, state, None, say):
                pass  # words first: what is embedded afterwards are stand-ins
            say("filling the catalog with vectors")
            fill_catalog(state / CATALOG_OF_INDEX, engines.encoder, pages, SEED)
        with indexed(root, state, engines.encoder, say) as vault:
            asking = Asking(vault, engines.models)
            for text in generator.queries(WARM_UP, stream="warm-up"):
                asking.explicit(text, "quality")
            queries = _queries(generator, asked)
            say(f"timing {sum(map(len, queries.values()))} recalls over {pages} pages")
            return _measured(asking, queries, *vault.store.catalog.counts())


def _write(generator: VaultGenerator, root: Path, written: Path, say: Say) -> None:
    """The vault's pages, unless they are all there."""
    if written.exists():
        return
    say(f"writing a vault of {generator.pages} pages")
    shutil.rmtree(root, ignore_errors=True)  # what an interrupted run has left
    write_pages(generator, init_vault(root, "generated", "personal") / ".llm-wiki" / "wiki")
    written.touch()


def _queries(generator: VaultGenerator, asked: Sequence[str]) -> dict[str, list[str]]:
    """What each run asks: words, titles, and its part of what people would ask."""
    found = {}
    for place, run in enumerate(RUNS):
        titles = [generator.page((place + len(RUNS) * n) % generator.pages).title for n in range(TITLES)]
        found[run] = [*generator.queries(WORDS, stream=run), *titles, *asked[place :: len(RUNS)]]
    return found


def _measured(asking: Asking, queries: Mapping[str, Sequence[str]], pages: int, chunks: int) -> Latency:
    lexical = [asking.explicit(text, "lexical") for text in queries["lexical"]]
    hybrid = [asking.explicit(text, "hybrid") for text in queries["hybrid"]]
    adaptive = [asking.explicit(text, "adaptive") for text in queries["adaptive"]]
    quality = [asking.explicit(text, "quality") for text in queries["quality"]]
    automatic = [asking.automatic(text).elapsed_ms for text in queries["automatic"]]
    certain = [each.elapsed_ms for each in adaptive if each.mode_used != "quality"]
    escalated = [each.elapsed_ms for each in adaptive if each.mode_used == "quality"]
    reranked = [each.elapsed_ms for each in quality if each.mode_used == "quality"]
    return Latency(
        pages=pages,
        chunks=chunks,
        queries=sum(map(len, queries.values())),
        lexical_p50_ms=percentile([each.elapsed_ms for each in lexical], 50),
        hybrid_p50_ms=percentile([each.elapsed_ms for each in hybrid], 50),
        certain_p50_ms=_of(certain, 50),
        certain_p95_ms=_of(certain, 95),
        escalated_p50_ms=_of(escalated, 50),
        escalated_p95_ms=_of(escalated, 95),
        escalated_share=len(escalated) / len(adaptive),
        quality_p50_ms=_of(reranked, 50),
        quality_p95_ms=_of(reranked, 95),
        automatic_p95_ms=percentile(automatic, 95),
        automatic_longest_ms=max(automatic),
    )


def _of(values: Sequence[float], percent: float) -> float | None:
    return percentile(values, percent) if values else None
