"""How an answer was found, for `recall` with `explain`: every candidate of every vault with what spoke for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wikid_daemon.assembly import Searched
from wikid_daemon.core.names import printable
from wikid_daemon.retrieval import Candidate, Question


def explain(question: Question, floor: float, searched: Sequence[Searched]) -> dict[str, Any]:
    """Plain data. `fused` is the convex sum of both normalised lists; `confidence` is tested against `floor`."""
    return {
        "query": question.text,
        "dense_share": round(question.dense_share, 3),
        "floor": floor,
        "vaults": [
            {
                "name": each.applied.vault.name,
                "layer": each.applied.layer,
                "reason": each.applied.reason,
                "terms": {word: round(rarity, 3) for word, rarity in each.terms.weights.items()},
                "candidates": [_candidate(candidate, candidate in each.passed) for candidate in each.candidates],
            }
            for each in searched
        ],
    }


def _candidate(candidate: Candidate, passed: bool) -> dict[str, Any]:
    fused = candidate.fused
    return {
        "page_id": printable(candidate.found.page.page_id),
        "rank": candidate.rank,
        "bm25": _rounded(fused.lexical),
        "cosine": _rounded(fused.cosine),
        "fused": round(fused.score, 4),
        "coverage": round(candidate.coverage, 4),
        "confidence": round(candidate.confidence, 4),
        "identity": None if candidate.identity is None else candidate.identity.by,
        "passed": passed,
    }


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 4)
