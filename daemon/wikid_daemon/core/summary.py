"""What recall needs to know of a page without reading it again: the catalog keeps one of these beside its chunks."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from wikid_daemon.core.page import KnowledgeDocument, Resolution, Role, Status, Verification


@dataclass(frozen=True, slots=True)
class PageSummary:
    """The parsed page less its text, links and raw frontmatter. Field meanings are `KnowledgeDocument`'s."""

    title: str
    type: str
    role: Role
    status: Status
    description: str
    domain: str | None
    category: str | None
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    recall_triggers: tuple[str, ...]
    created: str | None
    updated: str | None
    stale_after: str | None
    generated_at: str | None
    verified: tuple[Verification, ...]
    resolution: Resolution | None = None

    @property
    def verified_at(self) -> str | None:
        """The latest dated verification."""
        return max((each.at for each in self.verified if each.at is not None), default=None)


_NAMES = tuple(field.name for field in fields(PageSummary))
_TUPLES = ("aliases", "tags", "recall_triggers")


def summarise(document: KnowledgeDocument) -> PageSummary:
    return PageSummary(**{name: getattr(document, name) for name in _NAMES})


def summary_from_json(stored: dict[str, Any]) -> PageSummary:
    """The summary that was written with orjson."""
    # catalogs of earlier versions know no resolutions, and are read again by and by
    values = {name: stored[name] for name in _NAMES if name != "resolution"}
    for name in _TUPLES:
        values[name] = tuple(values[name])
    values["verified"] = tuple(Verification(**each) for each in values["verified"])
    resolution = stored.get("resolution")
    values["resolution"] = None if resolution is None else Resolution(**resolution)
    return PageSummary(**values)
