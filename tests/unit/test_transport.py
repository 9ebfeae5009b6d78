"""The parts of the listening side that need no event loop: framing, peers, the log, systemd."""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import sys
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path

import orjson
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_daemon import log, systemd
from wikid_daemon.transport.lines import LineFraming
from wikid_daemon.transport.peer import hung_up, peer_uid
from wikid_daemon.transport.stream import choose_framing
from wikid_protocol import messages
from wikid_protocol.errors import RequestRefused
from wikid_protocol.limits import LIMITS

LINES = st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=8)


@given(LINES, st.lists(st.integers(min_value=0, max_value=200), max_size=10))
@settings(deadline=None)
def test_lines_come_out_whole_however_they_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    framing = LineFraming(limit=100)

    found = [line for start, end in pairwise(edges) for line in framing.feed(stream[start:end])]

    assert found == [line for line in lines if line.strip()]
    assert not framing.pending


@given(st.binary(min_size=11, max_size=40).filter(lambda line: b"\n" not in line), st.integers(1, 40))
@settings(deadline=None)
def test_a_line_over_the_limit_is_refused_before_or_at_its_end(line: bytes, step: int) -> None:
    framing = LineFraming(limit=10)
    stream = line + b"\n"
    pieces = (stream[start : start + step] for start in range(0, len(stream), step))
    with pytest.raises(RequestRefused) as refused:
        list(chain.from_iterable(framing.feed(piece) for piece in pieces))
    assert refused.value.kind == "message_too_large"


def test_whole_lines_before_one_too_large_are_still_read() -> None:
    lines = LineFraming(limit=4).feed(b"{}\n[]\n" + b"x" * 50)
    assert [next(lines), next(lines)] == [b"{}", b"[]"]
    with pytest.raises(RequestRefused):
        next(lines)


@pytest.mark.parametrize("head", [b"\x16\x03\x01\x02\x00", b"hello", b"\xff\xfe{", b" {"])
def test_a_connection_that_begins_as_nothing_known_is_refused(head: bytes) -> None:
    with pytest.raises(RequestRefused) as refused:
        choose_framing(head)
    assert refused.value.kind == "parse_error"


def _nested(depth: int) -> bytes:
    return b'{"a":[' * (depth // 2) + b"[" * (depth % 2) + b"]" * (depth % 2) + b"]}" * (depth // 2)


@given(st.integers(min_value=LIMITS.depth - 5, max_value=LIMITS.depth + 5))
@settings(deadline=None)
def test_nesting_is_allowed_up_to_the_limit_and_no_further(depth: int) -> None:
    if depth <= LIMITS.depth:
        messages.parse(_nested(depth))
    else:
        with pytest.raises(RequestRefused) as refused:
            messages.parse(_nested(depth))
        assert refused.value.kind == "parse_error"


def test_many_brackets_beside_each_other_or_in_text_are_no_nesting() -> None:
    assert messages.parse(orjson.dumps([{"text": "[" * 500}] * 100))


@pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")
def test_the_kernel_names_the_peer_and_tells_half_closed_from_gone() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            assert peer_uid(ours) == os.getuid()
            assert not hung_up(ours)
            theirs.shutdown(socket.SHUT_WR)
            if sys.platform == "linux":
                assert not hung_up(ours)
        assert hung_up(ours)


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Path]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    log.configure(tmp_path / "state", console=False)
    yield tmp_path / "state" / log.FILE_NAME
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def _events(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_the_log_keeps_numbers_and_safe_words_and_drops_all_other_text(logged: Path) -> None:
    structlog.get_logger().info("recalled", query="my secret", path="diary.md", count=3, kind="busy", pages=["secret"])
    (event,) = _events(logged)
    assert (event["event"], event["count"], event["kind"]) == ("recalled", 3, "busy")
    assert event["dropped"] == ["query", "path", "pages"]
    assert b"secret" not in logged.read_bytes()
    assert b"diary" not in logged.read_bytes()


def test_an_exception_is_logged_by_type_and_place_without_its_message(logged: Path) -> None:
    try:
        try:
            raise KeyError("text of a note")
        except KeyError as error:
            raise ValueError("more text of a note") from error
    except ValueError:
        structlog.get_logger().exception("a call failed")
    (event,) = _events(logged)
    assert event["error"] == "ValueError"
    trace = event["trace"]
    assert isinstance(trace, list)
    assert "KeyError" in trace
    assert any("test_an_exception_is_logged" in place for place in trace)
    assert b"of a note" not in logged.read_bytes()


def test_what_libraries_log_arrives_without_its_words(logged: Path) -> None:
    logging.getLogger("some.library").warning("cannot read %s", "diary.md")
    (event,) = _events(logged)
    assert event["logger"] == "some.library"
    assert event["level"] == "warning"
    assert b"diary" not in logged.read_bytes()


def test_the_log_carries_the_call_it_belongs_to(logged: Path) -> None:
    token = log.CALL.set("call-7")
    structlog.get_logger().info("recalled")
    log.CALL.reset(token)
    structlog.get_logger().info("idle")
    first, second = _events(logged)
    assert first["call"] == "call-7"
    assert "call" not in second


def test_an_odd_file_name_cannot_break_the_log(logged: Path) -> None:
    structlog.get_logger().info("listening", endpoint=Path("/tmp/\udcff.sock"))
    (event,) = _events(logged)
    assert event["endpoint"] == "/tmp/?.sock"


def test_log_files_are_private_rotated_and_few(tmp_path: Path) -> None:
    path = tmp_path / "state" / "wikid.log"
    file = log.RotatingFile(path, max_bytes=30, kept=2)
    for number in range(12):
        file.write(f"line number {number:02}\n".encode())
    file.close()
    found = sorted(each.name for each in path.parent.iterdir())
    assert found == ["wikid.log", "wikid.log.1", "wikid.log.2"]
    assert path.read_bytes().endswith(b"line number 11\n")
    assert all(each.stat().st_size <= 30 for each in path.parent.iterdir())
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()} == {0o600}


@pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")
def test_systemd_is_told_only_where_it_asked(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        systemd.notify("READY=1", {"NOTIFY_SOCKET": address})
        assert manager.recv(100) == b"READY=1"
        systemd.notify("READY=1", {})
        manager.setblocking(False)
        with pytest.raises(BlockingIOError):
            manager.recv(100)


@pytest.mark.parametrize("env", [{}, {"LISTEN_PID": "1", "LISTEN_FDS": "1"}, {"LISTEN_PID": str(os.getpid())}])
def test_no_listener_is_taken_that_was_meant_for_another_process(env: dict[str, str]) -> None:
    assert systemd.inherited_listener(env) is None
