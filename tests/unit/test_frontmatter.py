"""The YAML block: YAML 1.2 core, and every refusal of vault format §2.2 and §2.3."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_daemon.core.frontmatter import Fault, Fenced, parse, split
from wikid_daemon.core.page import Json
from wikid_daemon.core.recovery import begins_like_mapping, recover


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("off", "off"),
        ("2026-05-26", "2026-05-26"),
        ("2026-05-26T10:00:00+13:00", "2026-05-26T10:00:00+13:00"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("-7", -7),
        ("1.5e3", 1500.0),
        (".5", 0.5),
        ("true", True),
        ("False", False),
        ("tRUE", "tRUE"),
        ("~", None),
        ("", None),
        ("NULL", None),
        ("'42'", "42"),
        ('"true"', "true"),
        ("!!str 42", "42"),
        ('!!int "42"', 42),
        (".inf", ".inf"),
        ("1e999", "1e999"),
        ("9" * 5000, "9" * 5000),
        ("123456789012345678901", 123456789012345678901.0),
        ("[http://x.org/y?q=1, {?a: b}]", ["http://x.org/y?q=1", {"?a": "b"}]),
        ("a\x07b", "a\x07b"),
        ("a\u2028b", "a\u2028b"),
        ("\tx", "x"),
        ("|\n  two\n  lines\n", "two\nlines\n"),
        ("&anchor [x]", ["x"]),
        ("{ <<: { a: 1 } }", {"<<": {"a": 1}}),
    ],
)
def test_scalars_follow_the_core_schema(written: str, value: Json) -> None:
    assert parse(f"key: {written}\n") == {"key": value}


@pytest.mark.parametrize(
    ("yaml", "code"),
    [
        ("", "frontmatter_multiple_documents"),
        ("# only a comment\n", "frontmatter_multiple_documents"),
        ("a: 1\n...\n---\nb: 2\n", "frontmatter_multiple_documents"),
        ("a: b: c\n", "frontmatter_parse_error"),
        ("- a\n", "frontmatter_parse_error"),
        ("text\n", "frontmatter_parse_error"),
        ("a: @b\n", "frontmatter_parse_error"),
        ("a:\n\t- b\n", "frontmatter_parse_error"),
        ("a: [b,\nc]\n", "frontmatter_parse_error"),
        ("a: 1\na: 2\n", "frontmatter_duplicate_key"),
        ("1: a\n'1': b\n", "frontmatter_duplicate_key"),
        ("a: {b: 1, b: 2}\n", "frontmatter_duplicate_key"),
        ("a: 1\na: 2\nb: 'open\n", "frontmatter_duplicate_key"),
        ("a: &x 1\nb: *x\n", "frontmatter_alias_forbidden"),
        ("a: !date 2026-01-01\n", "frontmatter_custom_tag_forbidden"),
        ("a: !!str [&x b, *x, !c d]\n", "frontmatter_alias_forbidden"),
        (f"a: {'[' * 32}{']' * 32}\n", "frontmatter_limit_depth"),
        (f"a: {'[' * 100_000}", "frontmatter_parse_error"),
        (f"a: {'x' * 131_072}\n", "frontmatter_limit_bytes"),
        (f"a: {'é' * 66_000}\n", "frontmatter_limit_bytes"),
    ],
)
def test_refusals(yaml: str, code: str) -> None:
    fault = parse(yaml)
    assert isinstance(fault, Fault)
    assert fault.code == code


def test_limits_are_inclusive() -> None:
    assert isinstance(parse(f"a: {'[' * 31}{']' * 31}\n"), dict)
    assert isinstance(parse("a: " + "x" * (131_072 - 4) + "\n"), dict)


def test_nested_keys_that_differ_in_type_are_no_duplicates() -> None:
    assert isinstance(parse("a: {1: x, '1': y}\n"), dict)


def test_a_fault_names_the_place_in_the_file_and_never_quotes_the_page() -> None:
    fault = parse("ok: 1\nsecret: plans: inside\n")
    assert isinstance(fault, Fault)
    assert (fault.line, fault.column) == (3, 14)
    assert "plans" not in fault.message


@pytest.mark.parametrize(
    ("text", "fenced"),
    [
        ("---\na: 1\n---\n\nbody\n", Fenced("a: 1\n", "body\n", 5)),
        ("---\na: 1\n---\nbody", Fenced("a: 1\n", "body", 4)),
        ("---\na: 1\n---\n\n\nbody", Fenced("a: 1\n", "\nbody", 5)),
        ("---\na: 1\n---", Fenced("a: 1\n", "", 3)),
        ("---\n---\nbody", Fenced("", "body", 3)),
        ("---\na: 1\n...\n---\nb: 2\n---\nbody", Fenced("a: 1\n...\n---\nb: 2\n", "body", 7)),
        ("---\na: 1\n...\n---\nbody", Fenced("a: 1\n...\n", "body", 5)),
        ("---\na: 1\n --- \n---\nbody", Fenced("a: 1\n --- \n", "body", 5)),
    ],
)
def test_fences(text: str, fenced: Fenced) -> None:
    assert split(text) == fenced


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "frontmatter_missing"),
        ("--- \na: 1\n---\n", "frontmatter_missing"),
        ("\n---\na: 1\n---\n", "frontmatter_missing"),
        ("---\na: 1\n", "frontmatter_parse_error"),
        ("---\na: 1\n--- \n", "frontmatter_parse_error"),
    ],
)
def test_missing_fences(text: str, code: str) -> None:
    fault = split(text)
    assert isinstance(fault, Fault)
    assert fault.code == code


def test_broken_lines_are_recovered_one_by_one() -> None:
    yaml = (
        "# note\ntitle: Foo: Bar\ntags:\n\t- ops\n\t- 'on call'\naliases: [a, \"b\"]\ntags: again\ncount: 3\nempty:\n"
    )
    assert recover(yaml) == {
        "title": "Foo: Bar",
        "tags": ["ops", "on call"],
        "aliases": ["a", "b"],
        "count": 3,
        "empty": None,
    }


def test_prose_between_rules_is_not_recovered() -> None:
    assert recover("Shall I compare thee\nto a summer's day: no\n") is None
    assert not begins_like_mapping("\nThe road goes on\n")
    assert begins_like_mapping("# comment\ntitle: x\n")


# the last plane of private characters stands in for what libyaml refuses
_TEXT = st.text(st.characters(max_codepoint=0xFFFFF, exclude_categories=["Cs"]), max_size=20)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(_TEXT, _VALUES, min_size=1, max_size=5))
def test_json_flow_style_reads_back(value: dict[str, Json]) -> None:
    assert parse(json.dumps(value, ensure_ascii=False)) == value


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_values_for_json_or_a_fault(yaml: str) -> None:
    result = parse(yaml)
    if isinstance(result, dict):
        json.dumps(result, allow_nan=False)
    else:
        assert result.code.startswith("frontmatter_")
