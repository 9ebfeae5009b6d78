"""Ranked pages → the bundles of an answer: grouped by one typed hop, chosen, packed, and written out as records."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from wikid_daemon.core import query as q
from wikid_daemon.core.bundles import CONFLICT_LABELS, SUPERSEDES, Grouped, Key, Related, cards_first, group
from wikid_daemon.core.dates import freshness
from wikid_daemon.core.names import printable
from wikid_daemon.core.packing import AUTOMATIC_BUDGET, EXCERPT_BUDGET, diverse, fit
from wikid_daemon.core.query import Terms
from wikid_daemon.core.summary import PageSummary
from wikid_daemon.index.catalog_rows import StoredChunk, StoredPage
from wikid_daemon.index.store import Found
from wikid_daemon.judging import BROUGHT_IN, Scale, judge
from wikid_daemon.merging import Ranked, Searched
from wikid_daemon.relating import Decision, Relations, relate
from wikid_daemon.retrieval import Question
from wikid_protocol import records as r

LONGEST_TITLE: Final = 300  # code points shown; what a page calls its title may be a whole paragraph
MAX_BROUGHT: Final = 2  # cards that one piece of evidence may bring
INLINED: Final = ("skill", "case")  # vault format §8

# what a client that writes for a model adds, at most (client: layout/context): a test holds the two together
ANSWER_OVERHEAD: Final = 800
BUNDLE_OVERHEAD: Final = 250
ITEM_OVERHEAD: Final = 300
LINE_OVERHEAD: Final = 2


@dataclass(frozen=True, slots=True)
class Policy:
    """How many bundles an answer may have, how reliable they must be, and how they are chosen.

    `floor` is on the scale of confidence; `inline_max`, in code points, is the longest `Item.body`, 0 for none.
    """

    automatic: bool
    limit: int
    floor: float
    inline_max: int


class Assembly:
    """The pages of one answer on their way into bundles."""

    def __init__(
        self,
        now: datetime,
        question: Question,
        searched: Sequence[Searched],
        ranked: Sequence[Ranked],
        policy: Policy,
        *,
        related: bool = True,
    ) -> None:
        """Without `related` no page's relations and links are followed."""
        self._now = now
        self._question = question
        self._searched = searched
        self._ranked = {each.key: each for each in ranked}
        self._pages: dict[Key, StoredPage] = {each.key: each.candidate.found.page for each in ranked}
        self._policy = policy
        self._gone: set[Key] = set()
        self._relations = Relations()
        self._cards: dict[Key, list[Related]] = {}
        if related:
            self._relate(self._pages.keys())
            self._bring_cards()

    def assemble(self) -> tuple[tuple[r.Bundle, ...], tuple[tuple[str, str], ...]]:
        """The bundles, and the pairs of page ids on which several decisions stand."""
        grouped = self._chosen(self._grouped())
        self._load({each.key for bundle in grouped for each in (*bundle.evidence, *bundle.conflicts)})
        self._drop_copies(grouped)
        self._look_for(grouped)
        bundles = [self._bundle(each, rank) for rank, each in enumerate(grouped, 1)]
        if self._policy.automatic:
            bundles = fit(bundles, _cost, _trimmed, AUTOMATIC_BUDGET - ANSWER_OVERHEAD)
        return tuple(bundles), self._undecided(grouped)

    def _relate(self, keys: Collection[Key]) -> None:
        for place, vault in enumerate(self._searched):
            mine = {number: self._pages[place, number] for where, number in keys if where == place}
            relate(self._relations, place, vault.store.catalog, mine)

    def _bring_cards(self) -> None:
        """Of evidence that was retrieved without its card, the reviewed cards that it supports, with what disputes
        them: a conclusion is worth more than the note it came from, but not without its doubts."""
        wanted = {
            key: [each for each in found if each.key not in self._ranked][:MAX_BROUGHT]
            for key, found in ((key, self._relations.cards.get(key, {})) for key in self._ranked)
            if not self._is_card(key)
        }
        brought = {each.key for found in wanted.values() for each in found}
        self._load(brought)
        cards = [key for key in brought if key in self._pages and self._may_lead(key)]
        self._relate(cards)
        current = {
            key for key in cards if all(each.label != SUPERSEDES for each in self._relations.conflicts.get(key, {}))
        }
        self._cards = {key: [each for each in found if each.key in current] for key, found in wanted.items()}

    def _may_lead(self, key: Key) -> bool:
        summary = self._pages[key].summary
        return summary.role == "canonical" and summary.status != "deprecated" and self._question.admits(summary)

    # -- which bundles -------------------------------------------------------------------------------------------------

    def _grouped(self) -> list[Grouped]:
        relations = self._relations
        return group(
            list(self._ranked),
            is_card=self._is_card,
            evidence_of={key: list(found) for key, found in relations.evidence.items()},
            conflicts_of={key: list(found) for key, found in relations.conflicts.items()},
            linked=relations.linked,
            cards_of=self._cards,
        )

    def _chosen(self, grouped: Sequence[Grouped]) -> list[Grouped]:
        """Cards before what nobody reviewed; without being asked, not more than one needs to know (seed A, Packing)."""
        ordered = cards_first(grouped, self._reliance)
        if not self._policy.automatic:
            return ordered[: self._policy.limit]
        cards = [each for each in ordered if each.card is not None]
        # unpromoted evidence only where no card covers the need
        return diverse(cards or ordered, self._kind, self._policy.limit)

    def _reliance(self, bundle: Grouped) -> float:
        """The confidence of the page that was retrieved for the bundle."""
        keys = [bundle.card, *(each.key for each in (*bundle.evidence, *bundle.conflicts))]
        found = [self._ranked[key].candidate.confidence for key in keys if key is not None and key in self._ranked]
        return max(found, default=0.0)

    def _kind(self, bundle: Grouped) -> tuple[str, str | None] | None:
        if bundle.card is None:
            return None
        summary = self._pages[bundle.card].summary
        return summary.type.strip().lower(), summary.domain

    def _is_card(self, key: Key) -> bool:
        return self._pages[key].summary.role == "canonical"

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

    def _look_for(self, grouped: Sequence[Grouped]) -> None:
        """What is shown and was deleted since the index saw it is told, never served as present."""
        related = {each.key for bundle in grouped for each in (*bundle.evidence, *bundle.conflicts)}
        shown = self._pages.keys() & {*related, *(bundle.card for bundle in grouped)}
        for place, vault in enumerate(self._searched):
            keys = {self._pages[key].path: key for key in shown if key[0] == place}
            self._gone.update(keys[path] for path in vault.applied.indexer.reader.gone(keys))

    def _undecided(self, grouped: Sequence[Grouped]) -> tuple[tuple[str, str], ...]:
        shown = {key for bundle in grouped for key in (bundle.card, *(each.key for each in bundle.conflicts))}
        pairs = [sorted(pair) for pair in self._relations.open if pair <= shown and pair <= self._pages.keys()]
        return tuple((self._name(one), self._name(other)) for one, other in sorted(pairs))

    def _name(self, key: Key) -> str:
        return printable(self._pages[key].page_id)

    # -- as records ----------------------------------------------------------------------------------------------------

    def _bundle(self, grouped: Grouped, rank: int) -> r.Bundle:
        seed = grouped.card or grouped.evidence[0].key
        conflicts = [each for each in grouped.conflicts if each.key in self._pages]
        decisions = [self._relations.settled.get(frozenset((seed, each.key))) for each in conflicts]
        decided = next((each for each in decisions if each is not None), None)
        return r.Bundle(
            card=None if grouped.card is None else self._item(grouped.card, rank, grouped.admitted),
            evidence=tuple(
                self._item(each.key, rank, None if grouped.card is None else each) for each in grouped.evidence
            ),
            conflicts=tuple(
                replace(self._item(each.key, rank, each), settled_by=None if decision is None else decision.record.id)
                for each, decision in zip(conflicts, decisions, strict=True)
            ),
            resolution=None if decided is None else self._resolution(seed[0], decided),
        )

    def _resolution(self, place: int, decision: Decision) -> r.ConflictResolution:
        vault, record = self._searched[place].applied.vault, decision.record
        return r.ConflictResolution(
            id=record.id,
            vault_id=r.VaultId(vault.vault_id),
            vault=vault.name,
            page_id=r.PageId(printable(decision.page.page_id)),
            path=printable(str(vault.pages_root / decision.page.path)),
            selected_page_id=r.PageId(printable(record.selected)),
            other_page_id=r.PageId(printable(record.other)),
            relation=record.relation,
            scope=record.scope,
            decided_by=record.decided_by,
            decided_at=record.decided_at,
            replaces=record.replaces,
        )

    def _item(self, key: Key, rank: int, related: Related | None = None) -> r.Item:
        place, _ = key
        page, terms = self._pages[key], self._searched[place].terms
        vault, summary = self._searched[place].applied.vault, page.summary
        ranked = self._ranked.get(key)
        chunk = ranked.candidate.found.chunk if ranked is not None else self._best_chunk(key, terms)
        # two claims that are set side by side both read from their beginning
        around = None if related is not None and related.label in CONFLICT_LABELS.values() else terms
        shown = q.excerpt(chunk.text, chunk.line, around, EXCERPT_BUDGET) if chunk is not None else None
        return r.Item(
            vault_id=r.VaultId(vault.vault_id),
            vault=vault.name,
            page_id=r.PageId(printable(page.page_id)),
            path=printable(str(vault.pages_root / page.path)),
            title=_shortened(summary.title),
            type=summary.type,
            role=summary.role,
            status=summary.status,
            freshness=freshness(summary, self._now),
            excerpt="" if shown is None else shown.text,
            line=1 if shown is None else shown.line,
            score=round(self._confidence(key, ranked, chunk), 4),
            rank=rank,
            match_reasons=_reasons(ranked, related),
            heading=None if chunk is None or not chunk.heading else _shortened(chunk.heading),
            scope=None if related is None else related.scope,
            dates=_dates(summary),
            relation=None if related is None or not related.label else related.label,
            missing=key in self._gone,
            body=self._body(key) if related is None else None,
        )

    def _body(self, key: Key) -> str | None:
        """A skill's or case's whole text, where a client may want it at once and it is short enough."""
        if self._pages[key].summary.type.strip().lower() not in INLINED or not self._policy.inline_max:
            return None
        chunks = self._searched[key[0]].store.catalog.chunks_of(key[1])
        whole = "\n\n".join(each.text.strip() for each in chunks)
        return whole if 0 < len(whole) <= self._policy.inline_max else None

    def _confidence(self, key: Key, ranked: Ranked | None, chunk: StoredChunk | None) -> float:
        if ranked is not None:
            return ranked.candidate.confidence
        if chunk is None:
            return 0.0
        store = self._searched[key[0]].store
        vector = self._question.vector_for(store)
        cosines = {} if vector is None else store.cosines(vector, [chunk.chunk], self._question.model)
        found = Found(chunk, self._pages[key])
        scale = Scale.of(store, self._question)
        terms = self._searched[key[0]].terms
        return judge(self._question, found, terms, cosines.get(chunk.chunk), scale, BROUGHT_IN).confidence

    def _best_chunk(self, key: Key, terms: Terms) -> StoredChunk | None:
        chunks = self._searched[key[0]].store.catalog.chunks_of(key[1])
        return max(chunks, key=lambda each: (terms.coverage(each.text), -each.ordinal), default=None)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1] + "…"


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


def _cost(bundle: r.Bundle) -> int:
    """Code points of the bundle when it is written for a model, or a few more."""
    items = [each for each in (bundle.card, *bundle.evidence, *bundle.conflicts) if each is not None]
    decided = bundle.resolution
    record = 0 if decided is None else len(decided.page_id) + len(decided.selected_page_id) + len(decided.other_page_id)
    return BUNDLE_OVERHEAD + record + sum(map(_item_cost, items))


def _item_cost(item: r.Item) -> int:
    # page ids stand once more in the question that a conflict asks
    names = len(item.title) + 3 * len(item.page_id) + 3 * len(item.vault) + len(item.path) + len(item.type)
    about = (
        len(item.heading or "") + len(item.scope or "") + len(item.relation or "") + sum(map(len, item.match_reasons))
    )
    text = item.body or item.excerpt
    return ITEM_OVERHEAD + names + about + len(text) + LINE_OVERHEAD * (text.count("\n") + 1)


def _trimmed(bundle: r.Bundle) -> r.Bundle | None:
    """The bundle with its least part less; the card and what contradicts it stay together."""
    if bundle.card is not None and bundle.card.body is not None:
        return replace(bundle, card=replace(bundle.card, body=None))
    if bundle.evidence and bundle.card is not None:
        return replace(bundle, evidence=bundle.evidence[:-1])
    if len(bundle.conflicts) > 1:
        return replace(bundle, conflicts=bundle.conflicts[:-1])
    return None
