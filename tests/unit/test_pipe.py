"""Both ends of a Windows pipe on a made-up system: sockets stand in for pipes, and each call of the system is noted."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from pathlib import Path
from pipes import BROKEN_PIPE, GONE, NAME, OURS, PIPE_BUSY, STRANGE, THEM, US, System, WindowsError, daemon
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from serving import scenario, until
from wikid_client import pipe as client
from wikid_client import transport as client_transport
from wikid_client.transport import ConnectionLost, SocketTransport
from wikid_daemon.transport import pipe
from wikid_protocol.endpoint import EndpointRefused, pipe_name, token_path
from wikid_protocol.errors import DaemonFailed, DaemonNotRunning
from wikid_protocol.limits import LIMITS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sockets stand in for pipes")


# -- names -------------------------------------------------------------------------------------------------------------


def test_each_user_has_a_pipe_of_their_own() -> None:
    assert pipe_name({}, US) == pipe_name({}, US)
    assert pipe_name({}, US).startswith("\\\\.\\pipe\\wikid-")
    assert US not in pipe_name({}, US)
    assert pipe_name({}, US) != pipe_name({}, THEM)


def test_the_environment_names_a_pipe_or_stands_for_one() -> None:
    assert pipe_name({"WIKID_SOCKET": NAME}, US) == NAME
    assert pipe_name({"WIKID_SOCKET": "//./pipe/wikid-test"}, US) == NAME
    names = [
        pipe_name(env, US)
        for env in (
            {},
            {"WIKID_SOCKET": "C:\\tests\\w.sock"},
            {"WIKID_SOCKET": "C:\\tests\\v.sock"},
            {"XDG_RUNTIME_DIR": "C:\\tests"},
            {"WIKID_SOCKET": "\\\\.\\pipe\\"},
        )
    ]
    assert len(set(names)) == len(names)
    assert all(each.startswith("\\\\.\\pipe\\wikid-") for each in names)
    assert pipe_name({"WIKID_SOCKET": "c:/Tests/w.sock"}, US) == names[1]
    assert pipe_name({"WIKID_SOCKET": "C:\\tests\\w.sock"}, THEM) != names[1]


def test_each_pipe_has_a_token_of_its_own_whatever_the_case_of_its_name(tmp_path: Path) -> None:
    one = token_path(Path(NAME), tmp_path)
    assert one.parent == tmp_path
    assert one == token_path(Path(NAME.upper()), tmp_path)
    assert one != token_path(Path(NAME + "2"), tmp_path)


# -- the daemon's end --------------------------------------------------------------------------------------------------


@scenario
async def test_a_client_that_shows_the_token_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemon(tmp_path, monkeypatch) as running:
        for _ in range(2):
            peer = await running.connect(running.token)
            assert await peer.alive()
        assert running.server.connections == 2


@scenario
async def test_every_instance_is_this_user_s_alone_and_no_other_machine_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path, monkeypatch) as running:
        for _ in range(3):
            assert await (await running.connect(running.token)).alive()
        made = running.system.made
        assert len(made) == 4
        assert {each.name for each in made} == {NAME}
        # protected, so that nothing is inherited; one entry: all rights, for this user
        assert {each.descriptor for each in made} == {f"D:P(A;;GA;;;{US})"}
        assert {each.pipe_mode for each in made} == {0x8}  # bytes, read as bytes, remote clients rejected
        assert all(each.open_mode & 0x4000_0003 == 0x4000_0003 for each in made)  # both ways, overlapped
        first = [bool(each.open_mode & 0x0008_0000) for each in made]
        assert first == [True, False, False, False]


@scenario
async def test_the_next_instance_waits_before_the_one_taken_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path, monkeypatch) as running:
        for count in (2, 3):
            assert await (await running.connect(running.token)).alive()
            assert running.system.instances[count - 2].served == count


@scenario
async def test_while_no_further_instance_can_be_made_the_one_taken_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipe, "_AGAIN_SECONDS", 0.001)
    async with daemon(tmp_path, monkeypatch) as running:
        running.system.fails.extend([WindowsError(PIPE_BUSY), WindowsError(PIPE_BUSY)])
        with capture_logs() as logged:
            peer = await running.connect(running.token)
            assert await peer.alive()
        assert running.system.instances[0].served == 2
        assert [each["event"] for each in logged].count("the pipe takes nobody for now") == 1


@pytest.mark.parametrize("process", [STRANGE, GONE])
@scenario
async def test_a_process_that_is_not_surely_this_user_s_is_dropped(
    process: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path, monkeypatch) as running:
        with capture_logs() as logged:
            peer = await running.connect(b"", process)
            assert await peer.closed()
        assert running.system.transports == []
        assert [each["log_level"] for each in logged] == ["warning"]
        assert running.calls.sessions == []
        assert await (await running.connect(running.token)).alive()


@pytest.mark.parametrize(
    "sent",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        b'{"jsonrpc":"2.0","method":"$/token","params":{"token":"' + b"0" * 64 + b'"}}\n',
        b"\n",
        b"x" * 5_000,
        b"GET /health HTTP/1.1\r\n\r\n",
    ],
    ids=["none", "wrong", "empty", "long", "http"],
)
@scenario
async def test_without_the_token_nothing_is_answered_but_why(
    sent: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path, monkeypatch) as running:
        peer = await running.connect(sent)
        refusal = await peer.read()
        assert refusal["id"] is None
        assert refusal["error"]["data"]["kind"] == "invalid_request"
        assert "token" in refusal["error"]["message"]
        assert await peer.closed()
        assert running.calls.sessions == []
        assert running.server.connections == 0


@scenario
async def test_the_token_may_come_in_pieces_and_with_the_first_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path, monkeypatch) as running:
        peer = await running.connect(running.token[:7])
        await asyncio.sleep(0)
        peer.writer.write(running.token[7:] + b'{"jsonrpc":"2.0","id":5,"method":"ping"}\n')
        assert (await peer.read())["id"] == 5


@scenario
async def test_a_client_that_sends_no_token_in_time_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemon(tmp_path, monkeypatch, frame_seconds=0.02) as running:
        peer = await running.connect(running.token[:-1])
        assert await peer.closed()
        assert running.server.connections == 0


@scenario
async def test_a_refused_message_closes_the_pipe_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncio.selector_events._SelectorSocketTransport.can_write_eof", lambda _: False)
    async with daemon(tmp_path, monkeypatch, frame_seconds=3_600) as running:
        peer = await running.connect(running.token + b"~\n")
        assert (await peer.read())["error"]["data"]["kind"] == "parse_error"
        assert await peer.closed()
        await until(lambda: running.server.connections == 0)


@scenario
async def test_a_client_that_left_at_once_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemon(tmp_path, monkeypatch) as running:
        with capture_logs() as logged:
            running.system.instances[-1].came.set_exception(BrokenPipeError())
            await until(lambda: len(running.system.instances) == 2)
            await until(lambda: running.system.instances[0].closed)
        assert logged == []
        assert await (await running.connect(running.token)).alive()


@scenario
async def test_a_stopped_daemon_leaves_no_instance_that_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemon(tmp_path, monkeypatch, frame_seconds=3_600) as running:
        unproved = await running.connect(b"")
        await until(lambda: len(running.system.transports) == 1)
        await running.system.transports[0]
        served = await running.connect(running.token)
        assert (await served.ask(1, "shutdown"))["result"] == {"done": True}
        assert await served.closed()
        assert await unproved.closed()
        assert running.system.instances[-1].closed


@scenario
async def test_a_pipe_that_somebody_has_is_refused() -> None:
    system = System()
    system.fails.append(PermissionError())
    with pytest.raises(EndpointRefused, match="WIKID_SOCKET"):
        pipe.PipeListener(NAME, b"token\n", asyncio.Protocol, LIMITS, system, system)


def test_each_token_is_new_and_only_for_its_user(tmp_path: Path) -> None:
    system, place = System(), tmp_path / "state" / "t"
    lines = {pipe.new_token(place, system) for _ in range(3)}
    assert len(lines) == 3
    data, descriptor = system.files[place]
    assert data in lines
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert descriptor == f"D:P(A;;GA;;;{US})"


# -- the client's end --------------------------------------------------------------------------------------------------


class Remote:
    """Windows, as far as a client asks it. A daemon's answers are in `answers`; None is a wait for ever."""

    def __init__(self) -> None:
        self.opening: deque[OSError | None] = deque()
        self.waits: list[int] = []
        self.server = OURS
        self.sent: list[bytes] = []
        self.answers: deque[bytes | OSError | None] = deque()
        self.opened = 0
        self.closed = 0
        self.dead = False

    def open_pipe(self, _name: str) -> int:
        if self.opening and (problem := self.opening.popleft()) is not None:
            raise problem
        self.opened += 1
        return self.opened

    def wait_for_pipe(self, _name: str, milliseconds: int) -> None:
        self.waits.append(milliseconds)

    def server_process(self, _handle: int) -> int:
        return self.server

    def user_of(self, pid: int) -> str:
        if pid == GONE:
            raise WindowsError(5)
        return US if pid == OURS else THEM

    def current_user(self) -> str:
        return US

    def read(self, _handle: int, _size: int, milliseconds: int) -> bytes:
        assert milliseconds > 0
        found = self.answers.popleft()
        if found is None:
            raise TimeoutError
        if isinstance(found, OSError):
            raise found
        return found

    def write(self, _handle: int, data: bytes, milliseconds: int) -> None:
        assert milliseconds > 0
        if self.dead:
            raise WindowsError(BROKEN_PIPE)
        self.sent.append(data)

    def is_closed(self, _handle: int) -> bool:
        return self.dead

    def close(self, _handle: int) -> None:
        self.closed += 1


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Remote:
    """A daemon's pipe, and its token in the state folder."""
    found = Remote()
    token_path(Path(NAME), tmp_path).write_bytes(b"token\n")

    def try_connect(path: Path, deadline: float) -> client.PipeConnection | None:
        return client.open_connection(path, deadline, found, tmp_path)

    monkeypatch.setattr(client_transport, "sys", SimpleNamespace(platform="win32"))
    monkeypatch.setattr(
        client_transport,
        "pipe",
        SimpleNamespace(try_connect=try_connect, PipeConnection=client.PipeConnection),
        raising=False,
    )
    return found


def soon() -> float:
    return time.monotonic() + 30


def opened(remote: Remote, **options: Any) -> SocketTransport:
    transport = SocketTransport(Path(NAME), start=False, **options)
    transport.connect(soon())
    assert remote.opened
    return transport


def test_the_token_is_sent_before_anything_else(remote: Remote) -> None:
    transport = opened(remote)
    transport.send(b"call\n", soon())
    remote.answers.extend([b"ans", b"wer\nnext", b"\n"])
    assert transport.receive(soon()) == b"answer"
    assert transport.receive(soon()) == b"next"
    assert remote.sent == [b"token\n", b"call\n"]
    transport.close()
    assert remote.closed == 1


def test_where_nobody_has_the_pipe_there_is_no_daemon(remote: Remote) -> None:
    remote.opening.append(FileNotFoundError())
    with pytest.raises(DaemonNotRunning, match="wikid start"):
        opened(remote)


def test_a_daemon_is_started_where_nobody_has_the_pipe(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    remote.opening.extend([FileNotFoundError(), FileNotFoundError(), None])
    launch = SimpleNamespace(start_daemon=lambda _path, connect, _deadline: connect() or connect())
    monkeypatch.setattr(client_transport, "import_module", lambda _: launch)
    SocketTransport(Path(NAME)).connect(soon())
    assert remote.sent == [b"token\n"]


def test_a_busy_pipe_is_waited_for(remote: Remote) -> None:
    remote.opening.extend([WindowsError(PIPE_BUSY), WindowsError(PIPE_BUSY), None])
    opened(remote)
    assert len(remote.waits) == 2
    assert all(0 < each <= 30_001 for each in remote.waits)


def test_a_pipe_that_stays_busy_ends_with_the_deadline(remote: Remote) -> None:
    remote.opening.extend([WindowsError(PIPE_BUSY)] * 2)
    with pytest.raises(DaemonFailed, match="too busy"):
        SocketTransport(Path(NAME), start=False).connect(time.monotonic())
    assert remote.waits == []


def test_what_may_not_be_opened_says_what_to_do(remote: Remote) -> None:
    remote.opening.append(WindowsError(5))
    with pytest.raises(DaemonNotRunning, match="WIKID_SOCKET"):
        opened(remote)


@pytest.mark.parametrize("server", [STRANGE, GONE])
def test_a_stranger_s_pipe_is_told_nothing(server: int, remote: Remote) -> None:
    remote.server = server
    with pytest.raises(DaemonNotRunning, match=r"whose|another user"):
        opened(remote)
    assert remote.sent == []
    assert remote.closed == 1


def test_a_missing_token_says_what_to_do(remote: Remote, tmp_path: Path) -> None:
    token_path(Path(NAME), tmp_path).unlink()
    with pytest.raises(DaemonNotRunning, match="state folder"):
        opened(remote)
    assert remote.closed == 1


@pytest.mark.parametrize("lost", [b"", WindowsError(BROKEN_PIPE)])
def test_a_broken_pipe_is_a_lost_connection(lost: bytes | OSError, remote: Remote) -> None:
    transport = opened(remote)
    remote.answers.append(lost)
    with pytest.raises(ConnectionLost):
        transport.receive(soon())
    assert remote.closed == 1
    with pytest.raises(ConnectionLost):
        transport.send(b"more\n", soon())


def test_a_pipe_that_breaks_while_sending_is_a_lost_connection(remote: Remote) -> None:
    transport = opened(remote)
    remote.dead = True
    with pytest.raises(ConnectionLost):
        transport.send(b"call\n", soon())


def test_a_daemon_that_is_about_to_end_counts_as_none(remote: Remote) -> None:
    remote.dead = True
    with pytest.raises(DaemonNotRunning, match="wikid start"):
        opened(remote)
    assert remote.closed == 1


def test_an_answer_that_does_not_come_in_time_ends_the_call(remote: Remote) -> None:
    transport = opened(remote)
    remote.answers.append(None)
    with pytest.raises(DaemonFailed, match="in time"):
        transport.receive(soon())
    assert remote.closed == 1


def test_a_connection_that_was_closed_meanwhile_is_opened_anew(remote: Remote) -> None:
    transport = opened(remote)
    transport.connect(soon())
    assert remote.opened == 1
    remote.dead = True
    remote.opening.append(None)

    def revived(_handle: int) -> bool:
        remote.dead = False
        return True

    remote.is_closed = revived  # type: ignore[method-assign]
    transport.connect(soon())
    assert remote.opened == 2
