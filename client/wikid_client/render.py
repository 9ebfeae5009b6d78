"""Records as text: for a person (`width` columns, no colour) and as Markdown for a model. Pure.

Text from notes is data. Control characters are taken out of everything a terminal would show; `recall_context` and
`page_context` wrap what a model would read in the answer's marker.
"""

from __future__ import annotations

from typing import Final

from wikid_client.layout import pages, status
from wikid_client.layout import recall as memories
from wikid_client.layout.context import page_context as page_context
from wikid_client.layout.context import recall_context as recall_context
from wikid_client.layout.spans import plain
from wikid_protocol import records as r

WIDTH: Final = 80


def recall_text(answer: r.Recall, query: str, *, width: int = WIDTH) -> str:
    """Numbered memories with their evidence and conflicts."""
    return plain(memories.recall(answer, query, width))


def status_text(report: r.StatusReport, *, width: int = WIDTH) -> str:
    return plain(status.status(report, width))


def vault_list_text(found: r.VaultList, *, width: int = WIDTH) -> str:
    return plain(status.vault_list(found, width))


def resolution_text(found: r.Resolution, *, width: int = WIDTH) -> str:
    return plain(status.resolution(found, width))


def page_text(found: r.Page, *, width: int = WIDTH) -> str:
    return plain(pages.page(found, width))


def matches_text(found: r.PageMatches, query: str, *, width: int = WIDTH) -> str:
    return plain(pages.matches(found, query, width))


def reindex_text(found: r.ReindexReports, *, width: int = WIDTH) -> str:
    return plain(status.reindexed(found, width))


def verify_text(found: r.VerifyReports, *, width: int = WIDTH) -> str:
    return plain(status.verified(found, width))


def sync_text(found: r.SyncedVaults, *, width: int = WIDTH) -> str:
    return plain(status.synced(found, width))


def models_text(found: r.ModelList, *, width: int = WIDTH) -> str:
    return plain(status.model_list(found, width))
