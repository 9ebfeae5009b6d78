"""What the daemon reckons an answer will cost a model is never less than what the client writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_client.render import recall_context
from wikid_client.testing import sample_item, sample_recall
from wikid_daemon import assembly
from wikid_daemon.core.bundles import CONFLICT_LABELS, MAX_CONFLICTS, MAX_EVIDENCE
from wikid_daemon.core.packing import AUTOMATIC_BUDGET, AUTOMATIC_BUNDLES, EXCERPT_BUDGET, fit
from wikid_protocol import records as r

ROOM = AUTOMATIC_BUDGET - assembly.ANSWER_OVERHEAD
MARKER = "0123456789abcdef"

# line ends of every kind but the carriage return, which pages have lost before; what grows or shrinks when composed
ODD = st.text("a \n\t`>#*数ё\u0301\u1fef\ufb2c\u2028\u0000\U0001d160", max_size=60)
NAMES = st.one_of(
    st.text("ab/-_数", min_size=1, max_size=12),
    st.integers(1, 250).map(lambda size: "a" * size),
    ODD.filter(bool),
)


def texts(most: int) -> st.SearchStrategy[str]:
    """Up to `most` code points, often exactly so many."""
    return st.builds(lambda piece, size: (piece * most)[:size], ODD, st.sampled_from([0, 1, most // 2, most]))


def texts_or_none(most: int) -> st.SearchStrategy[str | None]:
    return st.none() | texts(most)


DAYS = st.sampled_from([None, "2026-03-05T12:00:00+00:00", "2026-03-05"])
FACTS: dict[str, st.SearchStrategy[Any]] = {
    "page_id": NAMES,
    "vault": NAMES,
    "path": NAMES,
    "title": texts(assembly.LONGEST_TITLE),
    "type": texts(30),
    "heading": texts_or_none(assembly.LONGEST_TITLE),
    "role": st.sampled_from(["canonical", "evidence"]),
    "status": st.sampled_from(["draft", "stable", "deprecated"]),
    "freshness": st.sampled_from(["current", "stale", "outdated", "unverified"]),
    "dates": st.builds(r.Dates, created=DAYS, updated=DAYS, stale_after=DAYS, verified=DAYS),
    "match_reasons": st.sets(st.sampled_from(["alias match", "words 80%", "meaning 0.61", "linked"])).map(tuple),
    "missing": st.booleans(),
    "line": st.integers(1, 9_999_999),
    "excerpt": texts(EXCERPT_BUDGET),
}


WORST: dict[str, Any] = {  # all that can be said of a page at once
    "status": "deprecated",
    "freshness": "stale",
    "missing": True,
    "dates": r.Dates(created="2026-03-05", verified="2026-03-06", stale_after="2026-03-07"),
    "match_reasons": ("alias match", "words 80%", "meaning 0.61"),
    "line": 9_999_999,
    "vault": "v",
    "path": "/",
    "title": "",
    "type": "t",
    "heading": "h",
    "excerpt": "\n".join("e" * (EXCERPT_BUDGET // 2)),
}


def items(**more: st.SearchStrategy[Any]) -> st.SearchStrategy[r.Item]:
    facts = st.fixed_dictionaries({**FACTS, **more})
    return st.builds(lambda some, worst: sample_item(**{**some, **(WORST if worst else {})}), facts, st.booleans())


@st.composite
def bundles(draw: st.DrawFn) -> r.Bundle:
    """What the assembly may make, at its largest more often than not."""
    card = draw(st.none() | items(body=texts_or_none(1_600)))
    labels = st.sampled_from(["supports", "derived from"]) if card else st.none()
    evidence = draw(st.lists(items(relation=st.none() | labels), min_size=0 if card else 1, max_size=MAX_EVIDENCE))
    claims = items(
        relation=st.sampled_from(sorted(set(CONFLICT_LABELS.values()))),
        scope=texts_or_none(80),
        settled_by=st.sampled_from([None, None, "0" * 64, "1" * 64]),
    )
    conflicts = draw(st.lists(claims, max_size=MAX_CONFLICTS))
    decided = next((each for each in conflicts if each.settled_by == "0" * 64), None)
    resolution = None
    if decided is not None:
        resolution = r.ConflictResolution(
            id="0" * 64,
            vault_id=decided.vault_id,
            vault=decided.vault,
            page_id=r.PageId(draw(NAMES)),
            path="/v/wiki/analyses/resolution.md",
            selected_page_id=decided.page_id,
            other_page_id=r.PageId(draw(NAMES)),
            relation=draw(st.sampled_from(["supersedes", "qualifies", "applies_under"])),
            decided_by=draw(NAMES),
            decided_at="2026-05-01T10:00:00Z",
            scope=decided.scope,
        )
    return r.Bundle(card=card, evidence=tuple(evidence), conflicts=tuple(conflicts), resolution=resolution)


def told(message: str) -> r.Diagnostic:
    return r.Diagnostic(kind="x", message=message)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(bundles(), max_size=AUTOMATIC_BUNDLES),
    st.booleans(),
    st.lists(texts(600).map(told), max_size=5),
)
def test_an_automatic_answer_fits_its_budget(found: list[r.Bundle], behind: bool, said: list[r.Diagnostic]) -> None:
    kept = fit(found, assembly._cost, assembly._trimmed, ROOM)
    answer = sample_recall(*kept, marker=MARKER, stale=behind, diagnostics=tuple(said))
    assert len(recall_context(answer)) <= AUTOMATIC_BUDGET


@settings(deadline=None, max_examples=150)
@given(bundles())
def test_no_memory_costs_more_than_reckoned(bundle: r.Bundle) -> None:
    """The law behind the budget, where no slack of other bundles can hide an error."""
    assert written(bundle) <= assembly._cost(bundle)


def test_the_worst_of_everything_costs_no_more_than_reckoned() -> None:
    card = sample_item("a" * 120, **WORST)
    evidence = sample_item("b", **{**WORST, "role": "evidence"})
    claim = sample_item("c", relation="contradicts", **WORST)
    decided = replace(claim, relation="applies outside the card's scope", scope="s", settled_by="0")
    record = r.ConflictResolution(
        id="0",
        vault_id=card.vault_id,
        vault="v",
        page_id=r.PageId("d"),
        path="/",
        selected_page_id=card.page_id,
        other_page_id=claim.page_id,
        relation="applies_under",
        decided_by="a" * 100,
        decided_at="2026-05-01",
        scope="s",
    )
    everything = r.Bundle(
        card=card, evidence=(evidence,) * 2, conflicts=(decided, claim, claim, claim), resolution=record
    )
    for bundle in (
        everything,
        replace(everything, conflicts=(claim,) * MAX_CONFLICTS, resolution=None),
        r.Bundle(card=card, conflicts=(claim,) * MAX_CONFLICTS),
        r.Bundle(card=card, conflicts=(decided,), resolution=record),
        r.Bundle(card=replace(card, body="`" * 15)),
        r.Bundle(evidence=(evidence,)),
    ):
        assert written(bundle) <= assembly._cost(bundle)


@pytest.mark.parametrize("behind", [False, True])
def test_what_stands_around_the_memories_is_reckoned_too(behind: bool) -> None:
    said = tuple(told(f"{number} " + "m" * 500) for number in range(9))
    bundle = r.Bundle(card=sample_item())
    bare = len(recall_context(sample_recall(bundle, marker=MARKER)))
    full = len(recall_context(sample_recall(bundle, marker=MARKER, diagnostics=said, stale=behind)))
    assert full - written(bundle) <= assembly.ANSWER_OVERHEAD
    assert bare <= full


def written(bundle: r.Bundle) -> int:
    """Code points that the bundle adds to an answer; where it is not the first, its numbers are longer."""
    one = sample_item()
    alone = sample_recall(r.Bundle(card=one), marker=MARKER)
    both = sample_recall(r.Bundle(card=one), bundle, marker=MARKER)
    return len(recall_context(both)) - len(recall_context(alone))
