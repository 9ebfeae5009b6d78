"""The embedder, kept warm: loaded in the background at start, changed on request, and honest about its absence."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal

import structlog

from wikid_daemon.index.encoders import Embedder
from wikid_daemon.lanes import Lane
from wikid_daemon.memory import give_back
from wikid_daemon.models import hub_cache
from wikid_daemon.models.build import build
from wikid_daemon.models.catalogue import ALIASES, CATALOGUE, DEFAULT_MODEL, catalogue_name
from wikid_daemon.models.location import ModelFolder, hub_models, list_models, locate, models_folder
from wikid_daemon.models.resting import AT_REST
from wikid_daemon.searching import Absence
from wikid_daemon.warm_model import LIST_REMEDY, Held, WarmModel
from wikid_protocol.records import ModelRecord

BUILD_REMEDY: Final = "wikid models build"
VARIABLE: Final = "WIKID_EMBED_MODEL"
LOW_POWER_VARIABLE: Final = "WIKID_LOW_POWER"

log = structlog.get_logger("warm")


class WarmEmbedder(WarmModel[Embedder]):
    """One embedder for all vaults. `configured` names a model that the settings ask for; `on_ready` is called from the
    loading thread. `lane` says what bulk work may have."""

    def __init__(
        self,
        environment: Mapping[str, str],
        cache: Path,
        configured: str | None,
        on_ready: Callable[[], None],
        lane: Lane | None = None,
    ) -> None:
        super().__init__("model", Held("loading"), environment, cache)
        self.lane = lane or Lane()
        self._configured = configured
        self._on_ready = on_ready
        self._building = threading.Lock()

    def start(self) -> None:
        """Load the model, if there is one, without making anybody wait, and again when its files have been mended."""
        self._start("embedder")

    @property
    def wanted(self) -> str:
        """The model that the environment or the settings ask for."""
        return self._environment.get(VARIABLE) or self._configured or DEFAULT_MODEL

    def load(self, *, only_resting: bool = False) -> None:
        """Find and open the model; afterwards the state is ready, absent or failed."""
        with self._loading:
            if only_resting and self._held.state != "resting":
                return  # another thread was faster
            self._mending.attempt()
            self._held = self._loaded(BUILD_REMEDY)
            held = self._held
        if held.folder is not None and held.state == "ready":
            log.info("model_ready", model=held.folder.identity)
            self._on_ready()
        elif held.state == "failed":
            log.warning("model_failed")

    def _locate(self) -> ModelFolder | None:
        return locate(self._environment, self._cache, self._configured)

    def _open(self, folder: ModelFolder) -> Embedder:
        if self._held.model is None:
            self._held = Held("loading", None, folder)
        return opened(folder, self.lane)

    def _absent(self) -> Held[Embedder]:
        reason, remedy = _not_there(self.wanted)
        return Held("absent", reason=reason, remedy=remedy)

    def rest(self, unused_seconds: float) -> bool:
        """Let the model go from memory, where nothing was embedded for so long; whether that was done. It comes back
        when it is wanted, and words answer until it is there."""
        with self._loading:
            embedder, folder = self._held.model, self._held.folder
            if self._held.state != "ready" or embedder is None or embedder.unused_seconds < unused_seconds:
                return False
            self._held = Held("resting", None, folder)
            del embedder
        give_back()
        log.info("model_rests")
        return True

    @property
    def rests(self) -> bool:
        """Whether it has been let go from memory, and nobody has wanted it since."""
        return self._held.state == "resting"

    def want(self) -> None:
        """Have a resting model loaded again, without making anybody wait."""
        if self._held.state == "resting":
            threading.Thread(target=self.awaken, name="load-embedder", daemon=True).start()

    def awaken(self) -> None:
        """Load a resting model; what is not at rest stays as it is."""
        if self._held.state == "resting":
            self.load(only_resting=True)

    def switch(self, name: str, folder: ModelFolder, embedder: Embedder) -> None:
        """From now on use this embedder, which the settings call `name`: it is warm, so nobody waits."""
        with self._loading:
            self._configured = name
            self._held = Held("ready", embedder, folder)
        log.info("model_ready", model=folder.identity)
        self._on_ready()

    def _is_lacking(self) -> bool:
        return self._held.state in ("absent", "failed")

    # -- who asks ------------------------------------------------------------------------------------------------------

    def current(self) -> Embedder | None:
        """The embedder, once it is warm."""
        return self._held.model

    def for_recall(self) -> Embedder | Absence:
        """The embedder for a query, or why words alone answer."""
        held = self._held
        if held.model is not None:
            return held.model
        if held.state == "loading":
            return Absence("model_loading", "the embedding model is still loading: words alone answered")
        if held.state == "resting":
            message = "the embedding model had been let go from memory and is loading again: words alone answered"
            return Absence("model_loading", message, want=self.want)
        if held.state == "absent":
            return Absence("model_absent", f"{held.reason}: words alone answered", held.remedy)
        return Absence("model_failed", f"{held.reason} Words alone answered.", held.remedy)

    def build(
        self, name: str, progress: Callable[[str, float | None], None], cancelled: Callable[[], bool]
    ) -> ModelRecord:
        """Build the model and use it where it is the one that is asked for. ModelBuildFailed."""
        with self._building:
            folder = build(name, self._cache, progress, cancelled)
        held = self._held
        is_new = held.folder is None or held.folder.identity != folder.identity
        if held.state != "ready" or (is_new and catalogue_name(self.wanted) == folder.name):
            self.load()
        return self.record_of(folder)

    # -- as records ----------------------------------------------------------------------------------------------------

    def records(self, *, everything: bool = False) -> tuple[ModelRecord, ...]:
        """The model that is asked for and those on disk, with the state of the one in use; with `everything` also those
        that could be built, and those that other programs have fetched."""
        held, wanted = self._held, catalogue_name(self.wanted)
        built = {folder.name: folder for folder in list_models(self._cache)}
        if held.folder is not None:
            built[held.folder.name] = held.folder
        names = dict.fromkeys(built)
        if held.folder is None:
            names = {wanted: None, **names}
        if everything:
            names = dict.fromkeys((*CATALOGUE, *names, *hub_models(self._environment)))
        return tuple(self._record(name, built.get(name), held) for name in names)

    def record_of(self, folder: ModelFolder) -> ModelRecord:
        """The model of that folder, whether it is in use or not."""
        return self._record(folder.name, folder, self._held)

    def _record(self, name: str, folder: ModelFolder | None, held: Held[Embedder]) -> ModelRecord:
        model = CATALOGUE.get(name)
        path = hub_cache.snapshot(self._environment, name) if folder is None else folder.path
        source: Literal["catalogue", "hub", "folder"] = "folder" if model is None else "catalogue"
        if path is not None and hub_cache.name_of(path) is not None:
            source = "hub"
        state, reason, remedy = self._condition(name, folder, held)
        return ModelRecord(
            name=name,
            purpose="embedder",
            state=state,
            identity="" if folder is None else folder.identity,
            dims=0 if folder is None else folder.dims,
            path=str(path or models_folder(self._cache) / name),
            licence="" if model is None else model.licence,
            size_bytes=0 if folder is None else folder.size,
            reason=reason,
            remedy=remedy,
            source=source,
            languages=() if model is None else model.languages,
            aliases=tuple(alias for alias, target in ALIASES.items() if target == name),
        )

    def _told(self, held: Held[Embedder]) -> tuple[str, str, str]:
        if held.state == "resting":
            return "built", f"{AT_REST}, because nobody used it; the next recall loads it again", ""
        if held.state == "ready" and self.lane.saves_power():
            forced = self._environment.get(LOW_POWER_VARIABLE)
            remedy = "start wikid without --low-power" if forced else "wikid config set lowPower off"
            return "ready", "to save power, new vectors are made slowly", remedy
        return held.state, held.reason, held.remedy if held.reason else ""

    def _condition(self, name: str, folder: ModelFolder | None, held: Held[Embedder]) -> tuple[str, str, str]:
        """State, reason and remedy of the model of that name, as a record tells them."""
        if held.state == "loading" and held.folder is None and name == catalogue_name(self.wanted):
            return "loading", "", ""  # it is being looked for
        if folder is not None:
            in_use = held.folder is not None and held.folder.path == folder.path
            return self._told(held) if in_use else ("built", "", "")
        if held.state == "failed" and held.folder is None and name == catalogue_name(self.wanted):
            return held.state, held.reason, held.remedy
        if hub_cache.snapshot(self._environment, name) is not None:
            return "built", "", ""
        remedy = _not_there(name)[1]
        return "absent", f"not {'built' if name in CATALOGUE else 'there'}; run: {remedy}", remedy


def opened(folder: ModelFolder, lane: Lane | None = None) -> Embedder:
    """The embedder of a folder, warm. ModelUnusable."""
    return Embedder.load(folder, workers=min(2, os.cpu_count() or 1), lane=lane)


def _not_there(wanted: str) -> tuple[str, str]:
    """Why the model that is asked for is absent, and the remedy."""
    name = catalogue_name(wanted)
    if name == DEFAULT_MODEL:
        return "no embedding model has been built", BUILD_REMEDY
    if name in CATALOGUE:
        return f"the embedding model {name} has not been built", f"{BUILD_REMEDY} {name}"
    if hub_cache.is_hub_name(name):
        return f"the embedding model {name} has not been fetched", f"wikid models pull {name}"
    return f"there is no embedding model {name}", LIST_REMEDY
