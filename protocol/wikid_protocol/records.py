"""Frozen records that cross the wire. orjson writes them as they are; `decode` reads them back.

Fields are only ever added, each new one with a default. Times are RFC 3339 strings with an offset, spans in the unit
their name ends in, excerpts and budgets in Unicode code points.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from wikid_protocol.curation import Choice as Choice
from wikid_protocol.curation import Claim as Claim
from wikid_protocol.curation import Conflict as Conflict
from wikid_protocol.curation import ConflictList as ConflictList
from wikid_protocol.curation import ConflictResolved as ConflictResolved
from wikid_protocol.curation import ConflictState as ConflictState
from wikid_protocol.curation import EnsuredPage as EnsuredPage
from wikid_protocol.curation import Insight as Insight
from wikid_protocol.curation import Observed as Observed
from wikid_protocol.curation import PageType as PageType
from wikid_protocol.curation import Relevance as Relevance
from wikid_protocol.doctor import DoctorFinding as DoctorFinding
from wikid_protocol.doctor import DoctorFix as DoctorFix
from wikid_protocol.doctor import DoctorReport as DoctorReport
from wikid_protocol.doctor import Severity as Severity
from wikid_protocol.events import EventAppended as EventAppended
from wikid_protocol.events import EventList as EventList
from wikid_protocol.events import EventRecord as EventRecord
from wikid_protocol.limits import Limits as Limits
from wikid_protocol.memories import Bundle as Bundle
from wikid_protocol.memories import ConflictResolution as ConflictResolution
from wikid_protocol.memories import Dates as Dates
from wikid_protocol.memories import Diagnostic as Diagnostic
from wikid_protocol.memories import Done as Done
from wikid_protocol.memories import Item as Item
from wikid_protocol.memories import Mode as Mode
from wikid_protocol.memories import PageId as PageId
from wikid_protocol.memories import Pong as Pong
from wikid_protocol.memories import Recall as Recall
from wikid_protocol.memories import Role as Role
from wikid_protocol.memories import SearchedVault as SearchedVault
from wikid_protocol.memories import Status as Status
from wikid_protocol.memories import VaultId as VaultId
from wikid_protocol.models import ModelCheck as ModelCheck
from wikid_protocol.models import ModelChecks as ModelChecks
from wikid_protocol.models import ModelList as ModelList
from wikid_protocol.models import ModelPurpose as ModelPurpose
from wikid_protocol.models import ModelRecord as ModelRecord
from wikid_protocol.models import ModelUse as ModelUse
from wikid_protocol.reactions import Judged as Judged
from wikid_protocol.reactions import Signalled as Signalled
from wikid_protocol.subscriptions import EventKind as EventKind
from wikid_protocol.subscriptions import IndexChanged as IndexChanged
from wikid_protocol.subscriptions import IndexCounts as IndexCounts
from wikid_protocol.subscriptions import Subscribed as Subscribed
from wikid_protocol.subscriptions import VaultState as VaultState
from wikid_protocol.upkeep import LintFinding as LintFinding
from wikid_protocol.upkeep import LintReport as LintReport
from wikid_protocol.upkeep import LintReports as LintReports
from wikid_protocol.upkeep import MetaRebuild as MetaRebuild
from wikid_protocol.upkeep import MetaRebuilds as MetaRebuilds

Component = Literal["lexical", "vectors"]


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
class PageMatch:
    """One page found by an exact look-up."""

    vault_id: VaultId
    vault: str
    page_id: PageId
    title: str
    type: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageMatches:
    """Found pages, and where the next ones start. `generation`, `stale` and `pending` are those of a recall;
    `diagnostics` name the vaults that could not be looked through."""

    matches: tuple[PageMatch, ...]
    next_cursor: str | None = None
    generation: int = 0
    stale: bool = True
    pending: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationRecord:
    """A typed link from one page to another."""

    target: PageId
    type: str
    scope: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page's text as it is on disk, and what is known of it. `hash` is SHA-256 of the file's bytes; `from_line` is
    1-based; `next_line` is there where the text asked for goes on; `generation`, `stale` and `pending` are those of its
    vault's index, which backlinks come from."""

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
    generation: int = 0
    stale: bool = True
    pending: int = 0
    next_line: int | None = None
    backlinks_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PathReason:
    """A path, and why it was left out or failed."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultStatus:
    """The truth about one vault. `pending` counts pages saved but not searchable, `embedding_pending` chunks without a
    vector; `stale` is False only where the last full scan and the last canary prove it; `rebuilt` tells what has been
    made anew since the index was opened, and why; `feedback` is `disabled` where its events cannot be trusted."""

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
    rebuilt: tuple[Diagnostic, ...] = ()
    feedback: Literal["on", "off", "disabled"] = "off"
    feedback_reason: str = ""
    feedback_dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    """The daemon as a process."""

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
    """The daemon, its models and its vaults."""

    daemon: DaemonStatus
    models: tuple[ModelRecord, ...] = ()
    vaults: tuple[VaultStatus, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexReport:
    """What one reindex did in one vault."""

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
    """One report for each vault; `diagnostics` tells which were meant as well and are not open."""

    vaults: tuple[ReindexReport, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One way in which an index is not what a fresh build is: `kind` and `detail` are stable words, never note text."""

    kind: str
    path: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """A live index against a fresh build of the same files. `compared` names the parts that could be compared;
    `differing` counts all differences, of which `differences` lists the first; `deleted_share` (0–1) is that of Lucene
    documents which are not merged away yet."""

    vault_id: VaultId
    name: str
    generation: int
    pages: int
    chunks: int
    embedded: int
    embedding_pending: int
    compared: tuple[str, ...]
    probes: int
    deleted_share: float
    differing: int
    elapsed_ms: float
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReports:
    """One report for each vault; `diagnostics` tells which were meant as well and are not open."""

    vaults: tuple[VerifyReport, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """Everything saved before the call is searchable at `generation`; `stale` and `pending` tell of what came since, or
    could not be read."""

    vault_id: VaultId
    name: str
    generation: int
    elapsed_ms: float
    stale: bool = True
    pending: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncedVaults:
    """One line for each vault; `diagnostics` tells which were meant as well and are not open."""

    vaults: tuple[Synced, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultList:
    """The registered vaults."""

    vaults: tuple[VaultRecord, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """Which vaults answer for a folder."""

    cwd: str
    vaults: tuple[ResolvedVault, ...]
    automatic: tuple[ResolvedVault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRecord:
    """A setting as it applies. `value` is None where nothing is set, or where what is set is not `valid`; `source` is
    the file or the variable that decided it; one read `at_start` changes when the daemon starts again."""

    key: str
    value: bool | int | str | None
    default: bool | int | str | None
    origin: Literal["default", "user", "host", "environment"]
    source: str = ""
    valid: bool = True
    expects: str = ""
    meaning: str = ""
    at_start: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Settings, and what is wrong with the files they come from. `path` is the user's own, the one that is written."""

    path: str
    settings: tuple[SettingRecord, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Who answers."""

    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialized:
    """The agreed protocol and what the daemon offers."""

    protocol: int
    server: Server
    capabilities: tuple[str, ...]
    limits: Limits
    vaults: tuple[VaultRecord, ...] = ()
    generation: int = 0
