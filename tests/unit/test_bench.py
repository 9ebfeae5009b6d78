"""Metrics against values worked out by hand, the generated vault's shape, and how judged sets are read."""

from __future__ import annotations

import json
import math
import signal
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_daemon.bench import beir, generate, golden
from wikid_daemon.bench.__main__ import main
from wikid_daemon.bench.dataset import DatasetUnusable, JudgedQuery, chosen
from wikid_daemon.bench.generate import VaultGenerator
from wikid_daemon.bench.metrics import bootstrap, ndcg, recall_at_k, reciprocal_rank
from wikid_daemon.bench.report import Figure, figure_table, growth_table
from wikid_daemon.core.chunking import chunk
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.page import KnowledgeDocument

# -- metrics -----------------------------------------------------------------------------------------------------------


def test_ndcg_has_linear_gain_and_a_log2_discount() -> None:
    grades = {"a": 3, "b": 2, "c": 1}
    found = ndcg(["b", "x", "a"], grades, 10)
    dcg = 2 / math.log2(2) + 3 / math.log2(4)
    ideal = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    assert found == pytest.approx(dcg / ideal)
    assert found == pytest.approx(0.735_0, abs=1e-4)


def test_ndcg_counts_only_ranks_within_its_depth_and_an_ideal_of_that_depth() -> None:
    grades = {"a": 1, "b": 1, "c": 1}
    assert ndcg(["a", "b", "x", "c"], grades, 2) == 1.0
    assert ndcg(["x", "y", "a"], grades, 2) == 0.0


def test_a_negative_grade_is_not_relevant() -> None:
    assert ndcg(["bad", "good"], {"bad": -1, "good": 1}, 10) == pytest.approx(1 / math.log2(3))
    assert reciprocal_rank(["bad", "good"], {"bad": -1, "good": 1}) == 0.5
    assert recall_at_k(["bad"], {"bad": 0, "good": 1}, 20) == 0.0


def test_reciprocal_rank_looks_at_the_first_relevant_page() -> None:
    assert reciprocal_rank(["x", "y", "a", "b"], {"a": 1, "b": 2}) == pytest.approx(1 / 3)
    assert reciprocal_rank(["x"], {"a": 1}) == 0.0


def test_recall_is_the_share_of_the_relevant_pages() -> None:
    grades = {"a": 1, "b": 2, "c": 1, "d": 0}
    assert recall_at_k(["a", "d", "c", "b"], grades, 3) == pytest.approx(2 / 3)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from("abcdefgh"), unique=True),
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-1, 3)),
    st.integers(1, 8),
)
def test_every_metric_is_between_0_and_1_and_the_ideal_ranking_has_ndcg_1(
    ranked: list[str], grades: dict[str, int], depth: int
) -> None:
    for value in (ndcg(ranked, grades, depth), reciprocal_rank(ranked, grades), recall_at_k(ranked, grades, depth)):
        assert 0.0 <= value <= 1.0 + 1e-12
    ideal = sorted(grades, key=lambda each: -grades[each])
    if any(grade > 0 for grade in grades.values()):
        assert ndcg(ideal, grades, depth) == pytest.approx(1.0)
        assert ndcg(ranked, grades, depth) <= ndcg(ideal, grades, depth) + 1e-12


def test_bootstrap_repeats_itself_and_encloses_the_mean() -> None:
    values = [0.0, 1.0, 0.5, 0.25, 0.75] * 20
    found = bootstrap(values)
    assert found == bootstrap(values)
    uneven = [0.37 * n % 1 for n in range(100)]
    assert bootstrap(uneven) != bootstrap(uneven, seed=7)
    assert found.mean == pytest.approx(0.5)
    # the mean of 100 such values has a standard error of 0.035
    assert found.low == pytest.approx(0.5 - 1.96 * 0.0354, abs=0.01)
    assert found.high == pytest.approx(0.5 + 1.96 * 0.0354, abs=0.01)


def test_bootstrap_of_equal_values_has_no_width() -> None:
    found = bootstrap([0.4] * 10)
    assert found.low == pytest.approx(0.4)
    assert found.high == pytest.approx(0.4)


# -- the generated vault -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pages() -> list[generate.GeneratedPage]:
    generator = VaultGenerator(10_000, seed=1)
    return [generator.page(number) for number in range(600)]


@pytest.fixture(scope="module")
def documents(pages: list[generate.GeneratedPage]) -> list[KnowledgeDocument]:
    parsed = [parse_page(page.path, page.text.encode(), strict=True) for page in pages]
    assert all(not each.findings for each in parsed)
    return [each.document for each in parsed if each.document is not None]


def test_a_seed_makes_the_same_pages_and_queries_every_time(pages: list[generate.GeneratedPage]) -> None:
    again = VaultGenerator(10_000, seed=1)
    assert [again.page(number) for number in (599, 0)] == [pages[599], pages[0]]
    assert again.queries(5) == VaultGenerator(10_000, seed=1).queries(5)
    assert VaultGenerator(10_000, seed=2).page(0) != pages[0]


def test_pages_have_the_sizes_of_a_real_vault(documents: list[KnowledgeDocument]) -> None:
    words = [len(each.body.split()) for each in documents]
    assert 320 <= statistics.median(words) <= 380
    assert 0.03 <= sum(count >= generate.LONG_WORDS[0] for count in words) / len(words) <= 0.08
    assert statistics.median(len(chunk(each)) for each in documents) == 3
    assert {len(each.metadata) for each in documents} == {8}


def test_every_page_has_two_links_to_pages_that_exist(documents: list[KnowledgeDocument]) -> None:
    generator = VaultGenerator(10_000, seed=1)
    for document in documents[:50]:
        # a page may be drawn twice
        assert 1 <= len(document.links) <= 2
        for link in document.links:
            number = int(link.target.rpartition("-")[2])
            assert generator.page(number).path == f"{link.target}.md"


def test_words_follow_zipf_so_that_queries_have_many_hits(documents: list[KnowledgeDocument]) -> None:
    bodies = [set(generate.letters(each.body).split()) for each in documents]
    for query in VaultGenerator(10_000, seed=1).queries(20):
        assert 2 <= len(query.split()) <= 5
        assert sum(any(word in body for word in query.split()) for body in bodies) >= 3


# -- judged sets -------------------------------------------------------------------------------------------------------


def _beir(folder: Path, qrels: str = "query-id\tcorpus-id\tscore\n1\td1\t2\n1\td2\t0\n2\td1\t0\n") -> Path:
    folder.mkdir()
    corpus = [{"_id": "d1", "title": 'a "quoted": title', "text": "# body"}, {"_id": "d2", "title": "", "text": "x"}]
    queries = [{"_id": "1", "text": "one"}, {"_id": "2", "text": "two"}, {"_id": "3", "text": "three"}]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(each) + "\n" for each in corpus))
    (folder / "queries.jsonl").write_text("".join(json.dumps(each) + "\n" for each in queries))
    (folder / "qrels.tsv").write_text(qrels)
    return folder


def test_a_beir_folder_gives_queries_with_their_grades(tmp_path: Path) -> None:
    queries = beir.read_queries(_beir(tmp_path / "set"))
    assert [(each.id, dict(each.grades)) for each in queries] == [
        ("1", {"d1": 2, "d2": 0}),
        ("2", {"d1": 0}),
        ("3", {}),
    ]
    assert [each.is_judged for each in queries] == [True, False, False]


def test_documents_become_pages_that_keep_their_title_and_text(tmp_path: Path) -> None:
    documents = beir.read_documents(_beir(tmp_path / "set"))
    document_of = beir.write_vault(documents, tmp_path / "vault")
    assert list(document_of.values()) == ["d1", "d2"]
    for page_id, document_id in document_of.items():
        path = tmp_path / "vault" / f"{page_id}.md"
        parsed = parse_page(path.name, path.read_bytes(), strict=False).document
        assert parsed is not None
        if document_id == "d1":
            assert (parsed.title, parsed.body.strip()) == ('a "quoted": title', "# body")


def test_names_of_pages_say_nothing_of_the_document_and_never_collide(tmp_path: Path) -> None:
    documents = (beir.Document(name, "", "") for name in ("A", "a", "7", "a/b", "../x"))
    document_of = beir.write_vault(documents, tmp_path / "vault")
    assert len({name.casefold() for name in document_of}) == 5
    assert all(name.isalpha() for name in document_of)


@pytest.mark.parametrize("qrels", ["head\n1\td1\n", "head\n1\td1\tmany\n"])
def test_a_broken_judgement_is_named_by_its_line(tmp_path: Path, qrels: str) -> None:
    with pytest.raises(DatasetUnusable, match=r"qrels\.tsv, line 2"):
        beir.read_queries(_beir(tmp_path / "set", qrels))


def test_a_corpus_that_is_not_json_is_named_by_its_line(tmp_path: Path) -> None:
    folder = _beir(tmp_path / "set")
    (folder / "corpus.jsonl").write_text('{"_id": "1", "text": ""}\n\n{broken\n')
    with pytest.raises(DatasetUnusable, match=r"corpus\.jsonl, line 3"):
        list(beir.read_documents(folder))


def test_only_judged_queries_are_asked_the_first_by_sorted_id() -> None:
    queries = [JudgedQuery(each, "", {"d": 1}) for each in ("b", "a", "c")] + [JudgedQuery("0", "", {"d": 0})]
    assert [each.id for each in chosen(queries, 2)] == ["a", "b"]
    assert [each.id for each in chosen(queries, 0)] == ["a", "b", "c"]


def test_a_golden_file_names_pages_with_or_without_grades(tmp_path: Path) -> None:
    path = tmp_path / "golden.jsonl"
    path.write_text('{"query": "a", "relevant": {"p/x": 2}}\n\n{"query": "b", "relevant": ["p/y"]}\n')
    queries = golden.read_golden(path)
    assert [(each.text, dict(each.grades)) for each in queries] == [("a", {"p/x": 2}), ("b", {"p/y": 1})]
    assert [each.id for each in queries] == sorted(each.id for each in queries)


@pytest.mark.parametrize(
    "line", ['{"relevant": []}', '{"query": "a"}', '{"query": "a", "relevant": {"p": "high"}}', "[]"]
)
def test_a_golden_line_of_another_shape_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "golden.jsonl"
    path.write_text(line)
    with pytest.raises(DatasetUnusable, match=r"golden\.jsonl, line 1"):
        golden.read_golden(path)


# -- the command and its output ----------------------------------------------------------------------------------------


@pytest.fixture
def _kept_signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_kept_signals")
@pytest.mark.parametrize("words", [["quality"], []], ids=["by its name", "as wikid bench passes it on"])
def test_a_missing_folder_is_told_with_exit_code_2(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", *words, str(tmp_path / "nothing")])
    assert main() == 2
    assert "does not exist" in capsys.readouterr().err


def test_a_figure_knows_whether_its_target_was_met() -> None:
    assert Figure("f", 150.0, "ms", 150).met is True
    assert Figure("f", 59.0, "%", 60, "higher").met is False
    assert Figure("f", None, "ms", 150).met is None
    assert Figure("f", 3.0, "ms").met is None


def test_the_table_shows_each_figure_beside_its_target() -> None:
    table = figure_table([Figure("latency", 12.345678, "ms", 5), Figure("rate", None, "%", 60, "higher")])
    assert [line.split() for line in table.splitlines()[1:]] == [
        ["latency", "12.35", "ms", "≤", "5", "ms", "NO"],
        ["rate", "not", "measured", "≥", "60", "%"],
    ]


def test_the_growth_table_has_a_column_for_each_size() -> None:
    table = growth_table([{"pages": 1_000, "hybrid_p50_ms": None}, {"pages": 10_000, "hybrid_p50_ms": 7.5}])
    assert [line.split() for line in table.splitlines()] == [
        ["pages", "1000", "10000"],
        ["hybrid_p50_ms", "not", "measured", "7.5"],
    ]
