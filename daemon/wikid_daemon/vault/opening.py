"""Vaults' folders as seen from outside of their indexers: one that never answers is told, and no other waits for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from wikid_daemon.core.names import printable
from wikid_daemon.files import Stamp, stamp_of
from wikid_daemon.threads import FOREVER, Alive, Cancelled, Threads, TimedOut, Wait
from wikid_daemon.vault.resolve import Personal, personal_place
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
LOOK_THREADS: Final = 32
LOOK_SECONDS: Final = 2.0

T = TypeVar("T")
SettingsStamp = tuple[str | None, Stamp | None, Stamp | None]


class NotAnswering(VaultError):
    """The folder is on a disk or a share that is silent; `folder` is told where no vault's name tells it."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(
            "its folder does not answer" if folder is None else f"the folder {printable(str(folder))} does not answer"
        )
        self.folder = folder


@dataclass(frozen=True, slots=True)
class Opened:
    """A vault, and what its settings were when it was opened."""

    vault: Vault
    settings: SettingsStamp


class _Look:
    """A look at a folder that a call named: `begun` and `ended` by its thread."""

    __slots__ = ("begun", "ended", "folder")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.begun = self.ended = False


class FolderThreads:
    """A thread for each vault's folder that is looked at, and a few for the folders that calls name, so that one hangs
    alone. While it does, more looks at it fail at once; any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folders: dict[Path, Threads] = {}
        self._looks = Threads("look", LOOK_THREADS, ANSWER_SECONDS)
        self._hanging: set[_Look] = set()
        self._closed = False

    def begin(self, folder: Path, look: Callable[[Alive], T]) -> Wait[T]:
        """Have the folder's thread look; what is returned waits for what `look` returns or raises, and must be called.
        NotAnswering, Cancelled."""
        with self._lock:
            if self._closed:
                raise Cancelled
            if folder not in self._folders:
                self._folders[folder] = Threads(f"open-{folder.name}", 1, ANSWER_SECONDS)
            wait = self._folders[folder].begin(look)
        return lambda within=FOREVER: _answer(wait, within)

    def look(self, folder: Path, work: Callable[[], T], within: float = LOOK_SECONDS) -> T:
        """What `work` brings that looks at a folder of which nothing is known, such as a caller's, and at those around
        it. NotAnswering where that takes longer, and while an earlier look there, or above, still hangs; Cancelled."""
        if self._hanging and self._hangs(folder):
            raise NotAnswering(folder)
        look = _Look(folder)

        def watched(_alive: Alive) -> T:
            look.begun = True
            try:
                return work()
            finally:
                with self._lock:
                    look.ended = True
                    self._hanging.discard(look)

        try:
            return self._looks.begin(watched)(within)
        except TimedOut as problem:
            with self._lock:
                if look.begun and not look.ended:
                    self._hanging.add(look)
            raise NotAnswering(folder) from problem

    def personal(self, home: Path, wiki_home: str | None, within: float) -> Personal | None:
        """Of a personal vault that has a place of its own, which may be silent: then it is taken to be there."""
        if not wiki_home:
            return None
        place = Path(os.path.expanduser(wiki_home))
        try:
            return self.look(place, lambda: personal_place(home, wiki_home), within)
        except NotAnswering:
            return place, True

    def _hangs(self, folder: Path) -> bool:
        around = {folder, *folder.parents}
        with self._lock:
            return any(each.folder in around for each in self._hanging)

    def close(self) -> None:
        """End every wait, by Cancelled; what hangs is left to itself."""
        with self._lock:
            self._closed = True
            for threads in (self._looks, *self._folders.values()):
                threads.close()


def _answer(wait: Wait[T], within: float) -> T:
    try:
        return wait(within)
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
