"""Memory over a long run of the embedder: passages of mixed lengths, and a query now and then as a daemon has them.

The first tenth warms up: the arena grows to the longest text, threads come, the allocator finds its size. From then on
the resident memory must stay where it is.
"""

from __future__ import annotations

import itertools
import mmap
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from wikid_daemon.bench import engines, speed
from wikid_daemon.bench.generate import VaultGenerator
from wikid_daemon.bench.report import Figure, rounded
from wikid_daemon.bench.sandbox import BenchmarkFailed
from wikid_daemon.bench.speed import MEGABYTE, Say
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.warm import opened

EMBEDDINGS: Final = 100_000
READINGS: Final = 100  # of memory, evenly over the run
QUERY_EVERY: Final = 10
LONGEST_WORDS: Final = 400  # more than the window of the default model
PAGES: Final = 500  # whose words the texts are made of, over and over
WARM_UP: Final = 0.1  # of the run
GROWTH: Final = 5.0


@dataclass(frozen=True, slots=True)
class Reading:
    """After so many embeddings: resident memory, and texts a second of processor time since the one before."""

    embeddings: int
    resident_mb: float
    per_cpu_second: float


def measure(embeddings: int, say: Say) -> list[Reading]:
    """Embed so many texts with the built model of this user. An hour for 100,000 on one busy core. BenchmarkFailed."""
    try:
        folder = engines.model_folder()
        if folder is None:
            raise BenchmarkFailed("there is no embedding model; build it first: wikid models build")
        embedder = opened(folder)
    except ModelUnusable as problem:
        raise BenchmarkFailed(f"{problem.reason} {problem.hint}".rstrip()) from problem
    every = max(embeddings // READINGS, 1)
    found: list[Reading] = []
    source = texts()  # kept to the end: its words are some megabytes, which would be missed in the last reading
    used = time.process_time()
    for done, _ in enumerate(embedder.passages(itertools.islice(source, embeddings)), start=1):
        if done % QUERY_EVERY == 0:
            embedder.embed_query(f"what is said about {done}")
        if done % every == 0:
            now = time.process_time()
            found.append(Reading(done, _resident_mb(), every / max(now - used, 1e-9)))
            used = now
            last = found[-1]
            say(f"{done} embeddings: {last.resident_mb:.1f} MB, {last.per_cpu_second:.0f} a second of processor time")
    return found


def texts() -> Iterator[str]:
    """Passages without end, from three words to more than a window, short ones as often as long ones on a log scale."""
    generator = VaultGenerator(PAGES, speed.SEED)
    words = list(itertools.chain.from_iterable(page.text.split() for page in generator.all()))
    rng = random.Random(speed.SEED)
    while True:
        length = round(3 * (LONGEST_WORDS / 3) ** rng.random())
        start = rng.randrange(len(words) - length)
        yield " ".join(words[start : start + length])


def figure(readings: list[Reading]) -> Figure:
    """How far the memory strays from what it was after the warm-up. BenchmarkFailed for a run that is too short."""
    settled = readings[int(len(readings) * WARM_UP) :]
    if len(settled) < 2:
        raise BenchmarkFailed("too few embeddings to tell; ask for more")
    start = settled[0].resident_mb
    strayed = max(abs(each.resident_mb - start) for each in settled) / start * 100
    detail: dict[str, Any] = {"start_mb": start, "end_mb": settled[-1].resident_mb}
    return Figure("memory over the soak, from after its warm-up", strayed, "%", GROWTH, detail=detail)


def to_json(readings: list[Reading]) -> list[dict[str, Any]]:
    return [{name: rounded(value) for name, value in asdict(each).items()} for each in readings]


def _resident_mb() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError as problem:
        raise BenchmarkFailed("memory is read from /proc, which this system does not have") from problem
    return pages * mmap.PAGESIZE / MEGABYTE
