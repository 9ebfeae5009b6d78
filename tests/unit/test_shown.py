"""Who was shown what: bounded in every way, and forgotten in time."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from wikid_daemon.core.feedback import Action, Showing
from wikid_daemon.shown import KEPT_SECONDS, PAGES, RECALLS, SESSIONS, Shown, ShownPages
from wikid_daemon.vault.vault import Vault

ROOT = Path("/notes")
VAULT = Vault(
    vault_id="v",
    name="notes",
    root=ROOT,
    kind="wiki",
    layout="new",
    pages_root=ROOT / "wiki",
    meta=ROOT / "meta",
    state=ROOT / "state",
    state_outside=None,
)


def shown(page_id: str, recall_id: str = "r1") -> Shown:
    return Shown(recall_id, VAULT, page_id, f"/notes/wiki/{page_id}.md", Showing("h", "lexical", "", (), 1), True)


def names(found: list[Shown]) -> list[str]:
    return [f"{each.recall_id}:{each.page_id}" for each in found]


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_one_session_was_shown_is_not_anothers() -> None:
    pages = ShownPages()
    pages.add("one", [shown("a")])
    assert names(pages.all("one")) == ["r1:a"]
    assert pages.all("other") == [] == pages.turn("other") == pages.end_turn("other")
    assert pages.note("other", "opened", [shown("a")]) == []


def test_a_turn_ends_and_what_it_showed_can_still_be_judged() -> None:
    pages = ShownPages()
    pages.add("s", [shown("a"), shown("b")])
    assert names(pages.note("s", "opened", [shown("a")])) == ["r1:a"]
    assert names(pages.end_turn("s")) == ["r1:b"]
    assert pages.end_turn("s") == [] == pages.turn("s")
    assert names(pages.all("s")) == ["r1:a", "r1:b"]


def test_the_same_is_noted_once_a_turn() -> None:
    pages = ShownPages()
    pages.add("s", [shown("a")])
    assert len(pages.note("s", "opened", [shown("a")])) == 1
    assert pages.note("s", "opened", [shown("a")]) == []
    assert len(pages.note("s", "cited", [shown("a")])) == 1
    pages.end_turn("s")
    pages.add("s", [shown("a", "r2")])
    assert len(pages.note("s", "opened", [shown("a")])) == 1


def test_a_page_shown_twice_in_a_turn_is_one_page_as_it_was_shown_last() -> None:
    pages = ShownPages()
    pages.add("s", [shown("a", "r1")])
    pages.add("s", [shown("a", "r2")])
    assert names(pages.turn("s")) == ["r2:a"]
    assert names(pages.all("s")) == ["r2:a", "r1:a"]
    assert names(pages.end_turn("s")) == ["r2:a"]


def test_a_session_remembers_its_last_recalls_only() -> None:
    pages = ShownPages()
    for number in range(RECALLS + 5):
        pages.add("s", [shown("a", f"r{number}")])
    assert names(pages.all("s"))[0] == f"r{RECALLS + 4}:a"
    assert len(pages.all("s")) == RECALLS


def test_silent_sessions_are_forgotten() -> None:
    clock = Seconds()
    pages = ShownPages(clock)
    pages.add("old", [shown("a")])
    clock.now = KEPT_SECONDS - 1
    pages.add("new", [shown("a")])
    clock.now = KEPT_SECONDS + 1
    assert pages.all("old") == []
    assert names(pages.all("new")) == ["r1:a"]


def test_too_many_pages_cost_the_sessions_that_were_silent_longest() -> None:
    pages = ShownPages()
    many = [shown(f"p{number}") for number in range(PAGES // 4)]
    for session in ("a", "b", "c"):
        pages.add(session, many)
    assert pages.all("a")  # asked for, so b is silent longest
    pages.add("d", many)
    pages.add("d", [shown("one more")])
    assert [len(pages.all(session)) for session in "abcd"] == [len(many), 0, len(many), len(many) + 1]


def test_one_session_alone_keeps_what_it_was_shown_last() -> None:
    pages = ShownPages()
    pages.add("s", [shown(f"p{number}") for number in range(PAGES + 1)])
    assert len(pages.all("s")) == PAGES + 1
    pages.add("other", [shown("a")])
    assert (len(pages.all("s")), names(pages.all("other"))) == (0, ["r1:a"])


def test_too_many_sessions_cost_the_one_that_was_silent_longest() -> None:
    pages = ShownPages()
    for number in range(SESSIONS):
        pages.add(f"s{number}", [shown("a")])
    pages.all("s0")
    pages.add("one more", [shown("a")])
    assert pages.all("s1") == []
    assert names(pages.all("s0")) == ["r1:a"]


ACTIONS: list[Action] = ["opened", "cited"]
steps: st.SearchStrategy[tuple[str, list[str]]] = st.one_of(
    st.tuples(st.just("recall"), st.lists(st.sampled_from("abc"), max_size=3, unique=True)),
    st.tuples(st.sampled_from(ACTIONS), st.lists(st.sampled_from("abcd"), max_size=2, unique=True)),
    st.tuples(st.just("turn_end"), st.just([])),
)


@given(st.lists(steps, max_size=20))
def test_in_each_turn_a_page_is_either_noted_or_left_over(history: list[tuple[str, list[str]]]) -> None:
    pages = ShownPages()
    in_turn: set[str] = set()
    noted: set[str] = set()
    for step, given_ in [*history, ("turn_end", [])]:
        if step == "recall":
            pages.add("s", [shown(each) for each in given_])
            in_turn |= set(given_)
        elif step == "turn_end":
            left = [each.page_id for each in pages.end_turn("s")]
            assert sorted(left) == sorted(in_turn - noted)
            in_turn, noted = set(), set()
        else:
            action: Action = "opened" if step == "opened" else "cited"
            fresh = {each.page_id for each in pages.note("s", action, [shown(each) for each in given_])}
            assert fresh <= in_turn
            noted |= fresh
