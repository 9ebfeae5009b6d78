"""A BERT sentence encoder written as an ONNX graph from its plain weights: no torch, no tracing.

Inputs ``input_ids`` and ``attention_mask``, int64 (batch, sequence). Outputs ``last_hidden_state`` (batch, sequence,
hidden) and ``sentence_embedding`` (batch, hidden): the mean over unmasked tokens, scaled to unit length. Every text is
one segment, so the token type is a constant and folded into the positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8
# the first that know four-bit numbers
FOUR_BIT_OPSET = 21
FOUR_BIT_IR_VERSION = 10
FOUR_BIT_DOMAIN = "com.microsoft"
FOUR_BIT_ZERO = 8
MASKED_SCORE = -1e4
SMALLEST_COUNT = 1e-9

Weights = Mapping[str, np.ndarray[Any, Any]]


class UnsupportedArchitecture(ValueError):
    """The configuration describes something other than an encoder this module can write."""


@dataclass(frozen=True, slots=True)
class FourBitTable:
    """Rows of four-bit numbers: ``packed`` (rows, width / 2), the even places in the low halves, and a scale for each
    block of a row, ``scales`` (rows, blocks). A number stands for itself less eight, times its scale."""

    packed: np.ndarray[Any, Any]
    scales: np.ndarray[Any, Any]

    @property
    def block(self) -> int:
        """Numbers to a scale."""
        return 2 * int(self.packed.shape[1]) // int(self.scales.shape[1])


@dataclass(frozen=True, slots=True)
class BertConfig:
    """The sizes of the encoder. ``hidden`` is divided evenly among the heads."""

    layers: int
    hidden: int
    heads: int
    epsilon: float

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> BertConfig:
        """Read a Hugging Face ``config.json``; raises UnsupportedArchitecture for what the graph cannot express."""
        expected = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
        for key, value in expected.items():
            if raw.get(key, value) != value:
                raise UnsupportedArchitecture(f"{key} is {raw[key]!r}, expected {value!r}")
        config = cls(
            layers=int(raw["num_hidden_layers"]),
            hidden=int(raw["hidden_size"]),
            heads=int(raw["num_attention_heads"]),
            epsilon=float(raw["layer_norm_eps"]),
        )
        if config.hidden % config.heads:
            raise UnsupportedArchitecture(f"{config.hidden} dimensions do not divide into {config.heads} heads")
        return config


def bert_graph(config: BertConfig, weights: Weights, words: FourBitTable | None = None) -> onnx.ModelProto:
    """The float32 graph, checked; its word vectors come from ``words`` where that is given, and stay as they are there.
    A missing weight raises KeyError with its name."""
    writer = _GraphWriter(config, weights, words)
    graph = helper.make_graph(
        writer.write(),
        "bert",
        [_value(name, TensorProto.INT64, "batch", "sequence") for name in ("input_ids", "attention_mask")],
        [
            _value("last_hidden_state", TensorProto.FLOAT, "batch", "sequence", config.hidden),
            _value("sentence_embedding", TensorProto.FLOAT, "batch", config.hidden),
        ],
        writer.constants,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    if words is not None:
        opsets = [helper.make_opsetid("", FOUR_BIT_OPSET), helper.make_opsetid(FOUR_BIT_DOMAIN, 1)]
    version = IR_VERSION if words is None else FOUR_BIT_IR_VERSION
    model = helper.make_model(graph, opset_imports=opsets, ir_version=version, producer_name="wikid")
    onnx.checker.check_model(model)
    return model


def _value(name: str, kind: int, *shape: str | int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(shape))


class _GraphWriter:
    """Collects nodes and constants while the encoder is spelled out from input to output."""

    def __init__(self, config: BertConfig, weights: Weights, words: FourBitTable | None) -> None:
        self.constants: list[onnx.TensorProto] = []
        self._words = words
        self._config = config
        self._weights = {name.removeprefix("bert."): array for name, array in weights.items()}
        self._nodes: list[onnx.NodeProto] = []

    def write(self) -> list[onnx.NodeProto]:
        for name, value in (("index_0", [0]), ("index_1", [1]), ("index_2", [2])):
            self._constant(name, np.array(value, np.int64))
        mask = self._node("Cast", "attention_mask", to=TensorProto.FLOAT)
        hidden = self._embeddings()
        bias = self._mask_bias(mask)
        for layer in range(self._config.layers):
            hidden = self._layer(hidden, bias, f"encoder.layer.{layer}.")
        self._node("Identity", hidden, output="last_hidden_state")
        self._pool(hidden, mask)
        return self._nodes

    def _embeddings(self) -> str:
        if self._words is None:
            self._constant("words", self._weight("embeddings.word_embeddings.weight"))
        else:
            self._four_bit_words(self._words)
        single_segment = self._weight("embeddings.token_type_embeddings.weight")[0]
        positions = self._constant("positions", self._weight("embeddings.position_embeddings.weight") + single_segment)
        length = self._node("Slice", self._node("Shape", "input_ids"), "index_1", "index_2", "index_0")
        place = self._node("Slice", positions, "index_0", length, "index_0")
        return self._normalise(self._node("Add", self._looked_up(), place), "embeddings.LayerNorm")

    def _looked_up(self) -> str:
        if self._words is None:
            return self._node("Gather", "words", "input_ids")
        axes: dict[str, Any] = {"gather_axis": 0, "quantize_axis": 1, "block_size": self._words.block}
        parts = ("words", "input_ids", "word_scales", "word_zeros")
        return self._node("GatherBlockQuantized", *parts, domain=FOUR_BIT_DOMAIN, **axes)

    def _four_bit_words(self, table: FourBitTable) -> None:
        rows, blocks = table.scales.shape
        self._four_bits("words", (rows, blocks * table.block), table.packed.tobytes())
        self._constant("word_scales", table.scales.astype(np.float32))
        zeros = bytes([FOUR_BIT_ZERO << 4 | FOUR_BIT_ZERO]) * ((rows * blocks + 1) // 2)
        self._four_bits("word_zeros", (rows, blocks), zeros)

    def _four_bits(self, name: str, shape: tuple[int, int], packed: bytes) -> None:
        self.constants.append(helper.make_tensor(name, TensorProto.UINT4, shape, packed, raw=True))

    def _mask_bias(self, mask: str) -> str:
        one = self._constant("one", np.float32(1))
        middle = self._constant("middle_axes", np.array([1, 2], np.int64))
        absent = self._node("Unsqueeze", self._node("Sub", one, mask), middle)
        return self._node("Mul", absent, self._constant("masked_score", np.float32(MASKED_SCORE)))

    def _layer(self, hidden: str, bias: str, prefix: str) -> str:
        attended = self._linear(self._attention(hidden, bias, prefix), prefix + "attention.output.dense")
        hidden = self._normalise(self._node("Add", attended, hidden), prefix + "attention.output.LayerNorm")
        widened = self._gelu(self._linear(hidden, prefix + "intermediate.dense"))
        narrowed = self._linear(widened, prefix + "output.dense")
        return self._normalise(self._node("Add", narrowed, hidden), prefix + "output.LayerNorm")

    def _attention(self, hidden: str, bias: str, prefix: str) -> str:
        heads, width = self._config.heads, self._config.hidden // self._config.heads
        split = self._constant_once("split_heads", np.array([0, 0, heads, width], np.int64))
        merge = self._constant_once("merge_heads", np.array([0, 0, self._config.hidden], np.int64))
        scale = self._constant_once("attention_scale", np.float32(width**-0.5))

        def heads_of(part: str, order: list[int]) -> str:
            projected = self._linear(hidden, f"{prefix}attention.self.{part}")
            return self._node("Transpose", self._node("Reshape", projected, split), perm=order)

        query, key, value = (
            heads_of("query", [0, 2, 1, 3]),
            heads_of("key", [0, 2, 3, 1]),
            heads_of("value", [0, 2, 1, 3]),
        )
        scores = self._node("Add", self._node("Mul", self._node("MatMul", query, key), scale), bias)
        mixed = self._node("MatMul", self._node("Softmax", scores, axis=-1), value)
        return self._node("Reshape", self._node("Transpose", mixed, perm=[0, 2, 1, 3]), merge)

    def _gelu(self, x: str) -> str:
        """Spelled with a division by the root of two: the form that ONNX Runtime replaces by its fused kernel."""
        root = self._constant_once("root_2", np.float32(2**0.5))
        half = self._constant_once("half", np.float32(0.5))
        bell = self._node("Add", self._node("Erf", self._node("Div", x, root)), "one")
        return self._node("Mul", self._node("Mul", x, bell), half)

    def _pool(self, hidden: str, mask: str) -> None:
        column = self._node("Unsqueeze", mask, "index_2")
        total = self._node("ReduceSum", self._node("Mul", hidden, column), "index_1", keepdims=0)
        count = self._node("ReduceSum", column, "index_1", keepdims=0)
        floor = self._constant("smallest_count", np.float32(SMALLEST_COUNT))
        mean = self._node("Div", total, self._node("Max", count, floor))
        self._node("LpNormalization", mean, output="sentence_embedding", axis=1, p=2)

    def _linear(self, x: str, name: str) -> str:
        matrix = self._constant(name + ".weight", self._weight(name + ".weight").T)
        return self._node(
            "Add", self._node("MatMul", x, matrix), self._constant(name + ".bias", self._weight(name + ".bias"))
        )

    def _normalise(self, x: str, name: str) -> str:
        gain = self._constant(name + ".weight", self._weight(name + ".weight"))
        shift = self._constant(name + ".bias", self._weight(name + ".bias"))
        return self._node("LayerNormalization", x, gain, shift, axis=-1, epsilon=self._config.epsilon)

    def _weight(self, name: str) -> np.ndarray[Any, Any]:
        return self._weights[name].astype(np.float32)

    def _constant(self, name: str, value: np.ndarray[Any, Any] | np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def _constant_once(self, name: str, value: np.ndarray[Any, Any] | np.float32) -> str:
        known = any(constant.name == name for constant in self.constants)
        return name if known else self._constant(name, value)

    def _node(self, op: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name = f"{op}_{len(self._nodes)}"
        target = output or name
        self._nodes.append(helper.make_node(op, list(inputs), [target], name=name, **attributes))
        return target
