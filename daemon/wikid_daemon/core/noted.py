"""What is noted down as a page of its own: observations, insights, corrections, and pages that were to exist (vault
format §5). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from wikid_daemon.core.composing import compose, one_line
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.events import timestamp_of
from wikid_daemon.core.feedback import CORRECTION
from wikid_daemon.core.linking import link_to
from wikid_daemon.core.page import Json

FOLDERS: Final[Mapping[str, str]] = {
    "source": "sources",
    "entity": "entities",
    "concept": "concepts",
    "synthesis": "syntheses",
    "analysis": "analyses",
    "requirement": "requirements",
    "skill": "skills",
    "case": "cases",
}
"""The folder of each type of page (vault format §2.4)."""

OBSERVED_LONGEST: Final = 60  # of an observation's own part of its slug, in UTF-16 code units
INSIGHT: Final = "insight"
UNCATEGORIZED: Final = "uncategorized"
_OF_THE_MOMENT: Final = ("slug", "created", "updated", "observed_at")


def day_of(moment: datetime) -> str:
    """The date in UTC, as pages have it."""
    return moment.astimezone(UTC).date().isoformat()


def tags_of(given: Iterable[str]) -> list[str]:
    """The tags without repeats, `#` and blanks."""
    words = ("-".join(one_line(tag).lstrip("#").split()) for tag in given)
    return list(dict.fromkeys(word for word in words if word))


def observation(
    name: str, title: str, content: str, relevance: str, tags: list[str], context: str, moment: datetime
) -> bytes:
    """What somebody saw, as the source page `name`."""
    heading = f"Observation: {title}"
    fields = _observed(name, heading, relevance, moment)
    if tags:
        fields["tags"] = [*tags]
    if context:
        fields["source_context"] = context
    return compose(fields, f"# {heading}\n\n{content}")


def correction(
    name: str, page_id: str, title: str, text: str, vault_id: str, query_hash: str, moment: datetime
) -> bytes:
    """What a person said against a page that a recall had shown (seed A, Feedback), as the source page `name`."""
    heading = f"Correction: {title}"
    fields = _observed(name, heading, "high", moment) | {
        "category": CORRECTION,
        "corrected_page": page_id,
        "vault_id": vault_id,
        "query_hash": query_hash,
    }
    return compose(fields, f"# {heading}\n\nThis corrects {link_to(page_id, title)}.\n\n{text}")


def insight(name: str, title: str, body: str, category: str, moment: datetime) -> bytes:
    """What somebody learned, as the source page `name`."""
    fields: dict[str, Json] = {"type": "source", "title": title, "slug": name, "status": INSIGHT}
    if category:
        fields["category"] = category
    return compose(fields | _dates(moment), insight_body(title, body))


def insight_body(title: str, body: str) -> str:
    return f"# {title}\n\n{body}"


def ensured(kind: str, title: str, content: str, moment: datetime) -> bytes:
    """A page of this type for somebody to go on with: nobody has reviewed it yet, so it is no more than a draft."""
    status = "draft" if content.strip() else "stub"
    return compose(
        {"type": kind, "title": title, "status": status} | _dates(moment),
        content if content.lstrip().startswith("# ") else f"# {title}\n\n{content}",
    )


def says_the_same(one: bytes, other: bytes) -> bool:
    """Whether two pages tell the same, whenever that was and whatever they are called."""
    return _told(one) == _told(other)


def _told(data: bytes) -> object:
    document = parse_page("page.md", data, strict=True).document
    if document is None:
        return data
    return {key: value for key, value in document.metadata.items() if key not in _OF_THE_MOMENT}, document.body.strip()


def _observed(name: str, heading: str, relevance: str, moment: datetime) -> dict[str, Json]:
    return {
        "type": "source",
        "title": heading,
        "slug": name,
        "status": "observation",
        "relevance": relevance,
        "observed_at": timestamp_of(moment),
        **_dates(moment),
    }


def _dates(moment: datetime) -> dict[str, Json]:
    return {"created": day_of(moment), "updated": day_of(moment)}
