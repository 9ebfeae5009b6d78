"""What a connection may have unread, in which order it is taken, and what is counted, over real sockets."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from links import CONVERSATIONS, FramingName, call, linked
from serving import HANG_GUARD_SECONDS, Calls, Peer, daemon, scenario, until
from wikid_daemon.transport.session import Session, Switchboard
from wikid_daemon.transport.stream import FRAMES_A_TURN, UNREAD_OUTPUT_BYTES, Stream
from wikid_daemon.transport.websocket import WebSocketTalk
from wikid_protocol.limits import LIMITS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")


def lines(*numbers: int, method: str = "ping", **params: object) -> bytes:
    return b"".join(json.dumps(call(each, method, **params)).encode() + b"\n" for each in numbers)


def read(connection: socket.socket, count: int) -> list[int]:
    """The ids of so many answers."""
    connection.settimeout(HANG_GUARD_SECONDS / 3)
    found = b""
    while found.count(b"\n") < count:
        piece = connection.recv(1 << 20)
        assert piece, "closed before the answers"
        found += piece
    return [json.loads(line)["id"] for line in found.splitlines()]


@pytest.mark.parametrize("framing", CONVERSATIONS)
@scenario
async def test_a_client_may_ask_as_much_as_it_has_calls_and_read_it_afterwards(
    tmp_path: Path, framing: FramingName
) -> None:
    async with daemon(tmp_path) as running, linked(running.endpoint, framing) as link:
        for number in range(16):
            await link.send(json.dumps(call(number, "page/search", query="q", limit=800)).encode())
        answers = [await link.read() for _ in range(16)]
        assert sorted(each["id"] for each in answers if "result" in each) == list(range(16))


@scenario
async def test_answers_wait_for_a_client_that_has_not_read_yet(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        with socket.socket(socket.AF_UNIX) as mute:
            mute.connect(str(running.endpoint))
            mute.sendall(lines(*range(32), method="page/search", query="q", limit=800))
            await until(lambda: len(running.calls.sessions) == 32 and running.server.calls_in_flight == 0)
            assert await asyncio.to_thread(read, mute, 32) == list(range(32))


@scenario
async def test_calls_that_come_while_answers_are_unread_are_all_answered(tmp_path: Path) -> None:
    async with daemon(tmp_path, calls_in_flight=100) as running:
        other = await running.connect()
        with socket.socket(socket.AF_UNIX) as mute:
            mute.connect(str(running.endpoint))
            mute.sendall(lines(*range(FRAMES_A_TURN), method="page/search", query="q", limit=30))
            await until(lambda: len(running.calls.sessions) == FRAMES_A_TURN and running.server.calls_in_flight == 0)
            for start in (100, 200):
                assert await other.alive()
                mute.sendall(lines(*range(start, start + 5)))
                assert await other.alive(), "the daemon has had its chance to take them in"
            found = await asyncio.to_thread(read, mute, FRAMES_A_TURN + 10)
        assert found == [*range(FRAMES_A_TURN), *range(100, 105), *range(200, 205)]


@scenario
async def test_a_full_turn_of_calls_leaves_the_client_no_more_time_to_read(tmp_path: Path) -> None:
    async with daemon(tmp_path, calls_in_flight=100, frame_seconds=0.05) as running:
        with socket.socket(socket.AF_UNIX) as mute:
            mute.connect(str(running.endpoint))
            mute.sendall(lines(*range(FRAMES_A_TURN), method="page/search", query="q", limit=30))
            await until(lambda: len(running.calls.sessions) == FRAMES_A_TURN)
            await until(lambda: running.server.connections == 0)


@scenario
async def test_a_cancelled_call_makes_room_for_the_next_at_once(tmp_path: Path) -> None:
    async with daemon(tmp_path, calls_in_flight=1) as running:
        peer = await running.connect()
        peer.call(1, "recall", query="a")
        await running.calls.running(1)
        peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}}, call(2, "ping"))
        assert (await peer.read())["error"]["data"]["kind"] == "cancelled"
        assert "result" in await peer.read()


@scenario
async def test_a_notification_in_a_batch_without_room_is_not_answered(tmp_path: Path) -> None:
    async with daemon(tmp_path, answer_bytes=10_000) as running:
        peer = await running.connect()
        # the refusals of those without room take the rest of it
        searches = [call(each, "page/search", query="q", limit=9) for each in range(20)]
        peer.send([*searches, {"jsonrpc": "2.0", "method": "ping"}])
        assert [each["id"] for each in await peer.read()] == list(range(20))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a finished sender looks like one that is gone")
@scenario
async def test_a_verb_may_come_in_two_pieces_from_a_client_that_only_finished_sending(tmp_path: Path) -> None:
    body = json.dumps(call(1, "recall", query="q")).encode()
    post = b"POST /rpc HTTP/1.1\r\nHost: wikid\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    async with daemon(tmp_path) as running:
        other = await running.connect()
        reader, writer = await asyncio.open_unix_connection(running.endpoint)
        await until(lambda: running.server.connections == 2)
        writer.write(post[:3])
        assert await other.alive()
        writer.write(post[3:])
        writer.write_eof()
        await running.calls.running(1)
        running.calls.release.set()
        assert b'"result"' in await reader.read()
        writer.close()


class Stuck:
    """What an open WebSocket is written to, whose client never reads."""

    def __init__(self) -> None:
        self.aborts = 0

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.aborts += 1


@scenario
async def test_more_unread_than_calls_in_flight_explain_ends_the_connection() -> None:
    limits = dataclasses.replace(LIMITS, calls_in_flight=1, answer_bytes=10)
    board, most = Switchboard(Calls(), lambda _ms: None, limits), UNREAD_OUTPUT_BYTES + 10
    stuck = Stuck()
    talk = WebSocketTalk(1, board, cast(Any, None), cast(Any, stuck))
    talk.answer(b"x" * most)
    assert stuck.aborts == 0
    talk.answer(b"x")
    assert stuck.aborts == 1
    ours, theirs = socket.socketpair()
    with theirs:
        streams: set[Stream] = set()
        loop = asyncio.get_running_loop()
        _, stream = await loop.connect_accepted_socket(lambda: Stream(1, board, streams, cast(Any, None)), ours)
        stream.answer(b"x" * 2 * most)
        await until(lambda: not streams)


class Lone:
    """Takes one answer and nothing else."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def answer(self, line: bytes) -> None:
        self.lines.append(line)

    def event(self, line: bytes) -> bool:  # noqa: ARG002
        return False


@scenario
async def test_progress_that_nobody_can_be_told_of_is_no_dropped_event() -> None:
    board, output = Switchboard(Calls(), lambda _ms: None), Lone()
    session = Session(1, board, output, events=False)
    session.receive(json.dumps(call(1, "index/reindex", progress_token="t")).encode())
    await session.settled()
    assert b'"result"' in output.lines[0]
    assert (board.meter.events_sent, board.meter.events_dropped) == (0, 0)


@scenario
async def test_an_endpoint_that_cannot_be_looked_at_ends_neither_its_watch_nor_the_drain(tmp_path: Path) -> None:
    with capture_logs() as logged:
        async with daemon(tmp_path, check_seconds=0.01) as running:
            run, away = running.endpoint.parent, tmp_path / "away"
            before: Peer = await running.connect()
            run.rename(away)
            run.write_text("mine")
            await until(lambda: any(each["log_level"] == "error" for each in logged))
            run.unlink()
            away.rename(run)
            running.endpoint.unlink(missing_ok=True)
            await until(lambda: running.endpoint.exists() and not running.instance.lost())
            assert await (await running.connect()).alive()
            run.rename(away)
            run.write_text("mine")
            before.call(1, "recall", query="a")
            await running.calls.running(1)
            running.server.stop(HANG_GUARD_SECONDS * 1_000)
            running.calls.release.set()
            assert "result" in await before.read()
            await running.serving
