"""Adaptive and quality over real indexes: when recall looks a second time, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from builders import page
from recalls import Recalls, ids, items, kinds
from wikid_daemon import recall as recall_module
from wikid_daemon.index.late_interaction import Asked, Passage
from wikid_daemon.vaults import Layer

QUAY: tuple[str, Layer] = ("quay", "project")
QUESTION = "what turns the tide at the quay"


class FakeReranker:
    """Prefers passages with a word; judges only the first `most`."""

    identity = "fake-reranker"

    def __init__(self, prefers: str, most: int = 100) -> None:
        self.prefers = prefers
        self.most = most
        self.asked: list[tuple[Asked, Sequence[Passage]]] = []

    def scores(self, asked: Asked, passages: Sequence[Passage], _left_ms: Callable[[], float]) -> list[float | None]:
        self.asked.append((asked, passages))
        found: list[float | None] = [float(self.prefers in each.text) for each in passages[: self.most]]
        return found + [None] * (len(passages) - len(found))


@pytest.fixture(scope="module")
def recalls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recalls]:
    found = Recalls(tmp_path_factory.mktemp("quay"))
    found.wiki(
        "quay",
        concepts__tide=page("The tide turns twice a day at the quay.", title="Tide"),
        concepts__moon=page("The moon turns the tide, and the quay keeps it.", title="Moon"),
        concepts__fog=page("Fog hides the tide marks at the quay.", title="Fog"),
        entities__postgres=page("A database.", title="PostgreSQL", type="entity", aliases="[pgsql]"),
        concepts__vacuum=page("PostgreSQL needs room for dead rows.", title="Dead rows"),
    )
    yield found
    found.close()


def test_quality_looks_twice_and_the_reranker_has_its_say(recalls: Recalls) -> None:
    reranker = FakeReranker("moon")
    plain = recalls.ask("tide quay", QUAY, mode="hybrid")
    answer = recalls.ask("tide quay", QUAY, mode="quality", reranker=reranker)
    assert ids(plain)[0] != "concepts/moon"
    assert ids(answer)[0] == "concepts/moon"
    assert (answer.mode_used, answer.mode_reasons, answer.diagnostics) == ("quality", ("requested",), ())


def test_adaptive_says_why_it_looked_twice(recalls: Recalls) -> None:
    answer = recalls.ask(QUESTION, QUAY, mode="adaptive", reranker=FakeReranker("moon"))
    assert answer.mode_used == "quality"
    assert "question" in answer.mode_reasons


def test_adaptive_is_the_mode_where_none_is_asked_for(recalls: Recalls) -> None:
    answer = recalls.ask(QUESTION, QUAY, mode=None, reranker=FakeReranker("moon"))
    assert answer.mode_used == "quality"


def test_a_page_that_is_named_outright_needs_no_second_look(recalls: Recalls) -> None:
    reranker = FakeReranker("moon")
    answer = recalls.ask("Fog", QUAY, mode="adaptive", reranker=reranker)
    assert (answer.mode_used, answer.mode_reasons, reranker.asked) == ("hybrid", ("certain",), [])


def test_a_reranker_that_judges_nothing_leaves_the_first_look(recalls: Recalls) -> None:
    first = recalls.ask("tide quay", QUAY, mode="hybrid")
    answer = recalls.ask("tide quay", QUAY, mode="quality", reranker=FakeReranker("moon", most=0))
    assert (answer.mode_used, kinds(answer)) == ("hybrid", ["reranker_failed"])
    assert ids(answer)[0] == ids(first)[0]


def test_a_reranker_that_has_nothing_to_judge_did_not_fail(recalls: Recalls) -> None:
    answer = recalls.ask("tide quay", QUAY, mode="quality", types=("case",), reranker=FakeReranker("moon"))
    assert (answer.mode_used, kinds(answer), answer.reason) == ("quality", [], "no_reliable_memory")


def test_with_too_little_time_the_first_look_answers(recalls: Recalls) -> None:
    answer = recalls.ask("tide quay", QUAY, mode="quality", reranker=FakeReranker("moon"), deadline_ms=40)
    assert answer.mode_used in ("hybrid", "lexical")
    assert kinds(answer) == ["deadline_short"]


def test_the_reranker_is_told_what_is_rare_and_what_the_vault_is_about(recalls: Recalls) -> None:
    reranker = FakeReranker("moon")
    recalls.ask("the fog at the quay", QUAY, mode="quality", reranker=reranker)
    ((asked, passages),) = reranker.asked
    assert asked.rarity("fog") > asked.rarity("quay") > asked.rarity("the") == 0
    assert asked.intent == "quay personal"
    assert 0 < len(passages) <= 40


def test_another_name_of_what_is_named_finds_what_the_words_do_not(recalls: Recalls) -> None:
    answer = recalls.ask("pgsql dead", QUAY, mode="quality", reranker=FakeReranker("dead"), explain=True)
    assert "concepts/vacuum" in ids(answer)
    assert answer.explain is not None
    assert "PostgreSQL" in answer.explain["vaults"][0]["second_look"]["names"]


def test_the_explanation_shows_both_looks_and_every_decision(recalls: Recalls) -> None:
    answer = recalls.ask(QUESTION, QUAY, mode="adaptive", reranker=FakeReranker("moon"), explain=True)
    found: dict[str, Any] = answer.explain or {}
    assert found["mode"]["wanted"] == "adaptive"
    assert found["mode"]["reasons"] == list(answer.mode_reasons)
    (vault,) = found["vaults"]
    assert vault["lexical"][0]["rank"] == 1
    assert {"expansion", "names", "reranker", "reranked", "weights"} <= vault["second_look"].keys()
    best = next(each for each in vault["candidates"] if each["page_id"] == ids(answer)[0])
    assert {"bm25", "cosine", "signals", "fused", "coverage", "confidence", "passed"} <= best.keys()
    assert best["signals"]["rerank"] == 1.0
    assert found["order"][0]["multiplier"] == pytest.approx(1.03)
    assert {"query", "first_look", "second_look"} <= found["spent_ms"].keys()


def test_an_automatic_answer_that_is_late_injects_nothing(recalls: Recalls, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"mode": "lexical", "policy": "automatic"}
    assert items(recalls.ask("tide turns quay twice day", QUAY, **asked))
    monkeypatch.setattr(recall_module, "AUTOMATIC_MS", 0.0)
    late = recalls.ask("tide turns quay twice day", QUAY, **asked)
    assert (late.bundles, late.reason, kinds(late)) == ((), "no_reliable_memory", ["too_late"])
