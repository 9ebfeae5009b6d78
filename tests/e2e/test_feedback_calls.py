"""Feedback as agents and people give it: recalls, judgments and signals over the socket, and what is left on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import page, tree, until, write
from daemon_process import DaemonProcess
from wikid_client import RequestRefused
from wikid_daemon.core.feedback import Showing, event_of, query_hash
from wikid_daemon.vault.event_log import EventLog
from wikid_daemon.vault.vault import init_vault
from wikid_protocol import records as r

QUERY = "when does the sluice open"
ANNA, BERT, FAR = "concepts/anna", "concepts/bert", "concepts/far"
TOLD_WORDS = ("sluice", "dawn", "noon", "bakery", "dusk")


class World:
    """The module's daemon and a vault of its own for each test."""

    def __init__(self, daemon: DaemonProcess, root: Path, name: str) -> None:
        self.daemon = daemon
        self.name = self.session = name
        self.meta = init_vault(root, name, "personal") / ".llm-wiki" / "meta"
        self.wiki = self.meta.with_name("wiki")
        write(self.wiki, f"{ANNA}.md", page("The sluice will open at dawn, says Anna.", title="First report"))
        write(self.wiki, f"{BERT}.md", page("The sluice will open at noon, says Bert.", title="Other report"))
        write(self.wiki, f"{FAR}.md", page("Nothing here is about water.", title="Bakery"))
        self.record = daemon.add(root, name)

    def recall(self, query: str = QUERY, *, session: str | None = None) -> r.Recall:
        asked = session or self.session
        return self.daemon.client.recall(query, vault=self.name, mode="lexical", session=asked)

    def factors(self) -> dict[str, float]:
        explained = self.daemon.client.recall(QUERY, vault=self.name, mode="lexical", explain=True).explain
        assert explained is not None
        return {each["page_id"]: each["multiplier"] for each in explained["order"]}

    def judge(self, page_id: str, judgment: Any, **more: Any) -> r.Judged:
        return self.daemon.client.feedback_judge(
            page_id, judgment=judgment, **{"session": self.session, "vault_id": self.record.vault_id, **more}
        )

    def events(self) -> list[dict[str, Any]]:
        found = self.daemon.client.event_list(vault=self.name, kinds=["recall_feedback"], limit=1_000).events
        return [each.details for each in found]

    def actions(self) -> list[tuple[str, str]]:
        return sorted((each["action"], each["page_id"]) for each in self.events())

    def append(self, *lines: str) -> None:
        with (self.meta / "events.jsonl").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def event(self, page_id: str, action: Any, age: timedelta = timedelta()) -> str:
        event = event_of(self.record.vault_id, page_id, Showing(query_hash(QUERY), "lexical", "", (), 1), action)
        return json.dumps({**event, "timestamp": (datetime.now(UTC) - age).isoformat()})

    def status(self) -> tuple[str, str]:
        found = self.daemon.status(self.name)
        return found.feedback, found.feedback_reason


@pytest.fixture(scope="module")
def one_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("feedback") / "home") as daemon:
        yield daemon


@pytest.fixture
def world(one_daemon: DaemonProcess, tmp_path: Path) -> World:
    return World(one_daemon, tmp_path / "vault", tmp_path.name)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(RequestRefused) as refused:
        call()
    return refused.value.kind


def shown(answer: r.Recall) -> list[str]:
    return [each.page_id for bundle in answer.bundles for each in (bundle.card, *bundle.evidence) if each is not None]


def test_a_judgment_changes_the_order_and_nothing_in_the_pages(world: World) -> None:
    first, second = shown(world.recall())
    plain, pages = world.factors(), tree(world.wiki)
    judged = world.judge(first, "irrelevant")
    assert (judged.state, judged.adjustment, judged.feedback) == ("recorded", -0.02, "on")
    assert shown(world.recall()) == [second, first]
    moved = world.factors()
    assert abs(moved[first] - plain[first]) <= 0.02 + 1e-9
    assert moved[second] == plain[second]
    assert tree(world.wiki) == pages


def test_only_what_this_session_was_shown_can_be_judged(world: World) -> None:
    answer = world.recall()
    assert refusal(lambda: world.judge(ANNA, "relevant", recall_id="0123456789abcdef")) == "not_shown"
    assert refusal(lambda: world.judge(FAR, "relevant")) == "not_shown"
    assert refusal(lambda: world.judge(ANNA, "relevant", session="another")) == "not_shown"
    assert refusal(lambda: world.judge(ANNA, "corrected")) == "invalid_params"
    assert not [each for each in world.actions() if each[0] == "relevant"]
    assert world.judge(ANNA, "relevant", recall_id=answer.recall_id).state == "recorded"


def test_hosts_tell_what_became_of_a_turn(world: World) -> None:
    world.recall()
    client = world.daemon.client
    assert client.feedback_signal("opened", session=world.session, path=str(world.wiki / f"{ANNA}.md")).counted == 1
    assert client.feedback_signal("cited", session=world.session, text=f"At dawn, as [[{ANNA}]] has it.").counted == 1
    assert client.feedback_signal("turn_end", session=world.session).counted == 1
    assert client.feedback_signal("turn_end", session="nobody").counted == 0
    wanted = [("cited", ANNA), ("opened", ANNA), ("shown", ANNA), ("shown", BERT), ("shown_only", BERT)]
    until(lambda: world.actions() == wanted, "all five events")
    assert {each["query_hash"] for each in world.events()} == {query_hash(QUERY)}
    assert {each["visibility"] for each in world.events()} == {"internal"}
    place = world.meta / "recall-feedback.json"
    until(lambda: place.exists() and len(json.loads(place.read_bytes())["pages"]) == 2, "the file of standings")


def test_a_page_that_is_read_by_its_id_was_opened(world: World) -> None:
    client = world.daemon.client
    client.page_get(BERT, vault_id=world.record.vault_id, session=world.session)
    world.recall()
    client.page_get(BERT, vault_id=world.record.vault_id, session=world.session)
    client.page_get(FAR, vault_id=world.record.vault_id, session=world.session)
    wanted = [("opened", BERT), ("shown", ANNA), ("shown", BERT)]
    until(lambda: world.actions() == wanted, "the page read after the recall being noted, and no other")


def test_no_event_and_no_log_has_words_of_a_query_or_a_note(world: World) -> None:
    world.recall()
    world.judge(ANNA, "relevant")
    world.daemon.client.feedback_signal("cited", session=world.session, text="the bakery at dusk")
    until(lambda: ("shown", BERT) in world.actions(), "the events")
    logged = [path.read_text() for path in world.daemon.home.rglob("*.log*")]
    for written in ((world.meta / "events.jsonl").read_text(), *logged):
        assert not [word for word in TOLD_WORDS if word in written]


def test_a_correction_is_a_page_and_an_event(world: World) -> None:
    world.recall()
    judged = world.judge(ANNA, "corrected", correction="It opens at dusk, and only then.")
    assert judged.state == "recorded"
    assert judged.adjustment == -0.02
    assert judged.correction_page_id is not None
    text = (world.wiki / f"{judged.correction_page_id}.md").read_text()
    assert "It opens at dusk, and only then." in text
    assert f"corrected_page: {ANNA}" in text
    world.daemon.client.sync(vault=world.name)
    assert judged.correction_page_id in shown(world.recall("dusk"))


def test_a_correction_that_could_not_be_told_to_the_log_is_made_up_for_by_a_rebuild(world: World) -> None:
    world.recall()
    until(lambda: len(world.actions()) == 2, "what was shown being noted")
    with EventLog(world.meta, "another").locked(2_000):
        assert refusal(lambda: world.judge(BERT, "relevant")) == "lock_busy"
        judged = world.judge(ANNA, "corrected", correction="It opens at dusk, and only then.")
    assert judged.state == "correction_saved_feedback_pending"
    assert world.actions() == [("shown", ANNA), ("shown", BERT)]
    world.daemon.client.sync(vault=world.name)
    world.daemon.client.vault_rebuild_meta(vault=world.name)
    pages = json.loads((world.meta / "recall-feedback.json").read_bytes())["pages"]
    assert pages[ANNA]["actions"] == {"corrected": 1}
    assert pages[ANNA]["weight"] == -0.02


def test_switched_off_only_what_a_person_says_is_kept(world: World) -> None:
    client = world.daemon.client
    assert world.status() == ("on", "")
    client.config_set("recallFeedback", value=False)
    try:
        world.recall()
        assert world.status() == ("off", "recallFeedback")
        assert client.feedback_signal("turn_end", session=world.session).counted == 0
        assert world.judge(ANNA, "relevant").adjustment == 0.02
    finally:
        client.config_set("recallFeedback")
    world.recall(session="later")
    until(lambda: len(world.actions()) == 3, "what was shown afterwards")
    assert world.actions() == [("relevant", ANNA), ("shown", ANNA), ("shown", BERT)]


def test_t38_a_thousand_judgments_are_bounded_and_half_is_left_after_ninety_days(world: World) -> None:
    plain = world.factors()
    world.append(*[world.event(ANNA, "relevant")] * 1_000, *[world.event(BERT, "relevant", timedelta(days=90))] * 1_000)
    until(lambda: all(factor > plain[page_id] for page_id, factor in world.factors().items()), "both being counted")
    moved = world.factors()
    assert moved[ANNA] - plain[ANNA] == pytest.approx(0.02, abs=1e-3)
    assert moved[BERT] - plain[BERT] == pytest.approx(0.01, abs=1e-3)
    assert max(moved.values()) <= 1.10


def test_feedback_on_a_page_that_was_deleted_counts_for_nothing_and_comes_back_with_it(world: World) -> None:
    page_of_bert = world.wiki / f"{BERT}.md"
    before = page_of_bert.read_bytes()
    world.append(*(world.event(BERT, "relevant") for _ in range(20)))
    world.daemon.client.sync(vault=world.name)
    until(lambda: world.factors()[BERT] > 1, "the judgments having an effect")
    page_of_bert.unlink()
    world.daemon.client.sync(vault=world.name)
    assert BERT not in world.factors()
    assert world.status() == ("on", "")
    page_of_bert.write_bytes(before)
    world.daemon.client.sync(vault=world.name)
    until(lambda: world.factors().get(BERT, 0) > 1, "the judgments having an effect again")


def test_a_log_that_cannot_be_read_disables_feedback_and_lint_tells(world: World) -> None:
    plain = world.factors()
    world.append(world.event(ANNA, "relevant"))
    until(lambda: world.factors()[ANNA] > plain[ANNA], "the judgment being counted")
    written = (world.meta / "recall-feedback.json").read_bytes()
    world.append("{broken", world.event(ANNA, "irrelevant"))
    until(lambda: world.status() == ("disabled", "events_malformed"), "feedback being disabled")
    assert world.factors() == plain
    assert (world.meta / "recall-feedback.json").read_bytes() == written
    [report] = world.daemon.client.vault_lint(vault=world.name).vaults
    assert report.findings_by_code.get("feedback_disabled") == 1
    done = world.daemon.wikid("events", "--acknowledge", "--vault", world.name)
    assert done.returncode == 0, done.stderr
    until(lambda: world.status() == ("on", ""), "feedback being used again")


def test_feedback_outlives_the_daemon(daemon: DaemonProcess, tmp_path: Path) -> None:
    world = World(daemon, tmp_path / "vault", "notes")
    plain = world.factors()
    world.recall()
    world.judge(ANNA, "relevant")
    daemon.kill()
    daemon.start()
    daemon.client.sync(vault="notes")
    until(lambda: world.factors()[ANNA] > plain[ANNA], "the judgment being known again")
    assert refusal(lambda: world.judge(ANNA, "relevant")) == "not_shown"


def test_people_judge_by_the_command(world: World) -> None:
    run = world.daemon.wikid
    own = ("--vault", world.name, "--session", "shell")
    assert run("recall", *QUERY.split(), "--mode", "lexical", *own).returncode == 0
    done = run("feedback", ANNA, "relevant", *own)
    assert (done.returncode, "+2.0%" in done.stdout) == (0, True), done.stderr
    corrected = run("feedback", BERT, "corrected", "--correction", "It opens at dusk.", "--json", *own)
    assert json.loads(corrected.stdout)["state"] == "recorded"
    assert run("feedback", FAR, "relevant", *own).returncode == 1
    assert run("feedback", ANNA, "fine", *own).returncode == 2
    opened = run("signal", "opened", str(world.wiki / f"{ANNA}.md"), "--session", "shell", "--json")
    assert json.loads(opened.stdout) == {"counted": 1}
    assert json.loads(run("signal", "cited", f"[[{BERT}]]", "--session", "shell", "--json").stdout) == {"counted": 1}
    assert json.loads(run("signal", "turn_end", "--session", "shell", "--json").stdout) == {"counted": 0}


def test_a_connection_s_session_is_that_of_its_calls(world: World) -> None:
    with world.daemon.connect() as client:
        client._call(r.Initialized, "initialize", {"session": "mine"}, client._deadline(None))
        client.recall(QUERY, vault=world.name, mode="lexical")
        assert client.feedback_judge(ANNA, judgment="relevant").state == "recorded"
    assert world.judge(ANNA, "relevant", session="mine").state == "recorded"
