"""The framings over one server with a small dispatcher: limits, closing, and what only HTTP has."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from links import CONVERSATIONS, FRAMINGS, Closed, FramingName, ask, call, http_session, kind_of, linked
from serving import HANG_GUARD_SECONDS, Daemon, daemon, scenario, until
from wikid_daemon.calls import Face
from wikid_daemon.transport import stream as stream_module
from wikid_protocol.limits import LIMITS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")

PING = json.dumps(call(1, "ping")).encode()
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: wikid\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: " + base64.b64encode(bytes(16)) + b"\r\n\r\n"
)


def text_frame(text: bytes) -> bytes:
    """As a client sends it, with a mask of zeros."""
    assert 125 < len(text) < 65_536
    return b"\x81\xfe" + len(text).to_bytes(2, "big") + bytes(4) + text


def face(**broken: Exception) -> Face:
    async def health() -> dict[str, object]:
        if "health" in broken:
            raise broken["health"]
        return {"status": "ok"}

    async def metrics() -> tuple[bytes, str]:
        return b"# EOF\n", "application/openmetrics-text; version=1.0.0; charset=utf-8"

    return Face(health, metrics)


async def raw(running: Daemon, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    peer = await running.connect()
    peer.writer.write(sent)
    return peer.reader, peer.writer


async def read_response(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the next response."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    return int(head[0].split()[1]), headers, await reader.readexactly(int(headers.get("content-length", 0)))


# -- every framing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framing", FRAMINGS)
@scenario
async def test_a_client_that_closes_has_its_calls_cancelled(tmp_path: Path, framing: FramingName) -> None:
    async with daemon(tmp_path) as running, linked(running.endpoint, framing) as link:
        for number in range(2):
            await link.send(json.dumps(call(number, "recall", query=str(number), mode="thread")).encode())
        await running.calls.running(2)
        await link.close()
        await running.calls.told(2)
        assert await asyncio.to_thread(running.calls.worker_done.wait, HANG_GUARD_SECONDS / 2)
        await until(lambda: running.server.calls_in_flight == 0 and running.server.connections == 0)


@pytest.mark.parametrize("framing", FRAMINGS)
@scenario
async def test_a_broken_handler_tells_the_log_where_and_nobody_what(tmp_path: Path, framing: FramingName) -> None:
    async with daemon(tmp_path) as running, linked(running.endpoint, framing) as link:
        with capture_logs() as logged:
            error = (await ask(link, 1, "vault/list"))["error"]
        assert error["data"]["kind"] == "internal"
        assert "note" not in json.dumps(error)
        (event,) = [each for each in logged if each["event"] == "a call failed"]
        assert set(event) <= {"event", "log_level", "method", "exc_info"}


@pytest.mark.parametrize("framing", FRAMINGS)
@scenario
async def test_the_members_of_a_batch_past_the_limit_in_flight_wait(tmp_path: Path, framing: FramingName) -> None:
    async with daemon(tmp_path) as running, linked(running.endpoint, framing) as link:
        batch = [call(number, "recall", query="q") for number in range(LIMITS.calls_in_flight + 1)]
        await link.send(json.dumps(batch).encode())
        await running.calls.running(LIMITS.calls_in_flight)
        assert running.server.calls_in_flight == LIMITS.calls_in_flight
        running.calls.release.set()
        answers = {each["id"]: each for each in await link.read()}
        assert set(answers) == set(range(LIMITS.calls_in_flight + 1))
        assert all("result" in each for each in answers.values())
        assert "result" in await ask(link, "after", "ping")


@pytest.mark.parametrize("framing", FRAMINGS)
@scenario
async def test_shutdown_lets_calls_finish_and_takes_no_new_ones(tmp_path: Path, framing: FramingName) -> None:
    async with (
        daemon(tmp_path) as running,
        linked(running.endpoint, framing) as link,
        linked(running.endpoint, framing) as other,
    ):
        await link.send(json.dumps(call(1, "recall", query="a")).encode())
        await running.calls.running(1)
        # a first call, so that each has its connection before no more are accepted
        assert "result" in await ask(other, 0, "ping")
        assert (await ask(other, 1, "shutdown", drain_ms=20_000))["result"] == {"done": True}
        await until(lambda: not running.endpoint.exists())
        if framing != "rpc":
            assert (await ask(other, 2, "page/search", query="q"))["error"]["data"]["kind"] == "busy"
        running.calls.release.set()
        assert "result" in await link.read()
        await running.serving


@pytest.mark.parametrize("framing", FRAMINGS)
@scenario
async def test_a_drain_that_takes_too_long_cancels_and_says_so(tmp_path: Path, framing: FramingName) -> None:
    async with daemon(tmp_path) as running, linked(running.endpoint, framing) as link:
        await link.send(json.dumps(call(1, "recall", query="a")).encode())
        await running.calls.running(1)
        running.server.stop(0)
        assert (await link.read())["error"]["data"]["kind"] == "cancelled"
        if framing != "rpc":
            with pytest.raises(Closed) as closed:
                await link.read()
            assert closed.value.code == (1001 if framing == "websocket" else None)
        await running.serving


@pytest.mark.parametrize("framing", CONVERSATIONS)
@scenario
async def test_events_nobody_reads_are_dropped_and_the_answer_is_kept(tmp_path: Path, framing: FramingName) -> None:
    async with daemon(tmp_path) as running, linked(running.endpoint, framing) as link:
        with socket.socket(socket.AF_UNIX) as mute:
            # of the same framing, and without an event loop that reads on its own
            mute.connect(str(running.endpoint))
            flood = json.dumps(call(1, "index/reindex", force=True, progress_token="t" * 80)).encode()
            mute.sendall(
                {
                    "lines": flood + b"\n",
                    "headers": b"Content-Length: %d\r\n\r\n%b" % (len(flood), flood),
                    "websocket": UPGRADE + text_frame(flood),
                }[framing]
            )
            await until(lambda: len(running.calls.sessions) == 1 and running.server.calls_in_flight == 0)
            found = await asyncio.to_thread(_read_until_answer, mute)
        assert 0 < found.count(b"$/progress") < 3_000
        assert "result" in await ask(link, 1, "ping")


def _read_until_answer(connection: socket.socket) -> bytes:
    found = b""
    while b'"result"' not in found[-1_000:]:
        piece = connection.recv(1_000_000)
        assert piece, "closed before the answer"
        found += piece
    return found


@pytest.mark.parametrize("framing", ["headers", "websocket", "rpc"])
@scenario
async def test_a_client_that_does_not_read_its_answers_is_closed(tmp_path: Path, framing: FramingName) -> None:
    search = json.dumps(call(1, "page/search", query="q" * 80, limit=800)).encode()
    sent = {
        "headers": b"Content-Length: %d\r\n\r\n%b" % (len(search), search),
        "websocket": text_frame(search),
        "rpc": b"POST /rpc HTTP/1.1\r\nHost: wikid\r\nContent-Length: %d\r\n\r\n%b" % (len(search), search),
    }[framing]
    async with daemon(tmp_path, frame_seconds=0.05) as running:
        other = await running.connect()
        assert await other.alive()
        with socket.socket(socket.AF_UNIX) as mute:
            mute.connect(str(running.endpoint))
            mute.sendall(UPGRADE if framing == "websocket" else b"")
            for number in range(4):
                mute.sendall(sent.replace(b'"id": 1', b'"id": %d' % number))
            await until(lambda: len(running.calls.sessions) > 1)
            await until(lambda: running.server.connections == 1)
        assert await other.alive()


@pytest.mark.parametrize("head", [b"Content-Length: five", b"content-type: text/plain", b"Content-Length 5"])
@scenario
async def test_malformed_headers_are_told_behind_headers_and_end_the_connection(tmp_path: Path, head: bytes) -> None:
    async with daemon(tmp_path) as running:
        reader, writer = await raw(running, b"Content-Length: %d\r\n\r\n%b" % (len(PING), PING) + head + b"\r\n\r\n{}")
        found = await reader.read()
        answers = [each.split(b"\r\n\r\n")[1] for each in found.split(b"Content-Length: ")[1:]]
        assert [json.loads(each).get("error", {}).get("code") for each in answers][-1] == -32700
        writer.close()
        await until(lambda: running.server.connections == 0)


UNFINISHED = {
    "lines": b'{"jsonrpc"',
    "the first byte": b"C",
    "a verb": b"GE",
    "headers": b"Content-Length: 50\r\n",
    "the body behind headers": b'Content-Length: 50\r\n\r\n{"jsonrpc"',
}


@pytest.mark.parametrize("sent", UNFINISHED.values(), ids=UNFINISHED)
@scenario
async def test_a_message_must_be_finished_in_time(tmp_path: Path, sent: bytes) -> None:
    async with daemon(tmp_path, frame_seconds=0.05) as running:
        reader, _ = await raw(running, sent)
        assert b'"kind":"timeout"' in await reader.read()
        await until(lambda: running.server.connections == 0)


@scenario
async def test_a_request_must_be_finished_in_time(tmp_path: Path) -> None:
    async with daemon(tmp_path, frame_seconds=0.05) as running:
        reader, _ = await raw(running, b"POST /rpc HTTP/1.1\r\nHost: wi")
        assert await reader.read() == b""
        reader, _ = await raw(running, b'POST /rpc HTTP/1.1\r\nHost: wikid\r\nContent-Length: 50\r\n\r\n{"jsonrpc"')
        status, _, body = await read_response(reader)
        assert (status, json.loads(body)["error"]["data"]["kind"]) == (408, "timeout")
        assert await reader.read() == b""
        await until(lambda: running.server.connections == 0)


@pytest.mark.parametrize("begun_at_once", [True, False])
@scenario
async def test_a_frame_must_be_finished_in_time_and_an_idle_socket_need_not_speak(
    tmp_path: Path, begun_at_once: bool
) -> None:
    part = text_frame(b"[" + b" " * 200)[:100]
    async with daemon(tmp_path, frame_seconds=0.05) as running, linked(running.endpoint, "websocket") as idle:
        await idle.send(json.dumps(call(1, "recall", query="a")).encode())
        await running.calls.running(1)
        reader, writer = await raw(running, UPGRADE + part if begun_at_once else UPGRADE)
        assert (await read_response(reader))[0] == 101
        if not begun_at_once:
            writer.write(part)
        found = await reader.read()
        assert b'"kind":"timeout"' in found
        assert (1008).to_bytes(2, "big") in found
        running.calls.release.set()
        assert (await idle.read())["id"] == 1


# -- HTTP --------------------------------------------------------------------------------------------------------------


REFUSED: list[tuple[str, str, int, str | None]] = [
    ("GET", "/", 404, None),
    ("GET", "/rpc/more", 404, None),
    ("GET", "/rpc", 405, "POST"),
    ("DELETE", "/rpc", 405, "POST"),
    ("POST", "/ws", 405, "GET"),
    ("POST", "/health", 405, "GET,HEAD"),
    ("GET", "/ws", 400, None),
]


@scenario
async def test_what_is_not_there_is_refused_in_the_words_of_the_protocol(tmp_path: Path) -> None:
    async with daemon(tmp_path, face=face()) as running, http_session(running.endpoint) as http:
        for verb, path, status, allow in REFUSED:
            async with http.request(verb, path) as response:
                assert (response.status, response.headers.get("Allow")) == (status, allow), (verb, path)
                assert response.content_type == "application/json"
                assert (await response.json())["error"]["data"]["kind"] == "invalid_request"


@scenario
async def test_a_notification_has_an_empty_answer_once_it_is_done(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, http_session(running.endpoint) as http:
        note = {"jsonrpc": "2.0", "method": "recall", "params": {"query": "q"}}
        for message in (note, [note, note]):
            running.calls.release.clear()
            begun = len(running.calls.started)
            posting = asyncio.create_task(http.post("/rpc", json=message))
            await running.calls.running(begun + 1)
            assert not posting.done()
            running.calls.release.set()
            async with await posting as response:
                assert (response.status, await response.read()) == (204, b"")
        assert running.server.calls_in_flight == 0


@scenario
async def test_a_body_over_the_limit_is_refused_however_it_comes(tmp_path: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(6):
            yield b" " * 1_000_000

    async with daemon(tmp_path) as running, http_session(running.endpoint) as http:
        for body in (io.BytesIO(b" " * 4_000_001), pieces()):
            async with http.post("/rpc", data=body) as response:
                assert response.status == 413
                assert (await response.json())["error"]["data"]["kind"] == "message_too_large"
        padded = PING + b" " * (LIMITS.message_bytes - len(PING))
        async with http.post("/rpc", data=io.BytesIO(padded)) as response:
            assert "result" in await response.json()


@scenario
async def test_nothing_is_done_for_a_web_page(tmp_path: Path) -> None:
    async with daemon(tmp_path, face=face()) as running, http_session(running.endpoint) as http:
        for origin in ("https://example.org", "http://localhost:8000", "null"):
            for verb, path in (("POST", "/rpc"), ("GET", "/health"), ("GET", "/ws")):
                async with http.request(verb, path, data=PING, headers={"Origin": origin}) as response:
                    assert response.status == 403
                    assert (await response.json())["error"]["data"]["kind"] == "invalid_request"
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await http.ws_connect("/ws", headers={"Origin": origin})
        assert running.calls.sessions == []


NO_HTTP = {
    "a header that is none": b"GET /health HTTP/1.1\r\nHost wikid\r\n\r\n",
    "a long header": b"GET /health HTTP/1.1\r\nHost: " + b"w" * 20_000 + b"\r\n\r\n",
    "many headers": b"GET /health HTTP/1.1\r\n" + b"X: secret\r\n" * 1_000 + b"\r\n",
    "two lengths": b"POST /rpc HTTP/1.1\r\nHost: w\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nsecret",
    "a length that is none": b"POST /rpc HTTP/1.1\r\nHost: w\r\nContent-Length: -5\r\n\r\n",
    "chunks that are none": b"POST /rpc HTTP/1.1\r\nHost: w\r\nTransfer-Encoding: chunked\r\n\r\nsecret\r\n\r\n",
}


@pytest.mark.parametrize("sent", NO_HTTP.values(), ids=NO_HTTP)
@scenario
async def test_what_is_no_http_is_refused_in_the_words_of_the_protocol(tmp_path: Path, sent: bytes) -> None:
    async with daemon(tmp_path, face=face()) as running:
        reader, _ = await raw(running, sent)
        status, headers, body = await read_response(reader)
        assert (status, headers["content-type"]) == (400, "application/json")
        assert json.loads(body)["error"]["data"]["kind"] == "parse_error"
        assert b"secret" not in body
        assert await reader.read() == b""
        await until(lambda: running.server.connections == 0)


@scenario
async def test_health_and_metrics_are_what_the_daemon_says(tmp_path: Path) -> None:
    async with daemon(tmp_path, face=face()) as running, http_session(running.endpoint) as http:
        async with http.get("/health") as response:
            assert (response.status, await response.json()) == (200, {"status": "ok"})
        async with http.head("/health") as response:
            assert (response.status, await response.read()) == (200, b"")
        async with http.get("/metrics") as response:
            assert (response.status, await response.read()) == (200, b"# EOF\n")
            assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")


@scenario
async def test_a_daemon_that_stops_says_so_to_monitoring_and_closes(tmp_path: Path) -> None:
    async with (
        daemon(tmp_path, face=face()) as running,
        http_session(running.endpoint) as http,
        linked(running.endpoint, "lines") as link,
    ):
        async with http.get("/health") as response:
            assert await response.json()
        await link.send(json.dumps(call(1, "recall", query="a")).encode())
        await running.calls.running(1)
        running.server.stop(20_000)
        async with http.get("/health") as response:
            assert (response.status, response.headers["Connection"]) == (503, "close")
        running.calls.release.set()
        await running.serving


@scenario
async def test_an_idle_http_client_does_not_hold_up_the_end(tmp_path: Path) -> None:
    async with (
        daemon(tmp_path) as running,
        http_session(running.endpoint) as http,
        linked(running.endpoint, "websocket"),
    ):
        async with http.post("/rpc", data=PING) as response:
            assert await response.json()
        assert running.server.connections == 2
        with capture_logs() as logged:
            running.server.stop(20_000)
            await running.serving
        assert [each["event"] for each in logged] == ["stopped"]
        assert running.server.connections == 0


@scenario
async def test_a_fault_outside_of_every_call_is_answered_without_its_text(tmp_path: Path) -> None:
    broken = face(health=KeyError("the text of a note"))
    async with daemon(tmp_path, face=broken) as running, http_session(running.endpoint) as http:
        with capture_logs() as logged:
            async with http.get("/health") as response:
                body = await response.text()
                assert (response.status, json.loads(body)["error"]["data"]["kind"]) == (500, "internal")
        assert "note" not in body
        (event,) = [each for each in logged if each["log_level"] == "error"]
        assert isinstance(event["exc_info"], KeyError)


@scenario
async def test_requests_in_one_piece_are_answered_in_their_order(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        posts = b"".join(
            b"POST /rpc HTTP/1.1\r\nHost: wikid\r\nContent-Length: %d\r\n\r\n%b" % (len(each), each)
            for each in (json.dumps(call(number, "ping")).encode() for number in range(300))
        )
        reader, _ = await raw(running, posts)
        for number in range(300):
            assert json.loads((await read_response(reader))[2])["id"] == number


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a finished sender looks like one that is gone")
@scenario
async def test_a_request_whose_client_only_finished_sending_is_answered(tmp_path: Path) -> None:
    search = json.dumps(call(1, "recall", query="q")).encode()
    async with daemon(tmp_path) as running:
        post = b"POST /rpc HTTP/1.1\r\nHost: wikid\r\nContent-Length: %d\r\n\r\n%b" % (len(search), search)
        reader, writer = await raw(running, post)
        writer.write_eof()
        await running.calls.running(1)
        running.calls.release.set()
        assert "result" in json.loads((await read_response(reader))[2])
        assert await reader.read() == b""
        await until(lambda: running.server.connections == 0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a finished sender looks like one that is gone")
@pytest.mark.parametrize("said", ["Content-Length: 500", "Transfer-Encoding: chunked"])
@scenario
async def test_a_body_whose_client_finished_sending_too_early_is_refused_at_once(tmp_path: Path, said: str) -> None:
    # the time for a frame is longer than this test may take
    async with daemon(tmp_path, frame_seconds=HANG_GUARD_SECONDS * 2) as running:
        reader, writer = await raw(
            running, f"POST /rpc HTTP/1.1\r\nHost: wikid\r\n{said}\r\n\r\n".encode() + b'5\r\n{"js'
        )
        writer.write_eof()
        status, _, body = await read_response(reader)
        assert (status, json.loads(body)["error"]["data"]["kind"]) == (400, "parse_error")
        assert await reader.read() == b""
        await until(lambda: running.server.connections == 0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a finished sender looks like one that is gone")
@scenario
async def test_a_websocket_whose_client_only_finished_sending_is_answered_and_closed(tmp_path: Path) -> None:
    recall = json.dumps(call(1, "recall", query="q", padding="x" * 60)).encode()
    async with daemon(tmp_path) as running:
        reader, writer = await raw(running, UPGRADE + text_frame(recall))
        assert (await read_response(reader))[0] == 101
        await running.calls.running(1)
        writer.write_eof()
        running.calls.release.set()
        assert b'"result"' in await reader.read()
        await until(lambda: running.server.connections == 0)


@pytest.mark.parametrize("name", ["Sec-WebSocket-Key", "Upgrade", "Connection"])
@scenario
async def test_a_handshake_that_is_not_ascii_is_refused(tmp_path: Path, name: str) -> None:
    async with daemon(tmp_path) as running:
        with capture_logs() as log:
            reader, _ = await raw(running, UPGRADE.replace(f"{name}: ".encode(), f"{name}: ".encode() + b"\xd2", 1))
            status, _, body = await read_response(reader)
        assert (status, json.loads(body)["error"]["data"]["kind"]) == (400, "invalid_request")
        assert not [each for each in log if each["log_level"] == "error"]


@scenario
async def test_only_a_client_that_waits_to_send_its_body_is_told_to_go_on(tmp_path: Path) -> None:
    head = b"POST /rpc HTTP/1.1\r\nHost: wikid\r\nContent-Length: %d\r\nExpect: " % len(PING)
    async with daemon(tmp_path) as running:
        reader, writer = await raw(running, head + b"100-continue\r\n\r\n")
        assert (await read_response(reader))[0] == 100
        writer.write(PING)
        status, _, body = await read_response(reader)
        assert (status, json.loads(body)["id"]) == (200, 1)
        reader, _ = await raw(running, head + b"a miracle\r\n\r\n")
        status, _, body = await read_response(reader)
        assert (status, json.loads(body)["error"]["data"]["kind"]) == (417, "invalid_request")


@scenario
async def test_http_counts_as_a_connection_and_makes_room_when_it_closes(tmp_path: Path) -> None:
    async with daemon(tmp_path, connections=2) as running:
        async with linked(running.endpoint, "websocket") as first, linked(running.endpoint, "rpc") as second:
            assert "result" in await ask(first, 1, "ping")
            assert "result" in await ask(second, 1, "ping")
            third = await running.connect()
            assert (await third.read())["error"]["data"]["kind"] == "busy"
        await until(lambda: running.server.connections == 0)
        assert await (await running.connect()).alive()


@scenario
async def test_another_user_is_refused_before_http_is_spoken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemon(tmp_path, face=face()) as running:
        monkeypatch.setattr(stream_module, "peer_uid", lambda _: os.getuid() + 1)
        reader, _ = await raw(running, b"GET /health HTTP/1.1\r\nHost: wikid\r\n\r\n")
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)


@scenario
async def test_many_clients_may_come_while_http_is_still_being_loaded(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        peers = [await running.connect() for _ in range(8)]
        for each in peers:
            each.writer.write(b"POST /rpc HTTP/1.1\r\nHost: w\r\nContent-Length: %d\r\n\r\n%b" % (len(PING), PING))
        gone = await running.connect()
        gone.writer.write(b"POST /rpc HTTP/1.1\r\n")
        gone.writer.close()
        for each in peers:
            assert (await read_response(each.reader))[0] == 200
        await until(lambda: running.server.connections == 8)


@scenario
async def test_http_that_cannot_be_loaded_leaves_the_other_framings_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wikid_daemon.transport.http", None)
    async with daemon(tmp_path) as running:
        for _ in range(2):
            with capture_logs() as logged:
                reader, _ = await raw(running, b"GET /health HTTP/1.1\r\nHost: wikid\r\n\r\n")
                with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)
            assert [each["event"] for each in logged] == ["HTTP cannot be served"]
        assert await (await running.connect()).alive()


# -- WebSocket ---------------------------------------------------------------------------------------------------------


@scenario
async def test_a_websocket_carries_many_calls_and_control_frames(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, http_session(running.endpoint) as http:
        async with http.ws_connect("/ws", autoping=False) as ws:
            for number in range(200):
                await ws.send_json(call(number, "ping"))
            await ws.ping(b"there?")
            answers, pong = [], b""
            for _ in range(201):
                frame = await ws.receive()
                if frame.type is aiohttp.WSMsgType.PONG:
                    pong = frame.data
                else:
                    answers.append(json.loads(frame.data))
            assert sorted(each["id"] for each in answers) == list(range(200))
            assert {each["error"]["data"]["kind"] for each in answers if "error" in each} <= {"busy"}
            assert pong == b"there?"
        assert ws.close_code == 1000
        await until(lambda: running.server.connections == 0)


@pytest.mark.parametrize(
    ("kind", "data", "code"),
    [
        (aiohttp.WSMsgType.BINARY, PING, 1003),
        (aiohttp.WSMsgType.TEXT, b" " * 4_000_001, 1009),
        (aiohttp.WSMsgType.TEXT, b"\xff{}", 1007),
    ],
    ids=["binary", "over the limit", "not UTF-8"],
)
@scenario
async def test_a_frame_that_is_no_message_ends_the_websocket_with_its_reason(
    tmp_path: Path, kind: aiohttp.WSMsgType, data: bytes, code: int
) -> None:
    async with daemon(tmp_path) as running, http_session(running.endpoint) as http:
        async with http.ws_connect("/ws") as ws:
            await ws.send_json(call(1, "recall", query="q"))
            await running.calls.running(1)
            try:
                await ws.send_frame(data, kind)
            except ConnectionError:
                pass  # the rest of what is too large is not taken
            while (frame := await ws.receive()).type is aiohttp.WSMsgType.TEXT:
                pass
            assert (frame.type, frame.data) == (aiohttp.WSMsgType.CLOSE, code)
        await running.calls.told(1)
        await until(lambda: running.server.connections == 0)


@scenario
async def test_a_message_may_come_in_fragments(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        half = len(PING) // 2
        fragments = [b"\x01" + bytes([0x80 | half]) + bytes(4) + PING[:half]]
        fragments += [b"\x80" + bytes([0x80 | len(PING) - half]) + bytes(4) + PING[half:]]
        reader, writer = await raw(running, UPGRADE + fragments[0])
        assert (await read_response(reader))[0] == 101
        writer.write(fragments[1])
        assert b'"result"' in await reader.readuntil(b"}}")


@scenario
async def test_faulty_messages_get_typed_errors_and_the_websocket_goes_on(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, linked(running.endpoint, "websocket") as link:
        assert await kind_of(link, b"{]") == "parse_error"
        assert await kind_of(link, b"") == "parse_error"
        assert await kind_of(link, b"[]") == "invalid_request"
        assert await kind_of(link, b"7") == "invalid_request"
        assert "result" in await ask(link, 1, "ping")
