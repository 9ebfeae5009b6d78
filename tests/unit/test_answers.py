"""Answers against judgements, and how a judged vault is read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wikid_daemon.bench import answers
from wikid_daemon.bench.answers import answer_quality, card_first, evidence_precision, evidence_recall, together
from wikid_daemon.bench.dataset import DatasetUnusable, JudgedQuery, by_hash, by_ordinal, chosen, half_of
from wikid_daemon.bench.judged import JudgedAnswer, read_judged
from wikid_daemon.bench.metrics import calibration_error
from wikid_protocol.memories import Bundle, Item, PageId, VaultId


def item(page_id: str) -> Item:
    return Item(
        vault_id=VaultId("v"),
        vault="v",
        page_id=PageId(page_id),
        path=f"/{page_id}.md",
        title=page_id,
        type="concept",
        role="canonical",
        status="stable",
        freshness="current",
        excerpt="",
        score=0.9,
        rank=1,
    )


def bundle(card: str | None, evidence: Sequence[str] = (), conflicts: Sequence[str] = ()) -> Bundle:
    return Bundle(
        card=None if card is None else item(card),
        evidence=tuple(map(item, evidence)),
        conflicts=tuple(map(item, conflicts)),
    )


def judged(
    cards: Mapping[str, int] | None = None,
    evidence: Mapping[str, int] | None = None,
    conflicts: Sequence[frozenset[str]] = (),
    query_id: str = "q",
    kind: str = "vague",
) -> JudgedAnswer:
    return JudgedAnswer(query_id, kind, "a question", cards or {}, evidence or {}, conflicts)


# -- one answer --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bundles", "succeeded"),
    [
        ([bundle("now")], True),
        ([bundle("also")], True),
        ([bundle("before", conflicts=["now"])], False),
        ([bundle("other"), bundle("now")], False),
        ([bundle(None, evidence=["log"]), bundle("now")], False),
        ([], False),
    ],
    ids=["the card", "nearly as good", "superseded", "second", "unpromoted first", "abstained"],
)
def test_an_answer_succeeds_with_a_good_card_first(bundles: list[Bundle], succeeded: bool) -> None:
    query = judged({"now": 3, "also": 2, "before": 1}, {"log": 3})
    assert card_first(query, bundles) is succeeded


def test_a_query_without_a_good_card_is_not_about_cards() -> None:
    assert card_first(judged({"near": 1}, {"log": 3}), [bundle("near")]) is None


def test_evidence_counts_in_the_first_two_bundles() -> None:
    query = judged({"a": 3}, {"log": 3, "note": 1, "letter": 1})
    shown = [bundle("a", ["log", "chatter"]), bundle("b", ["note"]), bundle("c", ["letter"])]
    assert evidence_precision(query, shown) == pytest.approx(2 / 3)
    assert evidence_recall(query, shown) == pytest.approx(2 / 3)
    assert evidence_precision(query, [bundle("a")]) is None
    assert evidence_recall(judged({"a": 3}), shown) is None
    assert evidence_recall(query, []) == 0.0


def test_contradictions_are_together_as_claims_of_one_bundle() -> None:
    pair = frozenset({"a", "b"})
    assert together(pair, [bundle("x"), bundle("b", conflicts=["a"])])
    assert together(pair, [bundle("x", conflicts=["a", "b"])])
    assert together(pair, [bundle(None, evidence=["a"], conflicts=["b"])])
    assert not together(pair, [bundle("a"), bundle("b")])
    assert not together(pair, [bundle("a", evidence=["b"])])
    assert not together(pair, [])


def test_waste_is_what_is_of_no_use_and_what_stands_there_twice() -> None:
    query = judged({"a": 3}, {"log": 1})
    found = answer_quality([(query, [bundle("a", ["log", "chatter"]), bundle("b", ["log"])])])
    assert found.waste is not None
    assert found.waste.mean == pytest.approx(2 / 5)
    assert found.duplicates is not None
    assert found.duplicates.mean == pytest.approx(1 / 5)


def test_figures_are_means_over_the_queries_they_are_about() -> None:
    pair = frozenset({"a", "b"})
    asked = [
        (judged({"a": 3, "b": 3}, conflicts=[pair], query_id="1", kind="contradiction"), [bundle("a", [], ["b"])]),
        (judged({"a": 3, "b": 3}, conflicts=[pair], query_id="2", kind="contradiction"), [bundle("a")]),
        (judged({"c": 3}, query_id="3"), []),
        (judged({}, {"log": 2}, query_id="4"), [bundle(None, ["log"])]),
    ]
    found = answer_quality(asked)
    assert found.card_first is not None
    assert found.card_first.mean == pytest.approx(2 / 3)
    assert found.by_kind == {"contradiction": 1.0, "vague": 0.0}
    assert found.contradictions is not None
    assert found.contradictions.mean == 0.5
    assert (found.missed, found.torn) == (("3",), ("2",))
    assert found.abstained == 0.25
    json.dumps(found.to_json())


def test_names_that_the_baseline_found_must_stay_on_top() -> None:
    queries = [judged({"a": 3, "near": 1}, query_id=query_id) for query_id in "123"]
    before = [["x", "y", "a"], ["x", "y", "z", "a"], ["a"]]
    kept, lost = answers.kept_on_top(queries, before, [{"a"}, {"x"}, {"near"}])
    assert kept is not None
    assert (kept.mean, lost) == (0.5, ("3",))
    assert answers.kept_on_top(queries[:1], [["x"]], [{"a"}]) == (None, ())


# -- confidence --------------------------------------------------------------------------------------------------------


def test_calibration_error_is_the_distance_of_belief_from_truth() -> None:
    assert calibration_error([(0.75, True)] * 3 + [(0.75, False)]) == pytest.approx(0.0)
    assert calibration_error([(0.9, False)] * 5) == pytest.approx(0.9)
    # 3 pairs that are believed too little, 1 that is believed too much
    assert calibration_error([(0.6, True)] * 3 + [(1.0, False)]) == pytest.approx((3 * 0.4 + 1.0) / 4)
    assert calibration_error([]) is None


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1))
def test_calibration_error_is_a_share(pairs: list[tuple[float, bool]]) -> None:
    error = calibration_error(pairs)
    assert error is not None
    assert 0.0 <= error <= 1.0 + 1e-9


# -- halves ------------------------------------------------------------------------------------------------------------

IDS = st.lists(st.text("abc123", min_size=1, max_size=5), unique=True, max_size=30)


@given(IDS, st.sampled_from([by_ordinal, by_hash]))
def test_the_halves_part_the_judged_queries(ids: list[str], split: Any) -> None:
    queries = [JudgedQuery(each, "", {"d": 1}) for each in ids]
    tuning, reporting = (chosen(queries, 0, half, split) for half in ("tuning", "reporting"))
    assert sorted(each.id for each in (*tuning, *reporting)) == sorted(ids)


def test_collections_are_halved_by_the_ordinal_among_judged_queries() -> None:
    queries = [JudgedQuery(each, "", {"d": 1}) for each in "edcba"] + [JudgedQuery("ab", "", {})]
    assert [each.id for each in chosen(queries, 0, "tuning")] == ["a", "c", "e"]
    assert [each.id for each in chosen(queries, 1, "reporting")] == ["b"]


@given(IDS, st.text("xyz", min_size=6, max_size=6))
def test_a_query_keeps_its_half_by_hash_whatever_else_is_judged(ids: list[str], one: str) -> None:
    query = JudgedQuery(one, "", {"d": 1})
    others = [JudgedQuery(each, "", {"d": 1}) for each in ids]
    assert query in chosen([*others, query], 0, half_of(one), by_hash)


# -- files -------------------------------------------------------------------------------------------------------------

ROW: dict[str, Any] = {"id": "1", "class": "vague", "query": "q", "cards": {"a": 3}, "evidence": {}}


def _judged_folder(folder: Path, *rows: Mapping[str, Any]) -> Path:
    (folder / "vault").mkdir(parents=True)
    (folder / "queries-one.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    (folder / "unrelated.jsonl").write_text(json.dumps({"id": "u", "kind": "code", "prompt": "p"}) + "\n")
    return folder


def test_a_judged_vault_is_read_from_its_files(tmp_path: Path) -> None:
    row = {**ROW, "evidence": {"s": 1}, "conflicts": [["a", "b"]]}
    found = read_judged(_judged_folder(tmp_path / "set", row))
    (answer,) = found.answers
    assert (answer.grades, answer.conflicts) == ({"a": 3, "s": 1}, [frozenset({"a", "b"})])
    assert [each.prompt for each in found.unrelated] == ["p"]
    assert found.half(half_of("1")) == [answer]


@pytest.mark.parametrize(
    "change",
    [
        {"class": "clever"},
        {"cards": {}},
        {"cards": {"a": 4}},
        {"cards": ["a"]},
        {"conflicts": [["a"]]},
        {"conflicts": [["a", "a"]]},
        {"query": " "},
        {"id": 1},
    ],
)
def test_a_judgement_of_another_shape_is_named_by_its_line(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = _judged_folder(tmp_path / "set", ROW, {**ROW, "id": "2", **change})
    with pytest.raises(DatasetUnusable, match=r"queries-one\.jsonl, line 2"):
        read_judged(folder)


def test_an_id_is_judged_once(tmp_path: Path) -> None:
    with pytest.raises(DatasetUnusable, match="same id"):
        read_judged(_judged_folder(tmp_path / "set", ROW, ROW))


def test_a_folder_without_a_judged_vault_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatasetUnusable, match="no judged vault"):
        read_judged(tmp_path)


def test_the_judgements_of_the_project_name_pages_that_exist() -> None:
    found = read_judged(Path(__file__).parents[2] / "quality")
    wiki = found.root / ".llm-wiki" / "wiki"
    named = {
        page for each in found.answers for page in (*each.grades, *(one for pair in each.conflicts for one in pair))
    }
    assert [page for page in sorted(named) if not (wiki / f"{page}.md").is_file()] == []
