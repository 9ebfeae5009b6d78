"""Both clients of the library against one real daemon: what the one answers, the other does, over another framing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from builders import HANG_GUARD_SECONDS, base_notes, numbered_note, until, write
from daemon_process import DaemonProcess
from wikid_client import (
    AsyncClient,
    Client,
    DaemonFailed,
    DaemonNotRunning,
    PageId,
    Progress,
    Recall,
    RequestRefused,
)

T = TypeVar("T")


class Asynchronous:
    """An `AsyncClient` in an event loop of its own, with the manners of the blocking one."""

    def __init__(self, endpoint: Path, *, start: bool = False) -> None:
        self._runner = asyncio.Runner()
        self.client = self.run(self._make(endpoint, start))

    async def _make(self, endpoint: Path, start: bool) -> AsyncClient:
        return AsyncClient(endpoint=endpoint, start=start, name="wikid-tests", session="clients")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(self._guarded(work))

    async def _guarded(self, work: Coroutine[Any, Any, T]) -> T:
        async with asyncio.timeout(HANG_GUARD_SECONDS):
            return await work

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.run(getattr(self.client, name)(*args, **kwargs))

    def close(self) -> None:
        self.run(self.client.aclose())
        self._runner.close()


class World:
    """The module's daemon, a folder of notes in it, and a client of either kind."""

    def __init__(self, daemon: DaemonProcess, home: Path) -> None:
        self.daemon = daemon
        self.notes = home / "notes"
        self.diary = home / "diary"
        base_notes(self.notes, 4)
        daemon.add(self.notes, "notes")
        self.diary.mkdir()
        daemon.client.vault_init(str(self.diary), topic="A diary", name="diary")
        daemon.client.sync(vault="diary")
        self.blocking = daemon.connect()
        self.waiting = Asynchronous(daemon.endpoint)

    def client(self, kind: str) -> Any:
        return self.blocking if kind == "blocking" else self.waiting

    def close(self) -> None:
        self.blocking.close()
        self.waiting.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("clients")
    with DaemonProcess(home / "home") as daemon:
        found = World(daemon, home)
        yield found
        found.close()


@pytest.fixture(params=["blocking", "waiting"])
def client(world: World, request: pytest.FixtureRequest) -> Any:
    """Either client; every method is called as that of the blocking one."""
    return world.client(request.param)


def ids(answer: Recall) -> list[PageId]:
    """The page ids of an answer, whatever their place in a bundle."""
    found = [(*((bundle.card,) if bundle.card else ()), *bundle.evidence) for bundle in answer.bundles]
    return [item.page_id for items in found for item in items]


def test_both_clients_get_the_same_answer(world: World) -> None:
    one, other = (
        world.client(kind).recall("tok02zebra", vault="notes", mode="lexical", session="clients")
        for kind in ("blocking", "waiting")
    )
    assert ids(one) == ["n02"]
    same = {"recall_id": "", "elapsed_ms": 0.0, "marker": ""}
    assert replace(one, **same) == replace(other, **same)
    assert one.marker == other.marker


def test_what_was_saved_before_a_sync_is_found_after_it(world: World, client: Any) -> None:
    number = 50 + len(list(world.notes.iterdir()))
    write(world.notes, f"n{number}.md", numbered_note(number))
    client.sync(vault="notes")
    assert ids(client.recall(f"tok{number}zebra", vault="notes", mode="lexical")) == [f"n{number}"]


def test_a_write_makes_a_page_that_either_client_reads(world: World, client: Any) -> None:
    kind = type(client).__name__
    made = client.observe(f"Seen by {kind}", content="The ferry leaves at nine.", vault="diary")
    client.sync(vault="diary")
    for each in (world.blocking, world.waiting):
        page = each.page_get(made.page_id, vault_id="diary")
        assert f"Seen by {kind}" in page.title
        assert "The ferry leaves at nine." in page.text


def test_a_write_into_a_plain_folder_is_refused(client: Any) -> None:
    with pytest.raises(RequestRefused) as refused:
        client.observe("Seen", content="Something.", vault="notes")
    assert refused.value.kind == "read_only"


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        ("recall_query_too_long", lambda client: client.recall("x" * 2_001, vault="notes")),
        ("vault_not_found", lambda client: client.recall("q", vault="nowhere")),
        ("page_not_found", lambda client: client.page_get("nothing", vault_id="notes")),
        ("invalid_params", lambda client: client.recall("q", vault="notes", mode="psychic")),
        ("not_shown", lambda client: client.feedback_judge("n01", judgment="relevant", session="nobody")),
    ],
)
def test_refusals_have_their_kind(kind: str, call: Callable[[Any], object], client: Any) -> None:
    with pytest.raises(RequestRefused) as refused:
        call(client)
    assert refused.value.kind == kind


def test_progress_is_told(client: Any) -> None:
    steps: list[Progress] = []
    assert client.reindex(vault="notes", components=["lexical"], force=True, progress=steps.append).vaults
    assert steps
    assert all(isinstance(each, Progress) for each in steps)


def test_a_daemon_that_does_not_answer_ends_the_call_and_not_the_client(world: World, client: Any) -> None:
    client.ping()
    with world.daemon.paused(), pytest.raises(DaemonFailed, match="in time"):
        client.status(timeout=0.2)
    assert client.ping().pid == world.daemon.pid


def test_many_calls_at_once_over_one_connection(world: World) -> None:
    async def ask(client: AsyncClient) -> list[Recall]:
        asked = (client.recall(f"tok{1 + i % 4:02}zebra", vault="notes", mode="lexical") for i in range(80))
        return await asyncio.gather(*asked)

    answers = world.waiting.run(ask(world.waiting.client))
    assert [ids(each) for each in answers] == [[f"n{1 + i % 4:02}"] for i in range(80)]


def test_a_call_that_is_cancelled_ends_in_the_daemon_and_the_others_go_on(world: World) -> None:
    async def scenario(client: AsyncClient) -> None:
        before = client.server
        begun = asyncio.Event()
        unwanted = asyncio.create_task(
            client.reindex(vault="notes", components=["lexical"], force=True, progress=lambda _: begun.set())
        )
        await begun.wait()
        wanted = asyncio.create_task(client.recall("tok01zebra", vault="notes", mode="lexical"))
        unwanted.cancel()
        with pytest.raises(asyncio.CancelledError):
            await unwanted
        assert ids(await wanted) == ["n01"]
        assert client.server is before  # over the same connection

    world.waiting.run(scenario(world.waiting.client))
    assert world.waiting.reindex(vault="notes", components=["lexical"]).vaults


def test_clients_outlive_a_crash_of_the_daemon_and_a_subscription_misses_nothing(world: World) -> None:
    world.blocking.ping()
    vault_id = world.daemon.status("notes").vault.vault_id

    async def until_told(client: AsyncClient, restart: Callable[[], None]) -> None:
        async with client.subscribe(vaults=["notes"]) as changes:
            await asyncio.to_thread(restart)
            async for _ in changes:
                if ids(await client.recall("tok70zebra", vault="notes", mode="lexical")) == ["n70"]:
                    return

    def restart() -> None:
        world.daemon.kill()
        write(world.notes, "n70.md", numbered_note(70))
        world.daemon.start()

    with world.blocking.subscribe(vaults=["notes"], kinds=["index/changed"]) as changes:
        world.waiting.run(until_told(world.waiting.client, restart))
        newest = world.daemon.status("notes").generation
        while changes.generations[vault_id] < newest:
            assert changes.next(HANG_GUARD_SECONDS) is not None
    assert ids(world.blocking.recall("tok70zebra", vault="notes", mode="lexical")) == ["n70"]
    assert world.blocking.ping().pid == world.daemon.pid


def daemons_at(endpoint: Path) -> set[int]:
    """The pids of the daemons that were started for `endpoint`, by their environment."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            command, environ = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue  # no process, one that has ended, or another user's
        if b"wikid_daemon" in command and os.fsencode(f"WIKID_SOCKET={endpoint}") in environ.split(b"\0"):
            found.add(int(entry.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_many_clients_of_either_kind_at_once_start_exactly_one_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = DaemonProcess(tmp_path / "home")  # of which only the environment is used
    for name, value in process.env.items():
        monkeypatch.setenv(name, value)

    def ask(_: int) -> set[int]:
        with Client(endpoint=process.endpoint) as client:
            return {client.ping().pid}

    def ask_together(_: int) -> set[int]:
        async def scenario() -> set[int]:
            async with AsyncClient(endpoint=process.endpoint) as client:
                return {each.pid for each in await asyncio.gather(*(client.ping() for _ in range(3)))}

        return asyncio.run(scenario())

    with ThreadPoolExecutor(6) as pool:
        askers = [pool.submit(work, i) for i in range(3) for work in (ask, ask_together)]
        [pid] = set().union(*(each.result() for each in askers))
    # those who were started too and come late would take over from one that has ended
    until(lambda: daemons_at(process.endpoint) == {pid}, "one daemon being left")
    with Client(endpoint=process.endpoint, start=False) as client:
        client.shutdown()
    until(lambda: not daemons_at(process.endpoint), "the daemon's end")
    with pytest.raises(DaemonNotRunning):
        process.client.ping()
    process.discard()
