"""How an answer was found, as a person reads it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_client.layout.explain import explanation
from wikid_client.layout.spans import plain
from wikid_client.text import cells

CANDIDATE = {
    "page_id": "concepts/autovacuum",
    "rank": 1,
    "bm25": 8.4121,
    "cosine": None,
    "signals": {"rerank": 0.98},
    "confidence": 0.8712,
    "passed": True,
}
FOUND: dict[str, Any] = {
    "query": "autovacuum",
    "mode": {"wanted": "adaptive", "used": "quality", "reasons": ["narrow_margin", "question"]},
    "dense_share": 0.55,
    "floor": 0.4,
    "spent_ms": {"query": 3.12, "first_look": 8.4},
    "vaults": [
        {
            "name": "home",
            "layer": "personal",
            "reason": "your own notes",
            "terms": {"autovacuum": 1.0},
            "lexical": [{"page_id": f"concepts/p{i}", "rank": i, "score": 19.5 - i} for i in range(1, 14)],
            "dense": [],
            "candidates": [CANDIDATE],
            "second_look": {"reranker": "mini", "reranked": 12},
        }
    ],
    "order": [{"vault": "home", "page_id": "concepts/autovacuum", "multiplier": 1.05, "score": 0.0163}],
}
NAMES = st.text("ab_ \x1b\n数", max_size=30)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**9) | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)
KNOWN = st.sampled_from(["mode", "spent_ms", "vaults", "order", "floor", "candidates", "lexical", "page_id", "name"])


def text(found: dict[str, Any], width: int = 80) -> str:
    return plain(explanation(found, width))


def test_it_shows_decisions_lists_weights_adjustments_and_time() -> None:
    lines = text(FOUND).splitlines()
    for each in (
        "  mode: quality: the two best are close, it is a question · wanted adaptive",
        "  dense share: 0.550",
        "  floor: 0.400",
        "  time: query 3 ms · first look 8 ms",
        "home (personal: your own notes)",
        "  terms: autovacuum 1.00",
        "  second look: reranker mini, reranked 12",
        "  Found by words (13)",
        "  rank  score  page",
        "     1  18.50  concepts/p1",
        "  and 3 more rows, with --json",
        "  rank  bm25  rerank   conf  passed  page",
        "     1  8.41   0.980  0.871     yes  concepts/autovacuum",
        "  vault  factor  score  page",
        "   home    1.05  0.016  concepts/autovacuum",
    ):
        assert each in lines


def test_a_table_that_is_too_wide_sets_each_page_apart() -> None:
    lines = text(FOUND, 50).splitlines()
    assert "  concepts/autovacuum" in lines
    assert "    rank 1 · bm25 8.41 · rerank 0.980 · conf 0.871" in lines


@pytest.mark.parametrize("found", [{}, {"vaults": None, "mode": "hybrid"}, {"vaults": [{}], "order": [{}]}])
def test_what_is_missing_is_left_out(found: dict[str, Any]) -> None:
    assert "How this was found" in text(found)


def test_what_is_new_is_shown_under_its_own_name() -> None:
    vault = {"name": "home", "reranked_list": [{"page_id": "a", "new_score": 0.5}], "cache_hits": 3}
    shown = text({"vaults": [vault], "later_step": "done"})
    for each in ("later step: done", "cache hits: 3", "reranked list (1)", "new score  page"):
        assert each in shown


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(KNOWN | NAMES, PLAIN, max_size=6), st.integers(40, 100))
def test_no_explanation_is_too_odd_to_be_shown(found: dict[str, Any], width: int) -> None:
    shown = text(found, width)
    assert "\x1b" not in shown
    assert all(cells(each) <= width for each in shown.splitlines())
