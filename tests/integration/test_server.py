"""The daemon's listening side over real sockets, with a small dispatcher in place of the use cases."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from serving import HANG_GUARD_SECONDS, Calls, Message, Peer, claim, daemon, scenario, until
from wikid_daemon.instance import AlreadyRunning, Instance
from wikid_daemon.server import Server
from wikid_daemon.transport import stream as stream_module
from wikid_protocol.endpoint import EndpointRefused
from wikid_protocol.limits import LIMITS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")


@scenario
async def test_a_client_may_go_without_a_handshake(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        assert (await peer.ask(1, "ping"))["result"]["pid"] == os.getpid()
        assert "result" in await peer.ask("two", "status", something_newer={"a": 1})


@scenario
async def test_the_handshake_names_the_session_of_later_calls(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        answer = await peer.ask(1, "initialize", session="editor-1", protocol={"min": 1, "max": 99})
        assert answer["result"]["protocol"] == 1
        await peer.ask(2, "ping")
        assert running.calls.sessions[-1] == "editor-1"


@pytest.mark.parametrize("wanted", [{"min": 0, "max": 0}, {"min": 99, "max": 99}, {"min": 1, "max": 0}])
@scenario
async def test_a_foreign_protocol_is_refused_but_can_still_stop_the_daemon(tmp_path: Path, wanted: Message) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        error = (await peer.ask(1, "initialize", protocol=wanted))["error"]
        assert error["data"]["kind"] == "protocol_unsupported"
        assert "1 to 1" in error["message"]
        assert await peer.alive()
        assert (await peer.ask(2, "shutdown"))["result"] == {"done": True}
        await running.serving


@scenario
async def test_faulty_calls_get_typed_errors_and_the_connection_goes_on(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        assert (await peer.ask(1, "no/such"))["error"]["code"] == -32601
        missing = (await peer.ask(2, "recall"))["error"]
        assert (missing["code"], missing["message"]) == (-32602, "query: expected a value")
        mistyped = (await peer.ask(3, "index/reindex", components=["lexical", 7]))["error"]
        assert mistyped["message"].startswith("components[1]: ")
        data = (await peer.ask(4, "vault/resolve", cwd="/x"))["error"]["data"]
        assert data.pop("call")
        assert data == {"kind": "vault_not_found", "hint": "wikid vault add PATH", "retry": False}
        for bad, code in ((b"{]", -32700), (b"{}", -32600), (b"7", -32600), (b"\xff{", -32700)):
            peer.writer.write(bad + b"\n")
            answer = await peer.read()
            assert (answer["id"], answer["error"]["code"]) == (None, code)
        assert await peer.alive()


@scenario
async def test_notifications_are_never_answered(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        for method in ("ping", "no/such", "vault/list", "recall", "$/cancelRequest", "$/whatever"):
            peer.send({"jsonrpc": "2.0", "method": method})
        assert await peer.alive()


@scenario
async def test_a_broken_handler_tells_the_log_where_and_nobody_what(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        with capture_logs() as logged:
            error = (await peer.ask(1, "vault/list"))["error"]
        assert error["code"] == -32603
        assert error["data"]["kind"] == "internal"
        assert "note" not in json.dumps(error)
        (event,) = [each for each in logged if each["event"] == "a call failed"]
        assert isinstance(event["exc_info"], KeyError)
        assert set(event) <= {"event", "log_level", "method", "exc_info"}


@scenario
async def test_many_calls_in_one_piece_are_all_answered(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        peer.send(*({"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(500)))
        answers = [await peer.read() for _ in range(500)]
        assert sorted(each["id"] for each in answers) == list(range(500))
        assert {each["error"]["data"]["kind"] for each in answers if "error" in each} <= {"busy"}


@scenario
async def test_a_batch_is_answered_as_one_array(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        peer.send(
            [
                {"jsonrpc": "2.0", "id": 1, "method": "ping"},
                {"jsonrpc": "2.0", "method": "ping"},
                {"jsonrpc": "2.0", "id": 2, "method": "no/such"},
                5,
                {"jsonrpc": "2.0", "id": 3, "method": "page/search", "params": {"query": "q", "limit": 600}},
                {"jsonrpc": "2.0", "id": 4, "method": "page/search", "params": {"query": "q", "limit": 600}},
            ]
        )
        answers = {each["id"]: each for each in await peer.read()}
        assert set(answers) == {1, 2, 3, 4, None}
        assert answers[1]["result"]["version"] == "1"
        assert answers[2]["error"]["code"] == -32601
        assert answers[None]["error"]["code"] == -32600
        assert len(answers[3]["result"]["matches"]) == 600
        assert answers[4]["error"]["data"]["kind"] == "message_too_large"


@scenario
async def test_batches_of_nothing_or_too_much(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        ping = {"jsonrpc": "2.0", "method": "ping"}
        for batch in ([], [{**ping, "id": number} for number in range(LIMITS.queue + 1)]):
            peer.send(batch)
            answer = await peer.read()
            assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        peer.send([ping, ping])
        assert await peer.alive()


@scenario
async def test_an_answer_past_the_limit_becomes_an_error_that_names_the_cursor(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        error = (await peer.ask(1, "page/search", query="q", limit=1_500))["error"]
        assert error["data"]["kind"] == "message_too_large"
        assert "cursor" in error["data"]["hint"]
        assert await peer.alive()


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (b"[" + b" " * 64_000_000, "message_too_large"),
        (b'{"x":"' + b"y" * 4_100_000 + b'"}\n', "message_too_large"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "parse_error"),
        (b"GARBAGE / HTTP/9\r\n\r\n", "parse_error"),
    ],
    ids=["64 MB without newline", "a line past the limit", "TLS hello", "no known framing"],
)
@scenario
async def test_what_cannot_be_read_is_refused_and_closed_and_nobody_else_notices(
    tmp_path: Path, sent: bytes, kind: str
) -> None:
    async with daemon(tmp_path) as running:
        peer, other = await running.connect(), await running.connect()
        peer.writer.write(sent)
        assert (await peer.read())["error"]["data"]["kind"] == kind
        await peer.writer.drain()
        assert await peer.closed()
        assert await other.alive()
        peer.writer.close()
        await until(lambda: running.server.connections == 1)


@scenario
async def test_a_message_must_be_finished_in_time_and_an_idle_client_need_not_speak(tmp_path: Path) -> None:
    async with daemon(tmp_path, frame_seconds=0.05) as running:
        idle, waiting, slow = [await running.connect() for _ in range(3)]
        assert await idle.alive()
        waiting.call(1, "recall", query="a")
        await running.calls.running(1)
        slow.writer.write(b'{"jsonrpc"')
        assert (await slow.read())["error"]["data"]["kind"] == "timeout"
        assert await slow.closed()
        assert await idle.alive()
        running.calls.release.set()
        assert (await waiting.read())["id"] == 1


@scenario
async def test_an_unfinished_last_message_is_told(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        peer.writer.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        peer.writer.write_eof()
        assert (await peer.read())["error"]["data"]["kind"] == "parse_error"
        assert await peer.closed()


@scenario
async def test_calls_in_flight_are_limited_for_each_connection_and_for_all(tmp_path: Path) -> None:
    async with daemon(tmp_path, calls_in_flight=2, queue=3) as running:
        first, second = await running.connect(), await running.connect()
        for number in range(2):
            first.call(number, "recall", query="a")
        await running.calls.running(2)
        error = (await first.ask("over", "ping"))["error"]
        assert (error["data"]["kind"], error["data"]["retry"]) == ("busy", True)
        assert error["data"]["retry_after_ms"] > 0
        second.call(0, "recall", query="a")
        await running.calls.running(3)
        assert (await second.ask(1, "page/search", query="q"))["error"]["data"]["kind"] == "busy"
        assert await second.alive()
        running.calls.release.set()
        assert {(await first.read())["id"], (await first.read())["id"]} == {0, 1}
        assert await first.alive()


@scenario
async def test_the_members_of_a_batch_wait_for_each_other(tmp_path: Path) -> None:
    async with daemon(tmp_path, calls_in_flight=2, queue=8) as running:
        peer = await running.connect()
        waiting = [{"jsonrpc": "2.0", "id": each, "method": "recall", "params": {"query": "a"}} for each in range(4)]
        pings = [{"jsonrpc": "2.0", "id": each, "method": "ping"} for each in (4, 5)]
        peer.send([*waiting, *pings, {"jsonrpc": "2.0", "method": "ping"}])
        await running.calls.running(2)
        assert (await peer.ask("over", "ping"))["error"]["data"]["kind"] == "busy", "a call of its own does not wait"
        peer.send([pings[0]])
        assert (await peer.read())[0]["error"]["data"]["kind"] == "busy", "nor does a second batch"
        peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 3}})
        running.calls.release.set()
        answers = {each["id"]: each for each in await peer.read()}
        assert set(answers) == {0, 1, 2, 3, 4, 5}
        assert answers.pop(3)["error"]["data"]["kind"] == "cancelled"
        assert all("result" in each for each in answers.values())
        assert running.calls.started == ["a"] * 3, "what was cancelled while it waited never began"


@scenario
async def test_what_waits_is_cancelled_with_its_connection(tmp_path: Path) -> None:
    async with daemon(tmp_path, calls_in_flight=1) as running:
        peer = await running.connect()
        peer.send([{"jsonrpc": "2.0", "id": each, "method": "recall", "params": {"query": "a"}} for each in range(3)])
        await running.calls.running(1)
        peer.writer.close()
        await until(lambda: running.server.calls_in_flight == 0 and running.server.connections == 0)
        assert await (await running.connect()).alive()
        assert running.calls.started == ["a"]


@scenario
async def test_what_never_became_a_call_has_a_mark_as_well(tmp_path: Path) -> None:
    async with daemon(tmp_path, calls_in_flight=1, connections=2) as running:
        peer = await running.connect()
        marks = []
        for message in (b"{]", b"{}", b"[]", b'{"jsonrpc":"2.0","id":1,"method":"no/such"}'):
            peer.writer.write(message + b"\n")
            marks.append((await peer.read())["error"]["data"]["call"])
        peer.call(1, "recall", query="a")
        await running.calls.running(1)
        marks.append((await peer.ask(2, "ping"))["error"]["data"]["call"])
        await (await running.connect()).alive()
        marks.append((await (await running.connect()).read())["error"]["data"]["call"])
        assert all(marks)
        assert len(set(marks)) == len(marks)


@scenario
async def test_a_connection_may_begin_with_blank_lines(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        for pieces in ([b"\n \r\n"], [b"\r", b"\n", b"\t"]):
            peer = await running.connect()
            for piece in pieces:
                peer.writer.write(piece)
                await peer.writer.drain()
            assert await peer.alive()


@scenario
async def test_connections_are_limited_and_a_closed_one_makes_room(tmp_path: Path) -> None:
    async with daemon(tmp_path, connections=2) as running:
        first, second = await running.connect(), await running.connect()
        assert await first.alive()
        assert await second.alive()
        third = await running.connect()
        assert (await third.read())["error"]["data"]["kind"] == "busy"
        assert await third.closed()
        assert running.server.connections == 2
        first.writer.close()
        await until(lambda: running.server.connections == 1)
        assert await (await running.connect()).alive()


@scenario
async def test_an_id_is_used_for_one_call_at_a_time(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        peer.call(1, "recall", query="a")
        assert (await peer.ask(1, "ping"))["error"]["code"] == -32600
        assert "result" in await peer.ask("1", "ping")
        running.calls.release.set()
        assert "result" in await peer.read()
        assert "result" in await peer.ask(1, "ping")


@scenario
async def test_a_cancelled_call_ends_at_once_and_its_worker_is_free(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        peer.call(1, "recall", query="a", mode="thread")
        await running.calls.running(1)
        peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}})
        answer = await peer.read()
        assert (answer["id"], answer["error"]["code"]) == (1, -32800)
        assert await asyncio.to_thread(running.calls.worker_done.wait, HANG_GUARD_SECONDS / 2)
        await running.calls.told(1)
        assert "result" in await peer.ask(1, "ping")
        await until(lambda: running.server.calls_in_flight == 0)


@scenario
async def test_cancelling_in_the_same_breath_or_what_is_unknown(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        cancel = [
            {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": call_id}} for call_id in (1, 2, None, [1])
        ]
        call = {"jsonrpc": "2.0", "id": 1, "method": "recall", "params": {"query": "a"}}
        peer.send(call, *cancel)
        assert (await peer.read())["error"]["code"] == -32800
        assert await peer.alive()
        await until(lambda: running.server.calls_in_flight == 0)
        assert running.calls.started == []


@scenario
async def test_a_call_with_an_id_is_answered_even_where_only_a_notification_is_known(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        answer = await peer.ask(7, "$/cancelRequest", id=1)
        assert answer["error"]["data"]["kind"] == "method_not_found"


@scenario
async def test_a_handler_that_is_cancelled_from_within_is_answered_too(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        assert (await peer.ask(1, "models/list"))["error"]["code"] == -32800
        assert await peer.alive()


@scenario
async def test_a_batch_with_a_cancelled_member_still_answers(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        call = {"jsonrpc": "2.0", "id": 1, "method": "recall", "params": {"query": "a"}}
        peer.send([call, {"jsonrpc": "2.0", "id": 2, "method": "ping"}])
        await running.calls.running(1)
        peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}})
        answers = {each["id"]: each for each in await peer.read()}
        assert answers[1]["error"]["code"] == -32800
        assert "result" in answers[2]


@pytest.mark.parametrize("half_closed_first", [False, True])
@scenario
async def test_a_client_that_vanishes_has_its_calls_cancelled(tmp_path: Path, half_closed_first: bool) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        peer.call(1, "recall", query="a", mode="thread")
        peer.call(2, "recall", query="b")
        await running.calls.running(2)
        if half_closed_first:
            peer.writer.write_eof()
        peer.writer.transport.abort()
        await running.calls.told(2)
        assert await asyncio.to_thread(running.calls.worker_done.wait, HANG_GUARD_SECONDS / 2)
        assert await (await running.connect()).alive()
        assert running.server.connections == 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a finished sender looks like one that is gone")
@scenario
async def test_a_client_that_only_finished_sending_gets_its_answer(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        peer.call(1, "recall", query="a")
        peer.writer.write_eof()
        await running.calls.running(1)
        running.calls.release.set()
        assert "result" in await peer.read()
        assert await peer.closed()


@scenario
async def test_progress_comes_in_order_and_before_the_answer(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        peer.call(1, "index/reindex", progress_token="t")
        messages = [await peer.read() for _ in range(4)]
        assert [each.get("method") for each in messages] == ["$/progress"] * 3 + [None]
        assert messages[2]["params"]["value"] == {"kind": "end", "message": "", "percentage": 100.0}
        assert messages[1]["params"] == {
            "token": "t",
            "value": {"kind": "report", "message": "half way", "percentage": 50.0},
        }
        assert [each["params"]["value"]["kind"] for each in messages[:3]] == ["begin", "report", "end"]


@scenario
async def test_events_nobody_reads_are_dropped_and_the_answer_is_kept(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        with socket.socket(socket.AF_UNIX) as mute:
            mute.connect(str(running.endpoint))
            mute.sendall(_line(1, "index/reindex", force=True, progress_token="t"))
            await until(lambda: len(running.calls.sessions) == 1 and running.server.calls_in_flight == 0)
            lines = (await asyncio.to_thread(_read_until_answer, mute)).splitlines()
        assert json.loads(lines[-1])["id"] == 1
        assert 900 < len(lines) < 3_000


@scenario
async def test_a_client_that_does_not_read_its_answers_is_closed(tmp_path: Path) -> None:
    async with daemon(tmp_path, frame_seconds=0.05) as running:
        other = await running.connect()
        assert await other.alive()
        with socket.socket(socket.AF_UNIX) as mute:
            mute.connect(str(running.endpoint))
            for number in range(4):
                mute.sendall(_line(number, "page/search", query="q", limit=800))
            await until(lambda: len(running.calls.sessions) > 1)
            await until(lambda: running.server.connections == 1)
        assert await other.alive()


def _line(call_id: int, method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}).encode() + b"\n"


def _read_until_answer(connection: socket.socket) -> bytes:
    found = b""
    while b'"result"' not in found or not found.endswith(b"\n"):
        piece = connection.recv(1_000_000)
        assert piece, "closed before the answer"
        found += piece
    return found


@scenario
async def test_shutdown_lets_calls_finish_and_takes_no_new_ones(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer, other = await running.connect(), await running.connect()
        peer.call(1, "recall", query="a")
        await running.calls.running(1)
        assert (await other.ask(1, "shutdown", drain_ms=20_000))["result"] == {"done": True}
        assert (await other.ask(2, "page/search", query="q"))["error"]["data"]["kind"] == "busy"
        assert await other.alive()
        await until(lambda: not running.endpoint.exists())
        running.calls.release.set()
        assert "result" in await peer.read()
        assert await peer.closed()
        assert await other.closed()
        await running.serving


@scenario
async def test_a_drain_that_takes_too_long_or_is_hurried_cancels(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peer, other = await running.connect(), await running.connect()
        peer.call(1, "recall", query="a")
        await running.calls.running(1)
        await other.ask(1, "shutdown", drain_ms=3_600_000)
        await other.ask(2, "shutdown", drain_ms=0)
        assert (await peer.read())["error"]["code"] == -32800
        assert await peer.closed()
        await running.serving
        assert running.calls.cancelled == ["a"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@scenario
async def test_signals_stop_the_daemon_like_shutdown_does(tmp_path: Path, number: signal.Signals) -> None:
    async with daemon(tmp_path) as running:
        peer = await running.connect()
        peer.call(1, "recall", query="a")
        await running.calls.running(1)
        os.kill(os.getpid(), number)
        await until(lambda: not running.endpoint.exists())
        running.calls.release.set()
        assert "result" in await peer.read()
        await running.serving


@scenario
async def test_the_socket_is_private_whatever_the_umask(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        async with daemon(tmp_path) as running:
            assert stat.S_IMODE(running.endpoint.stat().st_mode) == 0o600
            assert stat.S_IMODE(running.endpoint.parent.stat().st_mode) == 0o700
            assert os.umask(0) == 0
    finally:
        os.umask(mask)


def test_the_socket_is_never_open_to_others_not_even_while_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    instance = claim(tmp_path)
    mask = os.umask(0)
    try:
        with instance.listen():
            assert stat.S_IMODE(instance.endpoint.stat().st_mode) == 0o600
    finally:
        os.umask(mask)
        instance.release()


@scenario
async def test_a_folder_open_to_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o755)
    with pytest.raises(EndpointRefused, match="chmod 700"):
        async with daemon(tmp_path):
            pass


@scenario
async def test_another_user_is_refused_before_a_byte_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemon(tmp_path) as running:
        monkeypatch.setattr(stream_module, "peer_uid", lambda _: os.getuid() + 1)
        peer = await running.connect()
        peer.call(1, "ping")
        assert await peer.closed()
        assert running.calls.sessions == []
        assert running.server.connections == 0


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become another user")
@scenario
async def test_a_real_process_of_another_user_is_refused() -> None:
    # a folder of its own directly in the temporary folder: it is opened to everybody, and nothing above it needs to be
    with tempfile.TemporaryDirectory(prefix="wikid-test-") as folder:
        async with daemon(Path(folder)) as running:
            for place in (Path(folder), running.endpoint.parent, running.endpoint):
                place.chmod(0o777)
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", STRANGER, str(running.endpoint))
            assert await process.wait() == 0
            assert running.calls.sessions == []


STRANGER = """
import os, socket, sys

os.setgid(65534)
os.setuid(65534)
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    try:
        connection.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\\n')
        found = connection.recv(100)
    except (BrokenPipeError, ConnectionResetError):
        found = b""
sys.exit(len(found))
"""


@scenario
async def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    _leave_stale_socket(tmp_path)
    async with daemon(tmp_path) as running:
        assert await (await running.connect()).alive()


def _leave_stale_socket(root: Path) -> None:
    (root / "run").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(root / "run" / "w.sock"))


@pytest.mark.parametrize("kind", ["file", "link to a file", "folder"])
@scenario
async def test_what_is_no_socket_stays_and_the_start_is_refused(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "run" / "w.sock"
    place.parent.mkdir(mode=0o700)
    if kind == "folder":
        place.mkdir()
    else:
        (tmp_path / "precious").write_text("mine")
        (tmp_path / "precious").rename(place) if kind == "file" else place.symlink_to(tmp_path / "precious")
    with pytest.raises(EndpointRefused, match="not a socket"):
        async with daemon(tmp_path):
            pass
    assert place.is_dir() if kind == "folder" else place.read_text() == "mine"


@scenario
async def test_only_the_own_socket_is_removed_at_the_end(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        running.endpoint.unlink()
        with socket.socket(socket.AF_UNIX) as foreign:
            foreign.bind(str(running.endpoint))
    assert stat.S_ISSOCK(os.lstat(tmp_path / "run" / "w.sock").st_mode)


@scenario
async def test_a_removed_socket_file_is_bound_again(tmp_path: Path) -> None:
    async with daemon(tmp_path, check_seconds=0.01) as running:
        before = await running.connect()
        running.endpoint.unlink()
        running.endpoint.parent.rmdir()
        await until(running.endpoint.exists)
        await until(lambda: not running.instance.lost())
        assert stat.S_IMODE(running.endpoint.stat().st_mode) == 0o600
        assert await (await running.connect()).alive()
        assert await before.alive()
    assert not (tmp_path / "run" / "w.sock").exists()


@scenario
async def test_a_file_put_in_place_of_the_socket_is_told_once_and_left_alone(tmp_path: Path) -> None:
    with capture_logs() as logged:
        async with daemon(tmp_path, check_seconds=0.01) as running:
            running.endpoint.unlink()
            running.endpoint.write_text("mine")
            await until(lambda: any(each["log_level"] == "error" for each in logged))
            running.endpoint.unlink()
            await until(lambda: running.endpoint.exists() and not running.instance.lost())
            assert await (await running.connect()).alive()
    assert [each["error"] for each in logged if each["log_level"] == "error"] == ["EndpointRefused"]


@scenario
async def test_a_second_daemon_learns_whether_the_first_answers(tmp_path: Path) -> None:
    async with daemon(tmp_path):
        with pytest.raises(AlreadyRunning) as refused:
            await asyncio.to_thread(claim, tmp_path)
        assert refused.value.answers
    starting = claim(tmp_path)
    with pytest.raises(AlreadyRunning) as refused:
        claim(tmp_path, wait_s=0)
    assert not refused.value.answers
    starting.release()
    claim(tmp_path, wait_s=0).release()


@scenario
async def test_a_daemon_with_another_state_folder_leaves_a_living_socket_alone(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        second = Instance.claim(running.endpoint, tmp_path / "elsewhere")
        with pytest.raises(AlreadyRunning):
            second.listen()
        second.release()
        assert await (await running.connect()).alive()


@scenario
async def test_a_listener_of_the_service_manager_is_served_and_its_file_kept(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "run" / "w.sock"))
    listener.listen()
    instance = claim(tmp_path, inherited=listener)
    server = Server(Calls(), instance)
    serving = asyncio.create_task(server.serve())
    reader, writer = await asyncio.open_unix_connection(instance.endpoint)
    peer = Peer(reader, writer)
    assert await peer.alive()
    await peer.ask(1, "shutdown")
    await serving
    instance.release()
    writer.close()
    assert instance.endpoint.exists()


RACER = """
import asyncio, os, sys
from pathlib import Path
from wikid_daemon.instance import AlreadyRunning, Instance
from wikid_daemon.server import Server
from wikid_protocol.records import Pong

class Calls:
    async def call(self, method, params, context):
        return Pong(version="1", pid=os.getpid())

root = Path(sys.argv[1])
try:
    instance = Instance.claim(root / "run" / "w.sock", root / "state")
except AlreadyRunning as error:
    sys.exit(10 if error.answers else 11)
asyncio.run(Server(Calls(), instance).serve())
instance.release()
"""


@scenario
async def test_six_starts_at_once_leave_one_daemon(tmp_path: Path) -> None:
    _leave_stale_socket(tmp_path)
    racers = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", RACER, str(tmp_path), stdout=subprocess.DEVNULL)
        for _ in range(6)
    ]
    waits = [asyncio.create_task(each.wait()) for each in racers]
    try:
        await until(lambda: sum(each.done() for each in waits) >= 5)
        assert sorted(each.returncode for each in racers if each.returncode is not None) == [10] * 5
        reader, writer = await asyncio.open_unix_connection(tmp_path / "run" / "w.sock")
        await Peer(reader, writer).ask(1, "shutdown")
        writer.close()
        assert sorted(await asyncio.gather(*waits)) == [0, *[10] * 5]
    finally:
        for each in racers:
            if each.returncode is None:
                each.kill()
