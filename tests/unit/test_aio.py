"""The client for an event loop, against a fake daemon on a real socket."""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, assert_type, get_args, get_origin, get_type_hints

import pytest
from aiohttp import web

from wikid_client import (
    AsyncClient,
    AsyncSubscription,
    Client,
    DaemonFailed,
    DaemonNotRunning,
    IndexChanged,
    IndexCounts,
    Progress,
    RequestRefused,
    VaultId,
    VaultState,
    launch,
)
from wikid_client.testing import FakeDaemon, Held, in_turn, sample_item, sample_recall
from wikid_protocol import records as r
from wikid_protocol.decode import decode
from wikid_protocol.limits import LIMITS
from wikid_protocol.methods import METHODS

NO_CALLS = {"initialize", "subscribe", "unsubscribe"}  # the client makes them by itself, as part of something larger
RENAMED = {"index/reindex": "reindex", "index/sync": "sync", "index/verify": "verify"}
NAMES = {name: RENAMED.get(name, name.replace("/", "_")) for name in METHODS if name not in NO_CALLS}
MODEL = r.ModelRecord(name="m", purpose="embedder", state="ready")
COUNTS = IndexCounts(pages=1, chunks=2, embedded=2, pending=0)
SECONDS = 60.0  # no test takes as long unless it hangs

Scenario = Callable[[AsyncClient, FakeDaemon], Coroutine[Any, Any, None]]


def play(scenario: Scenario, answers: dict[str, object] | None = None, **options: Any) -> FakeDaemon:
    """Run `scenario` with a client of a fake daemon, and return the daemon for what it was called with."""

    async def whole(daemon: FakeDaemon) -> None:
        settings = {"endpoint": daemon.endpoint, "start": False, **options}
        async with asyncio.timeout(SECONDS), AsyncClient(**settings) as client:
            await scenario(client, daemon)

    with FakeDaemon(answers) as daemon:
        asyncio.run(whole(daemon))
    return daemon


async def there(held: Held) -> None:
    assert await asyncio.to_thread(held.arrived.wait, SECONDS)


def changed(generation: int, vault: str = "v", subscription: str = "") -> IndexChanged:
    return IndexChanged(subscription=subscription, vault_id=VaultId(vault), generation=generation, counts=COUNTS)


def state(word: Literal["ready", "removed"], vault: str = "v", subscription: str = "") -> VaultState:
    return VaultState(
        subscription=subscription, vault_id=VaultId(vault), state=word, stale=False, pending=0, watcher="watching"
    )


async def in_a_row(changes: AsyncSubscription, count: int) -> list[IndexChanged | VaultState]:
    return [await anext(changes) for _ in range(count)]


# -- the same methods as the blocking client ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", NAMES)
def test_each_method_is_that_of_the_blocking_client_and_of_the_table(method: str) -> None:
    row, name = METHODS[method], NAMES[method]
    waiting, blocking = getattr(AsyncClient, name), getattr(Client, name)
    assert inspect.iscoroutinefunction(waiting)
    assert inspect.signature(waiting) == inspect.signature(blocking)
    assert waiting.__doc__ == blocking.__doc__
    assert get_type_hints(waiting)["return"] is row.result


def test_neither_client_has_a_method_that_the_other_lacks() -> None:
    def public(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}

    assert public(AsyncClient) - {"aclose", "subscribe"} == public(Client) - {"close", "subscribe"}


def test_both_clients_subscribe_alike() -> None:
    def parameters(kind: type[Client] | type[AsyncClient]) -> list[inspect.Parameter]:
        return list(inspect.signature(kind.subscribe).parameters.values())

    assert parameters(AsyncClient) == parameters(Client)
    hints, wanted = get_type_hints(METHODS["subscribe"].params), {"vaults", "kinds", "since"}
    assert set(hints) == wanted
    assert {each.name for each in parameters(Client)} == {"self", "timeout", *wanted}


def test_type_checkers_see_parameters_and_records() -> None:
    async def scenario(client: AsyncClient, _daemon: FakeDaemon) -> None:
        assert_type(await client.recall("q", max_results=2), r.Recall)
        assert_type(await client.status(), r.StatusReport)
        assert_type(await client.models_build("m", progress=lambda _: None), r.ModelRecord)
        with pytest.raises(TypeError):
            await client.recall("q", wrong=1)  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            await client.recall("q", "w")  # type: ignore[call-arg]

    status = r.StatusReport(
        daemon=r.DaemonStatus(version="0", pid=1, started="", uptime_s=0, endpoint=""), models=(), vaults=()
    )
    play(scenario, {"recall": sample_recall(), "status": status, "models/build": MODEL})


def _any_of(kind: object) -> str:
    """A text that the parameter takes."""
    return str(get_args(kind)[0]) if get_origin(kind) is Literal else "x"


def test_each_method_sends_params_that_the_daemon_can_read() -> None:
    given: dict[str, dict[str, str]] = {}

    async def scenario(client: AsyncClient, _daemon: FakeDaemon) -> None:
        for method, name in NAMES.items():
            row = METHODS[method]
            hints = get_type_hints(row.params)
            given[method] = {
                each.name: _any_of(hints[each.name]) for each in fields(row.params) if each.default is MISSING
            }
            with pytest.raises(RequestRefused) as caught:
                await getattr(client, name)(**given[method])
            assert (caught.value.kind, caught.value.hint, caught.value.exit_code) == ("read_only", "another vault", 1)

    refused = RequestRefused("read_only", "no", hint="another vault")
    daemon = play(scenario, dict.fromkeys(NAMES, refused))
    assert [method for method, _ in daemon.calls] == list(NAMES)
    for method, params in daemon.calls:
        assert decode(METHODS[method].params, params) == METHODS[method].params(**given[method])


# -- calls -------------------------------------------------------------------------------------------------------------


def test_an_answer_is_a_record() -> None:
    answer = sample_recall(r.Bundle(card=sample_item(dates=r.Dates(updated="2026-01-02"))))

    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        assert await client.recall("Größe", types=["concept"], max_results=2) == answer
        assert daemon.calls[0][1]["types"] == ["concept"]
        assert daemon.calls[0][1]["query"] == "Größe"

    play(scenario, {"recall": answer})


def test_the_connection_is_opened_once_and_says_who_calls() -> None:
    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        before = client.server
        await asyncio.gather(*(client.ping() for _ in range(5)))
        assert before is None
        assert client.server is not None
        assert client.server.server.name == "wikid-fake"
        [said] = daemon.clients
        assert said["client"] == {"name": "my-editor", "version": "3.1"}
        assert said["session"] == "turn-1"
        assert said["protocol"] == {"min": 1, "max": 1}
        assert "subscriptions" in said["capabilities"]

    play(scenario, name="my-editor", version="3.1", session="turn-1")


def test_a_daemon_of_another_protocol_refuses_by_kind() -> None:
    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        with pytest.raises(RequestRefused) as caught:
            await client.ping()
        assert caught.value.kind == "protocol_unsupported"
        assert daemon.calls == []

    play(scenario, {"initialize": RequestRefused("protocol_unsupported", "too old")})


def test_calls_do_not_wait_for_each_other() -> None:
    held = Held(sample_recall())

    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        slow = asyncio.create_task(client.recall("q"))
        await there(held)
        assert (await client.ping()).version == "0.0-fake"
        assert not slow.done()
        held.release()
        assert await slow == held.answer
        assert len(daemon.clients) == 1

    play(scenario, {"recall": held})


def test_more_calls_than_the_daemon_takes_at_once_wait_their_turn() -> None:
    guard, at_once, most = threading.Lock(), 0, 0
    full = threading.Event()

    def recall(_: dict[str, Any]) -> r.Recall:
        nonlocal at_once, most
        with guard:
            at_once += 1
            most = max(most, at_once)
            if at_once == LIMITS.calls_in_flight:
                full.set()
        assert full.wait(SECONDS)
        with guard:
            at_once -= 1
        return sample_recall()

    async def scenario(client: AsyncClient, _daemon: FakeDaemon) -> None:
        answers = await asyncio.gather(*(client.recall("q") for _ in range(3 * LIMITS.calls_in_flight)))
        assert len(answers) == 3 * LIMITS.calls_in_flight

    play(scenario, {"recall": recall})
    assert most == LIMITS.calls_in_flight


def test_cancelling_a_call_cancels_it_in_the_daemon_and_no_other() -> None:
    first, second = Held(sample_recall()), Held(MODEL)

    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        await client.ping()  # call 2, after initialize
        unwanted = asyncio.create_task(client.recall("q"))
        await there(first)
        wanted = asyncio.create_task(client.models_build("m"))
        await there(second)
        unwanted.cancel()
        with pytest.raises(asyncio.CancelledError):
            await unwanted
        assert await asyncio.to_thread(daemon.until_called, "$/cancelRequest") == {"id": 3}
        second.release()
        assert await wanted == MODEL

    play(scenario, {"recall": first, "models/build": second})


def test_a_call_whose_time_is_up_is_cancelled_and_the_connection_lives_on() -> None:
    held = Held(sample_recall())

    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        with pytest.raises(DaemonFailed, match="in time"):
            await client.recall("q", timeout=0.05)
        assert await asyncio.to_thread(daemon.until_called, "$/cancelRequest") == {"id": 2}
        assert await client.ping()
        assert len(daemon.clients) == 1

    play(scenario, {"recall": held})


def test_the_client_s_own_timeout_holds_where_a_call_names_none() -> None:
    async def scenario(client: AsyncClient, _daemon: FakeDaemon) -> None:
        with pytest.raises(DaemonFailed, match="in time"):
            await client.recall("q")
        with pytest.raises(DaemonFailed, match="in time"):
            await client.reindex(timeout=0)

    play(scenario, {"recall": Held(sample_recall()), "index/reindex": Held(None)}, timeout=0.05)


def test_a_time_limit_of_the_caller_stays_the_caller_s() -> None:
    async def scenario(client: AsyncClient, _daemon: FakeDaemon) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.recall("q")

    play(scenario, {"recall": Held(sample_recall())})


def _build(params: dict[str, Any]) -> Generator[Progress, None, r.ModelRecord]:
    yield Progress("begin", f"building {params['name']}", 0)
    yield Progress("report", "still at it")
    yield Progress("end", "built", 100)
    return MODEL


def _fail(_: Progress) -> None:
    raise ZeroDivisionError


def test_progress_reaches_the_callable_of_its_own_call() -> None:
    async def scenario(client: AsyncClient, _daemon: FakeDaemon) -> None:
        one: list[Progress] = []
        other: list[Progress] = []
        answers = await asyncio.gather(
            client.models_build("one", progress=one.append), client.models_build("two", progress=other.append)
        )
        assert tuple(answers) == (MODEL, MODEL)
        assert [(each.kind, each.percentage) for each in one] == [("begin", 0), ("report", None), ("end", 100)]
        assert other[0].message == "building two"

    play(scenario, {"models/build": _build})


def test_a_progress_callable_that_fails_ends_its_call_alone() -> None:
    async def scenario(client: AsyncClient, _daemon: FakeDaemon) -> None:
        with pytest.raises(ZeroDivisionError):
            await client.models_build("m", progress=_fail)
        assert await client.models_build("m") == MODEL

    play(scenario, {"models/build": _build})


# -- restarts and failures ---------------------------------------------------------------------------------------------


def _break(_: dict[str, Any]) -> object:
    raise ConnectionError


def test_every_call_goes_on_after_a_restart_between_calls() -> None:
    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        await client.ping()
        await asyncio.to_thread(daemon.stop)
        daemon.start()
        assert await client.models_build("m") == MODEL
        await asyncio.to_thread(daemon.stop)
        daemon.start()
        assert await client.ping()
        assert len(daemon.clients) == 3

    play(scenario, {"models/build": MODEL})


def test_a_reading_call_in_flight_is_made_once_more() -> None:
    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        assert await client.recall("q") == sample_recall()
        assert len(daemon.calls) == 2

    play(scenario, {"recall": in_turn(_break, sample_recall())})


def test_a_reading_call_is_tried_twice_and_not_for_ever() -> None:
    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        with pytest.raises(DaemonFailed, match="closed the connection"):
            await client.status()
        assert len(daemon.calls) == 2

    play(scenario, {"status": _break})


def test_a_writing_call_that_was_sent_is_never_repeated() -> None:
    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        with pytest.raises(DaemonFailed, match="closed the connection"):
            await client.vault_add("/notes")
        assert await client.ping()
        assert [method for method, _ in daemon.calls] == ["vault/add", "ping"]

    play(scenario, {"vault/add": _break})


def test_closing_ends_the_calls_in_flight_and_the_next_one_connects_anew() -> None:
    held = Held(MODEL)

    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        building = asyncio.create_task(client.models_build("m"))
        await there(held)
        await client.aclose()
        with pytest.raises(DaemonFailed):
            await building
        assert await client.ping()
        assert len(daemon.clients) == 2

    play(scenario, {"models/build": held})


def test_a_client_belongs_to_one_event_loop() -> None:
    async def ask(client: AsyncClient) -> None:
        try:
            await client.ping()
        finally:
            await client.aclose()

    with FakeDaemon() as daemon:
        client = AsyncClient(endpoint=daemon.endpoint, start=False)
        asyncio.run(ask(client))
        with pytest.raises(RuntimeError, match="one event loop"):
            asyncio.run(ask(client))


def test_a_call_may_wait_for_ever() -> None:
    async def scenario(client: AsyncClient, _daemon: FakeDaemon) -> None:
        await client.ping()

    play(scenario, timeout=math.inf)


def test_a_client_belongs_to_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(client: AsyncClient, _daemon: FakeDaemon) -> None:
        await client.ping()
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(RuntimeError, match="after a fork"):
            await client.ping()
        monkeypatch.undo()
        await client.ping()

    play(scenario)


def test_text_that_no_message_can_hold_is_refused_and_sends_nothing() -> None:
    async def scenario(client: AsyncClient, _daemon: FakeDaemon) -> None:
        for path, kind in (("/notes/\udcff", "invalid_params"), ("x" * LIMITS.message_bytes, "message_too_large")):
            with pytest.raises(RequestRefused) as refused:
                await client.vault_add(path)
            assert refused.value.kind == kind
        await client.ping()

    assert [method for method, _ in play(scenario).calls] == ["ping"]


def test_a_reading_call_that_a_leaving_daemon_refuses_is_made_once_more() -> None:
    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        def stop(_: dict[str, Any]) -> object:
            daemon.answers["status"] = RequestRefused("busy", "much to do")
            daemon._unbind()
            daemon.start()
            return RequestRefused("busy", "the daemon is stopping")

        daemon.answers["status"] = stop
        with pytest.raises(RequestRefused, match="much to do"):
            await client.status()
        await client.ping()

    assert [method for method, _ in play(scenario).calls] == ["status", "status", "ping"]


def test_calls_that_a_leaving_daemon_refuses_at_once_all_go_to_the_next_one() -> None:
    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        await client.ping()
        both = threading.Barrier(2)

        def stop(_: dict[str, Any]) -> object:
            if both.wait(SECONDS) == 0:
                daemon.answers["status"] = r.StatusReport(
                    daemon=r.DaemonStatus(version="1", pid=1, started="", uptime_s=3, endpoint="/s")
                )
                daemon._unbind()
                daemon.start()
            both.wait(SECONDS)
            return RequestRefused("busy", "the daemon is stopping")

        daemon.answers["status"] = stop
        assert [each.daemon.version for each in await asyncio.gather(client.status(), client.status())] == ["1", "1"]

    play(scenario)


def test_an_answer_that_fits_no_record_is_the_daemon_s_failure() -> None:
    async def scenario(client: AsyncClient, _daemon: FakeDaemon) -> None:
        with pytest.raises(DaemonFailed, match="pid: expected an integer") as caught:
            await client.ping()
        assert "secret" not in str(caught.value)

    play(scenario, {"ping": {"version": "secret", "pid": "secret"}})


def test_without_a_daemon_the_error_names_the_command_that_starts_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AsyncClient(endpoint=tmp_path / "none.sock", start=False) as client:
            with pytest.raises(DaemonNotRunning, match="wikid start"):
                await client.ping()

    asyncio.run(scenario())


def test_a_file_in_the_way_is_left_alone_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "start_daemon", _never)
    path = tmp_path / "notes.txt"
    path.write_text("mine")

    async def scenario() -> None:
        async with AsyncClient(endpoint=path) as client:
            with pytest.raises(DaemonNotRunning, match="not a socket"):
                await client.ping()

    asyncio.run(scenario())
    assert path.read_text() == "mine"


def test_a_daemon_is_started_where_none_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = FakeDaemon(path=tmp_path / "later.sock")

    def start(_path: Path, connect: Callable[[], socket.socket | None], _deadline: float) -> socket.socket:
        daemon.start()
        found = connect()
        assert found is not None
        return found

    monkeypatch.setattr(launch, "start_daemon", start)

    async def scenario() -> None:
        async with AsyncClient(endpoint=daemon.endpoint) as client:
            await asyncio.gather(*(client.ping() for _ in range(4)))

    asyncio.run(scenario())
    assert len(daemon.clients) == 1
    daemon.stop()


def _never(*_: object) -> object:
    raise AssertionError("a daemon was started")


def test_another_user_s_process_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    uid = os.getuid()

    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        monkeypatch.setattr(os, "getuid", lambda: uid + 1)
        with pytest.raises(DaemonNotRunning, match="another user"):
            await client.ping()
        monkeypatch.undo()
        assert (daemon.calls, daemon.clients) == ([], [])

    play(scenario)


async def _says(socket: web.WebSocketResponse, message: str | bytes) -> None:
    await (socket.send_bytes(message) if isinstance(message, bytes) else socket.send_str(message))


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("not JSON", "does not speak"),
        ("[]", "does not speak"),
        (b"{}", "none of the protocol's"),
        ('{"jsonrpc":"2.0","id":null,"error":{"code":-32007,"message":"128 connections"}}', "128 connections"),
        (None, "HTTP status 404"),
    ],
)
def test_what_is_no_wikid_daemon_is_said_to_be_so(tmp_path: Path, message: str | bytes | None, words: str) -> None:
    async def answer(request: web.Request) -> web.WebSocketResponse:
        if message is None:
            raise web.HTTPNotFound
        response = web.WebSocketResponse()
        await response.prepare(request)
        await response.receive()
        await _says(response, message)
        await response.receive()
        return response

    async def scenario() -> None:
        app = web.Application()
        app.add_routes([web.get("/ws", answer)])
        runner = web.AppRunner(app)
        await runner.setup()
        await web.UnixSite(runner, str(tmp_path / "other.sock")).start()
        async with AsyncClient(endpoint=tmp_path / "other.sock", start=False) as client:
            with pytest.raises(DaemonFailed, match=words):
                await client.ping()
        await runner.cleanup()

    asyncio.run(scenario())


def test_without_aiohttp_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['aiohttp'] = None\n"
        "from wikid_client import Client\n"
        "try: from wikid_client import AsyncClient\n"
        "except ModuleNotFoundError as error: print(error.name, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("aiohttp ")
    assert "wikid-memory[async]" in done.stdout


# -- subscriptions -----------------------------------------------------------------------------------------------------


def test_a_subscription_yields_what_changes_as_records() -> None:
    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        async with client.subscribe(vaults=["notes"]) as changes:
            assert daemon.notify("index/changed", changed(8)) == 1
            assert daemon.notify("vault/state", state("ready")) == 1
            first, second = await in_a_row(changes, 2)
            assert first == changed(8, subscription="subscription-1")
            assert second == state("ready", subscription="subscription-1")
            assert changes.generations == {"v": 8}
        assert daemon.calls[0] == ("subscribe", {"vaults": ["notes"], "kinds": ["index/changed", "vault/state"]})

    play(scenario)


def test_a_slow_reader_is_told_the_newest_of_each_vault() -> None:
    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        async with client.subscribe() as changes:
            for generation in range(1, 6):
                daemon.notify("index/changed", changed(generation))
                daemon.notify("index/changed", changed(generation + 10, "w"))
            await client.ping()  # which is answered after these were sent
            assert changes.generations == {}  # what nobody has read is no place to resume from
            told = await in_a_row(changes, 2)
            assert [(each.vault_id, each.generation) for each in told if isinstance(each, IndexChanged)] == [
                ("v", 5),
                ("w", 15),
            ]
            assert changes.generations == {"v": 5, "w": 15}

    play(scenario)


def test_a_subscription_goes_on_after_a_restart_from_what_it_has_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "start_daemon", _never)

    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        async with client.subscribe(since={"v": 3, "w": 9}) as changes:
            daemon.notify("index/changed", changed(4))
            await in_a_row(changes, 1)
            await asyncio.to_thread(daemon.stop)
            daemon.calls.clear()
            waiting = asyncio.create_task(in_a_row(changes, 1))
            await asyncio.sleep(0)
            daemon.start()
            assert (await asyncio.to_thread(daemon.until_called, "subscribe"))["since"] == {"v": 4, "w": 9}
            while not daemon.notify("index/changed", changed(6)):
                await asyncio.sleep(0.005)
            [told] = await waiting
            assert told.vault_id == "v"
            assert changes.generations == {"v": 6, "w": 9}

    play(scenario, start=True)


def test_the_generations_at_the_start_are_where_a_restart_resumes() -> None:
    begun = r.Subscribed(subscription="s", generations={"v": 7})

    async def scenario(client: AsyncClient, _daemon: FakeDaemon) -> None:
        async with client.subscribe() as changes:
            assert changes.generations == {"v": 7}

    play(scenario, {"subscribe": begun})


def test_closing_a_subscription_ends_its_reader_and_tells_the_daemon() -> None:
    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        changes = client.subscribe()
        told: list[object] = []

        async def read() -> None:
            async for change in changes:
                told.append(change)

        reading = asyncio.create_task(read())
        while not daemon.notify("index/changed", changed(1)):
            await asyncio.sleep(0.005)
        while not told:
            await asyncio.sleep(0.005)
        await changes.aclose()
        await reading
        assert await asyncio.to_thread(daemon.until_called, "unsubscribe") == {"subscription": "subscription-1"}
        assert await client.ping()
        assert daemon.notify("index/changed", changed(2)) == 0
        assert len(told) == 1

    play(scenario)


def test_closing_the_client_ends_its_subscriptions() -> None:
    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        changes = client.subscribe()
        reading = asyncio.create_task(in_a_row(changes, 1))
        await asyncio.to_thread(daemon.until_called, "subscribe")
        await client.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(changes)
        with pytest.raises(StopAsyncIteration):
            await reading
        assert len(daemon.clients) == 1

    play(scenario)


def test_two_subscriptions_over_one_connection_keep_apart() -> None:
    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        async with client.subscribe(kinds=["vault/state"]) as states, client.subscribe() as both:
            assert daemon.notify("index/changed", changed(1)) == 1
            assert daemon.notify("vault/state", state("removed")) == 2
            assert [type(each) for each in await in_a_row(both, 2)] == [IndexChanged, VaultState]
            assert [type(each) for each in await in_a_row(states, 1)] == [VaultState]
            assert len(daemon.clients) == 1

    play(scenario)


def test_a_subscription_that_is_refused_says_why() -> None:
    async def scenario(client: AsyncClient, _daemon: FakeDaemon) -> None:
        with pytest.raises(RequestRefused) as caught:
            async with client.subscribe(vaults=["nowhere"]):
                pass
        assert caught.value.kind == "vault_not_found"
        with pytest.raises(RequestRefused):
            await anext(client.subscribe(vaults=["nowhere"]))

    play(scenario, {"subscribe": RequestRefused("vault_not_found", "no such vault")})


def test_what_a_newer_daemon_tells_besides_is_passed_over() -> None:
    async def scenario(client: AsyncClient, daemon: FakeDaemon) -> None:
        kinds: Any = ["vault/new", "index/changed"]
        async with client.subscribe(kinds=kinds) as changes:
            daemon.notify("vault/new", {"what": "ever"})
            daemon.notify("index/changed", {"no": "such shape"})
            daemon.notify("index/changed", changed(2))
            [told] = await in_a_row(changes, 1)
            assert told == changed(2, subscription="subscription-1")

    play(scenario)
