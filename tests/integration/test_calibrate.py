"""Confidence over real indexes: an embedder that no row was fitted for, and what rows are fitted on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from builders import NO_RERANKER, FakeEmbedder, page, write
from recalls import Recalls, items, kinds
from wikid_daemon import recall as recall_module
from wikid_daemon.bench import calibrate
from wikid_daemon.bench.__main__ import main
from wikid_daemon.bench.dataset import DatasetUnusable
from wikid_daemon.bench.engines import NONE, Engines
from wikid_daemon.bench.evidence import PAGES, asked_of, collection_source, gather, judged_source, signals_of
from wikid_daemon.bench.indexing import Workplace, indexed
from wikid_daemon.bench.rankers import call_for
from wikid_daemon.core.confidence import (
    AUTOMATIC_FLOORS,
    CALIBRATED,
    EXPLICIT_FLOOR,
    IDENTITY_CONFIDENCE,
    LITERAL_CONFIDENCE,
    UNCALIBRATED_FLOOR,
    confidence,
)
from wikid_daemon.core.modes import Mode
from wikid_daemon.index.late_interaction import Asked, Passage
from wikid_daemon.judging import candidates
from wikid_daemon.searching import Models, search
from wikid_daemon.vault.vault import init_vault
from wikid_daemon.vaults import Layer

PIER: tuple[str, Layer] = ("pier", "project")
TIMELESS_MS = 1e9

# (title, text): the same pages for every collection, since only the ways they are asked differ
DOCUMENTS = [
    ("Tide", "The tide turns twice a day at the quay, and the moon is why."),
    ("Fog", "Fog hides the tide marks, so that the bell is rung every minute."),
    ("Ropes", "Ropes of hemp rot sooner than ropes of nylon, whatever the weather does."),
    ("Lamps", "Lamps burn whale oil no longer; the keeper trims a wick of cotton."),
    ("Gulls", "Gulls follow the trawlers home and quarrel over what is thrown away."),
    ("Ledger", "The ledger names every boat, its cargo and the hour at which it came in."),
    ("Pilots", "Pilots drink tea until a steamer whistles for one of them."),
]
QUERIES = ["when does the tide turn", "why is the bell rung", "which ropes rot", "what burns in lamps"]


class WordReranker:
    """The share of the query's words that a passage holds."""

    identity = "words@1"

    def scores(self, asked: Asked, passages: Sequence[Passage], _left_ms: Callable[[], float]) -> list[float | None]:
        words = set(asked.text.lower().split())
        return [len(words.intersection(each.text.lower().split())) / len(words) for each in passages]


FAKE = FakeEmbedder(dims=64)
ENGINES = Engines(Models(FAKE, WordReranker()), FAKE)


def quiet(_message: str) -> None:
    """Progress that nobody reads."""


# -- an embedder that no row was fitted for ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recalls]:
    """A vault with the vectors of an embedder that has no rows."""
    found = Recalls(tmp_path_factory.mktemp("pier"))
    found.fake = FakeEmbedder("stranger@1", dims=64)
    found.wiki("pier", **{f"concepts__{title.lower()}": page(text, title=title) for title, text in DOCUMENTS})
    yield found
    found.close()


@pytest.fixture
def timeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Automatic recall is never too late, however busy the machine is."""
    monkeypatch.setattr(recall_module, "AUTOMATIC_MS", TIMELESS_MS)


@pytest.mark.usefixtures("timeless")
def test_an_uncalibrated_embedder_is_told_and_raises_the_automatic_floor(strange: Recalls) -> None:
    answer = strange.ask("tide turns twice quay moon", PIER, mode="hybrid", policy="automatic", explain=True)
    assert kinds(answer) == ["uncalibrated"]
    assert "stranger" in answer.diagnostics[0].message
    assert (answer.explain or {})["floor"] == UNCALIBRATED_FLOOR
    found = items(answer)
    assert found[0].page_id == "concepts/tide"
    assert found[0].score >= UNCALIBRATED_FLOOR


@pytest.mark.usefixtures("timeless")
def test_what_an_uncalibrated_embedder_half_believes_is_not_injected(strange: Recalls) -> None:
    query = "tide turns moon bell zeppelin harvest"
    seen = strange.ask(query, PIER, mode="hybrid", explain=True)
    best = max(each["confidence"] for each in (seen.explain or {})["vaults"][0]["candidates"])
    assert EXPLICIT_FLOOR <= best < UNCALIBRATED_FLOOR
    assert items(seen)
    injected = strange.ask(query, PIER, mode="hybrid", policy="automatic")
    assert (items(injected), injected.reason) == ([], "no_reliable_memory")


def test_a_person_who_asks_keeps_the_explicit_floor(strange: Recalls) -> None:
    answer = strange.ask("tide", PIER, mode="hybrid", explain=True)
    assert kinds(answer) == ["uncalibrated"]
    assert (answer.explain or {})["floor"] == EXPLICIT_FLOOR


@pytest.mark.usefixtures("timeless")
def test_words_alone_need_no_calibrated_embedder(strange: Recalls) -> None:
    answer = strange.ask("tide turns twice quay", PIER, mode="lexical", policy="automatic", explain=True)
    assert kinds(answer) == []
    assert (answer.explain or {})["floor"] == AUTOMATIC_FLOORS[""]


# -- what rows are fitted on -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A judged vault, eight queries of which fall into both halves."""
    place = tmp_path_factory.mktemp("judged")
    root = init_vault(place / "vault", "pier", "personal")
    for title, text in DOCUMENTS:
        write(root / ".llm-wiki" / "wiki", f"concepts/{title.lower()}.md", page(text, title=title))
    rows = [
        {
            "id": f"q{n}",
            "class": "vague",
            "query": QUERIES[n % 4],
            "cards": {f"concepts/{DOCUMENTS[n % 4][0].lower()}": 3},
        }
        for n in range(8)
    ]
    prompts = [{"id": f"u{n}", "kind": "talk", "prompt": f"thanks, that will do for today {n}"} for n in range(8)]
    for name, lines in (("queries-few", rows), ("unrelated", prompts)):
        (place / f"{name}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    return place


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The four BEIR folders that a calibration asks."""
    place = tmp_path_factory.mktemp("collections")
    for name in calibrate.COLLECTIONS[CALIBRATED]:
        corpus = [{"_id": f"d{n}", "title": title, "text": text} for n, (title, text) in enumerate(DOCUMENTS)]
        queries = [{"_id": f"{name}{n}", "text": text} for n, text in enumerate(QUERIES)]
        write(place, f"{name}/corpus.jsonl", "".join(f"{json.dumps(each)}\n" for each in corpus))
        write(place, f"{name}/queries.jsonl", "".join(f"{json.dumps(each)}\n" for each in queries))
        grades = "".join(f"{name}{n}\td{n}\t1\n" for n in range(len(QUERIES)))
        write(place, f"{name}/qrels.tsv", f"query-id\tcorpus-id\tscore\n{grades}")
    return place


@pytest.mark.parametrize("mode", ["lexical", "hybrid", "quality"])
def test_a_row_is_fitted_on_what_the_product_judges_by(judged: Path, tmp_path: Path, mode: Mode) -> None:
    with indexed(judged / "vault", tmp_path / "state", FAKE, quiet) as vault:
        for text in (*QUERIES, "Tide", "rope zeppelin"):
            call = call_for(text, mode, vault)
            (looked,) = search(call, vault.asked, ENGINES.models)
            shown = candidates(vault.store, call.question, looked.retrieved, PAGES)
            found = signals_of(looked, call.question, looked.retrieved)
            assert [page_id for _, page_id, _ in found] == [each.found.page.page_id for each in shown]
            for (signals, _, named), each in zip(found, shown, strict=True):
                believed = max(confidence(signals, FAKE.identity), IDENTITY_CONFIDENCE if named else 0.0)
                assert each.confidence == pytest.approx(believed) or each.confidence == LITERAL_CONFIDENCE > believed


def test_what_was_gathered_once_is_read_again(judged: Path, collections: Path, tmp_path: Path) -> None:
    source, other = judged_source(judged), collection_source(collections / "cacm")
    asked = asked_of(source, [other], 2)
    first = gather(source, asked, ENGINES, Workplace(tmp_path), quiet)
    assert {each.evidence for each in first["hybrid"].samples} == {"hybrid", "dense"}
    assert all(each.relevant is False for each in first["quality"].samples if each.kind != "judged")
    assert any(each.relevant for each in first["lexical"].samples)
    told: list[str] = []
    assert gather(source, asked, ENGINES, Workplace(tmp_path), told.append) == first
    assert told == []


def test_a_calibration_gives_a_row_for_every_kind_of_evidence(judged: Path, collections: Path, tmp_path: Path) -> None:
    plan = calibrate.Plan(collections, judged)
    found = calibrate.calibrate(plan, ENGINES, Workplace(tmp_path), "2026-01-31", quiet)
    assert set(found.rows) == {"lexical", "dense", "hybrid", "quality"}
    assert found.fitted_on["embedder"] == FAKE.identity
    assert found.fitted_on["date"] == "2026-01-31"
    assert all(
        0 <= each.error <= 1 and set(each.errors) >= set(calibrate.COLLECTIONS[CALIBRATED])
        for each in found.rows.values()
    )
    text = calibrate.calibration_text(found)
    given: dict[str, Any] = json.loads(json.dumps(found.to_json()))
    for evidence, row in found.rows.items():
        assert f'(CALIBRATED, "{evidence}"): Weights({row.weights.bias}' in text
        assert given["rows"][evidence]["weights"]["rank"] <= 0


def test_without_collections_it_says_what_to_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLLECTIONS", raising=False)
    monkeypatch.setattr(sys, "argv", ["bench", "calibrate"])
    assert main() == 2
    assert "--collections DIR" in capsys.readouterr().err


def test_rows_are_not_fitted_without_the_models(judged: Path, collections: Path) -> None:
    plan = calibrate.Plan(collections, judged)
    stranger = FakeEmbedder("stranger@1")
    for engines in (
        NONE,
        Engines(Models(FAKE, NO_RERANKER), FAKE),
        Engines(Models(stranger, WordReranker()), stranger),
    ):
        with pytest.raises(DatasetUnusable):
            calibrate.calibrate(plan, engines, Workplace(), None, quiet)
