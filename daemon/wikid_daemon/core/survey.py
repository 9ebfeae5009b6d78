"""A whole vault read once: what lint judges and a rebuild writes of. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from wikid_daemon.core.page import Finding, KnowledgeDocument
from wikid_daemon.core.projections import Packet

MARKER: Final = "⚠️ **Contradiction"


@dataclass(frozen=True, slots=True)
class Survey:
    """All pages of a vault in `names.sort_key` order, without their bodies, its packets, and what is wrong with its
    files.

    `markers` holds the file line of the first contradiction marker of each page that has one, by page id; `copies` are
    the paths of sync tools' conflict copies; `reserved` are those of `index.md` and `log.md`, whatever their case.
    """

    documents: tuple[KnowledgeDocument, ...] = ()
    packets: tuple[Packet, ...] = ()
    findings: tuple[Finding, ...] = ()
    markers: Mapping[str, int] = field(default_factory=dict)
    copies: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "error")


def without_text(document: KnowledgeDocument) -> KnowledgeDocument:
    """The page as a survey keeps it: a vault's texts together could fill the memory."""
    return replace(document, body="", blocks=())


def marker_line(document: KnowledgeDocument) -> int | None:
    """The file line of the first contradiction marker (vault format §7)."""
    at = document.body.find(MARKER)
    return None if at < 0 else document.body_line + document.body.count("\n", 0, at)


def unreadable(path: str, reason: str) -> Finding:
    """A file or folder that could not be read, for a reason in a stable word (vault format §2.3)."""
    code = reason if reason == "document_limit_bytes" else "frontmatter_parse_error"
    return Finding("error", code, unicodedata.normalize("NFC", path), f"it cannot be read: {reason.replace('_', ' ')}")
