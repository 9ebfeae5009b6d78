"""Talk to wikid.

    with Client() as wikid:
        answer = wikid.recall("how do we roll back a deploy")
        for bundle in answer.bundles:
            ...

`AsyncClient` does the same in an event loop, and `wikid_client.testing` has a daemon for tests.
Names are loaded when they are first used, so that importing the package costs an editor nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # `typing` itself takes longer to load than everything here
if TYPE_CHECKING:
    from wikid_client.aio import AsyncClient, AsyncSubscription
    from wikid_client.caller import Progress
    from wikid_client.client import Client
    from wikid_client.listening import Subscription
    from wikid_client.transport import SocketTransport, Transport
    from wikid_protocol.errors import DaemonFailed, DaemonNotRunning, RequestRefused, WikidError
    from wikid_protocol.records import (
        Bundle,
        Claim,
        Configuration,
        Conflict,
        ConflictList,
        ConflictResolution,
        ConflictResolved,
        DaemonStatus,
        Dates,
        Diagnostic,
        Difference,
        DoctorFinding,
        DoctorFix,
        DoctorReport,
        Done,
        EnsuredPage,
        EventAppended,
        EventList,
        EventRecord,
        IndexChanged,
        IndexCounts,
        Initialized,
        Insight,
        Item,
        Judged,
        Limits,
        LintFinding,
        LintReport,
        LintReports,
        MetaRebuild,
        MetaRebuilds,
        ModelCheck,
        ModelChecks,
        ModelList,
        ModelRecord,
        ModelUse,
        Observed,
        Page,
        PageId,
        PageMatch,
        PageMatches,
        PathReason,
        Pong,
        Recall,
        ReindexReport,
        ReindexReports,
        RelationRecord,
        Resolution,
        ResolvedVault,
        SearchedVault,
        Server,
        SettingRecord,
        Signalled,
        StatusReport,
        Subscribed,
        Synced,
        SyncedVaults,
        VaultId,
        VaultList,
        VaultRecord,
        VaultState,
        VaultStatus,
        VerifyReport,
        VerifyReports,
    )

__all__ = [
    "AsyncClient",
    "AsyncSubscription",
    "Bundle",
    "Claim",
    "Client",
    "Configuration",
    "Conflict",
    "ConflictList",
    "ConflictResolution",
    "ConflictResolved",
    "DaemonFailed",
    "DaemonNotRunning",
    "DaemonStatus",
    "Dates",
    "Diagnostic",
    "Difference",
    "DoctorFinding",
    "DoctorFix",
    "DoctorReport",
    "Done",
    "EnsuredPage",
    "EventAppended",
    "EventList",
    "EventRecord",
    "IndexChanged",
    "IndexCounts",
    "Initialized",
    "Insight",
    "Item",
    "Judged",
    "Limits",
    "LintFinding",
    "LintReport",
    "LintReports",
    "MetaRebuild",
    "MetaRebuilds",
    "ModelCheck",
    "ModelChecks",
    "ModelList",
    "ModelRecord",
    "ModelUse",
    "Observed",
    "Page",
    "PageId",
    "PageMatch",
    "PageMatches",
    "PathReason",
    "Pong",
    "Progress",
    "Recall",
    "ReindexReport",
    "ReindexReports",
    "RelationRecord",
    "RequestRefused",
    "Resolution",
    "ResolvedVault",
    "SearchedVault",
    "Server",
    "SettingRecord",
    "Signalled",
    "SocketTransport",
    "StatusReport",
    "Subscribed",
    "Subscription",
    "Synced",
    "SyncedVaults",
    "Transport",
    "VaultId",
    "VaultList",
    "VaultRecord",
    "VaultState",
    "VaultStatus",
    "VerifyReport",
    "VerifyReports",
    "WikidError",
]

_HOMES = {
    "AsyncClient": "wikid_client.aio",
    "AsyncSubscription": "wikid_client.aio",
    "Client": "wikid_client.client",
    "Progress": "wikid_client.caller",
    "SocketTransport": "wikid_client.transport",
    "Subscription": "wikid_client.listening",
    "Transport": "wikid_client.transport",
    "DaemonFailed": "wikid_protocol.errors",
    "DaemonNotRunning": "wikid_protocol.errors",
    "RequestRefused": "wikid_protocol.errors",
    "WikidError": "wikid_protocol.errors",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES.get(name, "wikid_protocol.records")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
