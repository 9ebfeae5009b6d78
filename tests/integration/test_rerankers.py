"""Both rerankers over real ONNX sessions, against computations of the same graphs in plain numpy."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tiny_model import PIECES, Array, export_folder, forward, tiny_tokenizer, tiny_tokenizer_file, tiny_weights
from wikid_daemon.index.cross_encoder import BATCH, CrossEncoder, probabilities
from wikid_daemon.index.late_interaction import Asked, LateInteraction, Passage, TokenCache
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import locate_reranker, read_model_folder

WEIGHTS = tiny_weights()
TEXTS = ["the cat sat on the mat", "search the note", "poison", "mat on the cat", "", "the the the"]
PASSAGES = [Passage(bytes([number]), text) for number, text in enumerate(TEXTS)]


def forever() -> float:
    return float("inf")


def rarity(word: str) -> float:
    return {"cat": 0.9, "mat": 0.4}.get(word, 0.0)


# -- late interaction --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> LateInteraction:
    folder = export_folder(tmp_path_factory.mktemp("models") / "tiny", WEIGHTS)
    return LateInteraction.load(read_model_folder(folder))


def unit(tokens: Array) -> Array:
    return np.asarray(tokens / np.linalg.norm(tokens, axis=1, keepdims=True), np.float32)


def expected(query: str, text: str) -> float:
    """The definition: every query token's best cosine among the passage's own tokens, weighted half evenly and half by
    its word's rarity."""
    asked, given = tiny_tokenizer().encode(query), tiny_tokenizer().encode(text)
    of_query, of_text = unit(forward(WEIGHTS, asked.ids)), unit(forward(WEIGHTS, given.ids))
    inner = of_text[1:-1] if len(given.ids) > 2 else of_text
    own = [word is not None for word in asked.word_ids]
    rare = [0.0 if word is None else rarity(query.split()[word]) for word in asked.word_ids]
    weights = [each / sum(own) / 2 + rarely / sum(rare) / 2 for each, rarely in zip(own, rare, strict=True)]
    best = [max(float(one @ other) for other in inner) for one in of_query]
    return sum(w * b for w, b in zip(weights, best, strict=True))


def test_scores_are_those_of_the_definition(late: LateInteraction) -> None:
    query = "the cat on the mat"
    scores = late.scores(Asked(query, rarity), PASSAGES, forever)
    assert scores == pytest.approx([expected(query, text) for text in TEXTS], abs=0.06)  # the graph is int8


def test_the_rarer_word_counts_for_more(late: LateInteraction) -> None:
    def lead(word: str) -> float:
        """Of the passage with the cat over the one with the note."""
        cat, note = late.scores(Asked("cat note", lambda each: float(each == word)), PASSAGES[:2], forever)
        assert cat is not None
        assert note is not None
        return cat - note

    assert lead("cat") > lead("") > lead("note")


def test_what_was_computed_is_kept_and_gives_the_same(late: LateInteraction) -> None:
    asked = Asked("the cat", rarity)
    fresh = late.scores(asked, PASSAGES, forever)
    again = late.scores(asked, [Passage(each.hash, "unseen") for each in PASSAGES], forever)
    assert again == fresh


def test_when_the_time_is_over_the_rest_gets_no_score(late: LateInteraction) -> None:
    steps = count()
    scores = late.scores(Asked("the cat", rarity), PASSAGES, lambda: 1_000.0 if next(steps) < 1 else 0.0)
    assert all(score is not None for score in scores[:2])
    assert scores[2:] == [None] * (len(PASSAGES) - 2)


def test_a_query_that_the_model_refuses_gets_no_scores(late: LateInteraction, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_text: str) -> Any:
        raise RuntimeError("the library's own kind")

    monkeypatch.setattr(late, "_tokenizer", SimpleNamespace(encode=refuse))
    assert late.scores(Asked("the cat", rarity), PASSAGES, forever) == [None] * len(PASSAGES)


def test_the_cache_drops_what_was_unused_longest_and_stays_within_its_bytes() -> None:
    cache = TokenCache(100)
    for number in range(5):
        cache.put(bytes([number]), np.zeros((1, 30), np.int8))
        cache.get(b"\x00")
        assert cache.size <= 100
    assert cache.get(b"\x00") is not None
    assert cache.get(b"\x01") is None
    cache.put(b"\x00", np.zeros((1, 10), np.int8))
    assert cache.size <= 100


def test_a_graph_without_token_vectors_is_refused(tmp_path: Path) -> None:
    folder = classifier(tmp_path / "model", labels=1)
    with pytest.raises(ModelUnusable):
        LateInteraction.load(read_model_folder(folder))


# -- cross-encoder -----------------------------------------------------------------------------------------------------

_RANDOM = np.random.default_rng(3)
TABLE = _RANDOM.normal(0, 1, (len(PIECES), 8)).astype(np.float32)
SEGMENTS = _RANDOM.normal(0, 1, (2, 8)).astype(np.float32)


def classifier(target: Path, labels: int) -> Path:
    """A tiny pair classifier: tokens and segments are looked up, masked, averaged, squashed and projected."""
    head = np.random.default_rng(labels).normal(0, 2, (8, labels)).astype(np.float32)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"]),
        helper.make_node("Gather", ["segments", "token_type_ids"], ["sides"]),
        helper.make_node("Add", ["words", "sides"], ["summed"]),
        helper.make_node("Tanh", ["summed"], ["bent"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
        helper.make_node("Mul", ["bent", "column"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "middle"], ["total"], keepdims=0),
        helper.make_node("ReduceSum", ["column", "middle"], ["length"], keepdims=0),
        helper.make_node("Div", ["total", "length"], ["mean"]),
        helper.make_node("MatMul", ["mean", "head"], ["logits"]),
    ]
    constants = {"table": TABLE, "segments": SEGMENTS, "head": head, "last": np.array([2]), "middle": np.array([1])}
    graph = helper.make_graph(
        nodes,
        "pair",
        inputs,
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", labels])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    target.mkdir(parents=True)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(target / "model.onnx")
    )
    (target / "tokenizer.json").write_bytes(tiny_tokenizer_file())
    (target / "config.json").write_text(json.dumps({"hidden_size": 8, "max_position_embeddings": 24}))
    return target


def independent(query: str, text: str, labels: int) -> float:
    head = np.random.default_rng(labels).normal(0, 2, (8, labels)).astype(np.float32)
    pair = tiny_tokenizer().encode(query, text)
    ids, sides = pair.ids[:24], pair.type_ids[:24]
    logits = np.tanh(TABLE[ids] + SEGMENTS[sides]).mean(axis=0) @ head
    raised = np.exp(logits)
    return float(1 / (1 + np.exp(-logits[0])) if labels == 1 else raised[1] / raised.sum())


@pytest.mark.parametrize("labels", [1, 2])
def test_a_pair_is_judged_as_an_independent_computation_judges_it(tmp_path: Path, labels: int) -> None:
    encoder = CrossEncoder.load(read_model_folder(classifier(tmp_path / "model", labels)))
    many = [Passage(f"{number}".encode(), text) for number, text in enumerate(TEXTS * 3)]
    scores = encoder.scores(Asked("the cat", rarity), many, forever)
    assert scores == pytest.approx([independent("the cat", text, labels) for text in TEXTS * 3], abs=1e-5)


def test_the_query_is_never_cut_only_the_passage(tmp_path: Path) -> None:
    encoder = CrossEncoder.load(read_model_folder(classifier(tmp_path / "model", 1)))
    query = "the cat sat on the mat"
    long, longer = (Passage(text.encode(), text) for text in ("mat " * 40, "mat " * 80))
    scores = encoder.scores(Asked(query, rarity), [long, longer], forever)
    assert scores[0] == pytest.approx(scores[1])


def test_a_pair_is_judged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = CrossEncoder.load(read_model_folder(classifier(tmp_path / "model", 1)))
    runs: list[int] = []
    judge: Callable[[Any, Any], list[float]] = encoder._judge

    def counted(pairs: Any, passes: Any) -> list[float]:
        runs.append(len(pairs))
        return judge(pairs, passes)

    monkeypatch.setattr(encoder, "_judge", counted)
    first = encoder.scores(Asked("the cat", rarity), PASSAGES, forever)
    assert encoder.scores(Asked("the cat", rarity), PASSAGES, forever) == first
    assert runs == [len(PASSAGES)]
    encoder.scores(Asked("the mat", rarity), PASSAGES, forever)
    assert len(runs) == 2


def test_a_batch_is_not_begun_without_time_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = CrossEncoder.load(read_model_folder(classifier(tmp_path / "model", 1)))
    many = [Passage(f"{number}".encode(), "the mat") for number in range(3 * BATCH)]
    judge: Callable[[Any, Any], list[float]] = encoder._judge
    left = [100.0]

    def slow(pairs: Any, passes: Any) -> list[float]:
        found = judge(pairs, passes)
        left[0] -= 60.0  # so the 40 that are left are too few for another batch
        return found

    monkeypatch.setattr(encoder, "_judge", slow)
    scores = encoder.scores(Asked("the cat", rarity), many, lambda: left[0])
    assert [score is not None for score in scores] == [True] * BATCH + [False] * (2 * BATCH)


def test_a_graph_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not one or two logits"):
        probabilities(np.zeros((1, 3), np.float32))
    with pytest.raises(ModelUnusable):
        CrossEncoder.load(read_model_folder(classifier(tmp_path / "model", 3)))
    with pytest.raises(ModelUnusable):
        CrossEncoder.load(read_model_folder(export_folder(tmp_path / "embedder", WEIGHTS)))


# -- which one ---------------------------------------------------------------------------------------------------------


def test_a_reranker_is_named_by_variable_or_configuration(tmp_path: Path) -> None:
    classifier(tmp_path / "models" / "mine", 1)
    assert locate_reranker({}, tmp_path, None) is None
    for found in (
        locate_reranker({}, tmp_path, "mine"),
        locate_reranker({"WIKID_RERANK_MODEL": "mine"}, tmp_path, "other"),
        locate_reranker({"WIKID_RERANK_MODEL": str(tmp_path / "models" / "mine")}, tmp_path, None),
    ):
        assert found is not None
        assert found.path == tmp_path / "models" / "mine"
    with pytest.raises(ModelUnusable):
        locate_reranker({}, tmp_path, "nowhere")
