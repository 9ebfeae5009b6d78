"""Ranked pages → memory bundles: a card, its evidence, and what disputes it (seed A, Context Packing). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

MAX_EVIDENCE: Final = 2  # per card (seed A, Context Packing)
MAX_CONFLICTS: Final = 4

Key = tuple[int, int]
"""(vault's place in the answer, page number): a page among several vaults."""


@dataclass(frozen=True, slots=True)
class Related:
    """A page one typed hop away. `label` is the relation's type as seen from the other end of the hop."""

    key: Key
    label: str
    scope: str | None = None


@dataclass(slots=True)
class Grouped:
    """One bundle in the making; where there is no card the evidence is unpromoted."""

    card: Key | None = None
    evidence: list[Related] = field(default_factory=list)
    conflicts: list[Related] = field(default_factory=list)


# what the other page is to the seed, by (relation, is the seed its source?); the rest adds nothing
EVIDENCE_LABELS: Final = {("supports", False): "supports", ("derived_from", True): "derived from"}
CONFLICT_LABELS: Final = {
    ("contradicts", True): "contradicts",
    ("contradicts", False): "contradicts",
    ("supersedes", True): "superseded by the card",
    ("supersedes", False): "supersedes",
    ("qualifies", True): "qualified by the card",
    ("qualifies", False): "qualifies",
    ("applies_under", True): "applies outside the card's scope",
    ("applies_under", False): "applies under",
}


def group(
    ranked: Sequence[Key],
    *,
    is_card: Callable[[Key], bool],
    evidence_of: Mapping[Key, Sequence[Related]],
    conflicts_of: Mapping[Key, Sequence[Related]],
    linked: Callable[[Key, Key], bool],
    limit: int,
) -> list[Grouped]:
    """At most `limit` bundles in rank order; no page stands in two of them as card or evidence.

    Typed evidence comes first and may be a page that was not retrieved; untyped links only attach pages that were. A
    retrieved evidence page brings the retrieved card it belongs to in front of it.
    """
    place = {key: rank for rank, key in enumerate(ranked)}
    used: set[Key] = set()
    bundles: list[Grouped] = []
    for key in ranked:
        if len(bundles) == limit:
            break
        if key in used:
            continue
        card = key if is_card(key) else _card_of(key, ranked, used, is_card, evidence_of, linked)
        bundle = Grouped(card)
        used.add(key)
        if card is None:
            bundle.evidence.append(Related(key, ""))
        else:
            used.add(card)
            disputing = {each.key for each in conflicts_of.get(card, ())}
            typed = [each for each in evidence_of.get(card, ()) if each.key not in used or each.key == key]
            typed.sort(key=lambda each: (place.get(each.key, len(place)), each.key))
            known = {each.key for each in typed} | disputing
            untyped = [
                Related(other, "")
                for other in ranked
                if other not in known
                and not is_card(other)
                and (other not in used or other == key)
                and linked(card, other)
            ]
            bundle.evidence = _chosen([*typed, *untyped], key)
            used.update(each.key for each in bundle.evidence)
        seed = key if card is None else card
        shown = {each.key for each in bundle.evidence} if card is None else {card}
        disputed = [each for each in conflicts_of.get(seed, ()) if each.key not in shown]
        # the page that brought the card stands first, so that the limit never drops it
        disputed.sort(key=lambda each: each.key != key)
        bundle.conflicts = list(dict.fromkeys(disputed))[:MAX_CONFLICTS]
        used.update(each.key for each in bundle.conflicts)
        bundles.append(bundle)
    return bundles


def _chosen(found: Sequence[Related], key: Key) -> list[Related]:
    """The first of them, each page once; `key`, which is why the bundle is here, is never the one left out."""
    once: dict[Key, Related] = {}
    for each in found:
        once.setdefault(each.key, each)
    chosen = list(once.values())[:MAX_EVIDENCE]
    if key in once and once[key] not in chosen:
        chosen[-1] = once[key]
    return chosen


def _card_of(
    key: Key,
    ranked: Sequence[Key],
    used: set[Key],
    is_card: Callable[[Key], bool],
    evidence_of: Mapping[Key, Sequence[Related]],
    linked: Callable[[Key, Key], bool],
) -> Key | None:
    """The best retrieved card that this evidence page belongs to."""
    for other in ranked:
        if other in used or not is_card(other):
            continue
        if any(each.key == key for each in evidence_of.get(other, ())) or linked(other, key):
            return other
    return None
