"""Weights to int8 graph, run as ``python -m wikid_daemon.models.convert WEIGHTS CONFIG GRAPH``.

A process of its own: converting the default model peaks at 0.5 GB, of which a daemon would keep 0.3 GB.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors import SafetensorError
from safetensors.numpy import load_file

from wikid_daemon.models.bert_graph import BertConfig, bert_graph

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
    # Says that the quantiser's own preparation, which needs a package wikid does not install, has nothing to add.
    model.metadata_props.append(onnx.StringStringEntryProto(key="onnx.quant.pre_process", value="onnxruntime.quant"))
    quantize_dynamic(
        model, graph, op_types_to_quantize=QUANTISED_OPERATORS, per_channel=True, weight_type=QuantType.QInt8
    )


def main(arguments: list[str]) -> int:
    weights, config, graph = map(Path, arguments)
    try:
        convert(weights, config, graph)
    except (ValueError, KeyError, SafetensorError, onnx.checker.ValidationError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_CANNOT_CONVERT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
