"""What is counted of calls, the text that monitoring reads, and the log's line on a slow call."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from wikid_daemon import app, log
from wikid_daemon.calls import CallContext
from wikid_daemon.exposition import Live, exposition
from wikid_daemon.metrics import BUCKETS, LONG_SLOW_SECONDS, SLOW_SECONDS, Meter, slow_after
from wikid_daemon.models.resting import AT_REST
from wikid_daemon.monitoring import Monitoring, Openings
from wikid_daemon.transport.session import Session, Switchboard
from wikid_protocol import records as r
from wikid_protocol.endpoint import Folders
from wikid_protocol.errors import RequestRefused
from wikid_protocol.limits import LIMITS
from wikid_protocol.messages import request
from wikid_protocol.methods import METHODS, Method

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
LIVE = Live(calls=2, connections=3, subscriptions=1, log_writes_failed=4)


def vault(vault_id: str = "id-1", **changes: Any) -> r.VaultStatus:
    record = r.VaultRecord(vault_id=r.VaultId(vault_id), name="secret name", path="/home/secret", kind="wiki")
    given: dict[str, Any] = {
        "vault": record,
        "state": "ready",
        "generation": 7,
        "pages": 20,
        "chunks": 30,
        "embedded": 28,
        "embedding_pending": 2,
        "pending": 1,
        "stale": True,
        "failed": (r.PathReason(path="secret.md", reason="not_utf8"),),
        "skipped": {"too_large": 3},
        "last_scan": "2026-07-01T11:59:30.000+00:00",
        "reason": "secret reason",
    }
    return r.VaultStatus(**{**given, **changes})


def report(*vaults: r.VaultStatus, models: tuple[r.ModelRecord, ...] = (), **changes: Any) -> r.StatusReport:
    daemon = r.DaemonStatus(
        version="1.2",
        pid=77,
        started="2026-07-01T11:00:00+00:00",
        uptime_s=3_600.0,
        endpoint="/run/secret",
        rss_bytes=5_000,
    )
    return r.StatusReport(daemon=daemon, vaults=vaults, models=models, **changes)


def model(purpose: Any, state: str, name: str = "m") -> r.ModelRecord:
    return r.ModelRecord(name=name, purpose=purpose, state=state)


def samples(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample by name and labels, read by prometheus_client's own strict parser."""
    families = text_string_to_metric_families(text.decode())  # type: ignore[no-untyped-call]
    return {(each.name, tuple(sorted(each.labels.items()))): each.value for found in families for each in found.samples}


def read(given: r.StatusReport, meter: Meter | None = None) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text, kind = exposition(given, meter or Meter(), LIVE, NOW)
    assert kind.startswith("application/openmetrics-text")
    assert b"secret" not in text
    return samples(text)


# -- counting ----------------------------------------------------------------------------------------------------------


def test_calls_are_counted_by_method_and_outcome_and_their_times_by_method() -> None:
    meter = Meter()
    for seconds in (0.004, 0.2, 700.0):
        meter.ended("recall", "ok", seconds)
    meter.ended("recall", "busy", 0.0)
    meter.refused("unknown", "method_not_found")
    found = read(report(), meter)
    assert found["wikid_calls_total", (("method", "recall"), ("outcome", "ok"))] == 3
    assert found["wikid_calls_total", (("method", "recall"), ("outcome", "busy"))] == 1
    assert found["wikid_calls_total", (("method", "unknown"), ("outcome", "method_not_found"))] == 1
    assert found["wikid_call_seconds_count", (("method", "recall"),)] == 4
    assert found["wikid_call_seconds_sum", (("method", "recall"),)] == pytest.approx(700.204)
    buckets = {dict(labels)["le"]: value for (name, labels), value in found.items() if name.endswith("_bucket")}
    assert (buckets["0.005"], buckets["0.1"], buckets["0.25"], buckets["300.0"], buckets["+Inf"]) == (2, 2, 3, 3, 4)
    assert len(buckets) == len(BUCKETS) + 1
    assert found["wikid_slow_calls_total", (("method", "recall"),)] == 1


def test_a_call_is_slow_for_what_it_is() -> None:
    assert slow_after("recall") == SLOW_SECONDS
    assert {slow_after(each) for each in METHODS if each.startswith(("index/", "models/"))} == {LONG_SLOW_SECONDS}
    meter = Meter()
    assert meter.ended("recall", "ok", SLOW_SECONDS + 0.1)
    assert not meter.ended("recall", "ok", SLOW_SECONDS)
    assert not meter.ended("index/reindex", "ok", LONG_SLOW_SECONDS)
    assert meter.ended("index/reindex", "cancelled", LONG_SLOW_SECONDS + 1)


# -- the text ----------------------------------------------------------------------------------------------------------


def test_a_vault_is_told_as_status_tells_it_and_by_its_id_alone() -> None:
    found = read(report(vault()))
    mine = (("vault_id", "id-1"),)
    told = {name.removeprefix("wikid_vault_"): value for (name, labels), value in found.items() if labels == mine}
    assert told == {
        **{"generation": 7, "pages": 20, "chunks": 30, "embedded": 28, "embedding_pending": 2, "pending": 1},
        **{"failed": 1, "findings": 0, "stale": 1, "blocked": 0, "scan_age_seconds": 30},
    }
    assert found["wikid_vault_skipped", (("reason", "too_large"), ("vault_id", "id-1"))] == 3
    states = {
        dict(labels)["wikid_vault_state"]: value
        for (name, labels), value in found.items()
        if name == "wikid_vault_state"
    }
    assert {state for state, value in states.items() if value} == {"ready"}
    assert len(states) == 5


def test_copies_of_one_vault_are_series_of_their_own() -> None:
    found = read(report(vault(pages=1), vault(pages=2), vault("id-2", pages=3)))
    pages = {dict(labels)["vault_id"]: value for (name, labels), value in found.items() if name == "wikid_vault_pages"}
    assert pages == {"id-1": 1, "id-1#2": 2, "id-2": 3}


def test_the_process_its_build_and_what_is_open() -> None:
    found = read(report(), Meter(events_sent=8, events_dropped=9))
    plain = {name: value for (name, labels), value in found.items() if not labels}
    assert plain["process_resident_memory_bytes"] == 5_000
    assert plain["process_start_time_seconds"] == datetime(2026, 7, 1, 11, tzinfo=UTC).timestamp()
    assert plain["process_cpu_seconds_total"] > 0
    assert (plain["wikid_calls_in_flight"], plain["wikid_connections"], plain["wikid_subscriptions"]) == (2, 3, 1)
    assert (plain["wikid_events_sent_total"], plain["wikid_events_dropped_total"]) == (8, 9)
    assert plain["wikid_log_write_failures_total"] == 4
    (build,) = [dict(labels) for (name, labels) in found if name == "wikid_build_info"]
    assert build["version"] == "1.2"
    if sys.platform == "linux":
        assert plain["process_threads"] >= 1
        assert plain["process_open_fds"] >= 3


def test_models_tell_their_state_known_or_new() -> None:
    found = read(report(models=(model("embedder", "ready", "a"), model("reranker", "resting", "b"))))
    on = {labels for (name, labels), value in found.items() if name == "wikid_model_state" and value}
    assert {(dict(each)["model"], dict(each)["wikid_model_state"]) for each in on} == {("a", "ready"), ("b", "resting")}


def test_nothing_of_prometheus_is_loaded_until_somebody_scrapes() -> None:
    code = "import wikid_daemon.app, sys; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0


# -- health ------------------------------------------------------------------------------------------------------------


def health(given: r.StatusReport, *, draining: bool = False) -> dict[str, Any]:
    async def told() -> r.StatusReport:
        return given

    monitoring = Monitoring(told, Meter(), Openings(lambda: 0, lambda: 0, lambda: 0), lambda: draining)
    return asyncio.run(monitoring.health())


def test_health_is_well_or_not_at_one_look() -> None:
    models = (model("embedder", "built", "other"), model("embedder", "ready"), model("reranker", "absent"))
    assert health(report(vault(), vault("id-2", stale=False, pending=4), models=models)) == {
        "status": "ok",
        "version": "1.2",
        "pid": 77,
        "uptime_s": 3_600.0,
        "vaults": 2,
        "stale": 1,
        "pending": 5,
        "models": {"embedder": "ready", "reranker": "absent"},
    }
    assert health(report(vault(state="indexing")))["status"] == "ok"
    at_rest = dataclasses.replace(model("embedder", "built"), reason=f"{AT_REST}, because nobody used it")
    assert health(report(models=(at_rest,)))["models"] == {"embedder": "resting", "reranker": "absent"}
    assert health(report(vault(), vault(state="unavailable")))["status"] == "degraded"
    assert health(report(models=(model("reranker", "failed"),)))["status"] == "degraded"
    damaged = (r.Diagnostic(kind="registry_damaged", message="x"),)
    assert health(report(diagnostics=damaged))["status"] == "degraded"
    assert health(report(), draining=True)["status"] == "draining"


# -- sessions ----------------------------------------------------------------------------------------------------------


class Pipe:
    """Where a session's lines go. While `stalled`, events have no room."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.stalled = False

    def answer(self, line: bytes) -> None:
        self.lines.append(json.loads(line))

    def event(self, line: bytes) -> bool:
        if not self.stalled:
            self.lines.append(json.loads(line))
        return not self.stalled


class Scripted:
    """A dispatcher that does one thing."""

    def __init__(self, do: Any) -> None:
        self._do = do

    async def call(self, method: Method, params: object, context: CallContext) -> object:
        return await self._do(method, params, context)


def talk(do: Any, *calls: tuple[str, Mapping[str, object]], pipe: Pipe | None = None) -> tuple[Meter, list[Any]]:
    """Make each call over one session and wait for its answer."""
    to = pipe or Pipe()

    async def played() -> Meter:
        board = Switchboard(Scripted(do), lambda _: None, dataclasses.replace(LIMITS, answer_bytes=2_000))
        session = Session(1, board, to)
        for number, (method, params) in enumerate(calls):
            session.receive(request(number, method, params))
            while session.in_flight:
                await asyncio.sleep(0)
        session.cancel_all()
        return board.meter

    return asyncio.run(played()), to.lines


async def answers(_method: Method, params: Any, context: CallContext) -> object:
    if getattr(params, "query", "") == "refuse":
        raise RequestRefused("vault_not_found", "no such vault")
    if getattr(params, "query", "") == "break":
        raise KeyError("the text of a note")
    if getattr(params, "query", "") == "much":
        return {"text": "x" * 3_000}
    if getattr(params, "query", "") == "cancel":
        raise asyncio.CancelledError
    if getattr(params, "query", "") == "tell":
        assert context.connection is not None
        context.connection.notify("index/changed", {"subscription": "s1"})
    return r.Done()


def test_every_end_of_a_call_is_counted_once() -> None:
    queries = ("fine", "refuse", "break", "much", "cancel")
    meter, _ = talk(
        answers,
        *[("recall", {"query": each}) for each in queries],
        ("recall", {}),
        ("no/such", {}),
        ("ping", {}),
    )
    assert dict(meter.calls) == {
        ("recall", "ok"): 1,
        ("recall", "vault_not_found"): 1,
        ("recall", "internal"): 1,
        ("recall", "message_too_large"): 1,
        ("recall", "cancelled"): 1,
        ("recall", "invalid_params"): 1,
        ("unknown", "method_not_found"): 1,
        ("ping", "ok"): 1,
    }
    assert sum(meter.spans["recall"].counts) == 5


def test_an_error_names_the_call_that_the_log_knows(fresh_sink: io.StringIO) -> None:
    _, lines = talk(answers, *[("recall", {"query": each}) for each in ("refuse", "break", "much", "cancel")])
    marks = [each["error"]["data"]["call"] for each in lines]
    assert len(set(marks)) == 4
    assert RequestRefused.from_wire(lines[0]["error"]).call == marks[0]
    logged = [json.loads(line) for line in fresh_sink.getvalue().splitlines()]
    (failed,) = [each for each in logged if each["event"] == "a call failed"]
    assert failed["call"] == marks[1]
    assert marks[1] in lines[1]["error"]["message"]


def test_a_slow_call_is_one_line_without_its_text(
    monkeypatch: pytest.MonkeyPatch, fresh_sink: io.StringIO, tmp_path: Path
) -> None:
    clock = iter(range(0, 1_000, 2))  # each look at the clock finds two more seconds gone
    monkeypatch.setattr("wikid_daemon.transport.session.time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    query = "tokslowzebra of my private life"
    meter, _ = talk(answers, ("recall", {"query": query}), ("recall", {"query": "refuse"}), ("index/sync", {}))
    written = (tmp_path / "wikid.log").read_text()
    assert "zebra" not in written
    slow = [each for each in map(json.loads, written.splitlines()) if each["event"] == "a slow call"]
    assert [(each["method"], each["kind"], each["ms"]) for each in slow] == [
        ("recall", "ok", 2_000),
        ("recall", "vault_not_found", 2_000),
    ]
    assert len({each["call"] for each in slow}) == 2
    assert meter.slow == {"recall": 2, "index/sync": 0}
    assert fresh_sink.getvalue() == written


def test_notifications_are_counted_sent_or_dropped() -> None:
    pipe = Pipe()
    meter, lines = talk(answers, ("recall", {"query": "tell"}), pipe=pipe)
    assert (meter.events_sent, meter.events_dropped) == (1, 0)
    assert {"jsonrpc": "2.0", "method": "index/changed", "params": {"subscription": "s1"}} in lines
    pipe.stalled = True
    meter, _ = talk(answers, ("recall", {"query": "tell"}), pipe=pipe)
    assert (meter.events_sent, meter.events_dropped) == (0, 1)


def test_what_waits_for_the_end_of_a_conversation_is_called_once_or_at_once() -> None:
    ended: list[str] = []
    session = Session(1, Switchboard(Scripted(answers), lambda _: None), Pipe())
    session.at_end(lambda: ended.append("one"))
    session.cancel_all()
    session.cancel_all()
    assert ended == ["one"]
    session.at_end(lambda: ended.append("late"))
    assert ended == ["one", "late"]
    assert not session.notify("index/changed", {})


# -- the log -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh_sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """The log as the daemon sets it up, its file below `tmp_path`, with a copy of each line it writes."""
    copy = io.StringIO()
    written = log.RotatingFile.write

    def both(self: log.RotatingFile, line: bytes) -> None:
        written(self, line)
        copy.write(line.decode())

    monkeypatch.setattr(log.RotatingFile, "write", both)
    log.configure(tmp_path, console=False)
    return copy


@pytest.mark.parametrize(("value", "told"), [("debug", True), (" DEBUG ", True), ("", False), ("info", False)])
def test_debug_events_are_written_where_they_are_asked_for(tmp_path: Path, value: str, told: bool) -> None:
    folders = Folders(config=tmp_path, state=tmp_path, cache=tmp_path, runtime=tmp_path)
    app.configure_log(app.Settings(tmp_path / "s", folders, {"WIKID_LOG": value}), console=False)
    structlog.get_logger("x").debug("published", generation=3)
    structlog.get_logger("x").info("starting")
    events = [json.loads(line)["event"] for line in (tmp_path / "wikid.log").read_text().splitlines()]
    assert events == (["published", "starting"] if told else ["starting"])


def test_the_console_shows_the_same_events_and_may_go_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log.configure(tmp_path, console=True)
    log.CALL.set("mark-1")
    structlog.get_logger().warning("a slow call", method="recall", ms=1_200, query="tokzebra")
    shown = capsys.readouterr().err
    assert all(word in shown for word in ("a slow call", "recall", "1200", "mark-1"))
    assert "tokzebra" not in shown

    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    structlog.get_logger().warning("a slow call", method="status")
    assert [json.loads(line)["method"] for line in (tmp_path / "wikid.log").read_text().splitlines()] == [
        "recall",
        "status",
    ]


def test_lines_that_a_full_disk_swallows_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = log.RotatingFile(tmp_path / "wikid.log")
    before = log.LOST.lines

    def full(_file: int, _line: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    file.write(b"{}\n")
    file.write(b"{}\n")
    monkeypatch.undo()
    file.close()
    assert log.LOST.lines == before + 2
