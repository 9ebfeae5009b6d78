"""Subscriptions: what is told, what is coalesced, what a client that does not read comes to know in the end; and how
the blocking client listens."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import HANG_GUARD_SECONDS, until
from wikid_client import Client
from wikid_client.listening import Subscription as ClientSubscription
from wikid_client.testing import FakeDaemon
from wikid_daemon import subscriptions as module
from wikid_daemon.calls import CallContext
from wikid_daemon.subscriptions import Index, Look, Seen, Standing, Subscription, Subscriptions
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused
from wikid_protocol.methods import SubscribeParams, UnsubscribeParams
from wikid_protocol.subscriptions import SUBSCRIPTIONS_A_CONNECTION, IndexChanged

NOTES, DIARY = Path("/v/notes"), Path("/v/diary")
READY = Standing("ready", stale=False, watcher="watching")


def seen(vault_id: str, generation: int | None, standing: Standing = READY) -> Seen:
    index = None if generation is None else Index(generation, pages=generation, chunks=generation, embedded=0)
    return Seen(vault_id, standing, index)


class Listener:
    """A connection that keeps what it is told; while `stalled` it has no room."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self.stalled = False
        self.ends: list[Callable[[], None]] = []
        self._more = asyncio.Event()

    def notify(self, method: str, params: object) -> bool:
        if not self.stalled:
            self.told.append((method, params))
            self._more.set()
        return not self.stalled

    def at_end(self, work: Callable[[], None]) -> None:
        self.ends.append(work)

    def hang_up(self) -> None:
        for work in self.ends:
            work()

    @property
    def generations(self) -> list[tuple[str, int]]:
        return [(each.vault_id, each.generation) for _, each in self.told if isinstance(each, r.IndexChanged)]

    @property
    def states(self) -> list[tuple[str, str]]:
        return [(each.vault_id, each.state) for _, each in self.told if isinstance(each, r.VaultState)]

    async def reached(self, vault_id: str, generation: int) -> None:
        await self.until(lambda: (vault_id, generation) in self.generations)

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._more.clear()
            await self._more.wait()


class World:
    """Two vaults, as their look is told."""

    def __init__(self) -> None:
        self.now: Look = {NOTES: seen("n", 5), DIARY: seen("d", 9)}
        self.looks = 0
        self.broken = False
        self.looked = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.hub = Subscriptions(self.look, self.find)

    def look(self) -> Look:
        self.looks += 1
        self._loop.call_soon_threadsafe(self.looked.set)
        if self.broken:
            raise OSError("the text of a note")
        return dict(self.now)

    def find(self, wanted: str) -> Path:
        try:
            return {"n": NOTES, "notes": NOTES, "d": DIARY}[wanted]
        except KeyError:
            raise RequestRefused("vault_not_found", "no such vault") from None

    def set(self, root: Path, now: Seen) -> None:
        self.now = {**self.now, root: now}
        self.hub.stir()

    async def subscribe(self, to: Listener | None, **params: Any) -> r.Subscribed:
        return await self.hub.subscribe(SubscribeParams(**params), context(to))

    async def another_look(self) -> None:
        before = self.looks
        while self.looks == before:
            self.looked.clear()
            await self.looked.wait()


def context(connection: Listener | None) -> CallContext:
    return CallContext(None, threading.Event(), lambda *_: None, 1, connection)


def scenario(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    """Run a coroutine as a test over a world of its own, guarded against hanging."""

    @functools.wraps(test)
    def run() -> None:
        async def guarded() -> None:
            world = World()
            try:
                await asyncio.wait_for(test(world), HANG_GUARD_SECONDS)
            finally:
                world.hub.close()

        asyncio.run(guarded())

    del run.__wrapped__  # pytest would ask for the coroutine's parameter
    return run


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds without pauses: what is tested is their order, not their pace."""
    monkeypatch.setattr(module, "COALESCE_SECONDS", 0.005)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.02)


@scenario
async def test_the_answer_names_the_generations_and_only_what_is_newer_is_told(world: World) -> None:
    listener = Listener()
    answer = await world.subscribe(listener, kinds=("index/changed",))
    assert answer.generations == {"n": 5, "d": 9}
    await world.another_look()
    await world.another_look()
    assert listener.told == []
    world.set(NOTES, seen("n", 6))
    await listener.until(lambda: bool(listener.told))
    assert listener.generations == [("n", 6)]
    (_, changed) = listener.told[0]
    assert changed.subscription == answer.subscription
    assert changed.counts == r.IndexCounts(pages=6, chunks=6, embedded=0, pending=0)


@scenario
async def test_who_resumes_is_told_at_once_of_all_that_is_at_another_generation(world: World) -> None:
    listener = Listener()
    await world.subscribe(listener, kinds=("index/changed",), since={"n": 4, "d": 9})
    await listener.until(lambda: bool(listener.told))
    await world.another_look()
    assert listener.generations == [("n", 5)]
    stranger = Listener()
    await world.subscribe(stranger, kinds=("index/changed",), since={})
    await stranger.until(lambda: len(stranger.told) == 2)
    assert sorted(stranger.generations) == [("d", 9), ("n", 5)]


@scenario
async def test_an_index_that_is_not_open_yet_is_compared_with_since_once_it_is(world: World) -> None:
    world.now = {NOTES: seen("n", None), DIARY: seen("d", None)}
    listener = Listener()
    answer = await world.subscribe(listener, kinds=("index/changed",), since={"n": 5, "d": 8})
    assert answer.generations == {}
    world.now = {NOTES: seen("n", 5), DIARY: seen("d", 9)}
    world.hub.stir()
    await listener.until(lambda: bool(listener.told))
    await world.another_look()
    assert listener.generations == [("d", 9)]


@scenario
async def test_a_vault_that_is_registered_later_is_told_of_unless_vaults_were_named(world: World) -> None:
    world.now = {NOTES: seen("n", 5)}
    everything, named = Listener(), Listener()
    await world.subscribe(everything, kinds=("index/changed",))
    await world.subscribe(named, vaults=("notes",), kinds=("index/changed",))
    world.set(DIARY, seen("d", 1))
    world.set(NOTES, seen("n", 6))
    await everything.until(lambda: len(everything.generations) == 2)
    await named.until(lambda: bool(named.generations))
    assert sorted(everything.generations) == [("d", 1), ("n", 6)]
    assert named.generations == [("n", 6)]


@scenario
async def test_vectors_alone_are_a_change_too(world: World) -> None:
    listener = Listener()
    await world.subscribe(listener, kinds=("index/changed",))
    index = world.now[NOTES].index
    assert index is not None
    world.set(NOTES, replace(world.now[NOTES], index=replace(index, embedded=3)))
    await listener.until(lambda: bool(listener.told))
    assert listener.told[0][1].counts.embedded == 3


@scenario
async def test_states_are_told_at_the_start_and_when_they_change_and_when_the_vault_goes(world: World) -> None:
    listener = Listener()
    await world.subscribe(listener, kinds=("vault/state",))
    await listener.until(lambda: len(listener.told) == 2)
    assert sorted(listener.states) == [("d", "ready"), ("n", "ready")]
    gone = Standing("unavailable", reason="its folder is gone", watcher="watching")
    world.set(NOTES, seen("n", 5, gone))
    await listener.until(lambda: len(listener.told) == 3)
    assert listener.told[2][1].reason == "its folder is gone"
    world.now = {NOTES: seen("n", 5, gone)}  # no publication tells of this: the next look finds it
    await listener.until(lambda: len(listener.told) == 4)
    await world.another_look()
    await world.another_look()
    assert listener.states[2:] == [("n", "unavailable"), ("d", "removed")]


@scenario
async def test_who_does_not_read_loses_steps_and_gets_the_newest_and_the_others_get_all(world: World) -> None:
    stalled, awake = Listener(), Listener()
    await world.subscribe(stalled, kinds=("index/changed",))
    await world.subscribe(awake, kinds=("index/changed",))
    stalled.stalled = True
    for generation in range(6, 12):
        world.set(NOTES, seen("n", generation))
        await awake.reached("n", generation)
    assert stalled.generations == []
    stalled.stalled = False
    await stalled.until(lambda: bool(stalled.told))
    assert stalled.generations == [("n", 11)]
    assert stalled.told[0][1].dropped >= 6
    assert [generation for _, generation in awake.generations] == [6, 7, 8, 9, 10, 11]


@scenario
async def test_a_burst_is_one_notification_with_the_newest(world: World) -> None:
    listener = Listener()
    await world.subscribe(listener, kinds=("index/changed",))
    await world.another_look()
    for generation in range(6, 300):
        world.set(NOTES, seen("n", generation))
    await listener.until(lambda: ("n", 299) in listener.generations)
    assert len(listener.generations) <= 3


@scenario
async def test_unsubscribing_ends_it_and_only_the_connection_itself_may(world: World) -> None:
    mine, other = Listener(), Listener()
    answer = await world.subscribe(mine, kinds=("index/changed",))
    still = await world.subscribe(mine, kinds=("index/changed",), vaults=("n",))
    with pytest.raises(RequestRefused):
        await world.hub.unsubscribe(UnsubscribeParams(subscription=answer.subscription), context(other))
    await world.hub.unsubscribe(UnsubscribeParams(subscription=answer.subscription), context(mine))
    with pytest.raises(RequestRefused) as refused:
        await world.hub.unsubscribe(UnsubscribeParams(subscription=answer.subscription), context(mine))
    assert refused.value.kind == "invalid_params"
    world.set(NOTES, seen("n", 6))
    await mine.until(lambda: bool(mine.told))
    assert [each.subscription for _, each in mine.told] == [still.subscription]


@scenario
async def test_subscriptions_end_with_their_connection_and_nothing_runs_on(world: World) -> None:
    listener = Listener()
    await world.subscribe(listener)
    await world.subscribe(listener)
    assert world.hub.count == 2
    listener.hang_up()
    assert world.hub.count == 0
    while any(each.get_coro().__name__ == "_tell_all" for each in asyncio.all_tasks()):  # type: ignore[union-attr]
        await asyncio.sleep(0)
    looks = world.looks
    world.set(NOTES, seen("n", 6))
    await asyncio.sleep(0)
    assert world.looks == looks
    await world.subscribe(listener, since={}, kinds=("index/changed",))
    await listener.until(lambda: ("n", 6) in listener.generations)


@scenario
async def test_a_connection_is_asked_about_its_end_once_however_often_it_subscribes(world: World) -> None:
    listener = Listener()
    for _ in range(SUBSCRIPTIONS_A_CONNECTION * 2):
        answer = await world.subscribe(listener)
        await world.hub.unsubscribe(UnsubscribeParams(subscription=answer.subscription), context(listener))
    assert len(listener.ends) == 1
    await world.subscribe(listener)
    listener.hang_up()
    assert world.hub.count == 0


@scenario
async def test_a_connection_has_a_bounded_number_and_a_lone_request_none(world: World) -> None:
    listener = Listener()
    for _ in range(SUBSCRIPTIONS_A_CONNECTION):
        await world.subscribe(listener)
    with pytest.raises(RequestRefused) as refused:
        await world.subscribe(listener)
    assert refused.value.kind == "busy"
    await world.subscribe(Listener())
    with pytest.raises(RequestRefused) as refused:
        await world.subscribe(None)
    assert refused.value.kind == "invalid_request"
    with pytest.raises(RequestRefused) as refused:
        await world.subscribe(Listener(), vaults=("nowhere",))
    assert refused.value.kind == "vault_not_found"


@scenario
async def test_a_look_that_fails_is_one_round_lost(world: World) -> None:
    listener = Listener()
    await world.subscribe(listener, kinds=("index/changed",))
    world.broken = True
    await world.another_look()
    world.broken = False
    world.set(NOTES, seen("n", 6))
    await listener.until(lambda: bool(listener.told))
    assert listener.generations == [("n", 6)]


def test_publishing_harms_no_indexer_before_during_or_after_a_loop() -> None:
    hub = Subscriptions(dict, lambda wanted: Path(wanted))
    hub.stir()

    async def listen() -> None:
        await hub.subscribe(SubscribeParams(), context(Listener()))
        await asyncio.to_thread(hub.stir)

    asyncio.run(listen())
    hub.stir()  # the loop has ended without a word
    hub.close()
    hub.stir()


def test_copies_of_a_vault_are_told_apart_by_their_roots() -> None:
    told: list[object] = []

    class Sink:
        def notify(self, _method: str, params: object) -> bool:
            told.append(params)
            return True

        def at_end(self, work: Callable[[], None]) -> None: ...

    one = Subscription("s1", Sink(), ("index/changed",), None, {"n": 5})
    look = {NOTES: seen("n", 5), Path("/v/copy"): seen("n", 7)}
    one.tell(look)
    one.tell(look)
    assert [each.generation for each in told if isinstance(each, r.IndexChanged)] == [7]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("publish"), st.sampled_from([NOTES, DIARY])),
            st.tuples(st.sampled_from(["stall", "read", "round"]), st.none()),
        ),
        max_size=40,
    ),
    st.dictionaries(st.sampled_from(["n", "d"]), st.integers(4, 10)),
)
def test_whatever_is_dropped_the_last_told_is_the_newest_and_nothing_is_told_twice(
    steps: list[tuple[str, Path | None]], since: dict[str, int]
) -> None:
    listener = Listener()
    subscription = Subscription("s1", listener, ("index/changed", "vault/state"), None, since)
    now = {NOTES: seen("n", 5), DIARY: seen("d", 9)}
    for step, root in (*steps, ("read", None), ("round", None), ("round", None)):
        if root is not None:
            index = now[root].index
            assert index is not None
            now[root] = seen(now[root].vault_id, index.generation + 1)
        elif step == "round":
            subscription.tell(now)
        else:
            listener.stalled = step == "stall"
    for standing in now.values():
        assert standing.index is not None
        generation = standing.index.generation
        told = [each for vault_id, each in listener.generations if vault_id == standing.vault_id]
        assert told == sorted(set(told))
        assert told[-1:] == [generation] or (not told and since.get(standing.vault_id) == generation)
        assert listener.states.count((standing.vault_id, "ready")) == 1


# -- the client's end --------------------------------------------------------------------------------------------------


def changed(generation: int, vault_id: str = "v") -> r.IndexChanged:
    counts = r.IndexCounts(pages=1, chunks=2, embedded=0, pending=0)
    return r.IndexChanged(subscription="", vault_id=r.VaultId(vault_id), generation=generation, counts=counts)


@contextmanager
def listening(daemon: FakeDaemon, **params: Any) -> Iterator[ClientSubscription]:
    client = Client(endpoint=daemon.endpoint, start=False)
    with client.subscribe(**params) as changes:
        yield changes


def test_a_client_reads_changes_as_records_and_keeps_its_place() -> None:
    begun = r.Subscribed(subscription="s1", generations={"v": 3, "w": 1})
    with FakeDaemon({"subscribe": begun}) as daemon, listening(daemon, vaults=["notes"]) as changes:
        assert daemon.calls == [("subscribe", {"vaults": ["notes"], "kinds": ["index/changed", "vault/state"]})]
        assert changes.generations == {"v": 3, "w": 1}
        assert changes.next(0) is None
        daemon.notify("index/changed", changed(4))
        daemon.notify("index/changed", {"vault_id": 7})
        daemon.notify("index/changed", changed(2, "w"))
        told = [next(changes), next(changes)]
        assert [(each.vault_id, each.generation) for each in told if isinstance(each, IndexChanged)] == [
            ("v", 4),
            ("w", 2),
        ]
        assert changes.generations == {"v": 4, "w": 2}


def test_a_client_goes_on_after_a_restart_from_what_it_has_seen() -> None:
    with FakeDaemon() as daemon, listening(daemon, since={"v": 3, "w": 9}) as changes:
        daemon.notify("index/changed", changed(4))
        next(changes)
        daemon.stop()
        assert changes.next(0.05) is None
        daemon.calls.clear()
        daemon.start()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(changes.next, HANG_GUARD_SECONDS)
            assert daemon.until_called("subscribe")["since"] == {"v": 4, "w": 9}
            until(lambda: daemon.notify("index/changed", changed(5)) == 1, "the subscription")
            change = waiting.result(HANG_GUARD_SECONDS)
        assert isinstance(change, IndexChanged)
        assert change.generation == 5


def test_a_client_tries_again_where_that_may_help_and_says_so_where_it_does_not() -> None:
    with FakeDaemon() as daemon, listening(daemon) as changes:
        answers = iter([RequestRefused("busy", "the daemon is stopping"), RequestRefused("vault_not_found", "none")])

        def refuse(_params: dict[str, Any]) -> RequestRefused:
            return next(answers)

        daemon.answers["subscribe"] = refuse
        daemon.drop()
        with pytest.raises(RequestRefused) as refused:
            changes.next(HANG_GUARD_SECONDS)
        assert refused.value.kind == "vault_not_found"
    with FakeDaemon({"subscribe": RequestRefused("vault_not_found", "none")}) as daemon:
        client = Client(endpoint=daemon.endpoint, start=False)
        with pytest.raises(RequestRefused), client.subscribe(vaults=["nowhere"]):
            pass


def test_closing_ends_the_wait_of_another_thread() -> None:
    with FakeDaemon() as daemon, ThreadPoolExecutor(1) as pool:
        changes = Client(endpoint=daemon.endpoint, start=False).subscribe()
        following = pool.submit(list, changes)
        daemon.until_called("subscribe")
        changes.close()
        assert following.result(HANG_GUARD_SECONDS) == []
        assert changes.next() is None


def test_a_client_without_a_socket_cannot_subscribe() -> None:
    class Elsewhere:
        def connect(self, deadline: float) -> None: ...

        def send(self, line: bytes, deadline: float) -> None: ...

        def receive(self, deadline: float) -> bytes: ...  # type: ignore[empty-body]

        def close(self) -> None: ...

    with pytest.raises(TypeError, match="socket of its own"):
        Client(transport=Elsewhere()).subscribe()
