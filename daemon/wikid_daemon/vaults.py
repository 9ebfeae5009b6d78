"""The vaults this daemon serves: opened from the registry, each with its indexer, and found by name, id or folder."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar

import structlog

from wikid_daemon.indexer import Indexer
from wikid_daemon.threads import FOREVER, Alive, Cancelled
from wikid_daemon.unserved import AmbiguousVault, NotOpen, UnknownVault, Unopened, unregistered
from wikid_daemon.vault.opening import (
    LOOK_SECONDS,
    FolderThreads,
    NotAnswering,
    Opened,
    SettingsStamp,
    opened,
    opened_or_known,
    settings_stamp,
)
from wikid_daemon.vault.registry import Registry, RegistryEntry, RegistryUnreadable
from wikid_daemon.vault.resolve import Resolution, resolve
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import Vault, VaultError, init_vault, marker_of

log = structlog.get_logger("vaults")

REFRESH_SECONDS: Final = 5.0
OF_FOLDER: Final = (None, "active", "personal", "project")  # for these words it matters where a call is made
FIRST_SECONDS: Final = 5.0  # after the daemon's start that calls wait for vaults to be opened
Layer = Literal["project", "personal", "registered"]
T = TypeVar("T")


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
        return self.add(self._folders.begin(path, lambda _alive: init_vault(path, topic, mode))(), name)

    def remove(self, wanted: str) -> Vault | RegistryEntry:
        """Stop serving a vault and forget it; its files stay. UnknownVault, AmbiguousVault, RegistryUnreadable."""
        roots = [each.vault.root for each in self._matching(wanted)]
        with self._lock:
            entries = [each.entry for each in self._unopened.values() if each.is_called(wanted)]
            indexers = [self._open[root] for root in roots if root in self._open]
            if len(entries) + len(indexers) > 1:
                raise AmbiguousVault([*(each.path for each in entries), *(each.vault.root for each in indexers)])
            if entries:
                self._registry.remove(entries[0].path)
                del self._unopened[entries[0].path]
                return entries[0]
            if not indexers:
                raise self._unknown()
            indexer = indexers[0]
            self._registry.remove(indexer.vault.root)
            self._retire(indexer)
        indexer.close()
        return indexer.vault

    # -- finding -------------------------------------------------------------------------------------------------------

    def all(self) -> list[Indexer]:
        """The open vaults, by path."""
        return self._everything()[0]

    def unopened(self) -> list[Unopened]:
        return self._everything(until=0.0)[1]

    def _everything(self, until: float = FOREVER) -> tuple[list[Indexer], list[Unopened]]:
        self._be_patient(until)
        with self._lock:
            indexers, away = sorted(self._open.items()), sorted(self._unopened.items())
        return [each for _, each in indexers], [each for _, each in away]

    def faults(self) -> list[str]:
        """What was wrong with the registry's file."""
        return [fault.message for fault in self._registry.faults]

    def _be_patient(self, until: float = FOREVER, root: Path | None = None) -> None:
        """Soon after the daemon's start, wait until every vault was tried, unless it is about one that is open."""
        if root not in self._open:
            self._tried.wait(max(min(self._patient_until, until) - time.monotonic(), 0.0))

    def _matching(self, wanted: str, until: float = FOREVER) -> list[Indexer]:
        self._be_patient(until)
        given = Path(os.path.expanduser(wanted.replace("\0", "\ufffd")))  # no look at the disk survives a NUL
        with self._lock:
            found = [each for each in self._open.values() if wanted in (each.vault.vault_id, each.vault.name)]
            if found or given in self._open:
                return found or [self._open[given]]
        if given.is_absolute():
            within = min(max(until - time.monotonic(), 0.0), LOOK_SECONDS)
            with contextlib.suppress(NotAnswering):
                given = Path(self._folders.look(given, partial(os.path.realpath, given), within))
        with self._lock:
            return [self._open[given]] if given in self._open else []

    def find(self, wanted: str, until: float = FOREVER) -> Indexer:
        """The vault with this id, name or path. UnknownVault, AmbiguousVault, NotOpen."""
        away, found = [each for each in self.unopened() if each.is_called(wanted)], self._matching(wanted, until)
        paths = {*(each.entry.path for each in away), *(each.vault.root for each in found)}
        if len(paths) > 1:
            raise AmbiguousVault(list(paths))
        if not found:
            raise NotOpen(away[0]) if away else self._unknown()
        return found[0]

    def _unknown(self) -> UnknownVault:
        return UnknownVault(tuple(sorted(each.vault.name for each in self.all())))

    def resolve(self, cwd: Path | None) -> Resolution:
        """What applies to a folder, or to the user's own for None. NotAnswering, as those below that look at one."""
        return self.seen(cwd, lambda: None)[0]

    def seen(self, cwd: Path | None, also: Callable[[], T], within: float = LOOK_SECONDS) -> tuple[Resolution, T]:
        """The same, with what `also` finds in the same look at the folder, of `within` seconds."""
        where = self._home if cwd is None else cwd
        with self._lock:
            # a registered folder that cannot be opened now still is the project, and not the personal vault's
            registered = [*self._open, *self._unopened]
        known = self._folders.personal(self._home, self._wiki_home, within)
        found = partial(resolve, where, registered, home=self._home, wiki_home=self._wiki_home, known=known)
        return self._folders.look(where, lambda: (found(), also()), within)

    def _serving(self, root: Path, until: float) -> Indexer | Unopened | None:
        """The indexer of a vault that applies, opened for this daemon's life when nobody registered it, or why there is
        none; None where it is no vault any more."""
        self._be_patient(until, root)
        with self._lock:
            present, unopened = self._open.get(root), self._unopened.get(root)
        if present is not None or (unopened is not None and unopened.opening):
            return present or unopened  # nobody waits for what may take long: it is told
        try:
            return self._folders.begin(root, partial(self._open_marked, root))(until - time.monotonic()) or unopened
        except (VaultError, OSError) as problem:
            log.warning("vault_not_opened", kind=type(problem).__name__)
            is_late = isinstance(problem, NotAnswering) and time.monotonic() >= until
            return unopened or unregistered(root, str(problem), opening=is_late)

    def _open_marked(self, root: Path, alive: Alive) -> Indexer | None:
        with self._lock:
            present, known = self._open.get(root), self._unopened.get(root)
        if present is not None or marker_of(root) is None:
            return present  # opened for another call, while this one waited
        found = opened(root, None if known is None else known.entry.name, self._state_home)
        alive()
        with self._lock:
            return self._open.get(root) or self._begin(found)

    def applying(
        self, where: Path | Resolution | None, *, automatic: bool, ambient: bool = True, until: float = FOREVER
    ) -> tuple[list[Applied], list[Unopened]]:
        """The vaults that answer for a folder, the project's first (vault format §1.2, §11.36), and those that would
        and are not open.

        Where none would, an explicit recall searches all registered vaults, an automatic one none; an automatic one
        never crosses from a project into the personal vault, nor into it at all where it is not `ambient`.
        """
        where = where if isinstance(where, Resolution) else self.resolve(where)
        if not automatic and where.active is None:
            everything, away = self._everything(until)
            return [Applied(each, "registered", "no vault applies to the folder") for each in everything], away
        roots = where.unprompted_roots(ambient=ambient) if automatic else where.roots
        found, left_out = list[Applied](), list[Unopened]()
        for root in roots:
            served = self._serving(root, until)
            if isinstance(served, Unopened):
                left_out.append(served)
            elif served is not None:
                layer: Layer = "personal" if root == where.personal else "project"
                found.append(Applied(served, layer, where.reason(root)))
        return found, left_out

    def looked_through(
        self,
        wanted: str | None,
        where: Path | Resolution | None,
        *,
        automatic: bool,
        ambient: bool = True,
        until: float = FOREVER,
    ) -> tuple[list[Applied], list[Unopened]]:
        """The vaults of a call that names one, a layer, or a folder, and those that it is for as well and that are not
        open. Waits `until` then (`time.monotonic()`). UnknownVault, AmbiguousVault."""
        # not even asked for all of them would an automatic recall mix the layers
        of_folder = wanted in (None, "active") or (wanted == "all" and automatic)
        if not isinstance(where, Resolution):
            where = self.resolve(where if of_folder or wanted in OF_FOLDER else None)
        if of_folder:
            return self.applying(where, automatic=automatic, ambient=ambient, until=until)
        if wanted == "all":
            indexers, left_out = self._everything(until)
            return [_by_name(each, where, "all vaults") for each in indexers], left_out
        assert wanted is not None
        if wanted in ("personal", "project"):
            found, left_out = self.applying(where, automatic=False, until=until)
            found = [each for each in found if each.layer == wanted]
            left_out = [each for each in left_out if each.entry.path in where.layer(wanted)]
            # a vault may be named so, and a page is addressed by its vault
            if found or left_out or not self._matching(wanted, until):
                return found, left_out
        try:
            indexer = self.find(wanted, until)
        except NotOpen as problem:
            return [], [problem.unopened]
        return [_by_name(indexer, where, "named in the call")], []


def _by_name(indexer: Indexer, where: Resolution, reason: str) -> Applied:
    return Applied(indexer, "personal" if indexer.vault.root == where.place else "registered", reason)
