"""Waiting for what a worker does, and what becomes of work that nobody waits for any more."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from builders import HANG_GUARD_SECONDS, until
from wikid_daemon import index_calls
from wikid_daemon.calls import CallContext
from wikid_daemon.handlers import LONG_THREADS, Handlers
from wikid_daemon.indexer import Indexer
from wikid_daemon.updater import Cancelled
from wikid_daemon.vault.vault import open_vault
from wikid_daemon.verification import verify
from wikid_daemon.worker import Worker, finished, outcome
from wikid_protocol import methods as m
from wikid_protocol.errors import RequestRefused


class Bench(Worker):
    """Does one task at a time, each when it is told to."""

    def __init__(self) -> None:
        super().__init__("bench")
        self.steps = threading.Semaphore(0)

    def _run(self) -> None:
        self._wait_for_predecessor()
        while self.steps.acquire() and not self._stopping:
            with self._wake:
                task = self._next_task()
            if task is not None:
                task.answer()

    def ask(self, work: Any) -> Future[Any]:
        return self._add(work)

    def refuse(self) -> None:
        self._refuse(Cancelled())


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    made.start()
    yield made
    made.stop()
    made.steps.release()
    made.join(HANG_GUARD_SECONDS)


def later() -> float:
    return time.monotonic() + HANG_GUARD_SECONDS


def test_who_waits_is_given_what_the_work_brings(bench: Bench) -> None:
    asked = bench.ask(lambda: 7)
    bench.steps.release()
    assert outcome(asked, later(), lambda: False) == 7
    asked = bench.ask(lambda: [].pop())
    bench.steps.release()
    with pytest.raises(IndexError):
        outcome(asked, later(), lambda: False)


@pytest.mark.parametrize("cancelled", [True, False])
def test_what_nobody_waits_for_any_more_is_never_begun(bench: Bench, cancelled: bool) -> None:
    done: list[str] = []
    dropped = bench.ask(lambda: done.append("dropped"))
    kept = bench.ask(lambda: done.append("kept"))
    with pytest.raises(Cancelled if cancelled else TimeoutError):
        outcome(dropped, later() if cancelled else time.monotonic(), lambda: cancelled)
    bench.steps.release(2)
    outcome(kept, later(), lambda: False)
    assert done == ["kept"]


def test_refusing_passes_over_who_does_not_wait(bench: Bench) -> None:
    dropped, kept = bench.ask(lambda: 1), bench.ask(lambda: 2)
    dropped.cancel()
    bench.refuse()
    with pytest.raises(Cancelled):
        kept.result(0)


class Busy:
    """An indexer whose thread is busy with something long."""

    def __init__(self) -> None:
        self.vault = SimpleNamespace(name="notes", blocked=None)
        self.begun = 0
        self.timeouts: list[float] = []

    def sync(self, timeout: float, cancelled: Any) -> int:
        self.begun += 1
        self.timeouts.append(timeout)
        return outcome(Future[int](), time.monotonic() + timeout, cancelled)


def context() -> CallContext:
    return CallContext(None, threading.Event(), lambda *_: None, 1)


def handlers(indexer: Any, **plain: Any) -> Handlers:
    applied = [SimpleNamespace(vault=indexer.vault, indexer=indexer, layer="registered")]
    vaults = SimpleNamespace(looked_through=lambda *_, **__: (applied, []))
    nothing = cast(Any, None)
    named = {name.replace("__", "/"): work for name, work in plain.items()}
    embedder = cast(Any, SimpleNamespace(for_recall=lambda: None))
    return Handlers(
        cast(Any, vaults), nothing, embedder, nothing, nothing, nothing, nothing, nothing, named, {}, {}
    )  # fmt: skip


def test_a_sync_that_is_cancelled_frees_its_thread() -> None:
    async def scenario() -> None:
        busy = Busy()
        answering = handlers(busy, vault__lint=lambda _params: "linted")
        sync, lint = m.METHODS["index/sync"], m.METHODS["vault/lint"]
        contexts = [context() for _ in range(LONG_THREADS)]
        asked = [asyncio.create_task(answering.call(sync, m.SyncParams(timeout_ms=3_600_000), c)) for c in contexts]
        await asyncio.to_thread(until, lambda: busy.begun == LONG_THREADS, "the syncs")
        for each, task in zip(contexts, asked, strict=True):
            each.cancelled.set()
            task.cancel()
        async with asyncio.timeout(HANG_GUARD_SECONDS):
            assert await answering.call(lint, m.LintParams(), context()) == "linted"
        answering.close()

    asyncio.run(scenario())


def test_an_indexer_that_is_busy_lets_go_of_who_no_longer_waits(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, name=None, state_home=tmp_path / "state")
    busy = Indexer(vault, "machine", lambda: None, lambda _indexer: None, lambda: None)  # its thread never has a turn
    try:
        with pytest.raises(Cancelled):
            busy.sync(HANG_GUARD_SECONDS * 100, lambda: True)
    finally:
        busy.close()


@pytest.mark.parametrize("call", ["reindex", "verify"])
def test_long_calls_behind_another_let_go_once_they_are_cancelled(tmp_path: Path, call: str) -> None:
    vault = open_vault(tmp_path, name=None, state_home=tmp_path / "state")
    busy = Indexer(vault, "machine", lambda: None, lambda _indexer: None, lambda: None)  # its thread never has a turn
    cancelled, ended = threading.Event(), threading.Event()
    told: dict[str, Any] = {"progress": lambda *_: None, "cancelled": cancelled.is_set}
    what: dict[str, Any] = dict.fromkeys(("everything", "lexical", "vectors", "force"), True)

    def wait() -> None:
        with pytest.raises(Cancelled):
            busy.reindex(**what, **told) if call == "reindex" else verify(busy, **told)
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    cancelled.set()
    assert ended.wait(HANG_GUARD_SECONDS)
    busy.close()


def test_work_that_has_begun_is_waited_for_since_it_uses_what_its_caller_holds(bench: Bench) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        cancelled.wait(HANG_GUARD_SECONDS)
        return "wound up"

    asked = bench.ask(work)
    bench.steps.release()
    assert begun.wait(HANG_GUARD_SECONDS)
    cancelled.set()
    assert finished(asked, cancelled.is_set) == "wound up"


def test_the_time_of_a_sync_runs_while_it_waits_for_its_thread() -> None:
    indexer = Busy()
    applied = cast(Any, SimpleNamespace(vault=indexer.vault, indexer=indexer))
    with pytest.raises(TimeoutError):
        index_calls.sync([applied], [], time.monotonic() - 1, lambda: False)
    assert indexer.timeouts == [0.0]


def test_who_is_cancelled_is_told_so_and_who_was_stopped_may_ask_again() -> None:
    async def scenario() -> None:
        def ended(_params: object, _context: object = None) -> object:
            raise Cancelled

        answering = handlers(Busy(), doctor=ended, page__ensure=ended)
        for given_up, kind in ((True, "cancelled"), (False, "vault_unavailable")):
            for method, params in (("doctor", m.NoParams()), ("page/ensure", m.NoParams())):
                call = context()
                if given_up:
                    call.cancelled.set()
                with pytest.raises(RequestRefused) as refused:
                    await answering.call(m.METHODS[method], params, call)
                assert (refused.value.kind, refused.value.row.retry) == (kind, not given_up)
        answering.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("method", ["index/sync", "index/reindex", "index/verify"])
def test_an_indexer_that_stops_does_not_cancel_its_callers(method: str, tmp_path: Path) -> None:
    vault = open_vault(tmp_path, name=None, state_home=tmp_path / "state")
    stopped = Indexer(vault, "machine", lambda: None, lambda _indexer: None, lambda: None)
    stopped.close()

    async def scenario() -> None:
        answering = handlers(stopped)
        params = {"index/sync": m.SyncParams(), "index/reindex": m.ReindexParams(components=("lexical",))}
        with pytest.raises(RequestRefused) as refused:
            await answering.call(m.METHODS[method], params.get(method, m.VerifyParams()), context())
        assert (refused.value.kind, refused.value.row.retry) == ("vault_unavailable", True)
        answering.close()

    asyncio.run(scenario())


def test_lints_and_rebuilds_leave_the_threads_of_quick_work_alone() -> None:
    async def scenario() -> None:
        go_on = threading.Event()
        begun = threading.Semaphore(0)

        def long(_params: object) -> object:
            begun.release()
            go_on.wait(HANG_GUARD_SECONDS)
            return None

        answering = handlers(
            Busy(), vault__lint=long, vault__rebuild_meta=long, doctor=long, models__list=lambda _params: "listed"
        )
        slow = [("vault/lint", m.LintParams()), ("vault/rebuild_meta", m.RebuildMetaParams()), ("doctor", m.NoParams())]
        asked = [asyncio.create_task(answering.call(m.METHODS[name], params, context())) for name, params in slow * 4]
        for _ in range(LONG_THREADS):
            await asyncio.to_thread(begun.acquire)
        async with asyncio.timeout(HANG_GUARD_SECONDS / 3):
            assert await answering.call(m.METHODS["models/list"], m.NoParams(), context()) == "listed"
        go_on.set()
        await asyncio.gather(*asked)
        answering.close()

    asyncio.run(scenario())


def test_a_refusal_is_still_one(bench: Bench) -> None:
    def refuse() -> None:
        raise RequestRefused("vault_unavailable", "gone")

    asked = bench.ask(refuse)
    bench.steps.release()
    with pytest.raises(RequestRefused):
        outcome(asked, later(), lambda: False)
