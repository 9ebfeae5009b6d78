"""Makes Java's archive for the next start, on a thread that keeps no daemon from ending."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import structlog

from wikid_daemon.index import jvm_archive

AFTER_SECONDS: Final = 60.0  # by then whoever started the daemon has their first answers
CLEARING_SECONDS: Final = 1.0

log = structlog.get_logger("archiving")


class Archiving:
    """One attempt below `cache`, some time after `start`, unless an earlier run has made it."""

    def __init__(self, cache: Path, after: float = AFTER_SECONDS) -> None:
        self._cache = cache
        self._children = jvm_archive.Children()
        self._thread = threading.Timer(after, self._make)
        self._thread.name, self._thread.daemon = "archive-java", True

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End what runs. What it leaves on the disk, if there is no time to clear it, the next attempt removes."""
        self._thread.cancel()
        self._children.end()
        if self._thread.is_alive():
            self._thread.join(CLEARING_SECONDS)

    def _make(self) -> None:
        try:
            jvm_archive.make(self._cache, self._children)
        except jvm_archive.NotArchived as problem:
            if not self._children.ended:
                log.warning("java_not_archived", error=str(problem))
