"""The vaults this daemon serves: opened from the registry, each with its indexer, and found by name, id or folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import structlog

from wikid_daemon.indexer import Indexer
from wikid_daemon.vault.registry import Registry, RegistryEntry
from wikid_daemon.vault.resolve import Resolution, personal_root, resolve
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import NEW_MARKER, Vault, VaultError, init_vault, marker_of, open_vault

log = structlog.get_logger("vaults")

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

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open every registered vault; one that cannot be opened is kept and told, never forgotten."""
        self._registry.load()
        with self._lock:
            for entry in self._registry.list():
                self._open_entry(entry)

    def close(self) -> None:
        with self._lock:
            indexers = list(self._open.values())
            self._open.clear()
        for indexer in indexers:
            indexer.close()

    def _open_entry(self, entry: RegistryEntry) -> None:
        try:
            vault = open_vault(entry.path, name=entry.name, state_home=self._state_home)
        except (VaultError, OSError) as problem:
            self._unopened[entry.path] = Unopened(entry, str(problem))
            log.warning("vault_not_opened", vault_id=entry.vault_id, kind=type(problem).__name__)
            return
        self._unopened.pop(entry.path, None)
        self._begin(vault)

    def _begin(self, vault: Vault) -> Indexer:
        indexer = self._make_indexer(vault, machine_id(self._state_home))
        self._open[vault.root] = indexer
        if vault.blocked is None or vault.blocked.serve:
            indexer.start()
        return indexer

    # -- changing ------------------------------------------------------------------------------------------------------

    def add(self, path: Path, name: str | None) -> Indexer:
        """Register the folder and start indexing it. Adding it again gives what is there. VaultError."""
        with self._lock:
            vault = open_vault(path, name=name, state_home=self._state_home)
            present = self._open.get(vault.root)
            if present is not None and name in (None, present.vault.name):
                self._register(present.vault)
                return present
            if present is not None:
                present.close()
            self._register(vault)
            return self._begin(vault)

    def _register(self, vault: Vault) -> None:
        self._registry.add(RegistryEntry(vault.root, vault.name, vault.vault_id))

    def init(self, path: Path, topic: str, mode: str, name: str | None) -> Indexer:
        """Make a new vault in the folder and register it. VaultError."""
        return self.add(init_vault(path, topic, mode), name)

    def remove(self, wanted: str) -> Vault | RegistryEntry:
        """Stop serving a vault and forget it; its files stay. UnknownVault."""
        with self._lock:
            for path, unopened in list(self._unopened.items()):
                if wanted in (unopened.entry.name, unopened.entry.vault_id, str(path)):
                    self._registry.remove(path)
                    del self._unopened[path]
                    return unopened.entry
            indexer = self.find(wanted)
            self._registry.remove(indexer.vault.root)
            del self._open[indexer.vault.root]
        indexer.close()
        return indexer.vault

    # -- finding -------------------------------------------------------------------------------------------------------

    def all(self) -> list[Indexer]:
        with self._lock:
            return [self._open[root] for root in sorted(self._open)]

    def unopened(self) -> list[Unopened]:
        with self._lock:
            return [self._unopened[root] for root in sorted(self._unopened)]

    def faults(self) -> list[str]:
        """What was wrong with the registry's file."""
        return [fault.message for fault in self._registry.faults]

    def find(self, wanted: str) -> Indexer:
        """The vault with this id, name or path. UnknownVault."""
        with self._lock:
            for indexer in self._open.values():
                if wanted in (indexer.vault.vault_id, indexer.vault.name):
                    return indexer
            given = Path(os.path.realpath(os.path.expanduser(wanted)))
            if given in self._open:
                return self._open[given]
            raise UnknownVault(tuple(sorted(indexer.vault.name for indexer in self._open.values())))

    def resolve(self, cwd: Path) -> Resolution:
        with self._lock:
            registered = [root for root in self._open if root != self._personal_root()]
        return resolve(cwd, registered, home=self._home, wiki_home=self._wiki_home)

    def _personal_root(self) -> Path:
        return personal_root(self._home, self._wiki_home)

    def personal(self) -> Indexer | None:
        root = self._personal_root()
        return self._serving(root) if os.path.lexists(root / NEW_MARKER) else None

    def _serving(self, root: Path) -> Indexer | None:
        """The indexer of a vault that applies, opened for this daemon's life when nobody registered it."""
        with self._lock:
            present = self._open.get(root)
            if present is not None:
                return present
            if marker_of(root) is None:
                return None
            try:
                return self._begin(open_vault(root, name=None, state_home=self._state_home))
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
