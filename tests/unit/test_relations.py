"""Typed relations: the shape rules, and the body link that each one needs."""

from pathlib import Path

import pytest

from wikid_daemon.core.document import Relation, parse_page
from wikid_daemon.core.page import Json
from wikid_daemon.core.relations import missing_targets, read

PAGES = Path(__file__).parents[1] / "data" / "ugly" / ".llm-wiki" / "wiki" / "relations"
GOOD: dict[str, Json] = {"target": "a/x", "type": "supports"}


def judge(value: Json) -> tuple[list[Relation], list[str]]:
    result = read(value, page_id="a/me", path="a/me.md", linked_ids={"a/x", "a/y", "caf\u00e9", "a/me"})
    return list(result.relations), [finding.code for finding in result.findings]


def test_valid_relations() -> None:
    scoped: Json = {"target": "a/y", "type": "applies_under", "scope": " only on Linux "}
    assert judge([GOOD, scoped, {"target": "cafe\u0301", "type": "related_to", "scope": None}]) == (
        [
            Relation("a/x", "supports", None),
            Relation("a/y", "applies_under", "only on Linux"),
            Relation("caf\u00e9", "related_to", None),
        ],
        [],
    )
    assert judge(None) == ([], [])


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ("a/x", "relation_invalid_shape"),
        ({**GOOD, "weight": 3}, "relation_invalid_shape"),
        ({"type": "supports"}, "relation_invalid_shape"),
        ({"target": "a/x"}, "relation_invalid_shape"),
        ({"target": 3, "type": "supports"}, "relation_invalid_shape"),
        ({"target": "a/x", "type": "inspired_by"}, "relation_unknown_type"),
        ({"target": "/a/x", "type": "supports"}, "relation_invalid_target"),
        ({"target": "a/x.md", "type": "supports"}, "relation_invalid_target"),
        ({"target": "a/x#part", "type": "supports"}, "relation_invalid_target"),
        ({"target": "a/../x", "type": "supports"}, "relation_invalid_target"),
        ({"target": "", "type": "supports"}, "relation_invalid_target"),
        ({"target": "a/x", "type": "applies_under"}, "relation_invalid_scope"),
        ({"target": "a/x", "type": "applies_under", "scope": " "}, "relation_invalid_scope"),
        ({**GOOD, "scope": "Linux"}, "relation_invalid_scope"),
        ({"target": "a/me", "type": "supports"}, "relation_self_link"),
        ({"target": "a/z", "type": "supports"}, "relation_missing_body_link"),
    ],
)
def test_each_fault_costs_only_its_own_entry(item: Json, code: str) -> None:
    assert judge([item, GOOD]) == ([Relation("a/x", "supports", None)], [code])


def test_duplicates_and_other_shapes() -> None:
    assert judge([GOOD, GOOD]) == ([Relation("a/x", "supports", None)], ["relation_duplicate"])
    assert judge(GOOD) == ([], ["relation_invalid_shape"])
    assert judge("a/x") == ([], ["relation_invalid_shape"])


@pytest.mark.parametrize(
    ("name", "kept", "codes"),
    [
        ("relation-ok", 1, []),
        ("relation-body-link-is-only-a-wikilink", 0, ["relation_missing_body_link"]),
        ("relation-body-link-only-inside-code", 0, ["relation_missing_body_link"]),
        ("relation-missing-body-link", 0, ["relation_missing_body_link"]),
        ("relation-duplicate", 1, ["relation_duplicate"]),
        ("relations-not-a-list", 0, ["relation_invalid_shape"]),
    ],
)
def test_sample_pages(name: str, kept: int, codes: list[str]) -> None:
    parsed = parse_page(f"relations/{name}.md", (PAGES / f"{name}.md").read_bytes(), strict=True)
    assert parsed.document is not None
    assert len(parsed.document.relations) == kept
    assert [finding.code for finding in parsed.findings] == codes
    assert {finding.severity for finding in parsed.findings} <= {"warning"}


def test_targets_are_resolved_against_known_pages() -> None:
    name = "relation-target-does-not-exist.md"
    document = parse_page(f"relations/{name}", (PAGES / name).read_bytes(), strict=True).document
    assert document is not None
    assert missing_targets(document, {"concepts/gone"}) == []
    assert [finding.code for finding in missing_targets(document, set())] == ["relation_missing_target"]
