"""A fresh index of a vault's files, built in a folder of its own beside the one that answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from wikid_daemon.core.manifest import below
from wikid_daemon.core.names import printable
from wikid_daemon.index.store import Store
from wikid_daemon.steps import Progress, Told, telling, untold
from wikid_daemon.updater import IndexState, RootUnavailable, Updater
from wikid_daemon.vault.mirror import NoMirror
from wikid_daemon.vault.reading import VaultReader
from wikid_daemon.vault.vault import VaultError


class FreshIndex:
    """Built from nothing in `folder`; the caller closes `store`. No text is embedded here.

    `cancelled` is asked between two batches, and may do something else meanwhile.
    """

    def __init__(self, reader: VaultReader, folder: Path, mirror: NoMirror, cancelled: Callable[[], bool]) -> None:
        self.store = Store(folder)
        self._state = IndexState()
        self._updater = Updater(reader, self.store, mirror, self._state, lambda: 0)
        self._cancelled = cancelled

    def build(self, progress: Progress) -> None:
        """Read every file. Raises Cancelled, VaultError where the folder is gone, and what writing raises."""
        self._look(telling(progress, "building a fresh index"))

    def look(self) -> bool:
        """Take in what was saved since; whether that was anything."""
        return self._look()

    def _look(self, told: Told = untold) -> bool:
        try:
            return self._updater.look(cancelled=self._cancelled, told=told).changed
        except RootUnavailable as problem:
            raise VaultError(f"the folder of the pages is not available: {problem.reason}") from problem

    def unreadable(self, path: str) -> bool:
        """Whether the file, or a folder above it, cannot be read now, so that an older index may know more of it."""
        return bool(below([printable(path)], self._state.failed))
