"""The embedding model of the tour: the one that is there, or one built now and kept in the user's cache."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from wikid_client.caller import OnProgress, Progress
from wikid_daemon.models.build import build
from wikid_daemon.models.catalogue import CATALOGUE, DEFAULT_MODEL
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import ModelFolder, locate
from wikid_protocol.endpoint import folders


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model the daemon will find, and whether it was built just now."""

    folder: ModelFolder
    built: bool

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(each.size for each in self.folder.files)


def prepare(progress: OnProgress) -> Prepared:
    """Find the model or build it. ModelBuildFailed, ModelUnusable: the cache is then as it was.

    In this process and not in the daemon, whose private home hides the user's package index settings. A
    KeyboardInterrupt ends the build and is passed on when nothing of it is left.
    """
    wanted = os.environ.get("WIKID_EMBED_MODEL") or DEFAULT_MODEL
    found = _present(wanted)
    if found is not None:
        return Prepared(found, built=False)

    def report(message: str, share: float | None) -> None:
        progress(Progress("report", message, None if share is None else 100 * share))

    return Prepared(_built(wanted, report), built=True)


def _present(wanted: str) -> ModelFolder | None:
    try:
        return locate(os.environ, folders().cache, None)
    except ModelUnusable:
        if wanted not in CATALOGUE:
            raise
        return None  # building it again repairs it


def _built(wanted: str, report: Callable[[str, float | None], None]) -> ModelFolder:
    """Built on a thread of its own: a signal reaches this one, which tells the build and waits for its end."""
    stop = threading.Event()
    with ThreadPoolExecutor(1, "build-model") as threads:
        building = threads.submit(build, wanted, folders().cache, report, stop.is_set)
        try:
            return building.result()
        finally:
            stop.set()
