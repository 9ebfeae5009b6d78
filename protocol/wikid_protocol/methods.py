"""The one method table: name → params, result, capability, since, access. Server, client and docs follow it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from wikid_protocol import records as r
from wikid_protocol.limits import LIMITS as LIMITS
from wikid_protocol.limits import MAX_QUERY_CODE_POINTS as MAX_QUERY_CODE_POINTS
from wikid_protocol.limits import OLDEST_PROTOCOL as OLDEST_PROTOCOL
from wikid_protocol.limits import PROTOCOL_VERSION as PROTOCOL_VERSION
from wikid_protocol.subscriptions import SubscribeParams as SubscribeParams
from wikid_protocol.subscriptions import UnsubscribeParams as UnsubscribeParams


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
    """`vault` is active, personal, project, all, or a vault's id, name or path; `mode` is checked by recall itself, so
    that an unknown one fails closed with its own words."""

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
    """`vault_id` takes a vault's id, name or path; without it the page is looked up in the vaults that apply to `cwd`.
    While one of them is still being opened, a page that is not known yet is `vault_unavailable`."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPullParams:
    """`name` is a model's on the Hugging Face hub, `publisher/model`."""

    name: str
    progress_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUseParams:
    """`name` is one of the catalogue or an alias (`default`, `english`, `multilingual`), a model on this machine,
    `publisher/model` in the Hugging Face cache, or the absolute path of a folder. For a reranker, `none` goes back to
    wikid's own."""

    name: str
    purpose: r.ModelPurpose = "embedder"
    progress_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVerifyParams:
    """One model, named as for `models/use`, or all that are built or in use."""

    name: str | None = None
    progress_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigGetParams:
    """One setting, or all without a `key`, as they apply to a request from the folder `cwd`."""

    key: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSetParams:
    """Sets `key` in the user's file, or removes it from there without a `value`. Text that reads as a number or as true
    or false is taken for one where the setting is one."""

    key: str
    value: bool | int | float | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAppendParams:
    """One event for the log of the vault that is named, or of the one that `cwd` belongs to. `details` has neither a
    `kind` nor a `timestamp`: the daemon sets both."""

    kind: str
    details: dict[str, Any] | None = None
    vault: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventListParams:
    """Events of one vault, oldest first. `since` is a day, as a recall takes it; `kinds` empty means every kind."""

    since: str | None = None
    kinds: tuple[str, ...] = ()
    limit: int = 100
    cursor: str | None = None
    vault: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LintParams:
    """Without a `vault`, the one that is active in the folder `cwd`, or the only one there is."""

    vault: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildMetaParams:
    """Without a `vault`, the one that is active in the folder `cwd`, or the only one there is."""

    vault: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeParams:
    """What a person says of a page that a recall has shown to the `session`, which is that of the connection unless it
    is named. `vault_id` takes a vault's id, name or path, and may be left out where the session was shown one page with
    that id. `correction` belongs to `corrected` alone."""

    page_id: str
    judgment: Literal["relevant", "irrelevant", "corrected"]
    vault_id: str | None = None
    session: str | None = None
    recall_id: str | None = None
    correction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalParams:
    """What a host saw in a session's turn: the file at `path` `opened`, pages `cited` in `text`, or the turn's end."""

    kind: Literal["opened", "cited", "turn_end"]
    session: str | None = None
    path: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveParams:
    """Something seen. The vault is the one that is named, or that `cwd` belongs to; so for all that write notes."""

    title: str
    content: str
    relevance: r.Relevance = "medium"
    tags: tuple[str, ...] = ()
    source_context: str | None = None
    vault: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetroParams:
    """Something learned, as the page `sources/<slug>`. To change one that is there, `hash` is what was read of it."""

    slug: str
    title: str
    body: str
    category: str | None = None
    hash: str | None = None
    vault: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEnsureParams:
    type: r.PageType
    title: str
    content: str | None = None
    vault: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictListParams:
    """`states` empty means every state."""

    states: tuple[r.ConflictState, ...] = ()
    limit: int = 100
    cursor: str | None = None
    vault: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictResolveParams:
    """What the selected page is to the other one. An id may be `vault:folder/name`; both must be of one vault. `scope`
    belongs to applies_under alone; `replaces` is the id of the record that stands."""

    selected_page_id: str
    other_page_id: str
    relation: r.Choice
    scope: str | None = None
    rationale: str | None = None
    replaces: str | None = None
    vault: str | None = None
    cwd: str | None = None


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
    Method("status", StatusParams, r.StatusReport, "read", "How daemon, models and vaults are.", frozen=True),
    Method("shutdown", ShutdownParams, r.Done, "write", "Finish the calls in flight and stop.", frozen=True),
    Method(
        "subscribe",
        SubscribeParams,
        r.Subscribed,
        "read",
        "Be told on this connection when an index or a vault's state changes.",
        capability="subscriptions",
    ),
    Method(
        "unsubscribe",
        UnsubscribeParams,
        r.Done,
        "read",
        "End a subscription of this connection.",
        capability="subscriptions",
    ),
    Method("doctor", NoParams, r.DoctorReport, "read", "What is wrong, or soon will be, and what to do about it."),
    Method("vault/list", NoParams, r.VaultList, "read", "The registered vaults."),
    Method("vault/add", VaultAddParams, r.VaultRecord, "write", "Register a folder and start indexing it."),
    Method("vault/remove", VaultRemoveParams, r.VaultRecord, "write", "Forget a vault; its files stay."),
    Method("vault/init", VaultInitParams, r.VaultRecord, "write", "Make a new vault in a folder and register it."),
    Method("vault/resolve", VaultResolveParams, r.Resolution, "read", "Which vaults apply to a folder, and why."),
    Method("vault/lint", LintParams, r.LintReports, "read", "What is worth saying about a vault; nothing is changed."),
    Method("vault/rebuild_meta", RebuildMetaParams, r.MetaRebuilds, "write", "Make a vault's generated files anew."),
    Method("recall", RecallParams, r.Recall, "read", "The best conclusion, its evidence, and what disputes it."),
    Method("page/search", PageSearchParams, r.PageMatches, "read", "Exact look-up by id, title, alias, type or tag."),
    Method("page/get", PageGetParams, r.Page, "read", "A page's text, metadata, relations and backlinks."),
    Method("page/ensure", PageEnsureParams, r.EnsuredPage, "write", "Make a page unless it is there."),
    Method("observe", ObserveParams, r.Observed, "write", "Note down what was seen, as a page of its own."),
    Method("retro", RetroParams, r.Insight, "write", "Note down what was learned, as a page of its own."),
    Method(
        "conflict/list", ConflictListParams, r.ConflictList, "read", "Claims that dispute each other, and decisions."
    ),
    Method("conflict/resolve", ConflictResolveParams, r.ConflictResolved, "write", "Record which of two claims holds."),
    Method("index/reindex", ReindexParams, r.ReindexReports, "write", "Bring the index up to date, or build it anew."),
    Method("index/sync", SyncParams, r.SyncedVaults, "read", "Return once everything saved before is searchable."),
    Method("index/verify", VerifyParams, r.VerifyReports, "read", "Compare the index with a fresh build."),
    Method("feedback/judge", JudgeParams, r.Judged, "write", "What a person says of a page that was shown."),
    Method("feedback/signal", SignalParams, r.Signalled, "write", "What became of the pages shown in a turn."),
    Method("event/append", EventAppendParams, r.EventAppended, "write", "Append one event to a vault's log."),
    Method("event/list", EventListParams, r.EventList, "read", "A vault's events, oldest first."),
    Method("config/get", ConfigGetParams, r.Configuration, "read", "Settings as they apply, and where they come from."),
    Method("config/set", ConfigSetParams, r.Configuration, "write", "Set or remove a key of the user's own file."),
    Method("models/list", NoParams, r.ModelList, "read", "The models wikid knows and their state."),
    Method("models/build", ModelBuildParams, r.ModelRecord, "write", "Build a model from its registry package."),
    Method("models/pull", ModelPullParams, r.ModelRecord, "write", "Fetch a model from the Hugging Face hub."),
    Method("models/use", ModelUseParams, r.ModelUse, "write", "Use another model from now on, without a restart."),
    Method("models/verify", ModelVerifyParams, r.ModelChecks, "read", "Hash the files of models anew."),
)

METHODS: Final[dict[str, Method]] = {row.name: row for row in _ROWS}
CAPABILITIES: Final = tuple(dict.fromkeys(row.capability for row in _ROWS))
"""What a daemon with this table can do, as `initialize` names it."""
