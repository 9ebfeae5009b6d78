"""A person's decision between two claims on its way into a page: what forbids it, what it is called, what it says
(seed A, Contradictions and User Resolution; vault format §11.31). Pure.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from wikid_daemon.core import resolutions
from wikid_daemon.core.composing import compose, one_line
from wikid_daemon.core.linking import link_to
from wikid_daemon.core.page import Choice, Json, KnowledgeDocument, Resolution

FOLDER: Final = "analyses"
DECIDED_BY: Final = "user"
NAME_BEGINS: Final = "resolution-"
_NAME_DIGITS: Final = 16
_SAID: Final[Mapping[Choice, str]] = {
    "supersedes": "supersedes",
    "qualifies": "qualifies",
    "applies_under": "applies instead of",
}


class DecisionRefused(ValueError):
    """The decision cannot be recorded. `invalid` is True where it never could be, whatever the vault holds."""

    def __init__(self, message: str, hint: str, *, invalid: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.invalid = invalid


@dataclass(frozen=True, slots=True)
class Claim:
    """A page that something is decided about."""

    page_id: str
    title: str


def decision(
    vault_id: str,
    selected: str,
    other: str,
    relation: Choice,
    scope: str | None,
    replaces: str | None,
    decided_at: str,
) -> Resolution:
    """The record of the decision. DecisionRefused for a page against itself, and for a scope where none belongs or none
    is."""
    if selected == other:
        raise DecisionRefused("a page cannot be decided against itself", "give two pages", invalid=True)
    stated = unicodedata.normalize("NFC", one_line(scope or "")) or None
    if (stated is not None) != (relation == resolutions.SCOPED):
        needs = "needs a scope" if stated is None else f"takes no scope; only {resolutions.SCOPED} does"
        raise DecisionRefused(f"{relation} {needs}", "say where the selected claim applies", invalid=True)
    replaced = (replaces or "").strip() or None
    identity = resolutions.identity(vault_id, selected, other, relation, stated, replaced)
    return Resolution(identity, selected, other, relation, stated, DECIDED_BY, decided_at, replaced)


def standing(record: Resolution, known: Iterable[Resolution]) -> Resolution | None:
    """The record that says the same already and stands, of the `known` ones; None where the new one may be written.

    DecisionRefused where another one stands that this one does not replace, several do, or what it replaces does not.
    """
    pair = resolutions.pair_of(record)
    records = [each for each in known if resolutions.pair_of(each) == pair]
    live = resolutions.live(records).get(pair, [])
    if len(live) > 1:
        ids = ", ".join(sorted(each.id for each in live))
        raise DecisionRefused(
            "several decisions stand between these two pages, and neither replaces the other",
            f"remove the pages of those that do not hold: {ids}",
        )
    active = live[0] if live else None
    if active is not None and active.id == record.id:
        return active
    if active is not None and record.replaces is None:
        raise DecisionRefused("a decision stands between these two pages", f"to change it, replace {active.id}")
    if record.replaces is not None and (active is None or active.id != record.replaces):
        hint = "none stands" if active is None else f"replace {active.id}"
        raise DecisionRefused("what is to be replaced is not the decision that stands between these two pages", hint)
    if any(each.id == record.id for each in records):
        raise DecisionRefused("this decision was made before, and replaced", "remove the pages that replace each other")
    return None


def page_id_of(record: Resolution) -> str:
    return f"{FOLDER}/{NAME_BEGINS}{record.id[:_NAME_DIGITS]}"


def page_of(record: Resolution, selected: Claim, other: Claim, rationale: str, day: str) -> bytes:
    """The page that records the decision, for ever."""
    title = f"{one_line(selected.title)} {_SAID[record.relation]} {one_line(other.title)}"
    written: dict[str, Json] = {
        "id": record.id,
        "selected": record.selected,
        "other": record.other,
        "relation": record.relation,
        "scope": record.scope,
        "decided_by": record.decided_by,
        "decided_at": record.decided_at,
        "replaces": record.replaces,
    }
    fields: dict[str, Json] = {
        "type": "analysis",
        "title": title,
        "status": "stable",
        "category": resolutions.CATEGORY,
        "created": day,
        "updated": day,
        "resolution": written,
    }
    said = f"{link_to(selected.page_id, selected.title)} {_SAID[record.relation]} "
    said += f"{link_to(other.page_id, other.title)}{'' if record.scope is None else f' under: {record.scope}'}."
    parts = [f"# {title}", f"{said}", *(("## Rationale", rationale) if rationale.strip() else ())]
    return compose(fields, "\n\n".join(parts))


def is_recorded(document: KnowledgeDocument, record: Resolution) -> bool:
    """Whether a reader of the page finds the decision in it and both claims by its links, whatever the words around."""
    linked = {link.target for link in document.links if link.kind == "markdown"}
    same = document.resolution is not None and replace(document.resolution, decided_at=record.decided_at) == record
    return same and {record.selected, record.other} <= linked
