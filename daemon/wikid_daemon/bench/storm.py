"""What a caller feels while files change in a storm: the same calls and saves in quiet, and during each storm.

Every phase has one caller that asks a hybrid question at a fixed pace and one writer that saves a small note now and
then, so that a phase differs from the quiet one by its storm alone. Vectors are stand-ins (see `child.fill_vectors`),
those made during a storm are real.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from wikid_client.client import Client
from wikid_daemon.bench import serving, speed
from wikid_daemon.bench.report import Figure, rounded
from wikid_daemon.bench.sandbox import BenchmarkFailed, PrivateDaemon, daemon, sandbox
from wikid_daemon.bench.serving import percentile
from wikid_daemon.bench.speed import MEGABYTE, Ground, Say
from wikid_protocol.errors import WikidError

PAGES: Final = 5_000
CALL_SECONDS: Final = 0.05  # between the starts of two calls
SAVE_SECONDS: Final = 1.0
POLL_SECONDS: Final = 0.02  # until a save is looked for again, seldom enough to be no storm itself
MEMORY_SECONDS: Final = 0.05
QUIET_SECONDS: Final = 20.0
CALM_SECONDS: Final = 6.0  # after a storm, until memory is read again
APPEND_SECONDS: Final = 0.05
APPENDS: Final = 400
LOG_LINES: Final = 800  # that the log has before the storm, about 64 KiB
CHECKOUT: Final = 4_000
EDITED: Final = 10  # of so many files of a checkout one has another text; the others have another date
LARGE_BYTES: Final = 4 * 1024 * 1024
EMBED_SECONDS: Final = 15.0  # of embedding that belong to a storm
FRESH_SECONDS: Final = 300.0  # until a storm is given up
SYNC_MS: Final = 300_000
RATIO: Final = 2.0
CORES: Final = 0.5
MEMORY: Final = 1.1


@dataclass(frozen=True, slots=True)
class Phase:
    """What was seen in one phase, in the units that the names end with.

    `cores` is the daemon's processor time a second; memory is its own, without mapped files. `fresh_s` counts from the
    storm's last change, of a checkout from its first, until that is searchable. `stale` answers said that something was
    still to come; `degraded` ones were not hybrid.
    """

    phase: str
    seconds: float
    recalls: int
    p50_ms: float
    p95_ms: float
    p95_ratio: float
    cores: float | None
    memory_before_mb: float | None
    memory_peak_mb: float | None
    memory_after_mb: float | None
    save_p50_ms: float
    save_max_ms: float
    fresh_s: float | None
    stale: int
    degraded: int
    errors: int

    def to_json(self) -> dict[str, Any]:
        return {name: rounded(value) for name, value in asdict(self).items()}


@dataclass(slots=True)
class _Seen:
    """Filled by the threads of one phase, each its own fields."""

    calls_ms: list[float] = field(default_factory=list)
    saves_ms: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    stale: int = 0
    degraded: int = 0
    errors: int = 0


def measure(pages: int, say: Say) -> list[Phase]:
    """The quiet phase, then each storm. Takes about five minutes on two cores. BenchmarkFailed."""
    model = speed.has_model(say)
    with sandbox() as place:
        ground = speed.generated(place, "vault", pages, say)
        say("indexing words")
        ground.run("index_wikid")
        if model:
            say("filling the catalog with vectors")
            ground.run("fill_vectors", pages=pages, seed=speed.SEED)
        with daemon(place) as running, running.client() as client:
            client.vault_add(str(ground.root), name="bench")
        with speed.ready_daemon(ground, model=model) as running, running.client() as client:
            return _Storms(ground, running, client, say, model=model).phases()


def figures(phases: list[Phase]) -> list[Figure]:
    """The phases beside their targets; the first one is the quiet one."""
    quiet, *storms = phases
    found = [Figure(f"recall p95 during {each.phase}, of quiet p95", each.p95_ratio, "×", RATIO) for each in storms]
    appended = storms[0]
    if appended.cores is not None and quiet.cores is not None:
        beyond = appended.cores - quiet.cores
        found.append(Figure(f"processor during {appended.phase}, beyond quiet", beyond, "cores", CORES))
    for each in storms:
        if each.memory_before_mb is not None and each.memory_after_mb is not None:
            grown = each.memory_after_mb / each.memory_before_mb
            found.append(Figure(f"memory after {each.phase}, of before", grown, "×", MEMORY))
    return found


class _Storms:
    """The storms over one vault and its running daemon."""

    def __init__(self, ground: Ground, running: PrivateDaemon, client: Client, say: Say, *, model: bool) -> None:
        self._ground = ground
        self._running = running
        self._client = client
        self._say = say
        self._mode: serving.Mode = "hybrid" if model else "lexical"
        self._quiet_p95: float | None = None
        self._numbers = itertools.count()

    def phases(self) -> list[Phase]:
        self._warm_up()
        return [
            self._phase("quiet", lambda: time.sleep(QUIET_SECONDS)),
            self._phase("appended log", self._append),
            self._phase("checkout", lambda: self._check_out("other")),
            self._phase("checkout back", lambda: self._check_out("main")),
            self._phase("4 MiB page", self._save_large),
        ]

    def _warm_up(self) -> None:
        """Ask, and index: the daemon has not yet, and its Java heap grows once to what that needs."""
        self._rewrite("main", CHECKOUT // 2)
        self._sync()
        queries = self._ground.generator.queries(speed.WARM_UP, stream="warm-up")
        serving.recall_times(self._running, self._ground.root, self._mode, queries, queries)

    # -- the storms ----------------------------------------------------------------------------------------------------

    def _append(self) -> float:
        """A page that a program writes a line to, twenty times a second."""
        path = self._ground.pages_root / "concepts" / "storm-log.md"
        words = itertools.cycle(self._ground.generator.queries(speed.RECALLS, stream="log"))
        lines = [f"- 2026-01-01 line {number:05d} {next(words)}: {next(words)}\n" for number in range(LOG_LINES)]
        path.write_text("---\ntype: concept\ntitle: Storm log\n---\n\n# Storm log\n\n" + "".join(lines), "utf-8")
        next_at = time.perf_counter()
        for number in range(APPENDS):
            with path.open("a", encoding="utf-8") as log:
                log.write(f"- 2026-01-02 line quillappend{number:05d} {next(words)}: {next(words)}\n")
            next_at += APPEND_SECONDS
            time.sleep(max(next_at - time.perf_counter(), 0.0))
        return self._until_found(f"quillappend{APPENDS - 1:05d}", "storm-log")

    def _check_out(self, branch: str) -> float:
        """A branch switch, then some embedding."""
        started = self._rewrite(branch, CHECKOUT)
        self._sync()
        fresh = time.perf_counter() - started
        self._embed_for_a_while()
        return fresh

    def _rewrite(self, branch: str, count: int) -> float:
        """As git does it: every file is taken away and made anew. When that began."""
        pages = list[tuple[Path, bytes]]()
        for number, page in zip(range(count), self._ground.generator.all(), strict=False):
            text = page.text.replace("\nupdated: ", f"\nbranch: {branch}\nupdated: ", 1)
            if number % EDITED == 0:
                text += f"\nThe branch {branch} says quillbranch{number:05d} of it.\n"
            pages.append((self._ground.pages_root / page.path, text.encode()))
        started = time.perf_counter()
        for path, data in pages:
            path.unlink()
            path.write_bytes(data)
        return started

    def _sync(self) -> None:
        self._client.sync(cwd=str(self._ground.root), timeout_ms=SYNC_MS)

    def _save_large(self) -> float:
        """A page as large as one may be, with text that has no vector yet; it goes again in the end."""
        path = self._ground.pages_root / "sources" / "storm-export.md"
        bodies = (page.text.split("---\n", 2)[2] for page in self._ground.generator.all())
        parts, size = ["---\ntype: source\ntitle: Storm export\n---\n\n# Storm export\n\nquillexport\n"], 1_000
        for body in itertools.cycle(bodies):
            size += len(body.encode())
            if size > LARGE_BYTES:
                break
            parts.append(body)
        path.write_text("".join(parts), "utf-8", newline="\n")
        fresh = self._until_found("quillexport", "storm-export")
        self._embed_for_a_while()
        path.unlink()
        self._sync()
        return fresh

    def _embed_for_a_while(self) -> None:
        until = time.perf_counter() + EMBED_SECONDS
        while time.perf_counter() < until and any(each.embedded < each.chunks for each in self._client.status().vaults):
            time.sleep(0.5)

    def _until_found(self, word: str, name: str) -> float:
        started = time.perf_counter()
        serving.await_found(
            self._client, word, name, self._ground.root, "lexical", seconds=FRESH_SECONDS, poll=POLL_SECONDS
        )
        return time.perf_counter() - started

    # -- what is seen meanwhile ----------------------------------------------------------------------------------------

    def _phase(self, name: str, storm: Callable[[], float | None]) -> Phase:
        self._say(name)
        before = self._memory_mb()
        with self._watched() as seen:
            started, used = time.perf_counter(), self._running.cpu_seconds()
            fresh = storm()
            seconds, used_after = time.perf_counter() - started, self._running.cpu_seconds()
        time.sleep(CALM_SECONDS)
        p95 = percentile(seen.calls_ms, 95)
        self._quiet_p95 = p95 if self._quiet_p95 is None else self._quiet_p95
        return Phase(
            phase=name,
            seconds=seconds,
            recalls=len(seen.calls_ms),
            p50_ms=percentile(seen.calls_ms, 50),
            p95_ms=p95,
            p95_ratio=p95 / self._quiet_p95,
            cores=None if used is None or used_after is None else (used_after - used) / seconds,
            memory_before_mb=before,
            memory_peak_mb=max(seen.memory_mb, default=None),
            memory_after_mb=self._memory_mb(),
            save_p50_ms=percentile(seen.saves_ms, 50),
            save_max_ms=max(seen.saves_ms),
            fresh_s=fresh,
            stale=seen.stale,
            degraded=seen.degraded,
            errors=seen.errors,
        )

    @contextmanager
    def _watched(self) -> Iterator[_Seen]:
        """Call, save and read memory in the background until the block ends."""
        seen, stop = _Seen(), threading.Event()
        with ThreadPoolExecutor(3) as threads:
            running = [threads.submit(work, seen, stop) for work in (self._call, self._save, self._read_memory)]
            try:
                yield seen
            finally:
                stop.set()
        for each in running:
            each.result()

    def _call(self, seen: _Seen, stop: threading.Event) -> None:
        queries = itertools.cycle(self._ground.generator.queries(speed.RECALLS))
        with self._running.client() as client:
            while not stop.is_set():
                started = time.perf_counter()
                try:
                    answer = client.recall(next(queries), cwd=str(self._ground.root), mode=self._mode)
                except WikidError:
                    seen.errors += 1
                else:
                    seen.calls_ms.append((time.perf_counter() - started) * 1e3)
                    seen.stale += answer.stale
                    seen.degraded += answer.mode_used != self._mode
                stop.wait(started + CALL_SECONDS - time.perf_counter())

    def _save(self, seen: _Seen, stop: threading.Event) -> None:
        folder = self._ground.pages_root / "concepts"
        while not stop.wait(SAVE_SECONDS):
            texts = [f"quillsave{next(self._numbers):05d} during a storm"]
            seen.saves_ms += serving.save_times(
                self._running, self._ground.root, folder, "lexical", texts, seconds=FRESH_SECONDS, poll=POLL_SECONDS
            )

    def _read_memory(self, seen: _Seen, stop: threading.Event) -> None:
        while (now := self._memory_mb()) is not None and not stop.wait(MEMORY_SECONDS):
            seen.memory_mb.append(now)

    def _memory_mb(self) -> float | None:
        """The daemon's own memory, where /proc tells (Linux)."""
        try:
            lines = Path(f"/proc/{self._running.pid}/status").read_text("ascii").splitlines()
        except OSError:
            return None
        for line in lines:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1_024 / MEGABYTE
        raise BenchmarkFailed("the daemon has ended")
