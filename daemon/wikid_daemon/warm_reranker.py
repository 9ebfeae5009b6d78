"""The reranker, kept warm in a session of its own: the user's cross-encoder, else late interaction with the embedder's
own token vectors."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import structlog

from wikid_daemon.index.cross_encoder import CrossEncoder
from wikid_daemon.index.late_interaction import LateInteraction
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import ModelFolder, locate, locate_reranker
from wikid_daemon.reranking import Reranker
from wikid_daemon.searching import Absence
from wikid_protocol.records import ModelRecord

LATE_INTERACTION: Final = "late interaction"

log = structlog.get_logger("warm")


@dataclass(frozen=True, slots=True)
class _Held:
    """What is known of the reranker now."""

    state: Literal["absent", "loading", "ready", "failed"]
    reranker: Reranker | None = None
    folder: ModelFolder | None = None
    reason: str = ""
    remedy: str = ""


class WarmReranker:
    """One reranker for all vaults. `configured` and `embedder` name the models that the settings ask for."""

    def __init__(
        self, environment: Mapping[str, str], cache: Path, *, configured: str | None, embedder: str | None
    ) -> None:
        self._environment = environment
        self._cache = cache
        self._configured = configured
        self._embedder = embedder
        # without an embedder there is no second look
        self._held = _Held("absent", reason="it waits for the embedding model")

    def start(self) -> None:
        """Load it without making anybody wait; again whenever another embedder has been loaded."""
        threading.Thread(target=self.load, name="load-reranker", daemon=True).start()

    def load(self) -> None:
        """Find and open the model; afterwards the state is ready, absent or failed."""
        folder: ModelFolder | None = None
        self._held = _Held("loading")
        try:
            folder = locate_reranker(self._environment, self._cache, self._configured)
            if folder is not None:
                self._held = _Held("ready", CrossEncoder.load(folder), folder)
                return
            folder = locate(self._environment, self._cache, self._embedder)
            if folder is None:
                self._held = _Held("absent", reason="no model has been built", remedy="wikid models build")
                return
            workers = min(2, os.cpu_count() or 1)
            self._held = _Held("ready", LateInteraction.load(folder, workers), folder)
        except OSError as problem:
            self._held = _Held("failed", None, folder, f"The reranker cannot be read ({type(problem).__name__}).")
        except ModelUnusable as problem:
            self._held = _Held("failed", None, folder, problem.reason, problem.hint)
        if self._held.state == "failed":
            log.warning("reranker_failed")

    def for_recall(self) -> Reranker | Absence:
        """The reranker, or why the first look has to do."""
        held = self._held
        if held.reranker is not None:
            return held.reranker
        if held.state == "loading":
            return Absence("reranker_loading", "the reranker is still loading: the first look answered")
        kind = "reranker_absent" if held.state == "absent" else "reranker_failed"
        return Absence(kind, f"{held.reason.rstrip('.')}: the first look answered", held.remedy)

    def record(self) -> ModelRecord:
        """The reranker as `status` shows it."""
        held = self._held
        crossed = isinstance(held.reranker, CrossEncoder) or self._configured is not None
        return ModelRecord(
            name=held.folder.name if held.folder is not None and crossed else LATE_INTERACTION,
            purpose="reranker",
            state=held.state,
            identity="" if held.reranker is None else held.reranker.identity,
            path="" if held.folder is None else str(held.folder.path),
            reason=held.reason,
        )
