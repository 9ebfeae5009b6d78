"""Being told of changes over a connection, and what the daemon tells monitoring and its log of itself."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from builders import HANG_GUARD_SECONDS, base_notes, numbered_note, until, write
from daemon_process import DaemonProcess
from wikid_client import AsyncClient, RequestRefused
from wikid_client.listening import Change, Subscription
from wikid_daemon.vault.event_lock import LockRecord
from wikid_daemon.vault.vault import init_vault
from wikid_protocol.subscriptions import IndexChanged, VaultState

BIG_PAGE_BYTES = 250_000  # more than one answer has of a page
BIG_ANSWERS = (
    10  # more than a connection may leave unread without losing notifications, less than without losing itself
)


class World:
    """The module's daemon, which logs all it can, and its folder of notes."""

    def __init__(self, daemon: DaemonProcess, home: Path) -> None:
        self.daemon = daemon
        self.home = home
        self.root = home / "notes"
        self.vault_id = daemon.add(self.root, "notes").vault_id
        self._notes = 100

    def save(self) -> str:
        """Save a note that is new; its page id."""
        self._notes += 1
        write(self.root, f"n{self._notes}.md", numbered_note(self._notes))
        return f"n{self._notes}"

    def generation(self) -> int:
        return self.daemon.status("notes").generation

    def listen(self, **params: Any) -> Subscription:
        return self.daemon.client.subscribe(**params)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("observed")
    base_notes(home / "notes")
    write(home / "notes", "big.md", "# Big\n\n" + "words of no use\n" * (BIG_PAGE_BYTES // 16))
    with DaemonProcess(home / "home", WIKID_LOG="debug") as daemon:
        yield World(daemon, home)


def first(changes: Subscription, holds: Callable[[Change], bool]) -> Change:
    """The first change of that kind."""
    while True:
        change = changes.next(HANG_GUARD_SECONDS)
        assert change is not None, "no such change came"
        if holds(change):
            return change


def newer_than(generation: int) -> Callable[[Change], bool]:
    return lambda change: isinstance(change, IndexChanged) and change.generation > generation


class Raw:
    """A client of bytes and lines."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(HANG_GUARD_SECONDS)
        self._socket.connect(os.fspath(daemon.endpoint))
        self._lines = self._socket.makefile("rb")
        self.told: list[dict[str, Any]] = []

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._socket.close()

    def send(self, call_id: int, method: str, **params: object) -> None:
        self._socket.sendall(
            orjson.dumps({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}) + b"\n"
        )

    def read(self) -> dict[str, Any] | None:
        """The next message; None when the daemon has hung up."""
        try:
            line = self._lines.readline()
        except ConnectionResetError:
            return None
        return orjson.loads(line) if line else None

    def ask(self, call_id: int, method: str, **params: object) -> dict[str, Any]:
        """The answer; what was told before it is kept."""
        self.send(call_id, method, **params)
        while (message := self.read()) is not None and message.get("id") != call_id:
            self.told.append(message)
        assert message is not None
        return message


# -- subscriptions -----------------------------------------------------------------------------------------------------


def test_a_saved_note_is_told_with_the_generation_that_has_it(world: World) -> None:
    with world.listen(kinds=["index/changed"], vaults=["notes"]) as changes:
        before = changes.generations[world.vault_id]
        page_id = world.save()
        change = first(changes, newer_than(before))
        assert isinstance(change, IndexChanged)
        assert change.vault_id == world.vault_id
        status = world.daemon.status("notes")
        assert change.generation <= status.generation
        world.daemon.until_found(f"tok{page_id[1:]}zebra", page_id)
        assert change.counts.pages <= status.pages


def test_who_comes_back_is_told_at_once_of_what_was_missed(world: World) -> None:
    with world.listen(kinds=["index/changed"]) as changes:
        seen = changes.generations
    world.save()
    world.daemon.client.sync(vault="notes")
    with world.listen(kinds=["index/changed"], since=seen) as changes:
        change = first(changes, newer_than(seen[world.vault_id]))
        assert isinstance(change, IndexChanged)
        assert changes.generations == {**seen, world.vault_id: change.generation}
        up_to_date = changes.generations
    with world.listen(kinds=["index/changed"], since=up_to_date) as changes:
        world.save()
        change = first(changes, lambda each: isinstance(each, IndexChanged))
        assert newer_than(up_to_date[world.vault_id])(change)
    with world.listen(kinds=["index/changed"], since={}) as changes:
        assert first(changes, newer_than(0)).vault_id == world.vault_id


def test_a_subscription_goes_on_after_a_restart(world: World) -> None:
    with world.listen(kinds=["index/changed"]) as changes:
        before = changes.generations[world.vault_id]
        world.daemon.kill()
        world.save()
        world.daemon.start()
        assert isinstance(first(changes, newer_than(before)), IndexChanged)


def test_who_does_not_read_holds_up_nobody(world: World) -> None:
    pages = world.daemon.status("notes").pages
    with Raw(world.daemon) as silent, world.listen(kinds=["index/changed"]) as changes:
        silent.send(1, "subscribe")
        for number in range(300):
            write(world.root, f"storm/s{number:03}.md", f"# Storm {number}\n\nDrop tokstorm{number:03}zebra fell.\n")
        told: list[int] = []
        while True:
            change = first(changes, lambda each: isinstance(each, IndexChanged))
            assert isinstance(change, IndexChanged)
            told.append(change.generation)
            assert world.daemon.found("tok01zebra")[:1] == ["n01"]
            if change.counts.pages == pages + 300:
                break
        assert told == sorted(set(told))
        assert changes.generations[world.vault_id] <= world.generation()
        assert world.daemon.found("tokstorm299zebra") == ["storm/s299"]
    shutil.rmtree(world.root / "storm")
    world.daemon.until_gone("tokstorm299zebra")


def test_what_was_dropped_is_made_up_for_with_the_newest(world: World) -> None:
    """A client that has left a megabyte of answers unread loses notifications. It is thrown out after ten seconds,
    which a busy machine may take for the rest: then it tries again."""

    def stalls_and_reads_on() -> bool:
        world.daemon.client.sync(vault="notes")  # or a change from before would be taken for that of the note below
        with Raw(world.daemon) as lazy, world.listen(kinds=["index/changed"]) as changes:
            lazy.ask(1, "subscribe", kinds=["index/changed"])
            before, read = world.generation(), _pages_read(world)
            for number in range(BIG_ANSWERS):
                lazy.send(2 + number, "page/get", vault_id="notes", page_id="big")
            until(lambda: _pages_read(world) == read + BIG_ANSWERS, "the answers nobody reads")
            world.save()
            seen = first(changes, newer_than(before))
            assert isinstance(seen, IndexChanged)
            answered = 0
            while (message := lazy.read()) is not None:
                answered += "result" in message
                if message.get("method") == "index/changed" and message["params"]["generation"] >= seen.generation:
                    return answered == BIG_ANSWERS and message["params"]["dropped"] > 0
            return False

    until(stalls_and_reads_on, "a notification that was dropped and made up for")


def test_unsubscribing_ends_it(world: World) -> None:
    with Raw(world.daemon) as client, world.listen(kinds=["index/changed"]) as changes:
        subscription = client.ask(1, "subscribe")["result"]["subscription"]
        assert client.ask(2, "unsubscribe", subscription=subscription)["result"] == {"done": True}
        again = client.ask(3, "unsubscribe", subscription=subscription)["error"]
        assert again["data"]["kind"] == "invalid_params"
        client.told.clear()
        world.save()
        first(changes, newer_than(changes.generations[world.vault_id]))
        client.ask(4, "ping")
        assert client.told == []


def test_a_folder_that_goes_away_and_comes_back_is_told(world: World) -> None:
    root = world.home / "away"
    write(root, "one.md", "# One\n\ntokawayzebra\n")
    world.daemon.add(root, "away")
    with world.listen(kinds=["vault/state"], vaults=["away"]) as changes:
        assert first(changes, _is("ready"))
        root.rename(world.home / "gone")
        gone = first(changes, _is("unavailable"))
        assert isinstance(gone, VaultState)
        assert gone.stale
        assert gone.state == world.daemon.status("away").state
        (world.home / "gone").rename(root)
        assert first(changes, _is("ready"))
        world.daemon.client.vault_remove("away")
        assert first(changes, _is("removed"))


def _is(state: str) -> Callable[[Change], bool]:
    return lambda change: isinstance(change, VaultState) and change.state == state


def test_a_subscription_needs_a_connection_that_stays_and_a_vault_that_is_there(world: World) -> None:
    assert "subscriptions" in _initialized(world)["capabilities"]
    refused = _rpc(world, "subscribe")["error"]
    assert refused["data"]["kind"] == "invalid_request"
    with Raw(world.daemon) as client:
        assert client.ask(1, "subscribe", vaults=["nowhere"])["error"]["data"]["kind"] == "vault_not_found"
        assert client.ask(2, "subscribe", kinds=["x"])["error"]["data"]["kind"] == "invalid_params"


def test_a_thread_that_waits_for_changes_may_be_told_to_stop(world: World) -> None:
    changes = world.listen(kinds=["index/changed"])
    ended = threading.Event()

    def follow() -> None:
        for _ in changes:
            pass
        ended.set()

    thread = threading.Thread(target=follow)
    thread.start()
    until(lambda: _metric(world, "wikid_subscriptions") > 0, "the subscription")
    changes.close()
    assert ended.wait(HANG_GUARD_SECONDS)
    thread.join()
    until(lambda: _metric(world, "wikid_subscriptions") == 0, "nobody being subscribed")


def test_a_websocket_is_told_too(world: World) -> None:
    async def listen() -> int:
        client = AsyncClient(endpoint=world.daemon.endpoint, start=False)
        async with asyncio.timeout(HANG_GUARD_SECONDS), client, client.subscribe(kinds=["index/changed"]) as changes:
            before = changes.generations[world.vault_id]
            world.save()
            async for change in changes:
                if isinstance(change, IndexChanged) and change.generation > before:
                    return change.generation - before
        return 0

    assert asyncio.run(listen()) > 0


# -- monitoring --------------------------------------------------------------------------------------------------------


class _UnixHTTP(http.client.HTTPConnection):
    def __init__(self, endpoint: Path) -> None:
        super().__init__("wikid", timeout=HANG_GUARD_SECONDS)
        self._endpoint = endpoint

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(os.fspath(self._endpoint))


def _http(world: World, verb: str, path: str, body: bytes | None = None) -> tuple[int, str, bytes]:
    connection = _UnixHTTP(world.daemon.endpoint)
    try:
        connection.request(verb, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()
    finally:
        connection.close()


def _rpc(world: World, method: str, **params: object) -> dict[str, Any]:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    found: dict[str, Any] = json.loads(_http(world, "POST", "/rpc", orjson.dumps(call))[2])
    return found


def _initialized(world: World) -> dict[str, Any]:
    found: dict[str, Any] = _rpc(world, "initialize")["result"]
    return found


def _samples(world: World) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    status, kind, body = _http(world, "GET", "/metrics")
    assert status == 200
    assert kind.startswith("application/openmetrics-text")
    families = text_string_to_metric_families(body.decode())  # type: ignore[no-untyped-call]
    return {(each.name, tuple(sorted(each.labels.items()))): each.value for found in families for each in found.samples}


def _metric(world: World, name: str) -> float:
    return _samples(world)[name, ()]


def _pages_read(world: World) -> float:
    return _samples(world).get(("wikid_calls_total", (("method", "page/get"), ("outcome", "ok"))), 0.0)


def test_metrics_are_what_status_tells(world: World) -> None:
    world.daemon.client.sync(vault="notes")
    until(lambda: not world.daemon.status("notes").pending, "quiet")
    with pytest.raises(RequestRefused):
        world.daemon.status("nowhere")
    before = world.daemon.client.status()
    found = _samples(world)
    after = world.daemon.client.status()
    for status, later in zip(before.vaults, after.vaults, strict=True):
        mine = (("vault_id", str(status.vault.vault_id)),)
        for name in ("generation", "pages", "chunks", "embedded", "pending", "embedding_pending", "findings", "stale"):
            told = found[f"wikid_vault_{name}", mine]
            assert told in (float(getattr(status, name)), float(getattr(later, name))), name
        assert found["wikid_vault_failed", mine] == len(status.failed)
        assert found["wikid_vault_state", (*mine, ("wikid_vault_state", status.state))] == 1
        assert found["wikid_vault_scan_age_seconds", mine] >= 0
    models = {(each.purpose, each.name): each.state for each in before.models}
    for (purpose, name), state in models.items():
        labels = (("model", name), ("purpose", purpose), ("wikid_model_state", state))
        assert found["wikid_model_state", labels] == 1
    assert found["wikid_calls_total", (("method", "status"), ("outcome", "ok"))] >= 1
    assert found["wikid_calls_total", (("method", "status"), ("outcome", "vault_not_found"))] == 1
    assert found["wikid_connections", ()] >= 1
    assert found["process_resident_memory_bytes", ()] > 1_000_000
    text = _http(world, "GET", "/metrics")[2].decode()
    assert "notes" not in text
    assert str(world.home) not in text


def test_health_is_one_look(world: World) -> None:
    status, _, body = _http(world, "GET", "/health")
    told, report = json.loads(body), world.daemon.client.status()
    assert status == 200
    assert told["status"] == "ok"
    assert (told["pid"], told["version"]) == (report.daemon.pid, report.daemon.version)
    assert told["vaults"] == len(report.vaults)
    assert set(told["models"]) == {"embedder", "reranker"}
    assert {"uptime_s", "stale", "pending"} < set(told)


# -- the log -----------------------------------------------------------------------------------------------------------


def test_a_slow_call_is_told_without_a_word_of_what_it_was_about(world: World) -> None:
    root = init_vault(world.home / "work", "work", "company")
    world.daemon.add(root, "work")
    lock = root / ".llm-wiki" / "meta" / "events.lock"
    held = LockRecord("elsewhere/1", "another-host", 7, "1", "boot", "2026-01-01T00:00:00Z")
    lock.write_bytes(orjson.dumps(asdict(held)))
    with pytest.raises(RequestRefused) as refused:
        world.daemon.client.event_append("decision", details={"text": "tokslowzebra, a private word"}, vault="work")
    lock.unlink()
    assert refused.value.kind == "lock_busy"
    told = [json.loads(line) for line in world.daemon.log_text().splitlines() if line.startswith("{")]
    (slow,) = [each for each in told if each["event"] == "a slow call" and each["method"] == "event/append"]
    assert slow["call"] == refused.value.call != ""
    assert slow["kind"] == "lock_busy"
    assert slow["ms"] > 1_000
    assert set(slow) == {"event", "level", "timestamp", "call", "method", "kind", "ms"}


def test_debug_events_tell_what_was_published_and_nothing_private(world: World) -> None:
    world.save()
    world.daemon.client.sync(vault="notes")
    text = world.daemon.log_text()
    published = [json.loads(line) for line in text.splitlines() if '"published"' in line]
    assert published
    calls = {json.loads(line)["method"] for line in text.splitlines() if '"a call"' in line}
    assert {"index/sync", "vault/add"} <= calls
    assert {each["vault_id"] for each in published} >= {world.vault_id}
    assert "zebra" not in text
    assert str(world.root) not in text
