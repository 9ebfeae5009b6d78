"""Typed relations between pages, the `relations` key (vault format §11.17 to §11.19)."""

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass

from wikid_daemon.core.page import Finding, Json, KnowledgeDocument, Relation

SCOPED_TYPE = "applies_under"
TYPES = frozenset(
    {"supports", "contradicts", "qualifies", "supersedes", SCOPED_TYPE, "derived_from", "related_to"},
)
_KEYS = frozenset({"target", "type", "scope"})


@dataclass(frozen=True, slots=True)
class Relations:
    relations: tuple[Relation, ...]
    findings: tuple[Finding, ...]


def read(value: Json, *, page_id: str, path: str, linked_ids: Collection[str]) -> Relations:
    """Keep the entries that follow every rule; each other entry becomes one warning.

    `linked_ids` are the targets of the body's Markdown links outside code: a relation needs one of them.
    """
    if value is None:
        return Relations((), ())
    if not isinstance(value, list):
        return Relations((), (_finding("relation_invalid_shape", path, "relations must be a list of mappings"),))
    kept: dict[Relation, None] = {}
    findings: list[Finding] = []
    for number, item in enumerate(value, start=1):
        relation = _relation(item)
        if isinstance(relation, Relation):
            problem = _misuse(relation, page_id, linked_ids, duplicate=relation in kept)
            if problem is None:
                kept[relation] = None
                continue
        else:
            problem = relation
        code, reason = problem
        findings.append(_finding(code, path, f"relation {number} {reason}"))
    return Relations(tuple(kept), tuple(findings))


def missing_targets(document: KnowledgeDocument, known_ids: Collection[str]) -> list[Finding]:
    """A warning for each relation whose target is not among `known_ids`."""
    return [
        _finding("relation_missing_target", document.path, f"a {relation.type} relation names no known page")
        for relation in document.relations
        if relation.target not in known_ids
    ]


def _finding(code: str, path: str, message: str) -> Finding:
    return Finding("warning", code, path, message)


def _relation(item: Json) -> Relation | tuple[str, str]:
    """The entry itself, or the code and reason that its shape is refused for."""
    if not isinstance(item, dict) or not item.keys() <= _KEYS:
        return "relation_invalid_shape", "must be a mapping of target, type and optional scope only"
    target, kind, scope = item.get("target"), item.get("type"), item.get("scope")
    if not isinstance(target, str) or not isinstance(kind, str):
        return "relation_invalid_shape", "needs a target and a type, both text"
    if kind not in TYPES:
        return "relation_unknown_type", "has a type that is not known here"
    target = unicodedata.normalize("NFC", target)
    if not _is_page_id(target):
        return "relation_invalid_target", "must name a page id: no leading slash, no suffix, no fragment"
    if kind == SCOPED_TYPE:
        if not isinstance(scope, str) or not scope.strip():
            return "relation_invalid_scope", f"is {SCOPED_TYPE} and needs a scope"
        return Relation(target, kind, scope.strip())
    if scope is not None:
        return "relation_invalid_scope", f"has a scope, which only {SCOPED_TYPE} takes"
    return Relation(target, kind, None)


def _misuse(
    relation: Relation, page_id: str, linked_ids: Collection[str], *, duplicate: bool
) -> tuple[str, str] | None:
    if relation.target == page_id:
        return "relation_self_link", "leads to its own page"
    if duplicate:
        return "relation_duplicate", "repeats an earlier one"
    if relation.target not in linked_ids:
        return "relation_missing_body_link", "has no Markdown link to its target in the body"
    return None


def _is_page_id(text: str) -> bool:
    if text != text.strip() or text.endswith(".md") or any(mark in text for mark in "#\\\n"):
        return False
    return all(segment not in ("", ".", "..") for segment in text.split("/"))
