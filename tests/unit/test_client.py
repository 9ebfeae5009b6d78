"""The blocking client against a fake daemon on a real socket."""

from __future__ import annotations

import inspect
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import orjson
import pytest

import wikid_client
from wikid_client import Client, DaemonFailed, DaemonNotRunning, Progress, RequestRefused, launch
from wikid_client.caller import LONG_TIMEOUT, may_ask_again
from wikid_client.testing import FakeDaemon, Held, in_turn, sample_item, sample_recall
from wikid_protocol import records as r
from wikid_protocol.decode import decode
from wikid_protocol.limits import LIMITS
from wikid_protocol.messages import result
from wikid_protocol.methods import METHODS

RENAMED = {"index/reindex": "reindex", "index/sync": "sync", "index/verify": "verify"}
NO_CALLS = {"initialize", "subscribe", "unsubscribe"}  # the client makes them by itself, as part of something larger
NAMES = {name: RENAMED.get(name, name.replace("/", "_")) for name in METHODS if name not in NO_CALLS}
MODEL = r.ModelRecord(name="m", purpose="embedder", state="ready")

# a process that listens as a daemon would, gives way where one listens already, and leaves when it is told to stop
DAEMON_SCRIPT = """
import fcntl, os, sys
from pathlib import Path
from wikid_client.testing import FakeDaemon
path = Path(os.environ["WIKID_SOCKET"])
lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR)
fcntl.flock(lock, fcntl.LOCK_EX)
if path.exists() and os.path.getsize(f"{path}.lock"):
    sys.exit(0)
path.unlink(missing_ok=True)
daemon = FakeDaemon(path=path)
daemon.start()
os.write(lock, b"%d" % os.getpid())
fcntl.flock(lock, fcntl.LOCK_UN)
daemon.wait()
"""

# a process that is forked while a thread of it waits for an answer, and then calls in both processes
FORK_SCRIPT = """
import os, sys, threading
from wikid_client import Client
from wikid_client.testing import FakeDaemon, Held, sample_recall
held, recalled = Held(sample_recall()), []
with FakeDaemon({"recall": held}) as daemon, Client(endpoint=daemon.endpoint, start=False, timeout=20) as client:
    waiting = threading.Thread(target=lambda: recalled.append(client.recall("q")))
    waiting.start()
    held.arrived.wait()
    if not (child := os.fork()):
        failed = 1
        try:
            client.ping(timeout=10)
            client.close()
            failed = 0
        finally:
            os._exit(failed)
    ended = os.waitpid(child, 0)[1]
    held.release()
    waiting.join()
    sys.exit(ended != 0 or recalled != [held.answer] or client.ping().version != "0.0-fake")
"""


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An endpoint that a started daemon will listen on; its log is in a folder of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(launch, "daemon_command", lambda *_: [sys.executable, "-c", DAEMON_SCRIPT])
    return tmp_path / "wikid.sock"


@pytest.mark.parametrize("method", NAMES)
def test_the_client_has_each_method_of_the_table(method: str) -> None:
    row = METHODS[method]
    function = getattr(Client, NAMES[method])
    parameters = dict(list(inspect.signature(function).parameters.items())[1:])
    assert parameters.pop("timeout").default is None
    wanted = {each.name: each for each in fields(row.params)}
    if wanted.pop("progress_token", None):
        assert parameters.pop("progress").default is None
    assert list(parameters) == list(wanted)
    for name, each in wanted.items():
        assert parameters[name].default == (inspect.Parameter.empty if each.default is MISSING else each.default)
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in list(parameters.values())[1:])
    assert get_type_hints(function)["return"] is row.result


def test_the_client_has_no_method_that_the_table_lacks() -> None:
    public = {name for name, _ in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_")}
    assert public == {*NAMES.values(), "close", "subscribe"}


def _any_of(kind: object) -> str:
    """A text that the parameter takes."""
    return str(get_args(kind)[0]) if get_origin(kind) is Literal else "x"


@pytest.mark.parametrize("method", NAMES)
def test_each_method_sends_params_that_the_daemon_can_read(method: str) -> None:
    row = METHODS[method]
    hints = get_type_hints(row.params)
    needed = {each.name: _any_of(hints[each.name]) for each in fields(row.params) if each.default is MISSING}
    refused = RequestRefused("read_only", "no", hint="another vault")
    with FakeDaemon({method: refused}) as daemon, Client(endpoint=daemon.endpoint) as client:
        with pytest.raises(RequestRefused) as caught:
            getattr(client, NAMES[method])(**needed)
        assert (caught.value.kind, caught.value.hint, caught.value.exit_code) == ("read_only", "another vault", 1)
    [(sent, params)] = daemon.calls
    assert sent == method
    assert set(params) <= {each.name for each in fields(row.params)}
    assert decode(row.params, params) == row.params(**needed)


def test_an_answer_is_a_record() -> None:
    answer = sample_recall(r.Bundle(card=sample_item(dates=r.Dates(updated="2026-01-02"))))
    with FakeDaemon({"recall": lambda _: answer}) as daemon, Client(endpoint=daemon.endpoint) as client:
        assert client.recall("q", types=["concept"], max_results=2) == answer
    assert daemon.calls[0][1]["types"] == ["concept"]
    assert daemon.calls[0][1]["max_results"] == 2


def test_progress_reaches_its_callable_before_the_answer() -> None:
    def build(params: dict[str, Any]) -> Generator[Progress, None, r.ModelRecord]:
        yield Progress("begin", f"building {params['name']}", 0)
        yield Progress("report", "still at it")
        yield Progress("end", "built", 100)
        return MODEL

    steps: list[Progress] = []
    with FakeDaemon({"models/build": build}) as daemon, Client(endpoint=daemon.endpoint) as client:
        assert client.models_build("m", progress=steps.append) == MODEL
        assert client.models_build("m") == MODEL
    assert [(each.kind, each.percentage) for each in steps] == [("begin", 0), ("report", None), ("end", 100)]


def test_a_reading_call_goes_on_after_a_restart() -> None:
    with FakeDaemon() as daemon, Client(endpoint=daemon.endpoint) as client:
        client.ping()
        daemon.stop()
        daemon.start()
        assert client.ping().version == "0.0-fake"


def test_a_reading_call_is_tried_twice_and_not_for_ever() -> None:
    with (
        FakeDaemon({"status": _break}) as daemon,
        Client(endpoint=daemon.endpoint) as client,
        pytest.raises(DaemonFailed, match="closed the connection"),
    ):
        client.status()
    assert len(daemon.calls) == 2


def test_a_writing_call_is_never_repeated() -> None:
    with FakeDaemon({"vault/add": _break}) as daemon, Client(endpoint=daemon.endpoint) as client:
        with pytest.raises(DaemonFailed):
            client.vault_add("/notes")
        assert client.ping()
    assert [method for method, _ in daemon.calls] == ["vault/add", "ping"]


def test_a_writing_call_goes_on_after_a_restart_between_calls() -> None:
    with FakeDaemon({"models/build": MODEL}) as daemon, Client(endpoint=daemon.endpoint) as client:
        client.ping()
        daemon.stop()
        daemon.start()
        assert client.models_build("m") == MODEL
        daemon.drop()
        assert client.models_build("m") == MODEL
    assert [method for method, _ in daemon.calls] == ["ping", "models/build", "models/build"]


@pytest.mark.parametrize("kind", ["busy", "cancelled"])
def test_a_reading_call_that_a_leaving_daemon_refuses_is_made_once_more(kind: str) -> None:
    def stop(_: dict[str, Any]) -> object:
        daemon.answers["status"] = in_turn(RequestRefused("busy", "much to do"), _never)
        daemon._unbind()
        daemon.start()
        return RequestRefused(kind, "the daemon is stopping")

    with FakeDaemon({"status": stop}) as daemon, Client(endpoint=daemon.endpoint) as client:
        with pytest.raises(RequestRefused, match="much to do"):
            client.status()
        assert client.ping()
    assert [method for method, _ in daemon.calls] == ["status", "status", "ping"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that are forked")
def test_a_process_that_is_forked_calls_over_a_connection_of_its_own() -> None:
    # from 3.12 on Python warns of what is tried here, that a process of several threads forks
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK_SCRIPT]
    done = subprocess.run(command, timeout=120, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_text_that_no_message_can_hold_is_refused_and_sends_nothing() -> None:
    with FakeDaemon() as daemon, Client(endpoint=daemon.endpoint) as client:
        with pytest.raises(RequestRefused) as refused:
            client.vault_add("/notes/\udcff")
        assert refused.value.kind == "invalid_params"
        with pytest.raises(RequestRefused) as refused:
            client.vault_add("x" * LIMITS.message_bytes)
        assert refused.value.kind == "message_too_large"
        assert client.ping()
    assert [method for method, _ in daemon.calls] == ["ping"]


def test_threads_that_share_a_client_take_turns() -> None:
    held = Held(sample_recall())
    with (
        FakeDaemon({"recall": held}) as daemon,
        Client(endpoint=daemon.endpoint) as client,
        ThreadPoolExecutor(4) as pool,
    ):
        recalled = pool.submit(client.recall, "q")
        assert held.arrived.wait(20)
        with pytest.raises(DaemonFailed, match="another thread") as caught:
            client.ping(timeout=0.05)
        assert "client of its own" in caught.value.hint
        pings = [pool.submit(client.ping) for _ in range(3)]
        held.release()
        assert recalled.result() == held.answer
        assert {each.result().version for each in pings} == {"0.0-fake"}
    assert [method for method, _ in daemon.calls] == ["recall", "ping", "ping", "ping"]


def test_a_progress_callable_cannot_call_over_the_client_that_waits_for_it() -> None:
    def build(_: dict[str, Any]) -> Generator[Progress, None, r.ModelRecord]:
        yield Progress("begin")
        return MODEL

    with FakeDaemon({"models/build": build}) as daemon, Client(endpoint=daemon.endpoint) as client:
        with pytest.raises(RuntimeError, match="client of its own"):
            client.models_build("m", progress=lambda _: print(client.ping()))
        assert client.ping()


def test_a_late_answer_is_not_taken_for_the_next_one() -> None:
    let_go = threading.Event()

    def slow(_: dict[str, Any]) -> r.Pong:
        let_go.wait(20)
        return r.Pong(version="late", pid=1)

    with FakeDaemon({"ping": slow}) as daemon, Client(endpoint=daemon.endpoint) as client:
        with pytest.raises(DaemonFailed, match="in time"):
            client.ping(timeout=0.05)
        daemon.answers["ping"] = r.Pong(version="prompt", pid=1)
        let_go.set()
        assert client.ping().version == "prompt"


def test_long_calls_have_time_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1_000.0)
    calls: list[tuple[Callable[[Client], object], float]] = [
        (lambda client: client.reindex(), LONG_TIMEOUT),
        (lambda client: client.verify(), LONG_TIMEOUT),
        (lambda client: client.sync(timeout_ms=60_000), 65.0),
        (lambda client: client.reindex(timeout=4), 4.0),
        (lambda client: client.verify(timeout=0), 0.0),
        (lambda client: client.sync(timeout=0), 0.0),
        (lambda client: client.ping(), 9.0),
        (lambda client: client.ping(timeout=2), 2.0),
    ]
    for call, seconds in calls:
        transport = Scripted(b"")
        with pytest.raises(DaemonFailed):
            call(Client(transport=transport, timeout=9))
        assert transport.deadline == 1_000 + seconds


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r", "does not speak"),
        (b"[]", "does not speak"),
        (result(1, {"version": "secret", "pid": "secret"}).strip(), "pid: expected an integer"),
        (b'{"jsonrpc":"2.0","id":1}', "expected an object"),
    ],
)
def test_an_answer_that_cannot_be_read_is_the_daemon_s_failure(line: bytes, words: str) -> None:
    transport = Scripted(line)
    with pytest.raises(DaemonFailed, match=words) as caught:
        Client(transport=transport).ping()
    assert "secret" not in str(caught.value)


def test_an_error_without_id_ends_the_call() -> None:
    line = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}'
    with pytest.raises(RequestRefused, match="not JSON"):
        Client(transport=Scripted(line)).ping()


def test_without_a_daemon_the_error_names_the_command_that_starts_one(tmp_path: Path) -> None:
    with Client(endpoint=tmp_path / "none.sock", start=False) as client, pytest.raises(DaemonNotRunning) as caught:
        client.ping()
    assert "wikid start" in str(caught.value)


def test_a_stale_socket_counts_as_no_daemon(tmp_path: Path) -> None:
    path = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))
    with Client(endpoint=path, start=False) as client, pytest.raises(DaemonNotRunning, match="wikid start"):
        client.ping()


def test_a_file_in_the_way_is_left_alone_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "start_daemon", _never)
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with Client(endpoint=path) as client, pytest.raises(DaemonNotRunning, match="not a socket"):
        client.ping()
    assert path.read_text() == "mine"


def test_an_unreachable_place_does_not_start_a_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "start_daemon", _never)
    (tmp_path / "file").write_text("")
    with Client(endpoint=tmp_path / "file" / "x.sock") as client, pytest.raises(DaemonNotRunning, match="cannot reach"):
        client.ping()


def test_another_user_s_process_is_not_spoken_to(monkeypatch: pytest.MonkeyPatch) -> None:
    uid = os.getuid()
    with FakeDaemon() as daemon, Client(endpoint=daemon.endpoint) as client:
        monkeypatch.setattr(os, "getuid", lambda: uid + 1)
        with pytest.raises(DaemonNotRunning, match="another user"):
            client.ping()
        monkeypatch.undo()
    assert daemon.calls == []


def test_many_clients_at_once_start_one_daemon(spawned: Path) -> None:
    def ask(_: int) -> int:
        with Client(endpoint=spawned) as client:
            return client.ping().pid

    with ThreadPoolExecutor(4) as pool:
        pids = set(pool.map(ask, range(4)))
    with Client(endpoint=spawned) as client:
        client.shutdown()
    assert len(pids) == 1
    assert os.getpid() not in pids


def test_a_daemon_is_started_over_a_stale_socket(spawned: Path) -> None:
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(spawned))
    with Client(endpoint=spawned) as client:
        assert client.ping()
        client.shutdown()


def test_a_daemon_that_leaves_at_once_is_reported_with_its_log(
    spawned: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = "print('what went wrong', flush=True); raise SystemExit(7)"
    monkeypatch.setattr(launch, "daemon_command", lambda *_: [sys.executable, "-c", script])
    with Client(endpoint=spawned) as client, pytest.raises(DaemonNotRunning, match="exit code 7") as caught:
        client.ping()
    log = tmp_path / "wikid" / "start.log"
    assert str(log) in str(caught.value)
    assert log.read_text() == "what went wrong\n"
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_log_that_could_not_be_opened_is_not_named(spawned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (spawned.parent / "wikid").write_text("a file in the way of the state folder")
    monkeypatch.setattr(launch, "daemon_command", lambda *_: [sys.executable, "-c", "raise SystemExit(7)"])
    with Client(endpoint=spawned) as client, pytest.raises(DaemonNotRunning, match="exit code 7") as caught:
        client.ping()
    assert "start.log" not in str(caught.value)
    assert "wikid serve" in caught.value.hint


def test_a_call_may_wait_for_ever() -> None:
    with FakeDaemon() as daemon, Client(endpoint=daemon.endpoint, timeout=math.inf) as client:
        assert client.ping()
        assert client.ping(timeout=math.inf)


def test_a_daemon_that_is_not_installed_is_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "find_spec", lambda _: None)
    with Client(endpoint=tmp_path / "none.sock") as client, pytest.raises(DaemonNotRunning, match="README"):
        client.ping()


def test_every_record_is_public() -> None:
    records = {name for name, each in vars(r).items() if is_dataclass(each)}
    assert records <= set(wikid_client.__all__)


def test_every_public_name_is_there() -> None:
    assert all(getattr(wikid_client, name) for name in wikid_client.__all__)
    assert set(wikid_client.__all__) <= set(dir(wikid_client))
    with pytest.raises(AttributeError):
        _ = wikid_client.Nothing


def test_importing_the_package_loads_next_to_nothing() -> None:
    heavy = "argparse asyncio aiohttp dataclasses numpy orjson rich socket subprocess typing wikid_protocol"
    code = f"import sys, wikid_client; print(*sorted(set({heavy.split()}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-S", "-c", code], env=_paths(), capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_the_blocking_client_loads_neither_an_event_loop_nor_a_web_client() -> None:
    heavy = "aiohttp argparse asyncio concurrent numpy rich shutil subprocess tempfile threading"
    code = f"import sys; from wikid_client import Client; print(*sorted(set({heavy.split()}) & set(sys.modules)))"
    with_orjson = {"PYTHONPATH": os.pathsep.join((_paths()["PYTHONPATH"], str(Path(orjson.__file__).parents[1])))}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=with_orjson, capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"


def _paths() -> dict[str, str]:
    root = Path(wikid_client.__file__).parents[1]
    return {"PYTHONPATH": os.pathsep.join(map(str, (root, root.parent / "protocol")))}


def _break(_: dict[str, Any]) -> object:
    raise ConnectionError


def _never(*_: object) -> object:
    raise AssertionError("a daemon was started")


class Scripted:
    """A transport that answers every call with one line; an empty one never comes."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.deadline = 0.0

    def connect(self, deadline: float) -> None:
        self.deadline = deadline

    def send(self, line: bytes, deadline: float) -> None:
        assert line.endswith(b"\n")
        assert deadline == self.deadline

    def receive(self, deadline: float) -> bytes:
        assert deadline == self.deadline
        if not self.line:
            raise DaemonFailed("nothing comes")
        return self.line

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("kind", "may"), [("busy", True), ("cancelled", True), ("vault_unavailable", True), ("vault_not_found", False)]
)
def test_a_listener_outlives_a_daemon_that_stops_while_it_is_asked(kind: str, may: bool) -> None:
    assert may_ask_again(RequestRefused(kind, "not now")) is may
