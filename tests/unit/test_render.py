"""Answers as text: for a person at any width, and for a model behind a marker."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answers import CARD, CLOSING, DECISION, EVIDENCE, NO, SEARCHED, TEXT, WORDS, YES, bundles
from wikid_client import pretty, render
from wikid_client.layout import recall as memories
from wikid_client.layout import status, watch
from wikid_client.layout.spans import Span, plain, row
from wikid_client.testing import MARKER, sample_recall
from wikid_client.text import cells, excerpt, line, matcher, split_matches, unfold, without_targets, wrap
from wikid_protocol import records as r


def test_a_memory_says_what_it_is_where_it_is_and_why_it_was_found() -> None:
    text = render.recall_text(sample_recall(r.Bundle(card=CARD, evidence=(EVIDENCE,))), "autovacuum")
    assert text.splitlines() == [
        "1  Autovacuum tuning",
        "   personal:concepts/autovacuum",
        "   concept · canonical · stable · updated 2026-03-05 · confidence 0.87",
        "   ! stale: its review was due",
        "   § Settings › Scale",
        "   │ Set the scale factor to 0.01.",
        "   │ On each table.",
        "   matched by title, body",
        "",
        "   supports: It stalled in March",
        "     personal:sources/obs-1",
        "     source · evidence · stable · current · confidence 0.75",
        "     │ What the page says.",
        "",
        "1 memory · searched personal · adaptive · 14 ms",
    ]


def test_unpromoted_evidence_is_a_memory_of_its_own() -> None:
    text = render.recall_text(sample_recall(r.Bundle(evidence=(EVIDENCE,))), "march")
    assert text.startswith("1  It stalled in March\n")
    assert text.count("It stalled in March") == 1
    assert "source · unpromoted evidence · stable" in text
    assert "source · unpromoted evidence · stable" in render.recall_context(
        sample_recall(r.Bundle(evidence=(EVIDENCE,)))
    )


@pytest.mark.parametrize("width", [80, 50])
def test_a_conflict_shows_both_sides_and_asks_which_applies(width: int) -> None:
    text = render.recall_text(sample_recall(r.Bundle(card=YES, conflicts=(NO,))), "pooler", width=width)
    flat = " ".join(text.split())
    assert "These two pages disagree" in text
    assert "Since 1.21 it can." in text
    assert "It cannot." in text
    assert "Which of the two applies: concepts/pooler-yes or concepts/pooler-no?" in flat
    beside = any("The pooler can " in line and "The pooler cannot" in line for line in text.splitlines())
    assert beside is (width == 80)


def test_sides_from_two_vaults_are_told_apart_by_their_vaults() -> None:
    other = replace(NO, vault_id=r.VaultId("w"), vault="work", page_id=YES.page_id)
    text = render.recall_text(sample_recall(r.Bundle(card=YES, conflicts=(other,))), "pooler")
    assert "personal:concepts/pooler-yes or work:concepts/pooler-yes?" in " ".join(text.split())


def test_a_settled_conflict_is_shown_and_not_asked_about() -> None:
    settled = replace(NO, settled_by=DECISION.id, relation="superseded by the card")
    text = render.recall_text(sample_recall(r.Bundle(card=YES, conflicts=(settled,), resolution=DECISION)), "pooler")
    assert "It cannot." in text
    assert "Settled by the user on 2026-05-01 (personal:analyses/resolution-c0ffee)" in text
    assert "concepts/pooler-yes supersedes concepts/pooler-no" in text
    assert "Which of the two" not in text


def test_of_several_conflicts_only_the_open_one_is_asked_about() -> None:
    settled = replace(NO, settled_by=DECISION.id)
    still_open = replace(NO, page_id=r.PageId("concepts/pooler-perhaps"))
    found = sample_recall(r.Bundle(card=YES, conflicts=(settled, still_open), resolution=DECISION))
    text = " ".join(render.recall_text(found, "pooler").split())
    assert text.count("Which of the two applies") == 1
    assert "Which of the two applies: concepts/pooler-yes or concepts/pooler-perhaps?" in text
    [question] = render.recall_context(found).split(CLOSING)[1].strip().splitlines()
    assert "`concepts/pooler-yes` or `concepts/pooler-perhaps`" in question


@pytest.mark.parametrize("relation", ["qualifies", "superseded by the card"])
def test_where_the_notes_say_which_claim_holds_nobody_is_asked(relation: str) -> None:
    found = sample_recall(r.Bundle(card=YES, conflicts=(replace(NO, relation=relation),)))
    assert "?" not in render.recall_text(found, "pooler")
    assert "ask the user" not in render.recall_context(found)
    assert f"**{relation}: The pooler cannot**" in render.recall_context(found)


def test_evidence_that_is_disputed_is_set_beside_the_other_claim() -> None:
    found = sample_recall(r.Bundle(evidence=(EVIDENCE,), conflicts=(NO,)))
    assert "sources/obs-1 or concepts/pooler-no?" in " ".join(render.recall_text(found, "pooler").split())
    assert "`sources/obs-1` or `concepts/pooler-no`" in render.recall_context(found)


def test_a_scope_is_said_of_the_claim_that_it_limits() -> None:
    other = replace(NO, relation="applies outside the card's scope", scope="from 1.21 on")
    text = " ".join(
        render.recall_text(sample_recall(r.Bundle(card=YES, conflicts=(other,))), "pooler", width=50).split()
    )
    assert "scope: from 1.21 on" in text
    assert "the card's scope: from 1.21 on" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"freshness": "stale", "dates": r.Dates(stale_after="2026-02-01")}, "stale: its review was due 2026-02-01"),
        ({"freshness": "outdated"}, "outdated: changed since it was verified"),
        ({"status": "deprecated"}, "deprecated: withdrawn by its author"),
        ({"missing": True}, "deleted since it was indexed"),
    ],
)
def test_what_should_not_be_relied_on_carries_a_warning(changes: dict[str, Any], words: str) -> None:
    found = sample_recall(r.Bundle(card=replace(YES, **changes)))
    assert f"! {words}" in render.recall_text(found, "x")
    assert f"Warning: {words}" in render.recall_context(found)
    assert f"Warning: {words}" in render.recall_context(replace(found, links_first=True))


@pytest.mark.parametrize(
    ("used", "reasons", "words"),
    [
        ("hybrid", ("certain",), "hybrid: certain"),
        ("quality", ("narrow_margin", "question"), "quality: the two best are close, it is a question"),
        ("quality", ("lists_disagree", "contradiction"), "words and vectors disagree, two of the best contradict"),
        ("lexical", ("requested",), "lexical · "),
        ("quality", ("some_new_reason",), "quality: some new reason"),
    ],
)
def test_the_mode_is_told_with_the_reasons_for_it(used: str, reasons: tuple[str, ...], words: str) -> None:
    assert words in render.recall_text(sample_recall(mode_used=used, mode_reasons=reasons), "x", width=100)


def test_nothing_found_is_said_plainly_with_what_was_searched() -> None:
    diagnostic = r.Diagnostic(kind="model_unavailable", message="No embedder is loaded.", remedy="wikid models build")
    text = render.recall_text(sample_recall(diagnostics=(diagnostic, diagnostic)), "x")
    assert "wikid vault add PATH" in render.recall_text(sample_recall(vaults=(), stale=True), "x")
    assert text.splitlines() == [
        "No reliable memory.",
        "  → by title, alias, id or tag: wikid search WORDS",
        "! No embedder is loaded.",
        "  → wikid models build",
        "searched personal · adaptive · 14 ms",
    ]
    assert "(query without words)" in render.recall_text(sample_recall(reason="query_without_words"), "?")
    assert "no vault was searched" in render.recall_text(sample_recall(vaults=()), "x")


def test_an_answer_that_may_be_behind_says_where_and_how_to_wait() -> None:
    behind = replace(SEARCHED, name="work", stale=True, pending=2)
    text = render.recall_text(sample_recall(vaults=(SEARCHED, behind), stale=True, pending=2), "x")
    assert "may be behind your notes (work: 2 pages pending)" in text
    assert "wikid sync" in text
    assert "behind" not in render.recall_text(sample_recall(), "x")


def test_a_deleted_page_is_said_to_be_so() -> None:
    assert "deleted since" in render.recall_text(sample_recall(r.Bundle(card=replace(CARD, missing=True))), "x")


@settings(deadline=None, max_examples=60)
@given(st.lists(bundles(WORDS), max_size=2), st.integers(40, 100), WORDS)
def test_no_line_is_wider_than_asked(found: list[r.Bundle], width: int, query: str) -> None:
    text = render.recall_text(sample_recall(*found), query, width=width)
    assert all(cells(line) <= width for line in text.splitlines())


@settings(deadline=None, max_examples=60)
@given(st.lists(bundles(TEXT), max_size=2), TEXT)
def test_text_from_notes_cannot_steer_a_terminal(found: list[r.Bundle], query: str) -> None:
    text = render.recall_text(sample_recall(*found), query)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


@settings(deadline=None, max_examples=60)
@given(st.lists(bundles(TEXT), max_size=2), TEXT)
def test_colour_adds_no_word_and_drops_none(found: list[r.Bundle], query: str) -> None:
    lines = memories.recall(sample_recall(*found), query, 80)
    out = io.StringIO()
    out.write(pretty.rendered(lines, 80))
    shown = re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;.*?\x1b\\", "", out.getvalue())
    assert [each.rstrip() for each in shown.split("\n")] == plain(lines).split("\n")


def test_matched_words_stand_out_on_a_terminal() -> None:
    out = io.StringIO()
    out.write(pretty.rendered(memories.recall(sample_recall(r.Bundle(card=CARD)), "how do scales work", 80), 80))
    assert "\x1b[1;33mscale" not in out.getvalue()
    out = io.StringIO()
    out.write(pretty.rendered(memories.recall(sample_recall(r.Bundle(card=CARD)), "what is the scale", 80), 80))
    assert "\x1b[1;33mscale\x1b[0m factor" in out.getvalue()
    assert "\x1b[1;33mthe" not in out.getvalue()


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("table", "Tables and a stable table", ["Tables", "table"]),
        ("C++ pool", "c or C pooling", ["c", "C", "pooling"]),
        ("数据库连接池", "数据库的连接池", ["数据", "连接"]),
        ("연결을 설정", "데이터베이스를 설정", ["설정"]),
        ("the of a", "the of a", []),
        ("?!", "what?!", []),
    ],
)
def test_matches_are_words_of_the_query_and_their_longer_forms(query: str, text: str, found: list[str]) -> None:
    assert [piece for piece, hit in split_matches(text, matcher(query)) if hit] == found


@given(TEXT, TEXT)
@settings(deadline=None)
def test_marking_matches_loses_nothing(query: str, text: str) -> None:
    assert "".join(piece for piece, _ in split_matches(text, matcher(query))) == text


def test_a_long_excerpt_is_cut_to_where_the_matches_are() -> None:
    text = "\n".join([*["filler line"] * 20, "the needle is here", *["filler line"] * 20])
    shown = excerpt(text, matcher("needle"), 40, 3)
    assert len(shown) == 3
    assert any("needle" in line for line in shown)
    assert shown[0].startswith("… ")
    assert shown[-1].endswith(" …")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('See [backoff](backoff.md "a note") and [[concepts/x|that]].', "See backoff and that."),
        ("[[concepts/x]] ![a boat](boat.png) [(a) b](/p_(q).md)", "concepts/x a boat (a) b"),
        ("`[a](b)` and [c](d)", "`[a](b)` and c"),
        ("```\n[a](b)\n```\n[c](d)", "```\n[a](b)\n```\nc"),
        ("[](empty) [ ] task [x] done a[i](j)", "[](empty) [ ] task [x] done ai"),
        ("no link [at all", "no link [at all"),
    ],
)
def test_a_link_is_shown_as_its_words(text: str, shown: str) -> None:
    assert without_targets(text) == shown


@pytest.mark.parametrize(("text", "columns"), [("⚠\ufe0f", 2), ("⭐", 2), ("e\u0301", 1), ("数据", 4), ("a\u200db", 2)])
def test_cells_are_those_of_a_terminal(text: str, columns: int) -> None:
    assert cells(text) == columns


@pytest.mark.parametrize(
    ("wanted", "address"),
    [
        ("", "file:///notes/a%20b.md"),
        ("vscode", "vscode://file/notes/a%20b.md:7"),
        ("mine://{path}#{line}", "mine:///notes/a%20b.md#7"),
        ("nonsense", "file:///notes/a%20b.md"),
        ("off", ""),
    ],
)
def test_a_title_leads_to_its_file_or_into_an_editor(
    wanted: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIKID_LINKS", wanted)
    shown = pretty.rendered([row(Span("Title", "title", "/notes/a b.md", 7))], 80)
    found = re.search(r"\x1b\]8;[^;]*;(.*?)\x1b\\", shown)
    assert (found[1] if found else "") == address


def test_paragraphs_are_filled_and_everything_else_keeps_its_lines() -> None:
    text = (
        "A para\ngraph\n\n- item one\n  goes on\n- two\n1. first\n# Head\n| a |\n| b |\n> q\n```\nx\ny\n```\nend\nhere"
    )
    assert unfold(text).split("\n") == [
        "A para graph",
        "",
        "- item one goes on",
        "- two",
        "1. first",
        "# Head",
        "| a |",
        "| b |",
        "> q",
        "```",
        "x",
        "y",
        "```",
        "end here",
    ]


@given(WORDS, st.integers(10, 60))
@settings(deadline=None)
def test_wrapping_keeps_every_character_but_spaces(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(cells(line) <= width for line in lines)


def vault(name: str, **changes: Any) -> r.VaultRecord:
    given: dict[str, Any] = {"vault_id": r.VaultId(name), "name": name, "path": f"/notes/{name}", "kind": "wiki"}
    return r.VaultRecord(**{**given, **changes})


def test_a_status_tells_the_truth_about_each_vault() -> None:
    report = r.StatusReport(
        daemon=r.DaemonStatus(
            version="1.2", pid=7, started="", uptime_s=3_700, endpoint="/run/w.sock", rss_bytes=9_000_000
        ),
        models=(r.ModelRecord(name="mini", purpose="embedder", state="absent", reason="run: wikid models build"),),
        vaults=(
            r.VaultStatus(
                vault=vault("home"),
                state="ready",
                generation=3,
                pages=1_204,
                chunks=1,
                embedded=0,
                embedding_pending=1,
                rebuilt=(r.Diagnostic(kind="lexical_rebuilt", message="the Lucene index was made by another version"),),
            ),
            r.VaultStatus(
                vault=vault("work", blocked="no"),
                state="blocked",
                reason="its config cannot be read",
                failed=tuple(r.PathReason(path=f"p{i}.md", reason="permission_denied") for i in range(7)),
            ),
        ),
        diagnostics=(r.Diagnostic(kind="java", message="No Java.", remedy="install Java 21"),),
    )
    text = render.status_text(report)
    for part in (
        "wikid 1.2  pid 7 · up 1 h 1 min · 9 MB",
        "embedder  mini  absent",
        "run: wikid models build",
        "home  ready  may be behind",
        "1,204 pages · 1 chunk · 0 embedded · 1 chunk to embed · generation 3",
        "scanned never · canary never",
        "made anew: the Lucene index was made by another version",
        "work  blocked\n",
        "! its config cannot be read",
        "! p0.md: permission denied",
        "and 2 more",
        "! No Java.\n  → install Java 21",
    ):
        assert part in text
    assert all(len(line) <= 80 for line in text.splitlines())


NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


def report(**changes: Any) -> r.StatusReport:
    vault = r.VaultRecord(vault_id=r.VaultId("v"), name="notes", path="/notes", kind="plain")
    given: dict[str, Any] = {"vault": vault, "state": "indexing", "generation": 3, "stale": True, **changes}
    daemon = r.DaemonStatus(version="1", pid=1, started="", uptime_s=3, endpoint="/s")
    return r.StatusReport(daemon=daemon, vaults=(r.VaultStatus(**given),))


def test_a_status_that_is_looked_at_now_tells_ages() -> None:
    found = report(last_scan="2026-07-01T11:59:48Z", last_canary="2026-07-01T12:00:00Z")
    text = plain(status.status(found, 80, now=NOW))
    assert "scanned 12 s ago · canary just now" in text
    assert "scanned never" in plain(status.status(report(), 80, now=NOW))


def test_a_watched_status_tells_what_is_left_and_for_how_long() -> None:
    before = report(pending=100, embedded=0, embedding_pending=400)
    later = report(pending=60, embedded=100, embedding_pending=300)
    text = plain(watch.watched(later, 100, NOW, before, 2.0))
    assert "60 pages to index · 20/s, about 3 s left" in text
    assert "██████░░░░░░░░░░░░░░░░░░ embedding 100 of 400 · 50/s, about 6 s left" in text
    assert "left" not in plain(watch.watched(later, 100, NOW))
    assert "█" not in plain(watch.watched(later, 60, NOW, before, 2.0))
    assert "to index" not in plain(watch.watched(report(), 100, NOW, before, 2.0))


def test_a_watched_daemon_that_is_gone_is_said_to_be_so_above_what_was_last_known() -> None:
    text = plain(watch.waiting("nobody answers", 80, report(), NOW))
    assert text.startswith("! nobody answers\n")
    assert "notes" in text


@pytest.mark.parametrize(
    ("changes", "told"), [({"state": "ready"}, False), ({}, False), ({"state": "unavailable"}, True)]
)
def test_a_status_with_trouble_names_the_doctor(changes: dict[str, Any], told: bool) -> None:
    assert ("wikid doctor" in plain(status.status(report(**changes), 80))) == told


def test_many_kinds_of_findings_are_told_by_the_commonest() -> None:
    codes = {f"code_{number}": number for number in range(1, 8)}
    text = plain(status.status(report(findings=28, findings_by_code=codes), 200))
    assert "28 findings (code_7 7, code_6 6, code_5 5, code_4 4 and 3 other kinds; all of them: wikid lint)" in text


def test_a_status_without_vaults_says_how_to_add_one() -> None:
    report = r.StatusReport(daemon=r.DaemonStatus(version="1", pid=1, started="", uptime_s=1, endpoint="/s"))
    assert "wikid vault add PATH" in render.status_text(report)
    assert "wikid vault add PATH" in render.vault_list_text(r.VaultList(vaults=()))


def test_a_vault_list_shows_paths_and_limits() -> None:
    found = r.VaultList(vaults=(vault("a", kind="plain", read_only=True), vault("b", blocked="damaged")))
    assert render.vault_list_text(found).splitlines() == [
        "a  plain · read-only",
        "  /notes/a",
        "b  wiki  blocked: damaged",
        "  /notes/b",
    ]


def test_a_resolution_says_which_vaults_answer_unasked() -> None:
    ids = [r.ResolvedVault(vault_id=r.VaultId(n), name=n, path="/", layer="project", reason=f"why {n}") for n in "ab"]
    text = render.resolution_text(r.Resolution(cwd="/work", vaults=tuple(ids), automatic=(ids[0],)))
    assert "a  project\n    why a\n" in text
    assert "b  project  only when asked\n    why b\n" in text


def test_a_page_is_shown_whole_with_its_links_and_without_escapes() -> None:
    page = r.Page(
        vault_id=r.VaultId("v"),
        vault="home",
        page_id=r.PageId("a/b"),
        path="/a/b.md",
        title="B",
        type="concept",
        role="canonical",
        status="draft",
        freshness="unverified",
        text="    code stays\n\x1b[31mred\n",
        hash="0",
        from_line=5,
        total_lines=20,
        relations=(r.RelationRecord(target=r.PageId("a/c"), type="derived_from"),),
        backlinks=(r.PageId("a/d"),),
        marker=MARKER,
    )
    text = render.page_text(page)
    assert text.startswith(
        "B\nhome:a/b\nconcept · canonical · draft · unverified · 20 lines\n\n    code stays\n[31mred\n"
    )
    assert "lines 5–6 of 20" in text
    assert "→ derived from a/c\n→ linked from a/d\n" in text
    assert render.page_context(page).startswith(f"<wikid-notes {MARKER}>\n")
    assert "more" not in text
    assert "→ linked from a/d\n→ linked from 1,234 more\n" in render.page_text(replace(page, backlinks_total=1_235))


def test_a_page_that_was_too_long_for_one_answer_is_shown_to_be_cut() -> None:
    page = r.Page(
        vault_id=r.VaultId("v"),
        vault="home",
        page_id=r.PageId("a/b"),
        path="/a/b.md",
        title="B",
        type="concept",
        role="canonical",
        status="draft",
        freshness="unverified",
        text="one\ntwo",
        hash="0",
        from_line=5,
        total_lines=20,
        marker=MARKER,
        next_line=7,
    )
    assert "too long to be shown whole" in render.page_text(page)
    assert "goes on at line 7 of 20" in render.page_context(page)
    whole = replace(page, next_line=None)
    assert "too long" not in render.page_text(whole)
    assert "goes on" not in render.page_context(whole)


def test_a_look_up_names_pages_as_the_command_takes_them() -> None:
    match = r.PageMatch(
        vault_id=r.VaultId("v"), vault="home", page_id=r.PageId("a/b"), title="A B", type="concept", path="/a/b.md"
    )
    assert render.matches_text(r.PageMatches(matches=(match,)), "b") == "A B\n  home:a/b  concept\n"
    assert "ask more narrowly" in render.matches_text(r.PageMatches(matches=(match,), next_cursor="2"), "b")
    assert render.matches_text(r.PageMatches(matches=()), "b").startswith("No page matches.\n")


def test_a_reindex_says_what_changed_and_what_went_wrong() -> None:
    report = r.ReindexReport(
        vault_id=r.VaultId("v"),
        name="home",
        collections=("canonical",),
        indexed=2,
        updated=0,
        unchanged=1_000,
        removed=0,
        needing=0,
        generated=5,
        skipped=0,
        versions={},
        elapsed_ms=2_340,
        errors=(r.Diagnostic(kind="x", message="The disk is full.", remedy="make room"),),
    )
    assert render.reindex_text(r.ReindexReports(vaults=(report,))).splitlines() == [
        "home  2.3 s",
        "  2 new · 1,000 unchanged · 5 embedded",
        "  ! The disk is full.",
        "    → make room",
    ]
    synced = r.Synced(vault_id=r.VaultId("v"), name="home", generation=42, elapsed_ms=31)
    assert render.sync_text(r.SyncedVaults(vaults=(synced,))) == "home  searchable at generation 42  31 ms\n"


def test_vaults_that_were_left_out_are_told() -> None:
    away = (r.Diagnostic(kind="vault_not_opened", message="work could not be opened", remedy="look at: wikid status"),)
    for text in (
        render.sync_text(r.SyncedVaults(vaults=(), diagnostics=away)),
        render.reindex_text(r.ReindexReports(vaults=(), diagnostics=away)),
        render.verify_text(r.VerifyReports(vaults=(), diagnostics=away)),
    ):
        assert text.splitlines() == ["! work could not be opened", "  → look at: wikid status"]


def verify_report(*differences: r.Difference) -> r.VerifyReports:
    report = r.VerifyReport(
        vault_id=r.VaultId("v"),
        name="home",
        generation=7,
        pages=1_200,
        chunks=1,
        embedded=0,
        embedding_pending=1,
        compared=("pages", "documents", "ranking"),
        probes=80,
        deleted_share=0.126,
        differing=len(differences),
        elapsed_ms=2_340,
        differences=differences,
    )
    return r.VerifyReports(vaults=(report,))


def test_an_index_that_equals_a_fresh_build_says_what_was_compared() -> None:
    assert render.verify_text(verify_report(), width=100).splitlines() == [
        "home  equals a fresh build  2.3 s",
        "  1,200 pages · 1 chunk · 0 embedded · 1 chunk to embed · 80 queries · 13 % deleted, not merged yet",
        "  generation 7",
        "  compared: pages, documents, ranking",
    ]


def test_an_index_that_differs_shows_where_and_what_to_do() -> None:
    differences = (
        r.Difference(kind="page_differs", path="a\x1b.md", detail="hash"),
        *(r.Difference(kind="page_extra", path=f"{number}.md") for number in range(24)),
    )
    lines = render.verify_text(verify_report(*differences)).splitlines()
    assert lines[0] == "home  differs from a fresh build in 25 places  2.3 s"
    assert "  ! a.md: page differs: hash" in lines
    assert sum(each.startswith("  ! ") for each in lines) == 20
    assert lines[-2:] == [
        "    and 5 more; see: wikid verify --json",
        "  → build it anew: wikid reindex --scope all --force",
    ]


def test_models_are_listed_with_their_state() -> None:
    model = r.ModelRecord(
        name="mini", purpose="embedder", state="ready", dims=384, size_bytes=23_000_000, licence="MIT"
    )
    assert render.models_text(r.ModelList(models=(model,))) == "embedder  mini  ready  384 dimensions · 23 MB · MIT\n"


@given(TEXT | st.text("\ufb2c\u0958e\u0301\t\r\n "))
@settings(deadline=None)
def test_text_on_one_line_is_never_longer_than_it_was(text: str) -> None:
    assert len(line(text)) <= len(text)
    assert len(line(text).splitlines()) <= 1
