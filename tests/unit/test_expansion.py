"""What a query is expanded by: words its best pages have in common, and other names of what it names."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import summary
from wikid_daemon.core.expansion import FEEDBACK_WORDS, MAX_NAMES, other_names, relevant_words

counters = st.dictionaries(st.text("abcdef12", min_size=1, max_size=4), st.integers(1, 5), max_size=20).map(Counter)
chunks = st.lists(st.tuples(st.floats(0, 1), counters), max_size=5)


def test_words_that_the_best_chunks_share_weigh_most() -> None:
    best = [(1.0, Counter(kiln=2, glaze=2)), (0.5, Counter(kiln=1, ash=3))]
    words = relevant_words(best, ["firing"], 2)
    assert list(words) == ["kiln", "glaze", "ash"] or list(words) == ["kiln", "ash", "glaze"]
    assert sum(words.values()) == pytest.approx(2)


def test_the_querys_own_words_and_what_tells_nothing_are_left_out() -> None:
    best = [(1.0, Counter({"kiln": 5, "a": 5, "1222": 5, "x" * 21: 5, "cone": 1}))]
    assert list(relevant_words(best, ["kiln"], 1)) == ["cone"]


@given(chunks, st.lists(st.text("abcdef12", max_size=4), max_size=5), st.integers(0, 6))
def test_expansion_never_outweighs_the_query(
    best: list[tuple[float, Counter[str]]], known: list[str], query_words: int
) -> None:
    words = relevant_words(best, known, query_words)
    assert len(words) <= FEEDBACK_WORDS
    assert not set(words) & set(known)
    assert sum(words.values()) <= max(query_words, 1) + 1e-6
    assert all(weight >= 0 for weight in words.values())


POSTGRES = summary(title="PostgreSQL", aliases=("Postgres", "pg"))


def test_a_named_page_brings_its_other_names() -> None:
    assert other_names("why is pg so slow", [POSTGRES]) == ["PostgreSQL", "Postgres"]
    assert other_names("PostgreSQL vacuum", [POSTGRES]) == ["Postgres", "pg"]


def test_a_name_inside_a_longer_word_names_nothing() -> None:
    assert other_names("pgbouncer settings", [POSTGRES]) == []


def test_the_number_of_names_is_bounded() -> None:
    many = summary(title="Kiln", aliases=tuple(f"kiln number {number}" for number in range(40)))
    assert len(other_names("the kiln", [many])) == MAX_NAMES
