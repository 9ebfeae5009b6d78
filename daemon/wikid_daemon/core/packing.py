"""Bundles → what fits: diversity among the cards, then a budget of characters (seed A, Context Packing). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Final, TypeVar

AUTOMATIC_BUNDLES: Final = 3  # seed A, first-release limits
AUTOMATIC_BUDGET: Final = 8_000  # code points of rendered context, seed A, ibid.
EXCERPT_BUDGET: Final = 800  # code points of one excerpt, seed A, ibid.
SAME_KIND: Final = 2  # cards of one (type, domain) among the automatic ones, where there are alternatives, ibid.

B = TypeVar("B")


def diverse(bundles: Sequence[B], kind_of: Callable[[B], Hashable | None], limit: int) -> list[B]:
    """The first `limit` bundles, in order, with at most two cards of a kind where others could stand instead.

    `kind_of` gives a card's (type, domain), and None for a bundle without a card, which the cap does not concern.
    """
    seen: Counter[Hashable] = Counter()
    chosen, passed_over = list[int](), list[int]()
    for place, bundle in enumerate(bundles):
        kind = kind_of(bundle)
        seen[kind] += 1
        (passed_over if kind is not None and seen[kind] > SAME_KIND else chosen).append(place)
    # without an alternative the cap gives way
    kept = sorted([*chosen, *passed_over][:limit])
    return [bundles[place] for place in kept]


def fit(bundles: Sequence[B], cost: Callable[[B], int], trim: Callable[[B], B | None], budget: int) -> list[B]:
    """The bundles that fit `budget` together: later ones go first, whole; then the first one is trimmed, by `trim`,
    which takes its least part away and gives None where nothing may go. Empty where even that is too much.
    """
    kept = list(bundles)
    while len(kept) > 1 and sum(map(cost, kept)) > budget:
        kept.pop()
    first: B | None = kept[0] if kept else None
    while first is not None and cost(first) > budget:
        first = trim(first)
    return [] if first is None else [first, *kept[1:]]
