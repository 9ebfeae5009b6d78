"""A recall for a person: numbered memories, each with its evidence and what disputes it. Pure."""

from __future__ import annotations

import re
from typing import Final

from wikid_client.layout.notes import diagnostics, elapsed, hanging, listed, moment
from wikid_client.layout.spans import BLANK, Line, Span, beside, marked, row
from wikid_client.text import count, excerpt, line, matcher, wrap
from wikid_protocol.memories import Bundle, Item, Recall, SearchedVault

NO_MEMORY: Final = "no_reliable_memory"

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
    lines += diagnostics(answer.diagnostics, width)
    lines += _currency(answer, width)
    lines += listed(_footer(answer), width)
    return lines


def reference(item: Item) -> str:
    """How a command names the page: `vault:folder/name`."""
    return line(f"{item.vault}:{item.page_id}")


def choices(left: Item, right: Item) -> tuple[str, str]:
    """The page ids to choose between, with their vaults only where these differ."""
    if left.vault_id == right.vault_id:
        return line(left.page_id), line(right.page_id)
    return reference(left), reference(right)


def sides(bundle: Bundle) -> list[Item]:
    """The claims that stand against each other, the card first; empty where nothing is disputed."""
    if not bundle.conflicts:
        return []
    claims = [*([bundle.card] if bundle.card else []), *bundle.conflicts]
    return claims if len(claims) > 1 else []


def facts(item: Item) -> tuple[str, ...]:
    """What the page is and how far to trust it, each in a few words."""
    dates = item.dates
    dated = ("verified", dates.verified), ("updated", dates.updated), ("created", dates.created)
    return (
        line(item.type),
        item.role,
        item.status,
        line(item.freshness),
        next((f"{name} {moment(value)[:10]}" for name, value in dated if value), ""),
        f"applies to {line(item.scope)}" if item.scope else "",
        f"confidence {item.score:.2f}",
    )


def _bundle(bundle: Bundle, number: int, words: Words, width: int) -> list[Line]:
    sign = f"{number}  "
    indent = len(sign)
    lines: list[Line] = []
    leading = bundle.card or next(iter((*bundle.evidence, *bundle.conflicts)), None)
    if leading is None:
        return lines
    title = wrap(line(leading.title), width - indent)
    for i, each in enumerate(title or ["(no title)"]):
        lines.append(row(Span(sign if i == 0 else " " * indent, "label"), Span(each, "title", leading.path)))
    claims = sides(bundle)
    lines += _body(leading, words, width, indent, 0 if leading in claims else _CARD_LINES)
    for item in bundle.evidence:
        if item is not leading:
            lines += [BLANK, *_evidence(item, words, width, indent)]
    if claims:
        for other in claims[1:]:
            lines += [BLANK, *_conflict(claims[0], other, words, width, indent, asked=bundle.resolution is None)]
    else:  # a dispute whose other side is not among the results
        for item in bundle.conflicts:
            if item is not leading:
                lines += [BLANK, *_evidence(item, words, width, indent)]
    if bundle.resolution:
        lines += [BLANK, *_resolution(bundle.resolution, width, indent)]
    return lines


def _body(item: Item, words: Words, width: int, indent: int, most: int) -> list[Line]:
    lines = [row(Span(each, "id"), indent=indent) for each in wrap(reference(item), width - indent)]
    lines += listed(facts(item), width, indent)
    if item.missing:
        lines.append(row(Span("deleted since it was indexed", "bad"), indent=indent))
    if item.heading and most:
        lines += hanging("§ ", line(item.heading), width, indent, "label")
    for each in excerpt(item.excerpt, words, width - indent - 2, most) if most else ():
        lines.append(row(Span("│ ", "dim"), *marked(each, words), indent=indent))
    if item.match_reasons:
        lines += hanging("", "matched by " + ", ".join(map(line, item.match_reasons)), width, indent, "dim")
    return lines


def _evidence(item: Item, words: Words, width: int, indent: int) -> list[Line]:
    relation = line(item.relation or "evidence").replace("_", " ")
    sign = f"{relation}: "
    head = [
        row(Span(sign if i == 0 else "", "label"), Span(each, "title", item.path), indent=indent)
        for i, each in enumerate(wrap(line(item.title), width - indent - len(sign)) or [""])
    ]
    return [*head, *_body(item, words, width, indent + 2, _EVIDENCE_LINES)]


def _conflict(left: Item, right: Item, words: Words, width: int, indent: int, *, asked: bool) -> list[Line]:
    lines = [row(Span(_quarrel(right.relation), "warn"), indent=indent)]
    room = width - indent
    column = (room - 3) // 2
    if column >= _NARROWEST_SIDE:
        lines += beside(_side(left, words, column), _side(right, words, column), width=column, indent=indent)
    else:
        for item in (left, right):
            lines += [row(*each, indent=indent + 2) for each in _side(item, words, room - 2)]
    if asked:
        question = f"Which of the two applies: {' or '.join(choices(left, right))}?"
        lines += hanging("? ", question, width, indent, "warn")
    return lines


def _quarrel(relation: str | None) -> str:
    if relation in (None, "contradicts"):
        return "These two pages disagree"
    return f"These two pages do not say the same ({line(relation).replace('_', ' ')})"


def _side(item: Item, words: Words, width: int) -> list[Line]:
    lines = [row(Span(each, "title", item.path)) for each in wrap(line(item.title), width)]
    lines += [row(Span(each, "id")) for each in wrap(reference(item), width)]
    lines += listed(facts(item), width)
    if item.missing:
        lines.append(row(Span("deleted since it was indexed", "bad")))
    # claims set side by side read from their beginning
    return lines + [marked(each, words) for each in excerpt(item.excerpt, None, width, _SIDE_LINES)]


def _resolution(item: Item, width: int, indent: int) -> list[Line]:
    return hanging("✓ ", f"Settled by {line(item.title)} ({reference(item)})", width, indent, "good")


def _nothing(answer: Recall) -> str:
    if answer.reason in (None, NO_MEMORY):
        return "No reliable memory."
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
        answer.mode_used,
        f"{count(unembedded, 'chunk')} not embedded yet" if unembedded else "",
        elapsed(answer.elapsed_ms),
    )
