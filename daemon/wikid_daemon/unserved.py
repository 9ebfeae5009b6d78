"""Why a vault that a call asks for is not served: nobody knows it, several have the name, or it is not open."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wikid_daemon.vault.registry import RegistryEntry
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused

OPENING_REMEDY: Final = "ask again in a moment, or after: wikid sync"
STATUS_REMEDY: Final = "look at: wikid status"


@dataclass(frozen=True, slots=True)
class Unopened:
    """A registered vault that is not open: its first opening is under way (`opening`), or it cannot be opened now."""

    entry: RegistryEntry
    reason: str
    opening: bool = False

    def is_called(self, wanted: str) -> bool:
        """Whether that is its name, its id or its path."""
        given = os.path.expanduser(wanted.replace("\0", "\ufffd"))  # no look at the disk survives a NUL
        return wanted in (self.entry.name, self.entry.vault_id) or given == str(self.entry.path)


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


class NotOpen(Exception):
    """The vault is registered and not open, at least not yet."""

    def __init__(self, unopened: Unopened) -> None:
        super().__init__("the vault is not open")
        self.unopened = unopened


def unregistered(folder: Path, reason: str, *, opening: bool = False) -> Unopened:
    """A vault, or a folder that may be one, of which nothing but its place is known."""
    return Unopened(RegistryEntry(folder, folder.name or str(folder), ""), reason, opening)


def refusal_of(unopened: Unopened) -> RequestRefused:
    """Of a call that is nothing without the vault. Nothing of it is claimed to be absent."""
    name = unopened.entry.name
    if unopened.opening:
        return RequestRefused("vault_unavailable", f"{name} is still being opened", hint=OPENING_REMEDY)
    return RequestRefused("vault_unavailable", f"{name} cannot be opened: {unopened.reason}", hint=STATUS_REMEDY)


def not_looked_through(unopened: Unopened) -> r.Diagnostic:
    """Of a search that had to leave the vault out."""
    name, vault_id = unopened.entry.name, unopened.entry.vault_id
    if unopened.opening:
        kind, message, remedy = "vault_opening", f"{name} is still being opened", OPENING_REMEDY
    else:
        kind, message, remedy = "vault_not_opened", f"{name} could not be opened: {unopened.reason}", STATUS_REMEDY
    return r.Diagnostic(kind=kind, message=message, remedy=remedy, vault_id=vault_id or None)
