"""`wikid stdio`: a host that has no sockets speaks to the daemon over its own pipes, in any framing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import HANG_GUARD_SECONDS, environment, until
from daemon_process import WIKID, DaemonProcess
from wikid_client import Client, DaemonNotRunning
from wikid_client.testing import FakeDaemon, Held
from wikid_protocol import records as r

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


class Bridge:
    """The command with its pipes."""

    def __init__(self, env: dict[str, str], *arguments: str) -> None:
        self.process = subprocess.Popen(
            [str(WIKID), "stdio", *arguments],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input = self.process.stdin
        self.output = self.process.stdout

    def send(self, data: bytes) -> None:
        self.input.write(data)
        self.input.flush()

    def line(self) -> Any:
        return json.loads(self.output.readline())

    def end(self, data: bytes | None = None) -> tuple[int, bytes, bytes]:
        """Send the last of the input, close it and wait: exit code, and what was left on both outputs."""
        out, err = self.process.communicate(data, timeout=HANG_GUARD_SECONDS)
        return self.process.returncode, out, err


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("stdio") / "home") as running:
        yield running


@pytest.fixture
def fake() -> Iterator[FakeDaemon]:
    with FakeDaemon() as running:
        yield running


def env_of(fake: FakeDaemon, home: Path) -> dict[str, str]:
    return {**environment(home), "WIKID_SOCKET": str(fake.endpoint)}


def test_calls_are_answered_while_the_host_is_there(daemon: DaemonProcess) -> None:
    bridge = Bridge(daemon.env)
    for _ in range(2):
        bridge.send(PING)
        assert bridge.line()["result"]["pid"] == daemon.pid
    assert bridge.end() == (0, b"", b"")


def test_answers_still_come_after_the_input_has_ended(daemon: DaemonProcess) -> None:
    many = b"".join(PING.replace(b'"id":1', b'"id":%d' % number) for number in range(20))
    code, out, err = Bridge(daemon.env).end(many)
    assert (code, err) == (0, b"")
    assert sorted(json.loads(line)["id"] for line in out.splitlines()) == list(range(20))


def test_headers_pass_as_they_are(daemon: DaemonProcess) -> None:
    body = PING.strip()
    code, out, _ = Bridge(daemon.env).end(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    head, _, answer = out.partition(b"\r\n\r\n")
    assert code == 0
    assert head.lower().startswith(b"content-length:")
    assert json.loads(answer)["result"]["pid"] == daemon.pid


def test_http_passes_as_it_is(daemon: DaemonProcess) -> None:
    body = PING.strip()
    request = b"POST /rpc HTTP/1.1\r\nHost: wikid\r\nContent-Type: application/json\r\nConnection: close\r\n"
    code, out, _ = Bridge(daemon.env).end(request + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert code == 0
    assert out.startswith(b"HTTP/1.1 200")
    assert json.loads(out.partition(b"\r\n\r\n")[2])["result"]["pid"] == daemon.pid


def test_large_messages_pass_whole(fake: FakeDaemon, tmp_path: Path) -> None:
    """Larger than a pipe and a socket hold together, so that both directions have to wait for their readers."""
    echoed = "e" * 900_000
    fake.answers["recall"] = lambda params: r.Pong(version=params["query"], pid=1)
    call = {"jsonrpc": "2.0", "id": 1, "method": "recall", "params": {"query": echoed}}
    bridge = Bridge(env_of(fake, tmp_path))
    bridge.send(json.dumps(call).encode() + b"\n")
    assert bridge.line()["result"]["version"] == echoed
    assert bridge.end() == (0, b"", b"")


def test_the_bridge_ends_though_an_answer_does_not_come(fake: FakeDaemon, tmp_path: Path) -> None:
    fake.answers["recall"] = Held(r.Done())
    bridge = Bridge(env_of(fake, tmp_path))
    bridge.send(b'{"jsonrpc":"2.0","id":1,"method":"recall","params":{}}\n')
    fake.until_called("recall", HANG_GUARD_SECONDS)
    assert bridge.end() == (0, b"", b"")


def test_the_bridge_ends_though_nobody_takes_what_is_left(fake: FakeDaemon, tmp_path: Path) -> None:
    fake.answers["recall"] = r.Pong(version="x" * 900_000, pid=1)
    bridge = Bridge(env_of(fake, tmp_path))
    bridge.send(b'{"jsonrpc":"2.0","id":1,"method":"recall","params":{}}\n')
    bridge.input.close()
    until(lambda: bridge.process.poll() is not None, "the end of the bridge")
    bridge.output.close()
    assert bridge.process.stderr is not None
    bridge.process.stderr.close()


def test_the_bridge_ends_when_its_host_stops_reading(fake: FakeDaemon, tmp_path: Path) -> None:
    bridge = Bridge(env_of(fake, tmp_path))
    bridge.send(PING)
    assert bridge.line()["id"] == 1
    bridge.output.close()
    until(lambda: bridge.process.poll() is not None, "the end of the bridge")
    bridge.input.close()
    assert bridge.process.stderr is not None
    assert bridge.process.stderr.read() == b""
    bridge.process.stderr.close()
    assert bridge.process.returncode == 0


def test_the_bridge_ends_with_the_daemon_and_says_so(fake: FakeDaemon, tmp_path: Path) -> None:
    bridge = Bridge(env_of(fake, tmp_path))
    bridge.send(PING)
    assert bridge.line()["id"] == 1
    fake.stop()
    until(lambda: bridge.process.poll() is not None, "the end of the bridge")
    code, out, err = bridge.end()
    assert (code, out) == (3, b"")
    assert b"closed the connection" in err


def test_a_daemon_is_started_where_none_runs(tmp_path: Path) -> None:
    process = DaemonProcess(tmp_path / "home")
    code, out, _ = Bridge(process.env).end(PING)
    try:
        assert code == 0
        with Client(endpoint=process.endpoint, start=False) as client:
            assert json.loads(out)["result"]["pid"] == client.ping().pid
            client.shutdown()
        until(lambda: not _answers(process), "the daemon's end")
    finally:
        process.discard()


def _answers(process: DaemonProcess) -> bool:
    try:
        with process.connect() as client:
            client.ping()
    except DaemonNotRunning:
        return False
    return True


def test_without_a_daemon_and_told_to_start_none_it_says_so(tmp_path: Path) -> None:
    env = {**environment(tmp_path), "WIKID_SOCKET": str(tmp_path / "s.sock")}
    code, out, err = Bridge(env, "--no-start").end(PING)
    assert (code, out) == (3, b"")
    assert b"wikid start" in err


def test_no_engine_and_no_library_is_loaded(daemon: DaemonProcess) -> None:
    traced = subprocess.run(
        [str(WIKID), "stdio"],
        env={**daemon.env, "PYTHONVERBOSE": "1"},
        input=PING,
        capture_output=True,
        timeout=HANG_GUARD_SECONDS,
        check=True,
    )
    loaded = {line.split("'")[1] for line in traced.stderr.decode().splitlines() if line.startswith("import '")}
    assert "wikid_client.bridge" in loaded
    assert not loaded & {"wikid_daemon", "mcp", "aiohttp", "asyncio", "rich", "numpy", "faiss", "jnius"}
