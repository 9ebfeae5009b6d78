"""Ranked pages → bundles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_daemon.core.bundles import (
    MAX_CONFLICTS,
    MAX_EVIDENCE,
    SUPERSEDED,
    Grouped,
    Key,
    Related,
    cards_first,
    group,
)

# pages 0–9 are cards, 10–19 evidence
PAGES = tuple((0, number) for number in range(20))
CARDS = frozenset(PAGES[:10])


def grouped(
    ranked: Sequence[Key],
    evidence: Mapping[Key, Sequence[Related]] | None = None,
    conflicts: Mapping[Key, Sequence[Related]] | None = None,
    links: frozenset[frozenset[Key]] = frozenset(),
) -> list[Grouped]:
    return group(
        ranked,
        is_card=CARDS.__contains__,
        evidence_of=evidence or {},
        conflicts_of=conflicts or {},
        linked=lambda a, b: frozenset((a, b)) in links,
    )


def related(number: int, label: str = "supports") -> Related:
    return Related((0, number), label)


def keys(found: Sequence[Related]) -> list[int]:
    return [each.key[1] for each in found]


def test_each_unrelated_page_is_a_bundle_in_rank_order() -> None:
    found = grouped([(0, 3), (0, 12), (0, 1)])
    assert [each.card for each in found] == [(0, 3), None, (0, 1)]
    assert keys(found[1].evidence) == [12]


def test_evidence_brings_the_card_it_belongs_to_in_front_of_it() -> None:
    found = grouped([(0, 12), (0, 5), (0, 3)], {(0, 3): [related(12)]})
    assert [each.card for each in found] == [(0, 3), (0, 5)]
    assert keys(found[0].evidence) == [12]


def test_typed_evidence_comes_before_linked_and_may_be_a_page_that_was_not_retrieved() -> None:
    links = frozenset({frozenset({(0, 1), (0, 12)})})
    found = grouped([(0, 1), (0, 12)], {(0, 1): [related(15)]}, links=links)
    assert keys(found[0].evidence) == [15, 12]
    assert found[0].evidence[0].label == "supports"


def test_a_link_attaches_only_pages_that_were_retrieved() -> None:
    found = grouped([(0, 1)], links=frozenset({frozenset({(0, 1), (0, 12)})}))
    assert found[0].evidence == []


def test_a_card_has_two_pieces_of_evidence_and_the_rest_stands_for_itself() -> None:
    found = grouped([(0, 1), (0, 10), (0, 11), (0, 12)], {(0, 1): [related(n) for n in (12, 11, 10)]})
    assert [keys(each.evidence) for each in found] == [[10, 11], [12]]


def test_what_disputes_a_card_stays_with_it() -> None:
    dispute = Related((0, 2), "contradicts")
    found = grouped([(0, 1), (0, 2), (0, 3)], conflicts={(0, 1): [dispute], (0, 2): [Related((0, 1), "contradicts")]})
    assert [each.card for each in found] == [(0, 1), (0, 3)]
    assert found[0].conflicts == [dispute]


def test_a_linked_page_that_disputes_the_card_is_no_evidence_for_it() -> None:
    links = frozenset({frozenset({(0, 1), (0, 12)})})
    for ranked in ([(0, 1), (0, 12)], [(0, 12), (0, 1)]):
        found = grouped(ranked, conflicts={(0, 1): [related(12, "contradicts")]}, links=links)
        assert len(found) == 1
        assert (found[0].card, found[0].evidence) == ((0, 1), [])
        assert keys(found[0].conflicts) == [12]


def test_a_page_related_twice_is_one_piece_of_evidence() -> None:
    found = grouped([(0, 1), (0, 12), (0, 13)], {(0, 1): [related(12), related(12, "derived from"), related(13)]})
    assert keys(found[0].evidence) == [12, 13]


def test_the_page_that_brought_its_card_is_shown_whatever_else_the_card_has() -> None:
    links = frozenset({frozenset({(0, 1), (0, 12)})})
    found = grouped([(0, 12), (0, 1)], {(0, 1): [related(15), related(16)]}, links=links)
    assert 12 in keys(found[0].evidence)


def superseded_by(*line: int) -> dict[Key, list[Related]]:
    """Each page is superseded by the next."""
    found: dict[Key, list[Related]] = {}
    for old, new in pairwise(line):
        found.setdefault((0, old), []).append(related(new, "supersedes"))
        found.setdefault((0, new), []).append(related(old, SUPERSEDED))
    return found


def test_a_superseded_card_gives_way_to_the_retrieved_one_that_holds_now() -> None:
    found = grouped([(0, 1), (0, 5), (0, 2), (0, 3)], conflicts=superseded_by(1, 2, 3))
    assert [each.card for each in found] == [(0, 3), (0, 5)]
    assert keys(found[0].conflicts) == [1, 2]
    assert {each.label for each in found[0].conflicts} == {SUPERSEDED}


def test_a_card_whose_successor_was_not_retrieved_keeps_its_place_beside_it() -> None:
    found = grouped([(0, 1)], conflicts=superseded_by(1, 2))
    assert [(each.card, keys(each.conflicts)) for each in found] == [((0, 1), [2])]


def test_two_cards_that_supersede_each_other_leave_the_order_alone() -> None:
    ring = {(0, 1): [related(2, "supersedes")], (0, 2): [related(1, "supersedes")]}
    assert [each.card for each in grouped([(0, 2), (0, 1)], conflicts=ring)] == [(0, 2)]


def test_what_contradicts_is_kept_before_what_only_qualifies() -> None:
    many = [related(number, "qualifies") for number in range(2, 7)] + [related(8, "contradicts")]
    assert 8 in keys(grouped([(0, 1)], conflicts={(0, 1): many})[0].conflicts)


def ordered(*ranked: int, reliance: Mapping[int, float]) -> list[int | None]:
    """The cards in order, None for what has none; 12 and above are no cards."""
    bundles = [Grouped((0, each)) if each < 10 else Grouped(None, [Related((0, each), "")]) for each in ranked]
    found = cards_first(bundles, lambda each: reliance[(each.card or each.evidence[0].key)[1]])
    return [None if each.card is None else each.card[1] for each in found]


def test_a_suitable_card_stands_before_what_nobody_reviewed() -> None:
    assert ordered(12, 1, 2, reliance={12: 0.8, 1: 0.75, 2: 0.3}) == [1, None, 2]


def test_a_card_that_is_far_less_likely_to_answer_stays_behind_it() -> None:
    assert ordered(12, 1, reliance={12: 0.8, 1: 0.5}) == [None, 1]


def test_cards_keep_their_order_however_sure_they_are() -> None:
    assert ordered(1, 12, 2, 3, reliance={1: 0.4, 12: 0.7, 2: 0.8, 3: 0.2}) == [1, 2, None, 3]


pages = st.sampled_from(PAGES)
relations = st.dictionaries(
    pages, st.lists(st.builds(Related, pages, st.sampled_from(["supports", "derived from"])), max_size=4), max_size=8
).map(lambda found: {seed: [each for each in lists if each.key != seed] for seed, lists in found.items()})
disputes = st.dictionaries(
    pages,
    st.lists(st.builds(Related, pages, st.sampled_from(["contradicts", "supersedes", SUPERSEDED])), max_size=4),
    max_size=8,
).map(lambda found: {seed: [each for each in lists if each.key != seed] for seed, lists in found.items()})
rankings = st.lists(pages, unique=True, max_size=20)
link_sets = st.frozensets(st.frozensets(pages, min_size=2, max_size=2), max_size=20)


@given(rankings, relations, disputes, link_sets)
@settings(deadline=None, max_examples=300)
def test_no_page_is_shown_twice_as_card_or_evidence(
    ranked: list[Key],
    evidence: dict[Key, list[Related]],
    conflicts: dict[Key, list[Related]],
    links: frozenset[frozenset[Key]],
) -> None:
    found = grouped(ranked, evidence, conflicts, links)
    shown = [each.card for each in found if each.card] + [each.key for one in found for each in one.evidence]
    assert len(shown) == len(set(shown))
    for bundle in found:
        assert bundle.card is not None or bundle.evidence
        assert bundle.card is None or bundle.card in CARDS
        assert len(bundle.evidence) <= MAX_EVIDENCE
        assert len(bundle.conflicts) <= MAX_CONFLICTS
        seed = bundle.card or bundle.evidence[0].key
        declared = conflicts.get(seed, [])
        assert all(each in declared or each.label == SUPERSEDED for each in bundle.conflicts)


@given(rankings, relations, disputes, link_sets)
@settings(deadline=None, max_examples=300)
def test_every_retrieved_page_is_shown_where_there_is_room(
    ranked: list[Key],
    evidence: dict[Key, list[Related]],
    conflicts: dict[Key, list[Related]],
    links: frozenset[frozenset[Key]],
) -> None:
    shown: set[Key] = set()
    for bundle in grouped(ranked, evidence, conflicts, links):
        shown |= {each.key for each in (*bundle.evidence, *bundle.conflicts)} | (
            {bundle.card} if bundle.card else set()
        )
    assert set(ranked) <= shown
