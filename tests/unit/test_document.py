"""Parsing whole pages: the strict rules of marked vaults, and the lenience of plain folders."""

import json
import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_daemon.core.chunking import chunk
from wikid_daemon.core.dates import freshness, instant, normalised
from wikid_daemon.core.document import MAX_BYTES, KnowledgeDocument, Parsed, Verification, parse_page, status_of
from wikid_daemon.core.page import Json

DATA = Path(__file__).parents[1] / "data"
UGLY = DATA / "ugly" / ".llm-wiki" / "wiki"


def strict(head: str, body: str = "Body.\n", path: str = "concepts/here.md") -> KnowledgeDocument:
    parsed = parse_page(path, f"---\n{head}---\n\n{body}".encode(), strict=True)
    assert parsed.document is not None
    return parsed.document


def plain(data: bytes, path: str = "folder/file name.md") -> KnowledgeDocument:
    document = parse_page(path, data, strict=False).document
    assert document is not None
    return document


def codes(parsed: Parsed) -> list[str]:
    return [finding.code for finding in parsed.findings]


# Marked vaults


def test_the_sample_vault_gives_the_codes_that_the_extension_reports() -> None:
    expected = json.loads((DATA / "expected" / "ugly.discovery.json").read_text())
    wanted = {path: code for path, _, code in expected["diagnostics"] if code != "concept_identity_collision"}
    refused, accepted = {}, set()
    for folder, _, names in os.walk(UGLY):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), UGLY)
            if not name.lower().endswith(".md") or name.lower() in ("index.md", "log.md"):
                continue
            parsed = parse_page(path, (UGLY / path).read_bytes(), strict=True)
            errors = [finding for finding in parsed.findings if finding.severity == "error"]
            if parsed.document is None:
                assert len(errors) == 1
                assert errors[0].path == path
                refused[path] = errors[0].code
            else:
                assert not errors
                accepted.add(parsed.document.page_id)
    assert refused == wanted
    assert set(expected["accepted_ids"]) <= accepted


@pytest.mark.parametrize("vault", ["personal", "project"])
def test_sample_vaults_parse_and_serialise(vault: str) -> None:
    wiki = DATA / vault / ".llm-wiki" / "wiki"
    for file in wiki.rglob("*.md"):
        if file.name in ("index.md", "log.md"):
            continue
        path = file.relative_to(wiki).as_posix()
        parsed = parse_page(path, file.read_bytes(), strict=True)
        assert parsed.document is not None, path
        json.dumps(parsed.document.metadata, allow_nan=False)
        assert chunk(parsed.document), path


def test_fields() -> None:
    document = strict(
        "type: Concept\ntitle: ' A title '\ndescription: What it says.\ndomain: engineering\ncategory: tool\n"
        "aliases: [one, 2, one, '']\ntags: '#ops deploy, late'\nrecall_triggers: when it rains\n"
        "created: 2026-05-10\nupdated: 2026-05-10t11:00:00+13:00\nstale_after: 2026-06-01T00:00:00.5Z\n"
        "generated: { by: human:me, at: 2026-05-10T11:00Z }\nverified: { by: process:x, at: 2026-03-20T03:00:00Z }\n"
        "status: clarified\nextra: { kept: [1] }\n",
        path="concepts/cafe\u0301.md",
    )
    assert (document.page_id, document.path) == ("concepts/caf\u00e9", "concepts/cafe\u0301.md")
    assert (document.title, document.type, document.role, document.status) == (
        "A title",
        "Concept",
        "canonical",
        "draft",
    )
    assert (document.description, document.domain, document.category) == ("What it says.", "engineering", "tool")
    assert document.aliases == ("one", "2")
    assert document.tags == ("ops", "deploy", "late")
    assert document.recall_triggers == ("when it rains",)
    assert document.created == "2026-05-10T00:00:00Z"
    assert document.updated == "2026-05-10T11:00:00+13:00"
    assert document.stale_after == "2026-06-01T00:00:00.5Z"
    assert document.generated_at == "2026-05-10T11:00:00Z"
    assert document.verified == (Verification("process:x", "2026-03-20T03:00:00Z"),)
    assert document.metadata["extra"] == {"kept": [1]}


@pytest.mark.parametrize(
    ("kind", "role"),
    [("' Concept '", "canonical"), ("case", "canonical"), ("source", "evidence"), ("Runbook", "evidence")],
)
def test_roles(kind: str, role: str) -> None:
    assert strict(f"type: {kind}\n").role == role


@pytest.mark.parametrize(
    ("status", "meaning"),
    [("stub", "draft"), ("Draft", "draft"), ("rejected", "deprecated"), ("insight", "stable"), (None, "stable")],
)
def test_statuses(status: Json, meaning: str) -> None:
    assert status_of(status) == meaning
    assert status_of([status]) == "stable"


def test_ids_lose_only_a_lower_case_suffix() -> None:
    assert strict("type: x\n", path="a/B.md.md").page_id == "a/B.md"
    assert strict("type: x\n", path="a/B.MD").page_id == "a/B.MD"


def test_a_page_without_usable_title_is_called_by_its_last_segment() -> None:
    assert strict("type: x\ntitle: 42\n", "# Heading\n").title == "here"


def test_unreadable_dates_and_verifications_are_warned_of_and_absent() -> None:
    head = "type: x\ncreated: last week\nupdated: 2026-02-30\nstale_after: 2026-01-01T10:00:00\n"
    head += "verified: [me, {by: you}]\n"
    parsed = parse_page("a.md", f"---\n{head}---\n".encode(), strict=True)
    assert codes(parsed) == ["date_invalid"] * 3 + ["verified_invalid_shape"]
    assert parsed.document is not None
    assert (parsed.document.created, parsed.document.updated, parsed.document.stale_after) == (None, None, None)
    assert parsed.document.verified == (Verification("you", None),)


def test_size_limit() -> None:
    head = b"---\ntype: x\n---\n"
    assert parse_page("a.md", head.ljust(MAX_BYTES, b"\n"), strict=True).document is not None
    assert codes(parse_page("a.md", b"x" * (MAX_BYTES + 1), strict=True)) == ["document_limit_bytes"]


def test_bad_bytes_are_accepted_with_a_warning() -> None:
    parsed = parse_page("a.md", b"---\r\ntype: x\r\n---\r\ncaf\xe9 \0\r\n", strict=True)
    assert sorted(codes(parsed)) == ["document_bad_utf8", "document_nul"]
    assert parsed.document is not None
    assert parsed.document.body == "caf\ufffd \ufffd\n"
    assert parsed.document.body_line == 4


# Plain folders


def test_a_plain_note() -> None:
    document = plain(b"Intro\n\n# The *big* `idea`\n\ntext\n")
    assert (document.page_id, document.title) == ("folder/file name", "The big idea")
    assert (document.type, document.role, document.body_line) == ("page", "evidence", 1)
    assert plain(b"text").title == "file name"
    assert plain(b"---\ntype: concept\n---\ntext").role == "canonical"


def test_dates_in_plain_frontmatter_stay_text() -> None:
    head = b"title: 2026-05-26\ndate: 2026-05-26\nat: 2026-05-26T10:00:00+13:00\n"
    document = plain(b"---\n" + head + b"---\n# 2026-05-26\n")
    assert document.title == "2026-05-26"
    assert json.loads(json.dumps(document.metadata))["at"] == "2026-05-26T10:00:00+13:00"


@pytest.mark.parametrize(
    ("head", "title", "tags", "code", "line"),
    [
        ("type: note\ntitle: Foo: Bar\n", "Foo: Bar", (), "frontmatter_parse_error", 3),
        ("title: T\ntags:\n\t- ops\n\t- late\n", "T", ("ops", "late"), "frontmatter_parse_error", 4),
        ("title: T\ntags: [a]\ntags: [b]\n", "T", ("a",), "frontmatter_duplicate_key", 4),
    ],
)
def test_broken_frontmatter_costs_neither_title_nor_body(
    head: str, title: str, tags: tuple[str, ...], code: str, line: int
) -> None:
    parsed = parse_page("a/b.md", f"---\n{head}---\n\nThe body.\n".encode(), strict=False)
    assert parsed.document is not None
    assert (parsed.document.title, parsed.document.tags, parsed.document.body) == (title, tags, "The body.\n")
    assert [(found.severity, found.code, found.path, found.line) for found in parsed.findings] == [
        ("warning", code, "a/b.md", line)
    ]


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (b"\xef\xbb\xbf---\r\ntitle: T\r\n---\r\n\r\nText\r\n", "Text\n"),
        ("---\ntitle: T\n---\n\nText\n".encode("utf-16"), "Text\n"),
        (b"caf\xe9", "caf\ufffd"),
        (b"a\0b", "a\ufffdb"),
    ],
)
def test_encodings(data: bytes, body: str) -> None:
    parsed = parse_page("a.md", data, strict=False)
    assert parsed.document is not None
    assert parsed.document.body == body
    assert bool(parsed.findings) == ("\ufffd" in body)


@pytest.mark.parametrize("data", [b"", b"   \n\t\n", b"---\n---\n"])
def test_blank_files_are_documents_without_chunks(data: bytes) -> None:
    assert chunk(plain(data)) == []


@pytest.mark.parametrize(
    ("head", "title", "aliases", "tags"),
    [
        ("title:\naliases: foo\n", "Heading", ("foo",), ()),
        ("title: 42\ntags: null\n", "Heading", (), ()),
        ("title: [a, b]\naliases: [null, true, x]\n", "Heading", ("x",), ()),
        ("title: yes\n", "yes", (), ()),
    ],
)
def test_odd_values(head: str, title: str, aliases: tuple[str, ...], tags: tuple[str, ...]) -> None:
    document = plain(f"---\n{head}---\n# Heading\n".encode())
    assert (document.title, document.aliases, document.tags) == (title, aliases, tags)


def test_a_poem_between_rules_is_all_body() -> None:
    poem = "---\nTwo roads diverged: so they say\nin a yellow wood\n---\nAnd sorry\n"
    parsed = parse_page("poem.md", poem.encode(), strict=False)
    assert parsed.findings == ()
    assert parsed.document is not None
    assert (parsed.document.body, parsed.document.title, parsed.document.metadata) == (poem, "poem", {})


def test_an_unclosed_block_of_pairs_is_body_with_a_warning() -> None:
    parsed = parse_page("a.md", b"---\ntitle: T\n\ntext\n", strict=False)
    assert codes(parsed) == ["frontmatter_parse_error"]
    assert parsed.document is not None
    assert "text" in parsed.document.body


@settings(deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: f"---\n{text}".encode()))
def test_no_bytes_stop_a_plain_folder(data: bytes) -> None:
    parsed = parse_page("a.md", data, strict=False)
    assert parsed.document is not None
    json.dumps(parsed.document.metadata, allow_nan=False)
    chunk(parsed.document)
    assert (parse_page("a.md", data, strict=True).document is None) == any(
        finding.severity == "error" for finding in parse_page("a.md", data, strict=True).findings
    )


# Times


@settings(deadline=None)
@given(st.datetimes(), st.integers(-23 * 60, 23 * 60))
def test_rfc_3339_keeps_its_instant(moment: datetime, minutes: int) -> None:
    sign = "-" if minutes < 0 else "+"
    written = f"{moment.isoformat(timespec='microseconds')}{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    text = normalised(written)
    assert text == written
    assert instant(text).replace(tzinfo=None) == moment
    assert instant(text).utcoffset() == timedelta(minutes=minutes)


@pytest.mark.parametrize("value", ["", "2026", "2026-1-1", "2026-13-01", "2026-01-01T10:00:00", "next", 20260101, True])
def test_other_forms_are_no_times(value: Json) -> None:
    assert normalised(value) is None


@pytest.mark.parametrize(
    ("head", "word"),
    [
        ("", "unverified"),
        ("verified: [{by: a}]\ngenerated: {by: a, at: 2026-03-01}\n", "current"),
        ("verified: [{by: a, at: 2026-01-01}, {by: b, at: 2026-04-01}]\ngenerated: {at: 2026-03-01}\n", "current"),
        ("verified: [{by: a, at: 2026-02-01}]\ngenerated: {at: 2026-03-01}\n", "outdated"),
        ("stale_after: 2026-05-01T00:00:00Z\nverified: [{by: a, at: 2026-02-01}]\n", "stale"),
        ("stale_after: 2026-05-01T00:00:01Z\nverified: [{by: a, at: 2026-02-01}]\n", "current"),
    ],
)
def test_freshness(head: str, word: str) -> None:
    assert freshness(strict(f"type: x\n{head}"), datetime.fromisoformat("2026-05-01T00:00:00Z")) == word
