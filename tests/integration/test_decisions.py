"""What a person decided between two claims, and what recall makes of it (vault format §11.34)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import page, write
from recalls import Recalls, ids, items, kinds
from wikid_daemon.vaults import Layer
from wikid_protocol import records as r

VAULT: tuple[str, Layer] = ("claims", "project")
LINKS = "[yes](/concepts/yes.md) and [no](/concepts/no.md)"
DISPUTE = "[{target: concepts/no, type: contradicts}]"


@pytest.fixture
def recalls(tmp_path: Path) -> Iterator[Recalls]:
    found = Recalls(tmp_path)
    yield found
    found.close()


def record(
    name: str,
    *,
    selected: str = "concepts/yes",
    other: str = "concepts/no",
    relation: str = "supersedes",
    scope: str = "null",
    replaces: str = "null",
) -> str:
    resolution = (
        f"{{id: {name}, selected: {selected}, other: {other}, relation: {relation}, scope: {scope}, decided_by: user,"
        f" decided_at: '2026-05-01T10:00:00Z', replaces: {replaces}}}"
    )
    return page(
        f"The pooler keeps and loses prepared statements. {LINKS}",
        type="analysis",
        title=f"Resolution {name}",
        category="conflict-resolution",
        status="stable",
        resolution=resolution,
    )


def claims(recalls: Recalls, *, relations: str = DISPUTE, **records: str) -> Path:
    """Two claims about a pooler, of which the second answers the query better, and the decisions between them."""
    return recalls.wiki(
        "claims",
        concepts__yes=page(f"The pooler keeps prepared statements. {LINKS}", title="It keeps", relations=relations),
        concepts__no=page("The pooler loses prepared statements, the pooler loses them.", title="Pooler loses"),
        concepts__other=page("The tide turns at the quay.", title="Tide"),
        **{f"analyses__{name}": text for name, text in records.items()},
    )


def first(answer: r.Recall) -> r.Bundle:
    return answer.bundles[0]


def ask(recalls: Recalls, query: str = "pooler loses prepared statements") -> r.Recall:
    return recalls.ask(query, VAULT)


def test_an_open_dispute_shows_both_claims_and_settles_nothing(recalls: Recalls) -> None:
    claims(recalls)
    bundle = first(ask(recalls))
    assert bundle.card is not None
    assert [bundle.card.page_id, *(each.page_id for each in bundle.conflicts)] == ["concepts/no", "concepts/yes"]
    assert (bundle.resolution, bundle.conflicts[0].settled_by) == (None, None)


def test_the_selected_claim_leads_and_the_other_is_history(recalls: Recalls) -> None:
    claims(recalls, r1=record("r1"))
    bundle = first(ask(recalls))
    assert bundle.card is not None
    assert bundle.card.page_id == "concepts/yes"
    (other,) = bundle.conflicts
    assert (other.page_id, other.relation, other.settled_by) == ("concepts/no", "superseded by the card", "r1")
    assert other.status == "stable"  # never rewritten
    assert bundle.resolution is not None
    assert bundle.resolution.page_id == "analyses/r1"
    assert bundle.resolution.selected_page_id == "concepts/yes"
    assert (bundle.resolution.decided_by, bundle.resolution.status) == ("user", "active")


def test_a_decision_needs_no_declared_relation(recalls: Recalls) -> None:
    claims(recalls, relations="[]", r1=record("r1", relation="applies_under", scope="in winter"))
    bundle = first(ask(recalls))
    assert bundle.card is not None
    assert bundle.card.page_id == "concepts/no"
    (other,) = bundle.conflicts
    assert (other.page_id, other.relation, other.scope) == ("concepts/yes", "applies under", "in winter")


def test_a_resolution_page_never_competes_though_it_holds_both_claims_words(recalls: Recalls) -> None:
    claims(recalls, r1=record("r1"))
    for query in ("pooler keeps and loses prepared statements", "Resolution r1", "analyses/r1"):
        assert "analyses/r1" not in ids(ask(recalls, query))


def test_the_last_record_of_a_chain_decides(recalls: Recalls) -> None:
    changed = record("r2", selected="concepts/no", other="concepts/yes", replaces="r1")
    claims(recalls, r1=record("r1"), r2=changed)
    bundle = first(ask(recalls, "pooler keeps prepared statements"))
    assert bundle.card is not None
    assert bundle.card.page_id == "concepts/no"
    assert bundle.resolution is not None
    assert (bundle.resolution.id, bundle.resolution.replaces) == ("r2", "r1")


def test_two_records_that_both_stand_leave_the_conflict_open_and_are_told(recalls: Recalls) -> None:
    claims(recalls, relations="[]", r1=record("r1"), r2=record("r2", selected="concepts/no", other="concepts/yes"))
    answer = ask(recalls)
    bundle = first(answer)
    assert [each.relation for each in bundle.conflicts] == ["contradicts"]
    assert (bundle.resolution, bundle.conflicts[0].settled_by) == (None, None)
    assert kinds(answer) == ["conflict_undecided"]
    assert "concepts/no and concepts/yes" in answer.diagnostics[0].message


def test_a_decision_about_a_page_that_is_gone_is_passed_over(recalls: Recalls) -> None:
    claims(recalls, relations="[]", r1=record("r1", other="concepts/gone"))
    answer = ask(recalls)
    assert all(each.settled_by is None for each in items(answer))
    assert first(answer).resolution is None


def test_a_new_record_is_followed_as_soon_as_it_is_saved(recalls: Recalls) -> None:
    wiki = claims(recalls)
    assert first(ask(recalls)).resolution is None
    write(wiki, "analyses/r1.md", record("r1"))
    recalls.indexers["claims"].sync(30)
    found = first(ask(recalls)).resolution
    assert found is not None
    assert found.id == "r1"
