"""What reactions to recalled pages come to: bounded, fading, and never more than an adjustment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOW, page
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.events import Event, event_line, parse_events, timestamp_of
from wikid_daemon.core.feedback import (
    HALF_LIFE,
    THOUSANDTHS,
    Action,
    Correction,
    Reaction,
    Showing,
    Standing,
    Tally,
    cites,
    correction_of,
    event_of,
    projection,
    query_hash,
    reactions,
)
from wikid_daemon.core.ranking import MULTIPLIER_MAX, MULTIPLIER_MIN, multiplier

VAULT = "0b5e3c6a-58b8-4a50-9a1f-000000000001"
PAGE = "concepts/tide"
HASH = query_hash("when does the tide turn")
SHOWING = Showing(HASH, "hybrid", "catalog-1", ("m@1",), 2)
WHOLE = 0.02

actions = st.sampled_from(get_args(Action))
ages = st.integers(0, 400).map(lambda days: timedelta(days=days))


def reaction(action: Action, age: timedelta = timedelta(), page_id: str = PAGE, hashed: str = HASH) -> Reaction:
    return Reaction(page_id, hashed, action, NOW - age)


def standings(told: Sequence[Reaction], known: set[str], corrections: Sequence[Correction] = ()) -> dict[str, Standing]:
    tally = Tally()
    tally.add(told)
    return tally.standings(known, corrections)


def adjustment(told: Sequence[Reaction], after: timedelta = timedelta()) -> float:
    found = standings(told, {PAGE}).get(PAGE)
    return 0.0 if found is None else found.adjustment(NOW + after)


# -- weights and decay -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "weight"),
    [
        ("shown", 0.0),
        ("opened", 0.005),
        ("cited", 0.01),
        ("shown_only", -0.005),
        ("relevant", 0.02),
        ("irrelevant", -0.02),
        ("corrected", -0.02),
        ("conflict_selected", 0.02),
    ],
)
def test_each_action_has_its_weight(action: Action, weight: float) -> None:
    assert adjustment([reaction(action)]) == pytest.approx(weight)


def test_every_action_is_weighed() -> None:
    assert set(THOUSANDTHS) == set(get_args(Action))


def test_a_thousand_times_relevant_is_one_bounded_boost_that_halves_in_ninety_days() -> None:
    told = [reaction("relevant")] * 1_000
    assert adjustment(told) == pytest.approx(WHOLE)
    assert adjustment(told, timedelta(days=90)) == pytest.approx(WHOLE / 2)
    best = multiplier(
        identity=True, role="canonical", status="stable", verified_by_human=True, feedback=adjustment(told)
    )
    assert best <= MULTIPLIER_MAX


@given(st.lists(st.builds(reaction, actions, ages), max_size=40), ages)
def test_whatever_is_told_stays_within_the_bound(told: list[Reaction], after: timedelta) -> None:
    assert -WHOLE <= adjustment(told, after) <= WHOLE


@given(st.lists(st.builds(reaction, actions, ages), max_size=20), ages)
def test_half_is_left_after_ninety_days(told: list[Reaction], after: timedelta) -> None:
    assert adjustment(told, after + HALF_LIFE) == pytest.approx(adjustment(told, after) / 2)


@given(st.data(), st.lists(st.builds(reaction, actions, ages), max_size=12))
def test_the_order_of_events_does_not_matter(data: st.DataObject, told: list[Reaction]) -> None:
    shuffled = data.draw(st.permutations(told))
    assert standings(shuffled, {PAGE}) == standings(told, {PAGE})


@given(st.lists(st.builds(reaction, actions, ages), max_size=12), ages)
def test_being_shown_changes_nothing_and_keeps_nothing_alive(told: list[Reaction], after: timedelta) -> None:
    assert adjustment([*told, reaction("shown")], after) == adjustment(told, after)


def test_an_event_from_a_clock_that_was_ahead_counts_once_and_not_more() -> None:
    assert adjustment([reaction("relevant", -timedelta(days=400))]) == pytest.approx(WHOLE)


def test_a_page_that_was_deleted_has_no_standing() -> None:
    assert standings([reaction("relevant", page_id="concepts/gone")], {PAGE}) == {}


@given(st.floats(-1, 1), st.booleans(), st.booleans(), st.sampled_from(["canonical", "evidence"]))
def test_feedback_moves_the_multiplier_by_a_fiftieth_at_most(
    feedback: float, identity: bool, verified: bool, role: Any
) -> None:
    given_: dict[str, Any] = {"identity": identity, "role": role, "status": "stable", "verified_by_human": verified}
    moved = multiplier(**given_, feedback=feedback)
    assert abs(moved - multiplier(**given_)) <= WHOLE + 1e-12
    assert MULTIPLIER_MIN <= moved <= MULTIPLIER_MAX


# -- events ------------------------------------------------------------------------------------------------------------


@given(actions)
def test_an_event_is_read_back_as_what_it_tells(action: Action) -> None:
    line = event_line(event_of(VAULT, PAGE, SHOWING, action), timestamp_of(NOW))
    assert reactions(parse_events(line).events, VAULT) == [reaction(action)]


def test_an_event_has_the_fields_of_the_format_and_no_others() -> None:
    assert event_of(VAULT, PAGE, SHOWING, "opened") == {
        "kind": "recall_feedback",
        "schema": 1,
        "visibility": "internal",
        "vault_id": VAULT,
        "page_id": PAGE,
        "query_hash": HASH,
        "mode": "hybrid",
        "index_version": "catalog-1",
        "models": ["m@1"],
        "rank": 2,
        "action": "opened",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": 2},
        {"vault_id": "another"},
        {"action": "loved"},
        {"action": ["relevant"]},
        {"page_id": 7},
        {"query_hash": None},
        {"kind": "query"},
    ],
)
def test_what_is_no_reaction_of_this_vault_is_passed_over(changes: dict[str, Any]) -> None:
    details = {**event_of(VAULT, PAGE, SHOWING, "relevant"), **changes}
    event = Event(1, timestamp_of(NOW), str(details.pop("kind")), details)
    assert reactions([event], VAULT) == []


def test_a_query_hash_is_that_of_the_query_as_recall_reads_it() -> None:
    assert query_hash("  The\tｔｉｄｅ \n") == query_hash("The tide")
    assert query_hash("the tide") != query_hash("The tide")
    assert query_hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


# -- corrections -------------------------------------------------------------------------------------------------------


def observation(**fields: str) -> Correction | None:
    given_ = {
        "status": "observation",
        "category": "recall-correction",
        "corrected_page": PAGE,
        "vault_id": VAULT,
        "query_hash": HASH,
        "created": "2026-07-01T12:00:00Z",
        **fields,
    }
    text = page("It turns at noon.", type="source", title="Correction", **given_)
    document = parse_page("sources/obs-1.md", text.encode(), strict=True).document
    assert document is not None
    return correction_of(document, VAULT)


def test_an_observation_tells_what_it_corrects() -> None:
    assert observation() == Correction(PAGE, HASH, NOW)


@pytest.mark.parametrize(
    "changes", [{"category": "note"}, {"vault_id": "another"}, {"corrected_page": "[]"}, {"created": "soon"}]
)
def test_what_does_not_say_so_is_no_correction(changes: dict[str, str]) -> None:
    assert observation(**changes) is None


@pytest.mark.parametrize(
    ("told", "corrections", "counted"),
    [
        ([], 1, 1),
        ([reaction("corrected")], 1, 1),
        ([reaction("corrected")], 2, 2),
        ([reaction("corrected"), reaction("corrected")], 1, 2),
        ([reaction("corrected", hashed="other")], 1, 2),
        ([reaction("relevant")], 1, 1),
    ],
)
def test_a_correction_counts_once_with_its_event_and_without(
    told: list[Reaction], corrections: int, counted: int
) -> None:
    saved = [Correction(PAGE, HASH, NOW - timedelta(days=number)) for number in range(corrections)]
    assert standings(told, {PAGE}, saved)[PAGE].counts["corrected"] == counted


def test_what_corrections_add_is_not_added_twice() -> None:
    tally, saved = Tally(), [Correction(PAGE, HASH, NOW)]
    tally.add([reaction("relevant", timedelta(days=1))])
    once = tally.standings({PAGE}, saved)
    assert tally.standings({PAGE}, saved) == once
    assert tally.standings(set(), saved) == {}


@given(st.lists(st.builds(reaction, actions, ages), max_size=12), st.integers(0, 12))
def test_reactions_that_come_later_add_up_to_the_same(told: list[Reaction], cut: int) -> None:
    tally = Tally()
    tally.add(told[:cut])
    tally.standings({PAGE})
    tally.add(told[cut:])
    assert tally.standings({PAGE}) == standings(told, {PAGE})


# -- the file and signals ----------------------------------------------------------------------------------------------


def test_the_file_says_weight_date_and_counts_in_the_order_of_ids() -> None:
    told = [reaction("relevant"), reaction("opened", page_id="concepts/ebb"), reaction("shown"), reaction("irrelevant")]
    written = orjson.loads(projection(VAULT, standings(told, {PAGE, "concepts/ebb"})))
    assert written == {
        "schema": 1,
        "vault_id": VAULT,
        "half_life_days": 90,
        "pages": {
            "concepts/ebb": {"weight": 0.005, "last": "2026-07-01T12:00:00+00:00", "actions": {"opened": 1}},
            PAGE: {"weight": 0, "last": "2026-07-01T12:00:00+00:00", "actions": {"relevant": 1, "irrelevant": 1}},
        },
    }
    assert list(written["pages"]) == ["concepts/ebb", PAGE]


@pytest.mark.parametrize(
    "text",
    [
        "see [[concepts/tide]].",
        "[[concepts/tide|the tide]]",
        "[[concepts/tide#Noon|noon]]",
        "As concepts/tide says.",
        "It is in concepts/tide",
        "(concepts/tide)",
        "[tide](/concepts/tide.md)",
        "Read concepts/tide.md, please",
    ],
)
def test_a_text_cites_a_page_by_link_or_id(text: str) -> None:
    assert cites(text, PAGE)


@pytest.mark.parametrize(
    "text",
    [
        "the tide",
        "concepts/tides",
        "concepts/tide-table",
        "concepts/tide/more",
        "other/concepts/tide",
        "myconcepts/tide",
        "[[concepts/tidewater]]",
        "concepts/tide.mdx",
        "concepts/tide.json",
        "",
    ],
)
def test_another_id_is_no_citation(text: str) -> None:
    assert not cites(text, PAGE)


def test_ids_are_compared_whatever_their_normal_form_and_never_as_a_pattern() -> None:
    assert cites("see [[concepts/cafe\u0301]]", "concepts/caf\u00e9")
    assert not cites("concepts/axb", "concepts/a.b")
