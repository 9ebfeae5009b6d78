"""Claims that dispute each other without a decision, and what is wrong with the records of decisions (seed A,
Contradictions and User Resolution; vault format §11.19, §11.31, §11.34). Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from wikid_daemon.core import resolutions
from wikid_daemon.core.conflicts import Conflict, Reason, conflicts
from wikid_daemon.core.page import KnowledgeDocument
from wikid_daemon.core.remarks import Remark

_OPEN: Final[tuple[tuple[str, frozenset[Reason], str], ...]] = (
    (
        "conflict_unresolved",
        frozenset({"contradicts_both", "contradicts_one"}),
        "two pages contradict each other, and nobody has decided between them",
    ),
    ("supersedes_cycle", frozenset({"supersedes_both"}), "two stable pages say of each other that they replace it"),
)


def disputed(documents: Sequence[KnowledgeDocument], marked: Collection[str]) -> Iterator[Remark]:
    """Declared conflicts that no single live record settles; `marked` are the ids of pages with the marker of one."""
    by_id = {document.page_id: document for document in documents}
    for conflict in conflicts(documents, marked):
        if conflict.state == "undecided":
            yield from _undecided(conflict)
        elif conflict.state != "resolved":
            yield from _open(conflict, by_id)


def recorded(documents: Sequence[KnowledgeDocument], vault_id: str) -> Iterator[Remark]:
    """Records of decisions that cannot be followed, or not be trusted to be what was decided."""
    known = {document.page_id for document in documents}
    for document in documents:
        record = document.resolution
        if record is None:
            if document.category == resolutions.CATEGORY or isinstance(document.metadata.get("resolution"), dict):
                yield Remark("warning", "resolution_invalid", document.path, _why_no_record(document))
            continue
        expected = resolutions.identity(
            vault_id, record.selected, record.other, record.relation, record.scope, record.replaces
        )
        if record.id != expected:
            message = "the record's id is not the hash of what it says; it is followed all the same"
            yield Remark("warning", "resolution_id_mismatch", document.path, message)
        missing = tuple(claim for claim in (record.selected, record.other) if claim not in known)
        if missing:
            message = "the record decides about a page that is not there"
            yield Remark("warning", "resolution_missing_claim", document.path, message, related=missing)


def _why_no_record(document: KnowledgeDocument) -> str:
    if document.category != resolutions.CATEGORY:
        return f"it holds a resolution, but its category is not {resolutions.CATEGORY}"
    return "its resolution is missing, or lacks something that a decision needs"


def _open(conflict: Conflict, by_id: Mapping[str, KnowledgeDocument]) -> Iterator[Remark]:
    for code, reasons, message in _OPEN:
        if not reasons.isdisjoint(conflict.reasons):
            first, *others = conflict.claims
            yield Remark("warning", code, by_id[first].path, message, related=tuple(others))


def _undecided(conflict: Conflict) -> Iterator[Remark]:
    """One remark for each of the live records, naming the pages of the others."""
    for decided in conflict.decided:
        others = tuple(each.page.page_id for each in conflict.decided if each is not decided)
        message = "another record decides the same conflict, and neither replaces the other"
        yield Remark("warning", "conflict_undecided", decided.page.path, message, related=others)
