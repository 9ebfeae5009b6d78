"""The speed benchmark from top to bottom: make the vault, measure each figure, beside the bare engines where they set
the scale. Every figure is from one run on one machine; none is a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from wikid_daemon.bench import child, serving
from wikid_daemon.bench.engines import model_folder
from wikid_daemon.bench.generate import VaultGenerator, write_pages
from wikid_daemon.bench.report import Figure
from wikid_daemon.bench.sandbox import PrivateDaemon, Sandbox, daemon, sandbox
from wikid_daemon.bench.serving import Mode, RecallTimes, percentile
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.vault.vault import init_vault

PAGES: Final = 10_000
EMBED_CHUNKS: Final = 600
SEED: Final = 1
RECALLS: Final = 200
WARM_UP: Final = 200
SAVES: Final = 30
COMMANDS: Final = 20
STARTS: Final = 3
CHUNKS_PER_PAGE: Final = 4.3  # of a generated vault, on the mean
VECTORS: Final = "stand-ins made of word vectors, for timing only"
MEGABYTE: Final = 1_000_000

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ground:
    """A generated vault in the sandbox."""

    place: Sandbox
    root: Path
    generator: VaultGenerator

    @property
    def pages_root(self) -> Path:
        return self.root / ".llm-wiki" / "wiki"

    @property
    def catalog(self) -> Path:
        return self.root / ".llm-wiki" / "meta" / "wikid" / "current" / "catalog.sqlite"

    def run(self, name: str, **given: Any) -> dict[str, Any]:
        """A measurement in a process of its own, told where everything is."""
        places = {
            "vault": str(self.root),
            "state": str(self.place.state),
            "catalog": str(self.catalog),
            "pages_root": str(self.pages_root),
        }
        return child.run(name, self.place.environment, **places, **given)


def measure(pages: int, embed_chunks: int, say: Say) -> tuple[list[Figure], dict[str, Any]]:
    """All figures, and the settings that they were measured with. Takes about five minutes on two cores."""
    model = has_model(say)
    with sandbox() as place:
        ground = generated(place, "vault", pages, say)
        figures = [_indexing(ground, say)]
        if model:
            figures.append(_embedding(generated(place, "small", round(embed_chunks / CHUNKS_PER_PAGE), say), say))
            say("filling the catalog with vectors")
            ground.run("fill_vectors", pages=pages, seed=SEED)
        queries = ground.generator.queries(RECALLS)
        say("asking the engines alone")
        warm_up = ground.generator.queries(WARM_UP, stream="warm-up")
        engines = ground.run("engines", warm_up=warm_up, queries=queries, hybrid=model)
        figures += _serving(ground, queries, engines, say, model=model)
    settings = {"pages": pages, "seed": SEED, "recalls": RECALLS, "vectors": VECTORS if model else None}
    return figures, settings


def has_model(say: Say) -> bool:
    """Whether an embedding model has been built, told where not."""
    try:
        found = model_folder() is not None
    except ModelUnusable as problem:
        say(problem.reason)
        found = False
    if not found:
        say("no embedding model: only words are measured; build one with: wikid models build")
    return found


def generated(place: Sandbox, name: str, pages: int, say: Say) -> Ground:
    """A vault of so many pages, written but not indexed."""
    say(f"writing a vault of {pages} pages")
    root = init_vault(place.root / name, name, "personal")
    ground = Ground(place, root, VaultGenerator(pages, SEED))
    write_pages(ground.generator, ground.pages_root)
    return ground


# -- against the bare engines ------------------------------------------------------------------------------------------


def _indexing(ground: Ground, say: Say) -> Figure:
    say("indexing words, wikid")
    ours = ground.run("index_wikid")
    say("indexing words, bare Lucene")
    bare = ground.run("index_bare", folder=str(ground.place.root / "bare"))
    return _compared("lexical indexing, of the bare loop's rate", 60, ours, {"bare": bare})


def _embedding(ground: Ground, say: Say) -> Figure:
    say("embedding, wikid")
    ours = ground.run("embed_wikid")
    say("embedding, bare ONNX Runtime")
    bare = {
        "bare, wikid's session options": ground.run("embed_bare", defaults=False),
        "bare, default session options": ground.run("embed_bare", defaults=True),
    }
    return _compared("embedding, of the bare loop's rate", 90, ours, bare)


def _compared(name: str, target: float, ours: dict[str, Any], bare: dict[str, dict[str, Any]]) -> Figure:
    """wikid's rate as a share of the fastest bare one: by the wall's clock or by processor time, whichever is worse.

    The two runs follow each other, so another process may slow one of them; processor time hardly minds.
    """
    shares = {
        f"percent_by_{clock}": 100 * _rate(ours, clock) / max(_rate(each, clock) for each in bare.values())
        for clock in ("wall", "cpu")
    }
    detail = {**shares, "wikid": _rates(ours), **{key: _rates(each) for key, each in bare.items()}}
    return Figure(name, min(shares.values()), "%", target, "higher", detail)


def _rate(run: dict[str, Any], clock: str) -> float:
    return float(run["chunks"] / run[clock])


def _rates(run: dict[str, Any]) -> dict[str, Any]:
    found = {
        "chunks": run["chunks"],
        "chunks_per_second": _rate(run, "wall"),
        "chunks_per_cpu_second": _rate(run, "cpu"),
        "wall_seconds": run["wall"],
    }
    if "pages" in run:
        found |= {"pages": run["pages"], "pages_per_second": run["pages"] / run["wall"]}
    return found


# -- the running daemon ------------------------------------------------------------------------------------------------


def _serving(ground: Ground, queries: Sequence[str], engines: dict[str, Any], say: Say, *, model: bool) -> list[Figure]:
    place, root = ground.place, ground.root
    with daemon(place) as running, running.client() as client:
        client.vault_add(str(root), name="bench")
    warm_up = ground.generator.queries(WARM_UP, stream="warm-up")
    figures = _starts(ground, warm_up[0], say)
    with ready_daemon(ground, model=model) as running:
        modes: tuple[Mode, ...] = ("lexical", "hybrid") if model else ("lexical",)
        for mode in modes:
            say(f"{len(queries)} warm recalls, {mode}")
            times = serving.recall_times(running, root, mode, warm_up, queries)
            figures += _recall_figures(mode, times, engines)
        with running.client() as client:
            rss = client.status().daemon.rss_bytes / MEGABYTE
        figures.append(Figure("resident memory, model warm" if model else "resident memory, no model", rss, "MB", 600))
        say(f"{COMMANDS} runs of the command")
        commands = serving.command_times(place, root, queries[:COMMANDS])
        figures.append(Figure("wikid recall, hybrid, whole process, p50", percentile(commands, 50), "ms", 150))
        figures += _saves(ground, running, say, model=model)
    return figures


@contextmanager
def ready_daemon(ground: Ground, *, model: bool) -> Iterator[PrivateDaemon]:
    """A daemon that has indexed everything and, with `model`, serves every vector."""
    with daemon(ground.place) as running:
        with running.client() as client:
            serving.await_ready(client, with_vectors=model)
        yield running


def _starts(ground: Ground, query: str, say: Say) -> list[Figure]:
    pings, recalls = [], []
    for number in range(1, STARTS + 1):
        say(f"start {number} of {STARTS}")
        with daemon(ground.place) as running:
            pings.append(running.answered_ms)
            recalls.append(serving.first_recall(running, ground.root, query))
    return [
        Figure("start to ping, p50", percentile(pings, 50), "ms", 1_000, detail={"worst": max(pings)}),
        Figure(
            "start to first lexical recall, p50", percentile(recalls, 50), "ms", 2_500, detail={"worst": max(recalls)}
        ),
    ]


def _recall_figures(mode: Mode, times: RecallTimes, engines: dict[str, Any]) -> list[Figure]:
    bare_cpu = engines[mode]["cpu_ms"]
    beyond = None if times.daemon_cpu_ms is None else times.daemon_cpu_ms - bare_cpu
    latency, cpu = {"lexical": (5, 3), "hybrid": (25, 4)}[mode]
    return [
        Figure(f"warm recall, {mode}, p50", times.p50_ms, "ms", latency, detail=asdict(times)),
        Figure(
            f"CPU beyond the engines, {mode}",
            beyond,
            "ms",
            cpu,
            detail={"engines": engines[mode], "daemon_cpu_ms": times.daemon_cpu_ms},
        ),
    ]


def _saves(ground: Ground, running: PrivateDaemon, say: Say, *, model: bool) -> list[Figure]:
    words = saves_by_words(ground, running, say)
    figures = [
        Figure("save to searchable by words, p50", percentile(words, 50), "ms", 150),
        Figure("save to searchable by words, p95", percentile(words, 95), "ms", 500),
    ]
    if model:
        folder = ground.pages_root / "concepts"
        say(f"{SAVES} saves, found by vector")
        texts = [
            f"quillmeaning{number:04d} {text}"
            for number, text in enumerate(ground.generator.queries(SAVES, stream="more"))
        ]
        vectors = serving.save_times(running, ground.root, folder, "hybrid", texts)
        detail = {"p50": percentile(vectors, 50)}
        figures.append(Figure("save to searchable by vector, p95", percentile(vectors, 95), "ms", 1_500, detail=detail))
    return figures


def saves_by_words(ground: Ground, running: PrivateDaemon, say: Say) -> list[float]:
    """Milliseconds from a save to a recall that finds it by a word that no other page has."""
    say(f"{SAVES} saves, found by words")
    texts = [
        f"quillmark{number:04d} {text}" for number, text in enumerate(ground.generator.queries(SAVES, stream="saves"))
    ]
    return serving.save_times(running, ground.root, ground.pages_root / "concepts", "lexical", texts)
