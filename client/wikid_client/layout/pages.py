"""Pages and look-ups for a person. Pure."""

from __future__ import annotations

from wikid_client.layout.notes import diagnostics, hanging
from wikid_client.layout.spans import BLANK, Line, Span, marked, row
from wikid_client.text import clean, count, joined, line, matcher, wrap
from wikid_protocol.records import Page, PageMatches


def matches(found: PageMatches, query: str, width: int) -> list[Line]:
    """One page in two lines: title and type, then how a command names it."""
    words = matcher(query)
    lines: list[Line] = []
    for each in found.matches:
        title = wrap(line(each.title), width) or [line(each.page_id)]
        lines += [
            row(*(span._replace(link=each.path) for span in marked(part, words, style="title"))) for part in title
        ]
        name = line(f"{each.vault}:{each.page_id}")
        lines.append(row(*marked(name, words, style="id"), "  ", Span(line(each.type), "dim"), indent=2))
    unseen = diagnostics(found.diagnostics, width)
    if not lines:
        none = [row(Span("No page matches.", "title")), row(Span("→ by meaning: wikid recall QUERY", "dim"), indent=2)]
        return [*none, *unseen]
    lines += unseen
    if found.next_cursor:
        lines.append(row(Span("There are more; ask more narrowly.", "dim")))
    return lines


def page(found: Page, width: int) -> list[Line]:
    """The page's own text as it is, under a short head and over its relations."""
    about = joined(
        (line(found.type), found.role, found.status, line(found.freshness), count(found.total_lines, "line"))
    )
    lines: list[Line] = [row(Span(each, "title", found.path)) for each in wrap(line(found.title), width)]
    lines.append(row(Span(line(f"{found.vault}:{found.page_id}"), "id")))
    lines += [*hanging("", about, width, style="dim"), BLANK]
    lines += [row(each) for each in clean(found.text).rstrip("\n").split("\n")]
    shown = found.from_line - 1 + len(found.text.rstrip("\n").split("\n"))
    if found.from_line > 1 or shown < found.total_lines:
        lines += [BLANK, row(Span(f"lines {found.from_line:,}–{shown:,} of {found.total_lines:,}", "dim"))]
    if found.next_line is not None:
        lines += hanging("", "The page is too long to be shown whole; --heading shows a section.", width, style="dim")
    links = [
        *(
            joined((line(each.type).replace("_", " "), line(each.target), line(each.scope or "")), " ")
            for each in found.relations
        ),
        *(f"linked from {line(each)}" for each in found.backlinks),
    ]
    unlisted = found.backlinks_total - len(found.backlinks)
    if unlisted > 0:
        links.append(f"linked from {unlisted:,} more")
    if links:
        lines.append(BLANK)
    for each in links:
        lines += hanging("→ ", each, width, style="dim")
    return lines
