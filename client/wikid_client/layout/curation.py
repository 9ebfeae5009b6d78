"""Notes that were written, conflicts and decisions, for a person. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from wikid_client.layout.notes import diagnostics, hanging, listed, moment
from wikid_client.layout.spans import BLANK, Line, Span, Style, row
from wikid_client.text import joined, line
from wikid_protocol.memories import ConflictResolution, Diagnostic
from wikid_protocol.records import Claim, Conflict, ConflictList, ConflictResolved, Insight, Observed

_STATES: Final[dict[str, tuple[str, Style]]] = {
    "undecided": ("several decisions stand", "bad"),
    "confirmed": ("each contradicts the other", "warn"),
    "proposed": ("may disagree", "warn"),
    "resolved": ("decided", "good"),
}
_REASONS: Final = {
    "contradicts_both": "each says that it contradicts the other",
    "contradicts_one": "one says that it contradicts the other",
    "supersedes_both": "each says that it supersedes the other",
    "correction": "a person corrected the page",
    "marker": "its text has the sign of a contradiction",
}
_RELATIONS: Final = {
    "supersedes": "supersedes",
    "qualifies": "qualifies",
    "applies_under": "applies instead of",
}


def observed(found: Observed, width: int) -> list[Line]:
    said = "Noted as " if found.created else "Noted before, as "
    facts = (f"relevance {found.relevance}", *(f"#{line(tag)}" for tag in found.tags))
    return _saved(said, found, facts, width)


def learned(found: Insight, width: int) -> list[Line]:
    said = "Noted as " if found.created else "Changed " if found.changed else "Noted before, as "
    return _saved(said, found, (line(found.category),), width)


def conflicts(found: ConflictList, width: int) -> list[Line]:
    """The conflicts in their order, each with its claims, why it is one, and what was decided or can be."""
    lines: list[Line] = []
    for each in found.conflicts:
        lines += [*_conflict(each, width), BLANK]
    if not found.conflicts:
        lines.append(row(Span("No conflict.", "title")))
    amounts = (f"{number:,} {line(state)}" for state, number in found.counts.items())
    return lines + listed(amounts, width)


def resolved(found: ConflictResolved, width: int) -> list[Line]:
    said = "Decided: " if found.created else "Decided before: "
    decision = found.resolution
    page = Span(line(f"{decision.vault}:{decision.page_id}"), "id", decision.path)
    return [
        *hanging("✓ ", said + _decision(decision), width, 0, "good"),
        row("recorded as ", page, indent=2),
        *hanging("", f"to change it: --replaces {line(decision.id)}", width, 2, "dim"),
        *diagnostics(found.diagnostics, width),
    ]


def _saved(said: str, found: Observed | Insight, facts: Iterable[str], width: int) -> list[Line]:
    told: tuple[Diagnostic, ...] = found.diagnostics
    page = Span(line(f"{found.vault}:{found.page_id}"), "id", found.path)
    return [row(Span(said, "title"), page), *listed(facts, width, 2), *diagnostics(told, width)]


def _conflict(found: Conflict, width: int) -> list[Line]:
    words, style = _STATES.get(found.state, (line(found.state), ""))
    lines: list[Line] = [row(Span(words, style))]
    for claim in found.claims:
        lines += _claim(claim, found, width)
    if found.state != "resolved":
        for reason in found.reasons:
            told = _REASONS.get(reason, line(reason))
            at = f", in line {found.line:,}" if found.line is not None else ""
            lines += hanging("! ", told + at, width, 2, "warn")
    for decision in found.resolutions:
        lines += hanging("✓ ", f"{moment(decision.decided_at)}  {_decision(decision)}", width, 2, "good")
        lines += hanging("", f"id {line(decision.id)}", width, 4, "dim")
    for page_id in found.stale:
        lines += hanging("! ", f"{line(page_id)} has changed since, or is gone", width, 2, "warn")
    return lines + _next(found, width)


def _claim(claim: Claim, found: Conflict, width: int) -> list[Line]:
    name = Span(line(f"{found.vault}:{claim.page_id}"), "id", claim.path)
    if claim.missing:
        return [row(name, Span("  gone", "bad"), indent=2)]
    updated = f"updated {moment(claim.updated)}" if claim.updated else ""
    facts = joined((line(claim.title), line(claim.type), line(claim.status), updated))
    return [row(name, indent=2), *hanging("", facts, width, 4, "dim")]


def _next(found: Conflict, width: int) -> list[Line]:
    """What a person can do about it."""
    if found.state == "undecided":
        return hanging("→ ", "remove the pages of the decisions that do not hold", width, 2, "dim")
    if found.state == "resolved" or len(found.claims) < 2 or any(claim.missing for claim in found.claims):
        return []
    one, other = (line(f"{found.vault}:{claim.page_id}") for claim in found.claims)
    return hanging("→ ", f"where the first holds: wikid resolve {one} {other} --relation supersedes", width, 2, "dim")


def _decision(decision: ConflictResolution) -> str:
    scope = f" under: {line(decision.scope)}" if decision.scope else ""
    said = _RELATIONS.get(decision.relation, line(decision.relation))
    return f"{line(decision.selected_page_id)} {said} {line(decision.other_page_id)}{scope}"
