"""Vaults' folders as seen from outside of their indexers: one that never answers is told, and no other waits for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from wikid_daemon.files import Stamp, stamp_of
from wikid_daemon.threads import Alive, Cancelled, Threads, TimedOut
from wikid_daemon.vault.vault import (
    LEGACY_MARKER,
    NEW_MARKER,
    Vault,
    VaultError,
    VaultMissing,
    absent_vault,
    marker_of,
    open_vault,
)

ANSWER_SECONDS: Final = 10.0
PATH_THREADS: Final = 2

T = TypeVar("T")
SettingsStamp = tuple[str | None, Stamp | None, Stamp | None]


class NotAnswering(VaultError):
    """The folder is on a disk or a share that is silent."""

    def __init__(self) -> None:
        super().__init__("its folder does not answer")


@dataclass(frozen=True, slots=True)
class Opened:
    """A vault, and what its settings were when it was opened."""

    vault: Vault
    settings: SettingsStamp


class FolderThreads:
    """A thread for each folder that is looked at, so that one hangs alone. While it does, more looks at its folder fail
    at once; any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folders: dict[Path, Threads] = {}
        self._paths = Threads("path", PATH_THREADS, ANSWER_SECONDS)
        self._closed = False

    def begin(self, folder: Path, look: Callable[[Alive], T]) -> Callable[[], T]:
        """Have the folder's thread look; what is returned waits for what `look` returns or raises, and must be called.
        NotAnswering, Cancelled."""
        with self._lock:
            if self._closed:
                raise Cancelled
            if folder not in self._folders:
                self._folders[folder] = Threads(f"open-{folder.name}", 1, ANSWER_SECONDS)
            wait = self._folders[folder].begin(look)
        return lambda: _answer(wait)

    def real(self, path: Path) -> Path:
        """The path without symlinks, whether or not something is there. NotAnswering, Cancelled."""
        return Path(_answer(self._paths.begin(lambda _alive: os.path.realpath(path))))

    def close(self) -> None:
        """End every wait, by Cancelled; what hangs is left to itself."""
        with self._lock:
            self._closed = True
            for threads in (self._paths, *self._folders.values()):
                threads.close()


def _answer(wait: Callable[[], T]) -> T:
    try:
        return wait()
    except TimedOut as problem:
        raise NotAnswering from problem


def opened(path: Path, name: str | None, state_home: Path) -> Opened:
    """`open_vault`, with what tells later that the vault must be opened anew."""
    vault = open_vault(path, name=name, state_home=state_home)
    return Opened(vault, settings_stamp(vault.root))


def opened_or_known(path: Path, name: str, vault_id: str, state_home: Path) -> Opened:
    """The same; where nothing is at the path but an index of it is kept, the vault as it is known."""
    try:
        return opened(path, name, state_home)
    except VaultMissing:
        absent = absent_vault(path, name=name, vault_id=vault_id, state_home=state_home)
        if absent is None:
            raise
        return Opened(absent, settings_stamp(path))


def settings_stamp(root: Path) -> SettingsStamp:
    """What tells that a vault must be opened anew: its marker, and the state of its config and its root index."""
    layout = marker_of(root)
    if layout is None:
        return None, None, None
    base = root / (NEW_MARKER if layout == "new" else LEGACY_MARKER)
    index = (base if layout == "new" else root) / "wiki" / "index.md"
    return layout, _stamp(base / "config.json"), _stamp(index)


def _stamp(path: Path) -> Stamp | None:
    try:
        return stamp_of(os.stat(path))
    except OSError:
        return None  # not there, or not to be seen: the same for this purpose
