"""A BERT of two layers and 32 dimensions with random weights, its tokenizer, and its forward pass in plain numpy."""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from wikid_daemon.models.catalogue import CatalogueModel, Member
from wikid_daemon.models.convert import convert

Array = NDArray[np.float32]

LAYERS, HIDDEN, HEADS, POSITIONS = 2, 32, 4, 64
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "on", "mat", "note", "search", "poison"]
PIECES = [*WORDS, *"abcdefghijklmnopqrstuvwxyz", *(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"), "猫", "?"]
CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "num_hidden_layers": LAYERS,
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": POSITIONS,
}
PACKAGE_ROOT = "tiny_model/data/"


def tiny_weights(seed: int = 7) -> dict[str, Array]:
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> Array:
        return random.normal(0, 0.3, (rows, columns)).astype(np.float32)

    def affine(name: str, rows: int, columns: int) -> dict[str, Array]:
        return {f"{name}.weight": matrix(rows, columns), f"{name}.bias": matrix(1, rows)[0]}

    def norm(name: str) -> dict[str, Array]:
        return {f"{name}.weight": 1 + matrix(1, HIDDEN)[0], f"{name}.bias": matrix(1, HIDDEN)[0]}

    weights = {
        "embeddings.word_embeddings.weight": matrix(len(PIECES), HIDDEN),
        "embeddings.position_embeddings.weight": matrix(POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": matrix(2, HIDDEN),
        **norm("embeddings.LayerNorm"),
    }
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            weights |= affine(f"{prefix}attention.self.{part}", HIDDEN, HIDDEN)
        weights |= affine(f"{prefix}attention.output.dense", HIDDEN, HIDDEN)
        weights |= norm(f"{prefix}attention.output.LayerNorm")
        weights |= affine(f"{prefix}intermediate.dense", 4 * HIDDEN, HIDDEN)
        weights |= affine(f"{prefix}output.dense", HIDDEN, 4 * HIDDEN) | norm(f"{prefix}output.LayerNorm")
    return weights


def forward(weights: dict[str, Array], ids: list[int]) -> Array:
    """Token vectors (tokens, hidden) of one unpadded text, head by head and straight from the definition."""

    def affine(x: Any, name: str) -> Any:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x: Any, name: str) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + CONFIG["layer_norm_eps"])
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = weights["embeddings.word_embeddings.weight"][ids] + weights["embeddings.token_type_embeddings.weight"][0]
    x = norm(x + weights["embeddings.position_embeddings.weight"][: len(ids)], "embeddings.LayerNorm")
    width = HIDDEN // HEADS
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        query, key, value = (affine(x, f"{prefix}attention.self.{part}") for part in ("query", "key", "value"))
        mixed = []
        for head in range(HEADS):
            part = slice(head * width, (head + 1) * width)
            weight = np.exp(query[:, part] @ key[:, part].T / math.sqrt(width))
            mixed.append(weight / weight.sum(axis=1, keepdims=True) @ value[:, part])
        attended = affine(np.concatenate(mixed, axis=1), f"{prefix}attention.output.dense")
        x = norm(x + attended, f"{prefix}attention.output.LayerNorm")
        wide = affine(x, f"{prefix}intermediate.dense")
        wide = wide * np.vectorize(lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2))))(wide)
        x = norm(x + affine(wide, f"{prefix}output.dense"), f"{prefix}output.LayerNorm")
    return np.asarray(x, np.float32)


def sentence_vector(tokens: Array) -> Array:
    mean = tokens.mean(axis=0)
    return np.asarray(mean / np.sqrt((mean**2).sum()), np.float32)


def tiny_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(vocab={piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def tiny_tokenizer_file() -> bytes:
    """Presets padding and cutting, as published tokenizers do."""
    tokenizer = tiny_tokenizer()
    tokenizer.enable_padding(length=16)
    tokenizer.enable_truncation(16)
    return tokenizer.to_str().encode()


def package_files(weights: dict[str, Array]) -> dict[str, bytes]:
    return {
        "model.safetensors": save(weights),
        "tokenizer.json": tiny_tokenizer_file(),
        "config.json": json.dumps(CONFIG).encode(),
        "LICENSE": b"a licence",
        "NOTICE": b"a notice",
    }


def catalogue_model(files: dict[str, bytes]) -> CatalogueModel:
    return CatalogueModel(
        name="tiny",
        version="1",
        package="tiny-model",
        package_version="1.0",
        members=tuple(
            Member(PACKAGE_ROOT + name, name, len(content), hashlib.sha256(content).hexdigest())
            for name, content in files.items()
        ),
        source="made in a test",
        licence="CC0-1.0",
        languages=("en",),
        dims=HIDDEN,
        max_tokens=24,
        query_prefix="",
        passage_prefix="",
        build_bytes=1,
    )


def wheel(files: dict[str, bytes]) -> bytes:
    """A package archive with the files, and members that must never be unpacked."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("../../escaped.txt", "outside")
        archive.writestr("tiny_model/__init__.py", "raise SystemExit('imported')")
        for name, content in files.items():
            archive.writestr(PACKAGE_ROOT + name, content)
    return buffer.getvalue()


def unpack(files: dict[str, bytes], target: Path) -> None:
    for name, content in files.items():
        (target / PACKAGE_ROOT).mkdir(parents=True, exist_ok=True)
        (target / PACKAGE_ROOT / name).write_bytes(content)


def export_folder(target: Path, weights: dict[str, Array], **settings: str) -> Path:
    """The model laid out as Sentence Transformers exports it, plus ``settings``: file names (dots as __) to content."""
    parts = package_files(weights)
    target.mkdir(parents=True)
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        (target / name).write_bytes(parts[name])
    for name, content in settings.items():
        (target / name.replace("__", ".")).write_text(content)
    convert(target / "model.safetensors", target / "config.json", target / "model.onnx")
    return target
