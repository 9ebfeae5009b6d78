"""Callers whose own folder does not answer: they are told so, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from builders import HANG_GUARD_SECONDS, NO_RERANKER, base_notes, default_settings, until
from wikid_daemon import handlers as handlers_module
from wikid_daemon import vaults as vaults_module
from wikid_daemon.calls import CallContext
from wikid_daemon.handlers import RECALL_THREADS, SLOW_THREADS, Handlers
from wikid_daemon.index import jvm
from wikid_daemon.indexer import Indexer
from wikid_daemon.recall import Recaller
from wikid_daemon.searching import Absence, Models
from wikid_daemon.settings_files import Effective
from wikid_daemon.timing import Clock
from wikid_daemon.vault import opening
from wikid_daemon.vault.opening import NotAnswering
from wikid_daemon.vault.registry import Registry
from wikid_daemon.vault.resolve import Personal
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vaults import Vaults
from wikid_protocol import methods as m
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused

NO_MODEL = Absence("model_absent", "no model: words alone answered")
CROWD = max(RECALL_THREADS, SLOW_THREADS) + 1


class World:
    """The calls of a daemon with one vault; whoever looks for settings in `silent`, or below, waits until `answers`."""

    def __init__(self, home: Path) -> None:
        self.home, self.silent, self.answers = home, home / "silent", threading.Event()
        self.looks: list[Path] = []

        def indexer(vault: Vault, machine: str) -> Indexer:
            return Indexer(vault, machine, lambda: None, lambda _: None, jvm.detach)

        environment = {"HOME": str(home / "user")}
        self.vaults = Vaults(Registry(home / "config" / "vaults.json"), home / "state", indexer, environment)
        recaller = Recaller(lambda: Models(NO_MODEL, NO_RERANKER))
        nothing = cast(Any, None)
        self.handlers = Handlers(
            self.vaults, recaller, nothing, nothing, datetime.now(UTC), home, self.settings_for, nothing, {}, {}, {}
        )

    def settings_for(self, folder: Path | None) -> Effective:
        if folder is not None and folder.is_relative_to(self.silent):
            self.looks.append(folder)
            self.answers.wait()
        return default_settings()

    async def call(self, method: str, params: object) -> Any:
        async with asyncio.timeout(HANG_GUARD_SECONDS):
            context = CallContext(None, threading.Event(), lambda *_: None, 1)
            return await self.handlers.call(m.METHODS[method], params, context)

    async def recall(self, cwd: Path | None = None, **params: Any) -> r.Recall:
        given = m.RecallParams(query="tok01zebra", cwd=None if cwd is None else str(cwd), **params)
        return cast(r.Recall, await self.call("recall", given))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(handlers_module, "LOOK_SECONDS", 0.2)
    made = World(tmp_path)
    base_notes(tmp_path / "notes", 2)
    made.vaults.add(tmp_path / "notes", "notes").sync(HANG_GUARD_SECONDS)
    yield made
    made.answers.set()
    made.handlers.close()
    made.vaults.close()


def test_who_asks_from_a_silent_folder_is_told_and_keeps_nobody_waiting(world: World) -> None:
    async def scenario() -> None:
        places = [world.silent / str(number) for number in range(CROWD)]
        told = await asyncio.gather(*map(world.recall, places), return_exceptions=True)
        for place, problem in zip(places, told, strict=True):
            assert isinstance(problem, RequestRefused)
            assert (problem.kind, problem.row.retry) == ("vault_unavailable", True)
            assert problem.message == f"the folder {place} does not answer"
        resolved = [world.call("vault/resolve", m.VaultResolveParams(cwd=str(each))) for each in places]
        told = await asyncio.gather(*resolved, return_exceptions=True)
        assert {getattr(each, "kind", each) for each in told} == {"vault_unavailable"}
        assert (await world.recall(vault="notes")).bundles
        for method, params in (("initialize", m.InitializeParams()), ("vault/list", m.NoParams())):
            assert len((await world.call(method, params)).vaults) == 1
        assert (await world.call("page/get", m.PageGetParams(page_id="n01", cwd=str(world.home)))).page_id == "n01"

    asyncio.run(scenario())


def test_unasked_recalls_from_a_silent_folder_give_nothing_and_say_why(world: World) -> None:
    async def scenario() -> None:
        answer = await world.recall(world.silent, policy="automatic")
        assert (answer.bundles, answer.reason, answer.stale) == ((), "vault_not_opened", True)
        assert f"the folder {world.silent} does not answer" in answer.diagnostics[0].message

    asyncio.run(scenario())


def test_a_folder_that_hangs_is_looked_at_once_until_it_answers_again(world: World) -> None:
    async def scenario() -> None:
        for place in (world.silent, world.silent, world.silent / "below"):
            with pytest.raises(RequestRefused):
                await world.recall(place, vault="notes")
        assert world.looks == [world.silent]
        world.answers.set()
        until(lambda: _answers(world), "the folder answering")
        assert (await world.recall(world.silent, vault="notes")).bundles

    asyncio.run(scenario())


def _answers(world: World) -> bool:
    try:
        world.vaults.resolve(world.silent)
    except NotAnswering:
        return False
    return True


def test_a_silent_personal_vault_keeps_no_project_from_being_searched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def personal_place(home: Path, _wiki_home: str | None) -> Personal:
        world.answers.wait()
        return home, False

    monkeypatch.setattr(opening, "personal_place", personal_place)
    monkeypatch.setattr(opening, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(world.vaults, "_wiki_home", str(world.home / "share"))
    monkeypatch.setattr(vaults_module, "marker_of", lambda _root: world.answers.wait())

    async def scenario() -> None:
        assert (await world.recall(world.home / "notes", policy="automatic")).vaults
        answer = await world.recall(world.home / "notes")
        assert [each.name for each in answer.vaults] == ["notes"]
        assert [each.message for each in answer.diagnostics if each.kind == "vault_not_opened"] == [
            "share could not be opened: its folder does not answer"
        ]

    asyncio.run(scenario())


def test_the_time_of_a_recall_runs_while_it_waits_for_its_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Clock] = []

    def clock_of(_params: m.RecallParams) -> Clock:
        begun.append(Clock())
        return begun[-1]

    monkeypatch.setattr(handlers_module, "clock_of", clock_of)
    monkeypatch.setattr(handlers_module, "LOOK_SECONDS", HANG_GUARD_SECONDS)

    async def scenario() -> None:
        asked = [asyncio.create_task(world.recall(world.silent, vault="notes")) for _ in range(RECALL_THREADS)]
        asked.append(asyncio.create_task(world.recall(vault="notes")))
        await asyncio.to_thread(until, lambda: len(world.looks) == RECALL_THREADS, "every thread being busy")
        assert len(begun) == RECALL_THREADS + 1
        held = begun[-1].elapsed_ms
        world.answers.set()
        answers = await asyncio.gather(*asked)
        assert answers[-1].elapsed_ms >= held

    asyncio.run(scenario())
