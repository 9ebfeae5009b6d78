"""Fusion of two lists into one ranking of pages, and the bounded adjustments."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_daemon.core.page import Role, Status
from wikid_daemon.core.ranking import (
    DENSE_SHARE,
    FOREIGN_WORDS,
    OWN_WORDS,
    Fused,
    PageHit,
    best_per_page,
    fuse,
    multiplier,
    reciprocal_rank,
    share_of_vectors,
)

TINY = 1e-9
scores = st.integers(0, 40).map(lambda n: n / 4)
lists = st.dictionaries(st.integers(1, 12), scores, max_size=8)
shares = st.floats(0.0, 1.0)


def hits(scores_of: dict[int, float], chunk_of: int = 100) -> list[PageHit]:
    """A list as an engine gives it: best first, the page's best chunk numbered apart from the other list's."""
    return [PageHit(page, chunk_of + page, score) for page, score in sorted(scores_of.items(), key=lambda e: -e[1])]


def fused(words: dict[int, float], vectors: dict[int, float], share: float) -> list[Fused]:
    return fuse(hits(words), hits(vectors, 200), lambda _chunks: {}, share)


def test_the_first_chunk_of_a_page_is_its_best() -> None:
    found = best_per_page([(1, 9.0), (2, 8.0), (4, 6.0)], {1: 10, 2: 10, 4: 20}.__getitem__, limit=5)
    assert found == [PageHit(10, 1, 9.0), PageHit(20, 4, 6.0)]


@given(st.lists(st.tuples(st.integers(1, 30), scores), unique_by=lambda hit: hit[0]), st.integers(1, 6))
@settings(deadline=None)
def test_every_page_comes_once_in_the_lists_order(found: list[tuple[int, float]], limit: int) -> None:
    ranked = sorted(found, key=lambda hit: -hit[1])
    pages = best_per_page(ranked, lambda chunk: chunk % 7, limit)
    assert len(pages) <= limit
    assert len({page.page for page in pages}) == len(pages)
    assert all(a.score >= b.score for a, b in pairwise(pages))
    for page in pages:
        assert page.score == max(score for chunk, score in ranked if chunk % 7 == page.page)


@given(lists, lists, shares)
@settings(deadline=None)
def test_a_fused_score_lies_between_nought_and_one(
    words: dict[int, float], vectors: dict[int, float], share: float
) -> None:
    ranked = fused(words, vectors, share)
    assert {each.page for each in ranked} == words.keys() | vectors.keys()
    assert all(-TINY <= each.score <= 1 + TINY for each in ranked)
    assert all((-a.score, a.page) <= (-b.score, b.page) for a, b in pairwise(ranked))


@given(lists.filter(len), lists, shares, st.data(), st.integers(1, 20))
@settings(deadline=None)
def test_a_better_word_score_never_costs_a_page_anything_against_pages_with_a_vector(
    words: dict[int, float], vectors: dict[int, float], share: float, data: st.DataObject, gain: int
) -> None:
    # every page has a vector here; one without is judged by its words twice, and so moves with them
    vectors = {page: vectors.get(page, 0.0) for page in words.keys() | vectors.keys()}
    page = data.draw(st.sampled_from(sorted(words)))
    before = {each.page: each.score for each in fused(words, vectors, share)}
    after = {each.page: each.score for each in fused({**words, page: words[page] + gain}, vectors, share)}
    for other in before.keys() - {page}:
        assert after[page] - after[other] >= before[page] - before[other] - TINY


@given(lists)
@settings(deadline=None)
def test_without_vectors_the_order_is_that_of_the_words(words: dict[int, float]) -> None:
    ranked = [each.page for each in fused(words, {}, 0.0)]
    assert [words[page] for page in ranked] == sorted(words.values(), reverse=True)


@given(lists)
@settings(deadline=None)
def test_without_words_the_order_is_that_of_the_vectors(vectors: dict[int, float]) -> None:
    ranked = [each.page for each in fused({}, vectors, DENSE_SHARE)]
    assert [vectors[page] for page in ranked] == sorted(vectors.values(), reverse=True)


def test_a_page_that_the_dense_list_missed_gets_its_exact_cosine() -> None:
    asked: list[list[int]] = []

    def cosines(chunks: object) -> dict[int, float]:
        asked.append(list(chunks))  # type: ignore[call-overload]
        return {101: 0.9}

    ranked = fuse(hits({1: 5.0, 2: 4.0}), hits({2: 0.5}, 200), cosines, 0.5)
    assert asked == [[101]]
    assert [(each.page, each.cosine) for each in ranked] == [(1, 0.9), (2, 0.5)]


def test_the_chunk_is_that_of_the_list_that_speaks_more_strongly() -> None:
    ranked = {each.page: each.chunk for each in fused({1: 9.0, 2: 1.0, 3: 0.0}, {1: 0.1, 2: 0.9, 4: 0.0}, 0.5)}
    assert ranked == {1: 101, 2: 202, 3: 103, 4: 204}


@given(
    st.booleans(),
    st.sampled_from(["canonical", "evidence"]),
    st.sampled_from(["draft", "stable", "deprecated"]),
    st.booleans(),
)
@settings(deadline=None)
def test_the_adjustment_stays_within_a_tenth(identity: bool, role: Role, status: Status, verified: bool) -> None:
    factor = multiplier(identity=identity, role=role, status=status, verified_by_human=verified)
    assert 0.90 <= factor <= 1.10
    assert factor <= multiplier(identity=True, role=role, status=status, verified_by_human=verified)
    assert factor <= multiplier(identity=identity, role=role, status=status, verified_by_human=True)
    assert factor >= multiplier(identity=identity, role=role, status="deprecated", verified_by_human=verified)


def test_the_adjustments_are_the_seeds() -> None:
    plain = multiplier(identity=False, role="canonical", status="draft", verified_by_human=False)
    best = multiplier(identity=True, role="canonical", status="stable", verified_by_human=True)
    worst = multiplier(identity=False, role="evidence", status="deprecated", verified_by_human=False)
    assert [plain, best, worst] == pytest.approx([1.0, 1.10, 0.90])


def test_a_reciprocal_rank_falls_with_the_rank() -> None:
    assert reciprocal_rank(1) == pytest.approx(1 / 61)
    assert all(reciprocal_rank(rank) > reciprocal_rank(rank + 1) for rank in range(1, 40))


def test_vectors_rule_where_the_vault_holds_few_of_the_words() -> None:
    assert share_of_vectors(DENSE_SHARE, 1.0) == DENSE_SHARE
    assert share_of_vectors(DENSE_SHARE, OWN_WORDS) == DENSE_SHARE
    assert share_of_vectors(DENSE_SHARE, FOREIGN_WORDS) == 1.0
    assert share_of_vectors(DENSE_SHARE, 0.0) == 1.0


@given(st.floats(0, DENSE_SHARE), st.floats(0, 1), st.floats(0, 1))
def test_the_share_of_vectors_only_grows_as_words_go_missing(own: float, held: float, more: float) -> None:
    few, many = sorted((held, more))
    assert own <= share_of_vectors(own, many) <= share_of_vectors(own, few) <= 1.0


@given(st.floats(0, 1))
def test_words_are_all_there_is_for_a_language_the_embedder_does_not_know(held: float) -> None:
    assert share_of_vectors(0.0, held) == 0.0
