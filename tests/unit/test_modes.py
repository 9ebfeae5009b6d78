"""Modes, their fallbacks, and when adaptive escalates (seed A, Retrieval Modes)."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wikid_daemon.core.modes import MARGIN, MODES, NEEDS, FirstStage, Mode, Part, answered_by, escalations, overlap
from wikid_daemon.core.question_words import is_question

CERTAIN = FirstStage((0.9, 0.4), lexical=(1, 2, 3, 4, 5), dense=(1, 2, 3, 4, 6), named=False, disputed=False)
STATEMENT = "pooler settings"


@pytest.mark.parametrize(
    ("wanted", "lacking", "served"),
    [
        ("quality", (), "quality"),
        ("quality", ("reranker",), "hybrid"),
        ("quality", ("vectors",), "lexical"),
        ("quality", ("vectors", "reranker"), "lexical"),
        ("adaptive", ("reranker",), "hybrid"),
        ("adaptive", ("vectors",), "lexical"),
        ("hybrid", ("reranker",), "hybrid"),
        ("hybrid", ("vectors",), "lexical"),
        ("lexical", ("vectors", "reranker"), "lexical"),
    ],
)
def test_a_part_that_is_lacking_means_the_next_cheaper_mode(
    wanted: Mode, lacking: tuple[Part, ...], served: Mode
) -> None:
    assert answered_by(wanted, lacking) == served


@given(st.sampled_from(MODES), st.sets(st.sampled_from(get_args(Part))))
def test_whatever_is_lacking_some_mode_that_needs_none_of_it_answers(wanted: Mode, lacking: set[Part]) -> None:
    assert NEEDS[answered_by(wanted, lacking)].isdisjoint(lacking)


def test_a_certain_first_look_needs_no_second() -> None:
    assert escalations(STATEMENT, [CERTAIN]) == ()


@pytest.mark.parametrize(
    ("stage", "query", "reason"),
    [
        (replace(CERTAIN, confidences=(0.9, 0.9 - MARGIN + 0.01)), STATEMENT, "narrow_margin"),
        (replace(CERTAIN, dense=(1, 7, 8, 9, 6)), STATEMENT, "lists_disagree"),
        (CERTAIN, "which pooler", "question"),
        (replace(CERTAIN, disputed=True), STATEMENT, "contradiction"),
    ],
)
def test_each_of_the_four_doubts_alone_asks_for_a_second_look(stage: FirstStage, query: str, reason: str) -> None:
    assert escalations(query, [stage]) == (reason,)
    assert reason in escalations(query, [CERTAIN, stage])


def test_the_borders_are_the_seeds() -> None:
    assert escalations(STATEMENT, [replace(CERTAIN, confidences=(0.875, 0.75))]) == ()
    three_of_seven = replace(CERTAIN, dense=(1, 2, 3, 8, 9))
    assert overlap(three_of_seven.lexical, three_of_seven.dense) == pytest.approx(3 / 7)
    assert escalations(STATEMENT, [three_of_seven]) == ()


def test_a_page_that_is_named_outright_is_not_looked_at_twice_whatever_else_is_in_doubt() -> None:
    doubtful = FirstStage(confidences=(0.8, 0.79), lexical=(1,), dense=(2,), named=True, disputed=True)
    assert escalations("how is it", [doubtful]) == ()
    assert escalations("how is it", [replace(doubtful, confidences=(0.79, 0.7))]) != ()


def test_where_nothing_was_found_there_is_nothing_to_look_at_again() -> None:
    assert escalations("how is it", [FirstStage((), (), (), named=False, disputed=False)]) == ()


@pytest.mark.parametrize(
    "query",
    [
        "Who keeps the bees?",
        "  'How' do I",
        "compare the two",
        "Warum läuft die Pumpe",
        "¿Cuándo cambia?",
        "¿por qué no",
        "Pourquoi pas",
        "Qu'est-ce que c'est",
        "où est-il",
        "Explique la cuisson",
        "Erkläre das",
        "perché no",
        "お茶の温度は何度ですか",
        "茶叶怎么保存",
        "왜 느린가요",
        "почему так",
    ],
)
def test_questions_of_several_languages_are_known(query: str) -> None:
    assert is_question(query)


@pytest.mark.parametrize("query", ["pooler settings", "whoever", "howitzer", "", "...", "the way how", "数据库连接池"])
def test_what_only_looks_like_a_question_word_is_none(query: str) -> None:
    assert not is_question(query)
