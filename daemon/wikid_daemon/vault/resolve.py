"""Which vaults apply to a folder, and why (vault format §1.2 in the order of the code, §11.36)."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from wikid_daemon.vault.vault import NEW_MARKER, marker_of

Why = Literal["registered", "marker_here", "wiki_home", "marker_above", "personal"]
Personal = tuple[Path, bool]
"""The root of the personal vault, and whether there is one."""
REASONS: Final[dict[Why, str]] = {
    "registered": "the deepest registered folder that contains this one",
    "marker_here": "this folder is a vault",
    "wiki_home": "WIKI_HOME names it",
    "marker_above": "the nearest folder above that is a vault",
    "personal": "the personal vault",
}


@dataclass(frozen=True, slots=True)
class Applicable:
    """The root of a vault that applies, and the rule that chose it."""

    root: Path
    why: Why


@dataclass(frozen=True, slots=True)
class Resolution:
    """``active`` answers for the folder; ``personal`` is layered below it when it is another vault that exists.

    With no active vault an explicit recall searches all registered vaults and an automatic one none. ``place`` is where
    the personal vault is, or would be.
    """

    active: Applicable | None
    personal: Path | None
    place: Path

    @property
    def unprompted(self) -> bool:
        """Whether unprompted recall may run here without the user's `ambientPersonalVault` setting."""
        return self.active is not None and self.active.why != "personal"

    @property
    def roots(self) -> tuple[Path, ...]:
        """All roots to search, the active one first."""
        active = () if self.active is None else (self.active.root,)
        return active if self.personal is None or self.personal in active else (*active, self.personal)

    def unprompted_roots(self, *, ambient: bool) -> tuple[Path, ...]:
        """The roots that may be searched unasked, the personal one where its use is `ambient`."""
        return self.roots[:1] if ambient or self.unprompted else ()

    def reason(self, root: Path) -> str:
        """Why one of them is searched, for a person."""
        return REASONS[self.active.why if self.active is not None and root == self.active.root else "personal"]

    def layer(self, name: str | None) -> tuple[Path, ...]:
        """The roots of the layer `personal` or `project`, or of both for None and `active`; none for any other word."""
        layers = {None: (True, False), "active": (True, False), "personal": (True,), "project": (False,)}
        return tuple(root for root in self.roots if (root == self.personal) in layers.get(name, ()))


def personal_root(home: Path, wiki_home: str | None) -> Path:
    """The folder around the personal vault: `$WIKI_HOME` when set and not empty, else the home folder."""
    return Path(os.path.realpath(Path(wiki_home).expanduser() if wiki_home else home))


def personal_place(home: Path, wiki_home: str | None) -> Personal:
    """Where the personal vault is, and whether it is there."""
    root = personal_root(home, wiki_home)
    return root, os.path.lexists(root / NEW_MARKER)


def resolve(
    cwd: Path,
    registered: Iterable[Path],
    *,
    home: Path,
    wiki_home: str | None,
    has_marker: Callable[[Path], bool] = lambda folder: marker_of(folder) is not None,
    known: Personal | None = None,
) -> Resolution:
    """Find the vaults for ``cwd``; ``registered`` are real paths. ``wiki_home`` is the variable's value, if set;
    ``known`` is what is known already of the personal vault's place."""
    here = Path(os.path.realpath(cwd))
    around = (here, *here.parents)
    personal, exists = known or personal_place(home, wiki_home)
    active = (
        _registered(around, set(registered) - {personal})
        or (Applicable(here, "marker_here") if has_marker(here) else None)
        or (_wiki_home(personal, exists=exists) if wiki_home else _above(around, personal, has_marker))
        or (Applicable(personal, "personal") if exists else None)
    )
    return Resolution(active, personal if exists else None, personal)


def _registered(around: tuple[Path, ...], registered: set[Path]) -> Applicable | None:
    return next((Applicable(folder, "registered") for folder in around if folder in registered), None)


def _wiki_home(personal: Path, *, exists: bool) -> Applicable | None:
    return Applicable(personal, "wiki_home") if exists else None


def _above(around: tuple[Path, ...], personal: Path, has_marker: Callable[[Path], bool]) -> Applicable | None:
    for folder in around[1:]:
        if folder != personal and has_marker(folder):
            return Applicable(folder, "marker_above")
    return None
