"""Queries: normal form, terms in a text, names and excerpts."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from builders import summary
from wikid_daemon.core import query as q
from wikid_daemon.core.query import Terms

words = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=8)
weights = st.dictionaries(words, st.floats(0.0, 1.0), max_size=90).map(lambda found: list(found.items()))
texts = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from(" \n\n abc")), max_size=400)


@given(st.text(st.characters(codec="utf-8")))
@settings(deadline=None)
def test_a_normal_form_is_its_own_normal_form(text: str) -> None:
    once = q.normalise(text)
    assert q.normalise(once) == once
    assert once == once.strip()
    assert "\n" not in once
    assert unicodedata.is_normalized("NFKC", once)


@pytest.mark.parametrize("text", ["", "  ", "???", "*", "(", "&&", '""'])
def test_pure_ascii_punctuation_holds_no_words(text: str) -> None:
    assert not q.has_words(text)


@pytest.mark.parametrize("text", ["a", "7", "汉", "🎉", "C++", "…"])
def test_letters_numbers_and_signs_count_as_words(text: str) -> None:
    assert q.has_words(text)


@given(weights, texts)
@settings(deadline=None)
def test_coverage_is_a_share(found: list[tuple[str, float]], text: str) -> None:
    terms = Terms(found)
    assert 0.0 <= terms.coverage(text) <= 1.0 + 1e-9
    assert len(terms) <= q.MAX_TERMS


@given(weights.filter(lambda found: any(weight > 0.01 for _, weight in found)))
@settings(deadline=None)
@example([("i", 1.0), ("I", 1.0)])
def test_a_text_with_every_word_covers_more_than_one_with_none(found: list[tuple[str, float]]) -> None:
    terms = Terms([(word.lower(), weight) for word, weight in found])
    assert terms.coverage("") == 0.0
    assert terms.coverage(" ".join(word.lower() for word, _ in found)) > 0.0


def test_stems_match_their_words_and_the_rare_word_weighs_more() -> None:
    terms = Terms([("databas", 1.0), ("slow", 0.5)])
    assert terms.coverage("Two DATABASES") == pytest.approx(2 / 3)
    assert terms.coverage("a slow day") == pytest.approx(1 / 3)
    assert terms.coverage("metadatabase") == 0.0
    assert Terms([("citi", 1.0)]).coverage("two cities, one city") == 1.0


def test_words_of_scripts_without_spaces_match_inside_a_run() -> None:
    assert Terms([("连接", 1.0), ("接池", 1.0)]).coverage("数据库连接池配置") == 1.0


@given(texts, st.integers(20, 120), weights)
@settings(deadline=None)
def test_an_excerpt_is_a_slice_of_the_text_and_never_wider_than_asked(
    text: str, width: int, found: list[tuple[str, float]]
) -> None:
    shown = q.excerpt(text, 1, Terms(found), width)
    assert shown.text.removeprefix("… ").removesuffix(" …") in text
    assert len(shown.text) <= width


@given(st.lists(st.sampled_from(["alpha beta", "gamma", "", "delta epsilon zeta"]), max_size=60), st.integers(20, 80))
@settings(deadline=None)
def test_an_excerpt_tells_the_line_where_it_begins(lines: list[str], width: int) -> None:
    lines[len(lines) // 2 : len(lines) // 2] = ["needle"]
    text = "\n".join(lines)
    shown = q.excerpt(text, 10, Terms([("needle", 1.0)]), width)
    first = shown.text.removeprefix("… ").split("\n")[0].removesuffix(" …")
    assert "needle" in shown.text
    assert first in lines[shown.line - 10]


def test_an_excerpt_is_taken_around_the_densest_match() -> None:
    text = "\n".join(["filler words here"] * 40 + ["the rare needle and the thread"] + ["more filler"] * 40)
    shown = q.excerpt(text, 1, Terms([("needle", 1.0), ("thread", 1.0)]), 200)
    assert "needle and the thread" in shown.text


@pytest.mark.parametrize(
    ("query", "by"),
    [
        ("retry budget", "title"),
        ("Retry-Budget", "title"),
        ('"retry budget"?', "title"),
        ("RB", "alias"),
        ("concepts/retry", "page id"),
        ("retry.md", "page id"),
        ("retry budget numbers", None),
        ("", None),
        ("???", None),
    ],
)
def test_a_query_may_name_a_page_outright(query: str, by: str | None) -> None:
    found = q.identity(q.name(query), "concepts/retry", summary(title="Retry budget", aliases=("RB",)))
    assert (None if found is None else found.by) == by


def test_pairs_that_join_a_word_to_grammar_do_not_count_where_others_are_left() -> None:
    terms = Terms([("煎茶", 0.9), ("茶は", 0.9), ("は何", 0.8), ("お湯", 0.7)])
    assert set(terms.weights) == {"煎茶"}
    assert terms.coverage("煎茶の入れ方") == 1.0
    assert set(Terms([("いつ", 0.5)]).weights) == {"いつ"}
    assert set(Terms([("größe", 0.5), ("tide", 0.4)]).weights) == {"größe", "tide"}


def test_what_a_vault_holds_of_a_query_is_weighed_by_rarity() -> None:
    assert Terms([("harbour", 0.5), ("leuchtturm", 1.0)], ["leuchtturm"]).held == pytest.approx(1 / 3)
    assert Terms([("harbour", 0.5)]).held == 1.0
    assert Terms([("leuchtturm", 1.0)], ["leuchtturm"]).held == 0.0
    assert Terms([]).held == 1.0


def test_a_number_that_the_vault_holds_speaks_for_its_words() -> None:
    assert Terms([("vx", 1.0), ("4037", 1.0), ("firmwar", 1.0)], ["vx", "firmwar"]).held == 1.0
    assert Terms([("vx", 1.0), ("4037", 1.0)], ["vx", "4037"]).held == 0.0
