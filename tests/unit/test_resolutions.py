"""A person's decisions between claims: their record, their identity, and which of them stand (vault format §11.31)."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wikid_daemon.core import resolutions
from wikid_daemon.core.page import Resolution

RECORD = Resolution("id1", "concepts/a", "concepts/b", "supersedes", None, "user", "2026-05-01T10:00:00Z", None)
WRITTEN: dict[str, Any] = {
    "id": "id1",
    "selected": "concepts/a",
    "other": "concepts/b",
    "relation": "supersedes",
    "scope": None,
    "decided_by": "user",
    "decided_at": "2026-05-01T10:00:00Z",
    "replaces": None,
}
PAIR = frozenset(("concepts/a", "concepts/b"))


def test_a_record_is_read_as_it_was_written() -> None:
    assert resolutions.read("conflict-resolution", WRITTEN) == RECORD
    scoped = WRITTEN | {"relation": "applies_under", "scope": "in winter", "replaces": "id0"}
    assert resolutions.read("conflict-resolution", scoped) == replace(
        RECORD, relation="applies_under", scope="in winter", replaces="id0"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""},
        {"selected": "concepts/b"},
        {"other": None},
        {"relation": "contradicts"},
        {"relation": "applies_under"},
        {"scope": "in winter"},
        {"decided_at": "yesterday"},
        {"decided_by": 7},
        {"replaces": ["id0"]},
    ],
)
def test_a_record_that_cannot_be_followed_is_none(wrong: dict[str, Any]) -> None:
    assert resolutions.read("conflict-resolution", WRITTEN | wrong) is None


def test_only_a_page_of_the_category_records_a_decision() -> None:
    assert resolutions.read("decision", WRITTEN) is None
    assert resolutions.read(None, WRITTEN) is None
    assert resolutions.read("conflict-resolution", "concepts/a") is None


def test_the_identity_is_the_hash_of_the_compact_array() -> None:
    canonical = '["v","concepts/ä","concepts/b","supersedes",null,null]'
    assert resolutions.identity("v", "concepts/ä", "concepts/b", "supersedes", None, None) == (
        hashlib.sha256(canonical.encode()).hexdigest()
    )


@given(st.lists(st.text(max_size=5), min_size=4, max_size=4, unique=True))
def test_another_choice_vault_or_predecessor_is_another_record(names: list[str]) -> None:
    vault, a, b, before = names
    ids = {
        resolutions.identity(vault, a, b, "supersedes", None, None),
        resolutions.identity(vault, b, a, "supersedes", None, None),
        resolutions.identity(before, a, b, "supersedes", None, None),
        resolutions.identity(vault, a, b, "qualifies", None, None),
        resolutions.identity(vault, a, b, "supersedes", None, before),
    }
    assert len(ids) == 5


def test_the_last_of_a_chain_stands() -> None:
    second = replace(RECORD, id="id2", selected="concepts/b", other="concepts/a", replaces="id1")
    third = replace(RECORD, id="id3", replaces="id2")
    for order in ([RECORD, second, third], [third, second, RECORD]):
        assert resolutions.live(order) == {PAIR: [third]}


def test_two_records_that_nothing_replaces_both_stand() -> None:
    other = replace(RECORD, id="id2", selected="concepts/b", other="concepts/a")
    assert {each.id for each in resolutions.live([RECORD, other])[PAIR]} == {"id1", "id2"}


def test_a_ring_of_records_leaves_none_and_other_pairs_alone() -> None:
    ring = [replace(RECORD, replaces="id2"), replace(RECORD, id="id2", replaces="id1")]
    elsewhere = replace(RECORD, id="id3", other="concepts/c")
    found = resolutions.live([*ring, elsewhere])
    assert found[PAIR] == []
    assert found[frozenset(("concepts/a", "concepts/c"))] == [elsewhere]


def test_a_record_replaces_only_one_of_its_own_pair() -> None:
    elsewhere = replace(RECORD, id="id2", other="concepts/c", replaces="id1")
    assert resolutions.live([RECORD, elsewhere])[PAIR] == [RECORD]
