"""The records of what is written into a vault: notes, pages and decisions. Part of `records`, and as those are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from wikid_protocol.memories import ConflictResolution, Diagnostic, PageId, VaultId

Relevance = Literal["low", "medium", "high", "critical"]
Choice = Literal["supersedes", "qualifies", "applies_under"]
PageType = Literal["source", "entity", "concept", "synthesis", "analysis", "requirement", "skill", "case"]
ConflictState = Literal["undecided", "confirmed", "proposed", "resolved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """An observation is the page `page_id`; it was there already, word for word, unless it was `created`. `hash` is
    SHA-256 of the file's bytes."""

    vault_id: VaultId
    vault: str
    page_id: PageId
    path: str
    hash: str
    created: bool
    slug: str
    title: str
    relevance: Relevance
    tags: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Insight:
    """An insight is the page `page_id`, which was `created`, or `changed`, or said the same before."""

    vault_id: VaultId
    vault: str
    page_id: PageId
    path: str
    hash: str
    created: bool
    changed: bool
    slug: str
    title: str
    category: str
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsuredPage:
    """The page is there; what was there before is as it was, unless it was `created`."""

    vault_id: VaultId
    vault: str
    page_id: PageId
    path: str
    hash: str
    created: bool
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A page that is one side of a conflict. `missing`: it is gone, or cannot be read as a page."""

    page_id: PageId
    path: str
    title: str = ""
    type: str = ""
    status: str = ""
    updated: str | None = None
    missing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Claims that dispute each other; one alone where only a page's own words say so, at file line `line`.

    `confirmed`: each contradicts the other. `proposed`: `reasons` say why it is suspected. `resolved`: the one record
    in `resolutions` stands; `stale` are the claims that have changed since, or are gone. `undecided`: several records
    stand.
    """

    vault_id: VaultId
    vault: str
    state: ConflictState
    claims: tuple[Claim, ...]
    reasons: tuple[str, ...] = ()
    resolutions: tuple[ConflictResolution, ...] = ()
    stale: tuple[PageId, ...] = ()
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictList:
    """Conflicts, open ones first, and where the next ones start; `counts` is by state, of all of them."""

    conflicts: tuple[Conflict, ...]
    counts: dict[str, int] = field(default_factory=dict)
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictResolved:
    """The decision stands; it stood before unless it was `created`. `hash` is that of its page's file."""

    resolution: ConflictResolution
    created: bool
    hash: str
    diagnostics: tuple[Diagnostic, ...] = ()
