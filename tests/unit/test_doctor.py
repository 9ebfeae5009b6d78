"""The doctor: what each look finds, what the command puts right, and what a person reads of it."""

from __future__ import annotations

import io
import os
import plistlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from wikid_client import cli, launch
from wikid_client.commands import checks
from wikid_client.commands.fixes import Repairer
from wikid_client.console import Console
from wikid_client.layout.doctor import report
from wikid_client.layout.spans import plain
from wikid_client.testing import FakeDaemon
from wikid_daemon.checkup import Checkup, existing, room
from wikid_daemon.core.languages import language, languages
from wikid_daemon.doctor import model_findings
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.models.resting import AT_REST
from wikid_daemon.vault.event_lock import EventLock
from wikid_daemon.vault.vault import Vault
from wikid_protocol import __version__
from wikid_protocol import records as r
from wikid_protocol.doctor import endpoint_findings
from wikid_protocol.endpoint import Folders
from wikid_protocol.errors import RequestRefused

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
OLDER = "0.0.1"


def kinds(found: Iterator[r.DoctorFinding] | list[r.DoctorFinding]) -> list[str]:
    return [each.kind for each in found]


# -- the endpoint ------------------------------------------------------------------------------------------------------


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A short private folder for a socket."""
    with FakeDaemon() as unused:  # its folder has a name that is short enough
        yield Path(unused.endpoint).parent / "r"


def bound(path: Path) -> None:
    """A socket that nobody listens on any more."""
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))
    path.chmod(0o600)


def test_an_endpoint_in_order_says_nothing(runtime: Path) -> None:
    assert kinds(endpoint_findings(runtime / "wikid.sock")) == []
    runtime.mkdir(mode=0o700)
    bound(runtime / "wikid.sock")
    assert kinds(endpoint_findings(runtime / "wikid.sock")) == []


def test_an_open_folder_is_closed_only_where_it_holds_sockets_alone(runtime: Path) -> None:
    runtime.mkdir()
    runtime.chmod(0o755)
    bound(runtime / "wikid.sock")
    (found,) = endpoint_findings(runtime / "wikid.sock")
    assert (found.kind, found.severity, found.fix) == ("endpoint_folder_open", "error", True)
    (runtime / "mine.txt").touch()
    (found,) = endpoint_findings(runtime / "wikid.sock")
    assert (found.kind, found.fix) == ("endpoint_folder_open", False)
    assert "WIKID_SOCKET" in found.remedy


def test_what_is_no_socket_and_what_others_may_open_is_told(runtime: Path) -> None:
    runtime.mkdir(mode=0o700)
    (runtime / "wikid.sock").write_text("mine")
    assert kinds(endpoint_findings(runtime / "wikid.sock")) == ["endpoint_in_the_way"]
    (runtime / "wikid.sock").unlink()
    bound(runtime / "wikid.sock")
    (runtime / "wikid.sock").chmod(0o666)
    assert kinds(endpoint_findings(runtime / "wikid.sock")) == ["socket_open"]
    (runtime.parent / "link").symlink_to(runtime)
    assert kinds(endpoint_findings(runtime.parent / "link" / "wikid.sock"))[0] == "endpoint_folder_not_a_folder"


def test_a_socket_that_nobody_listens_on_is_stale(runtime: Path) -> None:
    runtime.mkdir(mode=0o700)
    bound(runtime / "wikid.sock")
    assert kinds(checks.endpoint(runtime / "wikid.sock")) == ["socket_stale"]
    with FakeDaemon() as daemon:
        daemon.endpoint.chmod(0o600)
        assert kinds(checks.endpoint(daemon.endpoint)) == []


# -- what the client sees without a daemon -----------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> Folders:
    found = Folders(*(tmp_path / name for name in ("config", "state", "cache", "runtime")))
    for each in (found.config, found.state, found.cache):
        each.mkdir()
    return found


def test_settings_registry_and_models_are_read_without_a_daemon(own: Folders, tmp_path: Path) -> None:
    assert kinds(checks.on_disk(own, {})) == ["model_absent"]
    assert kinds(checks.on_disk(own, {"WIKID_MODEL_DIR": "/models"})) == []
    built = own.cache / "models" / "m"
    built.mkdir(parents=True)
    (built / "wikid-model.json").touch()
    assert kinds(checks.on_disk(own, {})) == []
    (built / "wikid-model.json").unlink()
    for chosen, remedies in (("multilingual", ["wikid models build multilingual"]), ("maker/fine", []), ("/own/m", [])):
        (own.config / "config.toml").write_text(f'embedModel = "{chosen}"')
        assert [each.remedy for each in checks.on_disk(own, {})] == remedies
    (built / "wikid-model.json").touch()
    (own.config / "config.toml").write_text("retrievalMode = ")
    there = {"name": "there", "path": str(tmp_path), "vault_id": "1"}
    gone = {"name": "my gone", "path": str(tmp_path / "gone"), "vault_id": "2"}
    (own.config / "vaults.json").write_bytes(orjson.dumps({"version": 1, "vaults": [there, gone]}))
    settings, vault = checks.on_disk(own, {})
    assert (settings.kind, "TOML" in settings.message) == ("config_unreadable", True)
    assert (vault.kind, vault.vault) == ("vault_not_opened", "my gone")
    assert "wikid vault remove 'my gone'" in vault.remedy
    (own.config / "vaults.json").write_text('{"vaults": 3}')
    assert kinds(checks.on_disk(own, {}))[1] == "registry_damaged"


def test_a_home_in_which_nothing_can_be_made_is_told(own: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = replace(own, state=own.state / "not" / "there")
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != own.state and access(path, mode))
    (found,) = (each for each in checks.on_disk(absent, {}) if each.severity == "error")
    assert (found.kind, found.message.startswith(f"{own.state} cannot be written")) == ("log_not_writable", True)


def test_a_disk_that_is_nearly_full_is_told_once(own: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=5_000_000))
    assert kinds(checks.on_disk(own, {"WIKID_MODEL_DIR": "/m"})) == ["disk_low"]


@pytest.mark.parametrize(("daemons", "fix"), [(__version__, None), (OLDER, True), ("99.0", False), ("0.0.1rc1", False)])
def test_only_an_older_daemon_is_replaced(daemons: str, fix: bool | None) -> None:
    assert [each.fix for each in checks.version(daemons)] == ([] if fix is None else [fix])


def test_a_service_is_checked_for_its_program_and_its_link(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert kinds(checks.service(env, "linux")) == []
    units = tmp_path / ".config" / "systemd" / "user"
    units.mkdir(parents=True)
    (units / "wikid.service").write_text("[Service]\nExecStart=%h/bin/wikid serve\n")
    assert kinds(checks.service(env, "linux")) == ["service_program_missing", "service_disabled"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "wikid").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "wikid").chmod(0o755)
    (units / "sockets.target.wants").mkdir()
    (units / "sockets.target.wants" / "wikid.socket").symlink_to("../wikid.socket")
    assert kinds(checks.service(env, "linux")) == []


def test_an_agent_of_a_mac_is_checked_alike(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert kinds(checks.service(env, "darwin")) == []
    plist = tmp_path / "Library" / "LaunchAgents" / "dev.wikid.daemon.plist"
    plist.parent.mkdir(parents=True)
    plist.write_bytes(plistlib.dumps({"ProgramArguments": ["/gone/wikid", "serve"], "Disabled": True}))
    assert kinds(checks.service(env, "darwin")) == ["service_program_missing", "service_disabled"]
    plist.write_text("no plist")
    assert kinds(checks.service(env, "darwin")) == ["service_unreadable"]


# -- what the daemon sees ----------------------------------------------------------------------------------------------


def model(state: str, purpose: Any = "embedder", **changes: str) -> r.ModelRecord:
    return r.ModelRecord(**{"name": "all-minilm-l6-v2", "purpose": purpose, "state": state, **changes})


@pytest.mark.parametrize(
    ("models", "found"),
    [
        ((model("ready"), model("ready", "reranker")), []),
        ((model("loading"), model("absent", "reranker")), []),
        ((model("absent"), model("absent", "reranker")), ["model_absent"]),
        ((model("ready"), model("absent", name="other"), model("absent", "reranker")), ["reranker_absent"]),
        ((model("failed", reason="damaged"),), ["model_failed"]),
        ((model("built"),), ["model_not_chosen"]),
        ((model("built", reason=f"{AT_REST}, because nobody used it"),), []),
    ],
)
def test_models_that_cannot_be_used_are_told(
    models: tuple[r.ModelRecord, ...], found: list[str], tmp_path: Path
) -> None:
    assert kinds(model_findings(models, tmp_path)) == found


@pytest.mark.parametrize(
    ("name", "remedy", "fix"),
    [
        ("all-minilm-l6-v2", "wikid models build", True),
        ("multilingual-e5-small", "wikid models build multilingual-e5-small", True),
        ("maker/fine", "wikid models pull maker/fine", False),
        ("fine", "wikid models list", False),
    ],
)
def test_what_is_absent_is_brought_by_its_own_remedy(name: str, remedy: str, fix: bool, tmp_path: Path) -> None:
    (found,) = model_findings((model("absent", name=name, remedy=remedy),), tmp_path)
    assert (found.kind, found.remedy, found.fix) == ("model_absent", remedy, fix)
    (found,) = model_findings((model("absent", name=name, remedy=remedy), model("built", name="other")), tmp_path)
    assert (found.kind, remedy in found.remedy) == ("model_not_chosen", True)


def test_a_build_that_was_never_finished_is_told_once_it_is_old(tmp_path: Path) -> None:
    left = tmp_path / ".staging-x"
    left.mkdir()
    assert kinds(model_findings((model("ready"),), tmp_path)) == []
    os.utime(left, (1, 1))
    assert kinds(model_findings((model("ready"),), tmp_path)) == ["model_half_built"]


@pytest.mark.parametrize(("free", "found"), [(10**10, []), (5 * 10**8, ["disk_low"]), (10**7, ["disk_full"])])
def test_room_on_a_disk(free: int, found: list[str], tmp_path: Path) -> None:
    assert kinds(room("it", tmp_path, free)) == found
    assert existing(tmp_path / "a" / "b") == tmp_path


GERMAN = "Die Zusammenfassung der Sitzung ist nicht mit dem Protokoll abgestimmt und wird noch für die Akten ergänzt."
ENGLISH = "The summary of the meeting is not in line with the minutes and will be extended for the files."


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (ENGLISH, "English"),
        (GERMAN, "German"),
        ("Le résumé de la réunion est dans les archives et il ne sera pas changé pour une autre.", "French"),
        ("会议纪要已经归档，任何人都可以在资料库中找到它，不需要另外申请。", "Chinese"),
        ("会議の議事録は保管されており、誰でも資料庫で見つけることができます。", "Japanese"),
        ("Протокол заседания сохранён в архиве и доступен каждому.", "Russian or another language in Cyrillic"),
        ("x = fetch(url); retry(x, 3); parse(x)[0].name", None),
        ("1 2 3", None),
    ],
)
def test_the_language_of_a_text_is_told_by_its_letters_and_common_words(text: str, name: str | None) -> None:
    assert language(text) == name


def test_texts_that_do_not_tell_their_language_are_left_out() -> None:
    assert languages([ENGLISH, GERMAN, GERMAN, "x"]) == {"English": 1, "German": 2}


class Looked:
    """A stand-in for an open vault's indexer in a plain folder, with what a test says of its state."""

    def __init__(self, tmp_path: Path, texts: tuple[str, ...] = (ENGLISH,), **state: Any) -> None:
        root, kept = tmp_path / "notes", tmp_path / "kept"
        root.mkdir(exist_ok=True)
        kept.mkdir(exist_ok=True)
        self.vault = Vault("id", "my notes", root, "plain", "plain", root, None, kept, "plain_folder")
        given: dict[str, Any] = {"state": "ready", "reason": "", "pending": 0, "failed": {}, "skipped": ()}
        given |= {"last_scan": NOW, "watch": SimpleNamespace(mode="watching", reason="")}
        self.state = SimpleNamespace(**{**given, **state})
        self.watcher = SimpleNamespace(doubtful=False)
        catalog = SimpleNamespace(
            chunk_numbers=lambda: set(range(len(texts))),
            chunks=lambda numbers: {number: SimpleNamespace(text=texts[number]) for number in numbers},
        )
        self.store = SimpleNamespace(java_missing="", catalog=catalog)


Look = Callable[[Any], list[r.DoctorFinding]]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """What a checkup finds; the model in use knows English alone."""
    checkup = Checkup(EventLogs(tmp_path / "state"), lambda: True, tmp_path, lambda _: 10**12, now=lambda: NOW)
    return lambda indexer: list(checkup.of(indexer))


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ({}, []),
        ({"state": "unavailable", "reason": "root_gone"}, ["vault_unavailable"]),
        ({"state": "failed", "reason": "disk_full"}, ["index_disk_full"]),
        ({"state": "failed", "reason": "LexicalIndexDamaged"}, ["index_damaged"]),
        ({"state": "failed", "reason": "KeyError; restart wikid, and run wikid doctor"}, ["index_stopped"]),
        ({"last_scan": NOW - timedelta(hours=3)}, ["scan_overdue"]),
        ({"last_scan": NOW - timedelta(minutes=6), "pending": 3}, ["pending_overdue"]),
        ({"failed": {"a.md": "permission_denied"}}, ["pages_failed"]),
        ({"skipped": (("a (conflicted copy).md", "conflict_copy"), ("b", "hidden"))}, ["conflict_copies"]),
        ({"watch": SimpleNamespace(mode="polling", reason="nfs")}, ["watcher_polling"]),
    ],
)
def test_what_the_index_knows_of_itself(state: dict[str, Any], found: list[str], tmp_path: Path, look: Look) -> None:
    findings = look(Looked(tmp_path, **state))
    assert kinds(findings) == found
    assert all((each.vault, each.vault_id) == ("my notes", "id") for each in findings)
    assert all(each.remedy for each in findings if each.severity != "info")


@pytest.mark.parametrize(
    "reason",
    [
        *("temporarily_unavailable", "permission_denied", "input_output_error", "read_only", "cannot_be_opened"),
        *("vanished", "LexicalIndexBusy", "BusyError", "OSError"),
    ],
)
def test_what_passes_without_a_new_index_builds_none(reason: str, tmp_path: Path, look: Look) -> None:
    (found,) = look(Looked(tmp_path, state="failed", reason=reason))
    assert (found.kind, found.severity, found.fix) == ("index_interrupted", "error", False)
    assert "reindex" not in found.remedy
    assert found.remedy


@pytest.mark.parametrize("reason", ["LexicalIndexDamaged", "catalog_damaged"])
def test_a_damaged_index_is_built_anew_and_keeps_its_vectors(reason: str, tmp_path: Path, look: Look) -> None:
    (found,) = look(Looked(tmp_path, state="failed", reason=reason))
    assert (found.kind, found.fix, found.vault_id) == ("index_damaged", True, "id")
    assert "wikid reindex --vault 'my notes' --scope all --components lexical --force" in found.remedy


def test_a_watch_limit_comes_with_the_line_that_raises_it(tmp_path: Path, look: Look) -> None:
    reason = "the system's limit for watched folders is reached; raise the limit with: sudo sysctl x=1"
    (found,) = look(Looked(tmp_path, watch=SimpleNamespace(mode="polling", reason=reason)))
    assert (found.severity, found.remedy) == ("warning", "sudo sysctl x=1")


def test_a_watcher_without_proof_is_doubted(tmp_path: Path, look: Look) -> None:
    indexer = Looked(tmp_path)
    indexer.watcher.doubtful = True
    assert kinds(look(indexer)) == ["canary_failed"]


def test_notes_in_a_language_that_the_model_does_not_know_suggest_another_one(tmp_path: Path, look: Look) -> None:
    assert kinds(look(Looked(tmp_path, (ENGLISH,) * 9 + (GERMAN,)))) == []
    (found,) = look(Looked(tmp_path, (ENGLISH,) * 3 + (GERMAN,) * 2))
    assert "40%" in found.message
    assert "German" in found.message
    assert found.remedy == "wikid models use multilingual"


def test_what_was_never_finished_beside_the_index_is_told_once_it_is_old(tmp_path: Path, look: Look) -> None:
    indexer = Looked(tmp_path)
    left = indexer.vault.state / "staging-1"
    left.mkdir()
    assert kinds(look(indexer)) == []
    os.utime(left, (1, 1))
    assert kinds(look(indexer)) == ["staging_left"]


def lock(path: Path, **changes: Any) -> None:
    """A lock that this process holds for an hour, with `changes` of its record."""
    EventLock(path, "somebody").acquire(1.0)
    path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), **changes}))
    os.utime(path, (1, 1))


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, ["event_lock_held"]),
        ({"host": "elsewhere"}, ["event_lock_held"]),
        ({"boot_id": "another"}, []),
        ({"pid": "none"}, ["event_lock_unreadable"]),
    ],
)
def test_a_lock_that_nobody_takes_over_by_itself_is_told(
    changes: dict[str, Any], found: list[str], tmp_path: Path, look: Look
) -> None:
    indexer = Looked(tmp_path)
    indexer.vault = replace(indexer.vault, meta=tmp_path)
    lock(tmp_path / "events.lock", **changes)
    assert kinds(look(indexer)) == found


def test_a_log_that_cannot_be_read_is_told_with_the_way_to_take_note_of_it(tmp_path: Path, look: Look) -> None:
    indexer = Looked(tmp_path)
    indexer.vault = replace(indexer.vault, meta=tmp_path)
    (tmp_path / "events.jsonl").write_text('{"kind":"recall_feedback","timestamp":"2026-01-01T00:00:00Z"}\nnot JSON\n')
    (found,) = look(indexer)
    assert found.kind == "events_malformed"
    assert "wikid events --acknowledge --vault 'my notes'" in found.remedy


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch, own: Folders, tmp_path: Path) -> Iterator[FakeDaemon]:
    monkeypatch.delenv("COLUMNS", raising=False)
    for name, place in (("CONFIG", own.config), ("STATE", own.state), ("CACHE", own.cache)):
        (place / "wikid").mkdir()
        monkeypatch.setenv(f"XDG_{name}_HOME", str(place))
    monkeypatch.setenv("HOME", str(tmp_path))
    pong = r.Pong(version=__version__, pid=1)
    with FakeDaemon({"ping": pong, "doctor": r.DoctorReport(checked=("disk",))}) as running:
        running.endpoint.chmod(0o600)
        monkeypatch.setenv("WIKID_SOCKET", str(running.endpoint))
        yield running


ABSENT = r.DoctorFinding(severity="warning", kind="model_absent", message="no model", remedy="build it", fix=True)
DAMAGED = r.DoctorFinding(
    severity="error", kind="index_damaged", message="broken", fix=True, vault="notes", vault_id="id-1"
)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["doctor", *words])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.usefixtures("daemon")
def test_nothing_wrong_is_exit_0(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys)
    assert (code, out.splitlines()[0]) == (0, "✓ Nothing is wrong.")
    assert "disk" in out


@pytest.mark.parametrize(("severity", "code"), [("error", 1), ("warning", 1), ("info", 0)])
def test_an_error_or_a_warning_is_exit_1(
    severity: Any, code: int, daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    found = r.DoctorFinding(severity=severity, kind="k", message="something", remedy="do that", vault="notes")
    daemon.answers["doctor"] = r.DoctorReport(findings=(found,))
    told = run(capsys)
    assert told[0] == code
    assert "notes: something\n  → do that\n" in told[1]


def test_a_vault_that_is_named_is_told_of_alone(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    other = replace(DAMAGED, vault="other", vault_id="o")
    daemon.answers["doctor"] = r.DoctorReport(findings=(DAMAGED, other, ABSENT))
    found = orjson.loads(run(capsys, "--vault", "o", "--json")[1])["findings"]
    assert [(each["kind"], each["vault"]) for each in found] == [("index_damaged", "other"), ("model_absent", None)]


def test_a_daemon_of_another_version_is_told_and_restarted(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answers["ping"] = r.Pong(version=OLDER, pid=1)
    assert "version_differs" in run(capsys, "--json")[1]

    def start_daemon(_path: Path, connect: Any, _deadline: float) -> Any:
        daemon.answers["ping"] = r.Pong(version=__version__, pid=2)
        daemon.start()
        daemon.endpoint.chmod(0o600)
        return connect()

    monkeypatch.setattr(launch, "start_daemon", start_daemon)
    code, out, _ = run(capsys, "--fix")
    assert (code, out.splitlines()[0]) == (0, f"✓ the daemon was started again, as wikid {__version__}")


def test_an_older_daemon_that_has_no_doctor_is_helped_out(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["doctor"] = RequestRefused("method_not_found", "no such method")
    code, out, _ = run(capsys, "--json")
    found = orjson.loads(out)["findings"]
    assert code == 1
    assert [each["kind"] for each in found] == ["daemon_not_asked", "model_absent"]


def test_fix_does_what_is_safe_and_says_so(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    def build(_: dict[str, Any]) -> r.ModelRecord:
        daemon.answers["doctor"] = r.DoctorReport()
        return r.ModelRecord(name="m", purpose="embedder", state="ready")

    daemon.answers |= {
        "doctor": r.DoctorReport(findings=(ABSENT, DAMAGED)),
        "models/build": build,
        "index/reindex": RequestRefused("busy", "not now", hint="later"),
    }
    code, out, _ = run(capsys, "--fix", "--json")
    report = orjson.loads(out)
    assert (code, report["findings"]) == (0, [])
    fixed = {each["kind"]: (each["done"], each["vault"], each["message"]) for each in report["fixed"]}
    assert fixed == {
        "model_absent": (True, None, "the model m is built"),
        "index_damaged": (False, "notes", "not now; later"),
    }
    (sent,) = (params for name, params in daemon.calls if name == "index/reindex")
    assert (sent["vault"], sent["scope"], sent["force"]) == ("id-1", "all", True)
    assert sent["components"] == ["lexical"]


@pytest.mark.parametrize(
    ("remedy", "built"),
    [("wikid models build", "all-minilm-l6-v2"), ("wikid models build multilingual-e5-small", "multilingual-e5-small")],
)
def test_fix_builds_the_model_that_is_asked_for(
    remedy: str, built: str, daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers |= {
        "doctor": r.DoctorReport(findings=(replace(ABSENT, remedy=remedy),)),
        "models/build": r.ModelRecord(name=built, purpose="embedder", state="ready"),
    }
    run(capsys, "--fix")
    assert [params["name"] for name, params in daemon.calls if name == "models/build"] == [built]


def test_without_fix_nothing_is_touched(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["doctor"] = r.DoctorReport(findings=(ABSENT, DAMAGED))
    code, out, _ = run(capsys)
    assert code == 1
    assert "2 of these are put right by: wikid doctor --fix" in out
    assert {name for name, _ in daemon.calls} == {"ping", "doctor"}


def test_socket_and_folder_are_put_right_without_a_daemon(runtime: Path) -> None:
    runtime.mkdir()
    runtime.chmod(0o755)
    path = runtime / "wikid.sock"
    bound(path)
    console = Console(out=io.StringIO(), err=io.StringIO(), width=80, colour=False, bars=False)
    repairer = Repairer(path, start=False, console=console)
    assert [each.done for each in repairer.repaired(endpoint_findings(path))] == [True]
    assert runtime.stat().st_mode & 0o777 == 0o700
    path.chmod(0o666)
    assert [each.done for each in repairer.repaired(endpoint_findings(path))] == [True]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.done for each in repairer.repaired(checks.endpoint(path))] == [True]
    assert not path.exists()


def test_nothing_is_started_where_that_was_forbidden(tmp_path: Path) -> None:
    console = Console(out=io.StringIO(), err=io.StringIO(), width=80, colour=False, bars=False)
    repairer = Repairer(tmp_path / "none.sock", start=False, console=console)
    assert [(each.kind, each.done) for each in repairer.repaired([ABSENT])] == [("model_absent", False)]


def test_what_is_wrong_is_summed_up_for_a_person() -> None:
    text = plain(report(r.DoctorReport(findings=(DAMAGED, ABSENT, ABSENT), checked=("a", "b")), 80))
    assert "1 error and 2 warnings\n" in text
    assert text.endswith("looked at: a, b\n")
    assert "\x1b" not in plain(report(r.DoctorReport(findings=(r.DoctorFinding(
        severity="info", kind="k", message="\x1b[2J", remedy="\x1b[2J", vault="\x1b[2J"),)), 80))  # fmt: skip
