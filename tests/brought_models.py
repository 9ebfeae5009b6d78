"""Models as a user might bring them, tiny and with random weights, laid out as exports are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tiny_model as tiny
from wikid_daemon.models.bert_graph import BertConfig, bert_graph

WEIGHTS = tiny.tiny_weights(5)
WORDS = "embeddings.word_embeddings.weight"
RANDOM = np.random.default_rng(9)
POOLER, POOLER_BIAS = RANDOM.normal(0, 0.1, (tiny.HIDDEN, tiny.HIDDEN)), RANDOM.normal(0, 0.1, tiny.HIDDEN)
HEAD, HEAD_BIAS = RANDOM.normal(0, 0.2, (tiny.HIDDEN, 2)), RANDOM.normal(0, 0.1, 2)


def save(folder: Path, model: onnx.ModelProto, tokenizer: str, **settings: object) -> Path:
    folder.mkdir(parents=True)
    onnx.checker.check_model(model)
    onnx.save(model, str(folder / "model.onnx"))
    (folder / "tokenizer.json").write_text(tokenizer)
    for name, content in settings.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def constant(name: str, values: Any) -> onnx.TensorProto:
    kind = np.int64 if np.asarray(values).dtype.kind == "i" else np.float32
    return numpy_helper.from_array(np.asarray(values, kind), name)


def bert_cross_encoder(folder: Path, labels: int) -> Path:
    """The whole of `BertForSequenceClassification`: segments told apart, the first token pooled through a layer."""
    model = bert_graph(BertConfig.from_json(tiny.CONFIG), WEIGHTS)
    graph = model.graph
    segments = WEIGHTS["embeddings.token_type_embeddings.weight"]
    summed = next(each for each in graph.node if each.op_type == "Add")
    plain = summed.output[0]
    summed.output[0] = "without_segments"
    place = list(graph.node).index(summed) + 1
    for offset, node in enumerate(
        (
            helper.make_node("Gather", ["segments", "token_type_ids"], ["of_segment"]),
            helper.make_node("Add", ["without_segments", "of_segment"], [plain]),
        )
    ):
        graph.node.insert(place + offset, node)
    graph.node.extend(
        [
            helper.make_node("Gather", ["last_hidden_state", "first"], ["token"], axis=1),
            helper.make_node("MatMul", ["token", "pooler"], ["turned"]),
            helper.make_node("Add", ["turned", "pooler_bias"], ["shifted"]),
            helper.make_node("Tanh", ["shifted"], ["pooled"]),
            helper.make_node("MatMul", ["pooled", "head"], ["judged"]),
            helper.make_node("Add", ["judged", "head_bias"], ["logits"]),
        ]
    )
    for name, values in {
        "segments": segments - segments[0],
        "first": np.array(0),
        "pooler": POOLER.T,
        "pooler_bias": POOLER_BIAS,
        "head": HEAD[:, :labels],
        "head_bias": HEAD_BIAS[:labels],
    }.items():
        graph.initializer.append(constant(name, values))
    graph.input.append(helper.make_tensor_value_info("token_type_ids", TensorProto.INT64, ["batch", "sequence"]))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", labels]))
    config = {**tiny.CONFIG, "architectures": ["BertForSequenceClassification"], "pad_token_id": 0}
    return save(folder, model, tiny.tiny_tokenizer_file().decode(), config=config)


def bag_of_words(folder: Path, dims: int, seed: int) -> Path:
    """An embedder of `dims` dimensions: the mean of a vector for each token."""
    table = np.random.default_rng(seed).normal(0, 1, (len(tiny.PIECES), dims))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask")
    ]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["found"]),
        helper.make_node("Unsqueeze", ["attention_mask", "last"], ["column"]),
        helper.make_node("Cast", ["column"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["found", "mask"], ["last_hidden_state"]),
    ]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", dims])
    constants = [constant("table", table), constant("last", np.array([2]))]
    graph = helper.make_graph(nodes, "bag", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    config = {"model_type": "bert", "hidden_size": dims, "max_position_embeddings": 512}
    return save(folder, model, tiny.tiny_tokenizer_file().decode(), config=config)
