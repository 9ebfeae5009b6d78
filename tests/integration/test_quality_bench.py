"""The quality benchmark over real indexes: a small judged vault, a golden file, a BEIR folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from builders import NO_RERANKER, FakeEmbedder, page, tree, write
from wikid_daemon.bench import latency, own_vault, quality, release, tables
from wikid_daemon.bench.__main__ import main
from wikid_daemon.bench.asking import Asking
from wikid_daemon.bench.collection import opened
from wikid_daemon.bench.dataset import DatasetUnusable
from wikid_daemon.bench.engines import NONE, Engines
from wikid_daemon.bench.indexing import Indexed, Workplace, indexed
from wikid_daemon.bench.own_vault import OwnVaultReport
from wikid_daemon.bench.quality import Asked
from wikid_daemon.bench.rankers import ranker
from wikid_daemon.core.confidence import AUTOMATIC_FLOORS, CALIBRATED, EXPLICIT_FLOOR
from wikid_daemon.searching import Models
from wikid_daemon.vault.vault import init_vault
from wikid_protocol import records as r

FAKE = FakeEmbedder(dims=64)
ENGINES = Engines(Models(FAKE, NO_RERANKER), FAKE)

LINK = "[six hours](/concepts/kiln-six.md)"
PAGES = {
    "concepts/kiln-nine.md": page(
        f"The kiln cools nine hours before anybody opens it, against {LINK}. See [log](/sources/pottery.md).",
        title="Kiln nine hours",
        relations="[{target: concepts/kiln-six, type: contradicts}, {target: sources/pottery, type: derived_from}]",
    ),
    "concepts/kiln-six.md": page("Six hours of rest do, whatever glaze was used.", title="Kiln six hours"),
    "sources/pottery.md": page("Logbook of the pottery: glaze came out well.", type="source", title="Logbook"),
    "entities/anna.md": page("Anna sells clay on Mondays.", type="entity", title="Anna Clay Supplies"),
    "concepts/bees.md": page("Two hives came through the winter without any loss.", title="Bees"),
}
ROWS = [
    {
        "id": "1",
        "class": "contradiction",
        "query": "kiln nine hours",
        "cards": {"concepts/kiln-nine": 3, "concepts/kiln-six": 1},
        "evidence": {"sources/pottery": 2},
        "conflicts": [["concepts/kiln-nine", "concepts/kiln-six"]],
    },
    {"id": "2", "class": "entity", "query": "Anna Clay Supplies", "cards": {"entities/anna": 3}},
    {"id": "3", "class": "vague", "query": "zeppelins over harbours", "cards": {"concepts/bees": 3}},
]


def quiet(_message: str) -> None:
    """Progress that nobody reads."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A judged vault of five pages."""
    place = tmp_path_factory.mktemp("judged")
    root = init_vault(place / "vault", "pottery", "personal")
    for path, text in PAGES.items():
        write(root / ".llm-wiki" / "wiki", path, text)
    (place / "queries-few.jsonl").write_text("".join(json.dumps(each) + "\n" for each in ROWS))
    prompts = ["why do stars twinkle", "thanks a lot", "Bees"]  # the last one is meant to fail
    lines = [json.dumps({"id": f"u{n}", "kind": "foreign", "prompt": each}) for n, each in enumerate(prompts)]
    (place / "unrelated.jsonl").write_text("\n".join(lines))
    return place


@pytest.fixture(scope="module")
def measured(folder: Path) -> OwnVaultReport:
    before = tree(folder)
    found = own_vault.measure(folder, half="all", queries=0, engines=ENGINES, workplace=Workplace(), say=quiet)
    assert tree(folder) == before  # nothing is written into a measured vault
    return found


def test_answers_of_the_judged_vault_are_measured_in_every_mode(measured: OwnVaultReport) -> None:
    assert (measured.pages, measured.queries) == (5, 3)
    assert set(measured.answers) == {"lexical", "hybrid", "adaptive", "quality"}
    found = measured.answers["lexical"].quality
    assert found.card_first is not None
    # what nothing answers is a miss, not left out
    assert found.card_first.mean == pytest.approx(2 / 3)
    assert found.missed == ("3",)
    assert found.contradictions is not None
    assert found.contradictions.mean == 1.0
    assert found.evidence_recall is not None
    assert found.evidence_recall.mean == 1.0


def test_without_relations_contradictions_are_torn(measured: OwnVaultReport) -> None:
    assert measured.alone.contradictions is not None
    assert (measured.alone.contradictions.mean, measured.alone.torn) == (0.0, ("1",))


def test_pages_are_ranked_by_every_system_and_names_stay_on_top(measured: OwnVaultReport) -> None:
    assert set(measured.systems) == {"heuristic", "bm25s", "dense", "lexical", "hybrid", "adaptive", "quality"}
    assert measured.systems["lexical"].ndcg10.mean > 0.5
    assert measured.systems["heuristic"].escalated is None
    kept = measured.top3["hybrid"]
    assert kept is not None
    assert kept.mean == 1.0


def test_automatic_recall_is_judged_by_what_it_injects(measured: OwnVaultReport) -> None:
    found = measured.automatic
    # on a busy machine the time may be over before anything is injected
    assert found.injected == ("u2",) or found.too_late
    assert found.false_positives.mean == pytest.approx(len(found.injected) / 3)
    assert "3" in found.missed
    assert [point.floor for point in found.curve] == [0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7, 0.9]
    wrong = [point.false_positives for point in found.curve]
    assert wrong == sorted(wrong, reverse=True)
    assert wrong[0] == pytest.approx(1 / 3)
    assert wrong[-1] == 0.0


def test_without_models_words_answer_and_say_why(measured: OwnVaultReport) -> None:
    assert measured.degraded == 1.0


def test_the_seven_ablations_are_there_and_the_report_can_be_written(measured: OwnVaultReport) -> None:
    assert [each.number for each in release.ablations(measured)] == [1, 2, 3, 4, 5, 6, 7]
    json.dumps(measured.to_json())
    text = tables.own_vault_text(measured)
    assert "own vault: 5 pages, 3 of 3 judged queries (all)" in text
    assert "floor" in text


# -- by parts ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vault(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Indexed]:
    with indexed(folder / "vault", tmp_path_factory.mktemp("state"), FAKE, quiet) as found:
        yield found


def ids(bundles: Sequence[r.Bundle]) -> list[list[str]]:
    return [
        [each.page_id for each in (bundle.card, *bundle.evidence, *bundle.conflicts) if each is not None]
        for bundle in bundles
    ]


@pytest.mark.parametrize(
    "query", ["kiln nine hours", "glaze", "clay on mondays", "winter hives", "???", "nothing here"]
)
def test_an_answer_by_its_parts_is_recalls_own(vault: Indexed, query: str) -> None:
    asking = Asking(vault, ENGINES.models)
    policy = asking.policy(EXPLICIT_FLOOR, automatic=False)
    assert ids(asking.unhurried(query, "hybrid", policy)) == ids(asking.explicit(query, "hybrid").bundles)
    policy = asking.policy(AUTOMATIC_FLOORS[CALIBRATED], automatic=True)
    automatic = asking.automatic(query)
    if {each.kind for each in automatic.diagnostics}.isdisjoint({"too_late", "deadline_short"}):
        assert ids(asking.unhurried(query, "adaptive", policy)) == ids(automatic.bundles)


def test_the_baselines_rank_the_same_pages(vault: Indexed) -> None:
    for system in ("heuristic", "bm25s"):
        ranks = ranker(system, vault, NONE.models)
        assert not isinstance(ranks, str)
        assert ranks("hives winter").pages[0] == "concepts/bees"
        assert ranks("???").pages == []


# -- other sets --------------------------------------------------------------------------------------------------------


def test_a_golden_file_is_measured_in_the_vault_it_names(folder: Path, tmp_path: Path) -> None:
    golden = tmp_path / "golden.jsonl"
    golden.write_text(json.dumps({"id": "g", "query": "winter hives", "relevant": {"concepts/bees": 2, "gone": 1}}))
    asked = Asked(("heuristic", "lexical"))
    found = quality.measure(golden, vault=folder / "vault", asked=asked, engines=NONE, workplace=Workplace(), say=quiet)
    assert set(found.systems) == {"heuristic", "lexical"}
    assert found.systems["lexical"].mrr.mean == 1.0
    assert found.notes == ("1 of 2 relevant pages are not in the vault",)
    assert found.systems["lexical"].believed[0][1] is True


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    place = tmp_path / "pottery"
    place.mkdir()
    documents = {"d1": "the kiln cools", "d2": "bees in winter", "d3": "clay on mondays"}
    rows = [json.dumps({"_id": key, "title": "", "text": text}) for key, text in documents.items()]
    (place / "corpus.jsonl").write_text("\n".join(rows))
    queries = [json.dumps({"_id": str(n), "text": text}) for n, text in enumerate(documents.values())]
    (place / "queries.jsonl").write_text("\n".join(queries))
    (place / "qrels.tsv").write_text("q\td\ts\n" + "".join(f"{n}\t{key}\t1\n" for n, key in enumerate(documents)))
    return place


def test_a_kept_index_is_found_again_and_another_corpus_has_its_own(beir: Path, tmp_path: Path) -> None:
    workplace, asked = Workplace(tmp_path / "kept"), Asked(("lexical",), half="tuning")

    def measure() -> quality.QualityReport:
        return quality.measure(beir, vault=None, asked=asked, engines=NONE, workplace=workplace, say=quiet)

    first = measure()
    assert (first.pages, first.queries, first.systems["lexical"].mrr.mean) == (3, 2, 1.0)
    (folder,) = (tmp_path / "kept").iterdir()
    with opened(beir, None, workplace, "") as collection:
        assert collection.root == folder.resolve() / "vault"
    assert measure().systems["lexical"].mrr == first.systems["lexical"].mrr
    assert [folder] == list((tmp_path / "kept").iterdir())
    with (beir / "corpus.jsonl").open("a") as corpus:
        corpus.write("\n" + json.dumps({"_id": "d4", "text": "more"}))
    assert measure().pages == 4
    assert len(list((tmp_path / "kept").iterdir())) == 2


# -- in a large vault --------------------------------------------------------------------------------------------------


def test_recalls_are_timed_over_a_generated_vault_that_is_kept(tmp_path: Path) -> None:
    workplace = Workplace(tmp_path / "kept")
    found = latency.measure(6, ["how long does the kiln cool"], ENGINES, workplace, quiet)
    assert (found.pages, found.queries) == (6, 301)
    # without a reranker the first look answers everything
    assert (found.escalated_share, found.escalated_p95_ms, found.quality_p95_ms) == (0.0, None, None)
    assert found.certain_p50_ms is not None
    (folder,) = (tmp_path / "kept").iterdir()
    before = tree(folder / "vault")
    assert latency.measure(6, [], ENGINES, workplace, quiet).chunks == found.chunks
    assert tree(folder / "vault") == before


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [None, "nowhere"])
def test_gates_need_the_collections_and_say_so(
    given: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["bench", "gates", "--judged", str(folder)])
    if given is None:
        monkeypatch.delenv("COLLECTIONS", raising=False)
    else:
        monkeypatch.setenv("COLLECTIONS", given)
    assert main() == 2
    assert "collections" in capsys.readouterr().err


def test_a_collection_that_is_missing_is_named_before_anything_is_measured(folder: Path, tmp_path: Path) -> None:
    plan = release.Plan(folder, tmp_path)
    with pytest.raises(DatasetUnusable, match="cranfield is not there"):
        release.measure(plan, ENGINES, Workplace(), quiet)


def test_a_run_without_collections_fails_their_gates_and_passes_others(folder: Path) -> None:
    found = release.measure(release.Plan(folder, None, "all", 0, 0), ENGINES, Workplace(), quiet)
    passed = {each.name: each.passed for each in found.gates}
    assert not found.passed
    assert not passed["nDCG@10 of quality, of the heuristic's (English)"]
    assert not passed["unrelated prompts"]
    assert passed["contradictions shown together, quality"]
    written = json.loads(json.dumps(found.to_json()))
    assert written["models"] == {"embedder": FAKE.identity, "reranker": ""}
    assert written["own_vault"]["versions"]["model"] == FAKE.identity
    assert tables.release_text(found).endswith("gates fail")
