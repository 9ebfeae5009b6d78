"""The vaults this daemon serves: opened from the registry, each with its indexer, and found by name, id or folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import structlog

from wikid_daemon.files import Stamp, stamp_of
from wikid_daemon.indexer import Indexer
from wikid_daemon.vault.registry import Registry, RegistryEntry, RegistryUnreadable
from wikid_daemon.vault.resolve import Resolution, personal_root, resolve
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import (
    LEGACY_MARKER,
    NEW_MARKER,
    Vault,
    VaultError,
    VaultMissing,
    absent_vault,
    init_vault,
    marker_of,
    open_vault,
)

log = structlog.get_logger("vaults")

REFRESH_SECONDS: Final = 5.0
FIRST_SECONDS: Final = 5.0  # that a call waits, after the daemon's start, for vaults to be opened
Layer = Literal["project", "personal", "registered"]
REASONS: Final = {
    "registered": "the deepest registered folder that contains this one",
    "marker_here": "this folder is a vault",
    "wiki_home": "WIKI_HOME names it",
    "marker_above": "the nearest folder above that is a vault",
    "personal": "the personal vault",
}


class UnknownVault(Exception):
    """No vault has this name, id or path; `known` lists the names there are."""

    def __init__(self, known: tuple[str, ...]) -> None:
        super().__init__("no such vault")
        self.known = known


class AmbiguousVault(Exception):
    """Several vaults have this name or id; `paths` tells them apart."""

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__("several vaults have that name or id")
        self.paths = tuple(sorted(map(str, paths)))


@dataclass(frozen=True, slots=True)
class Applied:
    """A vault that a call searches, in which layer, and why."""

    indexer: Indexer
    layer: Layer
    reason: str

    @property
    def vault(self) -> Vault:
        return self.indexer.vault


@dataclass(frozen=True, slots=True)
class Unopened:
    """A registered vault whose folder cannot be opened now."""

    entry: RegistryEntry
    reason: str


_SettingsStamp = tuple[str | None, Stamp | None, Stamp | None]


class Vaults:
    """Opens and closes vaults; every method may be called from any thread."""

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
        self._settings: dict[Path, _SettingsStamp] = {}
        self._settling: dict[Path, _SettingsStamp] = {}
        self._stop = threading.Event()
        self._tried = threading.Event()
        self._tried.set()
        self._thread = threading.Thread(target=self._run, name="vaults", daemon=True)

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Know every registered vault, and open them in the background; one that cannot be opened is kept, told, and
        tried again, as are the settings of those that are open."""
        self._load()
        self._tried.clear()
        self._thread.start()

    def close(self) -> None:
        """Stop every vault, and wait for all."""
        self._stop.set()
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
                self._unopened[entry.path] = Unopened(entry, "it is still being opened")

    def refresh(self) -> None:
        """Try again what could not be opened, and take over what the settings of open vaults have become."""
        if not self._listed:
            self._load()
        for unopened in self.unopened():
            self._open_entry(unopened)
        with self._lock:
            indexers = list(self._open.values())
        for indexer in indexers:
            self._reconsider(indexer)

    def _open_entry(self, known: Unopened) -> None:
        entry = known.entry
        try:
            vault = self._opened(entry)
            with self._lock:
                if entry.path in self._unopened:
                    if vault.root not in self._open:
                        self._begin(vault)
                    self._unopened.pop(entry.path, None)
        except (VaultError, OSError) as problem:
            if known.reason != str(problem):
                log.warning("vault_not_opened", vault_id=entry.vault_id, kind=type(problem).__name__)
            with self._lock:
                if entry.path in self._unopened:
                    self._unopened[entry.path] = Unopened(entry, str(problem))

    def _opened(self, entry: RegistryEntry) -> Vault:
        try:
            return open_vault(entry.path, name=entry.name, state_home=self._state_home)
        except VaultMissing:
            absent = absent_vault(entry.path, name=entry.name, vault_id=entry.vault_id, state_home=self._state_home)
            if absent is None:
                raise
            return absent

    def _reconsider(self, indexer: Indexer) -> None:
        """Open the vault anew where its config, its root index or its marker is another now, and has settled."""
        vault, root = indexer.vault, indexer.vault.root
        seen = _settings_stamp(root)
        if seen == self._settings.get(root) or (vault.kind == "wiki" and seen[0] is None):
            return  # a marker that is gone is a folder that is gone, which the indexer tells
        if self._settling.get(root) != seen:
            self._settling[root] = seen
            return
        try:
            changed = open_vault(root, name=vault.name, state_home=self._state_home)
        except (VaultError, OSError):
            return  # the indexer tells that the folder is gone
        with self._lock:
            if self._open.get(root) is indexer:
                self._settings[root] = seen
                if changed != vault:
                    log.info("vault_changed", vault_id=changed.vault_id)
                    self._begin(changed)

    def _begin(self, vault: Vault) -> Indexer:
        """Serve the vault, in place of the indexer it has; what that one still holds is waited for by the new one."""
        if self._stop.is_set():
            raise VaultError("the daemon is stopping")
        indexer = self._make_indexer(vault, machine_id(self._state_home))
        before = self._open.get(vault.root)
        if before is not None:
            self._retire(before)
        self._open[vault.root] = indexer
        self._unopened.pop(vault.root, None)
        self._settings.setdefault(vault.root, _settings_stamp(vault.root))
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
        vault = open_vault(path, name=name, state_home=self._state_home)
        with self._lock:
            present, known = self._open.get(vault.root), self._unopened.get(vault.root)
            if name is None and present is not None:
                vault = replace(vault, name=present.vault.name)
            elif name is None and known is not None:
                vault = replace(vault, name=known.entry.name)
            self._registry.add(RegistryEntry(vault.root, vault.name, vault.vault_id))
            return present if present is not None and present.vault == vault else self._begin(vault)

    def init(self, path: Path, topic: str, mode: str, name: str | None) -> Indexer:
        """Make a new vault in the folder and register it. VaultError."""
        return self.add(init_vault(path, topic, mode), name)

    def remove(self, wanted: str) -> Vault | RegistryEntry:
        """Stop serving a vault and forget it; its files stay. UnknownVault, AmbiguousVault, RegistryUnreadable."""
        self._tried.wait(FIRST_SECONDS)
        with self._lock:
            entries = [
                each.entry
                for path, each in self._unopened.items()
                if wanted in (each.entry.name, each.entry.vault_id, str(path))
            ]
            indexers = self._matching(wanted)
            if len(entries) + len(indexers) > 1:
                raise AmbiguousVault([*(each.path for each in entries), *(each.vault.root for each in indexers)])
            if entries:
                self._registry.remove(entries[0].path)
                del self._unopened[entries[0].path]
                return entries[0]
            indexer = self.find(wanted)
            self._registry.remove(indexer.vault.root)
            self._retire(indexer)
        indexer.close()
        return indexer.vault

    # -- finding -------------------------------------------------------------------------------------------------------

    def all(self) -> list[Indexer]:
        """The open vaults, by path."""
        self._tried.wait(FIRST_SECONDS)
        with self._lock:
            return [self._open[root] for root in sorted(self._open)]

    def unopened(self) -> list[Unopened]:
        with self._lock:
            return [self._unopened[root] for root in sorted(self._unopened)]

    def faults(self) -> list[str]:
        """What was wrong with the registry's file."""
        return [fault.message for fault in self._registry.faults]

    def _matching(self, wanted: str) -> list[Indexer]:
        found = [each for each in self._open.values() if wanted in (each.vault.vault_id, each.vault.name)]
        given = Path(os.path.realpath(os.path.expanduser(wanted)))
        return found or ([self._open[given]] if given in self._open else [])

    def find(self, wanted: str) -> Indexer:
        """The vault with this id, name or path. UnknownVault, AmbiguousVault."""
        self._tried.wait(FIRST_SECONDS)
        with self._lock:
            found = self._matching(wanted)
            if len(found) == 1:
                return found[0]
            if found:
                raise AmbiguousVault([each.vault.root for each in found])
            raise UnknownVault(tuple(sorted(indexer.vault.name for indexer in self._open.values())))

    def resolve(self, cwd: Path) -> Resolution:
        with self._lock:
            # a registered folder that cannot be opened now still is the project, and not the personal vault's
            registered = [root for root in (*self._open, *self._unopened) if root != self._personal_root()]
        return resolve(cwd, registered, home=self._home, wiki_home=self._wiki_home)

    def _personal_root(self) -> Path:
        return personal_root(self._home, self._wiki_home)

    def personal(self) -> Indexer | None:
        root = self._personal_root()
        return self._serving(root) if os.path.lexists(root / NEW_MARKER) else None

    def _serving(self, root: Path) -> Indexer | None:
        """The indexer of a vault that applies, opened for this daemon's life when nobody registered it."""
        self._tried.wait(FIRST_SECONDS)
        with self._lock:
            present = self._open.get(root)
            if present is not None:
                return present
            if marker_of(root) is None:
                return None
            try:
                known = self._unopened.get(root)
                name = None if known is None else known.entry.name
                return self._begin(open_vault(root, name=name, state_home=self._state_home))
            except (VaultError, OSError) as problem:
                log.warning("vault_not_opened", kind=type(problem).__name__)
                return None

    def applying(self, cwd: Path, *, automatic: bool) -> list[Applied]:
        """The vaults that answer for a folder, the project's first (vault format §1.2, §11.36).

        Without any an explicit recall searches all registered vaults, an automatic one none; an automatic one never
        crosses from a project into the personal vault.
        """
        resolution = self.resolve(cwd)
        found: list[Applied] = []
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
        return found or [Applied(each, "registered", "no vault applies to the folder") for each in self.all()]

    def chosen(self, wanted: str | None, cwd: Path | None, *, automatic: bool) -> list[Applied]:
        """The vaults of a call that names one, a layer, or a folder. UnknownVault."""
        where = cwd if cwd is not None else self._home
        if wanted in (None, "active"):
            return self.applying(where, automatic=automatic)
        if wanted == "all":
            return [Applied(each, self._layer(each), "all vaults") for each in self.all()]
        if wanted in ("personal", "project"):
            return [each for each in self.applying(where, automatic=False) if each.layer == wanted]
        assert wanted is not None
        indexer = self.find(wanted)
        return [Applied(indexer, self._layer(indexer), "named in the call")]

    def _layer(self, indexer: Indexer) -> Layer:
        return "personal" if indexer.vault.root == self._personal_root() else "registered"


def _settings_stamp(root: Path) -> _SettingsStamp:
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
