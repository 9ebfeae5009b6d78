"""What is worth saying about a whole vault: findings across pages, with stable codes (vault format §2.3, §11.17). Pure.

Nothing here changes a page or makes one (§11.32).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from wikid_daemon.core import links, relations, resolutions
from wikid_daemon.core.copies import suspicious
from wikid_daemon.core.dates import freshness
from wikid_daemon.core.disputes import disputed, recorded
from wikid_daemon.core.names import conflict_original, sort_key
from wikid_daemon.core.page import Finding, Json, KnowledgeDocument
from wikid_daemon.core.reaching import Reach
from wikid_daemon.core.remarks import Remark, Weight, in_order, remark
from wikid_daemon.core.survey import Survey

STATUSES: Final = frozenset(
    {
        *("skeleton", "ingested", "observation", "insight", "stub"),
        *("draft", "clarified", "active", "implemented", "deferred", "rejected"),
        *("stable", "deprecated"),
    }
)
_EVIDENCE_KEYS: Final = ("sources", "source_id", "trajectories", "trajectory_id")


def lint(survey: Survey, *, strict: bool, vault_id: str, now: datetime) -> list[Remark]:
    """All that the pages of a vault give cause for, in order. In a plain folder, which is not `strict`, names reach
    pages as its editor would have them, and nothing is asked of a page but what it claims of itself."""
    documents = survey.documents
    reach = Reach((document.page_id for document in documents), strict=strict)
    return in_order(
        [
            *map(remark, survey.findings),
            *_links(documents, reach),
            *_orphans(documents, reach),
            *_relations(documents),
            *_evidence(documents),
            *disputed(documents, survey.markers),
            *recorded(documents, vault_id),
            *_markers(documents, survey.markers),
            *_freshness(documents, now),
            *_statuses(documents),
            *_copies(survey),
        ]
    )


def search_remarks(state: str, reason: str, pending: int, failed: Mapping[str, str]) -> list[Remark]:
    """Where search does not show what is saved: `state` and `reason` are the indexer's, `failed` is by path."""
    found = []
    if state not in ("ready", "blocked"):
        why = f": {reason.replace('_', ' ')}" if reason else ""
        found.append(Remark("warning", "search_stale", ".", f"the index is {state}{why}"))
    elif pending:
        found.append(Remark("warning", "search_stale", ".", f"{pending:,} saved pages are not searchable yet"))
    for path, why in failed.items():
        message = f"it is not searchable as it is now: {why.replace('_', ' ')}"
        found.append(Remark("warning", "search_stale", path, message))
    return found


def _links(documents: Sequence[KnowledgeDocument], reach: Reach) -> Iterator[Remark]:
    mentions: defaultdict[str, list[str]] = defaultdict(list)
    for document in documents:
        reached = reach.reached(document)
        targets = [link.target for link in document.links if link.target not in reached]
        yield from _about(links.unresolved(document, reached), targets)
        for target in dict.fromkeys(filter(_could_be_page, targets)):
            mentions[target].append(document.page_id)
    for target, sources in mentions.items():
        message = "no page has this id, and there are links to it"
        yield Remark("hint", "page_missing", f"{target}.md", message, related=tuple(sorted(sources, key=sort_key)))


def _could_be_page(target: str) -> bool:
    """Whether a page of that id would mend the link; other targets are misspelt."""
    return not target.startswith("/") and not target.endswith(".md") and not any(mark in target for mark in "#\\")


def _about(findings: Iterable[Finding], targets: Iterable[str]) -> Iterator[Remark]:
    """One finding for each target, which it is about."""
    for finding, target in zip(findings, targets, strict=True):
        yield replace(remark(finding), related=(target,))


def _orphans(documents: Sequence[KnowledgeDocument], reach: Reach) -> Iterator[Remark]:
    linked: set[str] = set()
    for document in documents:
        for link in document.links:
            linked.update(page_id for page_id in reach.pages(link.target) if page_id != document.page_id)
    for document in documents:
        if document.role == "canonical" and document.page_id not in linked and not _is_record(document):
            yield Remark("hint", "page_orphan", document.path, "no other page links to it")


def _relations(documents: Sequence[KnowledgeDocument]) -> Iterator[Remark]:
    known = {document.page_id for document in documents}
    for document in documents:
        targets = [relation.target for relation in document.relations if relation.target not in known]
        yield from _about(relations.missing_targets(document, known), targets)


def _evidence(documents: Sequence[KnowledgeDocument]) -> Iterator[Remark]:
    supported = {
        relation.target for document in documents for relation in document.relations if relation.type == "supports"
    }
    for document in documents:
        named = any(_says_something(document.metadata.get(key)) for key in _EVIDENCE_KEYS)
        named = named or document.page_id in supported
        named = named or any(relation.type == "derived_from" for relation in document.relations)
        if document.role == "canonical" and document.status == "stable" and not named and not _is_record(document):
            # without a status it counts as stable, but does not claim to be
            weight: Weight = "warning" if "status" in document.metadata else "hint"
            yield Remark(weight, "evidence_missing", document.path, "it counts as stable, but rests on nothing named")


def _markers(documents: Sequence[KnowledgeDocument], markers: Mapping[str, int]) -> Iterator[Remark]:
    for document in documents:
        line = markers.get(document.page_id)
        if line is not None:
            message = "a marker in the text says that the page contradicts something"
            yield Remark("warning", "contradiction_marker", document.path, message, line)


def _freshness(documents: Sequence[KnowledgeDocument], now: datetime) -> Iterator[Remark]:
    for document in documents:
        if document.status == "deprecated":
            continue
        if freshness(document, now) == "stale":
            yield Remark("warning", "page_stale", document.path, "its stale_after has passed")
        if freshness(replace(document, stale_after=None), now) == "outdated":
            message = "it was generated again after its latest verification"
            yield Remark("warning", "verification_outdated", document.path, message)


def _statuses(documents: Sequence[KnowledgeDocument]) -> Iterator[Remark]:
    for document in documents:
        status = document.metadata.get("status")
        if status is not None and not (isinstance(status, str) and status.strip().lower() in STATUSES):
            message = "its status is no word that is known; the page counts as stable"
            yield Remark("hint", "status_unknown", document.path, message)


def _copies(survey: Survey) -> Iterator[Remark]:
    for path in survey.copies:
        original = conflict_original(path) or path
        message = "a sync tool's copy of a page that was changed in two places"
        yield Remark("warning", "conflict_copy", path, message, related=(_id(original),))
    for path, original in suspicious(document.path for document in survey.documents).items():
        message = "its name is that of a copy of the page beside it"
        yield Remark("hint", "suspicious_copy_name", path, message, related=(_id(original),))


def _is_record(document: KnowledgeDocument) -> bool:
    return document.category == resolutions.CATEGORY


def _says_something(value: Json) -> bool:
    return bool(value.strip()) if isinstance(value, str) else bool(value)


def _id(path: str) -> str:
    return path.removesuffix(".md")


def severities(remarks: Iterable[Remark]) -> dict[str, int]:
    """How many errors, warnings and hints there are."""
    counts = {"error": 0, "warning": 0, "hint": 0}
    for each in remarks:
        counts[each.severity] += 1
    return counts
