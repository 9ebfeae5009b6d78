"""The user's list of vaults, `vaults.json` in the config directory.

A damaged file is never emptied: before the first change it is copied aside, and what could be read of it is kept.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from wikid_daemon import files

_LIMIT = 4 << 20
_VERSION = 1


class RegistryUnreadable(Exception):
    """`vaults.json` exists but the system does not let it be read; nothing was changed."""


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """A registered vault: the real path of its root, the name shown, and the id it had when it was added."""

    path: Path
    name: str
    vault_id: str


@dataclass(frozen=True, slots=True)
class RegistryFault:
    """Something in `vaults.json` that could not be used; ``kept_as`` is the copy of the damaged file, once made."""

    message: str
    kept_as: Path | None = None


class Registry:
    """The entries of one `vaults.json`. Only the daemon writes it, one call at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[Path, RegistryEntry] = {}
        self._faults: list[RegistryFault] = []
        self._damaged: bytes | None = None
        self._loaded = False

    @property
    def faults(self) -> Sequence[RegistryFault]:
        """What was wrong with the file when it was last loaded."""
        return tuple(self._faults)

    def load(self) -> Sequence[RegistryFault]:
        """Read the file again; one that does not exist is an empty list. Raises RegistryUnreadable."""
        try:
            data = files.read_regular(self._path, _LIMIT).data
        except FileNotFoundError:
            data = b""
        except (OSError, files.NotReadable) as error:
            message = f"{self._path} cannot be read: {files.failure_reason(error)}; no vault is loaded"
            self._faults = [RegistryFault(message)]
            raise RegistryUnreadable(message) from error
        entries, faults = _decode(data) if data else ([], [])
        self._entries = {entry.path: entry for entry in entries}
        self._faults = [RegistryFault(message) for message in faults]
        self._damaged = data if faults else None
        self._loaded = True
        return self.faults

    def list(self) -> tuple[RegistryEntry, ...]:
        """All entries, by path."""
        return tuple(self._entries[path] for path in sorted(self._entries))

    def add(self, entry: RegistryEntry) -> None:
        """Add an entry, or replace the one with the same path, and write the file. Raises RegistryUnreadable."""
        self._load_once()
        self._write({**self._entries, entry.path: entry})

    def remove(self, path: Path) -> RegistryEntry | None:
        """Forget the vault at ``path`` and write the file; the vault itself is not touched. None when not listed.

        Raises RegistryUnreadable.
        """
        self._load_once()
        removed = self._entries.get(path)
        if removed is not None:
            self._write({key: entry for key, entry in self._entries.items() if key != path})
        return removed

    def _load_once(self) -> None:
        # a file that could not be read is not empty, and must not be overwritten as if it were
        if not self._loaded:
            self.load()

    def _write(self, entries: dict[Path, RegistryEntry]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._damaged is not None:
            aside = _unused(self._path)
            files.atomic_write(aside, self._damaged, durable=True)
            self._faults = [RegistryFault(fault.message, aside) for fault in self._faults]
            self._damaged = None
        vaults = [{**asdict(entries[path]), "path": os.fspath(path)} for path in sorted(entries)]
        data = orjson.dumps({"version": _VERSION, "vaults": vaults}, option=orjson.OPT_INDENT_2) + b"\n"
        files.atomic_write(self._path, data, durable=True)
        self._entries = entries


def _unused(path: Path) -> Path:
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")):
        number += 1
    return aside


def _decode(data: bytes) -> tuple[list[RegistryEntry], list[str]]:
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return [], [f"vaults.json is not valid JSON (line {error.lineno}); the vaults in it are not loaded"]
    vaults = document.get("vaults") if isinstance(document, dict) else None
    if not isinstance(vaults, list):
        return [], ["vaults.json holds no list named vaults"]
    entries: list[RegistryEntry] = []
    faults: list[str] = []
    for number, item in enumerate(vaults, start=1):
        entry = _entry(item)
        if entry is None:
            faults.append(f"entry {number} of vaults.json needs an absolute path, a name and a vault_id, all text")
        else:
            entries.append(entry)
    return entries, faults


def _entry(item: Any) -> RegistryEntry | None:
    if not isinstance(item, dict):
        return None
    path, name, vault_id = (item.get(key) for key in ("path", "name", "vault_id"))
    if not (isinstance(path, str) and isinstance(name, str) and isinstance(vault_id, str)):
        return None
    return RegistryEntry(Path(path), name, vault_id) if os.path.isabs(path) and vault_id else None
