"""How an answer was found, for `recall` with `explain`: every list, rank, weight, adjustment and decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wikid_daemon.assembly import Policy
from wikid_daemon.core.names import printable
from wikid_daemon.core.ranking import PageHit
from wikid_daemon.index.store import Store
from wikid_daemon.judging import Candidate
from wikid_daemon.merging import Ranked, Searched
from wikid_daemon.searching import Call, Looked


def explain(
    call: Call, policy: Policy, looked: Sequence[Looked], searched: Sequence[Searched], ranked: Sequence[Ranked]
) -> dict[str, Any]:
    """Plain data. `fused` orders a vault's candidates, `score` the answer's; `confidence` is tested against `floor`."""
    return {
        "query": call.question.text,
        "mode": {"wanted": call.wanted, "used": call.used, "reasons": list(call.reasons)},
        "dense_share": round(call.question.dense_share, 3),
        "intent": call.intent,
        "floor": policy.floor,
        "spent_ms": {step: round(spent, 2) for step, spent in call.spent_ms.items()},
        "vaults": [_vault(*pair) for pair in zip(looked, searched, strict=True)],
        "order": [_ranked(each, searched) for each in ranked],
    }


def _vault(looked: Looked, searched: Searched) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": looked.applied.vault.name,
        "layer": looked.applied.layer,
        "reason": looked.applied.reason,
        "terms": {word: round(rarity, 3) for word, rarity in searched.terms.weights.items()},
        "lexical": _list(looked.store, looked.first.lexical),
        "dense": _list(looked.store, looked.first.dense),
        "candidates": [_candidate(each, each in searched.passed) for each in searched.candidates],
    }
    if looked.second is not None:
        found["second_look"] = looked.second.explained()
    return found


def _list(store: Store, hits: Sequence[PageHit]) -> list[dict[str, Any]]:
    ids = store.catalog.ids_of([hit.page for hit in hits])
    return [
        {"page_id": printable(ids.get(hit.page, "")), "rank": rank, "score": round(hit.score, 4)}
        for rank, hit in enumerate(hits, 1)
    ]


def _candidate(candidate: Candidate, passed: bool) -> dict[str, Any]:
    fused = candidate.fused
    return {
        "page_id": printable(candidate.found.page.page_id),
        "rank": candidate.rank,
        "bm25": _rounded(fused.lexical),
        "cosine": _rounded(fused.cosine),
        "signals": {name: round(value, 4) for name, value in fused.signals},
        "fused": round(fused.score, 4),
        "coverage": round(candidate.coverage, 4),
        "confidence": round(candidate.confidence, 4),
        "identity": None if candidate.identity is None else candidate.identity.by,
        "passed": passed,
    }


def _ranked(ranked: Ranked, searched: Sequence[Searched]) -> dict[str, Any]:
    return {
        "vault": searched[ranked.key[0]].applied.vault.name,
        "page_id": printable(ranked.candidate.found.page.page_id),
        "multiplier": round(ranked.factor, 4),
        "score": round(ranked.score, 6),
    }


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 4)
