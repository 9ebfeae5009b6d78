"""What is known of the daemon → OpenMetrics text. It loads prometheus_client, so it is loaded for a scrape alone.

Every value is one that `status` tells, or a plain count of `metrics`. Labels are ids and words of the program's own:
never the name or the path of a vault.
"""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    StateSetMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.utils import floatToGoString

from wikid_daemon.metrics import BUCKETS, Meter
from wikid_protocol.records import ModelRecord, StatusReport, VaultStatus

VAULT_STATES: Final = ("indexing", "ready", "unavailable", "blocked", "failed")
MODEL_STATES: Final = ("absent", "built", "loading", "ready", "failed")


@dataclass(frozen=True, slots=True)
class Live:
    """What is open at this moment, and what the log could not write so far."""

    calls: int
    connections: int
    subscriptions: int
    log_writes_failed: int


def exposition(report: StatusReport, meter: Meter, live: Live, now: datetime) -> tuple[bytes, str]:
    """The text and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families([*_calls(meter, live), *_process(report), *_vaults(report, now), _models(report)]))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text, CONTENT_TYPE_LATEST


class _Families(Collector):
    """Families that are made already, for a registry of their own."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def _gauge(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, value=value)


def _counter(name: str, words: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, words, value=value)


def _calls(meter: Meter, live: Live) -> Iterator[Metric]:
    calls = CounterMetricFamily("wikid_calls", "Calls by method, and how they ended.", labels=["method", "outcome"])
    for (method, outcome), count in sorted(meter.calls.items()):
        calls.add_metric([method, outcome], count)
    yield calls
    spans = HistogramMetricFamily("wikid_call_seconds", "How long calls took that began.", labels=["method"])
    bounds = [*map(floatToGoString, BUCKETS), "+Inf"]
    for method, span in sorted(meter.spans.items()):
        spans.add_metric([method], list(zip(bounds, accumulate(span.counts), strict=True)), span.seconds)
    yield spans
    slow = CounterMetricFamily("wikid_slow_calls", "Calls that were slow for what they are.", labels=["method"])
    for method, count in sorted(meter.slow.items()):
        slow.add_metric([method], count)
    yield slow
    yield _gauge("wikid_calls_in_flight", "Calls that are being answered.", live.calls)
    yield _gauge("wikid_connections", "Open connections.", live.connections)
    yield _gauge("wikid_subscriptions", "Open subscriptions.", live.subscriptions)
    yield _counter("wikid_events_sent", "Notifications that went out.", meter.events_sent)
    yield _counter("wikid_events_dropped", "Notifications that a client had no room for.", meter.events_dropped)
    yield _counter("wikid_log_write_failures", "Lines that the log could not write.", live.log_writes_failed)


def _process(report: StatusReport) -> Iterator[Metric]:
    about = {"version": report.daemon.version, "python": platform.python_version()}
    yield InfoMetricFamily("wikid_build", "What runs.", value=about)
    started = datetime.fromisoformat(report.daemon.started).timestamp()
    yield _gauge("process_start_time_seconds", "When the daemon started, in seconds since 1970.", started)
    yield _counter("process_cpu_seconds", "Processor time, all threads.", time.process_time())
    yield _gauge("process_resident_memory_bytes", "Memory in use.", report.daemon.rss_bytes)
    for name, words, folder in (
        ("process_threads", "Threads, those of Java included.", "task"),
        ("process_open_fds", "Open files and sockets.", "fd"),
    ):
        count = _entries(Path("/proc/self") / folder)
        if count is not None:
            yield _gauge(name, words, count)


def _entries(folder: Path) -> int | None:
    """None on systems that have no such folder."""
    try:
        return len(os.listdir(folder))
    except OSError:
        return None


def _vaults(report: StatusReport, now: datetime) -> Iterator[Metric]:
    known = list(zip(_labels(report.vaults), report.vaults, strict=True))

    def family(name: str, words: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"wikid_vault_{name}", words, labels=["vault_id", *labels])

    states = StateSetMetricFamily("wikid_vault_state", "How a vault is.", labels=["vault_id"])
    for label, vault in known:
        states.add_metric([label], {state: vault.state == state for state in VAULT_STATES})
    yield states
    for name, words, value in _VAULT_NUMBERS:
        numbers = family(name, words)
        for label, vault in known:
            numbers.add_metric([label], value(vault))
        yield numbers
    skipped = family("skipped", "Files that are left out, by reason.", "reason")
    for label, vault in known:
        for reason, count in sorted(vault.skipped.items()):
            skipped.add_metric([label, reason], count)
    yield skipped
    scans = family("scan_age_seconds", "Since the last full scan.")
    canaries = family("canary_age_seconds", "Since the watcher was last proved to work.")
    for label, vault in known:
        for ages, at in ((scans, vault.last_scan), (canaries, vault.last_canary)):
            if at is not None:
                ages.add_metric([label], (now - datetime.fromisoformat(at)).total_seconds())
    yield scans
    yield canaries


_VAULT_NUMBERS: Final[tuple[tuple[str, str, Callable[[VaultStatus], float]], ...]] = (
    ("generation", "The generation of the index that answers.", lambda vault: vault.generation),
    ("pages", "Pages that are served.", lambda vault: vault.pages),
    ("chunks", "Chunks that are served.", lambda vault: vault.chunks),
    ("embedded", "Chunks with a vector.", lambda vault: vault.embedded),
    ("pending", "Pages saved but not searchable yet.", lambda vault: vault.pending),
    ("embedding_pending", "Chunks without a vector.", lambda vault: vault.embedding_pending),
    ("failed", "Pages that could not be read or embedded, as many as status lists.", lambda vault: len(vault.failed)),
    ("findings", "What the pages' own checks found.", lambda vault: vault.findings),
    ("stale", "1 where changes may have gone unnoticed.", lambda vault: vault.stale),
    ("blocked", "1 where the vault is not served.", lambda vault: vault.vault.blocked is not None),
)


def _labels(vaults: Iterable[VaultStatus]) -> Iterator[str]:
    """The vaults' ids; copies of one vault, which share theirs, are numbered, since no two series may be alike."""
    seen = Counter[str]()
    for each in vaults:
        vault_id = each.vault.vault_id
        seen[vault_id] += 1
        yield vault_id if seen[vault_id] == 1 else f"{vault_id}#{seen[vault_id]}"


def _models(report: StatusReport) -> StateSetMetricFamily:
    states = StateSetMetricFamily("wikid_model_state", "How a model is.", labels=["purpose", "model"])
    told: dict[tuple[str, str], ModelRecord] = {(each.purpose, each.name): each for each in report.models}
    for (purpose, name), model in told.items():
        states.add_metric([purpose, name], {s: model.state == s for s in dict.fromkeys((*MODEL_STATES, model.state))})
    return states
