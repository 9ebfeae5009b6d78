"""Links: which destinations are pages, and what the existing extension reports for the sample vault."""

import json
from pathlib import Path

import pytest

from wikid_daemon.core.document import KnowledgeDocument, Link, parse_page
from wikid_daemon.core.links import Unusable, resolve, unresolved

DATA = Path(__file__).parents[1] / "data"


def parse(body: str, path: str = "notes/here.md") -> KnowledgeDocument:
    document = parse_page(path, f"---\ntype: concept\n---\n{body}".encode(), strict=True).document
    assert document is not None
    return document


def targets(body: str) -> list[str]:
    return [link.target for link in parse(body).links]


@pytest.mark.parametrize(
    ("href", "target"),
    [
        ("/a/b.md", "a/b"),
        ("b.md", "notes/b"),
        ("./b.md#part", "notes/b"),
        ("../b.md?x=1#y", "b"),
        ("../a//b.md", "a/b"),
        ("..\\a\\b.md", "a/b"),
        ("/a%20b/c%2Fd.md", "a b/c/d"),
        ("/cafe\u0301.md", "caf\u00e9"),
        ("/a/b.MD", None),
        ("/a/b", None),
        ("#part", None),
        ("https://example.org/a.md", None),
        ("mailto:a.md", None),
    ],
)
def test_destinations(href: str, target: str | None) -> None:
    assert resolve(href, "notes/here.md") == target


@pytest.mark.parametrize(
    ("href", "code"),
    [
        ("../../a.md", "link_path_escape"),
        ("/../a.md", "link_path_escape"),
        ("%2e%2e/%2e%2e/a.md", "link_path_escape"),
        ("/%zz.md", "link_unresolved"),
        ("/%ff.md", "link_unresolved"),
    ],
)
def test_unusable_destinations(href: str, code: str) -> None:
    result = resolve(href, "notes/here.md")
    assert isinstance(result, Unusable)
    assert result.code == code


@pytest.mark.parametrize(
    "body",
    [
        "[a](/x.md)",
        "text *[a](/x.md)* text",
        "[a][r]\n\n[r]: /x.md",
        "[r]\n\n[r]: /x.md 'title'",
        "[r][]\n\n[R]: </x.md>",
        "- item\n\n  > [a](/x.md)",
        "| h |\n|---|\n| [a](/x.md) |",
        "## Heading [a](/x.md)",
        "[![image](i.png)](/x.md)",
        "[[x]]",
        "![[ x|label]]",
        "`[[x]]`",
        "<!-- [[x]] -->",
    ],
)
def test_links_that_count(body: str) -> None:
    assert targets(body) == ["x"]


@pytest.mark.parametrize(
    "body",
    [
        "![a](/x.md)",
        "`[a](/x.md)`",
        "```\n[a](/x.md)\n```",
        "    [a](/x.md)",
        "\\[a](/x.md)",
        "<https://example.org/[a](/x.md)>",
        "<a href='/x.md'>a</a>",
        "[unused]: /x.md",
        "[[ ]]",
    ],
)
def test_links_that_do_not_count(body: str) -> None:
    assert targets(body) == []


def test_links_know_their_file_line_and_appear_once() -> None:
    document = parse("\nfirst\n\n[a](/x.md) [[y]] [b](/x.md)\n\n[[y]]\n[[z]]\n")
    assert document.links == (Link("markdown", "x", 7), Link("wikilink", "y", 7), Link("wikilink", "z", 10))


def test_unresolved_names_the_line_and_compares_case() -> None:
    found = unresolved(parse("[a](/x.md)\n\n[[X]] [[x]]\n"), {"x"})
    assert [(finding.code, finding.severity, finding.path, finding.line) for finding in found] == [
        ("link_unresolved", "warning", "notes/here.md", 6)
    ]


def test_wikilinks_of_plain_folders_are_kept_as_written() -> None:
    document = parse_page("a.md", b"[[Some Note#Part|label]] [[Other]]", strict=False).document
    assert document is not None
    assert [link.target for link in document.links] == ["Some Note#Part", "Other"]


@pytest.mark.parametrize("body", ["[" * 400_000 + "](/x.md)", "[[" * 200_000, "[[a|" * 20_000, "[a](" * 50_000])
def test_floods_of_brackets_end(body: str) -> None:
    assert parse(body).body == body


def test_many_links_in_one_paragraph_are_all_found() -> None:
    body = "\n".join(f"[{n}](/p{n}.md)" for n in range(2000))
    assert targets(body) == [f"p{n}" for n in range(2000)]


def test_very_long_bodies_still_give_their_inline_links() -> None:
    body = "- item\n" * 40_000 + "[a](/x.md)\n```\n[b](/y.md)\n```\n[c](/z.md)\n"
    assert targets(body) == ["x", "z"]


def test_the_sample_vault_gives_what_the_extension_reports() -> None:
    wiki = DATA / "ugly" / ".llm-wiki" / "wiki"
    known = set(json.loads((DATA / "expected" / "ugly.discovery.json").read_text())["accepted_ids"])
    expected = json.loads((DATA / "expected" / "ugly.links.json").read_text())
    for page_id, wanted in expected.items():
        parsed = parse_page(f"{page_id}.md", (wiki / f"{page_id}.md").read_bytes(), strict=True)
        assert parsed.document is not None
        missing = unresolved(parsed.document, known)
        codes = [finding.code for finding in (*parsed.findings, *missing) if finding.code.startswith("link_")]
        links = parsed.document.links
        assert {
            "targets": sorted({link.target for link in links if link.target in known}),
            "unresolved": [f"{link.kind} {link.target}" for link in links if link.target not in known],
            "codes": codes,
        } == wanted, page_id
