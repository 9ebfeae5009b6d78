"""Feedback over real vaults: what is noted, what it comes to, and what it can never do."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import Clock, page, save_atomically, tree, until, write
from recalls import Recalls, ids
from wikid_daemon.core.feedback import Showing, event_of, query_hash
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.feedback import Feedback
from wikid_daemon.indexer import Indexer
from wikid_daemon.standings import PROJECTION, Standings
from wikid_daemon.vault.event_lock import LockBusy
from wikid_daemon.vault.event_log import EventLog
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vaults import Applied
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused
from wikid_protocol.methods import JudgeParams, SignalParams

QUERY = "when does the sluice open"
ANNA, BERT, FAR = "concepts/anna", "concepts/bert", "concepts/far"
PAGES = {
    "concepts__anna": page("The sluice will open at dawn, says Anna.", title="First report"),
    "concepts__bert": page("The sluice will open at noon, says Bert.", title="Other report"),
    "concepts__far": page("Nothing here is about water at all.", title="Bakery"),
}


class World:
    """One vault with two pages that answer alike and one that does not answer, and its feedback."""

    def __init__(self, home: Path) -> None:
        self.recalls = Recalls(home)
        self.wiki = self.recalls.wiki("notes", **PAGES)
        self.recalls.clock = Clock(datetime.now(UTC))
        self.logs = EventLogs(home / "state")
        self.standings = Standings(self._indexers, self.logs)
        self.recalls.feedback = self.standings.adjustment
        self.feedback = self.made()

    def made(self) -> Feedback:
        return Feedback(self._indexers, self.logs, self.standings, self.corrected, now=self.recalls.clock)

    def _indexers(self) -> Sequence[Indexer]:
        return list(self.recalls.indexers.values())

    def corrected(self, _vault: Vault, page_id: str, correction: str, hashed: str) -> str:
        fields = {"category": "recall-correction", "corrected_page": page_id, "query_hash": hashed}
        created = self.recalls.clock().isoformat(timespec="seconds")
        text = page(correction, type="source", title="Wrong", vault_id=self.vault.vault_id, created=created, **fields)
        write(self.wiki, "sources/obs-wrong.md", text)
        return "sources/obs-wrong"

    @property
    def indexer(self) -> Indexer:
        return self.recalls.indexers["notes"]

    @property
    def vault(self) -> Vault:
        return self.indexer.vault

    @property
    def meta(self) -> Path:
        assert self.vault.meta is not None
        return self.vault.meta

    def recall(self, session: str = "s", *, implicit: bool = True, query: str = QUERY) -> r.Recall:
        answer = self.recalls.ask(query, ("notes", "project"), explain=True)
        applied = [Applied(self.indexer, "project", "")]
        self.feedback.delivered(session, query, answer, applied, implicit=implicit)
        return answer

    def factor(self, page_id: str) -> float:
        explained = self.recalls.ask(QUERY, ("notes", "project"), explain=True).explain
        assert explained is not None
        return float(next(each["multiplier"] for each in explained["order"] if each["page_id"] == page_id))

    def judge(self, page_id: str, judgment: Any, session: str = "s", **more: Any) -> r.Judged:
        return self.feedback.judge(JudgeParams(page_id=page_id, judgment=judgment, session=session, **more), None)

    def signal(self, kind: Any, session: str = "s", **more: Any) -> int:
        return self.feedback.signal(SignalParams(kind=kind, session=session, **more), None).counted

    def actions(self) -> list[tuple[str, str]]:
        found = [each.details for each in self.logs.of(self.vault).read().events if each.kind == "recall_feedback"]
        return [(str(each["action"]), str(each["page_id"])) for each in found]

    def append(self, count: int, action: Any, age: timedelta, page_id: str = ANNA) -> None:
        """So many events of that age, as a program would have written them that has the log to itself."""
        showing = Showing(query_hash(QUERY), "lexical", "", (), 1)
        at = (self.recalls.clock() - age).isoformat()
        event = {**event_of(self.vault.vault_id, page_id, showing, action), "timestamp": at}
        with (self.meta / "events.jsonl").open("a") as file:
            file.write((json.dumps(event) + "\n") * count)

    def projection(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.meta / PROJECTION).read_bytes())["pages"]
        return found

    def close(self) -> None:
        self.feedback.close()
        self.recalls.close()


@pytest.fixture
def learns_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are looked at, and read again, more often than people need it."""
    monkeypatch.setattr("wikid_daemon.feedback.TICK_SECONDS", 0.05)
    monkeypatch.setattr("wikid_daemon.standings.REST_SECONDS", 0.05)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


# -- judging -----------------------------------------------------------------------------------------------------------


def test_a_judgment_moves_a_page_by_a_fiftieth_and_changes_no_page(world: World) -> None:
    before, pages = world.recall(), tree(world.wiki)
    first, second = ids(before)[:2]
    assert {first, second} == {ANNA, BERT}
    plain = world.factor(first)
    assert world.judge(first, "irrelevant").adjustment == -0.02
    assert ids(world.recall())[:2] == [second, first]
    assert world.factor(first) == pytest.approx(plain - 0.02)
    assert world.judge(first, "relevant").adjustment == 0
    assert world.factor(first) == pytest.approx(plain)
    assert tree(world.wiki) == pages


def test_feedback_shows_no_page_that_was_not_retrieved(world: World) -> None:
    world.append(1_000, "conflict_selected", timedelta(), FAR)
    world.standings.refresh(world.indexer)
    assert world.standings.adjustment(world.vault, FAR, world.recalls.clock()) == pytest.approx(0.02)
    assert FAR not in ids(world.recall())


def test_t38_a_thousand_judgments_are_bounded_and_fade(world: World) -> None:
    plain = world.factor(ANNA)
    world.append(1_000, "relevant", timedelta())
    world.standings.refresh(world.indexer)
    assert world.factor(ANNA) == pytest.approx(min(plain + 0.02, 1.10))
    world.recalls.clock.now += timedelta(days=90)
    assert world.factor(ANNA) == pytest.approx(min(plain + 0.01, 1.10))


@pytest.mark.parametrize(
    ("page_id", "more"),
    [
        (FAR, {}),
        ("concepts/none", {}),
        (ANNA, {"session": "another"}),
        (ANNA, {"session": ""}),
        (ANNA, {"recall_id": "0123456789abcdef"}),
        (ANNA, {"vault_id": "another"}),
    ],
)
def test_only_what_was_shown_to_the_session_can_be_judged(world: World, page_id: str, more: dict[str, Any]) -> None:
    world.recall()
    before = (world.meta / "events.jsonl").read_bytes()
    with pytest.raises(RequestRefused) as refused:
        world.judge(page_id, "relevant", **more)
    assert refused.value.kind == "not_shown"
    assert (world.meta / "events.jsonl").read_bytes() == before


def test_a_recall_can_be_named(world: World) -> None:
    first = world.recall(query="sluice")
    world.recall()
    assert world.judge(ANNA, "relevant", recall_id=first.recall_id, vault_id="notes").state == "recorded"
    told = world.logs.of(world.vault).read().events[-1].details
    assert told["query_hash"] == query_hash("sluice")


@pytest.mark.parametrize(
    ("judgment", "correction"),
    [("corrected", None), ("corrected", "  \n"), ("relevant", "It opens at dusk.")],
)
def test_a_correction_belongs_to_corrected_alone(world: World, judgment: str, correction: str | None) -> None:
    world.recall()
    with pytest.raises(RequestRefused) as refused:
        world.judge(ANNA, judgment, correction=correction)
    assert refused.value.kind == "invalid_params"


def test_while_another_writes_a_judgment_is_refused_and_nothing_is_counted(world: World) -> None:
    world.recall()
    with EventLog(world.meta, "another").locked(2_000), pytest.raises(LockBusy):
        world.judge(ANNA, "relevant")
    assert world.actions() == []


# -- corrections -------------------------------------------------------------------------------------------------------


def test_a_correction_is_a_page_first_and_an_event_second(world: World) -> None:
    world.recall()
    judged = world.judge(ANNA, "corrected", correction="It opens at dusk.")
    assert (judged.state, judged.correction_page_id) == ("recorded", "sources/obs-wrong")
    assert ("corrected", ANNA) in world.actions()
    world.indexer.sync(30)
    world.standings.refresh(world.indexer)
    assert world.projection()[ANNA]["actions"] == {"corrected": 1}


def test_a_correction_whose_event_could_not_be_written_counts_by_its_page(world: World) -> None:
    world.recall()
    with EventLog(world.meta, "another").locked(2_000):
        judged = world.judge(ANNA, "corrected", correction="It opens at dusk.")
    assert judged.state == "correction_saved_feedback_pending"
    assert world.actions() == []
    world.indexer.sync(30)
    world.standings.refresh(world.indexer)
    assert world.projection()[ANNA]["actions"] == {"corrected": 1}
    assert world.standings.adjustment(world.vault, ANNA, world.recalls.clock()) == pytest.approx(-0.02, abs=1e-4)


def test_without_its_page_no_correction_is_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: object) -> str:
        raise RequestRefused("read_only", "no")

    monkeypatch.setattr(world, "corrected", refuse)
    world.feedback = world.made()
    world.recall()
    with pytest.raises(RequestRefused):
        world.judge(ANNA, "corrected", correction="It opens at dusk.")
    assert world.actions() == []


# -- signals -----------------------------------------------------------------------------------------------------------


def noted(world: World, count: int) -> list[tuple[str, str]]:
    return until(lambda: len(world.actions()) >= count and world.actions(), f"{count} events")


@pytest.mark.usefixtures("learns_soon")
def test_what_was_shown_opened_cited_and_left_is_noted_in_the_background(world: World) -> None:
    world.feedback.start()
    world.recall()
    assert world.signal("opened", path=str(world.wiki / f"{ANNA}.md")) == 1
    assert world.signal("opened", path=str(world.wiki / f"{ANNA}.md")) == 0
    assert world.signal("cited", text=f"As [[{ANNA}|Anna]] says, at dawn.") == 1
    assert world.signal("turn_end") == 1
    assert sorted(noted(world, 5)) == [
        ("cited", ANNA),
        ("opened", ANNA),
        ("shown", ANNA),
        ("shown", BERT),
        ("shown_only", BERT),
    ]
    until(lambda: (world.meta / PROJECTION).exists() and len(world.projection()) == 2, "both pages in the file")
    assert {page_id: each["weight"] for page_id, each in world.projection().items()} == {ANNA: 0.015, BERT: -0.005}
    assert world.signal("turn_end") == 0
    assert world.signal("cited", text=BERT) == 0


def test_a_file_is_the_same_by_another_name(world: World, tmp_path: Path) -> None:
    world.recall()
    link = tmp_path / "link.md"
    os.symlink(world.wiki / f"{BERT}.md", link)
    assert world.signal("opened", path=str(link)) == 1
    assert world.signal("opened", path=str(tmp_path / "none.md")) == 0


def test_signals_of_a_session_that_was_shown_nothing_are_nothing(world: World) -> None:
    world.recall()
    assert world.signal("opened", "another", path=str(world.wiki / f"{ANNA}.md")) == 0
    assert world.signal("cited", "another", text=ANNA) == 0
    assert world.signal("turn_end", "another") == 0


@pytest.mark.parametrize(("kind", "more"), [("opened", {}), ("cited", {}), ("opened", {"path": "notes/a.md"})])
def test_a_signal_needs_what_it_is_about(world: World, kind: str, more: dict[str, Any]) -> None:
    with pytest.raises(RequestRefused) as refused:
        world.signal(kind, **more)
    assert refused.value.kind == "invalid_params"


def test_switched_off_nothing_is_noted_but_what_a_person_says(world: World) -> None:
    world.feedback.start()
    world.recall(implicit=False)
    assert world.signal("opened", path=str(world.wiki / f"{ANNA}.md")) == 0
    assert world.signal("turn_end") == 0
    assert world.judge(BERT, "relevant").adjustment == 0.02
    world.feedback.close()
    assert world.actions() == [("relevant", BERT)]


def test_no_event_has_text_of_a_query_or_a_note(world: World) -> None:
    world.feedback.start()
    world.recall()
    world.signal("cited", text=f"{ANNA} sluice")
    world.judge(ANNA, "relevant")
    noted(world, 4)
    written = (world.meta / "events.jsonl").read_text()
    assert not [word for word in ("sluice", "open", "dawn", "Anna.", "report") if word in written.replace("opened", "")]


def test_what_cannot_be_noted_in_time_is_dropped_and_counted(world: World) -> None:
    with EventLog(world.meta, "another").locked(2_000):
        world.feedback.start()
        world.recall()
        until(lambda: told(world).feedback_dropped == 2, "both events being dropped")
        world.feedback.close()
    assert world.actions() == []


# -- the log and the file ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("learns_soon")
def test_what_other_programs_append_is_learned(world: World) -> None:
    world.feedback.start()
    world.append(1, "relevant", timedelta())
    until(lambda: world.standings.adjustment(world.vault, ANNA, world.recalls.clock()) > 0, "the event being counted")
    world.append(1, "irrelevant", timedelta())
    world.append(1, "cited", timedelta())
    # what counts in a recall is known a moment before it is written
    until((world.meta / PROJECTION).exists, "the file")
    until(lambda: world.projection()[ANNA]["weight"] == 0.01, "the other events being counted")


def test_a_line_that_cannot_be_read_disables_feedback_until_it_is_acknowledged(world: World) -> None:
    world.append(1, "relevant", timedelta())
    world.standings.refresh(world.indexer)
    plain, written = world.factor(BERT), (world.meta / PROJECTION).read_bytes()
    assert world.factor(ANNA) == pytest.approx(plain + 0.02)
    with (world.meta / "events.jsonl").open("a") as file:
        file.write("{broken\n")
    world.append(1, "irrelevant", timedelta())
    world.standings.refresh(world.indexer)
    assert world.standings.is_disabled(world.vault)
    assert world.factor(ANNA) == plain
    assert (world.meta / PROJECTION).read_bytes() == written
    assert told(world).feedback == "disabled"
    world.recall()
    assert world.signal("turn_end") == 0
    world.logs.of(world.vault).append({"kind": "events_acknowledged"})
    world.standings.refresh(world.indexer)
    assert not world.standings.is_disabled(world.vault)
    assert world.projection()[ANNA]["weight"] == 0
    assert told(world).feedback == "on"


def test_what_is_added_to_the_log_is_counted_once(world: World) -> None:
    for count in (1, 2, 3):
        world.append(1, "shown_only", timedelta())
        world.standings.refresh(world.indexer)
        world.standings.refresh(world.indexer)
        assert world.projection()[ANNA]["actions"] == {"shown_only": count}


@pytest.mark.parametrize("in_place", [True, False])
def test_a_log_that_was_written_over_is_counted_anew(world: World, in_place: bool) -> None:
    place = world.meta / "events.jsonl"
    world.append(3, "relevant", timedelta())
    before = place.read_bytes()
    world.append(1, "cited", timedelta())
    world.standings.refresh(world.indexer)
    assert world.projection()[ANNA]["actions"] == {"cited": 1, "relevant": 3}
    if in_place:
        place.write_bytes(before)
    else:
        save_atomically(world.meta, place.name, (before * 3).decode())
    world.standings.refresh(world.indexer)
    assert world.projection()[ANNA]["actions"] == {"relevant": 3 if in_place else 9}


def test_a_line_from_before_wikid_changes_nothing(world: World) -> None:
    with (world.meta / "events.jsonl").open("a") as file:
        file.write("{broken\n")
    world.append(1, "relevant", timedelta())
    world.standings.refresh(world.indexer)
    assert world.standings.adjustment(world.vault, ANNA, world.recalls.clock()) == pytest.approx(0.02)


def test_a_deleted_page_leaves_the_file(world: World) -> None:
    world.append(1, "relevant", timedelta())
    world.append(1, "relevant", timedelta(), BERT)
    world.standings.refresh(world.indexer)
    assert set(world.projection()) == {ANNA, BERT}
    (world.wiki / f"{ANNA}.md").unlink()
    world.indexer.sync(30)
    world.standings.refresh(world.indexer)
    assert set(world.projection()) == {BERT}


@pytest.mark.usefixtures("learns_soon")
def test_a_page_that_comes_back_has_its_standing_again(world: World) -> None:
    world.append(1, "relevant", timedelta())
    text = (world.wiki / f"{ANNA}.md").read_text()
    (world.wiki / f"{ANNA}.md").unlink()
    world.indexer.sync(30)
    world.standings.refresh(world.indexer)
    assert world.standings.adjustment(world.vault, ANNA, world.recalls.clock()) == 0
    world.feedback.start()
    write(world.wiki, f"{ANNA}.md", text)
    until(lambda: world.standings.adjustment(world.vault, ANNA, world.recalls.clock()) > 0, "the page's standing")


def test_without_any_feedback_there_is_no_file(world: World) -> None:
    world.standings.refresh(world.indexer)
    assert not (world.meta / PROJECTION).exists()


def test_a_vault_that_may_not_be_written_keeps_its_standings_in_memory(world: World) -> None:
    world.append(1, "relevant", timedelta())
    indexer = world.indexer
    writable, indexer.vault = indexer.vault, replace(indexer.vault, read_only=True)
    try:
        world.standings.refresh(indexer)
        assert world.standings.adjustment(indexer.vault, ANNA, world.recalls.clock()) == pytest.approx(0.02)
        assert not (world.meta / PROJECTION).exists()
        world.recall()
        assert world.signal("turn_end") == 0
        assert (told(world).feedback, told(world).feedback_reason) == ("off", "read_only")
        with pytest.raises(RequestRefused) as refused:
            world.judge(ANNA, "relevant")
        assert refused.value.kind == "read_only"
    finally:
        indexer.vault = writable


def told(world: World, *, captures: bool = True) -> r.VaultStatus:
    vault = r.VaultRecord(vault_id=r.VaultId(world.vault.vault_id), name="notes", path="", kind="wiki")
    return world.feedback.told(r.VaultStatus(vault=vault, state="ready"), world.vault, lambda _vault: captures)


def test_status_tells_that_signals_are_switched_off(world: World) -> None:
    assert (told(world).feedback, told(world).feedback_reason) == ("on", "")
    assert (told(world, captures=False).feedback_reason, told(world, captures=False).feedback) == (
        "recallFeedback",
        "off",
    )
