"""Ranked pages → memory bundles: a card, its evidence, and what disputes it (seed A, Context Packing). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

MAX_EVIDENCE: Final = 2  # per card (seed A, Context Packing)
MAX_CONFLICTS: Final = 4
SUITABLE_SHARE: Final = 0.9  # of the answer's best confidence; a card below that does not cover the need

Key = tuple[int, int]
"""(vault's place in the answer, page number): a page among several vaults."""


NO_CARDS: Final[Mapping[Key, Sequence[Related]]] = {}


@dataclass(frozen=True, slots=True)
class Related:
    """A page one typed hop away. `label` is the relation's type as seen from the other end of the hop."""

    key: Key
    label: str
    scope: str | None = None


@dataclass(slots=True)
class Grouped:
    """One bundle in the making; where there is no card the evidence is unpromoted. `admitted` says how a card came in
    that was not retrieved."""

    card: Key | None = None
    evidence: list[Related] = field(default_factory=list)
    admitted: Related | None = None
    conflicts: list[Related] = field(default_factory=list)


CONTRADICTS: Final = "contradicts"
SUPERSEDES: Final = "supersedes"
SUPERSEDED: Final = "superseded by the card"

# what the other page is to the seed, by (relation, is the seed its source?); the rest adds nothing
EVIDENCE_LABELS: Final = {("supports", False): "supports", ("derived_from", True): "derived from"}
# what a card is to the evidence that was retrieved without it
CARD_LABELS: Final = {
    ("supports", True): "supported by the evidence",
    ("derived_from", False): "derived from the evidence",
}
CONFLICT_LABELS: Final = {
    ("contradicts", True): CONTRADICTS,
    ("contradicts", False): CONTRADICTS,
    ("supersedes", True): SUPERSEDED,
    ("supersedes", False): SUPERSEDES,
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
    cards_of: Mapping[Key, Sequence[Related]] = NO_CARDS,
) -> list[Grouped]:
    """Bundles in rank order; no page stands in two of them as card or evidence.

    Typed evidence comes first and may be a page that was not retrieved; untyped links only attach pages that were. A
    retrieved evidence page brings the retrieved card it belongs to in front of it, or else one of `cards_of`, the cards
    one typed hop away; and a superseded card brings the retrieved one that holds now.
    """
    place = {key: rank for rank, key in enumerate(ranked)}
    used: set[Key] = set()
    bundles: list[Grouped] = []
    for key in ranked:
        if key in used:
            continue
        history: list[Key] = []
        admitted: Related | None = None
        card: Key | None
        if is_card(key):
            *history, card = _line(key, place, used, is_card, conflicts_of)
        else:
            card = _card_of(key, ranked, used, is_card, evidence_of, linked)
            if card is None:
                admitted = next((each for each in cards_of.get(key, ()) if each.key not in used), None)
                card = None if admitted is None else admitted.key
        bundle = Grouped(card, admitted=admitted)
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
        direct = {each.key for each in disputed}
        disputed += [Related(each, SUPERSEDED) for each in history if each not in direct]
        # the page that brought the card stands first, then what contradicts it, so that the limit never drops these
        disputed.sort(key=lambda each: (each.key != key, each.label != CONTRADICTS))
        bundle.conflicts = list(dict.fromkeys(disputed))[:MAX_CONFLICTS]
        used.update(each.key for each in bundle.conflicts)
        bundles.append(bundle)
    return bundles


def cards_first(bundles: Sequence[Grouped], reliance: Callable[[Grouped], float]) -> list[Grouped]:
    """What nobody reviewed goes behind the last suitable card, else all stays as it was (seed A, Context Packing).

    `reliance` gives a bundle's confidence. A card is suitable unless something else is clearly more likely to answer.
    """
    best = max(map(reliance, bundles), default=0.0)
    suitable = [
        i for i, each in enumerate(bundles) if each.card is not None and reliance(each) >= SUITABLE_SHARE * best
    ]
    border = suitable[-1] + 1 if suitable else 0
    before, rest = bundles[:border], bundles[border:]
    cards = [each for each in before if each.card is not None]
    return [*cards, *(each for each in before if each.card is None), *rest]


def _chosen(found: Sequence[Related], key: Key) -> list[Related]:
    """The first of them, each page once; `key`, which is why the bundle is here, is never the one left out."""
    once: dict[Key, Related] = {}
    for each in found:
        once.setdefault(each.key, each)
    chosen = list(once.values())[:MAX_EVIDENCE]
    if key in once and once[key] not in chosen:
        chosen[-1] = once[key]
    return chosen


def _line(
    card: Key,
    place: Mapping[Key, int],
    used: set[Key],
    is_card: Callable[[Key], bool],
    conflicts_of: Mapping[Key, Sequence[Related]],
) -> list[Key]:
    """The card and what superseded it, step by step, up to the retrieved card that holds now; the card alone where they
    go round in a ring."""
    line = [card]
    while True:
        later = [
            each.key
            for each in conflicts_of.get(line[-1], ())
            if each.label == SUPERSEDES and each.key in place and each.key not in used and is_card(each.key)
        ]
        if not later:
            return line
        best = min(later, key=place.__getitem__)
        if best in line:
            return [card]
        line.append(best)


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
