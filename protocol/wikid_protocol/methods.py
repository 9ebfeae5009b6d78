"""The one method table: name → params, result, capability, since, access. Server, client and docs follow it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from wikid_protocol import records as r
from wikid_protocol.limits import LIMITS as LIMITS
from wikid_protocol.limits import MAX_QUERY_CODE_POINTS as MAX_QUERY_CODE_POINTS
from wikid_protocol.limits import OLDEST_PROTOCOL as OLDEST_PROTOCOL
from wikid_protocol.limits import PROTOCOL_VERSION as PROTOCOL_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class NoParams:
    """Takes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRange:
    min: int = OLDEST_PROTOCOL
    max: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    name: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeParams:
    protocol: ProtocolRange = ProtocolRange()
    client: ClientInfo = ClientInfo()
    capabilities: tuple[str, ...] = ()
    session: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownParams:
    drain_ms: int = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusParams:
    vault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultAddParams:
    path: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultRemoveParams:
    vault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultInitParams:
    path: str
    topic: str
    mode: str = "personal"
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultResolveParams:
    cwd: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallParams:
    """`vault` is active, personal, project, all, or a vault's id or name; `mode` is checked by recall itself, so that
    an unknown one fails closed with its own words."""

    query: str
    cwd: str | None = None
    vault: str | None = None
    policy: Literal["explicit", "automatic"] = "explicit"
    mode: str | None = None
    max_results: int = 5
    types: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    session: str | None = None
    deadline_ms: int | None = None
    explain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSearchParams:
    query: str
    type: str | None = None
    vault: str | None = None
    cwd: str | None = None
    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageGetParams:
    """`vault_id` takes a vault's id or name; without it the page is looked up in the vaults that apply to `cwd`."""

    page_id: str
    vault_id: str | None = None
    cwd: str | None = None
    heading: str | None = None
    from_line: int = 1
    max_lines: int | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexParams:
    scope: Literal["changed", "all"] = "changed"
    components: tuple[r.Component, ...] = ("lexical", "vectors")
    force: bool = False
    vault: str | None = None
    cwd: str | None = None
    progress_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncParams:
    vault: str | None = None
    cwd: str | None = None
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyParams:
    vault: str | None = None
    cwd: str | None = None
    progress_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBuildParams:
    name: str = "all-minilm-l6-v2"
    progress_token: str | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the table. Fields and methods are only ever added; `frozen` ones keep their shape for ever."""

    name: str
    params: type
    result: type
    access: Literal["read", "write"]
    doc: str
    since: str = "0.1"
    capability: str = "core"
    frozen: bool = False


_ROWS: Final = (
    Method("initialize", InitializeParams, r.Initialized, "read", "Agree on a protocol and learn the daemon's limits."),
    Method("ping", NoParams, r.Pong, "read", "Is the daemon there?", frozen=True),
    Method("status", StatusParams, r.StatusReport, "read", "Daemon, models and vaults, honestly.", frozen=True),
    Method("shutdown", ShutdownParams, r.Done, "write", "Finish the calls in flight and stop.", frozen=True),
    Method("vault/list", NoParams, r.VaultList, "read", "The registered vaults."),
    Method("vault/add", VaultAddParams, r.VaultRecord, "write", "Register a folder and start indexing it."),
    Method("vault/remove", VaultRemoveParams, r.VaultRecord, "write", "Forget a vault; its files stay."),
    Method("vault/init", VaultInitParams, r.VaultRecord, "write", "Make a new vault in a folder and register it."),
    Method("vault/resolve", VaultResolveParams, r.Resolution, "read", "Which vaults apply to a folder, and why."),
    Method("recall", RecallParams, r.Recall, "read", "The best conclusion, its evidence, and what disputes it."),
    Method("page/search", PageSearchParams, r.PageMatches, "read", "Exact look-up by id, title, alias, type or tag."),
    Method("page/get", PageGetParams, r.Page, "read", "A page's text, metadata, relations and backlinks."),
    Method("index/reindex", ReindexParams, r.ReindexReports, "write", "Bring the index up to date, or build it anew."),
    Method("index/sync", SyncParams, r.SyncedVaults, "read", "Return once everything saved before is searchable."),
    Method("index/verify", VerifyParams, r.VerifyReports, "read", "Compare the index with a fresh build."),
    Method("models/list", NoParams, r.ModelList, "read", "The models wikid knows and their state."),
    Method("models/build", ModelBuildParams, r.ModelRecord, "write", "Build a model from its registry package."),
)

METHODS: Final[dict[str, Method]] = {row.name: row for row in _ROWS}
