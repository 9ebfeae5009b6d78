"""What became of feedback, for a person. Pure."""

from __future__ import annotations

from wikid_client.layout.notes import hanging
from wikid_client.layout.spans import Line, Span, row
from wikid_client.text import count, line
from wikid_protocol.records import Judged, Signalled


def judged(found: Judged, width: int) -> list[Line]:
    """What was noted of the page, where the correction is, and how far the page is moved by all that was said of it."""
    lines = [row("Noted: ", Span(line(found.page_id), "id"), f" is {found.judgment}", _moved(found))]
    if found.correction_page_id is not None:
        lines.append(row("the correction is the page ", Span(line(found.correction_page_id), "id"), indent=2))
    if found.state == "correction_saved_feedback_pending":
        lines += hanging("! ", "the event log could not be written; the page makes up for it", width, 0, "warn")
    if found.feedback == "disabled":
        lines += hanging("! ", "no feedback counts now, since a part of the log cannot be read", width, 0, "warn")
        lines.append(row(Span("→ see: wikid events; then: wikid events --acknowledge", "dim"), indent=2))
    return lines


def signalled(found: Signalled) -> list[Line]:
    """How many pages it was noted for."""
    return [row("Noted for ", Span(count(found.counted, "page"), "title"))]


def _moved(found: Judged) -> str:
    return f"; its score is changed by {found.adjustment:+.1%}" if found.adjustment else ""
