"""Lint: each code on the smallest vault that gives cause for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import page
from wikid_daemon.core import resolutions
from wikid_daemon.core.copies import suspicious
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.lint import STATUSES, lint, search_remarks
from wikid_daemon.core.page import Choice, Finding, KnowledgeDocument
from wikid_daemon.core.remarks import REMEDIES, Remark, in_order
from wikid_daemon.core.survey import Survey, marker_line, unreadable, without_text

VAULT_ID = "8c1d7b3e-52f4-4a0e-9a54-7d2b8f0c6e19"
NOW = datetime(2026, 7, 1, tzinfo=UTC)
PROVEN = "[{id: s, resource: /sources/s.md}]"


def surveyed(pages: dict[str, str], *, strict: bool = True, **more: Any) -> Survey:
    """What a survey of these pages gives, by path."""
    documents: list[KnowledgeDocument] = []
    findings: list[Finding] = []
    markers: dict[str, int] = {}
    for path, text in pages.items():
        parsed = parse_page(path, text.encode(), strict=strict)
        findings += parsed.findings
        if parsed.document is not None:
            line = marker_line(parsed.document)
            if line is not None:
                markers[parsed.document.page_id] = line
            documents.append(without_text(parsed.document))
    return Survey(tuple(documents), findings=tuple(findings), markers=markers, **more)


def said(pages: dict[str, str], *, strict: bool = True, now: datetime = NOW, **more: Any) -> list[Remark]:
    return lint(surveyed(pages, strict=strict, **more), strict=strict, vault_id=VAULT_ID, now=now)


def places(remarks: list[Remark], code: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.path, each.related) for each in remarks if each.code == code]


def note(body: str = "Text.", **fields: str) -> str:
    """A page that nothing is asked of: evidence, and no card."""
    return page(body, type="source", **fields)


def card(body: str = "Text.", **fields: str) -> str:
    return page(body, **{"sources": PROVEN, **fields})


def related(kind: str, target: str, scope: str = "") -> dict[str, str]:
    scoped = f", scope: {scope}" if scope else ""
    return {"relations": f"[{{target: {target}, type: {kind}{scoped}}}]"}


def record(selected: str, other: str, *, replaces: str | None = None, **changes: str) -> str:
    """A resolution record whose id is its hash, unless that is among the changes."""
    kind: Choice = "supersedes"
    identity = resolutions.identity(VAULT_ID, selected, other, kind, None, replaces)
    values = {
        "id": identity,
        "selected": selected,
        "other": other,
        "relation": kind,
        "decided_by": "user",
        "decided_at": "2026-06-01T10:00:00Z",
        **({"replaces": replaces} if replaces else {}),
        **changes,
    }
    inner = ", ".join(f"{key}: {value}" for key, value in values.items())
    links = f"[one](/{selected}.md) [two](/{other}.md)"
    return page(links, type="analysis", category=resolutions.CATEGORY, resolution=f"{{{inner}}}")


def opposed() -> dict[str, str]:
    return {
        "concepts/a.md": card("[b](b.md)", **related("contradicts", "concepts/b")),
        "concepts/b.md": card("[a](a.md)", **related("contradicts", "concepts/a")),
    }


def test_a_vault_in_order_gives_no_cause() -> None:
    assert said({"concepts/a.md": card("[b](b.md)"), "concepts/b.md": card("[a](a.md)")}) == []
    assert said({}) == []


def test_broken_pages_are_errors_and_say_how_they_are_mended() -> None:
    (found,) = said({"a.md": "no frontmatter"})
    assert (found.severity, found.code, found.path, found.line) == ("error", "frontmatter_missing", "a.md", 1)
    assert found.remedy


@pytest.mark.parametrize(
    ("reason", "code"),
    [("permission_denied", "frontmatter_parse_error"), ("document_limit_bytes", "document_limit_bytes")],
)
def test_what_cannot_be_read_is_an_error(reason: str, code: str) -> None:
    found = unreadable("a.md", reason)
    assert (found.severity, found.code) == ("error", code)
    assert reason.replace("_", " ") in found.message


def test_a_link_to_nothing_names_its_line_and_what_is_missing() -> None:
    remarks = said(
        {"s/a.md": note("Text.\n\n[[concepts/x]] and [y](/concepts/y.md)"), "s/b.md": note("[[concepts/x]]")}
    )
    assert places(remarks, "link_unresolved") == [
        ("s/a.md", ("concepts/y",)),
        ("s/a.md", ("concepts/x",)),
        ("s/b.md", ("concepts/x",)),
    ]
    assert [each.line for each in remarks if each.path == "s/a.md" and each.code == "link_unresolved"] == [7, 7]
    assert places(remarks, "page_missing") == [("concepts/x.md", ("s/a", "s/b")), ("concepts/y.md", ("s/a",))]
    assert {each.severity for each in remarks} == {"warning", "hint"}


def test_a_misspelt_link_is_no_missing_page() -> None:
    remarks = said({"s/a.md": note("[[s/a#part]] [[s/a.md]] [[/s/a]]")})
    assert len(places(remarks, "link_unresolved")) == 3
    assert places(remarks, "page_missing") == []


def test_each_of_two_equal_faults_counts() -> None:
    remarks = said({"s/a.md": note("[x](../../x.md) [y](../../y.md)")})
    assert places(remarks, "link_path_escape") == [("s/a.md", ()), ("s/a.md", ())]


def test_orphans_are_cards_that_no_other_page_links_to() -> None:
    pages = {
        "concepts/alone.md": card("[me](alone.md)"),
        "concepts/linked.md": card(),
        "sources/s.md": note("[[concepts/linked]]"),
    }
    assert places(said(pages), "page_orphan") == [("concepts/alone.md", ())]


def test_records_of_decisions_are_neither_orphans_nor_in_need_of_evidence() -> None:
    remarks = said({**opposed(), "analyses/r.md": record("concepts/a", "concepts/b")})
    assert remarks == []


@pytest.mark.parametrize(
    "named",
    [
        {"sources": PROVEN},
        {"sources": "[SRC-1]"},
        {"sources": "a book"},
        {"trajectory_id": "TRJ-1"},
        {"status": "draft"},
        {"status": "deprecated"},
        {"body": "[s](/sources/s.md)", **related("derived_from", "sources/s")},
    ],
)
def test_what_a_stable_card_may_rest_on(named: dict[str, str]) -> None:
    body = named.get("body", "Text.")
    fields = {key: value for key, value in named.items() if key != "body"}
    pages = {"concepts/a.md": page(body, **{"status": "stable", **fields}), "sources/s.md": note("[[concepts/a]]")}
    assert places(said(pages), "evidence_missing") == []


def test_a_card_that_rests_on_nothing() -> None:
    pages = {"concepts/a.md": page("Text.", status="stable"), "concepts/b.md": page("Text.", sources="[]")}
    remarks = [each for each in said(pages) if each.code == "evidence_missing"]
    assert [(each.path, each.severity) for each in remarks] == [("concepts/a.md", "warning"), ("concepts/b.md", "hint")]
    supported = {**pages, "sources/s.md": note("[a](/concepts/a.md)", **related("supports", "concepts/a"))}
    assert places(said(supported), "evidence_missing") == [("concepts/b.md", ())]


@pytest.mark.parametrize(
    ("fields", "body", "code"),
    [
        ({"relations": "x"}, "", "relation_invalid_shape"),
        (related("inspired_by", "s/b"), "[b](b.md)", "relation_unknown_type"),
        (related("supports", "s/b.md"), "[b](b.md)", "relation_invalid_target"),
        (related("supports", "s/b", "x"), "[b](b.md)", "relation_invalid_scope"),
        (related("supports", "s/a"), "[a](a.md)", "relation_self_link"),
        (related("supports", "s/b"), "[[s/b]]", "relation_missing_body_link"),
        (related("supports", "s/c"), "[c](c.md)", "relation_missing_target"),
        (
            {"relations": "[{target: s/b, type: supports}, {target: s/b, type: supports}]"},
            "[b](b.md)",
            "relation_duplicate",
        ),
    ],
)
def test_relations(fields: dict[str, str], body: str, code: str) -> None:
    remarks = said({"s/a.md": note(body, **fields), "s/b.md": note()})
    assert [each.path for each in remarks if each.code == code] == ["s/a.md"]


def test_a_contradiction_is_told_once_until_one_live_record_settles_it() -> None:
    assert places(said(opposed()), "conflict_unresolved") == [("concepts/a.md", ("concepts/b",))]
    one_sided = {**opposed(), "concepts/a.md": card("[b](b.md)")}
    assert places(said(one_sided), "conflict_unresolved") == [("concepts/a.md", ("concepts/b",))]
    assert said({**opposed(), "analyses/r.md": record("concepts/b", "concepts/a")}) == []


def test_two_live_records_decide_nothing() -> None:
    first = resolutions.identity(VAULT_ID, "concepts/a", "concepts/b", "supersedes", None, None)
    pages = {
        **opposed(),
        "analyses/one.md": record("concepts/a", "concepts/b"),
        "analyses/two.md": record("concepts/b", "concepts/a"),
    }
    assert places(said(pages), "conflict_undecided") == [
        ("analyses/one.md", ("analyses/two",)),
        ("analyses/two.md", ("analyses/one",)),
    ]
    assert places(said(pages), "conflict_unresolved") == []
    pages["analyses/two.md"] = record("concepts/b", "concepts/a", replaces=first)
    assert said(pages) == []


def test_records_that_replace_each_other_settle_nothing() -> None:
    pages = {
        **opposed(),
        "analyses/one.md": record("concepts/a", "concepts/b", replaces="two", id="one"),
        "analyses/two.md": record("concepts/b", "concepts/a", replaces="one", id="two"),
    }
    assert len(places(said(pages), "conflict_unresolved")) == 1


def test_a_record_whose_id_is_not_its_hash() -> None:
    pages = {**opposed(), "analyses/r.md": record("concepts/a", "concepts/b", id="of-another-vault")}
    assert [(each.code, each.path) for each in said(pages)] == [("resolution_id_mismatch", "analyses/r.md")]


def test_records_that_cannot_be_followed() -> None:
    broken = record("concepts/a", "concepts/b", relation="beats")
    pages = {
        "analyses/r.md": broken,
        "concepts/c.md": card(resolution="{id: x}"),
        "concepts/d.md": card("[[concepts/c]]", category="tool"),
        "sources/s.md": note("[[concepts/d]]"),
    }
    assert places(said(pages), "resolution_invalid") == [("analyses/r.md", ()), ("concepts/c.md", ())]


def test_a_record_about_a_page_that_is_gone() -> None:
    pages = {"analyses/r.md": record("concepts/a", "concepts/b"), "concepts/a.md": card()}
    assert places(said(pages), "resolution_missing_claim") == [("analyses/r.md", ("concepts/b",))]


def test_a_contradiction_marker_is_told_with_its_line() -> None:
    (found,) = said({"s/a.md": note("Text.\n\n⚠️ **Contradiction**: it says otherwise.\n\n⚠️ **Contradiction**")})
    assert (found.code, found.line) == ("contradiction_marker", 7)


def test_stable_pages_that_replace_each_other() -> None:
    def pages(status: str) -> dict[str, str]:
        return {
            "concepts/a.md": card("[b](b.md)", **related("supersedes", "concepts/b")),
            "concepts/b.md": card("[a](a.md)", status=status, **related("supersedes", "concepts/a")),
        }

    assert places(said(pages("stable")), "supersedes_cycle") == [("concepts/a.md", ("concepts/b",))]
    assert places(said(pages("deprecated")), "supersedes_cycle") == []
    one_way = {**pages("stable"), "concepts/b.md": card("[a](a.md)")}
    assert places(said(one_way), "supersedes_cycle") == []


def test_pages_whose_time_has_come() -> None:
    stale = note(stale_after="2026-07-01")
    assert places(said({"s/a.md": stale}), "page_stale") == [("s/a.md", ())]
    assert said({"s/a.md": stale}, now=datetime(2026, 6, 30, 23, tzinfo=UTC)) == []
    assert said({"s/a.md": note(stale_after="2026-07-01", status="deprecated")}) == []


def test_verification_older_than_the_page() -> None:
    outdated = note(
        generated="{by: x, at: 2026-05-01T00:00:00Z}",
        verified="[{by: human:me, at: 2026-04-01T00:00:00Z}]",
        stale_after="2026-06-01",
    )
    assert [each.code for each in said({"s/a.md": outdated})] == ["page_stale", "verification_outdated"]


@pytest.mark.parametrize("status", ["maybe", "[draft]", "3"])
def test_an_unknown_status_is_a_hint(status: str) -> None:
    (found,) = said({"s/a.md": note(status=status)})
    assert (found.severity, found.code) == ("hint", "status_unknown")


@pytest.mark.parametrize("status", [*sorted(STATUSES), " Stable "])
def test_every_status_that_is_met_in_vaults_is_known(status: str) -> None:
    assert said({"s/a.md": note(status=f'"{status}"')}) == []


def test_dates_that_are_none() -> None:
    assert [each.code for each in said({"s/a.md": note(created="soon")})] == ["date_invalid"]


def test_copies_of_sync_tools_name_their_original() -> None:
    path = "concepts/a.sync-conflict-20260701-101112-ABCDEFG.md"
    (found,) = said({}, copies=(path,))
    assert (found.severity, found.code, found.path, found.related) == (
        "warning",
        "conflict_copy",
        path,
        ("concepts/a",),
    )


@pytest.mark.parametrize(
    "name", ["a (1)", "a copy", "a copy 2", "a - Copy", "a (copy)", "a 2", "Copy of a", "Kopie von a"]
)
def test_a_name_like_that_of_a_copy_is_a_hint_beside_its_original(name: str) -> None:
    pages = {"concepts/a.md": note(), f"concepts/{name}.md": note()}
    (found,) = said(pages)
    assert (found.severity, found.code, found.related) == ("hint", "suspicious_copy_name", ("concepts/a",))
    assert found.path == f"concepts/{name}.md"
    assert suspicious([f"concepts/{name}.md", "other/a.md"]) == {}


@pytest.mark.parametrize("name", ["copyright", "part 2026", "a (draft)", "1"])
def test_other_names_are_no_copies(name: str) -> None:
    assert suspicious([f"{name}.md", "a.md", "part.md"]) == {}


def test_a_search_that_is_behind() -> None:
    assert search_remarks("ready", "", 0, {}) == []
    assert [each.message for each in search_remarks("failed", "disk_full", 3, {})] == ["the index is failed: disk full"]
    assert "3 saved pages" in search_remarks("ready", "", 3, {})[0].message
    (found,) = search_remarks("ready", "", 0, {"a.md": "permission_denied"})
    assert (found.severity, found.code, found.path) == ("warning", "search_stale", "a.md")


def test_in_a_plain_folder_names_reach_pages_as_an_editor_would_have_them() -> None:
    body = "[[Harbour]] [[notes/harbour#Boats]] [[harbour^b1|x]] ![[boat.png]] [[#here]] [b](sub/Boat.md) [[lost]]"
    remarks = said({"notes/Harbour.md": "# H", "notes/log.md": body, "notes/sub/Boat.md": "no links"}, strict=False)
    assert [(each.code, each.path, each.related) for each in remarks] == [
        ("link_unresolved", "notes/log.md", ("lost",)),
        ("page_missing", "lost.md", ("notes/log",)),
    ]


def test_every_word_that_is_said_of_a_fault_has_a_remedy() -> None:
    told = [
        *said({"a.md": "x", "s/b.md": note("[[x]] ⚠️ **Contradiction", created="soon", status="odd")}),
        *said({"concepts/a.md": card(resolution="{}")}, copies=("a.sync-conflict-20260701-101112.md",)),
    ]
    assert {each.code for each in told} <= REMEDIES.keys()


@given(st.permutations(["concepts/a.md", "concepts/b.md", "s/x.md", "s/y.md"]))
def test_the_order_of_the_files_does_not_matter(order: list[str]) -> None:
    pages = {**opposed(), "s/x.md": note("[[s/z]] [[s/w]]"), "s/y.md": note("[[s/z]]", status="odd")}
    assert said({path: pages[path] for path in order}) == said(pages)


def test_errors_come_first_then_warnings_then_hints() -> None:
    made = [Remark(weight, code, "a.md", "") for weight, code in (("hint", "a"), ("warning", "b"), ("error", "c"))]  # type: ignore[arg-type]
    assert [each.code for each in in_order(made)] == ["c", "b", "a"]
