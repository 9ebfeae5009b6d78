"""What the embedder and the reranker have in common: one model in use, loaded and changed behind those who ask."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar

import structlog

from wikid_daemon.index.encoders import damage
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import ModelFolder, places
from wikid_daemon.models.mending import Mending

LIST_REMEDY: Final = "wikid models list"

T = TypeVar("T")

log = structlog.get_logger("warm")


@dataclass(frozen=True, slots=True)
class Held(Generic[T]):
    """What is known of the model now."""

    state: Literal["absent", "loading", "ready", "resting", "failed"]
    model: T | None = None
    folder: ModelFolder | None = None
    reason: str = ""
    remedy: str = ""


class WarmModel(ABC, Generic[T]):
    """A model for all vaults. While another one is loaded, the one before it answers. `what` is its name in a log."""

    def __init__(self, what: str, held: Held[T], environment: Mapping[str, str], cache: Path) -> None:
        self._what = what
        self._held = held
        self._environment = environment
        self._cache = cache
        self._configured: str | None = None
        self._loading = threading.Lock()
        self._mending = Mending(self._is_lacking, self._places, self.load)

    @property
    @abstractmethod
    def wanted(self) -> str | None:
        """The model that the environment or the settings ask for."""

    @abstractmethod
    def load(self) -> None:
        """Find and open the model; afterwards the state is ready, absent or failed."""

    @abstractmethod
    def _locate(self) -> ModelFolder | None:
        """The folder of the model that is wanted; None where there is none. OSError, ModelUnusable."""

    @abstractmethod
    def _open(self, folder: ModelFolder) -> T:
        """The model of that folder, warm. OSError, ModelUnusable."""

    @abstractmethod
    def _absent(self) -> Held[T]:
        """What is to be said where no folder is found."""

    @abstractmethod
    def _is_lacking(self) -> bool:
        """Whether mended files would bring it back."""

    @property
    def folder(self) -> ModelFolder | None:
        """The folder of the model in use, or of the one that failed."""
        return self._held.folder

    def configure(self, name: str | None) -> None:
        """The settings ask for another model, or none of their own, from the next load on."""
        self._configured = name

    def found_damaged(self, folder: ModelFolder, files: list[str]) -> None:
        """Where this is the model in use, answer without it until its files are mended."""
        with self._loading:
            if self._held.folder is None or self._held.folder.path != folder.path:
                return
            problem = damage(folder, files)
            self._mending.attempt()
            self._held = Held("failed", None, folder, problem.reason, problem.hint)
        log.warning(f"{self._what}_failed")

    def _start(self, thread: str) -> None:
        """Load without making anybody wait, and again when the files have been mended."""
        threading.Thread(target=self.load, name=f"load-{thread}", daemon=True).start()
        self._mending.start(f"mend-{thread}")

    def _loaded(self, remedy: str) -> Held[T]:
        """The model as it is found on disk, or why it fails; `remedy` is for files that cannot be read."""
        folder: ModelFolder | None = None
        try:
            folder = self._locate()
            return self._absent() if folder is None else Held("ready", self._open(folder), folder)
        except OSError as problem:
            reason = f"The {self._what} cannot be read ({type(problem).__name__})."
        except ModelUnusable as problem:
            reason, remedy = problem.reason, problem.hint
        except Exception as problem:  # else it would be loading for ever; told with its kind
            log.exception(f"{self._what}_not_loaded")
            reason, remedy = f"The {self._what} does not load ({type(problem).__name__}).", LIST_REMEDY
        return Held("failed", None, folder, reason, remedy)

    def _places(self) -> Iterator[Path]:
        try:
            yield from places(self.wanted or "", self._environment, self._cache)
        except ModelUnusable:  # a name that cannot be one: no file will help
            return
