"""Which steps a recall takes: the modes, when adaptive escalates, and what answers where a step cannot be taken. Pure.

Seed A, Retrieval Modes. A mode names a path; adaptive is a choice between two of them, so an answer's `mode_used` is
hybrid where the first stage was certain and quality where it was not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from wikid_daemon.core.question_words import is_question

Mode = Literal["lexical", "hybrid", "adaptive", "quality"]
Part = Literal["vectors", "reranker"]

MODES: Final[tuple[Mode, ...]] = ("lexical", "hybrid", "adaptive", "quality")

# the fallback table: a mode whose parts are not all there is answered by the next cheaper one
NEEDS: Final[Mapping[Mode, frozenset[Part]]] = {
    "lexical": frozenset(),
    "hybrid": frozenset({"vectors"}),
    "adaptive": frozenset({"vectors", "reranker"}),
    "quality": frozenset({"vectors", "reranker"}),
}
CHEAPER: Final[Mapping[Mode, Mode]] = {"quality": "hybrid", "adaptive": "hybrid", "hybrid": "lexical"}

MARGIN: Final = 0.08  # between the two best confidences
OVERLAP: Final = 0.40  # Jaccard, of the pages that lead both lists
OVERLAP_DEPTH: Final = 5
BYPASS: Final = 0.80  # confidence of an exact match that needs no second look


def answered_by(wanted: Mode, lacking: Collection[Part]) -> Mode:
    """The mode that can be served without the parts that are lacking."""
    mode = wanted
    while not NEEDS[mode].isdisjoint(lacking):
        mode = CHEAPER[mode]
    return mode


@dataclass(frozen=True, slots=True)
class FirstStage:
    """What the first stage found in one vault, best first.

    `confidences` are those of the fused candidates, `lexical` and `dense` the pages that lead each list. `named`: the
    best candidate is one that the query names outright. `disputed`: two candidates contradict each other.
    """

    confidences: Sequence[float]
    lexical: Sequence[int]
    dense: Sequence[int]
    named: bool
    disputed: bool


def escalations(query: str, stages: Sequence[FirstStage]) -> tuple[str, ...]:
    """Why adaptive has to look a second time; empty where the first stage is certain or found nothing."""
    found = [stage for stage in stages if stage.confidences]
    if not found or any(stage.named and stage.confidences[0] >= BYPASS for stage in found):
        return ()
    reasons = {
        "narrow_margin": any(_margin(stage.confidences) < MARGIN for stage in found),
        "lists_disagree": any(overlap(stage.lexical, stage.dense) < OVERLAP for stage in found),
        "question": is_question(query),
        "contradiction": any(stage.disputed for stage in found),
    }
    return tuple(reason for reason, holds in reasons.items() if holds)


def overlap(lexical: Sequence[int], dense: Sequence[int]) -> float:
    """The Jaccard overlap of both lists' first five pages, 0–1."""
    words, vectors = set(lexical[:OVERLAP_DEPTH]), set(dense[:OVERLAP_DEPTH])
    return len(words & vectors) / len(words | vectors) if words or vectors else 0.0


def _margin(confidences: Sequence[float]) -> float:
    return confidences[0] - (confidences[1] if len(confidences) > 1 else 0.0)
