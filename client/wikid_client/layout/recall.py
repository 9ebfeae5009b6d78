"""A recall for a person: numbered memories, each with its evidence and what disputes it. Pure."""

from __future__ import annotations

import re
from typing import Final

from wikid_client.layout import items
from wikid_client.layout.items import reference
from wikid_client.layout.notes import diagnostics, elapsed, hanging, listed
from wikid_client.layout.spans import BLANK, Line, Span, Style, beside, marked, row
from wikid_client.text import count, excerpt, line, matcher, wrap
from wikid_protocol.memories import Bundle, ConflictResolution, Item, Recall, SearchedVault

NO_MEMORY: Final = "no_reliable_memory"

_DECIDE: Final = "decide with: wikid resolve SELECTED OTHER --relation supersedes, qualifies or applies_under"
_LOOK_UP: Final = "by title, alias, id or tag: wikid search WORDS"
_ADD: Final = "add your notes: wikid vault add PATH"
_CARD_LINES: Final = 7
_EVIDENCE_LINES: Final = 4
_SIDE_LINES: Final = 6
_NARROWEST_SIDE: Final = 30

Words = re.Pattern[str] | None


def recall(answer: Recall, query: str, width: int) -> list[Line]:
    """The answer at most `width` columns wide, the words of `query` marked in it."""
    words = matcher(query)
    lines: list[Line] = []
    for number, bundle in enumerate(answer.bundles, 1):
        lines += [*_bundle(bundle, number, words, width), BLANK]
    if not answer.bundles:
        lines.append(row(Span(_nothing(answer), "title")))
        if not answer.vaults:
            lines += hanging("→ ", _ADD, width, 2, "dim")
        elif not (answer.stale or answer.pending):  # else there is something better to do: wait
            lines += hanging("→ ", _LOOK_UP, width, 2, "dim")
    lines += diagnostics(answer.diagnostics, width)
    lines += _currency(answer, width)
    lines += listed(_footer(answer), width)
    return lines


def _bundle(bundle: Bundle, number: int, words: Words, width: int) -> list[Line]:
    sign = f"{number}  "
    indent = len(sign)
    lines: list[Line] = []
    leading = items.leading(bundle)
    if leading is None:
        return lines
    title = wrap(line(leading.title), width - indent)
    for i, each in enumerate(title or ["(no title)"]):
        lines.append(row(Span(sign if i == 0 else " " * indent, "label"), _link(each, leading)))
    promoted = bundle.card is not None
    claims = items.sides(bundle)
    most = 0 if claims else _CARD_LINES  # a claim's words stand beside those that dispute it
    lines += _body(leading, words, width, indent, most, promoted=promoted)
    for item in bundle.evidence:
        if item is not leading:
            lines += [BLANK, *_evidence(item, words, width, indent, promoted=promoted)]
    for other in claims[1:]:
        lines += [BLANK, *_conflict(claims[0], other, words, width, indent, promoted=promoted)]
        lines += _outcome(claims[0], other, bundle.resolution, width, indent)
    return lines


def _body(item: Item, words: Words, width: int, indent: int, most: int, *, promoted: bool) -> list[Line]:
    lines = [row(Span(each, "id"), indent=indent) for each in wrap(reference(item), width - indent)]
    lines += listed(_facts(item, promoted=promoted), width, indent)
    lines += _warned(item, width, indent)
    if item.heading and most:
        lines += hanging("§ ", line(item.heading), width, indent, "label")
    for each in excerpt(item.excerpt, words, width - indent - 2, most) if most else ():
        lines.append(row(Span("│ ", "dim"), *marked(each, words), indent=indent))
    if found := items.reasons(item):
        lines += hanging("", f"matched by {found}", width, indent, "dim")
    return lines


def _link(title: str, item: Item) -> Span:
    return Span(title, "title", item.path, item.line)


def _facts(item: Item, *, promoted: bool) -> tuple[str, ...]:
    return *items.facts(item, promoted=promoted), items.scope(item), f"confidence {item.score:.2f}"


def _warned(item: Item, width: int, indent: int = 0) -> list[Line]:
    style: Style = "bad" if item.missing else "warn"
    return [each for warning in items.warnings(item) for each in hanging("! ", warning, width, indent, style)]


def _evidence(item: Item, words: Words, width: int, indent: int, *, promoted: bool) -> list[Line]:
    sign = f"{items.relation(item, 'linked evidence' if promoted else 'evidence')}: "
    head = [
        row(Span(sign if i == 0 else "", "label"), _link(each, item), indent=indent)
        for i, each in enumerate(wrap(line(item.title), width - indent - len(sign)) or [""])
    ]
    return [*head, *_body(item, words, width, indent + 2, _EVIDENCE_LINES, promoted=promoted)]


def _conflict(left: Item, right: Item, words: Words, width: int, indent: int, *, promoted: bool) -> list[Line]:
    lines = hanging("", _quarrel(right.relation), width, indent, "warn")
    room = width - indent
    column = (room - 3) // 2
    if column >= _NARROWEST_SIDE:
        one, two = (_side(each, words, column, promoted=promoted) for each in (left, right))
        return lines + beside(one, two, width=column, indent=indent)
    one, two = (_side(each, words, room - 2, promoted=promoted) for each in (left, right))
    return lines + [row(*each, indent=indent + 2) if each else BLANK for each in (*one, BLANK, *two)]


def _outcome(left: Item, right: Item, resolution: ConflictResolution | None, width: int, indent: int) -> list[Line]:
    """What the person decided, or the question that is open."""
    if right.settled_by is not None:
        by_whom, what = items.decision(right, resolution)
        said = hanging("✓ ", by_whom, width, indent, "good")
        return said + (hanging("", what, width, indent + 2, "good") if what else [])
    if items.is_open(right):
        question = f"Which of the two applies: {' or '.join(items.choices(left, right))}?"
        asked = hanging("? ", question, width, indent, "warn")
        return asked + hanging("→ ", _DECIDE, width, indent + 2, "dim")
    return []


def _quarrel(relation: str | None) -> str:
    if relation in (None, "contradicts"):
        return "These two pages disagree"
    return f"These two pages do not say the same ({line(relation).replace('_', ' ')})"


def _side(item: Item, words: Words, width: int, *, promoted: bool) -> list[Line]:
    lines = [row(_link(each, item)) for each in wrap(line(item.title), width)]
    lines += [row(Span(each, "id")) for each in wrap(reference(item), width)]
    lines += listed(_facts(item, promoted=promoted), width)
    lines += _warned(item, width)
    # claims set side by side read from their beginning
    return lines + [marked(each, words) for each in excerpt(item.excerpt, None, width, _SIDE_LINES)]


def _nothing(answer: Recall) -> str:
    if answer.reason in (None, NO_MEMORY):
        return "No reliable memory."
    if answer.reason == items.OPENING:
        return "A vault is still being opened: ask again in a moment."
    return f"No reliable memory ({line(answer.reason).replace('_', ' ')})."


def _currency(answer: Recall, width: int) -> list[Line]:
    if not (answer.stale or answer.pending):
        return []
    behind = [_behind(each) for each in answer.vaults if each.stale or each.pending]
    where = f" ({', '.join(behind)})" if behind else ""
    said = f"This answer may be behind your notes{where}."
    return [
        *hanging("! ", said, width, 0, "warn"),
        *hanging("→ ", "to wait for the index: wikid sync", width, 2, "dim"),
    ]


def _behind(vault: SearchedVault) -> str:
    waiting = f"{count(vault.pending, 'page')} pending" if vault.pending else "stale"
    return f"{line(vault.name)}: {waiting}"


def _footer(answer: Recall) -> tuple[str, ...]:
    names = ", ".join(line(each.name) for each in answer.vaults)
    unembedded = sum(each.embedding_pending for each in answer.vaults)
    return (
        count(len(answer.bundles), "memory", "memories") if answer.bundles else "",
        f"searched {names}" if names else "no vault was searched",
        items.mode(answer),
        f"{count(unembedded, 'chunk')} not embedded yet" if unembedded else "",
        elapsed(answer.elapsed_ms),
    )
