"""The models' methods: list, build, pull, use and verify, for the embedder and for the reranker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from wikid_daemon.calls import CallContext
from wikid_daemon.core.names import printable
from wikid_daemon.core.settings import BY_NAME
from wikid_daemon.index.catalog import CatalogError
from wikid_daemon.index.cross_encoder import CrossEncoder
from wikid_daemon.index_calls import progress
from wikid_daemon.models.build import Progress
from wikid_daemon.models.catalogue import CATALOGUE, catalogue_name
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.hub import pull
from wikid_daemon.models.hub_cache import is_hub_name, name_of
from wikid_daemon.models.location import ModelFolder, damaged_files, find, models_folder, places, read_model_folder
from wikid_daemon.settings_files import SettingsFiles
from wikid_daemon.vaults import Vaults
from wikid_daemon.warm import VARIABLE as EMBED_VARIABLE
from wikid_daemon.warm import WarmEmbedder, opened
from wikid_daemon.warm_reranker import VARIABLE as RERANK_VARIABLE
from wikid_daemon.warm_reranker import WarmReranker
from wikid_protocol import methods as m
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused

OWN_RERANKER: Final = frozenset({"none", "late interaction", "late-interaction", "default"})

T = TypeVar("T")
Long = Callable[[Any, CallContext], object]


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder that is to be looked at, and what it was found to hold when it was loaded."""

    path: Path
    loaded: ModelFolder | None


class ModelCalls:
    """Answers for the models of this user. RequestRefused, ModelBuildFailed."""

    def __init__(
        self,
        embedder: WarmEmbedder,
        reranker: WarmReranker,
        files: SettingsFiles,
        vaults: Vaults,
        environment: Mapping[str, str],
        cache: Path,
    ) -> None:
        self._embedder = embedder
        self._reranker = reranker
        self._files = files
        self._vaults = vaults
        self._environment = environment
        self._cache = cache
        self._changing = threading.Lock()

    def methods(self) -> Mapping[str, Callable[[Any], object]]:
        """The methods that answer at once."""
        return {"models/list": self.list}

    def long_methods(self) -> Mapping[str, Long]:
        """The methods that may take minutes and tell how far they are."""
        return {
            "models/build": self.build,
            "models/pull": self.pull,
            "models/use": self.use,
            "models/verify": self.verify,
        }

    def list(self, _params: m.NoParams) -> r.ModelList:
        return r.ModelList(models=(*self._embedder.records(everything=True), self._reranker.record()))

    def build(self, params: m.ModelBuildParams, context: CallContext) -> r.ModelRecord:
        return self._embedder.build(params.name, _told(context, params.progress_token), context.cancelled.is_set)

    def pull(self, params: m.ModelPullParams, context: CallContext) -> r.ModelRecord:
        report = _told(context, params.progress_token)
        folder = pull(params.name, self._environment, report, context.cancelled.is_set)
        return self._embedder.record_of(folder)

    # -- use -----------------------------------------------------------------------------------------------------------

    def use(self, params: m.ModelUseParams, context: CallContext) -> r.ModelUse:
        """The new model is loaded beside the old one, which answers until then; nothing changes where it cannot be."""
        report = _told(context, params.progress_token)
        name = params.name.strip()
        # the settings and what is in use change together
        with self._changing:
            if params.purpose == "reranker":
                return self._use_reranker(name, report, context)
            return self._use_embedder(catalogue_name(name), report, context)

    def _use_embedder(self, name: str, report: Progress, context: CallContext) -> r.ModelUse:
        folder = self._obtained(name, report, context, may_build=True)
        hidden = self._environment.get(EMBED_VARIABLE)
        report(f"Loading {folder.name}", None)
        embedder = _usable(lambda: opened(folder, self._embedder.lane))
        _stop_if(context)
        said = _name_in_settings(name, folder)
        self._files.write(BY_NAME["embedModel"], said)
        self._reranker.follow(said)
        if hidden:
            self._embedder.configure(said)
        else:
            self._embedder.switch(said, folder, embedder)
        return self._used("embedModel", said, self._embedder.record_of(folder), EMBED_VARIABLE if hidden else "")

    def _use_reranker(self, name: str, report: Progress, context: CallContext) -> r.ModelUse:
        setting, hidden = "rerankModel", bool(self._environment.get(RERANK_VARIABLE))
        variable = RERANK_VARIABLE if hidden else ""
        if name in OWN_RERANKER:
            self._files.write(BY_NAME[setting], None)
            self._reranker.configure(None)
            if not hidden:
                self._reranker.load()
            return self._used(setting, None, self._reranker.record(), variable)
        folder = self._obtained(name, report, context, may_build=False)
        report(f"Loading {folder.name}", None)
        reranker = _usable(lambda: CrossEncoder.load(folder))
        _stop_if(context)
        said = _name_in_settings(name, folder)
        self._files.write(BY_NAME[setting], said)
        if hidden:
            self._reranker.configure(said)
        else:
            self._reranker.switch(said, folder, reranker)
        return self._used(setting, said, self._reranker.record(), variable)

    def _obtained(self, name: str, report: Progress, context: CallContext, *, may_build: bool) -> ModelFolder:
        """The folder of the model, built now where it is one of the catalogue and absent or damaged."""
        try:
            folder = find(name, self._environment, self._cache)
        except ModelUnusable as problem:
            if not (may_build and name in CATALOGUE):
                raise _refusal(problem) from problem
            folder = None
        if folder is not None and not (name in CATALOGUE and damaged_files(folder)):
            return folder
        if may_build and name in CATALOGUE:
            self._embedder.build(name, report, context.cancelled.is_set)
            built = find(name, self._environment, self._cache)
            if built is not None:
                return built
        hint = f"fetch it first: wikid models pull {name}" if is_hub_name(name) else "see: wikid models list"
        raise RequestRefused("model_unavailable", f"there is no model {printable(name)} on this machine", hint=hint)

    def _used(self, setting: str, value: str | None, model: r.ModelRecord, hidden_by: str) -> r.ModelUse:
        told = []
        if hidden_by:
            message = (
                f"{hidden_by} is set in the daemon's environment and stands above the file: its model stays in use"
            )
            remedy = f"unset {hidden_by} and run: wikid restart"
            told.append(r.Diagnostic(kind="environment_overrides", message=message, remedy=remedy))
        return r.ModelUse(
            model=model,
            setting=setting,
            value=value,
            path=printable(str(self._files.path)),
            embedding_pending=self._without_vector(model) if setting == "embedModel" else 0,
            diagnostics=tuple(told),
        )

    def _without_vector(self, model: r.ModelRecord) -> int:
        """Chunks of all vaults for which the catalog holds no vector of the model."""
        pending = 0
        for indexer in self._vaults.all():
            store = indexer.store
            if store is not None:
                try:
                    pending += len(store.catalog.chunks_without_vector(model.identity))
                except CatalogError:  # closed at this moment; status tells of it
                    continue
        return pending

    # -- verify --------------------------------------------------------------------------------------------------------

    def verify(self, params: m.ModelVerifyParams, context: CallContext) -> r.ModelChecks:
        """Hash what is there. A model in use that is damaged fails at once, and comes back when it is mended."""
        report = _told(context, params.progress_token)
        found = list(self._places(params.name))
        if params.name is not None and not found:
            message = f"there is no model {printable(params.name)} on this machine"
            raise RequestRefused("model_unavailable", message, hint="see: wikid models list")
        checks = []
        for done, place in enumerate(found):
            _stop_if(context)
            report(f"Hashing {name_of(place.path) or place.path.name}", done / len(found))
            checks.append(self._checked(place))
        return r.ModelChecks(models=tuple(checks))

    def _places(self, name: str | None) -> Iterator[_Place]:
        loaded = {each.path: each for each in (self._embedder.folder, self._reranker.folder) if each is not None}
        if name is None:
            built = sorted(models_folder(self._cache).glob("[!.]*"))
            paths = dict.fromkeys([*(each for each in built if each.is_dir()), *loaded])
        else:
            try:
                lying = places(catalogue_name(name.strip()), self._environment, self._cache)
                paths = dict.fromkeys([each for each in lying if each.is_dir()][:1])
            except ModelUnusable as problem:
                raise _refusal(problem) from problem
        for path in paths:
            yield _Place(path, loaded.get(path))

    def _checked(self, place: _Place) -> r.ModelCheck:
        in_use = place.loaded is not None
        try:
            folder = place.loaded or read_model_folder(place.path)
        except ModelUnusable as problem:
            name, path = name_of(place.path) or place.path.name, printable(str(place.path))
            return r.ModelCheck(name=name, path=path, state="damaged", reason=problem.reason, remedy=problem.hint)
        damaged = damaged_files(folder)
        if damaged and in_use:
            self._embedder.found_damaged(folder, damaged)
            self._reranker.found_damaged(folder, damaged)
        return r.ModelCheck(
            name=folder.name,
            path=printable(str(folder.path)),
            state="damaged" if damaged else "intact",
            files=len(folder.files),
            size_bytes=folder.size,
            damaged=tuple(map(printable, damaged)),
            in_use=in_use,
            remedy=folder.remedy if damaged else "",
        )


def _told(context: CallContext, token: str | None) -> Progress:
    report = progress(context, token, "")
    return lambda message, share: report(message, None if share is None else 100.0 * share)


def _usable(load: Callable[[], T]) -> T:
    try:
        return load()
    except ModelUnusable as problem:
        raise _refusal(problem) from problem
    except OSError as problem:
        message = f"the model cannot be read ({type(problem).__name__})"
        raise RequestRefused("model_unavailable", message, hint="check the permissions of its folder") from problem


def _stop_if(context: CallContext) -> None:
    if context.cancelled.is_set():
        raise RequestRefused("cancelled", "the call was cancelled; nothing was changed")


def _name_in_settings(name: str, folder: ModelFolder) -> str:
    """As the settings keep it: the name it was asked for by, or the folder's whole path."""
    return str(folder.path) if Path(name).expanduser().is_absolute() else name


def _refusal(problem: ModelUnusable) -> RequestRefused:
    return RequestRefused("model_unavailable", problem.reason, hint=problem.hint)
