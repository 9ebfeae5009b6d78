"""One typed hop from the pages of an answer, both ways, in the vault they are in (seed A, Typed-Link Expansion)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wikid_daemon.core.bundles import CARD_LABELS, CONFLICT_LABELS, CONTRADICTS, EVIDENCE_LABELS, Key, Related
from wikid_daemon.core.page import Resolution
from wikid_daemon.core.resolutions import RESOLVES, live
from wikid_daemon.index.catalog_reading import CatalogReader
from wikid_daemon.index.catalog_rows import StoredLink, StoredPage

Pair = frozenset[Key]


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision on a pair of pages, and the page that records it."""

    record: Resolution
    page: StoredPage


@dataclass(slots=True)
class Relations:
    """What the pages of an answer are to each other, and to pages one hop away.

    `links` are untyped ones between pages of the answer. `settled`: the one decision on a pair; `open`: pairs on which
    several decisions stand.
    """

    evidence: dict[Key, dict[Related, None]] = field(default_factory=dict)
    conflicts: dict[Key, dict[Related, None]] = field(default_factory=dict)
    cards: dict[Key, dict[Related, None]] = field(default_factory=dict)
    links: set[tuple[Key, Key]] = field(default_factory=set)
    settled: dict[Pair, Decision] = field(default_factory=dict)
    open: set[Pair] = field(default_factory=set)

    def linked(self, one: Key, other: Key) -> bool:
        return (one, other) in self.links or (other, one) in self.links


def relate(relations: Relations, place: int, catalog: CatalogReader, pages: Mapping[int, StoredPage]) -> None:
    """Add what is known of these pages of the vault at `place`: page number → page."""
    if not pages:
        return
    numbers = {page.page_id: number for number, page in pages.items()}
    if any(page.summary.role == "canonical" for page in pages.values()):
        relations.links.update(((place, one), (place, other)) for one, other in catalog.links_among(numbers))
    typed = [*catalog.relations_from(list(pages)), *catalog.relations_to(list(numbers))]
    number_of = numbers | catalog.numbers_of([each.target for each in typed if each.target not in numbers])
    id_of = catalog.ids_of(list({each.source for each in typed}))
    hops = []
    for link in typed:
        target = number_of.get(link.target)
        if target is None or target == link.source or link.source not in id_of:
            continue
        hops += [(link.target, link, link.source, target, True), (id_of[link.source], link, target, link.source, False)]
    # what was not retrieved stands in the order of its page id (seed A, first-release limits)
    for _, link, seed, far, leaves in sorted(hops, key=lambda each: each[0]):
        for labels, into in (
            (EVIDENCE_LABELS, relations.evidence),
            (CONFLICT_LABELS, relations.conflicts),
            (CARD_LABELS, relations.cards),
        ):
            label = labels.get((link.relation or "", leaves))
            if label is not None and seed in pages:
                into.setdefault((place, seed), {})[Related((place, far), label, link.scope)] = None
    _decide(relations, place, catalog, pages, typed)


def _decide(
    relations: Relations,
    place: int,
    catalog: CatalogReader,
    pages: Mapping[int, StoredPage],
    typed: Sequence[StoredLink],
) -> None:
    """A decision takes the place of what the pages themselves declare; two that both stand leave the conflict open."""
    recorded = catalog.pages(list({each.source for each in typed if each.relation == RESOLVES}))
    by_id = {page.summary.resolution.id: page for page in recorded.values() if page.summary.resolution is not None}
    records = [page.summary.resolution for page in by_id.values() if page.summary.resolution is not None]
    number_of = catalog.numbers_of([claim for record in records for claim in (record.selected, record.other)])
    for claims, standing in live(records).items():
        if any(claim not in number_of for claim in claims):
            continue
        pair = frozenset((place, number_of[claim]) for claim in claims)
        if len(standing) == 1:
            record = standing[0]
            relations.settled[pair] = Decision(record, by_id[record.id])
            selected, other = (place, number_of[record.selected]), (place, number_of[record.other])
            decided = [
                (selected, Related(other, CONFLICT_LABELS[record.relation, True], record.scope)),
                (other, Related(selected, CONFLICT_LABELS[record.relation, False], record.scope)),
            ]
        else:
            relations.open.add(pair)
            one, two = sorted(pair)
            decided = [(one, Related(two, CONTRADICTS)), (two, Related(one, CONTRADICTS))]
        for seed, related in decided:
            if seed[1] in pages:
                declared = relations.conflicts.get(seed, {})
                others = [each for each in declared if each.key != related.key]
                relations.conflicts[seed] = dict.fromkeys([*others, related])
