"""Plans from what is known and what a scan saw."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_daemon.core.manifest import RACY_WINDOW_NS, Known, Scan, Stamp, below, plan

NOW = 1_800_000_000_000_000_000
OLD = NOW - 3_600_000_000_000


def stamp(size: int = 10, *, mtime: int = OLD, ctime: int = OLD, inode: int = 7) -> Stamp:
    return Stamp(size, mtime, ctime, inode)


def seen(entries: dict[str, Stamp], failed: tuple[tuple[str, str], ...] = ()) -> Scan:
    return Scan(entries=entries, scanned_at_ns=NOW, failed=failed)


def test_new_changed_gone_and_unchanged_pages_are_told_apart() -> None:
    previous = {name: Known(stamp(), "hash") for name in ("same.md", "changed.md", "gone.md")}
    result = plan(previous, seen({"changed.md": stamp(11), "new.md": stamp(), "same.md": stamp()}))
    assert result.check == ("changed.md", "new.md")
    assert result.removed == ("gone.md",)
    assert result.unreachable == ()
    assert result.unchanged == 1


@pytest.mark.parametrize("other", [stamp(11), stamp(mtime=OLD + 1), stamp(ctime=OLD + 1), stamp(inode=8)])
def test_any_difference_in_the_stamp_means_reading_again(other: Stamp) -> None:
    assert plan({"a.md": Known(stamp(), "hash")}, seen({"a.md": other})).check == ("a.md",)


@pytest.mark.parametrize("field", ["mtime", "ctime"])
@pytest.mark.parametrize(("age", "trusted"), [(0, False), (RACY_WINDOW_NS - 1, False), (RACY_WINDOW_NS, True)])
def test_a_page_changed_within_two_seconds_of_the_scan_is_read_again(field: str, age: int, trusted: bool) -> None:
    recent = stamp(mtime=NOW - age) if field == "mtime" else stamp(ctime=NOW - age)
    result = plan({"a.md": Known(recent, "hash")}, seen({"a.md": recent}))
    assert (result.check == ()) is trusted


def test_a_time_far_in_the_future_does_not_mean_reading_for_ever() -> None:
    future = stamp(mtime=NOW + 10**18)
    assert plan({"a.md": Known(future, "hash")}, seen({"a.md": future})).check == ()


def test_a_distrusted_stamp_is_read_again() -> None:
    assert plan({"a.md": Known(stamp().distrusted(), "hash")}, seen({"a.md": stamp()})).check == ("a.md",)


def test_pages_behind_a_failure_are_kept() -> None:
    previous = {
        name: Known(stamp(), "hash") for name in ("locked/a.md", "locked/b/c.md", "lockedx.md", "own.md", "z.md")
    }
    result = plan(previous, seen({}, (("locked", "permission_denied"), ("own.md", "input_output_error"))))
    assert result.unreachable == ("locked/a.md", "locked/b/c.md", "own.md")
    assert result.removed == ("lockedx.md", "z.md")


def test_below_knows_folders_from_prefixes_of_names() -> None:
    assert below(["a/b.md", "ab.md", "a.md"], ["a"]) == ["a/b.md"]
    assert below(["a/b.md", "ab.md"], [""]) == ["a/b.md", "ab.md"]
    assert below(["a/b.md"], []) == []


stamps = st.builds(stamp, st.integers(0, 2), inode=st.integers(0, 2))
names = st.sampled_from(["a.md", "b.md", "f/a.md", "f/g/b.md", "h/a.md"])


@settings(deadline=None)
@given(
    st.dictionaries(names, stamps.map(lambda value: Known(value, "hash"))),
    st.dictionaries(names, stamps),
    st.lists(st.sampled_from(["", "f", "f/g", "h", "b.md"])),
)
def test_a_plan_accounts_for_every_page_once(
    previous: dict[str, Known], entries: dict[str, Stamp], failed: list[str]
) -> None:
    result = plan(previous, seen(entries, tuple((path, "permission_denied") for path in failed)))
    assert len(result.check) + result.unchanged == len(entries)
    assert set(result.check) <= set(entries)
    assert {*result.removed, *result.unreachable} == set(previous) - set(entries)
    assert not set(result.removed) & set(result.unreachable)


@settings(deadline=None)
@given(st.dictionaries(names, stamps))
def test_nothing_is_to_do_when_nothing_changed(entries: dict[str, Stamp]) -> None:
    result = plan({path: Known(value, "hash") for path, value in entries.items()}, seen(entries))
    assert result.check == result.removed == result.unreachable == ()
