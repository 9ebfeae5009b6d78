"""The reranker, kept warm in a session of its own: the user's cross-encoder, else late interaction with the embedder's
own token vectors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import structlog

from wikid_daemon.index.cross_encoder import CrossEncoder
from wikid_daemon.index.late_interaction import LateInteraction
from wikid_daemon.memory import give_back
from wikid_daemon.models.location import ModelFolder, locate, locate_reranker
from wikid_daemon.models.resting import AT_REST
from wikid_daemon.reranking import Reranker
from wikid_daemon.searching import Absence
from wikid_daemon.warm_model import Held, WarmModel
from wikid_protocol.records import ModelRecord

LATE_INTERACTION: Final = "late interaction"
VARIABLE: Final = "WIKID_RERANK_MODEL"

log = structlog.get_logger("warm")


class WarmReranker(WarmModel[Reranker]):
    """One reranker for all vaults. `configured` and `embedder` name the models that the settings ask for."""

    def __init__(
        self, environment: Mapping[str, str], cache: Path, *, configured: str | None, embedder: str | None
    ) -> None:
        # without an embedder there is no second look
        super().__init__("reranker", Held("absent", reason="it waits for the embedding model"), environment, cache)
        self._configured = configured
        self._embedder = embedder

    def start(self) -> None:
        """Load it without making anybody wait; again whenever another embedder has been loaded, or its files have been
        mended."""
        self._start("reranker")

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
            if self._held.model is None:
                self._held = Held("loading")
            self._held = self._loaded("")
        give_back()
        if self._held.state == "failed":
            log.warning("reranker_failed")

    def _locate(self) -> ModelFolder | None:
        return locate_reranker(self._environment, self._cache, self._configured) or locate(
            self._environment, self._cache, self._embedder
        )

    def _open(self, folder: ModelFolder) -> Reranker:
        if self.wanted:
            return CrossEncoder.load(folder)
        return LateInteraction.load(folder, min(2, os.cpu_count() or 1))

    def _absent(self) -> Held[Reranker]:
        return Held("absent", reason="no model has been built", remedy="wikid models build")

    def rest(self, still: Callable[[], bool]) -> None:
        """Let the model go from memory; `start` brings it back, with the embedder, without which nothing is judged.
        `still` says whether the embedder rests, and is asked when no `start` can be under way."""
        with self._loading:
            if self._held.state != "ready" or not still():
                return
            self._held = Held("resting", None, self._held.folder, f"{AT_REST}; it comes back with the embedder")
        give_back()

    def switch(self, name: str, folder: ModelFolder, reranker: CrossEncoder) -> None:
        """From now on use this cross-encoder, which the settings call `name`: it is warm, so nobody waits."""
        with self._loading:
            self._configured = name
            self._held = Held("ready", reranker, folder)
        give_back()

    def _is_lacking(self) -> bool:
        # late interaction comes back with its embedder
        return self._held.state == "failed" and self.wanted is not None

    def for_recall(self) -> Reranker | Absence:
        """The reranker, or why the first look has to do."""
        held = self._held
        if held.model is not None:
            return held.model
        if held.state in ("loading", "resting"):
            return Absence("reranker_loading", "the reranker is still loading: the first look answered")
        kind = "reranker_absent" if held.state == "absent" else "reranker_failed"
        return Absence(kind, f"{held.reason.rstrip('.')}: the first look answered", held.remedy)

    def record(self) -> ModelRecord:
        """The reranker as `status` shows it."""
        held = self._held
        crossed = isinstance(held.model, CrossEncoder) or self.wanted is not None
        name = LATE_INTERACTION
        if crossed:
            name = held.folder.name if held.folder is not None else self.wanted or LATE_INTERACTION
        return ModelRecord(
            name=name,
            purpose="reranker",
            state="built" if held.state == "resting" else held.state,
            identity="" if held.model is None else held.model.identity,
            path="" if held.folder is None else str(held.folder.path),
            reason=held.reason,
            remedy=held.remedy,
        )
