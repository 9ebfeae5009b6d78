"""A person's decisions between two claims, as the pages that record them hold them (seed A, User Resolution; vault
format §11.31, §11.34). Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, TypeGuard, get_args

from wikid_daemon.core.dates import normalised
from wikid_daemon.core.page import Choice, Json, Resolution

CATEGORY: Final = "conflict-resolution"
CHOICES: Final[tuple[Choice, ...]] = get_args(Choice)
SCOPED: Final = "applies_under"
RESOLVES: Final = "resolves"  # the link from a record to each of its claims, in the catalog

Pair = frozenset[str]
"""The two page ids of a conflict, in no order."""


def pair_of(record: Resolution) -> Pair:
    return frozenset((record.selected, record.other))


def read(category: str | None, value: Json) -> Resolution | None:
    """The record in a page's `resolution` mapping; None where the page is none or the record cannot be followed."""
    if category != CATEGORY or not isinstance(value, dict):
        return None
    names = [value.get(key) for key in ("id", "selected", "other", "decided_by")]
    texts = [each.strip() for each in names if isinstance(each, str) and each.strip()]
    relation, scope, replaces = value.get("relation"), value.get("scope"), value.get("replaces")
    decided_at = normalised(value.get("decided_at"))
    if len(texts) < len(names) or texts[1] == texts[2] or decided_at is None or not _is_choice(relation):
        return None
    if not _is_text_or_none(scope) or not _is_text_or_none(replaces) or bool(scope) != (relation == SCOPED):
        return None
    record, selected, other, by = texts
    return Resolution(record, selected, other, relation, scope or None, by, decided_at, replaces or None)


def identity(
    vault_id: str, selected: str, other: str, relation: Choice, scope: str | None, replaces: str | None
) -> str:
    """The record's semantic hash, 64 hex digits (vault format §11.31)."""
    canonical = json.dumps(
        [vault_id, selected, other, relation, scope, replaces], ensure_ascii=False, separators=(",", ":")
    )
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()


def live(records: Iterable[Resolution]) -> dict[Pair, list[Resolution]]:
    """The records of each pair that no other of the same pair replaces. One settles the pair; several do not, nor do
    none, which is what records that replace each other in a ring leave.
    """
    by_pair: defaultdict[Pair, dict[str, Resolution]] = defaultdict(dict)
    for record in records:
        by_pair[pair_of(record)][record.id] = record
    found = {}
    for pair, known in by_pair.items():
        replaced = {record.replaces for record in known.values()}
        found[pair] = [record for record in known.values() if record.id not in replaced]
    return found


def _is_choice(value: Json) -> TypeGuard[Choice]:
    return value in CHOICES


def _is_text_or_none(value: Json) -> TypeGuard[str | None]:
    return value is None or (isinstance(value, str) and bool(value.strip()))
