"""The event log on a real disk: one writer at a time, whole lines, and no lock taken while its holder may live."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from builders import NOW, Clock, until
from daemon_process import HELD_TO_PERMISSIONS, NOT_HELD
from wikid_daemon import processes
from wikid_daemon.core.events import START, Event, EventRefused, scan_events, source_missing
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.vault.event_lock import EventLock, LockBusy, LockRecord, is_alive
from wikid_daemon.vault.event_log import EventLog, EventNotWritten, ReadOnlyVault
from wikid_daemon.vault.vault import init_vault, open_vault

LONG_MS = 30_000.0
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="nothing is taken over there")


@pytest.fixture
def meta(tmp_path: Path) -> Path:
    folder = tmp_path / "meta"
    folder.mkdir()
    return folder


def lines(meta: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (meta / "events.jsonl").read_bytes().splitlines() if line]


def names(meta: Path) -> list[str]:
    return sorted(each.name for each in meta.iterdir())


def record(**changes: Any) -> LockRecord:
    """What the lock of a process of this host says that crashed at `NOW`."""
    given = {
        "writer": "elsewhere/1",
        "host": processes.host(),
        "pid": 4_000_000,
        "started": "1",
        "boot_id": processes.boot_id(),
        "acquired": NOW.isoformat(),
    }
    return LockRecord(**{**given, **changes})


def leave(meta: Path, left: LockRecord) -> bytes:
    data = orjson.dumps(asdict(left))
    (meta / "events.lock").write_bytes(data)
    return data


# -- one append --------------------------------------------------------------------------------------------------------


def test_events_are_appended_with_their_time_and_no_lock_is_left(meta: Path) -> None:
    clock = Clock()
    log = EventLog(meta, "me", clock=clock)
    assert log.append({"kind": "observe", "slug": "größe"}) == "2026-07-01T12:00:00.000Z"
    with log.locked(LONG_MS) as appender:
        appender.append({"kind": "a"})
        clock.now += timedelta(milliseconds=5)
        appender.append({"kind": "b"})
    assert log.offer({"kind": "c"})
    assert (meta / "events.jsonl").read_text("utf-8") == (
        '{"slug":"größe","timestamp":"2026-07-01T12:00:00.000Z","kind":"observe"}\n'
        '{"timestamp":"2026-07-01T12:00:00.000Z","kind":"a"}\n'
        '{"timestamp":"2026-07-01T12:00:00.005Z","kind":"b"}\n'
        '{"timestamp":"2026-07-01T12:00:00.005Z","kind":"c"}\n'
    )
    assert names(meta) == ["events.jsonl"]
    assert [each.kind for each in log.read().events] == ["observe", "a", "b", "c"]


@pytest.mark.parametrize(
    "tail", ["", "\n", "\n\n", '{"torn', '{"timestamp":"2026-01-01","kind":"whole but unended"}', "\r\n"]
)
def test_whatever_the_file_ends_with_stays_and_the_event_has_a_line_of_its_own(tail: str, meta: Path) -> None:
    before = '{"timestamp":"2026-01-01","kind":"old"}\n' + tail
    (meta / "events.jsonl").write_bytes(before.encode())
    log = EventLog(meta, "me")
    log.append({"kind": "new"})
    after = (meta / "events.jsonl").read_bytes()
    assert after.startswith(before.encode())
    stream = log.read()
    assert [each.kind for each in stream.events][-1] == "new"
    assert len(stream.findings) == tail.count("torn")
    assert after.endswith(b'"kind":"new"}\n')


def test_a_writer_that_knows_no_lock_is_let_in_between(meta: Path) -> None:
    log = EventLog(meta, "me")
    with log.locked(LONG_MS) as appender:
        appender.append({"kind": "a"})
        with (meta / "events.jsonl").open("a") as foreign:
            foreign.write('{"timestamp":"2026-07-01","kind":"foreign"}\n')
        appender.append({"kind": "b"})
    assert [each.kind for each in log.read().events] == ["a", "foreign", "b"]


def test_what_is_no_event_changes_nothing_and_frees_the_lock(meta: Path) -> None:
    log = EventLog(meta, "me")
    with pytest.raises(EventRefused):
        log.append({"kind": ""})
    with pytest.raises(EventRefused):
        log.offer({"kind": "k", "timestamp": "now"})
    assert names(meta) == []
    log.append({"kind": "k"})


def test_a_failure_of_the_caller_s_own_frees_the_lock_and_stays_what_it_is(meta: Path) -> None:
    log = EventLog(meta, "me")
    with pytest.raises(FileNotFoundError), log.locked(LONG_MS):
        raise FileNotFoundError("a page")
    log.append({"kind": "k"})


# -- what the system refuses -------------------------------------------------------------------------------------------

_FULL = """
import resource, sys
from pathlib import Path
from wikid_daemon.vault.event_log import EventLog, EventNotWritten
log = EventLog(Path(sys.argv[1]), "me")
log.append({"kind": "first"})
size = (Path(sys.argv[1]) / "events.jsonl").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 400, resource.RLIM_INFINITY))
try:
    log.append({"kind": "second", "text": "x" * 1_000})
except EventNotWritten as problem:
    print(problem.reason, file=sys.stderr)
print(log.offer({"kind": "third", "text": "x" * 1_000}), file=sys.stderr)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.append({"kind": "fourth"})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_line_that_was_cut_short_is_told_and_the_next_one_is_whole(meta: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _FULL, str(meta)], capture_output=True, text=True, check=True)
    assert done.stderr.split() == ["efbig", "False"]
    stream = EventLog(meta, "me").read()
    assert [each.kind for each in stream.events] == ["first", "fourth"]
    assert [each.code for each in stream.findings] == ["event_invalid_json"]
    assert names(meta) == ["events.jsonl"]


@pytest.mark.parametrize("cuts", [1, 3])
def test_a_short_write_is_completed(cuts: int, meta: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, left = os.write, [cuts]

    def short(descriptor: int, data: bytes) -> int:
        left[0] -= 1
        return real(descriptor, data[:7] if left[0] >= 0 else data)

    log = EventLog(meta, "me")
    monkeypatch.setattr(os, "write", short)
    log.append({"kind": "k"})
    assert [each["kind"] for each in lines(meta)] == ["k"]


def test_a_short_write_that_another_line_came_into_is_told(meta: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, foreign = os.write, b'{"timestamp":"2026-07-01","kind":"foreign"}\n'

    def short(descriptor: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", real)
        written = real(descriptor, data[:7])
        with (meta / "events.jsonl").open("ab") as other:
            other.write(foreign)
        return written

    log = EventLog(meta, "me")
    log.append({"kind": "first"})
    monkeypatch.setattr(os, "write", short)
    # the rest follows the foreign line, so the end of the file is not what was to be written
    with pytest.raises(EventNotWritten):
        log.append({"kind": "k"})
    log.append({"kind": "last"})
    assert [each.kind for each in log.read().events] == ["first", "last"]


def test_what_is_no_file_is_neither_written_nor_waited_for(meta: Path) -> None:
    target = meta.parent / "elsewhere"
    target.write_bytes(b"")
    makers: list[Callable[[Path], object]] = [lambda path: path.symlink_to(target), os.mkfifo, Path.mkdir]
    for number, make in enumerate(makers):
        folder = meta / str(number)
        folder.mkdir()
        make(folder / "events.jsonl")
        log = EventLog(folder, "me")
        with pytest.raises(EventNotWritten):
            log.append({"kind": "k"})
        assert not log.offer({"kind": "k"})
        assert [each.code for each in log.read().findings] == ["event_source_unreadable"]
        assert log.read().malformed_after_wikid
    assert target.read_bytes() == b""


def test_a_vault_that_is_gone_is_told_and_not_made_anew(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "gone" / "meta", "me")
    with pytest.raises(EventNotWritten) as told:
        log.append({"kind": "k"})
    assert told.value.reason == "vanished"
    assert not log.offer({"kind": "k"})
    assert log.dropped == 1
    assert not (tmp_path / "gone").exists()


def test_the_meta_folder_is_made_where_only_that_is_missing(tmp_path: Path) -> None:
    EventLog(tmp_path / "meta", "me").append({"kind": "k"})
    assert names(tmp_path / "meta") == ["events.jsonl"]


def test_a_log_that_does_not_exist_yet_is_a_finding_and_no_distrust(meta: Path) -> None:
    stream = EventLog(meta, "me").read()
    assert [each.code for each in stream.findings] == ["event_source_missing"]
    assert not stream.malformed_after_wikid


def test_a_plain_folder_and_a_read_only_vault_have_nothing_written(meta: Path) -> None:
    (meta / "events.jsonl").write_text('{"timestamp":"2026-07-01","kind":"old"}\n')
    for log in (EventLog(None, "me"), EventLog(meta, "me", read_only=True)):
        with pytest.raises(ReadOnlyVault):
            log.append({"kind": "k"})
        with pytest.raises(ReadOnlyVault), log.locked(LONG_MS):
            pass
        assert not log.offer({"kind": "k"})
    assert not EventLog(None, "me").read().findings
    assert [each.kind for each in EventLog(meta, "me", read_only=True).read().events] == ["old"]
    assert names(meta) == ["events.jsonl"]


_FORBIDDEN = """
import sys
from pathlib import Path
from wikid_daemon.vault.event_log import EventLog, ReadOnlyVault
log = EventLog(Path(sys.argv[1]), "me")
try:
    log.append({"kind": "k"})
except ReadOnlyVault:
    print("read-only", log.offer({"kind": "k"}), file=sys.stderr)
"""


@pytest.mark.skipif(HELD_TO_PERMISSIONS is None, reason=NOT_HELD)
def test_a_folder_that_may_not_be_written_is_a_read_only_vault(meta: Path) -> None:
    meta.chmod(0o555)
    command = [*(HELD_TO_PERMISSIONS or ()), sys.executable, "-c", _FORBIDDEN, str(meta)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr.split() == ["read-only", "False"]
    meta.chmod(0o755)
    assert names(meta) == []


# -- waiting -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def busy(meta: Path) -> Iterator[EventLog]:
    """A log of the same vault whose writer keeps the lock."""
    other = EventLog(meta, "other")
    with other.locked(LONG_MS):
        yield other


def test_while_another_writer_has_the_lock_nothing_changes(meta: Path, busy: EventLog) -> None:
    for log in (EventLog(meta, "me"), busy):  # another one's, and one's own
        with pytest.raises(LockBusy) as told:
            log.append({"kind": "k"}, wait_ms=20)
        assert told.value.holder is not None
        assert (told.value.holder.writer, told.value.holder.pid) == ("other", os.getpid())
        assert told.value.holder.host == socket.gethostname()
    assert names(meta) == ["events.lock"]


@pytest.mark.usefixtures("busy")
def test_what_nobody_would_miss_is_dropped_and_counted(meta: Path) -> None:
    log = EventLog(meta, "me")
    assert [log.offer({"kind": "k"}) for _ in range(2)] == [False, False]
    assert log.dropped == 2
    assert names(meta) == ["events.lock"]


def test_whoever_waits_long_enough_gets_in(meta: Path) -> None:
    one, other = EventLog(meta, "one"), EventLog(meta, "other")
    with one.locked(LONG_MS) as appender:
        waiting = [
            threading.Thread(target=log.append, args=({"kind": "later"},), kwargs={"wait_ms": LONG_MS})
            for log in (one, other)
        ]
        for each in waiting:
            each.start()
        appender.append({"kind": "sooner"})
    for each in waiting:
        each.join()
    assert [each["kind"] for each in lines(meta)] == ["sooner", "later", "later"]


def test_the_threads_of_a_process_are_served_in_the_order_they_came(meta: Path) -> None:
    log = EventLog(meta, "me")
    lock = log._lock
    assert lock is not None
    threads = []
    with log.locked(LONG_MS):
        for number in range(8):
            thread = threading.Thread(
                target=log.append, args=({"kind": "k", "n": number},), kwargs={"wait_ms": LONG_MS}
            )
            threads.append(thread)
            thread.start()
            until(lambda come=number + 1: len(lock._turns._queue) == come, "the thread standing in the queue")  # type: ignore[misc]
    for each in threads:
        each.join()
    assert [each["n"] for each in lines(meta)] == list(range(8))


# -- stale locks -------------------------------------------------------------------------------------------------------


def taken_over(meta: Path, left: LockRecord, *, alive: bool = False, age: float = 31.0) -> bool:
    data = leave(meta, left)
    log = EventLog(meta, "me", is_alive=lambda _: alive, clock=Clock(NOW + timedelta(seconds=age)))
    try:
        log.append({"kind": "k"}, wait_ms=0)
    except LockBusy:
        assert (meta / "events.lock").read_bytes() == data
        assert names(meta) == ["events.lock"]
        return False
    assert names(meta) == ["events.jsonl"]
    return True


@POSIX
def test_a_lock_is_taken_over_when_it_is_old_and_its_process_is_gone(meta: Path) -> None:
    assert taken_over(meta, record())


@pytest.mark.parametrize(
    ("changes", "alive", "age"),
    [
        ({}, False, 30.0),
        ({}, False, -3_600.0),
        ({}, True, 31.0),
        ({}, True, 86_400.0),
        ({"host": "another-host"}, False, 86_400.0),
        ({"host": "another-host", "boot_id": "another-boot"}, False, 86_400.0),
    ],
)
def test_no_other_lock_is_ever_taken(changes: dict[str, Any], alive: bool, age: float, meta: Path) -> None:
    assert not taken_over(meta, record(**changes), alive=alive, age=age)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"writer":"w"}', orjson.dumps({**asdict(record()), "pid": "1"})])
def test_a_lock_that_says_nothing_proves_nothing(data: bytes, meta: Path) -> None:
    (meta / "events.lock").write_bytes(data)
    log = EventLog(meta, "me", is_alive=lambda _: False, clock=Clock(NOW + timedelta(days=1)))
    with pytest.raises(LockBusy) as told:
        log.append({"kind": "k"}, wait_ms=0)
    assert told.value.holder is None
    assert (meta / "events.lock").read_bytes() == data


@POSIX
def test_of_many_that_find_one_dead_writer_s_lock_each_gets_in_once_and_alone(meta: Path) -> None:
    leave(meta, record())
    start, inside, most = threading.Barrier(8), [0], [0]

    def write(number: int) -> None:
        lock = EventLock(meta / "events.lock", str(number), is_alive=lambda r: r.writer != "elsewhere/1")
        start.wait()
        lock.acquire(LONG_MS / 1_000)
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        with (meta / "events.jsonl").open("ab") as file:
            file.write(b'{"n":%d}\n' % number)
        inside[0] -= 1
        lock.release()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert most[0] == 1
    assert sorted(each["n"] for each in lines(meta)) == list(range(8))
    assert names(meta) == ["events.jsonl"]


def test_a_lock_that_a_person_removed_is_not_removed_twice(meta: Path) -> None:
    one, other = EventLog(meta, "one"), EventLog(meta, "other")
    with one.locked(LONG_MS):
        (meta / "events.lock").unlink()
        with other.locked(LONG_MS):
            pass
        left = leave(meta, record())
    assert (meta / "events.lock").read_bytes() == left


# -- who is alive ------------------------------------------------------------------------------------------------------


def own_record(pid: int) -> LockRecord:
    return record(pid=pid, started=processes.started(pid))


def test_a_running_process_is_alive_and_one_that_ended_is_not() -> None:
    assert is_alive(own_record(os.getpid()))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    left = own_record(child.pid)
    assert is_alive(left)
    child.kill()
    until(lambda: not is_alive(left), "the child, which nobody has waited for, counting as gone")
    child.communicate()
    assert not is_alive(left)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_another_start_or_another_boot_is_another_process() -> None:
    mine = own_record(os.getpid())
    assert mine.started
    assert mine.boot_id
    assert not is_alive(replace(mine, started="1"))
    assert not is_alive(replace(mine, boot_id="another"))
    assert is_alive(replace(mine, started="", boot_id="")), "nothing is proved where nothing was recorded"


# -- several processes -------------------------------------------------------------------------------------------------

COUNT = 60


def _write(meta: Path, name: str, count: int) -> None:
    log = EventLog(meta, name)
    for number in range(count):
        log.append({"kind": "k", "by": name, "n": number, "fill": "ü" * 300}, wait_ms=LONG_MS)


def test_two_daemons_and_a_foreign_writer_share_a_log_and_lose_nothing(meta: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(meta, name, COUNT)) for name in ("one", "two")]
    for each in writers:
        each.start()
    line = b'{"timestamp":"2026-07-01","kind":"k","by":"foreign","n":%d}\n'
    for number in range(COUNT):
        with (meta / "events.jsonl").open("ab", buffering=0) as file:
            file.write(line % number)
    for each in writers:
        each.join()
        assert each.exitcode == 0
    stream = EventLog(meta, "me").read()
    assert not stream.findings
    for name in ("one", "two", "foreign"):
        assert [each.details["n"] for each in stream.events if each.details["by"] == name] == list(range(COUNT))
    assert names(meta) == ["events.jsonl"]


# -- one for each vault ------------------------------------------------------------------------------------------------


def test_a_vault_has_one_log_whoever_asks(tmp_path: Path) -> None:
    state = tmp_path / "state"
    vault = open_vault(init_vault(tmp_path / "v", "t", "personal"), name=None, state_home=state)
    logs = EventLogs(state)
    assert logs.of(vault) is logs.of(replace(vault, name="renamed"))
    logs.of(vault).append({"kind": "k"})
    assert [each.kind for each in logs.of(vault).read().events] == ["bootstrap", "k"]
    with pytest.raises(ReadOnlyVault):
        logs.of(replace(vault, read_only=True)).append({"kind": "k"})
    (tmp_path / "plain").mkdir()
    plain = open_vault(tmp_path / "plain", name=None, state_home=state)
    with pytest.raises(ReadOnlyVault):
        logs.of(plain).append({"kind": "k"})
    assert not logs.of(plain).read().findings


# -- reading on --------------------------------------------------------------------------------------------------------


def test_reading_on_gives_the_whole_lines_that_came_since(meta: Path) -> None:
    log = EventLog(meta, "me")
    missing = log.read_behind(START)
    assert (missing.data, missing.start, missing.fault) == (b"", START, source_missing())
    log.append({"kind": "a"})
    first = log.read_behind(START)
    [(_, mark)] = scan_events(first.data, first.start)
    assert log.read_behind(mark).data == b""
    with (meta / "events.jsonl").open("ab") as file:
        file.write(b'{"timestamp":"2026-07-01","kind":"foreign"}')
    assert log.read_behind(mark).data == b"", "the line has no end yet"
    log.append({"kind": "b"})
    later = log.read_behind(mark)
    assert [each.kind for each, _ in scan_events(later.data, later.start) if isinstance(each, Event)] == [
        "foreign",
        "b",
    ]


@pytest.mark.parametrize("other", ["", '{"timestamp":"2026-07-01","kind":"other"}\n', "x" * 500])
def test_a_log_that_is_another_now_is_read_from_its_start(other: str, meta: Path) -> None:
    log = EventLog(meta, "me")
    for _ in range(3):
        log.append({"kind": "a"})
    *_, (_, mark) = scan_events((meta / "events.jsonl").read_bytes())
    (meta / "events.jsonl").write_text(other)
    found = log.read_behind(mark)
    assert (found.data.decode(), found.start) == (other if other.endswith("\n") else "", START)
