"""Candidates of several vaults → one ranking: adjusted, merged by rank, each page once (seed A, layered merge)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from wikid_daemon.core import ranking
from wikid_daemon.core.bundles import Key
from wikid_daemon.core.dates import is_verified_by_human
from wikid_daemon.core.query import Terms
from wikid_daemon.index.store import Store
from wikid_daemon.judging import Candidate
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vaults import Applied

Feedback = Callable[[Vault, str, datetime], float]
"""What people's reactions to a page of a vault, given by its id, come to by then; within ±0.02."""

# equal ids of these are accidents, not the same page (vault format §11.33)
NEVER_DEDUPED: Final = ("sources/SRC-", "sources/obs-", "trajectories/")


@dataclass(frozen=True, slots=True)
class Searched:
    """A vault that was searched: what it gave, what of that passed the floor, and the terms as weighed there."""

    applied: Applied
    store: Store
    candidates: Sequence[Candidate]
    passed: Sequence[Candidate]
    terms: Terms


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate among all vaults: `score` is what it is ordered by, `candidate.confidence` what is shown."""

    key: Key
    candidate: Candidate
    factor: float
    score: float


def no_feedback(_vault: Vault, _page_id: str, _now: datetime) -> float:
    return 0.0


def merge(searched: Sequence[Searched], now: datetime, feedback: Feedback = no_feedback) -> list[Ranked]:
    """One ranking: a lone vault by its fused score, several by reciprocal rank, which alone is comparable (seed A)."""
    alone = sum(bool(each.passed) for each in searched) <= 1
    ranked = []
    for place, vault in enumerate(searched):
        for each in vault.passed:
            summary = each.found.page.summary
            base = each.fused.score if alone else ranking.reciprocal_rank(each.rank)
            factor = ranking.multiplier(
                identity=each.identity is not None,
                role=summary.role,
                status=summary.status,
                verified_by_human=is_verified_by_human(summary, now),
                feedback=feedback(vault.applied.vault, each.found.page.page_id, now),
            )
            ranked.append(Ranked((place, each.found.page.page), each, factor, base * factor))
    # the project stands before the personal vault, so its place breaks a tie as seed A asks
    ranked.sort(key=lambda each: (-each.score, each.candidate.rank, each.key[0], each.candidate.found.page.page_id))
    return _deduplicated(ranked, searched)


def _deduplicated(ranked: Sequence[Ranked], searched: Sequence[Searched]) -> list[Ranked]:
    """Project pages win over personal ones with their id; equal content is shown once (vault format §11.33)."""
    project = [each.candidate.found.page for each in ranked if searched[each.key[0]].applied.layer == "project"]
    project_ids = {page.page_id for page in project if not page.page_id.startswith(NEVER_DEDUPED)}
    project_hashes = {page.content_hash for page in project}
    hashes: set[str] = set()
    kept = []
    for each in ranked:
        page = each.candidate.found.page
        hidden = searched[each.key[0]].applied.layer == "personal" and (
            page.page_id in project_ids or page.content_hash in project_hashes
        )
        if hidden or page.content_hash in hashes:
            continue
        hashes.add(page.content_hash)
        kept.append(each)
    return kept
