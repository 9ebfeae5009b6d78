"""The embedder, kept warm: loaded in the background at start, built on request, and honest about its absence."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import structlog

from wikid_daemon.index.encoders import Embedder
from wikid_daemon.models.build import build
from wikid_daemon.models.catalogue import CATALOGUE
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import ModelFolder, list_models, locate, models_folder
from wikid_daemon.searching import Absence
from wikid_protocol.records import ModelRecord

BUILD_REMEDY: Final = "wikid models build"

log = structlog.get_logger("warm")


@dataclass(frozen=True, slots=True)
class _Held:
    """What is known of the embedder now."""

    state: Literal["absent", "loading", "ready", "failed"]
    embedder: Embedder | None = None
    folder: ModelFolder | None = None
    reason: str = ""
    remedy: str = BUILD_REMEDY


class WarmEmbedder:
    """One embedder for all vaults. `configured` names a model that the settings ask for; `on_ready` is called from the
    loading thread."""

    def __init__(
        self, environment: Mapping[str, str], cache: Path, configured: str | None, on_ready: Callable[[], None]
    ) -> None:
        self._environment = environment
        self._cache = cache
        self._configured = configured
        self._on_ready = on_ready
        self._held = _Held("loading")
        self._building = threading.Lock()

    def start(self) -> None:
        """Load the model, if there is one, without making anybody wait."""
        threading.Thread(target=self.load, name="load-embedder", daemon=True).start()

    def load(self) -> None:
        """Find and open the model; afterwards the state is ready, absent or failed."""
        folder: ModelFolder | None = None
        try:
            folder = locate(self._environment, self._cache, self._configured)
            if folder is None:
                self._held = _Held("absent", reason="no embedding model has been built")
                return
            self._held = _Held("loading", None, folder)
            self._held = _Held("ready", Embedder.load(folder, workers=min(2, os.cpu_count() or 1)), folder)
        except OSError as problem:
            self._held = _Held("failed", None, folder, f"The model cannot be read ({type(problem).__name__}).")
            return
        except ModelUnusable as problem:
            self._held = _Held("failed", None, folder, problem.reason, problem.hint)
            log.warning("model_failed", kind=type(problem).__name__)
            return
        log.info("model_ready", model=folder.identity)
        self._on_ready()

    def current(self) -> Embedder | None:
        """The embedder, once it is warm."""
        return self._held.embedder

    def for_recall(self) -> Embedder | Absence:
        """The embedder for a query, or why words alone answer."""
        held = self._held
        if held.embedder is not None:
            return held.embedder
        if held.state == "loading":
            return Absence("model_loading", "the embedding model is still loading: words alone answered")
        if held.state == "absent":
            return Absence("model_absent", f"{held.reason}: words alone answered", held.remedy)
        return Absence("model_failed", f"{held.reason} Words alone answered.", held.remedy)

    def build(
        self, name: str, progress: Callable[[str, float | None], None], cancelled: Callable[[], bool]
    ) -> ModelRecord:
        """Build the model and start using it. ModelBuildFailed."""
        with self._building:
            folder = build(name, self._cache, progress, cancelled)
        current = self._held.folder
        if self._held.state != "ready" or current is None or current.identity != folder.identity:
            self.load()
        return next(each for each in self.records() if each.name == name)

    def records(self) -> tuple[ModelRecord, ...]:
        """Every model in the catalogue or on disk, with the state of the one in use."""
        held = self._held
        built = {folder.name: folder for folder in list_models(self._cache)}
        if held.folder is not None:
            built[held.folder.name] = held.folder
        names = dict.fromkeys((*CATALOGUE, *built))
        return tuple(self._record(name, built.get(name), held) for name in names)

    def _record(self, name: str, folder: ModelFolder | None, held: _Held) -> ModelRecord:
        licence = CATALOGUE[name].licence if name in CATALOGUE else ""
        if folder is None:
            loading = held.state == "loading"
            reason = "" if loading else f"not built; run: {BUILD_REMEDY}"
            return ModelRecord(
                name=name,
                purpose="embedder",
                state="absent",
                licence=licence,
                path=str(models_folder(self._cache) / name),
                reason=reason,
            )
        in_use = held.folder is not None and held.folder.path == folder.path
        return ModelRecord(
            name=name,
            purpose="embedder",
            state=held.state if in_use else "built",
            identity=folder.identity,
            dims=folder.dims,
            path=str(folder.path),
            licence=licence,
            size_bytes=sum(each.size for each in folder.files),
            reason=held.reason if in_use else "",
        )
