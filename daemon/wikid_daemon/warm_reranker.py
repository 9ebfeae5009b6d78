"""The reranker, kept warm in a session of its own: the user's cross-encoder, else late interaction with the embedder's
own token vectors."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import structlog

from wikid_daemon.index.cross_encoder import CrossEncoder
from wikid_daemon.index.encoders import damage
from wikid_daemon.index.late_interaction import LateInteraction
from wikid_daemon.memory import give_back
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import ModelFolder, locate, locate_reranker, places
from wikid_daemon.models.mending import Mending
from wikid_daemon.models.resting import AT_REST
from wikid_daemon.reranking import Reranker
from wikid_daemon.searching import Absence
from wikid_protocol.records import ModelRecord

LATE_INTERACTION: Final = "late interaction"
VARIABLE: Final = "WIKID_RERANK_MODEL"

log = structlog.get_logger("warm")


@dataclass(frozen=True, slots=True)
class _Held:
    """What is known of the reranker now."""

    state: Literal["absent", "loading", "ready", "resting", "failed"]
    reranker: Reranker | None = None
    folder: ModelFolder | None = None
    reason: str = ""
    remedy: str = ""


class WarmReranker:
    """One reranker for all vaults. `configured` and `embedder` name the models that the settings ask for. While another
    one is loaded, the one before it answers."""

    def __init__(
        self, environment: Mapping[str, str], cache: Path, *, configured: str | None, embedder: str | None
    ) -> None:
        self._environment = environment
        self._cache = cache
        self._configured = configured
        self._embedder = embedder
        # without an embedder there is no second look
        self._held = _Held("absent", reason="it waits for the embedding model")
        self._loading = threading.Lock()
        self._mending = Mending(self._is_lacking, self._places, self.load)

    def start(self) -> None:
        """Load it without making anybody wait; again whenever another embedder has been loaded, or its files have been
        mended."""
        threading.Thread(target=self.load, name="load-reranker", daemon=True).start()
        self._mending.start("mend-reranker")

    def follow(self, embedder: str) -> None:
        """The settings ask for another embedder, so that late interaction is to take its token vectors from that one
        when it is loaded next."""
        self._embedder = embedder

    @property
    def wanted(self) -> str | None:
        """The cross-encoder that the environment or the settings ask for."""
        return self._environment.get(VARIABLE) or self._configured

    def load(self) -> None:
        """Find and open the model; afterwards the state is ready, absent or failed."""
        with self._loading:
            self._mending.attempt()
            if self._held.reranker is None:
                self._held = _Held("loading")
            self._held = self._loaded()
        give_back()
        if self._held.state == "failed":
            log.warning("reranker_failed")

    def _loaded(self) -> _Held:
        folder: ModelFolder | None = None
        try:
            folder = locate_reranker(self._environment, self._cache, self._configured)
            if folder is not None:
                return _Held("ready", CrossEncoder.load(folder), folder)
            folder = locate(self._environment, self._cache, self._embedder)
            if folder is None:
                return _Held("absent", reason="no model has been built", remedy="wikid models build")
            return _Held("ready", LateInteraction.load(folder, min(2, os.cpu_count() or 1)), folder)
        except OSError as problem:
            return _Held("failed", None, folder, f"The reranker cannot be read ({type(problem).__name__}).")
        except ModelUnusable as problem:
            return _Held("failed", None, folder, problem.reason, problem.hint)
        except Exception as problem:  # else it would be loading for ever; told with its kind
            log.exception("reranker_not_loaded")
            reason = f"The reranker does not load ({type(problem).__name__})."
            return _Held("failed", None, folder, reason, "wikid models list")

    def rest(self, still: Callable[[], bool]) -> None:
        """Let the model go from memory; `start` brings it back, with the embedder, without which nothing is judged.
        `still` says whether the embedder rests, and is asked when no `start` can be under way."""
        with self._loading:
            if self._held.state != "ready" or not still():
                return
            self._held = _Held("resting", None, self._held.folder, f"{AT_REST}; it comes back with the embedder")
        give_back()

    def switch(self, name: str, folder: ModelFolder, reranker: CrossEncoder) -> None:
        """From now on use this cross-encoder, which the settings call `name`: it is warm, so nobody waits."""
        with self._loading:
            self._configured = name
            self._held = _Held("ready", reranker, folder)
        give_back()

    def configure(self, name: str | None) -> None:
        """The settings ask for another cross-encoder, or none, when it is loaded next."""
        self._configured = name

    def found_damaged(self, folder: ModelFolder, files: list[str]) -> None:
        """Where this is the model in use, answer without it until its files are mended."""
        with self._loading:
            if self._held.folder is None or self._held.folder.path != folder.path:
                return
            problem = damage(folder, files)
            self._mending.attempt()
            self._held = _Held("failed", None, folder, problem.reason, problem.hint)
        log.warning("reranker_failed")

    def _is_lacking(self) -> bool:
        # late interaction comes back with its embedder
        return self._held.state == "failed" and self.wanted is not None

    def _places(self) -> Iterator[Path]:
        try:
            yield from places(self.wanted or "", self._environment, self._cache)
        except ModelUnusable:  # a name that cannot be one: no file will help
            return

    @property
    def folder(self) -> ModelFolder | None:
        """The folder of the model in use, or of the one that failed."""
        return self._held.folder

    def for_recall(self) -> Reranker | Absence:
        """The reranker, or why the first look has to do."""
        held = self._held
        if held.reranker is not None:
            return held.reranker
        if held.state in ("loading", "resting"):
            return Absence("reranker_loading", "the reranker is still loading: the first look answered")
        kind = "reranker_absent" if held.state == "absent" else "reranker_failed"
        return Absence(kind, f"{held.reason.rstrip('.')}: the first look answered", held.remedy)

    def record(self) -> ModelRecord:
        """The reranker as `status` shows it."""
        held = self._held
        crossed = isinstance(held.reranker, CrossEncoder) or self.wanted is not None
        name = LATE_INTERACTION
        if crossed:
            name = held.folder.name if held.folder is not None else self.wanted or LATE_INTERACTION
        return ModelRecord(
            name=name,
            purpose="reranker",
            state="built" if held.state == "resting" else held.state,
            identity="" if held.reranker is None else held.reranker.identity,
            path="" if held.folder is None else str(held.folder.path),
            reason=held.reason,
            remedy=held.remedy,
        )
