"""The contract in words and for programs: complete, current, and true to the decoder it is made from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import jsonschema  # type: ignore[import-untyped]
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_client.cli import main
from wikid_daemon.core.settings import ProblemKind
from wikid_protocol import describe, examples, messages, openrpc
from wikid_protocol.decode import decode
from wikid_protocol.error_meanings import ERRORS
from wikid_protocol.errors import KINDS
from wikid_protocol.limits import LIMITS
from wikid_protocol.meanings import COMMON, meanings_of
from wikid_protocol.methods import METHODS, Method
from wikid_protocol.own_meanings import OWN
from wikid_protocol.schema import bundled, is_required, schema_of
from wikid_protocol.subscriptions import EVENTS
from wikid_protocol.words import DIAGNOSTICS, LACKS, MODE_REASONS, REASONS
from wire_values import values_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE = describe.markdown()
DOCUMENT = openrpc.document()
RECORDS = {kind.__name__: kind for kind in describe.all_records()}
methods = pytest.mark.parametrize("row", METHODS.values(), ids=METHODS)
records = pytest.mark.parametrize("kind", RECORDS.values(), ids=RECORDS)


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "components": DOCUMENT["components"]}


def said_by_the_daemon() -> Iterator[str]:
    """Every word that is written out where a diagnostic, or what makes one, is made."""
    yield from get_args(ProblemKind)
    files = (DOCS.parent / "daemon" / "wikid_daemon").rglob("*.py")
    trees = [
        ast.parse(file.read_text(encoding="utf-8"))
        for file in files
        if file.parent.name not in ("bench", "demo", "models", "transport")
    ]
    constants = {
        each.target.id: each.value.value
        for tree in trees
        for each in tree.body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and isinstance(each.value, ast.Constant)
    }
    for tree in trees:
        for node in ast.walk(tree):
            yield from (word for word in _words_of(node, constants) if isinstance(word, str))


def _words_of(node: ast.AST, constants: Mapping[str, object]) -> Iterator[object]:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple | ast.Name):
        # `kind = "a" if … else "b"`, and `kind, message = "a", …`
        target: ast.expr = node.targets[0]
        value = node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            target, value = target.elts[0], value.elts[0]
        if isinstance(target, ast.Name) and target.id == "kind":
            values = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
            found = (each.value for each in values if isinstance(each, ast.Constant))
            yield from (each for each in found if each in DIAGNOSTICS)
    if not isinstance(node, ast.Call):
        return
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    given = [each.value for each in node.keywords if each.arg == "kind"] if name == "Diagnostic" else []
    if name in ("Absence", "tell") and node.args:
        given = [node.args[0]]
    if name == "append" and "notes" in ast.dump(node.func) and isinstance(node.args[0], ast.Tuple):
        given = [node.args[0].elts[0]]
    for each in given:
        yield each.value if isinstance(each, ast.Constant) else constants.get(getattr(each, "id", ""))


# -- current -----------------------------------------------------------------------------------------------------------


def test_the_page_that_is_kept_is_the_one_that_is_made() -> None:
    kept = (DOCS / "protocol.md").read_text(encoding="utf-8")
    assert kept == PAGE, "run: wikid protocol --markdown > docs/protocol.md"


def test_the_document_that_is_kept_is_the_one_that_is_made() -> None:
    kept = orjson.loads((DOCS / "openrpc.json").read_bytes())
    assert kept == DOCUMENT, "run: wikid protocol --openrpc > docs/openrpc.json"


def test_the_command_prints_each_form_without_a_daemon(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol"]) == 0
    assert capsys.readouterr().out == PAGE
    assert main(["protocol", "--openrpc"]) == 0
    assert orjson.loads(capsys.readouterr().out) == DOCUMENT
    assert main(["protocol", "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out) == orjson.loads(orjson.dumps(describe.table()))


# -- complete ----------------------------------------------------------------------------------------------------------


@records
def test_every_field_has_a_meaning(kind: type) -> None:
    assert {each.name for each in fields(kind)} == set(meanings_of(kind)), "add it to meanings.py or own_meanings.py"


def test_no_meaning_is_left_of_a_field_that_has_gone() -> None:
    named = {f"{name}.{each.name}" for name, kind in RECORDS.items() for each in fields(kind)}
    assert set(OWN) <= named
    assert set(COMMON) <= {each.partition(".")[2] for each in named}


def test_every_kind_of_error_has_a_meaning() -> None:
    assert list(ERRORS) == list(KINDS)
    for kind, row in KINDS.items():
        retry = "yes" if row.retry else "no"
        assert f"| `{kind}` | {row.code} | {row.exit_code} | {retry} | {ERRORS[kind]} |" in PAGE


@methods
def test_the_page_has_each_method_with_its_params_and_an_example(row: Method) -> None:
    section = PAGE.partition(f"\n### `{row.name}`\n")[2].partition("\n### ")[0]
    assert row.doc in section
    assert f"Access: {row.access}. Capability: `{row.capability}`. Since {row.since}." in section
    assert all(f"| `{each.name}` | " in section for each in fields(row.params))
    assert f"[{row.result.__name__}](#{row.result.__name__.lower()}-record)" in section
    call, answer = re.findall(r"```json\n(.*)\n(.*)\n```", section)[0]
    assert (call.encode() + b"\n", answer.encode() + b"\n") == (
        examples.request_example(row),
        examples.answer_example(row),
    )


def test_the_page_has_each_record_that_it_links_to() -> None:
    headings = [each.lower().replace(" ", "-") for each in re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)]
    anchors = [re.sub(r"[^a-z0-9_-]", "", each) for each in headings]
    assert len(set(anchors)) == len(anchors), "a link to the second of a name would lead to the first"
    assert set(re.findall(r"\]\(#([^)]*)\)", PAGE)) <= set(anchors)


def test_the_page_stands_by_itself() -> None:
    """Whoever reads it has no other paper of the project."""
    for text in (PAGE, orjson.dumps(DOCUMENT).decode(), orjson.dumps(describe.table()).decode()):
        assert re.findall(r"§|[Ss]eed [AB]\b|vault format|\bT\d\d\b", text) == []


@pytest.mark.parametrize("words", [REASONS, MODE_REASONS, DIAGNOSTICS], ids=["reason", "mode_reasons", "diagnostics"])
def test_the_page_has_every_stable_word(words: dict[str, str]) -> None:
    assert all(f"| `{word}` | {meaning} |" in PAGE for word, meaning in words.items())


def test_the_daemon_says_no_stable_word_that_the_page_lacks() -> None:
    assert set(said_by_the_daemon()) - set(DIAGNOSTICS) == set()
    assert set(DIAGNOSTICS) - set(said_by_the_daemon()) == set(), "a word that nothing says any more"
    assert set(LACKS) == set(MODE_REASONS) & set(DIAGNOSTICS)


def test_what_cannot_succeed_again_is_not_told_to_be_tried_again() -> None:
    assert not KINDS["hash_conflict"].retry
    assert not KINDS["cancelled"].retry
    assert KINDS["vault_unavailable"].retry


def test_nothing_is_left_to_fill_in() -> None:
    assert "@@" not in PAGE
    assert all(f"`{each.name}` | {getattr(LIMITS, each.name):,} |" in PAGE for each in fields(LIMITS))


# -- true --------------------------------------------------------------------------------------------------------------


def test_each_method_that_needs_params_has_an_example() -> None:
    assert examples.missing_examples() == []


@methods
def test_examples_are_what_the_decoder_takes(row: Method) -> None:
    call = messages.read_call(messages.parse(examples.request_example(row)))
    assert isinstance(call, messages.Call)
    decode(METHODS[call.method].params, call.params)
    answer = messages.parse(examples.answer_example(row))
    assert isinstance(answer, dict)
    result = answer["result"]
    assert set(result) == {each.name for each in fields(row.result)}, "the daemon sends every member"
    decode(row.result, result)


def test_every_json_in_the_page_is_a_message() -> None:
    blocks = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) > 2 * len(METHODS)
    for line in lines:
        value = messages.parse(line.encode())
        assert isinstance(value, dict)
        assert value["jsonrpc"] == "2.0"
        if value.get("method") in EVENTS:
            decode(EVENTS[value["method"]], value["params"])


def test_the_bytes_of_a_framed_call_are_exact() -> None:
    framed = re.findall(r"Content-Length: (\d+)\\r\\n\n\\r\\n\n(\{.*\})\n```", PAGE)
    assert len(framed) == 2
    for length, body in framed:
        assert int(length) == len(body.encode())


@records
def test_schemas_are_valid_and_have_what_must_be_given(kind: type) -> None:
    schema = DOCUMENT["components"]["schemas"][kind.__name__]
    jsonschema.Draft202012Validator.check_schema(resolved(schema))
    assert set(schema.get("required", ())) == {each.name for each in fields(kind) if is_required(each)}
    assert "additionalProperties" not in schema, "unknown members are ignored"


@records
@settings(deadline=None, max_examples=4)
@given(data=st.data())
def test_schemas_accept_every_record(kind: type, data: st.DataObject) -> None:
    record = orjson.loads(messages.encode(data.draw(values_of(kind))))
    jsonschema.validate(record, resolved(DOCUMENT["components"]["schemas"][kind.__name__]))
    jsonschema.validate(record, bundled(kind))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Pong", {"version": "1"}),
        ("Pong", {"version": None, "pid": 1}),
        ("RecallParams", {"query": "q", "policy": "sometimes"}),
        ("RecallParams", {"query": "q", "types": ["a", 1]}),
        ("VaultList", {"vaults": [{"vault_id": "v", "name": "n", "path": "/", "kind": "odd"}]}),
    ],
)
def test_schemas_refuse_what_the_decoder_refuses(name: str, value: object) -> None:
    with pytest.raises(ValueError):
        decode(RECORDS[name], value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, resolved(DOCUMENT["components"]["schemas"][name]))


def test_a_type_that_the_decoder_does_not_know_has_no_schema() -> None:
    with pytest.raises(TypeError):
        schema_of(bytes)


# -- OpenRPC -----------------------------------------------------------------------------------------------------------

CONTENT = {
    "type": "object",
    "required": ["name", "schema"],
    "properties": {
        "name": {"type": "string"},
        "schema": {"type": ["object", "boolean"]},
        "required": {"type": "boolean"},
        "description": {"type": "string"},
        "summary": {"type": "string"},
        "deprecated": {"type": "boolean"},
    },
    "additionalProperties": False,
}
EXAMPLE = {
    "type": "object",
    "required": ["name", "params"],
    "properties": {
        "name": {"type": "string"},
        "params": {"type": "array", "items": {"type": "object", "required": ["name", "value"]}},
        "result": {"type": "object", "required": ["name", "value"]},
    },
}
META = {
    "type": "object",
    "required": ["openrpc", "info", "methods"],
    "properties": {
        "openrpc": {"type": "string", "pattern": r"^1\.\d+\.\d+$"},
        "info": {
            "type": "object",
            "required": ["title", "version"],
            "properties": {"license": {"type": "object", "required": ["name"]}},
        },
        "methods": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "params"],
                "properties": {
                    "name": {"type": "string"},
                    "summary": {"type": "string"},
                    "description": {"type": "string"},
                    "paramStructure": {"enum": ["by-name", "by-position", "either"]},
                    "params": {"type": "array", "items": CONTENT},
                    "result": CONTENT,
                    "examples": {"type": "array", "items": EXAMPLE},
                },
                "patternProperties": {"^x-": {}},
                "additionalProperties": False,
            },
        },
        "components": {
            "type": "object",
            "properties": {
                "schemas": {"type": "object"},
                "errors": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "required": ["code", "message"]},
                },
            },
            "additionalProperties": False,
        },
    },
    "patternProperties": {"^x-": {}},
    "additionalProperties": False,
}


def test_the_document_has_the_structure_of_openrpc() -> None:
    jsonschema.validate(orjson.loads(orjson.dumps(DOCUMENT)), META)
    names = [each["name"] for each in DOCUMENT["methods"]]
    assert len(set(names)) == len(names)
    assert set(METHODS) <= set(names)


def test_needed_params_come_first_and_no_name_twice() -> None:
    for method in DOCUMENT["methods"]:
        needed = [each["required"] for each in method["params"]]
        assert needed == sorted(needed, reverse=True), method["name"]
        assert len({each["name"] for each in method["params"]}) == len(needed)


def test_every_reference_leads_somewhere() -> None:
    for ref in re.findall(r'"\$ref":"#/components/schemas/([^"]*)"', orjson.dumps(DOCUMENT).decode()):
        assert ref in DOCUMENT["components"]["schemas"]


@methods
def test_examples_fit_the_schemas(row: Method) -> None:
    schemas = DOCUMENT["components"]["schemas"]
    jsonschema.validate(examples.params_example(row), resolved(schemas[row.params.__name__]))
    jsonschema.validate(examples.record_example(row.result), resolved(schemas[row.result.__name__]))
