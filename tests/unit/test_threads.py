"""Threads for work that may never return: limits on silence, few threads, and waits that end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from builders import HANG_GUARD_SECONDS, until
from wikid_daemon import threads
from wikid_daemon.threads import Alive, Cancelled, Threads, TimedOut

SHORT = 0.05
NEVER = 1_000.0


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Lets everything that hangs go on; at the end of the test in any case."""
    event = threading.Event()
    yield event
    event.set()


def test_work_gives_what_it_returns_and_raises() -> None:
    few = Threads("few", 2, NEVER)
    waits = [few.begin(lambda _alive, number=number: number * 2) for number in range(50)]  # type: ignore[misc]
    assert [wait() for wait in waits] == [number * 2 for number in range(50)]
    with pytest.raises(ZeroDivisionError):
        few.begin(lambda _alive: 1 // 0)()


def test_work_that_saw_the_end_before_its_caller_is_cancelled(
    released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "IDLE_SECONDS", SHORT)
    few = Threads("ending", 1, NEVER)
    begun = threading.Event()

    def work(alive: Alive) -> None:
        begun.set()
        released.wait(HANG_GUARD_SECONDS)
        alive()

    wait = few.begin(work)
    assert begun.wait(HANG_GUARD_SECONDS)
    few.close()
    released.set()
    for each in threading.enumerate():
        if each.name == "ending":
            each.join(HANG_GUARD_SECONDS)
    with pytest.raises(Cancelled):
        wait()


def test_no_more_threads_than_allowed_work_at_once(released: threading.Event) -> None:
    few = Threads("three", 3, NEVER)
    begun: list[int] = []

    def work(_alive: Alive) -> None:
        begun.append(1)
        released.wait(HANG_GUARD_SECONDS)

    waits = [few.begin(work) for _ in range(9)]
    until(lambda: len(begun) == 3, "all threads being at work")
    assert sum(thread.name == "three" for thread in threading.enumerate()) == 3
    released.set()
    for wait in waits:
        wait()
    assert len(begun) == 9


def test_one_that_hangs_is_given_up_and_the_others_go_on(released: threading.Event) -> None:
    few = Threads("few", 2, SHORT)
    with pytest.raises(TimedOut):
        few.begin(lambda _alive: released.wait(HANG_GUARD_SECONDS))()
    assert until(lambda: _tried(few), "work that ends") == "done"


def test_while_all_hang_nothing_is_begun_and_afterwards_all_goes_on(released: threading.Event) -> None:
    few = Threads("few", 2, SHORT)
    hung = [few.begin(lambda _alive: released.wait(HANG_GUARD_SECONDS)) for _ in range(2)]
    begun: list[int] = []
    for wait in [*hung, *(few.begin(lambda _alive: begun.append(1)) for _ in range(9))]:
        with pytest.raises(TimedOut):
            wait()
    with pytest.raises(TimedOut):
        few.begin(lambda _alive: begun.append(1))()
    released.set()
    assert until(lambda: _tried(few), "a thread coming back") == "done"
    assert begun == []


def _tried(few: Threads) -> str | None:
    try:
        return few.begin(lambda _alive: "done")()
    except TimedOut:
        return None  # a busy machine


def test_signs_of_life_lengthen_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(threads, "time", SimpleNamespace(monotonic=lambda: now[0]))
    few = Threads("few", 1, 100.0)

    def work(alive: Alive) -> str:
        for _ in range(10):
            now[0] += 90.0
            alive()
        return "long"

    assert few.begin(work)() == "long"


def test_a_wait_may_be_shorter_than_the_work_which_goes_on(released: threading.Event) -> None:
    one = Threads("test", 1, HANG_GUARD_SECONDS)
    done: list[str] = []

    def work(_alive: Alive) -> None:
        released.wait(HANG_GUARD_SECONDS)
        done.append("begun")

    hung = one.begin(work)
    with pytest.raises(TimedOut):
        hung(0.05)
    with pytest.raises(TimedOut):
        one.begin(lambda _alive: done.append("never begun"))(0.0)
    last = one.begin(lambda _alive: done.append("last"))
    released.set()
    last()
    assert done == ["begun", "last"]


def test_work_that_was_given_up_ends_at_its_next_sign(released: threading.Event) -> None:
    few = Threads("few", 1, SHORT)
    after: list[int] = []

    def work(alive: Alive) -> None:
        released.wait(HANG_GUARD_SECONDS)
        alive()
        after.append(1)

    with pytest.raises(TimedOut):
        few.begin(work)()
    released.set()
    assert until(lambda: _tried(few), "the thread coming back") == "done"
    assert after == []


def test_closing_ends_every_wait_and_refuses_newcomers(released: threading.Event) -> None:
    few = Threads("few", 1, NEVER)
    entered = threading.Event()

    def hang(_alive: Alive) -> None:
        entered.set()
        released.wait(HANG_GUARD_SECONDS)

    ended: list[str] = []

    def wait() -> None:
        for wait in waits:
            try:
                wait()
            except Cancelled:
                ended.append("cancelled")

    waits = [few.begin(hang), few.begin(lambda _alive: ended.append("begun"))]
    waiter = threading.Thread(target=wait)
    waiter.start()
    entered.wait(HANG_GUARD_SECONDS)
    few.close()
    waiter.join(HANG_GUARD_SECONDS)
    assert ended == ["cancelled", "cancelled"]
    with pytest.raises(Cancelled):
        few.begin(hang)


def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.01)
    few = Threads("brief", 2, NEVER)
    assert few.begin(lambda _alive: 1)() == 1
    until(lambda: all(thread.name != "brief" for thread in threading.enumerate()), "the thread's end")
    assert few.begin(lambda _alive: 2)() == 2
