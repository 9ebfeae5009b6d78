"""Model folders: reading one, checking it, and finding the one to use.

A folder that wikid built describes itself in ``wikid-model.json``. Any other folder follows the layout of Sentence
Transformers with an ONNX export: ``onnx/model_quantized.onnx``, ``onnx/model.onnx`` or ``model.onnx``,
``tokenizer.json``, ``config.json`` and the settings that `declared` reads.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from wikid_daemon.models import hub_cache
from wikid_daemon.models.catalogue import CATALOGUE, DEFAULT_MODEL, catalogue_name
from wikid_daemon.models.declared import Recipe, read_object, read_recipe
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.presets import Pooling as Pooling

SETTINGS_FILE = "wikid-model.json"
SETTINGS_FORMAT = 1
MODELS_FOLDER = "models"
GRAPH_PLACES = ("onnx/model_quantized.onnx", "onnx/model.onnx", "model.onnx")
SIDECARS = ("_data*", ".data*")
LFS_POINTER = b"version https://git-lfs"
_KINDS = {"name": str, "dims": int, "max_tokens": int, "query_prefix": str, "passage_prefix": str, "files": dict}
_CHECK_NAME = "Write the full path, or check embedModel, rerankModel and the variables that stand for them."


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of the model, its path relative to the folder, with the hash and size it had when the folder was read."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A usable model on disk. ``identity`` is the key of its vectors: those of two identities are never mixed.

    ``recipe`` is how it wants its texts, ``remedy`` what a person does when the folder is damaged.
    """

    path: Path
    name: str
    identity: str
    graph: Path
    tokenizer: Path
    dims: int
    recipe: Recipe
    files: tuple[ModelFile, ...]
    remedy: str

    @property
    def max_tokens(self) -> int:
        return self.recipe.max_tokens

    @property
    def pooling(self) -> Pooling:
        return self.recipe.pooling

    @property
    def query_prefix(self) -> str:
        return self.recipe.query_prefix

    @property
    def passage_prefix(self) -> str:
        return self.recipe.passage_prefix

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(each.size for each in self.files)


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
    """The embedder to use: ``WIKID_EMBED_MODEL``, else the configured one, else the default; found as `find` does."""
    return find(env.get("WIKID_EMBED_MODEL") or configured or DEFAULT_MODEL, env, cache)


def locate_reranker(env: Mapping[str, str], cache: Path, configured: str | None) -> ModelFolder | None:
    """The cross-encoder that ``WIKID_RERANK_MODEL``, else the configuration, asks for, named as an embedder is; None
    where neither asks for one. Raises ModelUnusable for one that is nowhere or cannot be used."""
    wanted = env.get("WIKID_RERANK_MODEL") or configured
    if not wanted:
        return None
    found = find(wanted, env, cache)
    if found is None:
        raise ModelUnusable(
            f"There is no model {wanted!r} among the models.",
            "Check WIKID_RERANK_MODEL, WIKID_MODEL_DIR and rerankModel, or fetch it with `wikid models pull`.",
        )
    return found


def find(wanted: str, env: Mapping[str, str], cache: Path) -> ModelFolder | None:
    """The model of that name, alias or path.

    An absolute path is a folder; a name is looked up below ``WIKID_MODEL_DIR``, then below the cache, and one that
    reads ``publisher/name`` then in the Hugging Face cache. None when a name is nowhere. Raises ModelUnusable for a
    folder asked for by path that is missing, and for one that cannot be used.
    """
    return next((read_model_folder(place) for place in places(wanted, env, cache) if _is_meant(place, wanted)), None)


def places(wanted: str, env: Mapping[str, str], cache: Path) -> Iterator[Path]:
    """Where a model of that name would lie, the first first. ModelUnusable for what is no name."""
    path = _given_path(wanted)
    if path.is_absolute():
        yield path
        return
    if ".." in path.parts:
        raise ModelUnusable(f"The model {wanted!r} is neither a name nor an absolute path.", "Write the full path.")
    names = dict.fromkeys((wanted, catalogue_name(wanted)))
    roots = [models_folder(cache)]
    if extra := env.get("WIKID_MODEL_DIR"):
        roots.insert(0, Path(os.path.expanduser(extra)))  # which leaves the home of nobody as it is
    for name in names:
        yield from (root / name for root in roots)
    if (cached := hub_cache.snapshot(env, wanted)) is not None:
        yield cached


def _is_meant(place: Path, wanted: str) -> bool:
    return place.is_dir() or _given_path(wanted).is_absolute()


def _given_path(wanted: str) -> Path:
    if "\0" in wanted:
        raise ModelUnusable("The name of the model has a character that no file's name can have.", _CHECK_NAME)
    try:
        return Path(wanted).expanduser()
    except RuntimeError as problem:
        reason = f"The model {wanted!r} lies in the home of a user who is not there."
        raise ModelUnusable(reason, _CHECK_NAME) from problem


def hub_models(env: Mapping[str, str]) -> list[str]:
    """Every ``publisher/name`` in the Hugging Face cache that holds a graph."""
    names = ((name, hub_cache.snapshot(env, name)) for name in hub_cache.cached_names(env))
    return [name for name, path in names if path is not None and _graph_in(path) is not None]


def read_model_folder(path: Path) -> ModelFolder:
    """Read a folder's description. Raises ModelUnusable with what is missing or wrong."""
    name = hub_cache.name_of(path) or path.name
    if not path.is_dir():
        raise ModelUnusable(f"There is no model folder at {path}.", "Check WIKID_EMBED_MODEL and the configuration.")
    try:
        if (path / SETTINGS_FILE).is_file():
            return _read_built(path)
        return _read_foreign(path, name)
    # a file of whatever shape may lie there
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        reason = f"The model folder {path} cannot be read ({type(error).__name__}: {error})."
        raise ModelUnusable(reason, _remedy(path, name)) from error


def damaged_files(folder: ModelFolder) -> list[str]:
    """Files that are missing or no longer what they were; hashes everything, about 0.1 s for the default model."""
    return [file.path for file in folder.files if not _intact(folder.path / file.path, file)]


def describe_file(root: Path, path: Path) -> ModelFile:
    """Hash one file of the folder ``root``. ValueError for one that stands for a file that was never fetched."""
    place = path.relative_to(root).as_posix()
    if path.is_symlink() and not path.exists():
        raise ValueError(f"{place} is a link to a file that is gone")
    with path.open("rb") as stream:
        if stream.read(len(LFS_POINTER)) == LFS_POINTER:
            raise ValueError(f"{place} is a Git LFS pointer instead of the file; run: git lfs pull")
        stream.seek(0)
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return ModelFile(place, digest, path.stat().st_size)


def _intact(path: Path, recorded: ModelFile) -> bool:
    if not path.is_file() or path.stat().st_size != recorded.size:
        return False
    with path.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != recorded.sha256:
            return False
    # a file that was damaged before it was first read has another hash than the one its blob is named by
    published = hub_cache.blob_hash(path)
    return published is None or published == recorded.sha256 or hub_cache.is_intact(path, published)


def _remedy(path: Path, name: str) -> str:
    if hub_cache.name_of(path) is not None:
        again = f"Fetch it again with `wikid models pull {name}`"
        return f"{again}; where that changes nothing, delete {path.parent.parent} first."
    if name in CATALOGUE or (path / SETTINGS_FILE).is_file():
        return f"Build the model again with `wikid models build {name}`."
    return f"Copy the model's files to {path} again."


def _read_built(path: Path) -> ModelFolder:
    raw = read_object(path / SETTINGS_FILE, SETTINGS_FILE)
    if raw["format"] != SETTINGS_FORMAT:
        raise ValueError(f"settings format {raw['format']}, expected {SETTINGS_FORMAT}")
    for key, kind in _KINDS.items():
        if not isinstance(raw[key], kind):
            raise TypeError(f"{key} in {SETTINGS_FILE} is {type(raw[key]).__name__}, not {kind.__name__}")
    files = tuple(ModelFile(name, entry["sha256"], entry["size"]) for name, entry in sorted(raw["files"].items()))
    for file in files:
        if (path / file.path).stat().st_size != file.size:
            raise ValueError(f"{file.path} has the wrong size")
    recipe = Recipe(raw["max_tokens"], _pooling(raw["pooling"]), raw["query_prefix"], raw["passage_prefix"])
    return _folder(path, raw["name"], path / "model.onnx", raw["dims"], recipe, files)


def _read_foreign(path: Path, name: str) -> ModelFolder:
    graph = _graph_in(path)
    if graph is None:
        lost = next((place for place in GRAPH_PLACES if (path / place).is_symlink()), None)
        raise ValueError(f"{lost} is a link to a file that is gone" if lost else f"none of {_listed()} is there")
    recipe, dims = read_recipe(path, name)
    sidecars = {each for pattern in SIDECARS for each in graph.parent.glob(f"{graph.name}{pattern}")}
    used = [graph, path / "tokenizer.json", *sorted(sidecars)]
    return _folder(path, name, graph, dims, recipe, tuple(describe_file(path, file) for file in used))


def _graph_in(path: Path) -> Path | None:
    return next((path / place for place in GRAPH_PLACES if (path / place).is_file()), None)


def _listed() -> str:
    return ", ".join(GRAPH_PLACES)


def _folder(path: Path, name: str, graph: Path, dims: int, recipe: Recipe, files: tuple[ModelFile, ...]) -> ModelFolder:
    hashes = {file.path: file.sha256 for file in files}
    graph_hash = hashes[graph.relative_to(path).as_posix()]
    rest = {key: value for key, value in hashes.items() if key not in ("LICENSE", "NOTICE")}
    prefixes = (recipe.query_prefix, recipe.passage_prefix)
    settings = [rest, recipe.max_tokens, recipe.pooling, prefixes, *_uncommon(recipe)]
    written = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    return ModelFolder(
        path=path,
        name=name,
        identity=f"{name}@{graph_hash[:12]}-{written[:8]}",
        graph=graph,
        tokenizer=path / "tokenizer.json",
        dims=dims,
        recipe=recipe,
        files=files,
        remedy=_remedy(path, name),
    )


def _uncommon(recipe: Recipe) -> list[object]:
    """What of a recipe most models do not have, so that those keep the identity, and the vectors, they had before."""
    dialogue = None if recipe.dialogue is None else asdict(recipe.dialogue)
    found: list[object] = [recipe.closing, recipe.layer, recipe.verdict, dialogue]
    return found if found != ["", "", "logits", None] else []


def _pooling(raw: object) -> Pooling:
    known: tuple[Pooling, ...] = ("mean", "cls", "last")
    if (found := next((each for each in known if each == raw), None)) is None:
        raise ValueError(f"{SETTINGS_FILE} has an unknown pooling")
    return found
