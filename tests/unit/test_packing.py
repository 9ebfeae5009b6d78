"""What fits an answer: diversity among the cards, and the budget of characters (seed A, Context Packing)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wikid_daemon.core.packing import SAME_KIND, diverse, fit

Bundle = tuple[str, tuple[int, ...]]
"""A name, and the costs of its parts; the first part may not go."""

bundles = st.lists(st.tuples(st.text(max_size=3), st.lists(st.integers(0, 90), min_size=1, max_size=4).map(tuple)))
kinds = st.lists(st.sampled_from(["concept", "entity", None]), max_size=9)


def cost(bundle: Bundle) -> int:
    return sum(bundle[1])


def trim(bundle: Bundle) -> Bundle | None:
    name, parts = bundle
    return (name, parts[:-1]) if len(parts) > 1 else None


def test_a_third_card_of_a_kind_gives_way_to_another_kind() -> None:
    assert diverse(["a1", "a2", "a3", "b1"], lambda each: each[0], 3) == ["a1", "a2", "b1"]


def test_without_an_alternative_the_third_card_stays() -> None:
    assert diverse(["a1", "a2", "a3"], lambda each: each[0], 3) == ["a1", "a2", "a3"]


def test_bundles_without_a_card_are_not_counted() -> None:
    assert diverse(["x1", "x2", "x3", "a1"], lambda each: None if each[0] == "x" else each[0], 3) == ["x1", "x2", "x3"]


@given(kinds, st.integers(1, 5))
def test_the_best_is_kept_the_order_holds_and_no_place_stays_empty(found: list[str | None], limit: int) -> None:
    places = list(range(len(found)))
    chosen = diverse(places, lambda place: found[place], limit)
    assert chosen == sorted(chosen)
    assert len(chosen) == min(limit, len(found))
    assert chosen[:1] == places[:1]


@given(kinds, st.integers(1, 5))
def test_a_kind_stands_more_than_twice_only_where_there_is_no_alternative(found: list[str | None], limit: int) -> None:
    chosen = diverse(list(range(len(found))), lambda place: found[place], limit)
    shown = [found[place] for place in chosen]
    crowded = any(shown.count(kind) > SAME_KIND for kind in ("concept", "entity"))
    left_out = [found[place] for place in range(len(found)) if place not in chosen]
    alternatives = [kind for kind in left_out if kind is None or shown.count(kind) < SAME_KIND]
    assert not (crowded and alternatives)


def test_a_later_bundle_goes_before_a_part_of_the_first() -> None:
    first, second = ("first", (50, 30)), ("second", (40,))
    assert fit([first, second], cost, trim, 100) == [first]
    assert fit([first, second], cost, trim, 60) == [("first", (50,))]
    assert fit([first, second], cost, trim, 40) == []


@given(bundles, st.integers(0, 200))
def test_what_is_kept_fits_and_only_the_first_is_ever_trimmed(found: list[Bundle], budget: int) -> None:
    kept = fit(found, cost, trim, budget)
    assert sum(map(cost, kept)) <= budget
    assert kept[1:] == found[1 : len(kept)]
    if len(kept) > 1:
        assert kept[0] == found[0]
    if sum(map(cost, found)) <= budget:
        assert kept == found
