"""What is written into vaults, over the socket: notes, pages and decisions (seed A, User Resolution; T35, T37, T39)."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from builders import page, tree, until, write
from daemon_process import WIKID, DaemonProcess
from wikid_client import Client, RequestRefused
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.page import KnowledgeDocument
from wikid_daemon.vault.event_log import EventLog
from wikid_protocol import records as r

YES, NO = "concepts/yes", "concepts/no"
LINKS = f"[yes](/{YES}.md) and [no](/{NO}.md)"
DISPUTE = {YES: f"[{{target: {NO}, type: contradicts}}]", NO: f"[{{target: {YES}, type: contradicts}}]"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("curation") / "home") as process:
        yield process


class World:
    """One new vault in the module's daemon, with two claims that contradict each other."""

    def __init__(self, daemon: DaemonProcess, name: str) -> None:
        self.daemon = daemon
        self.name = name
        self.root = daemon.home / name
        self.vault_id = daemon.client.vault_init(str(self.root), topic="pools", name=name).vault_id
        self.wiki = self.root / ".llm-wiki/wiki"
        self.meta = self.root / ".llm-wiki/meta"
        write(
            self.wiki, f"{YES}.md", page(f"The pooler keeps statements. {LINKS}", title="Keeps", relations=DISPUTE[YES])
        )
        write(
            self.wiki, f"{NO}.md", page(f"The pooler loses statements. {LINKS}", title="Loses", relations=DISPUTE[NO])
        )
        daemon.client.sync(vault=name)

    @property
    def client(self) -> Client:
        return self.daemon.client

    def document(self, path: str) -> KnowledgeDocument:
        found = parse_page(path, (self.wiki / path).read_bytes(), strict=True).document
        assert found is not None
        return found

    def events(self, kind: str) -> list[r.EventRecord]:
        return list(self.client.event_list(kinds=(kind,), vault=self.name, limit=1_000).events)

    def resolve(self, selected: str = YES, other: str = NO, **more: Any) -> r.ConflictResolved:
        given: dict[str, Any] = {"relation": "supersedes", "vault": self.name, **more}
        return self.client.conflict_resolve(selected, other_page_id=other, **given)

    def refused(self, work: Callable[[], object]) -> RequestRefused:
        """The refusal, which must leave every page and the log as they were."""
        before = tree(self.wiki), (self.meta / "events.jsonl").read_bytes()
        with pytest.raises(RequestRefused) as caught:
            work()
        assert (tree(self.wiki), (self.meta / "events.jsonl").read_bytes()) == before
        return caught.value

    def conflicts(self) -> list[r.Conflict]:
        return list(self.client.conflict_list(vault=self.name).conflicts)

    def decision(self) -> r.ConflictResolution | None:
        """What recall says was decided."""
        answer = self.client.recall("pooler statements", vault=self.name, mode="lexical")
        return answer.bundles[0].resolution if answer.bundles else None


@pytest.fixture
def world(running: DaemonProcess, request: pytest.FixtureRequest) -> Iterator[World]:
    found = World(running, request.node.name.replace("[", "-").rstrip("]")[:60])
    yield found
    running.client.vault_remove(str(found.root))
    shutil.rmtree(found.root, ignore_errors=True)


# -- notes -------------------------------------------------------------------------------------------------------------


def test_an_observation_is_a_page_an_event_and_found(world: World) -> None:
    found = world.client.observe(
        'He said "no":\n#1', content="The quorumzebra was lost.", relevance="high", tags=["on call", "#db"],
        source_context="night shift", vault=world.name,
    )  # fmt: skip
    day = found.slug.removeprefix("obs-")[:10]
    assert abs((datetime.now(UTC) - datetime.fromisoformat(day).replace(tzinfo=UTC)).days) <= 1
    assert (found.created, found.slug, found.diagnostics) == (True, f"obs-{day}-he-said-no-1", ())
    document = world.document(f"sources/{found.slug}.md")
    assert document.title == 'Observation: He said "no": #1'
    assert {key: document.metadata[key] for key in ("slug", "status", "relevance", "tags", "source_context")} == {
        "slug": found.slug,
        "status": "observation",
        "relevance": "high",
        "tags": ["on-call", "db"],
        "source_context": "night shift",
    }
    assert hashlib.sha256(Path(found.path).read_bytes()).hexdigest() == found.hash
    [event] = world.events("observe")
    assert event.details == {"slug": found.slug, "title": 'He said "no": #1', "relevance": "high"}
    until(lambda: world.daemon.found("quorumzebra", world.name) == [found.page_id], "the observation being found")


def test_an_observation_overwrites_nothing_in_any_script(world: World) -> None:
    def observe(content: str) -> r.Observed:
        return world.client.observe("接続プールの設定", content=content, vault=world.name)

    first, again, second, third = observe("一"), observe("一"), observe("二"), observe("三")
    assert first.slug.endswith("-接続プールの設定")
    assert (again.slug, again.created, again.hash) == (first.slug, False, first.hash)
    assert [second.slug, third.slug] == [f"{first.slug}-2", f"{first.slug}-3"]
    assert observe("二").slug == second.slug
    assert len(world.events("observe")) == 3


def test_an_insight_is_changed_only_by_who_has_read_it(world: World) -> None:
    def retro(body: str, **more: Any) -> r.Insight:
        return world.client.retro("pool-size", title="Pool size", body=body, vault=world.name, **more)

    made = retro("Ten.", category="database")
    assert (made.created, made.changed, made.page_id, made.category) == (True, False, "sources/pool-size", "database")
    assert world.document("sources/pool-size.md").metadata["status"] == "insight"
    same = retro("Ten.", category="database")
    assert (same.created, same.changed, same.hash) == (False, False, made.hash)
    place = Path(made.path)
    text = place.read_text().replace("category: database", "category: 'database' # mine\nzeta: 1")
    place.write_text(text.replace("\n", "\r\n"), newline="")
    # T39: what the person saved meanwhile is not what was read
    assert world.refused(lambda: retro("Twenty.", hash=made.hash)).kind == "hash_conflict"
    unread = world.refused(lambda: retro("Twenty."))
    assert unread.kind == "hash_conflict"
    present = hashlib.sha256(place.read_bytes()).hexdigest()
    assert present in unread.hint
    done = retro("Twenty.", category="tuning", hash=present)
    assert (done.created, done.changed) == (False, True)
    assert (
        place.read_bytes()
        == text.replace("'database' # mine", "'tuning' # mine")
        .replace("Ten.", "Twenty.")
        .replace("\n", "\r\n")
        .encode()
    )
    assert [each.details["category"] for each in world.events("retro")] == ["database", "tuning"]
    again = retro("Twenty.", category="tuning")
    assert (again.created, again.changed, again.hash) == (False, False, done.hash)


def test_an_insight_never_takes_the_place_of_another_page(world: World) -> None:
    write(world.wiki, "sources/paper.md", page("A paper.", type="source", title="Paper"))
    digest = hashlib.sha256((world.wiki / "sources/paper.md").read_bytes()).hexdigest()
    for known in (None, digest):
        retro = partial(world.client.retro, "paper", title="T", body="B", hash=known, vault=world.name)
        assert world.refused(retro).kind == "invalid_params"


@pytest.mark.parametrize("slug", ["Pool Size", "index", "../x", "", "a_b"])
def test_an_insight_needs_a_slug_that_is_one(world: World, slug: str) -> None:
    refused = world.refused(lambda: world.client.retro(slug, title="T", body="B", vault=world.name))
    assert (refused.kind, refused.hint.split(":")[0]) == ("invalid_params", "invalid_insight_slug")


def test_a_page_is_ensured_once_and_then_left_alone(world: World) -> None:
    def ensure(content: str | None) -> r.EnsuredPage:
        return world.client.page_ensure("entity", title="Étoile du Nord", content=content, vault=world.name)

    made = ensure("A ship.")
    assert (made.created, made.page_id) == (True, "entities/étoile-du-nord")
    assert world.document("entities/étoile-du-nord.md").status == "draft"
    [event] = world.events("ensure_page")
    assert event.details["path"] == "entities/étoile-du-nord.md"
    Path(made.path).write_text("a person's own")
    again = ensure("Another.")
    assert (again.created, Path(made.path).read_text()) == (False, "a person's own")
    assert len(world.events("ensure_page")) == 1
    empty = world.client.page_ensure("concept", title="Nothing yet", vault=world.name)
    assert world.document(f"{empty.page_id}.md").metadata["status"] == "stub"


@pytest.mark.parametrize(
    "params",
    [
        {"title": " ", "content": "x"},
        {"title": "x", "content": " \n"},
        {"title": "x" * 600, "content": "x"},
    ],
)
def test_a_note_that_is_none_is_refused(world: World, params: dict[str, str]) -> None:
    refused = world.refused(lambda: world.client.observe(params["title"], content=params["content"], vault=world.name))
    assert refused.kind == "invalid_params"


# -- decisions ---------------------------------------------------------------------------------------------------------


def test_t37_a_decision_is_recorded_once_followed_at_once_and_replaced(world: World) -> None:
    [conflict] = world.conflicts()
    assert (conflict.state, [each.page_id for each in conflict.claims]) == ("confirmed", [NO, YES])
    claims = {path: (world.wiki / f"{path}.md").read_bytes() for path in (YES, NO)}

    first = world.resolve(rationale="Measured in May.")
    assert first.created
    record = first.resolution
    assert record.page_id == f"analyses/resolution-{record.id[:16]}"
    document = world.document(f"{record.page_id}.md")
    assert {YES, NO} <= {link.target for link in document.links}
    assert "Measured in May." in document.body
    assert until(world.decision, "recall following the decision").id == record.id
    [event] = world.events("recall_feedback")
    assert event.details == {
        "schema": 1,
        "visibility": "internal",
        "vault_id": world.vault_id,
        "page_id": YES,
        "query_hash": "",
        "mode": "",
        "index_version": "",
        "models": [],
        "rank": 0,
        "action": "conflict_selected",
    }
    written = (world.wiki / f"{record.page_id}.md").read_bytes()

    again = world.resolve(rationale="In other words.")
    assert (again.created, again.resolution) == (False, record)
    assert (world.wiki / f"{record.page_id}.md").read_bytes() == written
    assert len(world.events("recall_feedback")) == 1

    refused = world.refused(lambda: world.resolve(NO, YES))
    assert (refused.kind, record.id in refused.hint) == ("resolution_refused", True)
    changed = world.resolve(NO, YES, relation="applies_under", scope=" in  transaction mode ", replaces=record.id)
    assert changed.created
    assert (changed.resolution.scope, changed.resolution.replaces) == ("in transaction mode", record.id)
    assert until(lambda: _other_than(world.decision(), record.id), "recall following the change").selected_page_id == NO
    assert (world.wiki / f"{record.page_id}.md").read_bytes() == written
    assert {path: (world.wiki / f"{path}.md").read_bytes() for path in (YES, NO)} == claims
    [report] = world.client.vault_lint(vault=world.name).vaults
    assert [each.code for each in report.findings if "analyses" in each.path or "conflict" in each.code] == []
    [resolved] = world.conflicts()
    assert (resolved.state, [each.id for each in resolved.resolutions]) == ("resolved", [changed.resolution.id])


def _other_than(found: r.ConflictResolution | None, record: str) -> r.ConflictResolution | None:
    return found if found is not None and found.id != record else None


def test_t37_equal_paths_in_two_vaults_are_kept_apart(world: World, running: DaemonProcess) -> None:
    twin = World(running, f"{world.name[:50]}-twin")
    try:
        mine, its = world.resolve(), twin.resolve()
        assert mine.resolution.id != its.resolution.id
        assert (mine.resolution.vault_id, its.resolution.vault_id) == (world.vault_id, twin.vault_id)
        crossed = world.refused(
            lambda: running.client.conflict_resolve(
                f"{world.name}:{YES}", other_page_id=f"{twin.name}:{NO}", relation="supersedes"
            )
        )
        assert crossed.kind == "invalid_params"
        write(twin.wiki, "concepts/third.md", page("Only here.", title="Third"))
        running.client.sync(vault=twin.name)
        absent = world.refused(lambda: world.resolve(YES, "concepts/third"))
        assert absent.kind == "page_not_found"
        assert twin.name in absent.hint
    finally:
        running.client.vault_remove(str(twin.root))


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"other": YES}, "invalid_params"),
        ({"other": "concepts/none"}, "page_not_found"),
        ({"selected": "concepts/none"}, "page_not_found"),
        ({"relation": "applies_under"}, "invalid_params"),
        ({"scope": "somewhere"}, "invalid_params"),
        ({"relation": "contradicts"}, "invalid_params"),
        ({"replaces": "0" * 64}, "resolution_refused"),
        ({"other": "../../etc/passwd"}, "outside_vault"),
        ({"other": "..\\..\\x"}, "outside_vault"),
        ({"other": "/etc/passwd"}, "outside_vault"),
        ({"other": "%2e%2e/x"}, "outside_vault"),
        ({"other": "concepts/"}, "invalid_params"),
        ({"other": "nowhere:concepts/no"}, "vault_not_found"),
    ],
)
def test_what_cannot_be_decided_is_refused_and_changes_nothing(world: World, more: dict[str, str], kind: str) -> None:
    assert world.refused(lambda: world.resolve(**more)).kind == kind


def test_of_many_who_decide_at_once_one_decides(world: World) -> None:
    def decide(number: int) -> bool | str:
        selected, other = (YES, NO) if number % 2 else (NO, YES)
        with world.daemon.connect() as client:
            try:
                return client.conflict_resolve(
                    selected, other_page_id=other, relation="supersedes", vault=world.name
                ).created
            except RequestRefused as refused:
                return refused.kind

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(decide, range(8)))
    assert outcomes.count(True) == 1
    assert set(outcomes) <= {True, False, "resolution_refused", "lock_busy"}
    [conflict] = world.conflicts()
    assert (conflict.state, len(conflict.resolutions)) == ("resolved", 1)
    assert len(world.events("recall_feedback")) == 1


def test_records_that_were_made_apart_leave_the_conflict_undecided(world: World) -> None:
    first = world.resolve().resolution
    path = world.wiki / f"{first.page_id}.md"
    hidden = path.read_bytes()
    path.unlink()
    rival = world.resolve(NO, YES).resolution
    path.write_bytes(hidden)
    [conflict] = world.conflicts()
    assert (conflict.state, {each.id for each in conflict.resolutions}) == ("undecided", {first.id, rival.id})
    refused = world.refused(lambda: world.resolve(relation="qualifies", replaces=first.id))
    assert refused.kind == "resolution_refused"
    assert rival.id in refused.hint
    (world.wiki / f"{rival.page_id}.md").unlink()
    assert world.resolve().created is False


def test_a_claim_that_changed_or_went_since_is_told(world: World) -> None:
    world.resolve()
    assert world.conflicts()[0].stale == ()
    write(world.wiki, f"{YES}.md", page(f"Newer. {LINKS}", title="Keeps", updated="2999-01-01"))
    (world.wiki / f"{NO}.md").unlink()
    [conflict] = world.conflicts()
    assert conflict.stale == (NO, YES)
    assert [each.missing for each in conflict.claims] == [True, False]


def test_a_mark_and_a_page_that_only_one_side_disputes_are_proposed(world: World) -> None:
    write(world.wiki, "concepts/marked.md", page("One.\n\n> ⚠️ **Contradiction**: two.", title="Marked"))
    write(world.wiki, f"{NO}.md", page("Nothing against it.", title="Loses"))
    found = {each.reasons: each for each in world.conflicts()}
    assert set(found) == {("contradicts_one",), ("marker",)}
    assert {each.state for each in found.values()} == {"proposed"}
    assert found["marker",].line == 8


def test_a_list_goes_on_where_it_was_cut_and_can_be_narrowed(world: World) -> None:
    write(world.wiki, "concepts/marked.md", page("> ⚠️ **Contradiction**: two.", title="Marked"))
    first = world.client.conflict_list(limit=1, vault=world.name)
    rest = world.client.conflict_list(limit=1, cursor=first.next_cursor, vault=world.name)
    assert [each.state for each in (*first.conflicts, *rest.conflicts)] == ["confirmed", "proposed"]
    assert (first.counts, rest.next_cursor) == ({"confirmed": 1, "proposed": 1}, None)
    narrowed = world.client.conflict_list(("proposed",), vault=world.name)
    assert [each.state for each in narrowed.conflicts] == ["proposed"]


# -- refusals that hold for every write --------------------------------------------------------------------------------


def writes(world: World) -> list[Callable[[], object]]:
    client, name = world.client, world.name
    return [
        lambda: client.observe("T", content="C", vault=name),
        lambda: client.retro("t", title="T", body="B", vault=name),
        lambda: client.page_ensure("concept", title="T", vault=name),
        lambda: world.resolve(),
    ]


def test_while_another_writer_holds_the_lock_nothing_is_written(world: World) -> None:
    with EventLog(world.meta, "somebody else").locked(0):
        refusals = [world.refused(work) for work in writes(world)[::3]]
    assert {each.kind for each in refusals} == {"lock_busy"}
    assert world.resolve().created


def test_a_blocked_vault_is_not_written(world: World) -> None:
    config = world.root / ".llm-wiki/config.json"
    config.write_text(config.read_text().replace("okf-0.2", "okf-9"))
    assert {world.refused(work).kind for work in writes(world)} == {"vault_blocked"}


def test_a_vault_that_is_gone_is_unavailable_and_not_made_again(world: World) -> None:
    away = world.root.rename(world.root.with_name("away"))
    try:
        for work in writes(world):
            with pytest.raises(RequestRefused) as caught:
                work()
            assert caught.value.kind == "vault_unavailable"
        assert not world.root.exists()
    finally:
        away.rename(world.root)


def test_a_plain_folder_is_read_only(running: DaemonProcess, tmp_path: Path) -> None:
    write(tmp_path / "plain", "a.md", "# A")
    running.client.vault_add(str(tmp_path / "plain"), name="plain-notes")
    with pytest.raises(RequestRefused) as caught:
        running.client.observe("T", content="C", vault="plain-notes")
    assert caught.value.kind == "read_only"
    assert list(tree(tmp_path / "plain")) == ["a.md"]
    running.client.vault_remove("plain-notes")


def test_an_event_that_cannot_be_written_leaves_the_page_and_is_told(world: World) -> None:
    log = world.meta / "events.jsonl"
    log.unlink()
    log.mkdir()
    found = world.client.observe("T", content="C", vault=world.name)
    assert (found.created, [each.kind for each in found.diagnostics]) == (True, ["event_not_written"])
    assert Path(found.path).is_file()


# -- the command -------------------------------------------------------------------------------------------------------


def test_a_person_settles_a_conflict_on_the_command_line(world: World) -> None:
    def wikid(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(WIKID), *words, "--vault", world.name]
        return subprocess.run(
            command, env=world.daemon.env, cwd=world.root, input=text, capture_output=True, text=True, check=False
        )

    noted = wikid("observe", "From a pipe", "--tag", "cli", "--json", text="What was piped in.\n")
    assert (noted.returncode, json.loads(noted.stdout)["tags"]) == (0, ["cli"])
    shown = wikid("conflicts")
    assert shown.returncode == 0
    assert f"{world.name}:{YES}" in shown.stdout.replace("\n", "")
    done = wikid("resolve", YES, NO, "--relation", "supersedes", "--rationale", "Measured.")
    assert (done.returncode, done.stdout.startswith("✓ Decided: ")) == (0, True)
    again = wikid("resolve", NO, YES, "--relation", "supersedes")
    assert (again.returncode, again.stderr.startswith("error: ")) == (1, True)
