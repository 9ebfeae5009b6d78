"""How good answers are, bundles against judgements (seed A, Metrics). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wikid_daemon.bench.judged import JudgedAnswer
from wikid_daemon.bench.metrics import Estimate, bootstrap
from wikid_protocol.memories import Bundle, Item

GOOD_CARD: Final = 2  # the grade from which a card answers; a superseded claim has less
EVIDENCE_BUNDLES: Final = 2  # the first ones, whose evidence is judged
TOP: Final = 3

Answered = Sequence[tuple[JudgedAnswer, Sequence[Bundle]]]


@dataclass(frozen=True, slots=True)
class AnswerQuality:
    """Means over the queries that each figure is about; None where there is none of them.

    `card_first`: the first card answers, of the queries that have such a card. `evidence_precision` and `_recall`: of
    the evidence in the first two bundles. `contradictions`: of the judged pairs, those that stand in one bundle.
    `waste`: of the shown items, those that are judged to be of no use; `duplicates`: those whose page stands there.
    `abstained`: of the queries, those without a bundle. `by_kind`: `card_first` per class of query.
    """

    queries: int
    card_first: Estimate | None
    evidence_precision: Estimate | None
    evidence_recall: Estimate | None
    contradictions: Estimate | None
    waste: Estimate | None
    duplicates: Estimate | None
    abstained: float
    by_kind: Mapping[str, float]
    missed: tuple[str, ...]
    torn: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        estimates = ("card_first", "evidence_precision", "evidence_recall", "contradictions", "waste", "duplicates")
        values: dict[str, Estimate | None] = {name: getattr(self, name) for name in estimates}
        return {
            "queries": self.queries,
            **{name: None if value is None else value.to_json() for name, value in values.items()},
            "abstained": round(self.abstained, 4),
            "card_first_by_class": {kind: round(share, 4) for kind, share in self.by_kind.items()},
            "queries_without_their_card_first": list(self.missed),
            "queries_with_a_torn_conflict": list(self.torn),
        }


def answer_quality(answered: Answered) -> AnswerQuality:
    first = [(judged, found) for judged, bundles in answered if (found := card_first(judged, bundles)) is not None]
    pairs = [(judged, together(pair, bundles)) for judged, bundles in answered for pair in judged.conflicts]
    shown = [(judged, items(bundles)) for judged, bundles in answered if bundles]
    kinds = sorted({judged.kind for judged, _ in first})
    return AnswerQuality(
        queries=len(answered),
        card_first=_mean([found for _, found in first]),
        evidence_precision=_mean([value for each in answered if (value := evidence_precision(*each)) is not None]),
        evidence_recall=_mean([value for each in answered if (value := evidence_recall(*each)) is not None]),
        contradictions=_mean([found for _, found in pairs]),
        waste=_mean([_share(judged.grades.get(each.page_id, 0) == 0 for each in found) for judged, found in shown]),
        duplicates=_mean([1 - len({each.page_id for each in found}) / len(found) for _, found in shown]),
        abstained=_share(not bundles for _, bundles in answered),
        by_kind={kind: _share(found for judged, found in first if judged.kind == kind) for kind in kinds},
        missed=tuple(judged.id for judged, found in first if not found),
        torn=tuple(dict.fromkeys(judged.id for judged, found in pairs if not found)),
    )


def card_first(judged: JudgedAnswer, bundles: Sequence[Bundle]) -> bool | None:
    """Whether the answer begins with a card that answers; None where the vault has none. Abstaining is a miss."""
    if all(grade < GOOD_CARD for grade in judged.cards.values()):
        return None
    card = bundles[0].card if bundles else None
    return card is not None and judged.cards.get(card.page_id, 0) >= GOOD_CARD


def evidence_precision(judged: JudgedAnswer, bundles: Sequence[Bundle]) -> float | None:
    """The share of the evidence shown first that is of use; None where none is shown."""
    shown = _evidence(bundles)
    return len(shown & judged.grades.keys()) / len(shown) if shown else None


def evidence_recall(judged: JudgedAnswer, bundles: Sequence[Bundle]) -> float | None:
    """The share of the judged evidence that is shown first; None where none is judged."""
    return len(_evidence(bundles) & judged.evidence.keys()) / len(judged.evidence) if judged.evidence else None


def _evidence(bundles: Sequence[Bundle]) -> set[str]:
    return {each.page_id for bundle in bundles[:EVIDENCE_BUNDLES] for each in bundle.evidence}


def together(pair: frozenset[str], bundles: Sequence[Bundle]) -> bool:
    """Whether both claims stand in one bundle, as what it says and what disputes that."""
    return any(pair <= _claims(bundle) for bundle in bundles)


def _claims(bundle: Bundle) -> set[str]:
    said = bundle.evidence if bundle.card is None else (bundle.card,)
    return {each.page_id for each in (*said, *bundle.conflicts)}


def items(bundles: Sequence[Bundle]) -> list[Item]:
    return [
        each for bundle in bundles for each in (bundle.card, *bundle.evidence, *bundle.conflicts) if each is not None
    ]


def helps(judged: JudgedAnswer, bundles: Sequence[Bundle]) -> bool:
    """Whether a page that is judged to be of use is in the answer."""
    return any(judged.grades.get(each.page_id, 0) > 0 for each in items(bundles))


def kept_on_top(
    judged: Sequence[JudgedAnswer], before: Sequence[Sequence[str]], now: Sequence[Collection[str]]
) -> tuple[Estimate | None, tuple[str, ...]]:
    """Of the queries for which one of the best judged pages was among the first three `before`, how many have one among
    `now`, which is at most as many; and the ids of the others."""
    kept = []
    for query, old, new in zip(judged, before, now, strict=True):
        best = max(query.grades.values())
        wanted = {page for page, grade in query.grades.items() if grade == best}
        if wanted.intersection(old[:TOP]):
            kept.append((query.id, not wanted.isdisjoint(new)))
    return _mean([found for _, found in kept]), tuple(query_id for query_id, found in kept if not found)


def _share(holds: Iterable[bool]) -> float:
    """Of what is given, how much is true; 0 of nothing."""
    counts = Counter(holds)
    return counts[True] / counts.total() if counts else 0.0


def _mean(values: Sequence[float]) -> Estimate | None:
    return bootstrap(values) if values else None
