"""The vaults this daemon serves: opened from the registry, each with its indexer, and found by name, id or folder."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal

import structlog

from wikid_daemon.indexer import Indexer
from wikid_daemon.threads import Alive, Cancelled
from wikid_daemon.unserved import AmbiguousVault, NotOpen, UnknownVault, Unopened, only
from wikid_daemon.vault.opening import (
    FolderThreads,
    NotAnswering,
    Opened,
    SettingsStamp,
    opened,
    opened_or_known,
    settings_stamp,
)
from wikid_daemon.vault.registry import Registry, RegistryEntry, RegistryUnreadable
from wikid_daemon.vault.resolve import Resolution, personal_root, resolve
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import NEW_MARKER, Vault, VaultError, init_vault, marker_of

log = structlog.get_logger("vaults")

REFRESH_SECONDS: Final = 5.0
FIRST_SECONDS: Final = 5.0  # after the daemon's start that calls wait for vaults to be opened
Layer = Literal["project", "personal", "registered"]
ANYWHERE: Final = "no vault applies to the folder"
REASONS: Final = {
    "registered": "the deepest registered folder that contains this one",
    "marker_here": "this folder is a vault",
    "wiki_home": "WIKI_HOME names it",
    "marker_above": "the nearest folder above that is a vault",
    "personal": "the personal vault",
}


@dataclass(frozen=True, slots=True)
class Applied:
    """A vault that a call searches, in which layer, and why."""

    indexer: Indexer
    layer: Layer
    reason: str

    @property
    def vault(self) -> Vault:
        return self.indexer.vault


class Vaults:
    """Opens and closes vaults; every method may be called from any thread.

    Whoever holds the lock touches no vault's folder, since one that never answers would hold it for ever.
    """

    def __init__(
        self,
        registry: Registry,
        state_home: Path,
        make_indexer: Callable[[Vault, str], Indexer],
        environment: Mapping[str, str],
    ) -> None:
        self._registry = registry
        self._state_home = state_home
        self._make_indexer = make_indexer
        self._home = Path(environment.get("HOME") or Path.home())
        self._wiki_home = environment.get("WIKI_HOME")
        self._lock = threading.RLock()
        self._open: dict[Path, Indexer] = {}
        self._unopened: dict[Path, Unopened] = {}
        self._listed = False
        self._closing: dict[Path, Indexer] = {}
        self._settings, self._settling = dict[Path, SettingsStamp](), dict[Path, SettingsStamp]()
        self._folders = FolderThreads()
        self._stop, self._tried = threading.Event(), threading.Event()
        self._tried.set()
        self._patient_until = 0.0
        self._thread = threading.Thread(target=self._run, name="vaults", daemon=True)

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Know every registered vault, and open them in the background; one that cannot be opened is kept, told, and
        tried again, as are the settings of those that are open."""
        self._load()
        self._patient_until = time.monotonic() + FIRST_SECONDS
        self._tried.clear()
        self._thread.start()

    def close(self) -> None:
        """Stop every vault, and wait for all."""
        self._stop.set()
        self._folders.close()
        with self._lock:
            indexers = list(self._open.values())
            self._open.clear()
        for indexer in indexers:
            indexer.stop()
        for indexer in indexers:
            indexer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.refresh()
            except Cancelled:
                return  # by `close` alone
            except Exception:  # told in the log; the next round may do better
                log.exception("vaults_not_refreshed")
            self._tried.set()
            self._stop.wait(REFRESH_SECONDS)

    def _load(self) -> None:
        try:
            self._registry.load()
        except RegistryUnreadable as problem:
            log.error("registry_unreadable", kind=type(problem.__cause__).__name__)
            return
        with self._lock:
            self._listed = True
            for entry in self._registry.list():
                self._unopened[entry.path] = Unopened(entry, "it is still being opened", opening=True)

    def refresh(self) -> None:
        """Try again what could not be opened, and take over what the settings of open vaults have become."""
        if not self._listed:
            self._load()
        with self._lock:
            indexers = list(self._open.values())
        # all are begun before any is waited for, so that together they take no longer than one that is silent
        openings = [
            (each, self._folders.begin(each.entry.path, partial(self._open_entry, each.entry)))
            for each in self.unopened()
        ]
        looks = [self._folders.begin(each.vault.root, partial(self._reconsider, each)) for each in indexers]
        for known, wait in openings:
            try:
                wait()
            except (VaultError, OSError) as problem:
                self._not_opened(known, problem)
        for look in looks:
            with contextlib.suppress(VaultError, OSError):  # the indexer tells that the folder is gone, or silent
                look()

    def _not_opened(self, known: Unopened, problem: VaultError | OSError) -> None:
        if known.reason != str(problem):
            log.warning("vault_not_opened", vault_id=known.entry.vault_id, kind=type(problem).__name__)
        with self._lock:
            if known.entry.path in self._unopened:
                self._unopened[known.entry.path] = replace(known, reason=str(problem), opening=False)

    def _open_entry(self, entry: RegistryEntry, alive: Alive) -> None:
        found = opened_or_known(entry.path, entry.name, entry.vault_id, self._state_home)
        alive()  # what comes too late may be of long ago
        with self._lock:
            if entry.path in self._unopened:
                if found.vault.root not in self._open:
                    self._begin(found)
                self._unopened.pop(entry.path, None)

    def _reconsider(self, indexer: Indexer, alive: Alive) -> None:
        """Open the vault anew where its config, its root index or its marker is another now, and has settled."""
        vault, root = indexer.vault, indexer.vault.root
        seen = settings_stamp(root)
        if seen == self._settings.get(root) or (vault.kind == "wiki" and seen[0] is None):
            return  # a marker that is gone is a folder that is gone, which the indexer tells
        if self._settling.get(root) != seen:
            self._settling[root] = seen
            return
        changed = opened(root, vault.name, self._state_home).vault
        alive()
        with self._lock:
            if self._open.get(root) is indexer:
                self._settings[root] = seen
                if changed != vault:
                    log.info("vault_changed", vault_id=changed.vault_id)
                    self._begin(Opened(changed, seen))

    def _begin(self, found: Opened) -> Indexer:
        """Serve the vault, in place of the indexer it has; what that one still holds is waited for by the new one."""
        if self._stop.is_set():
            raise VaultError("the daemon is stopping")
        vault = found.vault
        indexer = self._make_indexer(vault, machine_id(self._state_home))
        before = self._open.get(vault.root)
        if before is not None:
            self._retire(before)
        self._open[vault.root] = indexer
        self._unopened.pop(vault.root, None)
        self._settings[vault.root] = found.settings
        if vault.blocked is None or vault.blocked.serve:
            indexer.start(self._closing.get(vault.root))
        return indexer

    def _retire(self, indexer: Indexer) -> None:
        indexer.stop()
        del self._open[indexer.vault.root]
        if indexer.closing:  # one that never ran must not hide another that still closes
            self._closing[indexer.vault.root] = indexer

    # -- changing ------------------------------------------------------------------------------------------------------

    def add(self, path: Path, name: str | None) -> Indexer:
        """Register the folder and start indexing it. Adding it again gives what is there, or opens it anew where its
        name or its settings have changed. VaultError, RegistryUnreadable."""
        found = self._folders.begin(path, lambda _alive: opened(path, name, self._state_home))()
        vault = found.vault
        with self._lock:
            present, known = self._open.get(vault.root), self._unopened.get(vault.root)
            if name is None and present is not None:
                vault = replace(vault, name=present.vault.name)
            elif name is None and known is not None:
                vault = replace(vault, name=known.entry.name)
            self._registry.add(RegistryEntry(vault.root, vault.name, vault.vault_id))
            if present is not None and present.vault == vault:
                return present
            return self._begin(replace(found, vault=vault))

    def init(self, path: Path, topic: str, mode: str, name: str | None) -> Indexer:
        """Make a new vault in the folder and register it. VaultError."""
        return self.add(init_vault(path, topic, mode), name)

    def remove(self, wanted: str) -> Vault | RegistryEntry:
        """Stop serving a vault and forget it; its files stay. UnknownVault, AmbiguousVault, RegistryUnreadable."""
        roots = [each.vault.root for each in self._matching(wanted)]
        with self._lock:
            entries = [
                each.entry
                for path, each in self._unopened.items()
                if wanted in (each.entry.name, each.entry.vault_id, str(path))
            ]
            indexers = [self._open[root] for root in roots if root in self._open]
            if len(entries) + len(indexers) > 1:
                raise AmbiguousVault([*(each.path for each in entries), *(each.vault.root for each in indexers)])
            if entries:
                self._registry.remove(entries[0].path)
                del self._unopened[entries[0].path]
                return entries[0]
            indexer = self._only(indexers)
            self._registry.remove(indexer.vault.root)
            self._retire(indexer)
        indexer.close()
        return indexer.vault

    # -- finding -------------------------------------------------------------------------------------------------------

    def all(self) -> list[Indexer]:
        """The open vaults, by path."""
        self._be_patient()
        with self._lock:
            return [self._open[root] for root in sorted(self._open)]

    def unopened(self) -> list[Unopened]:
        with self._lock:
            return [self._unopened[root] for root in sorted(self._unopened)]

    def faults(self) -> list[str]:
        """What was wrong with the registry's file."""
        return [fault.message for fault in self._registry.faults]

    def _be_patient(self) -> None:
        """Soon after the daemon's start, wait until every vault was tried."""
        self._tried.wait(max(self._patient_until - time.monotonic(), 0.0))

    def _matching(self, wanted: str) -> list[Indexer]:
        self._be_patient()
        given = Path(os.path.expanduser(wanted.replace("\0", "\ufffd")))  # no look at the disk survives a NUL
        with self._lock:
            found = [each for each in self._open.values() if wanted in (each.vault.vault_id, each.vault.name)]
            if found or given in self._open:
                return found or [self._open[given]]
        with contextlib.suppress(NotAnswering):
            given = self._folders.real(given)
        with self._lock:
            return [self._open[given]] if given in self._open else []

    def find(self, wanted: str) -> Indexer:
        """The vault with this id, name or path. UnknownVault, AmbiguousVault, NotOpen."""
        unopened, found = self.unopened(), self._matching(wanted)
        waiting = None if found else only([each for each in unopened if each.is_called(wanted)])
        if waiting is not None:
            raise NotOpen(waiting)
        return self._only(found)

    def _only(self, found: Sequence[Indexer]) -> Indexer:
        if len(found) > 1:
            raise AmbiguousVault([each.vault.root for each in found])
        if not found:
            raise UnknownVault(tuple(sorted(each.vault.name for each in self.all())))
        return found[0]

    def resolve(self, cwd: Path) -> Resolution:
        personal = self._personal_root()
        with self._lock:
            # a registered folder that cannot be opened now still is the project, and not the personal vault's
            registered = [root for root in (*self._open, *self._unopened) if root != personal]
        return resolve(cwd, registered, home=self._home, wiki_home=self._wiki_home)

    def _personal_root(self) -> Path:
        return personal_root(self._home, self._wiki_home)

    def personal(self) -> Indexer | None:
        root = self._personal_root()
        return self._serving(root) if os.path.lexists(root / NEW_MARKER) else None

    def _serving(self, root: Path) -> Indexer | None:
        """The indexer of a vault that applies, opened for this daemon's life when nobody registered it."""
        self._be_patient()
        with self._lock:
            present, unopened = self._open.get(root), self._unopened.get(root)
        if present is not None or (unopened is not None and unopened.opening):
            return present  # or nobody waits for what may take long: it is told
        try:
            return self._folders.begin(root, partial(self._open_marked, root))()
        except (VaultError, OSError) as problem:
            log.warning("vault_not_opened", kind=type(problem).__name__)
            return None

    def _open_marked(self, root: Path, alive: Alive) -> Indexer | None:
        if marker_of(root) is None:
            return None
        with self._lock:
            known = self._unopened.get(root)
        found = opened(root, None if known is None else known.entry.name, self._state_home)
        alive()
        with self._lock:
            return self._open.get(root) or self._begin(found)

    def applying(self, cwd: Path, *, automatic: bool, ambient: bool = True) -> list[Applied]:
        """The vaults that answer for a folder, the project's first (vault format §1.2, §11.36).

        Without any an explicit recall searches all registered vaults, an automatic one none; an automatic one never
        crosses from a project into the personal vault, nor into it at all where it is not `ambient`.
        """
        resolution = self.resolve(cwd)
        found: list[Applied] = []
        if automatic and not ambient and not resolution.unprompted:
            return found
        if resolution.active is not None:
            indexer = self._serving(resolution.active.root)
            if indexer is not None:
                layer: Layer = "personal" if resolution.active.root == resolution.personal else "project"
                found.append(Applied(indexer, layer, REASONS[resolution.active.why]))
        if automatic:
            return found
        personal = self.personal()
        if personal is not None and all(each.indexer is not personal for each in found):
            found.append(Applied(personal, "personal", REASONS["personal"]))
        return found or [Applied(each, "registered", ANYWHERE) for each in self.all()]

    def chosen(self, wanted: str | None, cwd: Path | None, *, automatic: bool, ambient: bool = True) -> list[Applied]:
        """The vaults of a call that names one, a layer, or a folder. UnknownVault, AmbiguousVault, NotOpen."""
        where = cwd if cwd is not None else self._home
        # not even asked for all of them would an automatic recall mix the layers
        if wanted in (None, "active") or (wanted == "all" and automatic):
            return self.applying(where, automatic=automatic, ambient=ambient)
        if wanted == "all":
            return [Applied(each, self._layer(each), "all vaults") for each in self.all()]
        assert wanted is not None
        if wanted in ("personal", "project"):
            found = [each for each in self.applying(where, automatic=False) if each.layer == wanted]
            if found or not self._matching(wanted):  # a vault may be named so, and a page is addressed by its vault
                return found
        indexer = self.find(wanted)
        return [Applied(indexer, self._layer(indexer), "named in the call")]

    def looked_through(
        self, wanted: str | None, cwd: Path | None, *, automatic: bool, ambient: bool = True
    ) -> tuple[list[Applied], list[Unopened]]:
        """`chosen` for a call that tells what it could not look through: the vaults that it is for as well and that are
        not open. UnknownVault, AmbiguousVault."""
        unopened = self.unopened()
        try:
            found = self.chosen(wanted, cwd, automatic=automatic, ambient=ambient)
        except NotOpen as problem:
            return [], [problem.unopened]
        if not unopened:
            return found, []
        where = self.resolve(cwd if cwd is not None else self._home)
        meant = {each.entry.path for each in unopened}
        if automatic:
            meant &= set(where.roots[:1] if ambient or where.unprompted else ())
        elif wanted != "all" and (wanted not in (None, "active") or any(each.reason != ANYWHERE for each in found)):
            meant &= set(where.layer(wanted))
        return found, [each for each in unopened if each.entry.path in meant - {each.vault.root for each in found}]

    def _layer(self, indexer: Indexer) -> Layer:
        return "personal" if indexer.vault.root == self._personal_root() else "registered"
