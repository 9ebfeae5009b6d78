"""The `wikid` command against the real daemon: starting it, exit codes, and the shapes of `--json`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from builders import HANG_GUARD_SECONDS, base_notes, until, write
from daemon_process import WIKID, DaemonProcess
from wikid_client import DaemonNotRunning
from wikid_client.client import Client


class Commands:
    """A world without a daemon, in which commands may start one."""

    def __init__(self, process: DaemonProcess) -> None:
        self._process = process
        self.home = process.home
        self.endpoint = process.endpoint
        self.env = process.env

    def run(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return self._process.wikid(*arguments, cwd=cwd)

    def json(self, *arguments: str, code: int = 0) -> Any:
        done = self.run(*arguments, "--json")
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def daemons(self) -> list[int]:
        """The pids of the daemons of this world, by their environment."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                command = (entry / "cmdline").read_bytes()
                environ = (entry / "environ").read_bytes()
            except OSError:
                continue
            if b"wikid_daemon" in command and os.fsencode(f"WIKID_SOCKET={self.endpoint}") in environ.split(b"\0"):
                found.append(int(entry.name))
        return found

    def stop(self) -> None:
        with Client(endpoint=self.endpoint, start=False) as client:
            try:
                pid = client.ping().pid
                client.shutdown()
            except DaemonNotRunning:
                return
        until(lambda: not Path(f"/proc/{pid}").exists(), "the daemon's end")


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    process = DaemonProcess(tmp_path / "home")
    found = Commands(process)
    yield found
    found.stop()
    process.discard()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """A daemon that a command started, with a vault that a command registered."""
    home = tmp_path_factory.mktemp("commands")
    process = DaemonProcess(home / "home")
    found = Commands(process)
    base_notes(home / "notes", 4)
    write(home / "notes", "tricky.md", "---\ntitle: Tricky\n---\n# Tricky\n\n## First\n\none\n\n## Second\n\ntwo\n")
    try:
        added = found.run("vault", "add", str(home / "notes"), "--name", "notes")
        assert added.returncode == 0, added.stderr
        assert found.run("sync", "--vault", "notes").returncode == 0
        yield found
    finally:
        found.stop()
        process.discard()


# -- T32: one daemon, whoever starts it --------------------------------------------------------------------------------


def at_once(commands: Commands, count: int = 6) -> list[subprocess.CompletedProcess[str]]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: commands.run("status", "--json"), range(count)))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="counts daemons in /proc")
@pytest.mark.parametrize("before", ["nothing", "a stale socket"])
def test_t32_six_commands_at_once_start_one_daemon_and_all_answer(commands: Commands, before: str) -> None:
    if before == "a stale socket":
        with socket.socket(socket.AF_UNIX) as left_over:
            left_over.bind(str(commands.endpoint))
    answers = at_once(commands)
    assert [each.returncode for each in answers] == [0] * 6, [each.stderr for each in answers]
    pids = {json.loads(each.stdout)["daemon"]["pid"] for each in answers}
    assert len(pids) == 1
    until(lambda: set(commands.daemons()) == pids, "the other daemons leaving")


def test_t32_a_regular_file_in_the_sockets_place_is_refused_and_kept(commands: Commands) -> None:
    commands.endpoint.write_text("precious")
    done = commands.run("status")
    assert done.returncode == 3
    assert "not a socket" in done.stderr
    assert commands.endpoint.read_text() == "precious"
    commands.endpoint.unlink()


def test_t32_a_runtime_folder_with_a_long_path_works(tmp_path: Path) -> None:
    process = DaemonProcess(tmp_path / "home")
    long = tmp_path / ("r" * 80) / ("u" * 80)
    del process.env["WIKID_SOCKET"]
    process.env["XDG_RUNTIME_DIR"] = str(long)
    started = process.wikid("start", "--json")
    assert started.returncode == 0, started.stderr
    assert json.loads(process.wikid("status", "--json").stdout)["daemon"]["pid"] == json.loads(started.stdout)["pid"]
    assert process.wikid("stop").returncode == 0
    assert process.wikid("status", "--no-start").returncode == 3
    process.discard()


# -- starting and stopping ---------------------------------------------------------------------------------------------


def test_no_start_means_no_start(commands: Commands) -> None:
    done = commands.run("status", "--no-start")
    assert done.returncode == 3
    assert "wikid start" in done.stderr
    assert not commands.endpoint.exists()


def test_start_stop_and_restart(commands: Commands) -> None:
    first = commands.json("start")["pid"]
    assert commands.json("start")["pid"] == first
    second = commands.json("restart")["pid"]
    assert second != first
    assert commands.json("stop")["was_running"] is True
    assert commands.json("stop")["was_running"] is False
    assert not commands.endpoint.exists()


def test_after_a_kill_the_next_command_starts_anew_and_knows_the_vault(commands: Commands, tmp_path: Path) -> None:
    base_notes(tmp_path / "notes", 3)
    commands.json("vault", "add", str(tmp_path / "notes"))
    commands.run("sync", "--vault", "notes")
    os.kill(commands.json("status")["daemon"]["pid"], signal.SIGKILL)
    assert commands.run("sync", "--vault", "notes").returncode == 0
    found = commands.json("recall", "tok02zebra", "--vault", "notes", "--mode", "lexical")
    assert found["bundles"][0]["card"]["page_id"] == "n02"


# -- answers -----------------------------------------------------------------------------------------------------------


def test_recall_is_text_for_people_and_the_wires_object_for_scripts(world: Commands) -> None:
    text = world.run("recall", "tok03zebra", "--vault", "notes")
    assert text.returncode == 0
    assert "Note 3" in text.stdout
    assert "\x1b" not in text.stdout
    answer = world.json("recall", "tok03zebra", "--vault", "notes")
    assert answer["bundles"][0]["card"]["page_id"] == "n03"
    context = world.run("recall", "tok03zebra", "--vault", "notes", "--format", "context")
    assert "tok03zebra" in context.stdout


def test_an_empty_recall_is_done_not_a_failure(world: Commands) -> None:
    answer = world.json("recall", "xyzzyplugh", "--vault", "notes")
    assert (answer["bundles"], answer["reason"]) == ([], "no_reliable_memory")
    assert world.run("recall", "???", "--vault", "notes").returncode == 0


def test_recall_for_the_current_folder(world: Commands) -> None:
    done = world.run("recall", "tok03zebra", "--json", cwd=world.home.parent / "notes")
    found = json.loads(done.stdout)
    assert [(each["name"], each["layer"]) for each in found["vaults"]] == [("notes", "project")]


def test_search_and_show(world: Commands) -> None:
    found = world.json("search", "note 2", "--vault", "notes")
    assert [each["page_id"] for each in found["matches"]] == ["n02"]
    page = world.json("show", "notes:tricky", "--heading", "Second")
    assert (page["title"], page["text"].split()) == ("Tricky", ["##", "Second", "two"])
    refused = world.run("show", "notes:tricky", "--heading", "nosuch")
    assert (refused.returncode, "without a heading" in refused.stderr) == (1, True)
    assert "default: the topic" in world.run("vault", "init", "--help").stdout
    assert world.json("show", "tricky", "--vault", "notes")["text"].startswith("# Tricky")


def test_status_tells_what_is_there(world: Commands) -> None:
    status = world.json("status")
    (vault,) = status["vaults"]
    assert (vault["vault"]["name"], vault["pages"], vault["state"], vault["pending"]) == ("notes", 5, "ready", 0)
    assert "notes" in world.run("status").stdout


def test_reindex_counts_what_it_did(world: Commands) -> None:
    (report,) = world.json("reindex", "--vault", "notes", "--scope", "all", "--components", "lexical")["vaults"]
    assert (report["indexed"], report["removed"], report["updated"] + report["unchanged"]) == (0, 0, 5)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("recall", "x" * 2_001, "--vault", "notes"), 2, "2000"),
        (("recall", "tide", "--mode", "psychic", "--vault", "notes"), 2, "lexical, hybrid"),
        (("recall", "tide", "--vault", "nowhere"), 4, "notes"),
        (("show", "../../etc/passwd", "--vault", "notes"), 1, "inside the vault"),
        (("show", "nothing/here", "--vault", "notes"), 1, "wikid search"),
        (("vault", "add", "/no/such/folder"), 4, "does not exist"),
        (("vault", "add", "/etc/hostname"), 4, "not a folder"),
        (("vault", "remove", "nowhere"), 4, "notes"),
        (("nonsense",), 2, "nonsense"),
        (("recall",), 2, "QUERY"),
    ],
)
def test_refusals_say_what_to_do_and_have_their_exit_code(
    world: Commands, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = world.run(*arguments)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert done.stdout == ""


@pytest.fixture
def wiki(world: Commands, tmp_path: Path) -> Iterator[Path]:
    """A vault with a log of events, registered for one test."""
    made = world.json("vault", "init", str(tmp_path / "wiki"), "--topic", "Boats")
    yield tmp_path / "wiki"
    world.json("vault", "remove", made["vault_id"])


def test_what_is_watched_or_followed_ends_cleanly_by_an_interrupt(world: Commands, wiki: Path) -> None:
    for words in (("status", "--watch"), ("events", "--follow", "--cwd", str(wiki))):
        command = [str(WIKID), *words, "--json"]
        with subprocess.Popen(command, env=world.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            assert running.stdout is not None
            assert running.stderr is not None
            first = json.loads(running.stdout.readline())
            assert ("daemon" in first) == (words[0] == "status")
            running.send_signal(signal.SIGINT)
            assert running.stderr.read() == b""
            assert running.wait(HANG_GUARD_SECONDS) == 130


def test_followed_events_are_told_as_they_come(world: Commands, wiki: Path) -> None:
    command = [str(WIKID), "events", "--follow", "--json", "--cwd", str(wiki)]
    with subprocess.Popen(command, env=world.env, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        known = json.loads(running.stdout.readline())
        assert known["kind"] == "bootstrap"
        noted = world.run("observe", "Tides turn", "seen at noon", cwd=wiki)
        assert noted.returncode == 0, noted.stderr
        assert "kind" in json.loads(running.stdout.readline())
        running.send_signal(signal.SIGINT)


def test_a_reader_that_leaves_is_no_failure(world: Commands) -> None:
    line = f"'{WIKID}' --help | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=world.env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


def test_init_makes_a_vault_that_is_found_from_inside_it(world: Commands, tmp_path: Path) -> None:
    made = world.json("vault", "init", str(tmp_path / "new"), "--topic", "Boats")
    assert (made["kind"], made["topic"]) == ("wiki", "Boats")
    resolved = world.json("vault", "resolve", "--cwd", str(tmp_path / "new"))
    assert [each["name"] for each in resolved["vaults"]] == [made["name"]]
    assert world.run("vault", "init", str(tmp_path / "new"), "--topic", "Again").returncode == 1
    assert world.json("vault", "remove", made["name"])["vault_id"] == made["vault_id"]


def test_a_vault_whose_folder_is_gone_still_answers(commands: Commands, tmp_path: Path) -> None:
    root = tmp_path / "notes"
    base_notes(root, 2)
    commands.json("vault", "add", str(root))
    commands.run("sync", "--vault", "notes")
    root.rename(tmp_path / "away")
    answer = until(
        lambda: (found := commands.json("recall", "tok02zebra", "--vault", "notes"))["stale"] and found,
        "the answer being marked",
    )
    assert answer["bundles"][0]["card"]["page_id"] == "n02"


def test_nothing_of_notes_or_queries_is_in_the_log(world: Commands) -> None:
    world.run("recall", "tok01zebra", "secretquery", "--vault", "notes")
    logs = [path for path in (world.home / "xdg_state_home").rglob("*.log*") if path.is_file()]
    assert logs
    for path in logs:
        text = path.read_text(errors="replace")
        assert "zebra" not in text
        assert "secretquery" not in text
