"""Models that a user brings: a BERT cross-encoder, language models that judge and embed, over real ONNX sessions and
against the same weights computed in plain numpy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from tokenizers import Tokenizer, models, pre_tokenizers

import tiny_model as tiny
from brought_models import (
    HEAD,
    HEAD_BIAS,
    POOLER,
    POOLER_BIAS,
    RANDOM,
    WEIGHTS,
    WORDS,
    bert_cross_encoder,
    constant,
    save,
)
from wikid_daemon.index.cross_encoder import BATCH, CrossEncoder
from wikid_daemon.index.encoders import Embedder
from wikid_daemon.index.inputs import Inputs
from wikid_daemon.index.late_interaction import Asked, LateInteraction, Passage
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import read_model_folder
from wikid_daemon.models.presets import preset_for

TEXTS = ["the cat sat on the mat", "search the note", "poison", "", "mat on the cat the mat " * 9, "the the the"]


def forever() -> float:
    return float("inf")


def asked(text: str) -> Asked:
    return Asked(text, lambda _word: 0.0)


def passages(texts: list[str]) -> list[Passage]:
    return [Passage(f"{place} {text}".encode(), text) for place, text in enumerate(texts)]


# -- a BERT cross-encoder ----------------------------------------------------------------------------------------------


def bert_score(query: str, text: str, labels: int) -> float:
    """One pair, alone and unpadded; a word of the second segment is looked up in a table of its own."""
    pair = tiny.tiny_tokenizer()
    pair.enable_truncation(tiny.POSITIONS, strategy="only_second")
    encoding = pair.encode(query, text)
    segments, words = WEIGHTS["embeddings.token_type_embeddings.weight"], WEIGHTS[WORDS]
    both = {**WEIGHTS, WORDS: np.concatenate([words, words + segments[1] - segments[0]])}
    ids = [each + len(words) * side for each, side in zip(encoding.ids, encoding.type_ids, strict=True)]
    pooled = np.tanh(tiny.forward(both, ids)[0] @ POOLER.T + POOLER_BIAS)
    logits = pooled @ HEAD[:, :labels] + HEAD_BIAS[:labels]
    yes = logits[0] if labels == 1 else logits[1] - logits[0]
    return float(1 / (1 + np.exp(-yes)))


@pytest.mark.parametrize("labels", [1, 2])
def test_bert_judges_every_pair_of_a_batch_as_it_would_alone(tmp_path: Path, labels: int) -> None:
    encoder = CrossEncoder.load(read_model_folder(bert_cross_encoder(tmp_path / "ms-marco-MiniLM-tiny", labels)))
    texts = TEXTS * 2
    assert len(texts) > BATCH
    scores = encoder.scores(asked("the cat on the note"), passages(texts), forever)
    assert scores == pytest.approx([bert_score("the cat on the note", text, labels) for text in texts], abs=2e-5)
    assert max(score or 0 for score in scores) - min(score or 0 for score in scores) > 0.01


def test_the_segments_make_a_difference(tmp_path: Path) -> None:
    encoder = CrossEncoder.load(read_model_folder(bert_cross_encoder(tmp_path / "m", 1)))
    (one,), (other,) = (
        encoder.scores(asked(query), passages([text]), forever) for query, text in (("cat", "mat"), ("mat", "cat"))
    )
    assert one == pytest.approx(bert_score("cat", "mat", 1), abs=2e-5)
    assert other == pytest.approx(bert_score("mat", "cat", 1), abs=2e-5)
    assert one != pytest.approx(other, abs=1e-4)


def test_a_query_longer_than_the_window_gets_no_score_and_breaks_nothing(tmp_path: Path) -> None:
    encoder = CrossEncoder.load(read_model_folder(bert_cross_encoder(tmp_path / "m", 1)))
    assert encoder.scores(asked("cat " * 100), passages(["mat"]), forever) == [None]
    assert encoder.scores(asked("cat"), passages(["mat"]), forever) != [None]


def test_a_damaged_reranker_is_told_with_its_file(tmp_path: Path) -> None:
    folder = read_model_folder(bert_cross_encoder(tmp_path / "m", 1))
    (folder.path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelUnusable, match=r"tokenizer\.json"):
        CrossEncoder.load(folder)


# -- language models ---------------------------------------------------------------------------------------------------

DIALOGUE = preset_for("Qwen3-Reranker-0.6B").dialogue
assert DIALOGUE is not None
CLOSING = "<|endoftext|>"
_SPLIT = pre_tokenizers.Whitespace()
VOCABULARY = ["<unk>", "yes", "no", CLOSING, "cat", "mat", "sat", "note"]
VOCABULARY += sorted(
    {
        piece
        for text in (
            DIALOGUE.before,
            DIALOGUE.between,
            DIALOGUE.after,
            preset_for("qwen3-embedding").query_prefix or "",
        )
        for piece, _ in _SPLIT.pre_tokenize_str(text)
    }
    - set(VOCABULARY)
)
WIDTH, MOST = 12, 400
TABLE = RANDOM.normal(0, 1, (len(VOCABULARY), WIDTH)).astype(np.float32)
PLACES = RANDOM.normal(0, 1, (MOST, WIDTH)).astype(np.float32)
LANGUAGE = RANDOM.normal(0, 1, (WIDTH, len(VOCABULARY))).astype(np.float32)


def language_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(VOCABULARY)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def language_model(folder: Path, output: str, **settings: object) -> Path:
    """What a token says is the sum of all up to it; it wants positions, and a memory of what came before."""
    ints = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask", "position_ids")
    ]
    past = [
        helper.make_tensor_value_info(f"past_key_values.0.{name}", TensorProto.FLOAT, ["batch", 2, "past", 4])
        for name in ("key", "value")
    ]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"]),
        helper.make_node("Gather", ["places", "position_ids"], ["placed"]),
        helper.make_node("Add", ["words", "placed"], ["summed"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
        helper.make_node("Mul", ["summed", "column"], ["masked"]),
        helper.make_node("CumSum", ["masked", "axis"], ["so_far"]),
        helper.make_node("ReduceSum", ["past_key_values.0.key"], ["remembered"], keepdims=0),
        helper.make_node("Add", ["so_far", "remembered"], ["known"]),
        helper.make_node("Tanh", ["known"], ["bent"]),
        helper.make_node("MatMul", ["bent", "language"], ["logits"])
        if output == "logits"
        else helper.make_node("Identity", ["bent"], [output]),
    ]
    constants = {"table": TABLE, "places": PLACES, "language": LANGUAGE, "last": np.array([2]), "axis": np.array(1)}
    result = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", "sequence", None])
    graph = helper.make_graph(
        nodes, "language", [*ints, *past], [result], [constant(name, values) for name, values in constants.items()]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    config = {"model_type": "qwen3", "hidden_size": WIDTH, "max_position_embeddings": MOST}
    return save(folder, model, language_tokenizer().to_str(), config={**config, **settings})


def last_state(ids: list[int]) -> Any:
    return np.tanh((TABLE[ids] + PLACES[: len(ids)]).sum(axis=0))


def ids_of(text: str) -> list[int]:
    return list(language_tokenizer().encode(text).ids)


def test_a_language_model_is_asked_whether_the_passage_answers(tmp_path: Path) -> None:
    folder = read_model_folder(language_model(tmp_path / "Qwen3-Reranker-tiny", "logits"))
    encoder = CrossEncoder.load(folder)
    texts = ["cat sat", "mat", "", "note " * (2 * MOST)]
    scores = encoder.scores(asked("cat note"), passages(texts), forever)
    assert DIALOGUE is not None
    after = ids_of(DIALOGUE.after)
    for text, score in zip(texts, scores, strict=True):
        before = ids_of(DIALOGUE.before + "cat note" + DIALOGUE.between + text)
        logits = last_state([*before[: MOST - len(after)], *after]) @ LANGUAGE
        yes, no = np.exp(logits[VOCABULARY.index("yes")]), np.exp(logits[VOCABULARY.index("no")])
        assert score == pytest.approx(yes / (yes + no), abs=1e-4)


def test_a_language_model_without_a_known_dialogue_is_refused(tmp_path: Path) -> None:
    folder = language_model(tmp_path / "other", "logits", architectures=["LlamaForCausalLM"])
    with pytest.raises(ModelUnusable, match="dialogue is not known"):
        CrossEncoder.load(read_model_folder(folder))


def test_a_language_model_embeds_by_the_token_that_closes_the_text(tmp_path: Path) -> None:
    folder = read_model_folder(language_model(tmp_path / "Qwen3-Embedding-tiny", "last_hidden_state"))
    embedder = Embedder.load(folder, workers=1)
    closing = VOCABULARY.index(CLOSING)

    def unit(ids: list[int]) -> Any:
        state = last_state(ids)
        return state / np.linalg.norm(state)

    query = [*ids_of(folder.query_prefix + "cat sat"), closing]
    np.testing.assert_allclose(embedder.embed_query("cat sat"), unit(query), atol=1e-5)
    vectors = embedder.embed_passages(["mat", "note " * (2 * MOST), f"mat {CLOSING}"])
    np.testing.assert_allclose(vectors[0], unit([*ids_of("mat"), closing]), atol=1e-5)
    np.testing.assert_allclose(vectors[1], unit([VOCABULARY.index("note")] * (MOST - 1) + [closing]), atol=1e-4)
    assert LateInteraction.load(folder).scores(asked("cat"), passages(["cat", "mat"]), forever) != [None, None]


def test_a_layer_that_only_the_graph_could_compute_is_refused_by_name(tmp_path: Path) -> None:
    folder = language_model(tmp_path / "dense", "last_hidden_state")
    (folder / "modules.json").write_text(
        json.dumps([{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])
    )
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "config.json").write_text(json.dumps({"in_features": WIDTH, "out_features": 4}))
    with pytest.raises(ModelUnusable, match="2_Dense"):
        Embedder.load(read_model_folder(folder))


# -- what a session is fed ---------------------------------------------------------------------------------------------


class Declared:
    """An input as a session declares it."""

    def __init__(
        self, name: str, kind: str = "tensor(int64)", shape: tuple[object, ...] = ("batch", "sequence")
    ) -> None:
        self.name, self.type, self.shape = name, kind, list(shape)


class Session:
    def __init__(self, *inputs: Declared) -> None:
        self._inputs = inputs

    def get_inputs(self) -> tuple[Declared, ...]:
        return self._inputs


def test_inputs_come_in_the_kinds_that_are_declared() -> None:
    session = Session(
        Declared("input_ids", "tensor(int32)"),
        Declared("position_ids"),
        Declared("past_key_values.3.value", "tensor(float16)", ("batch", 2, "past", 4)),
        Declared("use_cache_branch", "tensor(bool)", (1,)),
        Declared("num_logits_to_keep", "tensor(int64)", ()),
    )
    ids = np.array([[7, 8, 9], [0, 5, 6]], np.int64)
    feed = Inputs(session).feed(ids, np.array([[1, 1, 1], [0, 1, 1]], np.int64))
    assert {name: (value.dtype.name, value.shape) for name, value in feed.items()} == {
        "input_ids": ("int32", (2, 3)),
        "position_ids": ("int64", (2, 3)),
        "past_key_values.3.value": ("float16", (2, 2, 0, 4)),
        "use_cache_branch": ("bool", (1,)),
        "num_logits_to_keep": ("int64", ()),
    }
    assert feed["position_ids"].tolist() == [[0, 1, 2], [1, 0, 1]]


def test_an_input_nothing_is_known_of_is_named() -> None:
    with pytest.raises(ValueError, match="pixel_values"):
        Inputs(Session(Declared("input_ids"), Declared("pixel_values")))
