"""The `wikid` command: its grammar, exit codes, and what it writes where."""

from __future__ import annotations

import importlib
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

import wikid_client
from builders import until
from wikid_client import Progress, cli, launch, progress
from wikid_client.commands import pages
from wikid_client.commands.screen import Screen
from wikid_client.console import Console
from wikid_client.layout.spans import row
from wikid_client.progress import PlainProgress, awaited
from wikid_client.testing import MARKER, FakeDaemon, in_turn, sample_item, sample_recall
from wikid_protocol import records as r
from wikid_protocol.errors import KINDS, RequestRefused

ROOT = Path(wikid_client.__file__).parents[2]
ANSWER = sample_recall(r.Bundle(card=sample_item(title="Größe · 数据")))
VAULT = r.VaultRecord(vault_id=r.VaultId("v"), name="notes", path="/notes", kind="plain")
REPORT = r.ReindexReport(
    vault_id=r.VaultId("v"),
    name="notes",
    collections=(),
    indexed=1,
    updated=0,
    unchanged=0,
    removed=0,
    needing=0,
    generated=0,
    skipped=0,
    versions={},
    elapsed_ms=5,
)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaemon]:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("WIKID_SESSION", raising=False)
    with FakeDaemon({"recall": ANSWER}) as running:
        monkeypatch.setenv("WIKID_SOCKET", str(running.endpoint))
        yield running


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    try:
        code = cli.main(words)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0
    out, err = capsys.readouterr()
    return code, out, err


def test_recall_prints_memories(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "recall", "how", "big")
    assert (code, err) == (0, "")
    assert out.startswith("1  Größe · 数据\n   personal:concepts/sample\n")
    [(_, params)] = daemon.calls
    assert params["query"] == "how big"
    assert params["cwd"] == os.getcwd()
    assert params["policy"] == "explicit"


def test_every_option_of_recall_reaches_the_daemon(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    words = "recall q --cwd /w --mode quality -n 3 --type a --type b --since 2026-01-01 --until 2026-02-01 --auto"
    run(capsys, *words.split(), "--explain", "--session", "s", "--vault", "work")
    assert daemon.calls[0][1] == {
        "query": "q",
        "cwd": "/w",
        "vault": "work",
        "policy": "automatic",
        "mode": "quality",
        "max_results": 3,
        "types": ["a", "b"],
        "since": "2026-01-01",
        "until": "2026-02-01",
        "session": "s",
        "explain": True,
    }


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("words", ["--json recall q", "recall q --json", "recall q --format json"])
def test_json_is_the_wire_s_result_on_one_line(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *words.split())
    assert code == 0
    assert out.encode() == orjson.dumps(ANSWER) + b"\n"


def test_flags_before_the_command_keep_their_values(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = os.environ["WIKID_SOCKET"]
    monkeypatch.setenv("WIKID_SOCKET", "/nowhere/wikid.sock")
    daemon.answers["vault/list"] = r.VaultList(vaults=(VAULT,))
    for words in (
        ("--socket", socket, "vault", "list", "--json"),
        ("vault", "--json", "--socket", socket, "list"),
        (f"--socket={socket}", "--json", "vault", "list"),
    ):
        code, out, _ = run(capsys, *words)
        assert (code, orjson.loads(out)["vaults"][0]["name"]) == (0, "notes")


@pytest.mark.usefixtures("daemon")
def test_context_is_wrapped_in_the_marker(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "recall", "q", "--format", "context")
    assert code == 0
    assert out.startswith(f"<wikid-notes {MARKER}>\n")


def test_an_empty_recall_is_success(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["recall"] = sample_recall()
    code, out, _ = run(capsys, "recall", "q")
    assert (code, out.splitlines()[0]) == (0, "No reliable memory.")


def test_explain_is_shown_to_a_person_too(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["recall"] = sample_recall(explain={"mode": "short query"})
    assert "mode: short query" in run(capsys, "recall", "q", "--explain")[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_is_two_lines_and_the_exit_code_of_its_kind(
    kind: str, daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["recall"] = RequestRefused(kind, "it cannot be", hint="do that")
    code, out, err = run(capsys, "recall", "q")
    assert (code, out, err) == (KINDS[kind].exit_code, "", "error: it cannot be\nhint: do that\n")
    assert run(capsys, "recall", "q", "-v")[2].endswith(f"kind: {kind}\n")


@pytest.mark.parametrize("kind", KINDS)
def test_no_refusal_leaves_a_person_without_a_next_step(
    kind: str, daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["recall"] = RequestRefused(kind, "it cannot be")
    error, hint = run(capsys, "recall", "q")[2].splitlines()
    assert error == "error: it cannot be"
    assert re.fullmatch(r"hint: .*(wikid \w+|try again|run the command again).*", hint)


def test_no_daemon_is_exit_3_with_the_command_that_starts_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(capsys, "status", "--no-start", "--socket", str(tmp_path / "none.sock"))
    assert (code, out) == (3, "")
    assert err.splitlines()[1] == "hint: start one with: wikid start"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["frob"], "there is no command 'frob'"),
        (["recal"], "did you mean recall?"),
        (["vault"], "required"),
        (["recall"], "QUERY"),
        (["recall", "q", "--timeout", "soon"], "'soon' is not a number of seconds"),
        (["recall", "q", "--tim", "5"], "unrecognized arguments"),
        (["reindex", "--components", "lexical,magic"], "'lexical,magic'"),
    ],
)
def test_a_usage_error_is_exit_2_in_the_same_two_lines(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *words)
    error, hint = err.splitlines()
    assert (code, out) == (2, "")
    assert error.startswith("error: ")
    assert said in error
    assert hint.startswith("hint: wikid")
    assert hint.endswith("--help")


def test_no_word_at_all_is_a_usage_error_that_shows_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys)
    assert (code, out) == (2, "")
    assert "  recall  " in err


def test_help_is_a_word_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "help", "recall")[:2] == run(capsys, "recall", "--help")[:2]
    assert run(capsys, "help")[:2] == run(capsys, "--help")[:2]


def test_the_help_tells_every_exit_code_and_flag(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--help")
    codes = {*(row.exit_code for row in KINDS.values()), 0, 3, cli.EXIT_INTERRUPTED}
    assert codes == set(cli.EXIT_CODES)
    for code, meaning in cli.EXIT_CODES.items():
        assert f"  {code}  " in out
        assert meaning in " ".join(out.split())
    for flag in ("--vault V", "--json", "--no-start", "--socket PATH", "--timeout S", "--verbose"):
        assert flag in out


def test_no_command_stands_in_the_help_without_a_section() -> None:
    placed = [name for names in cli.GROUPS.values() for name in names]
    assert sorted(placed) == sorted(cli.COMMANDS)


@pytest.mark.parametrize("name", [each for each in cli.COMMANDS if each not in cli.PASSED_ON])
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, name, "--help")
    assert code == 0
    assert cli.COMMANDS[name].summary in " ".join(out.split())
    assert "--no-start" in out


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--help")
    assert all(f"\n  {name} " in out for name in cli.COMMANDS)


@pytest.mark.usefixtures("daemon")
def test_an_unexpected_fault_is_exit_5_and_a_traceback_only_when_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "page_name", _fail)
    code, _, err = run(capsys, "show", "a/b")
    assert (code, err.splitlines()[0]) == (5, "error: wikid itself failed (ZeroDivisionError)")
    assert "Traceback" not in err
    assert "Traceback" in run(capsys, "show", "a/b", "-v")[2]


@pytest.mark.usefixtures("daemon")
def test_an_interrupt_is_quiet(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "page_name", _interrupt)
    assert run(capsys, "show", "a/b") == (130, "", "")


@pytest.mark.parametrize(
    ("words", "method", "params"),
    [
        (["search", "a", "b", "--type", "t"], "page/search", {"query": "a b", "type": "t", "limit": 50}),
        (["show", "home:a/b", "--heading", "H", "--session", "s"], "page/get", {"page_id": "a/b", "vault_id": "home"}),
        (["show", "a/b: c", "--vault", "w"], "page/get", {"page_id": "a/b: c", "vault_id": "w"}),
        (["status", "--vault", "w"], "status", {"vault": "w"}),
        (["vault", "add", "x", "--name", "n"], "vault/add", {"path": f"{os.getcwd()}/x", "name": "n"}),
        (["vault", "remove", "n"], "vault/remove", {"vault": "n"}),
        (["vault", "init", "/x", "--topic", "t"], "vault/init", {"path": "/x", "topic": "t", "mode": "personal"}),
        (["vault", "resolve", "--cwd", "/w"], "vault/resolve", {"cwd": "/w"}),
        (["sync", "--wait", "2.5"], "index/sync", {"timeout_ms": 2500}),
        (["reindex", "--scope", "all", "--force"], "index/reindex", {"scope": "all", "force": True}),
        (["reindex", "--components", "vectors"], "index/reindex", {"components": ["vectors"]}),
        (["verify", "--vault", "w"], "index/verify", {"vault": "w"}),
        (["models", "list"], "models/list", {}),
        (["models", "build", "m"], "models/build", {"name": "m"}),
    ],
)
def test_each_command_makes_its_call(
    words: list[str], method: str, params: dict[str, Any], daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers[method] = RequestRefused("busy", "later")
    assert run(capsys, *words)[0] == 1
    [(called, sent)] = daemon.calls
    assert called == method
    assert {name: sent.get(name) for name in params} == params


def test_answers_are_shown_for_each_command(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    model = r.ModelRecord(name="m", purpose="embedder", state="ready")
    daemon.answers |= {
        "vault/add": VAULT,
        "vault/init": VAULT,
        "vault/remove": VAULT,
        "vault/list": r.VaultList(vaults=(VAULT,)),
        "vault/resolve": r.Resolution(cwd="/w", vaults=()),
        "page/search": r.PageMatches(matches=()),
        "index/sync": r.SyncedVaults(vaults=(r.Synced(vault_id=r.VaultId("v"), name="n", generation=3, elapsed_ms=1),)),
        "models/list": r.ModelList(models=(model,)),
        "models/build": model,
    }
    for words, said in (
        (["vault", "add", "/notes"], "wikid status"),
        (["vault", "init", "/notes", "--topic", "t"], "notes"),
        (["vault", "remove", "notes"], "its files stay in /notes"),
        (["vault", "list"], "/notes"),
        (["vault", "resolve"], "no vault applies"),
        (["search", "x"], "No page matches"),
        (["sync"], "searchable at generation 3"),
        (["models", "list"], "embedder  m  ready"),
        (["models", "build"], "embedder  m  ready"),
    ):
        code, out, err = run(capsys, *words)
        assert (code, err) == (0, ""), words
        assert said in out


def test_reindex_reports_progress_beside_the_result(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    def reindex(_: dict[str, Any]) -> Generator[Progress, None, r.ReindexReports]:
        for part in range(0, 101, 5):
            yield Progress("report", "embedding", part)
        return r.ReindexReports(vaults=(REPORT,))

    daemon.answers["index/reindex"] = reindex
    code, out, err = run(capsys, "reindex", "--json")
    assert code == 0
    assert orjson.loads(out)["vaults"][0]["indexed"] == 1
    assert err.splitlines() == [f"embedding ({part} %)" for part in range(0, 101, 10)]


def test_plain_progress_says_each_thing_once() -> None:
    err = io.StringIO()
    shown = PlainProgress(err)
    for step in (Progress("begin", "read"), Progress("report", "read"), Progress("report", "\x1b[2Jembed", 4)):
        shown.step(step)
    shown.step(Progress("end"))
    assert err.getvalue() == "read\n[2Jembed (4 %)\n"


def test_a_reindex_with_errors_is_exit_1(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    errors = (r.Diagnostic(kind="disk", message="full"),)
    fields = {name: getattr(REPORT, name) for name in r.ReindexReport.__slots__}
    daemon.answers["index/reindex"] = r.ReindexReports(vaults=(r.ReindexReport(**{**fields, "errors": errors}),))
    assert run(capsys, "reindex")[0] == 1


@pytest.mark.parametrize(("differing", "code"), [(0, 0), (3, 1)])
def test_an_index_that_differs_is_exit_1(
    differing: int, code: int, daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    report = r.VerifyReport(
        vault_id=r.VaultId("v"),
        name="n",
        generation=3,
        pages=1,
        chunks=1,
        embedded=1,
        embedding_pending=0,
        compared=("pages",),
        probes=0,
        deleted_share=0.0,
        differing=differing,
        elapsed_ms=1,
    )
    daemon.answers["index/verify"] = r.VerifyReports(vaults=(report,))
    assert run(capsys, "verify")[0] == code


def test_start_says_where_the_daemon_listens(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "start")
    assert code == 0
    assert out == f"wikid 0.0-fake is running  pid {os.getpid()} · {daemon.endpoint}\n"


def test_stop_waits_until_nothing_listens_and_is_content_with_nothing(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "stop") == (0, "wikid has stopped.\n", "")
    assert not daemon.endpoint.exists()
    assert run(capsys, "stop") == (0, "wikid was not running.\n", "")


def test_stop_does_not_take_a_file_for_a_stopped_daemon(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "f").write_text("mine")
    assert run(capsys, "stop", "--socket", str(tmp_path / "f"))[0] == 3
    assert (tmp_path / "f").read_text() == "mine"


def test_restart_stops_and_starts(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_daemon(_path: Path, connect: Any, _deadline: float) -> Any:
        daemon.start()
        return connect()

    monkeypatch.setattr(launch, "start_daemon", start_daemon)
    code, out, _ = run(capsys, "restart")
    assert (code, [name for name, _ in daemon.calls]) == (0, ["shutdown", "ping"])
    assert "is running" in out


def test_get_socket_prints_the_path_and_needs_no_daemon(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIKID_SOCKET", "/nowhere/wikid.sock")
    assert run(capsys, "get-socket") == (0, "/nowhere/wikid.sock\n", "")
    assert run(capsys, "get-socket", "--json", "--socket", "/x")[1] == '{"socket":"/x"}\n'


def test_a_session_is_the_one_given_or_the_environment_s_or_the_terminal_s(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(capsys, "recall", "q")
    run(capsys, "recall", "q")
    monkeypatch.setenv("WIKID_SESSION", "mine")
    run(capsys, "recall", "q")
    run(capsys, "recall", "q", "--session", "other")
    first, second, third, fourth = (params["session"] for _, params in daemon.calls)
    assert first == second == f"terminal:{os.getsid(0)}"
    assert (third, fourth) == ("mine", "other")


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (
            ["bench", "data", "--modes", "lexical", "--json"],
            ["wikid_daemon.bench", "data", "--modes", "lexical", "--json"],
        ),
        (["--json", "bench", "data", "--help"], ["wikid_daemon.bench", "--json", "data", "--help"]),
        (["demo"], ["wikid_daemon.demo"]),
        (["serve", "--socket", "/run/x.sock"], ["wikid_daemon"]),
    ],
)
def test_the_daemon_s_own_commands_are_handed_over(
    words: list[str], command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WIKID_SOCKET", "/run/x.sock")
    became: list[list[str]] = []

    def execv(path: str, words: list[str]) -> None:
        assert path == sys.executable
        became.append(words)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setattr(launch, "find_spec", lambda _: object())
    assert run(capsys, *words)[0] == 0
    assert became == [[sys.executable, "-P", "-m", *command]]
    assert os.environ["WIKID_SOCKET"] == "/run/x.sock"


def test_a_handed_over_command_without_a_daemon_installed_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launch, "find_spec", lambda _: None)
    code, _, err = run(capsys, "demo")
    assert code == 3
    assert "README" in err


def process(daemon: FakeDaemon, *words: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    paths = os.pathsep.join(str(ROOT / each) for each in ("protocol", "client"))
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, "WIKID_SOCKET": str(daemon.endpoint), **env}
    command = [sys.executable, "-m", "wikid_client.cli", *words]
    return subprocess.run(command, env=given, capture_output=True, check=False, timeout=60)


@pytest.mark.parametrize("env", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "cp437:strict"}])
def test_no_encoding_is_too_odd(env: dict[str, str], daemon: FakeDaemon) -> None:
    done = process(daemon, "recall", "q", **env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"1  Gr")
    assert orjson.loads(process(daemon, "recall", "q", "--json", **env).stdout)["bundles"][0]["card"]["title"] == (
        "Größe · 数据"
    )


@pytest.mark.parametrize(("closed", "code"), [(">&-", 0), ("2>&-", 0), (">&- 2>&-", 0), ("<&- >&- 2>&-", 0)])
@pytest.mark.skipif(sys.platform == "win32", reason="a shell that closes streams")
def test_a_closed_stream_keeps_nothing_from_being_done(closed: str, code: int, daemon: FakeDaemon) -> None:
    paths = os.pathsep.join(str(ROOT / each) for each in ("protocol", "client"))
    env = {"PYTHONPATH": paths, "WIKID_SOCKET": str(daemon.endpoint)}
    command = ["sh", "-c", f'exec "$0" -m wikid_client.cli recall q {closed}', sys.executable]
    done = subprocess.run(command, env=env, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (code, b"")
    assert [method for method, _ in daemon.calls] == ["recall"]


@pytest.mark.skipif(sys.platform != "linux", reason="names of files that are not in UTF-8")
def test_a_folder_without_a_name_in_utf_8_is_no_fault(daemon: FakeDaemon, tmp_path: Path) -> None:
    folder = os.path.join(os.fsencode(tmp_path), b"caf\xe9")
    os.mkdir(folder)
    words = [sys.executable, "-m", "wikid_client.cli"]
    paths = os.pathsep.join(str(ROOT / each) for each in ("protocol", "client"))
    env = {"PYTHONPATH": paths, "WIKID_SOCKET": str(daemon.endpoint), "LC_ALL": "C.UTF-8"}

    def wikid(*more: str | bytes, text: bytes = b"") -> tuple[int, bytes]:
        done = subprocess.run(
            [*words, *more], cwd=folder, env=env, input=text, capture_output=True, check=False, timeout=60
        )
        return done.returncode, done.stderr

    assert wikid("recall", "q") == (0, b"")
    assert "cwd" not in daemon.calls[-1][1]
    code, err = wikid("vault", "add", ".")
    assert (code, b"UTF-8" in err) == (2, True)
    daemon.answers["feedback/signal"] = r.Signalled()
    assert wikid("signal", "cited", "-", text=b"as [[x]] says: caf\xe9") == (0, b"")
    assert daemon.calls[-1][1]["text"] == "as [[x]] says: caf\ufffd"


def test_a_path_from_a_folder_that_is_gone_is_said_to_be_so(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> str:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(os, "getcwd", gone)
    code, _, err = run(capsys, "vault", "add", "x")
    assert (code, "current folder is gone" in err) == (4, True)
    assert run(capsys, "recall", "q")[0] == 0
    assert [method for method, _ in daemon.calls] == ["recall"]


def test_a_reader_that_leaves_early_is_no_fault(daemon: FakeDaemon) -> None:
    paths = os.pathsep.join(str(ROOT / each) for each in ("protocol", "client"))
    env = {"PYTHONPATH": paths, "WIKID_SOCKET": str(daemon.endpoint)}
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "wikid_client.cli", "recall", "q"]
    done = subprocess.run(command, env=env, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_recall_loads_only_what_it_needs(daemon: FakeDaemon) -> None:
    heavy = "aiohttp asyncio hashlib numpy rich shutil subprocess tempfile threading wikid_protocol.records"
    code = (
        "import sys; from wikid_client.cli import main; code = main(['recall', 'q']); "
        f"print(code, *sorted(set({heavy.split()}) & set(sys.modules)), file=sys.stderr)"
    )
    paths = os.pathsep.join(str(ROOT / each) for each in ("protocol", "client"))
    env = {"PYTHONPATH": f"{paths}{os.pathsep}{Path(orjson.__file__).parents[1]}", "WIKID_SOCKET": str(daemon.endpoint)}
    done = subprocess.run([sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stderr == "0\n"


def _fail(_: str) -> tuple[str | None, str]:
    raise ZeroDivisionError


def _interrupt(_: str) -> tuple[str | None, str]:
    raise KeyboardInterrupt


def test_a_reader_that_leaves_early_is_no_failure(daemon: FakeDaemon) -> None:
    daemon.answers["recall"] = sample_recall(*[r.Bundle(card=sample_item(excerpt="word " * 2_000))] * 40)
    paths = os.pathsep.join(str(ROOT / each) for each in ("protocol", "client"))
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, "WIKID_SOCKET": str(daemon.endpoint)}
    command = [sys.executable, "-m", "wikid_client.cli", "recall", "q", "--json"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == 0


# -- what is watched ---------------------------------------------------------------------------------------------------


def sleeps(times: int) -> Any:
    """A `sleep` that is interrupted in the end."""
    left = iter(range(times))

    def sleep(_seconds: float) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    return sleep


STATUS = r.StatusReport(daemon=r.DaemonStatus(version="1", pid=1, started="", uptime_s=3, endpoint="/s"))


def test_a_watch_that_is_piped_adds_block_to_block_or_line_to_line(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answers["status"] = STATUS
    monkeypatch.setattr("wikid_client.commands.status.time.sleep", sleeps(2))
    code, out, err = run(capsys, "status", "--watch")
    assert (code, err) == (130, "")
    assert out.count("wikid 1  pid 1") == 3
    assert "\x1b" not in out
    monkeypatch.setattr("wikid_client.commands.status.time.sleep", sleeps(1))
    code, out, _ = run(capsys, "status", "--watch", "--json")
    assert (code, [orjson.loads(each)["daemon"]["pid"] for each in out.splitlines()]) == (130, [1, 1])


def test_a_watch_never_starts_the_daemon_again(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answers["status"] = STATUS
    monkeypatch.setattr("wikid_client.commands.status.time.sleep", lambda _: daemon.stop())
    monkeypatch.setattr(launch, "start_daemon", _fail)
    assert run(capsys, "status", "--watch")[0] == 3


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo terminal")
def test_a_screen_draws_in_place_cuts_what_does_not_fit_and_leaves_the_last_state() -> None:
    termios: Any = importlib.import_module("termios")
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (8, 40))
    with os.fdopen(theirs, "w") as out:
        console = Console(out=out, err=io.StringIO(), width=40, colour=False, bars=False, moves=True)
        with Screen(console) as screen:
            screen.draw([row(f"old {number}") for number in range(3)])
            screen.draw([row(f"new {number}") for number in range(20)])
        out.flush()
        shown = _read_up_to(ours, "new 19")
    os.close(ours)
    drawn, left = shown.split("\x1b[?1049l")
    assert drawn.startswith("\x1b[?1049h")
    last = drawn.rpartition("\x1b[H")[2]
    assert "new 5" in last
    assert "new 6" not in last
    assert "… 14 more lines than fit here" in last
    assert left.split() == [word for number in range(20) for word in ("new", str(number))]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo terminal")
def test_a_watch_in_place_waits_for_a_daemon_that_has_gone(daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.answers["status"] = STATUS
    monkeypatch.setattr(launch, "start_daemon", _fail)

    def leaving() -> None:
        daemon.start()
        daemon.answers["status"] = in_turn(RequestRefused("busy", "the daemon is stopping"), STATUS)

    steps = iter((daemon.stop, leaving, lambda: None))

    def sleep(_seconds: float) -> None:
        next(steps, _interrupt_now)()

    monkeypatch.setattr("wikid_client.commands.status.time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as out:
        console = Console(out=out, err=io.StringIO(), width=60, colour=False, bars=False, moves=True)
        monkeypatch.setattr(cli, "open_console", lambda: console)
        assert cli.main(["status", "--watch"]) == 130
        shown = _read_up_to(ours, "\x1b[?1049l")
    os.close(ours)
    first, gone, leaving_too, back = shown.partition("\x1b[?1049l")[0].split("\x1b[H")[1:]
    assert "wikid 1  pid 1" in first
    assert "waiting for it" in gone
    assert "the daemon is stopping" in leaving_too
    assert "waiting for it" not in back


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo terminal")
def test_a_watch_that_is_terminated_gives_the_terminal_back(
    daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answers["status"] = STATUS
    kills = iter((lambda: os.kill(os.getpid(), signal.SIGTERM),))
    monkeypatch.setattr("wikid_client.commands.status.time.sleep", lambda _seconds: next(kills, _interrupt_now)())
    ours, theirs = os.openpty()
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with os.fdopen(theirs, "w") as out:
            console = Console(out=out, err=io.StringIO(), width=60, colour=False, bars=False, moves=True)
            monkeypatch.setattr(cli, "open_console", lambda: console)
            with pytest.raises(SystemExit) as left:
                cli.main(["status", "--watch"])
            assert (left.value.code, signal.getsignal(signal.SIGTERM)) == (143, signal.SIG_IGN)
            _read_up_to(ours, "\x1b[?1049l")
    finally:
        signal.signal(signal.SIGTERM, before)
    os.close(ours)


def _interrupt_now() -> None:
    raise KeyboardInterrupt


def _read_up_to(terminal: int, ending: str) -> str:
    """What was written to a pseudo terminal, which hands it on piece by piece."""
    shown = ""
    while ending not in shown:
        shown += os.read(terminal, 1 << 16).decode()
    return shown


# -- on a terminal -----------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_an_error_stands_out_on_a_terminal_and_nowhere_else() -> None:
    told = Terminal()
    Console(out=io.StringIO(), err=told, width=80, colour=False, bars=True).failed("no", "do that")
    assert re.sub(r"\x1b\[[0-9;]*m", "", told.getvalue()) == "error: no\nhint: do that\n"
    assert "\x1b[" in told.getvalue()


def test_a_call_that_tells_no_steps_shows_a_bar_only_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Terminal()
    console = Console(out=io.StringIO(), err=told, width=80, colour=False, bars=True)
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 3_600.0)
    with awaited(console, "Waiting"):
        pass
    assert told.getvalue() == ""
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0.0)
    with awaited(console, "Waiting"):
        until(lambda: "Waiting" in told.getvalue(), "the bar")
