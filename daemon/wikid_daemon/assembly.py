"""Candidates of several vaults → one ranking → the bundles of an answer, as records for the wire."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from wikid_daemon.core import query as q
from wikid_daemon.core import ranking
from wikid_daemon.core.bundles import CONFLICT_LABELS, EVIDENCE_LABELS, Grouped, Key, Related, group
from wikid_daemon.core.dates import freshness
from wikid_daemon.core.names import printable
from wikid_daemon.core.query import Terms
from wikid_daemon.core.summary import PageSummary
from wikid_daemon.index.catalog_rows import StoredChunk, StoredPage
from wikid_daemon.index.store import Found, Store
from wikid_daemon.retrieval import Candidate, Question, judge
from wikid_daemon.vaults import Applied
from wikid_protocol import records as r

EXCERPT_CODE_POINTS: Final = 800  # seed A, first-release limits
NEVER_DEDUPED: Final = ("sources/SRC-", "sources/obs-", "trajectories/")


@dataclass(frozen=True, slots=True)
class Searched:
    """A vault that was searched: what it gave, what of that passed floor and period, and the terms as weighed there."""

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
    score: float


def merge(searched: Sequence[Searched]) -> list[Ranked]:
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
                verified_by_human=any(who.by.startswith("human:") for who in summary.verified),
            )
            ranked.append(Ranked((place, each.found.page.page), each, base * factor))
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


class Assembly:
    """The pages of one answer on their way into bundles."""

    def __init__(
        self, now: datetime, question: Question, searched: Sequence[Searched], ranked: Sequence[Ranked]
    ) -> None:
        self._now = now
        self._question = question
        self._searched = searched
        self._ranked = {each.key: each for each in ranked}
        self._pages: dict[Key, StoredPage] = {each.key: each.candidate.found.page for each in ranked}

    def bundles(self, limit: int) -> tuple[r.Bundle, ...]:
        evidence: dict[Key, dict[Related, None]] = {}
        conflicts: dict[Key, dict[Related, None]] = {}
        links: set[tuple[Key, Key]] = set()
        for place in range(len(self._searched)):
            self._relate(place, evidence, conflicts, links)
        grouped = group(
            list(self._ranked),
            is_card=self._is_card,
            evidence_of={key: list(found) for key, found in evidence.items()},
            conflicts_of={key: list(found) for key, found in conflicts.items()},
            linked=lambda a, b: (a, b) in links or (b, a) in links,
            limit=limit,
        )
        self._load({each.key for bundle in grouped for each in (*bundle.evidence, *bundle.conflicts)})
        self._drop_copies(grouped)
        return tuple(self._bundle(each, rank) for rank, each in enumerate(grouped, 1))

    def _drop_copies(self, grouped: Sequence[Grouped]) -> None:
        """A relation must not bring back the copy of a page that stands in the answer (vault format §11.33)."""
        own = [key for bundle in grouped for key in (bundle.card, *(each.key for each in bundle.evidence))]
        hashes = {self._pages[key].content_hash for key in own if key is not None and key in self._ranked}
        for bundle in grouped:
            bundle.evidence = [
                each
                for each in bundle.evidence
                if each.key in self._ranked
                or (each.key in self._pages and self._pages[each.key].content_hash not in hashes)
            ]

    def _load(self, wanted: Collection[Key]) -> None:
        """Pages that a relation brought in; only those that are shown, since a page may have thousands of relations."""
        for place, vault in enumerate(self._searched):
            missing = [number for where, number in wanted if where == place and (place, number) not in self._pages]
            for number, page in vault.store.catalog.pages(missing).items():
                self._pages[place, number] = page

    def _is_card(self, key: Key) -> bool:
        return self._pages[key].summary.role == "canonical"

    def _relate(
        self,
        place: int,
        evidence: dict[Key, dict[Related, None]],
        conflicts: dict[Key, dict[Related, None]],
        links: set[tuple[Key, Key]],
    ) -> None:
        """One typed hop from every page of this vault in the ranking, both ways, and the untyped links among them."""
        catalog = self._searched[place].store.catalog
        mine = {number: page.page_id for (where, number), page in self._pages.items() if where == place}
        if not mine:
            return
        numbers = {page_id: number for number, page_id in mine.items()}
        if any(self._is_card((place, number)) for number in mine):
            links.update(((place, source), (place, target)) for source, target in catalog.links_among(numbers))
        typed = [*catalog.relations_from(list(mine)), *catalog.relations_to(list(numbers))]
        number_of = numbers | catalog.numbers_of([each.target for each in typed if each.target not in numbers])
        for link in typed:
            target = number_of.get(link.target)
            if target is None or target == link.source or link.relation is None:
                continue
            source, other = (place, link.source), (place, target)
            for seed, far, leaves in ((source, other, True), (other, source, False)):
                if seed not in self._ranked:
                    continue
                for labels, into in ((EVIDENCE_LABELS, evidence), (CONFLICT_LABELS, conflicts)):
                    label = labels.get((link.relation, leaves))
                    if label is not None:
                        into.setdefault(seed, {})[Related(far, label, link.scope)] = None

    def _bundle(self, grouped: Grouped, rank: int) -> r.Bundle:
        return r.Bundle(
            card=None if grouped.card is None else self._item(grouped.card, rank),
            evidence=tuple(
                self._item(each.key, rank, None if grouped.card is None else each) for each in grouped.evidence
            ),
            conflicts=tuple(self._item(each.key, rank, each) for each in grouped.conflicts if each.key in self._pages),
        )

    def _item(self, key: Key, rank: int, related: Related | None = None) -> r.Item:
        place, _ = key
        page, terms = self._pages[key], self._searched[place].terms
        vault, summary = self._searched[place].applied.vault, page.summary
        ranked = self._ranked.get(key)
        chunk = ranked.candidate.found.chunk if ranked is not None else self._best_chunk(key, terms)
        # two claims that are set side by side both read from their beginning
        around = None if related is not None and related.label in CONFLICT_LABELS.values() else terms
        shown = q.excerpt(chunk.text, chunk.line, around, EXCERPT_CODE_POINTS) if chunk is not None else None
        path = vault.pages_root / page.path
        return r.Item(
            vault_id=r.VaultId(vault.vault_id),
            vault=vault.name,
            page_id=r.PageId(printable(page.page_id)),
            path=printable(str(path)),
            title=summary.title,
            type=summary.type,
            role=summary.role,
            status=summary.status,
            freshness=freshness(summary, self._now),
            excerpt="" if shown is None else shown.text,
            line=1 if shown is None else shown.line,
            score=round(self._confidence(key, ranked, chunk), 4),
            rank=rank,
            match_reasons=_reasons(ranked, related),
            heading=None if chunk is None or not chunk.heading else chunk.heading,
            scope=None if related is None else related.scope,
            dates=_dates(summary),
            relation=None if related is None or not related.label else related.label,
            # deleted since the index saw it: told, never served as present
            missing=not os.path.lexists(path),
        )

    def _confidence(self, key: Key, ranked: Ranked | None, chunk: StoredChunk | None) -> float:
        if ranked is not None:
            return ranked.candidate.confidence
        if chunk is None:
            return 0.0
        store = self._searched[key[0]].store
        vector = self._question.vector_for(store)
        cosines = {} if vector is None else store.cosines(vector, [chunk.chunk])
        found = Found(chunk, self._pages[key])
        return judge(self._question, found, self._searched[key[0]].terms, cosines.get(chunk.chunk)).confidence

    def _best_chunk(self, key: Key, terms: Terms) -> StoredChunk | None:
        chunks = self._searched[key[0]].store.catalog.chunks_of(key[1])
        return max(chunks, key=lambda each: (terms.coverage(each.text), -each.ordinal), default=None)


def _dates(summary: PageSummary) -> r.Dates:
    return r.Dates(
        created=summary.created,
        updated=summary.updated,
        stale_after=summary.stale_after,
        verified=summary.verified_at,
    )


def _reasons(ranked: Ranked | None, related: Related | None) -> tuple[str, ...]:
    reasons = []
    if ranked is not None:
        candidate = ranked.candidate
        if candidate.identity is not None:
            reasons.append(f"{candidate.identity.by} match")
        if candidate.fused.lexical is not None:
            reasons.append(f"words {candidate.coverage:.0%}")
        if candidate.fused.cosine is not None:
            reasons.append(f"meaning {max(candidate.fused.cosine, 0.0):.2f}")
    if related is not None:
        reasons.append(f"relation {related.label}" if related.label else "linked")
    return tuple(reasons)
