"""wikid as a service: what is written for each manager, what is left alone, and the sockets that managers pass on."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import plistlib
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from wikid_client import cli
from wikid_client.commands import service
from wikid_client.layout.spans import plain
from wikid_client.services import agent, carrying, marking, plans, task, units
from wikid_client.services.reports import CommandReport, ServiceRefused, ServiceReport
from wikid_client.services.telling import lines
from wikid_daemon import launchd, systemd
from wikid_daemon.instance import AlreadyRunning, Instance
from wikid_protocol.endpoint import socket_path

ROOT = Path(__file__).parents[2]
ANALYZE = shutil.which("systemd-analyze")
needs_analyze = pytest.mark.skipif(ANALYZE is None, reason="NOT CHECKED: systemd-analyze is not here")
posix = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets and permissions")
# a program of a user who thinks of everything
AWKWARD = '/home/ä b/100% "wikid"/$bin/wiki\\d'


def setting(home: Path, **environment: str) -> plans.Setting:
    return plans.Setting(
        ("/opt/wikid/bin/wikid",),
        "/opt/wikid/bin/python",
        home / "run" / "wikid" / "wikid.sock",
        {"HOME": str(home), **environment},
        "501",
    )


class FakeManager:
    """Takes note of what it is told, and is what the commands make of it."""

    def __init__(self, *, there: bool = True) -> None:
        self.there, self.holds = there, False
        self.told: list[tuple[str, ...]] = []
        self.refuses: tuple[str, ...] = ()

    def __call__(self, command: plans.Command) -> CommandReport:
        words = command[2:] if command[0] == "systemctl" else command[1:]
        if not self.there:
            return CommandReport(" ".join(command), 1, "no bus")
        if "is-enabled" in words or "is-active" in words:
            return CommandReport(" ".join(command), 0 if self.holds else 3)
        if words[0] != "show-environment":
            self.told.append(words)
        if words[0] in self.refuses:
            return CommandReport(" ".join(command), 1, "refused")
        if words[0] in ("enable", "disable"):
            self.holds = words[0] == "enable"
        return CommandReport(" ".join(command), 0)


@pytest.fixture(autouse=True)
def managers_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program a manager has and a service runs is there; none of them is ever run."""
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")


@pytest.fixture
def plan(tmp_path: Path) -> plans.Plan:
    return plans.plan("systemd", setting(tmp_path))


def states(report: ServiceReport) -> list[str]:
    return [each.state for each in report.files]


def done(report: ServiceReport) -> list[str]:
    return [each.done for each in report.files]


# -- what is written ---------------------------------------------------------------------------------------------------


def test_the_units_in_the_repository_are_those_that_install_writes() -> None:
    written = (ROOT / "systemd" / units.SOCKET_UNIT).read_text()
    assert "\n".join(line for line in written.split("\n") if not line.startswith("#")) == units.socket_unit(
        "%t/wikid/wikid.sock"
    )
    assert (ROOT / "systemd" / units.SERVICE_UNIT).read_text() == units.service_unit("%h/.local/bin/wikid serve")
    job = plistlib.loads((ROOT / "launchd" / f"{agent.LABEL}.plist").read_bytes())
    assert job == plistlib.loads(agent.agent(job["ProgramArguments"]).encode())


def test_units_go_where_systemd_looks_and_run_the_wikid_in_use(tmp_path: Path) -> None:
    config = tmp_path / "elsewhere"
    found = plans.plan("systemd", setting(tmp_path, XDG_CONFIG_HOME=str(config), JAVA_HOME="/opt/jdk 25", EDITOR="vi"))
    assert [each.path for each in found.files] == [
        config / "systemd/user/wikid.socket",
        config / "systemd/user/wikid.service",
    ]
    sock, service = (each.text for each in found.files)
    assert f"ListenStream={tmp_path}/run/wikid/wikid.sock\n" in sock
    assert "ExecStart=/opt/wikid/bin/wikid serve\n" in service
    assert f"Environment=XDG_CONFIG_HOME={config}\n" in service
    assert 'Environment="JAVA_HOME=/opt/jdk 25"\n' in service
    assert "EDITOR" not in service


def test_a_java_daemon_that_reads_notes_anywhere_is_not_hardened_out_of_it() -> None:
    service = units.service_unit("wikid serve")
    for needs_root_or_breaks in ("MemoryDenyWriteExecute", "Protect", "Private", "ReadOnlyPaths", "Capability"):
        assert needs_root_or_breaks not in service


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")) | st.just(" "), min_size=1), min_size=1
    )
)
def test_any_command_is_read_back_from_a_unit_as_it_was_written(words: list[str]) -> None:
    assert units.command_of(units.service_unit(units.written_command(words))) == words


def test_launchd_gets_a_private_socket_and_whole_paths(tmp_path: Path) -> None:
    found = plans.plan("launchd", setting(tmp_path, WIKID_MODEL_DIR="/models & more"))
    (file,) = found.files
    assert file.path == tmp_path / "Library/LaunchAgents/dev.wikid.daemon.plist"
    job = plistlib.loads(file.text.encode())
    assert job["ProgramArguments"] == ["/opt/wikid/bin/wikid", "serve"]
    assert job["Sockets"] == {
        launchd.SOCKET_NAME: {
            "SockType": "stream",
            "SockPathName": str(tmp_path / "run/wikid/wikid.sock"),
            "SockPathMode": 0o600,
        }
    }
    assert job["EnvironmentVariables"] == {"WIKID_MODEL_DIR": "/models & more"}
    assert job["KeepAlive"] == {"SuccessfulExit": False}
    assert found.start[-1] == ("launchctl", "bootstrap", "gui/501", str(file.path))


def test_windows_gets_a_task_at_logon_with_its_users_rights_and_no_window(tmp_path: Path) -> None:
    user, python = "DESK\\Ada & Co", "C:\\wikid tools\\Scripts\\python.exe"
    found = plans.plan("windows", plans.Setting(("x",), python, Path("p"), {"LOCALAPPDATA": str(tmp_path)}, user))
    (file,) = found.files
    name = {"t": "http://schemas.microsoft.com/windows/2004/02/mit/task"}
    read = ElementTree.fromstring(file.text.encode(file.encoding))
    assert read.findtext(".//t:LogonTrigger/t:UserId", namespaces=name) == user
    assert read.findtext(".//t:RunLevel", namespaces=name) == "LeastPrivilege"
    assert read.findtext(".//t:Command", namespaces=name) == "C:\\wikid tools\\Scripts\\pythonw.exe"
    assert read.findtext(".//t:Arguments", namespaces=name) == "-P -m wikid_daemon"
    assert read.findtext(".//t:ExecutionTimeLimit", namespaces=name) == "PT0S"
    assert found.start[0] == ("schtasks", "/Create", "/TN", task.TASK, "/XML", str(file.path), "/F")
    assert plans.command_in("windows", file.text) == ["C:\\wikid tools\\Scripts\\pythonw.exe", "-P -m wikid_daemon"]


@pytest.mark.parametrize("name", ['wi"kid', "wi'kid", "wi\\kid"])
def test_a_program_that_systemd_would_refuse_is_refused_first(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(service, "_words", lambda: (f"/home/me/{name}",))
    assert cli.main(["service", "print", "--kind", "systemd"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "systemd" in said.err
    assert cli.main(["service", "print", "--kind", "launchd"]) == 0


@needs_analyze
@posix
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    program = tmp_path / "a b" / "100%" / "wikid"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    found = plans.plan(
        "systemd",
        plans.Setting(
            (str(program),),
            "python",
            tmp_path / "run" / "w.sock",
            {"HOME": str(tmp_path), "JAVA_HOME": 'a"b\\$c %d'},
            "",
        ),
    )
    for each in found.files:
        (tmp_path / each.path.name).write_text(each.text)
    checked = subprocess.run(
        [str(ANALYZE), "verify", "--user", "--man=no", *(str(tmp_path / each.path.name) for each in found.files)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


# -- whose file it is --------------------------------------------------------------------------------------------------


@given(st.sampled_from([units.service_unit("wikid serve"), agent.agent(["wikid"]), task.logon_task(["w", "x"], "u")]))
def test_a_written_file_is_known_again_and_so_is_an_edit(text: str) -> None:
    written = marking.marked(text)
    assert marking.origin(written) == "ours"
    assert marking.origin(text) == "foreign"
    assert marking.origin(written + "\n") == "edited"
    assert marking.origin(written.replace("wikid", "wikid2", 1)) != "ours"


def test_install_writes_once_and_then_finds_nothing_to_do(plan: plans.Plan) -> None:
    manager = FakeManager()
    first = carrying.install(plan, run=manager)
    assert (first.ok, states(first), done(first)) == (True, ["absent"] * 2, ["written"] * 2)
    assert manager.told == [("daemon-reload",), ("enable", "--now", "wikid.socket")]
    assert [each.path.read_text() for each in plan.files] == [each.text for each in plan.files]
    again = carrying.install(plan, run=manager)
    assert (again.ok, states(again), done(again), again.commands) == (True, ["current"] * 2, ["", ""], ())
    assert carrying.status(plan, run=manager).ok
    assert sorted(each.name for each in plan.files[0].path.parent.iterdir()) == ["wikid.service", "wikid.socket"]


def test_a_dry_run_changes_nothing(plan: plans.Plan, tmp_path: Path) -> None:
    manager = FakeManager()
    report = carrying.install(plan, dry_run=True, run=manager)
    assert (report.ok, done(report), manager.told) == (True, ["written"] * 2, [])
    assert [each.command for each in report.commands] == [
        "systemctl --user daemon-reload",
        "systemctl --user enable --now wikid.socket",
    ]
    assert list(tmp_path.iterdir()) == []


def test_another_wikid_is_told_as_such_and_install_moves_the_service_over(plan: plans.Plan, tmp_path: Path) -> None:
    manager = FakeManager()
    carrying.install(plan, run=manager)
    newer = plans.plan(
        "systemd", plans.Setting(("/new/wikid",), "", tmp_path / "run/wikid/wikid.sock", {"HOME": str(tmp_path)}, "")
    )
    seen = carrying.status(newer, run=manager)
    assert (seen.ok, states(seen), seen.command) == (False, ["current", "outdated"], "/opt/wikid/bin/wikid serve")
    assert "wikid service install" in seen.hint
    manager.told.clear()
    moved = carrying.install(newer, run=manager)
    assert (moved.ok, done(moved)) == (True, ["", "written"])
    assert manager.told == [
        ("disable", "--now", "wikid.socket", "wikid.service"),
        ("daemon-reload",),
        ("enable", "--now", "wikid.socket"),
    ]


@pytest.mark.parametrize("text", ["[Service]\nExecStart=/mine\n", None], ids=["foreign", "edited"])
def test_what_a_person_wrote_is_neither_overwritten_nor_removed(plan: plans.Plan, text: str | None) -> None:
    manager = FakeManager()
    carrying.install(plan, run=manager)
    service = plan.files[1]
    mine = service.text.replace("WatchdogSec=60", "WatchdogSec=10") if text is None else text
    service.path.write_text(mine)
    with pytest.raises(ServiceRefused, match=r"wikid\.service was"):
        carrying.install(plan, run=manager)
    left = carrying.uninstall(plan, run=manager)
    assert (left.ok, done(left)) == (False, ["removed", "kept"])
    assert service.path.read_text() == mine
    assert carrying.install(plan, force=True, run=manager).ok
    assert service.path.read_text() == service.text
    service.path.write_text(mine)
    assert carrying.uninstall(plan, force=True, run=manager).ok
    assert not service.path.exists()


def test_nothing_is_done_to_a_service_that_is_not_wikids(plan: plans.Plan) -> None:
    manager = FakeManager()
    for each in plan.files:
        each.path.parent.mkdir(parents=True, exist_ok=True)
        each.path.write_text("[Unit]\n")
    assert done(carrying.uninstall(plan, run=manager)) == ["kept", "kept"]
    assert manager.told == []


def test_uninstall_ends_the_service_before_its_files_go(plan: plans.Plan) -> None:
    manager = FakeManager()
    carrying.install(plan, run=manager)
    manager.told.clear()
    report = carrying.uninstall(plan, run=manager)
    assert (report.ok, done(report)) == (True, ["removed", "removed"])
    assert manager.told == [("disable", "--now", "wikid.socket", "wikid.service"), ("daemon-reload",)]
    assert carrying.uninstall(plan, run=manager).ok


# -- managers that are not there, or say no ----------------------------------------------------------------------------


def test_without_a_manager_the_files_are_written_and_the_rest_is_said(plan: plans.Plan) -> None:
    def never() -> str:
        raise AssertionError("the daemon that runs is all there is")

    report = carrying.install(plan, make_way=never, run=FakeManager(there=False))
    assert (report.ok, report.enabled, report.active, done(report)) == (False, None, None, ["written"] * 2)
    assert [each.exit_code for each in report.commands] == [None, None]
    assert "systemctl --user daemon-reload && systemctl --user enable --now wikid.socket" in report.hint


def test_a_manager_that_refuses_is_quoted(plan: plans.Plan) -> None:
    manager = FakeManager()
    manager.refuses = ("daemon-reload",)
    report = carrying.install(plan, run=manager)
    assert not report.ok
    assert [each.exit_code for each in report.commands] == [1, None]
    assert "refused" in report.hint


def test_a_manager_that_does_not_let_go_keeps_the_files(plan: plans.Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "_REFUSED_SECONDS", 0.0)
    manager = FakeManager()
    carrying.install(plan, run=manager)
    manager.refuses = ("disable",)
    report = carrying.uninstall(plan, run=manager)
    assert (report.ok, done(report)) == (False, ["kept", "kept"])
    assert [each.exit_code for each in report.commands] == [1, None]
    assert "refused" in report.hint
    assert all(each.path.exists() for each in plan.files)
    assert "still starts wikid" in plain(lines(report, 80))
    manager.refuses = ()
    assert carrying.uninstall(plan, run=manager).ok


def test_what_has_ended_already_does_not_keep_the_files(plan: plans.Plan) -> None:
    manager = FakeManager()
    carrying.install(plan, run=manager)
    manager.refuses, manager.holds = ("disable",), False
    report = carrying.uninstall(plan, run=manager)
    assert (report.ok, done(report)) == (True, ["removed", "removed"])


def test_a_daemon_that_nobody_manages_makes_way_before_the_socket_is_held(plan: plans.Plan) -> None:
    manager = FakeManager()

    def make_way() -> str:
        assert not manager.holds
        return "it has stopped"

    assert carrying.install(plan, make_way=make_way, run=manager).notes == ("it has stopped",)
    assert carrying.install(plan, make_way=make_way, run=manager).notes == ()


def test_a_folder_that_cannot_be_written_is_an_error_with_a_hint(plan: plans.Plan) -> None:
    plan.files[0].path.parent.parent.mkdir(parents=True)
    plan.files[0].path.parent.write_text("a file in the way")
    with pytest.raises(ServiceRefused, match="cannot change") as refused:
        carrying.install(plan, run=FakeManager())
    assert refused.value.hint


def test_a_command_that_is_not_there_is_a_report_not_a_crash() -> None:
    assert carrying.run(("/nonexistent/systemctl",)).exit_code == 127
    assert carrying.run((sys.executable, "-c", "print('said'); raise SystemExit(4)")) == CommandReport(
        f"{sys.executable} -c 'print('\"'\"'said'\"'\"'); raise SystemExit(4)'", 4, "said"
    )


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture
def wikid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs `wikid service …` without any service manager."""
    monkeypatch.setattr(shutil, "which", lambda name: name if os.path.isabs(name) else None)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    for name in ("WIKID_SOCKET", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["service", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.mark.skipif(sys.platform != "linux", reason="systemd's folders")
def test_the_command_installs_reports_and_uninstalls(wikid: Callable[..., Any], tmp_path: Path) -> None:
    code, out, _ = wikid("install", "--json")
    report = json.loads(out)
    assert (code, report["kind"], report["enabled"], report["ok"]) == (1, "systemd", None, False)
    folder = tmp_path / ".config" / "systemd" / "user"
    assert f"ListenStream={socket_path()}\n" in (folder / "wikid.socket").read_text()
    (program, verb) = units.command_of((folder / "wikid.service").read_text())
    assert (Path(program), verb) == (Path(sys.executable).with_name("wikid"), "serve")
    code, out, _ = wikid("status")
    assert code == 1
    assert "does not answer here" in " ".join(out.split())
    code, out, _ = wikid("uninstall")
    assert (code, list(folder.iterdir())) == (1, [])
    assert "removed" in out
    assert "not run systemctl --user disable --now" in " ".join(out.split())
    assert "no longer starts" not in out
    code, out, _ = wikid("uninstall")
    assert (code, out.splitlines()[0]) == (0, "wikid is no service here.")


@pytest.mark.parametrize("kind", plans.KINDS)
def test_print_shows_the_files_of_any_manager_and_writes_none(
    wikid: Callable[..., Any], tmp_path: Path, kind: plans.Kind
) -> None:
    code, out, err = wikid("print", "--kind", kind)
    assert code == 0
    assert "wikid service install" in out
    assert str(tmp_path) in err
    files = json.loads(wikid("print", "--kind", kind, "--json")[1])["files"]
    assert "\n".join(each["text"] for each in files) == out
    assert list(tmp_path.iterdir()) == []


# -- the daemon's side: sockets that are passed on ---------------------------------------------------------------------


class FakeLibrary:
    """libSystem as far as launchd.py needs it: hands out `descriptors`, or answers with `problem`."""

    def __init__(self, descriptors: list[int], problem: int = 0) -> None:
        self.freed = 0
        self.asked: list[bytes] = []
        self._array = (ctypes.c_int * len(descriptors))(*descriptors)

        def activate(name: bytes, found: Any, count: Any) -> int:
            self.asked.append(name)
            if not problem:
                found._obj.contents = self._array
                count._obj.value = len(descriptors)
            return problem

        def release(_found: Any) -> None:
            self.freed += 1

        self.launch_activate_socket, self.free = activate, release


MANAGED = {"XPC_SERVICE_NAME": agent.LABEL}


@posix
def test_the_daemon_takes_the_socket_that_launchd_holds(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "w"))
    listener.listen()
    library = FakeLibrary([listener.detach(), os.open(os.devnull, os.O_RDONLY)])
    taken = launchd.inherited_listener(MANAGED, platform="darwin", load=lambda _: library)
    assert taken is not None
    with taken:
        assert taken.getsockname() == str(tmp_path / "w")
        assert not taken.get_inheritable()
    assert library.asked == [agent.SOCKET_NAME.encode()]
    assert library.freed == 1


@pytest.mark.parametrize("problem", [errno.ENOENT, errno.ESRCH])
def test_a_job_without_a_socket_makes_its_own(problem: int) -> None:
    assert launchd.inherited_listener(MANAGED, platform="darwin", load=lambda _: FakeLibrary([], problem)) is None


@posix
def test_what_launchd_will_not_give_or_gives_wrongly_is_an_error() -> None:
    with pytest.raises(OSError) as refused:
        launchd.inherited_listener(MANAGED, platform="darwin", load=lambda _: FakeLibrary([], errno.EALREADY))
    assert refused.value.errno == errno.EALREADY
    other = FakeLibrary([socket.socket(socket.AF_INET).detach()])
    with pytest.raises(OSError, match="not a Unix stream"):
        launchd.inherited_listener(MANAGED, platform="darwin", load=lambda _: other)


@pytest.mark.parametrize(
    ("platform", "env"), [("linux", MANAGED), ("darwin", {}), ("darwin", {"XPC_SERVICE_NAME": "0"})]
)
def test_launchd_is_not_asked_by_processes_that_it_did_not_start(platform: str, env: dict[str, str]) -> None:
    def never(_name: str | None) -> Any:
        raise AssertionError("asked")

    assert launchd.inherited_listener(env, platform=platform, load=never) is None


@posix
def test_a_notification_that_nobody_takes_keeps_nobody_from_serving(tmp_path: Path) -> None:
    systemd.notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "gone")})


# -- the daemon's side: a service beside a daemon that nobody manages --------------------------------------------------


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    (tmp_path / "run").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as found:
        found.bind(str(tmp_path / "run" / "w.sock"))
        found.listen()
        yield found


HOLDER = """
import signal, sys
from pathlib import Path
from wikid_daemon.instance import Instance
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[2] == "stubborn" else lambda *_: sys.exit(7))
instance = Instance.claim(Path(sys.argv[1]) / "run" / "w.sock", Path(sys.argv[1]) / "state")
print("claimed", flush=True)
signal.pause()
"""


def holder(folder: Path, how: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder), how], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"claimed\n"
    process.stdout.close()
    return process


@posix
def test_a_daemon_whose_place_a_service_took_is_asked_to_stop(tmp_path: Path, listener: socket.socket) -> None:
    process = holder(tmp_path, "civil")
    with capture_logs() as logged:
        instance = Instance.claim(tmp_path / "run" / "w.sock", tmp_path / "state", inherited=listener)
    assert process.wait(30) == 7
    instance.release()
    assert [(each["log_level"], each["pid"]) for each in logged] == [("warning", process.pid)]


@posix
def test_one_that_does_not_stop_is_named(tmp_path: Path, listener: socket.socket) -> None:
    process = holder(tmp_path, "stubborn")
    try:
        with pytest.raises(AlreadyRunning, match=f"kill -9 {process.pid}") as refused:
            Instance.claim(tmp_path / "run" / "w.sock", tmp_path / "state", inherited=listener, wait_s=0.2)
        assert (refused.value.holder, process.poll()) == (process.pid, None)
    finally:
        process.kill()
        process.wait()


@posix
def test_no_process_is_told_to_stop_by_a_daemon_without_a_service(tmp_path: Path) -> None:
    process = holder(tmp_path, "civil")
    try:
        with pytest.raises(AlreadyRunning):
            Instance.claim(tmp_path / "run" / "w.sock", tmp_path / "state", wait_s=0)
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@posix
def test_a_services_socket_file_is_never_removed_but_missed(tmp_path: Path, listener: socket.socket) -> None:
    endpoint = tmp_path / "run" / "w.sock"
    instance = Instance.claim(endpoint, tmp_path / "state", inherited=listener)
    assert instance.listen() is listener
    assert not instance.lost()
    endpoint.unlink()
    assert instance.lost()
    with instance.listen_again():
        assert not instance.lost()
        assert stat.S_IMODE(endpoint.stat().st_mode) == 0o600
        instance.release()
    assert not endpoint.exists(), "the file it made itself"
