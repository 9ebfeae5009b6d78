"""What is looked at next, on a clock that only the test moves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wikid_daemon.core.arrivals import FIRST_REST, LONGEST_REST, Arrivals

SECONDS = st.floats(0.0, 3.0)
BUSY = st.floats(0.0, 0.5)


def noticed(*paths: str) -> Arrivals:
    arrivals = Arrivals()
    for path in paths:
        arrivals.add([path])
    return arrivals


def test_the_latest_is_taken_first_and_each_once() -> None:
    arrivals = noticed("a.md", "b.md", "c.md", "a.md")
    assert [arrivals.take(0.0, 1) for _ in range(4)] == [{"a.md"}, {"c.md"}, {"b.md"}, set()]


def test_everything_is_taken_alone() -> None:
    arrivals = noticed("a.md", "", "b.md")
    assert arrivals.take(0.0, 10) == {""}
    assert arrivals.take(0.0, 10) == {"a.md", "b.md"}


def test_a_page_rests_after_a_look_unless_it_is_needed() -> None:
    arrivals = noticed("a.md")
    arrivals.looked_at(arrivals.take(0.0, 10), 0.0, 0.0)
    arrivals.add(["a.md", "b.md"])
    assert arrivals.take(0.0, 10) == {"b.md"}
    assert not arrivals.any_ready(0.0)
    assert len(arrivals) == 1
    assert arrivals.next_ready == FIRST_REST
    assert arrivals.take(0.0, 10, {"a.md"}) == {"a.md"}


def test_nothing_noticed_is_never_ready() -> None:
    assert Arrivals().next_ready == float("inf")
    assert not Arrivals().any_ready(1e9)


@given(st.floats(0.001, 0.05), st.integers(1, 400), BUSY)
def test_a_page_that_never_stops_changing_has_a_quarter_of_a_processor_at_most(
    interval: float, saves: int, busy: float
) -> None:
    arrivals, now, spent = Arrivals(), 0.0, 0.0
    for _ in range(saves):
        now += interval
        arrivals.add(["log.md"])
        if arrivals.take(now, 10):
            now += busy
            spent += busy
            arrivals.looked_at(["log.md"], now, busy)
    assert spent <= busy + now / 4


def test_a_page_that_never_stops_changing_is_looked_at_ever_more_seldom() -> None:
    arrivals, looks = Arrivals(), list[float]()
    for tick in range(1, 2_000):
        arrivals.add(["log.md"])
        if arrivals.take(tick / 20, 10):
            looks.append(tick / 20)
            arrivals.looked_at(["log.md"], tick / 20, 0.001)
    assert len(looks) < 100
    assert LONGEST_REST <= looks[-1] - looks[-2] <= LONGEST_REST + 0.1


@given(st.lists(st.floats(0.2, 5.0), max_size=50), st.floats(0.0, 0.01))
def test_a_page_that_is_saved_now_and_then_never_waits(gaps: list[float], busy: float) -> None:
    arrivals, now = Arrivals(), 0.0
    for gap in gaps:
        now += gap
        arrivals.add(["note.md"])
        assert arrivals.take(now, 10) == {"note.md"}
        arrivals.looked_at(["note.md"], now, busy)


@given(st.lists(st.tuples(SECONDS, st.sets(st.sampled_from("abcde"), min_size=1), BUSY), max_size=40))
def test_whatever_was_noticed_is_taken_in_the_end(events: list[tuple[float, set[str], float]]) -> None:
    arrivals, now, waiting = Arrivals(), 0.0, set[str]()
    for gap, paths, busy in events:
        now += gap
        arrivals.add(paths)
        waiting |= paths
        taken = arrivals.take(now, 2)
        waiting -= taken
        arrivals.looked_at(taken, now, busy)
        assert len(arrivals) == len(waiting)
        assert arrivals.any_ready(now) == (arrivals.next_ready <= now)
    while waiting:
        now = max(now, arrivals.next_ready)
        taken = arrivals.take(now, 2)
        assert taken
        assert taken <= waiting
        waiting -= taken
        arrivals.looked_at(taken, now, 0.0)
