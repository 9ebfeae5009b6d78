"""Frozen records that cross the wire. orjson writes them as they are; `decode` reads them back.

Fields are only ever added, each new one with a default. Times are RFC 3339 strings with an offset, spans in the unit
their name ends in, excerpts and budgets in Unicode code points.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NewType

PageId = NewType("PageId", str)
VaultId = NewType("VaultId", str)

Mode = Literal["lexical", "hybrid", "adaptive", "quality"]
Role = Literal["canonical", "evidence"]
Status = Literal["draft", "stable", "deprecated"]
Component = Literal["lexical", "vectors"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """Something degraded that the answer survived: a stable `kind`, words for a person, and the remedy."""

    kind: str
    message: str
    remedy: str = ""
    vault_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultRecord:
    """A registered vault. `kind` is `wiki` (has the marker) or `plain`; `blocked` says why it is not served."""

    vault_id: VaultId
    name: str
    path: str
    kind: Literal["wiki", "plain"]
    topic: str = ""
    mode: str = ""
    read_only: bool = False
    state_path: str = ""
    blocked: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedVault:
    """One vault that applies to a folder, and why it does."""

    vault_id: VaultId
    name: str
    path: str
    layer: Literal["project", "personal", "registered"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dates:
    created: str | None = None
    updated: str | None = None
    stale_after: str | None = None
    verified: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One page in a bundle. `score` is the confidence 0–1; `relation` is set where a typed link admitted the page."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What one memory says: the reviewed conclusion first, then its evidence and what disputes it.

    `card` is absent where only unpromoted evidence was found.
    """

    card: Item | None = None
    evidence: tuple[Item, ...] = ()
    conflicts: tuple[Item, ...] = ()
    resolution: Item | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedVault:
    vault_id: VaultId
    name: str
    layer: str
    generation: int
    stale: bool
    pending: int
    embedding_pending: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """The answer to `recall`. `generation` sums over the vaults searched: it grows whenever one of them changes."""

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
    reason: str | None = None
    explain: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageMatch:
    vault_id: VaultId
    vault: str
    page_id: PageId
    title: str
    type: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageMatches:
    matches: tuple[PageMatch, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationRecord:
    target: PageId
    type: str
    scope: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page's text and what is known of it. `hash` is SHA-256 of the file's bytes; `from_line` is 1-based."""

    vault_id: VaultId
    vault: str
    page_id: PageId
    path: str
    title: str
    type: str
    role: Role
    status: Status
    freshness: str
    text: str
    hash: str
    from_line: int = 1
    total_lines: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    relations: tuple[RelationRecord, ...] = ()
    backlinks: tuple[PageId, ...] = ()
    marker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathReason:
    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultStatus:
    """The truth about one vault. `pending` counts pages saved but not searchable, `embedding_pending` chunks without a
    vector; `stale` is False only where the last full scan and the last canary prove it."""

    vault: VaultRecord
    state: Literal["indexing", "ready", "unavailable", "blocked", "failed"]
    generation: int = 0
    pages: int = 0
    chunks: int = 0
    embedded: int = 0
    pending: int = 0
    embedding_pending: int = 0
    stale: bool = True
    failed: tuple[PathReason, ...] = ()
    findings: int = 0
    findings_by_code: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    skipped_paths: tuple[PathReason, ...] = ()
    packets_without_page: int = 0
    last_scan: str | None = None
    last_canary: str | None = None
    watcher: str = "stopped"
    watcher_reason: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """A model wikid knows. `state`: absent, built, loading, ready, failed."""

    name: str
    purpose: Literal["embedder", "reranker"]
    state: str
    identity: str = ""
    dims: int = 0
    path: str = ""
    licence: str = ""
    size_bytes: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    version: str
    pid: int
    started: str
    uptime_s: float
    endpoint: str
    rss_bytes: int = 0
    java: str = ""
    connections: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusReport:
    daemon: DaemonStatus
    models: tuple[ModelRecord, ...] = ()
    vaults: tuple[VaultStatus, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexReport:
    """What one reindex did in one vault (seed A, Explicit tool)."""

    vault_id: VaultId
    name: str
    collections: tuple[str, ...]
    indexed: int
    updated: int
    unchanged: int
    removed: int
    needing: int
    generated: int
    skipped: int
    versions: dict[str, str]
    elapsed_ms: float
    warnings: tuple[Diagnostic, ...] = ()
    errors: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexReports:
    vaults: tuple[ReindexReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """Everything saved before the call is searchable at `generation`."""

    vault_id: VaultId
    name: str
    generation: int
    elapsed_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncedVaults:
    vaults: tuple[Synced, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultList:
    vaults: tuple[VaultRecord, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """Which vaults answer for a folder (vault format §11.36)."""

    cwd: str
    vaults: tuple[ResolvedVault, ...]
    automatic: tuple[ResolvedVault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    models: tuple[ModelRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    message_bytes: int
    answer_bytes: int
    depth: int
    query_code_points: int
    calls_in_flight: int
    connections: int
    queue: int
    frame_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialized:
    protocol: int
    server: Server
    capabilities: tuple[str, ...]
    limits: Limits
    vaults: tuple[VaultRecord, ...] = ()
    generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    version: str
    pid: int
    protocol: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The call did what it says and has nothing more to tell."""

    done: bool = True
