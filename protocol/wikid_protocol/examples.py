"""An example of each call and its answer, made from the records themselves, so that none can be out of date.

A field is shown with a value that its name stands for, or as it is by default.
"""

from __future__ import annotations

import types
from dataclasses import Field, fields
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from wikid_protocol import messages
from wikid_protocol.limits import LIMITS, Limits
from wikid_protocol.methods import METHODS, Method
from wikid_protocol.schema import is_record, is_required

_VAULT_ID: Final = "0b5e3c6a-58b8-4a50-9a1f-3f2a6c1d9e70"
_MARKER: Final = "3c9f51d27ae04b68"

_PARAMS: Final[dict[str, dict[str, Any]]] = {
    "initialize": {
        "protocol": {"min": 1, "max": 1},
        "client": {"name": "my-editor", "version": "2.3"},
        "session": "my-editor:4711",
    },
    "subscribe": {"kinds": ["index/changed"], "since": {_VAULT_ID: 41}},
    "unsubscribe": {"subscription": "s1"},
    "vault/add": {"path": "/home/ada/notes"},
    "vault/remove": {"vault": "notes"},
    "vault/init": {"path": "/home/ada/notes", "topic": "running our databases"},
    "vault/resolve": {"cwd": "/home/ada/work/shop"},
    "vault/lint": {"vault": "notes"},
    "vault/rebuild_meta": {"vault": "notes"},
    "recall": {
        "query": "how do we roll back a deploy",
        "cwd": "/home/ada/work/shop",
        "max_results": 3,
        "session": "my-editor:4711",
        "deadline_ms": 500,
    },
    "page/search": {"query": "rollback", "limit": 20},
    "page/get": {"page_id": "concepts/rollback", "vault_id": _VAULT_ID, "session": "my-editor:4711"},
    "page/ensure": {"type": "concept", "title": "Rollback", "cwd": "/home/ada/work/shop"},
    "observe": {
        "title": "The rollback took 40 minutes",
        "content": "The image had to be built anew.",
        "tags": ["deploy"],
        "vault": "notes",
    },
    "retro": {
        "slug": "keep-the-last-image",
        "title": "Keep the last image",
        "body": "A rollback needs it.",
        "vault": "notes",
    },
    "conflict/list": {"states": ["confirmed", "undecided"], "vault": "notes"},
    "conflict/resolve": {
        "selected_page_id": "concepts/rollback",
        "other_page_id": "concepts/roll-forward",
        "relation": "applies_under",
        "scope": "when the schema did not change",
        "vault": "notes",
    },
    "index/reindex": {"scope": "changed", "components": ["lexical"], "vault": "notes", "progress_token": "p1"},
    "index/sync": {"vault": "notes", "timeout_ms": 5_000},
    "index/verify": {"vault": "notes", "progress_token": "p2"},
    "feedback/judge": {
        "page_id": "concepts/rollback",
        "judgment": "relevant",
        "vault_id": _VAULT_ID,
        "session": "my-editor:4711",
    },
    "feedback/signal": {
        "kind": "opened",
        "session": "my-editor:4711",
        "path": "/home/ada/notes/.llm-wiki/wiki/concepts/rollback.md",
    },
    "event/append": {"kind": "query", "details": {"pages": 2}, "vault": "notes"},
    "event/list": {"since": "2026-07-01", "limit": 20, "vault": "notes"},
    "config/get": {"key": "retrievalMode"},
    "config/set": {"key": "retrievalMode", "value": "hybrid"},
    "models/pull": {"name": "intfloat/multilingual-e5-small", "progress_token": "p3"},
    "models/use": {"name": "multilingual"},
}

_OWN: Final[dict[str, Any]] = {
    "ClientInfo.name": "my-editor",
    "Claim.status": "stable",
    "ConflictResolution.scope": "when the schema did not change",
    "ConflictResolved.hash": "9f2c" * 16,
    "Difference.kind": "page_missing",
    "DoctorFinding.kind": "model_absent",
    "DoctorFinding.message": "no embedding model has been built",
    "DoctorFinding.remedy": "wikid models build",
    "EventAppended.kind": "query",
    "EventRecord.details": {"pages": 2},
    "EventRecord.kind": "query",
    "Insight.category": "insight",
    "Insight.page_id": "sources/keep-the-last-image",
    "Insight.slug": "keep-the-last-image",
    "Insight.title": "Keep the last image",
    "Item.relation": None,
    "LintFinding.path": "concepts/rollback.md",
    "ModelRecord.name": "all-minilm-l6-v2",
    "ModelCheck.name": "all-minilm-l6-v2",
    "ModelCheck.path": "/home/ada/.cache/wikid/models/all-minilm-l6-v2",
    "ModelUse.setting": "embedModel",
    "ModelUse.path": "/home/ada/.config/wikid/config.toml",
    "ModelUse.value": "multilingual",
    "ModelRecord.path": "/home/ada/.cache/wikid/models/all-minilm-l6-v2",
    "ModelRecord.state": "ready",
    "Observed.page_id": "sources/obs-2026-07-01-rollback",
    "Observed.slug": "obs-2026-07-01-rollback",
    "Observed.title": "The rollback took 40 minutes",
    "PathReason.path": "drafts/broken.md",
    "PathReason.reason": "invalid frontmatter",
    "Recall.explain": None,
    "RelationRecord.target": "concepts/deploy",
    "RelationRecord.type": "supports",
    "ResolvedVault.reason": "the nearest folder above that has a vault",
    "Server.name": "wikid",
    "SettingRecord.key": "retrievalMode",
    "SettingRecord.value": "hybrid",
    "SettingRecord.default": "adaptive",
    "Configuration.path": "/home/ada/.config/wikid/config.toml",
    "VaultRecord.path": "/home/ada/notes",
    "VaultRecord.mode": "personal",
    "ResolvedVault.path": "/home/ada/notes",
    "MetaRebuild.path": "/home/ada/notes",
    "LintReport.path": "/home/ada/notes/.llm-wiki/wiki",
}

_COMMON: Final[dict[str, Any]] = {
    "capabilities": ["core", "subscriptions"],
    "code": "orphan",
    "chunks": 480,
    "collections": ["canonical", "evidence"],
    "compared": ["pages", "chunks", "postings"],
    "created": True,
    "cwd": "/home/ada/work/shop",
    "decided_at": "2026-07-01T12:00:00Z",
    "decided_by": "user",
    "dims": 384,
    "elapsed_ms": 12.5,
    "embedded": 480,
    "endpoint": "/run/user/1000/wikid/wikid.sock",
    "excerpt": "Deploy the last image again; it takes two minutes.",
    "expects": "lexical, hybrid, adaptive or quality",
    "freshness": "current",
    "generation": 42,
    "generations": {_VAULT_ID: 42},
    "hash": "9f2c" * 16,
    "heading": "How",
    "id": "c0ffee12",
    "identity": "all-minilm-l6-v2@sha256:9f2c",
    "kind": "index_behind",
    "layer": "personal",
    "line": 12,
    "marker": _MARKER,
    "match_reasons": ["title match", "words 100%"],
    "message": "two pages wait to be indexed",
    "mode_reasons": ["question"],
    "mode_used": "adaptive",
    "name": "notes",
    "next_cursor": None,
    "other_page_id": "concepts/roll-forward",
    "page_id": "concepts/rollback",
    "origin": "user",
    "pages": 120,
    "path": "/home/ada/notes/.llm-wiki/wiki/concepts/rollback.md",
    "pid": 4711,
    "protocol": 1,
    "rank": 1,
    "recall_id": "8d1f0c5e7b2a4936",
    "relation": "applies_under",
    "resume": "17:2048",
    "score": 0.87,
    "selected_page_id": "concepts/rollback",
    "slug": "rollback",
    "stale": False,
    "state": "ready",
    "status": "stable",
    "started": "2026-07-01T08:00:00+00:00",
    "subscription": "s1",
    "text": "# Rollback\n\nDeploy the last image again.\n",
    "timestamp": "2026-07-01T12:00:00Z",
    "title": "Rollback",
    "topic": "running our databases",
    "type": "concept",
    "updated": "2026-06-30",
    "uptime_s": 14400.5,
    "vault": "notes",
    "vault_id": _VAULT_ID,
    "version": "0.1.0",
    "versions": {"index": "1"},
    "watcher": "watching",
}
# lists of these are left empty: an answer that is all well has none
_EMPTY: Final = frozenset(
    {"warnings", "errors", "evidence", "conflicts", "differences", "diagnostics", "failed", "findings", "fixed"}
    | {"models", "rebuilt", "skipped_paths", "stale"}
)
_SHOWN: Final = frozenset(
    {"Bundle.card", "DoctorReport.findings", "ModelList.models", "ModelChecks.models", "ConflictList.conflicts"}
)


def params_example(method: Method) -> dict[str, Any]:
    """The params of a typical call."""
    return _PARAMS.get(method.name, {})


def record_example(kind: type) -> dict[str, Any]:
    """A record with every member, as the daemon sends it."""
    if kind is Limits:
        return {each.name: getattr(LIMITS, each.name) for each in fields(kind)}
    hints = get_type_hints(kind)
    return {each.name: _value(kind, each, hints[each.name]) for each in fields(kind)}


def request_example(method: Method, call_id: int = 1) -> bytes:
    """The line of a typical call."""
    return messages.request(call_id, method.name, params_example(method))


def answer_example(method: Method, call_id: int = 1) -> bytes:
    """The line of its answer."""
    return messages.result(call_id, record_example(method.result))


def missing_examples() -> list[str]:
    """Methods whose params have members that must be given, and that have no example."""
    needing = (row for row in METHODS.values() if any(map(is_required, fields(row.params))))
    return [row.name for row in needing if row.name not in _PARAMS]


def _value(kind: type, each: Field[Any], hint: Any) -> Any:
    full = f"{kind.__name__}.{each.name}"
    if full in _SHOWN:
        return _minimal(hint)
    given = _OWN.get(full, _COMMON.get(each.name, ...) if full not in _OWN else ...)
    if given is not ... and _fits(given, hint):
        return given
    if each.name in _EMPTY and get_origin(hint) is tuple:
        return []
    if given is ... and not is_required(each) and full not in _OWN and not _leads_to_record(hint):
        made = each.default_factory() if callable(each.default_factory) else each.default
        return messages.parse(messages.encode(made))
    return _minimal(hint)


def _minimal(hint: Any) -> Any:
    if is_record(hint):
        return record_example(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return args[0]
    if origin in (Union, types.UnionType):
        return _minimal(next(each for each in args if each is not types.NoneType))
    if origin is tuple:
        return [_minimal(args[0])] if is_record(args[0]) else []
    if origin is dict:
        return {}
    return {str: "", int: 0, float: 0.0, bool: False}.get(getattr(hint, "__supertype__", hint))


def _leads_to_record(hint: Any) -> bool:
    return is_record(hint) or (get_origin(hint) is tuple and any(map(is_record, get_args(hint))))


def _fits(value: Any, hint: Any) -> bool:
    """Whether a common value may stand here: a field of that name may be of another type."""
    if is_record(hint) or _leads_to_record(hint):
        return False
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in args
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in args)
    if hint is types.NoneType or value is None:
        return value is None and hint is types.NoneType
    if origin is tuple:
        return isinstance(value, list)
    if origin is dict:
        return isinstance(value, dict)
    base = getattr(hint, "__supertype__", hint)
    return base is Any or type(value) is base
