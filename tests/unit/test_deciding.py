"""Decisions between two claims: every rule, the record's page, and the conflicts they settle (seed A, T37)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import page
from wikid_daemon.core import deciding
from wikid_daemon.core.composing import scalar
from wikid_daemon.core.conflicts import Conflict, conflicts
from wikid_daemon.core.deciding import Claim, DecisionRefused, decision, is_recorded, page_of, standing
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.page import Choice, KnowledgeDocument, Resolution

AT = "2026-05-01T10:00:00.000Z"
A, B = "concepts/a", "concepts/b"
BOTH = f"[a](/{A}.md) [b](/{B}.md)"


def decided(
    selected: str = A,
    other: str = B,
    relation: Choice = "supersedes",
    scope: str | None = None,
    replaces: str | None = None,
    vault_id: str = "v1",
) -> Resolution:
    return decision(vault_id, selected, other, relation, scope, replaces, AT)


def document(page_id: str, text: str | bytes) -> KnowledgeDocument:
    data = text if isinstance(text, bytes) else text.encode()
    found = parse_page(f"{page_id}.md", data, strict=True).document
    assert found is not None
    return found


# -- rules -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"selected": B},
        {"relation": "applies_under"},
        {"relation": "applies_under", "scope": "  "},
        {"relation": "supersedes", "scope": "in winter"},
        {"relation": "qualifies", "scope": "in winter"},
    ],
)
def test_what_never_is_a_decision_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DecisionRefused) as caught:
        decided(**wrong)
    assert caught.value.invalid


def test_t37_the_same_decision_is_the_same_record() -> None:
    first, again = decided(), replace(decided(), decided_at="2026-06-01T10:00:00Z")
    assert first.id == again.id
    assert standing(first, []) is None
    assert standing(again, [first]) == first


def test_t37_the_other_side_needs_to_replace_what_stands_and_is_a_new_record() -> None:
    first = decided()
    with pytest.raises(DecisionRefused, match="stands") as caught:
        standing(decided(B, A), [first])
    assert first.id in caught.value.hint
    assert not caught.value.invalid
    changed = decided(B, A, replaces=first.id)
    assert changed.id != first.id
    assert standing(changed, [first]) is None
    assert standing(changed, [first, changed]) == changed


def test_t37_vaults_are_kept_apart() -> None:
    assert decided(vault_id="v1").id != decided(vault_id="v2").id


def test_a_scope_is_the_same_whatever_its_spaces_and_normal_form() -> None:
    one = decided(relation="applies_under", scope="cafe\u0301  in\nwinter ")
    assert (one.scope, one.id) == ("café in winter", decided(relation="applies_under", scope="café in winter").id)


def test_only_the_record_that_stands_can_be_replaced() -> None:
    first = decided()
    second = decided(B, A, replaces=first.id)
    for replaces, known in ((first.id, [first, second]), ("0" * 64, [first]), (first.id, [])):
        with pytest.raises(DecisionRefused, match="replaced is not"):
            standing(decided(relation="qualifies", replaces=replaces), known)
    third = decided(replaces=second.id)
    assert standing(third, [first, second]) is None


def test_a_decision_that_was_replaced_does_not_come_back_by_being_repeated() -> None:
    first = decided()
    second = decided(B, A, replaces=first.id)
    with pytest.raises(DecisionRefused) as caught:
        standing(first, [first, second])
    assert second.id in caught.value.hint


def test_several_records_that_stand_are_for_a_person_to_clear() -> None:
    first, rival = decided(), decided(B, A)
    with pytest.raises(DecisionRefused, match="several") as caught:
        standing(decided(relation="qualifies", replaces=first.id), [first, rival])
    assert first.id in caught.value.hint
    assert rival.id in caught.value.hint


def test_records_of_other_pairs_do_not_matter() -> None:
    assert standing(decided(), [decided(A, "concepts/c")]) is None


def test_a_ring_of_records_cannot_be_entered_again() -> None:
    first = decided()
    ring = [replace(first, replaces="x"), replace(decided(B, A), id="x", replaces=first.id)]
    with pytest.raises(DecisionRefused, match="before"):
        standing(first, ring)


# -- the page ----------------------------------------------------------------------------------------------------------

LINE = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(LINE, LINE, st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_the_page_says_the_decision_whatever_titles_and_rationale_say(one: str, two: str, rationale: str) -> None:
    record = decided(relation="applies_under", scope="in winter")
    data = page_of(record, Claim(A, one), Claim(B, two), rationale, "2026-05-01")
    found = document(deciding.page_id_of(record), data)
    assert is_recorded(found, record)
    assert (found.type, found.status, found.category) == ("analysis", "stable", "conflict-resolution")


def test_a_decision_reads_well() -> None:
    record = decided()
    data = page_of(record, Claim(A, "New [way]"), Claim(B, "Old way"), "Measured in May.", "2026-05-01")
    assert data.decode() == (
        '---\ntype: analysis\ntitle: "New [way] supersedes Old way"\nstatus: stable\ncategory: conflict-resolution\n'
        "created: 2026-05-01\nupdated: 2026-05-01\nresolution:\n"
        f"  id: {scalar(record.id)}\n  selected: concepts/a\n  other: concepts/b\n  relation: supersedes\n"
        f"  scope: null\n  decided_by: user\n  decided_at: {AT}\n  replaces: null\n---\n\n"
        "# New [way] supersedes Old way\n\n"
        "[New \\[way\\]](/concepts/a.md) supersedes [Old way](/concepts/b.md).\n\n"
        "## Rationale\n\nMeasured in May.\n"
    )
    assert deciding.page_id_of(record) == f"analyses/resolution-{record.id[:16]}"


# -- conflicts ---------------------------------------------------------------------------------------------------------


def relation(kind: str, target: str) -> str:
    return f"[{{target: {target}, type: {kind}}}]"


def found(*documents: KnowledgeDocument, marked: tuple[str, ...] = ()) -> list[Conflict]:
    return conflicts(documents, marked)


def says(page_id: str, other: str, kind: str = "contradicts", **fields: str) -> KnowledgeDocument:
    return document(page_id, page(BOTH, relations=relation(kind, other), **fields))


def silent(page_id: str, **fields: str) -> KnowledgeDocument:
    return document(page_id, page(BOTH, **fields))


def recorded(record: Resolution) -> KnowledgeDocument:
    data = page_of(record, Claim(record.selected, "S"), Claim(record.other, "O"), "", "2026-05-01")
    return document(deciding.page_id_of(record), data)


def test_what_both_sides_declare_is_confirmed_and_what_one_side_does_is_proposed() -> None:
    assert found(says(A, B), says(B, A)) == [Conflict("confirmed", (A, B), ("contradicts_both",))]
    assert found(says(B, A), silent(A)) == [Conflict("proposed", (A, B), ("contradicts_one",))]
    assert found(says(A, B)) == []


def test_stable_pages_that_supersede_each_other_are_proposed() -> None:
    assert found(says(A, B, "supersedes"), says(B, A, "supersedes")) == [
        Conflict("proposed", (A, B), ("supersedes_both",))
    ]
    assert found(says(A, B, "supersedes"), says(B, A, "supersedes", status="deprecated")) == []
    assert found(says(A, B, "supersedes"), silent(B)) == []


def test_a_correction_is_proposed_against_the_page_it_corrects() -> None:
    note = document("sources/obs-x", page("No.", type="source", category="recall-correction", corrected_page=A))
    assert found(silent(A), note) == [Conflict("proposed", (A, "sources/obs-x"), ("correction",))]
    assert found(note) == []


def test_a_marker_is_a_conflict_of_its_page_unless_another_tells_of_it() -> None:
    assert found(silent(A), marked=(A,)) == [Conflict("proposed", (A,), ("marker",))]
    assert found(says(A, B), silent(B), marked=(A,)) == [Conflict("proposed", (A, B), ("contradicts_one", "marker"))]


def test_one_record_resolves_and_two_leave_it_undecided() -> None:
    first, rival = decided(), decided(B, A)
    [settled] = found(says(A, B), says(B, A), recorded(first))
    assert (settled.state, [each.record for each in settled.decided], settled.stale) == ("resolved", [first], ())
    [open_again] = found(says(A, B), says(B, A), recorded(first), recorded(rival))
    assert open_again.state == "undecided"
    assert {each.record.id for each in open_again.decided} == {first.id, rival.id}
    [changed] = found(silent(A), silent(B), recorded(first), recorded(decided(B, A, replaces=first.id)))
    assert (changed.state, changed.decided[0].record.selected) == ("resolved", B)


@pytest.mark.parametrize(
    ("updated", "stale"),
    [("2026-05-01", ()), ("2026-05-02", (A,)), ("2026-05-01T09:59:59Z", ()), ("2026-05-01T10:00:01Z", (A,))],
)
def test_a_claim_that_changed_since_or_is_gone_is_a_stale_input(updated: str, stale: tuple[str, ...]) -> None:
    [settled] = found(silent(A, updated=updated), silent(B), recorded(decided()))
    assert settled.stale == stale
    [settled] = found(silent(A, updated=updated), recorded(decided()))
    assert settled.stale == (*stale, B)


def test_open_conflicts_come_first() -> None:
    c, d = "concepts/c", "concepts/d"
    both = f"[a](/{A}.md) [b](/{B}.md) [c](/{c}.md) [d](/{d}.md)"
    pages = [
        silent(A),
        silent(B),
        recorded(decided()),
        document(c, page(both, relations=relation("contradicts", d))),
        document(d, page(both, relations=relation("contradicts", c))),
    ]
    assert [each.state for each in found(*pages)] == ["confirmed", "resolved"]
