"""Pages that may not answer, because of their type or date, never stand in the way of those that may."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from builders import page
from recalls import Recalls, ids
from wikid_daemon.index.late_interaction import Asked, Passage
from wikid_daemon.vaults import Layer

HARBOUR: tuple[str, Layer] = ("harbour", "project")
CROWD = 150
WORDS = "deploy the harbour release, deploy its steps, deploy"


class FakeReranker:
    """Finds every passage as good as the next."""

    identity = "fake-reranker"

    def scores(self, _asked: Asked, passages: Sequence[Passage], _left_ms: Callable[[], float]) -> list[float | None]:
        return [0.5] * len(passages)


@pytest.fixture(scope="module")
def recalls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recalls]:
    found = Recalls(tmp_path_factory.mktemp("harbour"))
    crowd = {
        f"concepts__old{number:03}": page(f"{WORDS} {number}", title=f"Deploy note {number}", updated="2024-01-02")
        for number in range(CROWD)
    }
    talk = "Lamps, gulls and ferries, tea and pilots; at the end somebody wanted to deploy the release after all."
    found.wiki(
        "harbour",
        **crowd,
        concepts__new=page(talk, title="Weekly talk", updated="2026-11-30"),
        entities__lamp=page("Oil for the lamps, gulls above, and one release.", title="Lamp", type="entity"),
    )
    yield found
    found.close()


def asked(recalls: Recalls, mode: str, **params: Any) -> list[str]:
    return ids(recalls.ask("deploy release", HARBOUR, mode=mode, reranker=FakeReranker(), max_results=10, **params))


@pytest.mark.parametrize("mode", ["lexical", "hybrid", "quality", "adaptive"])
def test_the_one_page_of_a_period_is_found_behind_many_that_match_better(recalls: Recalls, mode: str) -> None:
    assert asked(recalls, mode, since="2026-11-01") == ["concepts/new"]
    assert asked(recalls, mode, since="2026-11-01", types=("concept",)) == ["concepts/new"]
    assert asked(recalls, mode, since="2026-11-01", types=("entity",)) == []


@pytest.mark.parametrize("mode", ["lexical", "hybrid", "quality"])
def test_few_pages_outside_of_a_period_are_left_out(recalls: Recalls, mode: str) -> None:
    found = asked(recalls, mode, until="2024-12-31")
    assert len(found) == 10
    assert "concepts/new" not in found


def test_vectors_alone_find_the_one_page_of_a_type(recalls: Recalls) -> None:
    store = recalls.indexers["harbour"].store
    assert store is not None
    answer = recalls.ask("deploy harbour", HARBOUR, mode="hybrid", types=("entity",), explain=True)
    (about,) = (answer.explain or {})["vaults"]
    assert [each["page_id"] for each in about["lexical"]] == []
    assert [each["page_id"] for each in about["dense"]] == ["entities/lamp"]
