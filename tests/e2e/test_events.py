"""`event/append` and `event/list` on the real daemon, by the client and by the command."""

from __future__ import annotations

import json
import signal
import subprocess
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import orjson
import pytest

from builders import base_notes, until, write
from daemon_process import WIKID, DaemonProcess
from torture.appends import AppendCampaign
from wikid_client import RequestRefused
from wikid_daemon import processes
from wikid_daemon.vault.event_lock import LockRecord
from wikid_daemon.vault.vault import init_vault


@pytest.fixture
def daemon(shared_daemon: DaemonProcess) -> DaemonProcess:
    return shared_daemon


@pytest.fixture
def vault(tmp_path: Path, daemon: DaemonProcess) -> Path:
    root = init_vault(tmp_path / "work", "work", "company")
    daemon.add(root, "work")
    return root


def log(root: Path) -> Path:
    return root / ".llm-wiki" / "meta" / "events.jsonl"


def test_an_event_is_appended_and_listed(daemon: DaemonProcess, vault: Path) -> None:
    before = log(vault).read_bytes()
    added = daemon.client.event_append("decision", details={"ref": "0003", "text": "größe"}, vault="work")
    assert (added.vault, added.kind) == ("work", "decision")
    line = f'{{"ref":"0003","text":"größe","timestamp":"{added.timestamp}","kind":"decision"}}\n'
    assert log(vault).read_bytes() == before + line.encode()
    assert datetime.fromisoformat(added.timestamp).tzinfo is not None
    found = daemon.client.event_list(vault="work")
    assert [(each.line, each.kind) for each in found.events] == [(1, "bootstrap"), (2, "decision")]
    assert found.events[1].details == {"ref": "0003", "text": "größe"}
    assert (found.next_cursor, found.findings, found.malformed) == (None, 0, False)


@pytest.mark.usefixtures("vault")
def test_a_list_is_paged_and_goes_on_where_it_ended(daemon: DaemonProcess) -> None:
    for number in range(5):
        daemon.client.event_append("odd" if number % 2 else "even", details={"n": number}, vault="work")
    seen, cursor = [], None
    while True:
        found = daemon.client.event_list(vault="work", kinds=["even", "odd"], limit=2, cursor=cursor)
        seen += [each.details["n"] for each in found.events]
        if found.next_cursor is None:
            break
        cursor = found.next_cursor
    assert seen == [0, 1, 2, 3, 4]
    assert daemon.client.event_list(vault="work", cursor=found.resume).events == ()
    daemon.client.event_append("even", details={"n": 5}, vault="work")
    news = daemon.client.event_list(vault="work", cursor=found.resume)
    assert [each.details["n"] for each in news.events] == [5]
    assert [each.details["n"] for each in daemon.client.event_list(vault="work", kinds=["odd"]).events] == [1, 3]
    nothing = daemon.client.event_list(vault="work", kinds=["none"])
    assert (nothing.events, nothing.resume) == ((), news.resume)


def test_a_list_begins_at_a_day(daemon: DaemonProcess, vault: Path) -> None:
    with log(vault).open("ab") as file:
        file.write(b'{"timestamp":"2026-01-15","kind":"old"}\n{"timestamp":"2026-01-16T12:00:00Z","kind":"newer"}\n')
    daemon.client.event_append("now", vault="work")
    for day, kinds in (("2026-01-15", {"old", "newer"}), ("2026-01-16", {"newer"}), ("yesterday", set())):
        found = {each.kind for each in daemon.client.event_list(day, vault="work").events}
        assert found == {"bootstrap", "now", *kinds}
    with pytest.raises(RequestRefused) as refused:
        daemon.client.event_list("last tuesday", vault="work")
    assert refused.value.kind == "invalid_params"


def test_an_answer_stays_within_its_limit_whatever_the_log_holds(daemon: DaemonProcess, vault: Path) -> None:
    line = b'{"timestamp":"2026-07-01","kind":"big","text":"%s"}\n'
    with log(vault).open("ab") as file:
        file.write(line % (b"x" * 600_000) + line % (b"y" * 300_000) * 3)
    first = daemon.client.event_list(vault="work", kinds=["big"])
    assert [(each.line, each.cut) for each in first.events] == [(2, True), (3, False), (4, False)]
    assert first.events[0].details == {}
    rest = daemon.client.event_list(vault="work", kinds=["big"], cursor=first.next_cursor)
    assert [each.line for each in rest.events] == [5]


def test_what_is_no_event_is_refused_and_nothing_is_written(daemon: DaemonProcess, vault: Path) -> None:
    before = log(vault).read_bytes()
    for kind, details, hint in (
        ("note", {"timestamp": "2026-01-01"}, "event_reserved_field"),
        ("note", {"kind": "other", "timestamp": 1}, "event_reserved_field"),
        ("  ", {}, "event_missing_kind"),
        ("note", {"text": "x" * 300_000}, "event_too_large"),
    ):
        with pytest.raises(RequestRefused) as refused:
            daemon.client.event_append(kind, details=details, vault="work")
        assert refused.value.kind == "invalid_params"
        assert hint in refused.value.hint
    for bad in ("x", "-1", "1-2-3-4-5", "²-1-1-1-1"):
        with pytest.raises(RequestRefused, match="cursor"):
            daemon.client.event_list(vault="work", cursor=bad)
    assert log(vault).read_bytes() == before


def test_an_event_goes_into_the_vault_of_the_folder_and_into_no_other(
    daemon: DaemonProcess, vault: Path, tmp_path: Path
) -> None:
    other = init_vault(tmp_path / "other", "other", "personal")
    daemon.add(other, "other")
    (other / "deep").mkdir()
    assert daemon.client.event_append("here", cwd=str(other / "deep")).vault == "other"
    before = log(vault).read_bytes(), log(other).read_bytes()
    for params in ({"cwd": str(tmp_path)}, {"vault": "all"}, {}):
        with pytest.raises(RequestRefused) as refused:
            daemon.client.event_append("nowhere", **params)  # type: ignore[arg-type]
        assert (refused.value.kind, "other, work" in refused.value.hint) == ("invalid_params", True)
    for wanted, kind in (("unknown", "vault_not_found"), ("personal", "vault_not_found")):
        with pytest.raises(RequestRefused) as refused:
            daemon.client.event_append("nowhere", vault=wanted)
        assert refused.value.kind == kind
    with pytest.raises(RequestRefused, match="absolute"):
        daemon.client.event_append("nowhere", cwd="notes")
    assert (log(vault).read_bytes(), log(other).read_bytes()) == before


def test_an_event_of_a_project_whose_vault_cannot_be_opened_goes_nowhere_else(tmp_path: Path) -> None:
    project = init_vault(tmp_path / "project", "project", "company")
    with DaemonProcess(tmp_path / "home") as daemon:
        personal = init_vault(Path(daemon.env["HOME"]), "me", "personal")
        daemon.add(project, "project")
        daemon.stop()
        project.rename(tmp_path / "away")
        before = log(personal).read_bytes()
        daemon.start()
        project.mkdir()  # there, with nothing in it, as an unmounted disk leaves it
        with pytest.raises(RequestRefused) as refused:
            daemon.client.event_append("decision", cwd=str(project))
        assert refused.value.kind in ("vault_unavailable", "read_only")
        assert log(personal).read_bytes() == before


def test_nothing_is_written_into_a_plain_folder_or_a_blocked_vault(
    daemon: DaemonProcess, vault: Path, tmp_path: Path
) -> None:
    base_notes(tmp_path / "plain", 1)
    daemon.add(tmp_path / "plain", "plain")
    with pytest.raises(RequestRefused) as refused:
        daemon.client.event_append("k", vault="plain")
    assert (refused.value.kind, refused.value.exit_code) == ("read_only", 1)
    assert daemon.client.event_list(vault="plain").events == ()
    config = json.loads((vault / ".llm-wiki/config.json").read_text())
    write(vault, ".llm-wiki/config.json", json.dumps({**config, "knowledge_format": "okf-9"}))
    blocked = until(lambda: daemon.status("work").vault.blocked, "the vault being blocked")
    assert blocked
    before = log(vault).read_bytes()
    with pytest.raises(RequestRefused) as refused:
        daemon.client.event_append("k", vault="work")
    assert (refused.value.kind, refused.value.exit_code) == ("vault_blocked", 4)
    assert log(vault).read_bytes() == before
    assert [each.kind for each in daemon.client.event_list(vault="work").events] == ["bootstrap"]


def test_a_lock_that_stays_busy_is_told_with_its_holder_and_nothing_changes(daemon: DaemonProcess, vault: Path) -> None:
    lock = log(vault).with_name("events.lock")
    held = LockRecord("elsewhere/1", "another-host", 7, "1", "boot", "2026-01-01T00:00:00Z")
    lock.write_bytes(orjson.dumps(asdict(held)))
    before = log(vault).read_bytes()
    with pytest.raises(RequestRefused) as refused:
        daemon.client.event_append("k", vault="work")
    assert (refused.value.kind, refused.value.row.retry) == ("lock_busy", True)
    assert "process 7 on another-host" in refused.value.hint
    assert log(vault).read_bytes() == before
    lock.unlink()
    daemon.client.event_append("k", vault="work")
    assert not lock.exists()


def test_the_lock_of_a_daemon_that_died_long_ago_is_taken_over(daemon: DaemonProcess, vault: Path) -> None:
    lock = log(vault).with_name("events.lock")
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = LockRecord("dead/1", processes.host(), gone.pid, "1", processes.boot_id(), "2026-01-01T00:00:00Z")
    lock.write_bytes(orjson.dumps(asdict(left)))
    daemon.client.event_append("k", vault="work")
    assert not lock.exists()


def test_a_broken_log_is_listed_with_its_findings(daemon: DaemonProcess, tmp_path: Path) -> None:
    ugly = init_vault(tmp_path / "ugly", "ugly", "personal")
    log(ugly).write_bytes((Path(__file__).parents[1] / "data/ugly/.llm-wiki/meta/events.jsonl").read_bytes())
    daemon.add(ugly, "ugly")
    before = log(ugly).read_bytes()
    found = daemon.client.event_list(vault="ugly")
    assert ([each.line for each in found.events], found.findings, found.malformed) == ([1, 14, 15, 16], 10, False)
    daemon.client.event_append("k", vault="ugly")
    news = daemon.client.event_list(vault="ugly", cursor=found.resume)
    assert ([each.kind for each in news.events], news.findings, news.malformed) == (["k"], 11, False)
    with log(ugly).open("ab") as file:
        file.write(b"broken\n")
    assert daemon.client.event_list(vault="ugly").malformed
    done = daemon.wikid("events", "--vault", "ugly")
    assert (done.returncode, done.stderr) == (0, "")
    assert "12 findings" in done.stdout
    assert "wikid events --acknowledge" in done.stdout
    assert daemon.wikid("events", "--acknowledge", "--vault", "ugly").returncode == 0
    assert not daemon.client.event_list(vault="ugly").malformed
    assert log(ugly).read_bytes().startswith(before), "nothing that was there is ever changed"


def test_the_command_follows_until_it_is_interrupted(daemon: DaemonProcess, vault: Path) -> None:
    command = [str(WIKID), "events", "--follow", "--json"]
    following = subprocess.Popen(command, env=daemon.env, cwd=vault, stdout=subprocess.PIPE, text=True)
    assert following.stdout is not None
    try:
        assert json.loads(following.stdout.readline())["kind"] == "bootstrap"
        daemon.client.event_append("news", vault="work")
        assert json.loads(following.stdout.readline())["kind"] == "news"
    finally:
        following.send_signal(signal.SIGINT)
        following.communicate(timeout=30)
    assert following.returncode == 130


def test_after_a_kill_every_acknowledged_event_is_there_whole_and_in_order(tmp_path: Path) -> None:
    totals = AppendCampaign(tmp_path, 10, 200, 1, print, patient=False).run(1)
    assert totals.differences == []
    assert (totals.acknowledged, totals.kills) == (200, 1)
