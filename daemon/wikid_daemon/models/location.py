"""Model folders: reading one, checking it, and finding the one to use.

A folder that wikid built describes itself in ``wikid-model.json``. Any other folder follows the layout of Sentence
Transformers with an ONNX export: ``onnx/model_quantized.onnx``, ``onnx/model.onnx`` or ``model.onnx``,
``tokenizer.json``, ``config.json`` and optionally ``1_Pooling/config.json``, ``sentence_bert_config.json`` and
``config_sentence_transformers.json``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wikid_daemon.models.catalogue import DEFAULT_MODEL
from wikid_daemon.models.failures import ModelUnusable

SETTINGS_FILE = "wikid-model.json"
SETTINGS_FORMAT = 1
MODELS_FOLDER = "models"
GRAPH_PLACES = ("onnx/model_quantized.onnx", "onnx/model.onnx", "model.onnx")
FOREIGN_MAX_TOKENS = 512
REBUILD_HINT = "Build the model again with `wikid models build`."

Pooling = Literal["mean", "cls"]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of the model, its path relative to the folder, with the hash and size it had when the folder was read."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A usable embedder on disk. ``identity`` is the key of its vectors: those of two identities are never mixed."""

    path: Path
    name: str
    identity: str
    graph: Path
    tokenizer: Path
    dims: int
    max_tokens: int
    pooling: Pooling
    query_prefix: str
    passage_prefix: str
    files: tuple[ModelFile, ...]


def models_folder(cache: Path) -> Path:
    """Where built models live below the user's cache directory."""
    return cache / MODELS_FOLDER


def list_models(cache: Path) -> list[ModelFolder]:
    """Every usable model below the cache, by name; broken ones are left out (reading them by name says why)."""
    found = []
    for settings in sorted(models_folder(cache).glob(f"[!.]*/{SETTINGS_FILE}")):
        try:
            found.append(read_model_folder(settings.parent))
        except ModelUnusable:
            continue
    return found


def locate(env: Mapping[str, str], cache: Path, configured: str | None) -> ModelFolder | None:
    """The embedder to use: ``WIKID_EMBED_MODEL``, else the configured one, else the default.

    An absolute path is a folder; a name is looked up below ``WIKID_MODEL_DIR``, then below the cache. None when a name
    is nowhere. Raises ModelUnusable for a folder asked for by path that is missing, and for one that cannot be used.
    """
    return _named(env.get("WIKID_EMBED_MODEL") or configured or DEFAULT_MODEL, env, cache)


def locate_reranker(env: Mapping[str, str], cache: Path, configured: str | None) -> ModelFolder | None:
    """The cross-encoder that ``WIKID_RERANK_MODEL``, else the configuration, asks for, named as an embedder is; None
    where neither asks for one. Raises ModelUnusable for one that is nowhere or cannot be used."""
    wanted = env.get("WIKID_RERANK_MODEL") or configured
    if not wanted:
        return None
    found = _named(wanted, env, cache)
    if found is None:
        raise ModelUnusable(
            f"There is no model {wanted!r} among the models.",
            "Check WIKID_RERANK_MODEL, WIKID_MODEL_DIR and rerankModel.",
        )
    return found


def _named(wanted: str, env: Mapping[str, str], cache: Path) -> ModelFolder | None:
    path = Path(wanted).expanduser()
    if path.is_absolute():
        return read_model_folder(path)
    if ".." in path.parts:
        raise ModelUnusable(f"The model {wanted!r} is neither a name nor an absolute path.", "Write the full path.")
    roots = [models_folder(cache)]
    if extra := env.get("WIKID_MODEL_DIR"):
        roots.insert(0, Path(extra).expanduser())
    return next((read_model_folder(root / path) for root in roots if (root / path).is_dir()), None)


def read_model_folder(path: Path) -> ModelFolder:
    """Read a folder's description. Raises ModelUnusable with what is missing or wrong."""
    if not path.is_dir():
        raise ModelUnusable(f"There is no model folder at {path}.", "Check WIKID_EMBED_MODEL and the configuration.")
    try:
        if (path / SETTINGS_FILE).is_file():
            return _read_built(path)
        return _read_foreign(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"The model folder {path} cannot be read ({type(error).__name__}: {error})."
        raise ModelUnusable(reason, REBUILD_HINT) from error


def damaged_files(folder: ModelFolder) -> list[str]:
    """Files that are missing or no longer what they were; hashes everything, about 0.1 s for the default model."""
    return [file.path for file in folder.files if not _intact(folder.path / file.path, file)]


def describe_file(root: Path, path: Path) -> ModelFile:
    """Hash one file of the folder ``root``."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return ModelFile(path.relative_to(root).as_posix(), digest, path.stat().st_size)


def _intact(path: Path, recorded: ModelFile) -> bool:
    if not path.is_file() or path.stat().st_size != recorded.size:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == recorded.sha256


def _read_built(path: Path) -> ModelFolder:
    raw = _json(path / SETTINGS_FILE)
    if raw["format"] != SETTINGS_FORMAT:
        raise ValueError(f"settings format {raw['format']}, expected {SETTINGS_FORMAT}")
    files = tuple(ModelFile(name, entry["sha256"], entry["size"]) for name, entry in sorted(raw["files"].items()))
    for file in files:
        if (path / file.path).stat().st_size != file.size:
            raise ValueError(f"{file.path} has the wrong size")
    return _folder(
        path,
        name=raw["name"],
        graph=path / "model.onnx",
        dims=raw["dims"],
        max_tokens=raw["max_tokens"],
        pooling=_pooling(raw["pooling"]),
        prefixes=(raw["query_prefix"], raw["passage_prefix"]),
        files=files,
    )


def _read_foreign(path: Path) -> ModelFolder:
    graph = next((path / place for place in GRAPH_PLACES if (path / place).is_file()), None)
    if graph is None:
        raise ValueError(f"none of {', '.join(GRAPH_PLACES)} is there")
    config = _json(path / "config.json")
    sentence = _json_if_there(path / "sentence_bert_config.json")
    prompts = _json_if_there(path / "config_sentence_transformers.json").get("prompts") or {}
    positions = int(config.get("max_position_embeddings", FOREIGN_MAX_TOKENS))
    used = [graph, path / "tokenizer.json", *sorted(graph.parent.glob(f"{graph.name}_data*"))]
    return _folder(
        path,
        name=path.name,
        graph=graph,
        dims=int(config["hidden_size"]),
        max_tokens=min(positions, int(sentence.get("max_seq_length") or FOREIGN_MAX_TOKENS)),
        pooling=_declared_pooling(_json_if_there(path / "1_Pooling" / "config.json")),
        prefixes=(prompts.get("query", ""), prompts.get("passage", prompts.get("document", ""))),
        files=tuple(describe_file(path, file) for file in used),
    )


def _folder(
    path: Path,
    *,
    name: str,
    graph: Path,
    dims: int,
    max_tokens: int,
    pooling: Pooling,
    prefixes: tuple[str, str],
    files: tuple[ModelFile, ...],
) -> ModelFolder:
    hashes = {file.path: file.sha256 for file in files}
    graph_hash = hashes[graph.relative_to(path).as_posix()]
    rest = {key: value for key, value in hashes.items() if key not in ("LICENSE", "NOTICE")}
    settings = json.dumps([rest, max_tokens, pooling, prefixes], sort_keys=True).encode()
    return ModelFolder(
        path=path,
        name=name,
        identity=f"{name}@{graph_hash[:12]}-{hashlib.sha256(settings).hexdigest()[:8]}",
        graph=graph,
        tokenizer=path / "tokenizer.json",
        dims=dims,
        max_tokens=max_tokens,
        pooling=pooling,
        query_prefix=prefixes[0],
        passage_prefix=prefixes[1],
        files=files,
    )


def _declared_pooling(raw: Mapping[str, Any]) -> Pooling:
    chosen = [
        key.removeprefix("pooling_mode_") for key, on in raw.items() if key.startswith("pooling_mode_") and on is True
    ]
    match chosen:
        case [] | ["mean_tokens"]:
            return "mean"
        case ["cls_token"]:
            return "cls"
    raise ValueError(f"pooling by {', '.join(chosen)} is not supported")


def _pooling(raw: str) -> Pooling:
    if raw == "mean":
        return "mean"
    if raw == "cls":
        return "cls"
    raise ValueError(f"unknown pooling {raw!r}")


def _json(path: Path) -> dict[str, Any]:
    loaded = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(loaded, dict):
        raise ValueError(f"{path.name} does not hold an object")
    return loaded


def _json_if_there(path: Path) -> dict[str, Any]:
    return _json(path) if path.is_file() else {}
