"""Times in notes: RFC 3339 text in, RFC 3339 text with offset out (vault format §11.16), and freshness (§10)."""

import re
from datetime import datetime
from typing import Literal, Protocol

from wikid_daemon.core.page import Json, Verification

Freshness = Literal["current", "stale", "outdated", "unverified"]

_FORM = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]+)?)?([Zz]|[+-][0-9]{2}:[0-9]{2}))?"
)


class Dated(Protocol):
    """What freshness is judged by; `KnowledgeDocument` and `PageSummary` both have it."""

    @property
    def stale_after(self) -> str | None: ...
    @property
    def generated_at(self) -> str | None: ...
    @property
    def verified(self) -> tuple[Verification, ...]: ...


def normalised(value: Json) -> str | None:
    """RFC 3339 with offset, or None when `value` is no such time. A date alone is that day at 00:00Z."""
    if not isinstance(value, str):
        return None
    match = _FORM.fullmatch(value.strip())
    if match is None:
        return None
    date, minutes, seconds, offset = match.groups()
    text = f"{date}T{minutes or '00:00'}{seconds or ':00'}{(offset or 'Z').upper()}"
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return None
    return text


def instant(text: str) -> datetime:
    """The moment that a time from `normalised` names."""
    return datetime.fromisoformat(text)


def freshness(document: Dated, now: datetime) -> Freshness:
    """How far the page may be trusted to be up to date at `now` (an aware datetime); the first that holds:

    `stale`: `stale_after` has come. `outdated`: generated again after its latest dated verification.
    `unverified`: nobody verified it. `current`: verified, and neither of the above.
    """
    if document.stale_after is not None and now >= instant(document.stale_after):
        return "stale"
    if not document.verified:
        return "unverified"
    checked = [instant(entry.at) for entry in document.verified if entry.at is not None]
    if document.generated_at is not None and checked and max(checked) < instant(document.generated_at):
        return "outdated"
    return "current"


def is_verified_by_human(document: Dated, now: datetime) -> bool:
    """Whether a person's verification still holds: not overtaken by time or by a later generation (seed A,
    Adjustments)."""
    people = any(entry.by.startswith("human:") for entry in document.verified)
    return people and freshness(document, now) == "current"
