"""The records of `recall` and the short answers, apart from the rest: a client that only recalls loads no more.

Everything here is also a name of `wikid_protocol.records`, which says how records are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NewType

PageId = NewType("PageId", str)
VaultId = NewType("VaultId", str)

Mode = Literal["lexical", "hybrid", "adaptive", "quality"]
Role = Literal["canonical", "evidence"]
Status = Literal["draft", "stable", "deprecated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """Something degraded that the answer survived: a stable `kind`, words for a person, and the remedy."""

    kind: str
    message: str
    remedy: str = ""
    vault_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dates:
    """A page's own dates, as its frontmatter gives them."""

    created: str | None = None
    updated: str | None = None
    stale_after: str | None = None
    verified: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One page in a bundle. `score` is the confidence 0–1; `relation` is set where a typed link admitted the page.

    `settled_by` is the id of the person's decision between this claim and the card's. `body` is a skill's or case's
    whole text, where it is short enough to be used as it stands.
    """

    vault_id: VaultId
    vault: str
    page_id: PageId
    path: str
    title: str
    type: str
    role: Role
    status: Status
    freshness: str
    excerpt: str
    score: float
    rank: int
    match_reasons: tuple[str, ...] = ()
    heading: str | None = None
    line: int = 1
    scope: str | None = None
    dates: Dates = Dates()
    relation: str | None = None
    missing: bool = False
    settled_by: str | None = None
    body: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictResolution:
    """A person's decision: what the selected claim is to the other. It is the page `page_id`, and stands until another
    record replaces it."""

    id: str
    vault_id: VaultId
    vault: str
    page_id: PageId
    path: str
    selected_page_id: PageId
    other_page_id: PageId
    relation: Literal["supersedes", "qualifies", "applies_under"]
    decided_by: str
    decided_at: str
    scope: str | None = None
    replaces: str | None = None
    status: Literal["active"] = "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What one memory says: the reviewed conclusion first, then its evidence and what disputes it.

    `card` is absent where only unpromoted evidence was found. `resolution` is the decision on the first of `conflicts`
    that has one.
    """

    card: Item | None = None
    evidence: tuple[Item, ...] = ()
    conflicts: tuple[Item, ...] = ()
    resolution: ConflictResolution | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedVault:
    """A vault that a recall looked through, and how current its index was."""

    vault_id: VaultId
    name: str
    layer: str
    generation: int
    stale: bool
    pending: int
    embedding_pending: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """The answer to `recall`. `generation` sums over the vaults searched: it grows whenever one of them changes.

    `mode_used` is the path that was taken and `mode_reasons` says why, in stable words. `links_first` asks a client
    that writes for a model to list the pages instead of quoting them: the vaults are too large for that.
    """

    recall_id: str
    bundles: tuple[Bundle, ...]
    vaults: tuple[SearchedVault, ...]
    mode_used: Mode
    generation: int
    stale: bool
    pending: int
    elapsed_ms: float
    marker: str
    diagnostics: tuple[Diagnostic, ...] = ()
    mode_reasons: tuple[str, ...] = ()
    links_first: bool = False
    reason: str | None = None
    explain: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    """The daemon is there."""

    version: str
    pid: int
    protocol: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The call did what it says and has nothing more to tell."""

    done: bool = True
