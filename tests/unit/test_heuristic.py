"""The baseline of the benchmark against the extension's own output on the sample vaults, and its rules one by one."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wikid_daemon.bench.heuristic import Entry, Heuristic, entry_of
from wikid_daemon.core.document import parse_page

DATA = Path(__file__).parents[1] / "data"
EXPECTED: dict[str, Any] = json.loads((DATA / "expected" / "recall-today.json").read_text())
SHOWN = 5


@cache
def vault(name: str) -> Heuristic:
    """A sample vault as its registry lists it; a packet without a page is there by its registry entry alone."""
    inner = DATA / name / ".llm-wiki"
    registry = json.loads((inner / "meta" / "registry.json").read_text())["pages"]
    return Heuristic(entry(inner / "wiki", page_id, registered) for page_id, registered in registry.items())


def entry(wiki: Path, page_id: str, registered: dict[str, Any]) -> Entry:
    file = wiki / f"{page_id}.md"
    if not file.exists():
        return Entry(page_id, registered, {}, "")
    document = parse_page(f"{page_id}.md", file.read_bytes(), strict=True).document
    assert document is not None
    return entry_of(page_id, document)


def page(page_id: str, body: str = "", **fields: Any) -> Entry:
    return Entry(page_id, {"title": page_id, **fields}, fields, body)


def scores(query: str, *pages: Entry) -> dict[str, float]:
    return {each.page_id: each.score for each in Heuristic(pages).rank(query)}


# -- against the extension ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", EXPECTED)
def test_pages_and_scores_are_the_extensions(query: str) -> None:
    expected = EXPECTED[query]["personal_only"]
    found = vault("personal").rank(query)[:SHOWN]
    assert [each.page_id for each in found] == [page_id for page_id, _ in expected]
    assert [each.score for each in found] == pytest.approx([score for _, score in expected])
    assert vault("personal").ask(query, SHOWN) == [page_id for page_id, _ in expected]


@pytest.mark.parametrize("query", EXPECTED)
def test_what_is_injected_is_the_extensions(query: str) -> None:
    assert vault("personal").automatic(query) == EXPECTED[query]["auto_personal"]


@pytest.mark.parametrize("query", EXPECTED)
def test_the_project_vault_below_the_personal_one_is_the_extensions(query: str) -> None:
    layered: dict[str, tuple[str, float]] = {}
    for name in ("personal", "project"):
        for each in vault(name).rank(query)[:SHOWN]:
            layered.setdefault(each.page_id, (name, each.score))
    found = [(page_id, name, round(score, 6)) for page_id, (name, score) in layered.items()]
    assert found[:SHOWN] == [tuple(each) for each in EXPECTED[query]["layered_from_project"]]


# -- its rules: words of three letters or fewer, and words of the query, feed nothing back -----------------------------


@pytest.mark.parametrize(
    ("field", "points"),
    [
        *[("title", 5), ("aliases", 6), ("recall_triggers", 7), ("summary", 3), ("description", 3)],
        *[("tags", 2), ("category", 2), ("domain", 2)],
    ],
)
def test_a_field_counts_once_from_the_registry_and_once_from_the_frontmatter(field: str, points: int) -> None:
    assert scores("boiler", Entry("a", {field: ["Boiler"]}, {field: "a boiler"}, "")) == {"a": 2 * points}
    assert scores("boiler", Entry("a", {field: "Boiler"}, {}, "")) == {"a": points}


def test_id_and_type_count_once() -> None:
    assert scores("boiler", Entry("notes/boiler", {}, {}, "")) == {"notes/boiler": 3}
    assert scores("boiler", Entry("a", {"type": "boiler"}, {"type": "boiler"}, "")) == {"a": 1}


def test_the_whole_query_and_each_word_are_terms_of_their_own() -> None:
    # the phrase and its form without the space count beside the two words
    assert scores("hot water", page("a", "hot water")) == {"a": 4}
    assert scores("hot water hotwater", page("a", "water, hot")) == {"a": 2}


def test_a_word_inside_or_across_words_matches() -> None:
    assert scores("at", page("x", "a cat")) == {"x": 1}
    assert scores("at", page("x", "a t")) == {"x": 1}


def test_only_the_best_chunk_counts() -> None:
    body = "kiln\n\n# Kiln\n\nno\n\n## Ash\n\nkiln\n"
    assert scores("kiln", page("a", body)) == {"a": 4}


def test_punctuation_and_width_make_no_difference() -> None:
    assert scores("ＦＯＯ_bar!", page("a", "foo-bar")) == scores("foo bar", page("a", "foo/bar"))


def test_japanese_is_found_by_pairs_and_triples() -> None:
    assert scores("分かち書き", page("a", "下書き")) == {"a": 1}
    assert scores("分かち書き", page("a", "かち書")) == {"a": 3}


def test_frequent_words_of_the_first_pages_raise_pages_that_have_them() -> None:
    first = page("a", "kiln cone cone cone cone")
    both = scores("kiln", first, page("b", "kiln cone"), page("c", "kiln other"))
    assert both["b"] > both["c"]


def test_a_query_without_words_finds_nothing() -> None:
    assert scores("?! …", page("a", "text"), page("b")) == {}


def test_what_is_injected_needs_five_points() -> None:
    weak, strong = page("weak", "kiln"), page("strong", aliases=["kiln"])
    assert Heuristic([weak, strong]).automatic("kiln") == ["strong"]


words = st.text("abc ", max_size=12)


@given(st.lists(words, max_size=6), words, st.randoms(use_true_random=False))
def test_neither_the_order_of_pages_nor_pages_without_a_point_matter(
    bodies: list[str], query: str, random: Any
) -> None:
    pages = [page(f"{number}", body) for number, body in enumerate(bodies)]
    shuffled = [*pages, page("7", "xyz")]
    random.shuffle(shuffled)
    assert Heuristic(shuffled).rank(query) == Heuristic(pages).rank(query)
