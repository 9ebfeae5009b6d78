"""`wikid lint` and `wikid rebuild-meta`: their calls, their exit codes, and what they show."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Literal

import orjson
import pytest

from wikid_client import cli
from wikid_client.layout.lint import linted, rebuilt
from wikid_client.layout.spans import plain
from wikid_client.testing import FakeDaemon
from wikid_protocol import records as r

VAULT_ID = r.VaultId("0b5e3c6a-58b8-4a50-9a1f-000000000001")


def finding(
    severity: Literal["error", "warning", "hint"], code: str, path: str = "concepts/a.md", **more: Any
) -> r.LintFinding:
    return r.LintFinding(severity=severity, code=code, path=path, **{"message": "it is so", **more})


def report(*findings: r.LintFinding, **more: Any) -> r.LintReports:
    severities = [each.severity for each in findings]
    codes = [each.code for each in findings]
    given: dict[str, Any] = {
        "vault_id": VAULT_ID,
        "name": "notes",
        "path": "/home/me/.llm-wiki/wiki",
        "pages": 40,
        "errors": severities.count("error"),
        "warnings": severities.count("warning"),
        "hints": severities.count("hint"),
        "findings_by_code": {code: codes.count(code) for code in codes},
        "findings": findings,
    }
    return r.LintReports(vaults=(r.LintReport(**{**given, **more}),))


def rebuild(**more: Any) -> r.MetaRebuilds:
    given: dict[str, Any] = {"vault_id": VAULT_ID, "name": "notes", "path": "/home/me", "rebuilt": True, "pages": 40}
    return r.MetaRebuilds(vaults=(r.MetaRebuild(**{**given, **more}),))


ERROR = finding("error", "frontmatter_missing", "concepts/b.md", line=1, remedy="begin with a fence")
WARNING = finding("warning", "conflict_unresolved", related=("concepts/c",))
HINT = finding("hint", "page_orphan")


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaemon]:
    monkeypatch.delenv("COLUMNS", raising=False)
    with FakeDaemon() as running:
        monkeypatch.setenv("WIKID_SOCKET", str(running.endpoint))
        yield running


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(words)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("words", "method", "answer"),
    [("lint", "vault/lint", report()), ("rebuild-meta", "vault/rebuild_meta", rebuild())],
)
def test_the_folder_and_the_vault_named_are_sent(
    words: str, method: str, answer: object, daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers[method] = answer
    assert run(capsys, words)[0] == 0
    assert run(capsys, words, "--vault", "notes")[0] == 0
    assert daemon.calls == [(method, {"cwd": os.getcwd()}), (method, {"vault": "notes", "cwd": os.getcwd()})]


@pytest.mark.parametrize(
    ("findings", "code", "errors_only"),
    [((), 0, 0), ((HINT,), 0, 0), ((WARNING, HINT), 1, 0), ((ERROR,), 1, 1), ((ERROR, WARNING), 1, 1)],
)
def test_the_exit_code_tells_errors_and_warnings(
    findings: tuple[r.LintFinding, ...],
    code: int,
    errors_only: int,
    daemon: FakeDaemon,
    capsys: pytest.CaptureFixture[str],
) -> None:
    daemon.answers["vault/lint"] = report(*findings)
    assert run(capsys, "lint")[0] == code
    assert run(capsys, "lint", "--json")[0] == code
    assert run(capsys, "lint", "--errors-only")[0] == errors_only


def test_json_is_the_wire_s_result_or_the_errors_in_it(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["vault/lint"] = report(ERROR, WARNING, HINT)
    assert run(capsys, "lint", "--json")[1] == orjson.dumps(report(ERROR, WARNING, HINT)).decode() + "\n"
    assert run(capsys, "lint", "--json", "--errors-only")[1] == orjson.dumps(report(ERROR)).decode() + "\n"


def test_findings_are_shown_under_their_codes(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    again = finding("error", "frontmatter_missing", "concepts/c.md", line=2, remedy="begin with a fence")
    daemon.answers["vault/lint"] = report(ERROR, again, WARNING, HINT)
    assert run(capsys, "lint")[1].splitlines() == [
        "notes  2 errors, 1 warning, 1 hint",
        "  40 pages · /home/me/.llm-wiki/wiki",
        "",
        "  frontmatter_missing  error × 2",
        "    → begin with a fence",
        "    it is so",
        "    - concepts/b.md:1",
        "    - concepts/c.md:2",
        "",
        "  conflict_unresolved  warning × 1",
        "    it is so",
        "    - concepts/a.md ↔ concepts/c",
        "",
        "  page_orphan  hint × 1",
        "    it is so",
        "    - concepts/a.md",
    ]


def test_a_vault_in_order_has_nothing_said_of_it() -> None:
    assert plain(linted(report(), 80)).splitlines()[0] == "notes  nothing to say"


def test_many_findings_of_a_code_are_cut_and_counted() -> None:
    many = tuple(finding("hint", "page_orphan", f"concepts/{number}.md") for number in range(12))
    shown = plain(linted(report(*many, hints=30, findings_by_code={"page_orphan": 30}), 80))
    assert shown.count("    - concepts/") == 10
    assert "    and 20 more; see: wikid lint --json" in shown
    assert "the first 12 findings are shown" in shown


def test_a_code_of_two_severities_is_counted_apart() -> None:
    shown = plain(linted(report(finding("warning", "evidence_missing"), finding("hint", "evidence_missing")), 80))
    assert "  evidence_missing  warning × 1\n" in shown
    assert "  evidence_missing  hint × 1\n" in shown


def test_many_related_pages_are_cut_and_counted() -> None:
    missing = finding("hint", "page_missing", related=tuple(f"s/{number}" for number in range(7)))
    assert "s/4, 2 more" in plain(linted(report(missing), 80))


def test_a_rebuild_says_what_it_wrote_and_what_it_kept(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    kept = finding("warning", "index_hand_written", "concepts/index.md", remedy="move its text to a page")
    daemon.answers["vault/rebuild_meta"] = rebuild(
        packets_without_page=2,
        written=("meta/registry.json", "wiki/index.md"),
        removed=("wiki/x/index.md",),
        findings=(kept,),
    )
    code, out, _ = run(capsys, "rebuild-meta")
    assert code == 0
    assert out.splitlines() == [
        "notes  rebuilt",
        "  40 pages · 2 packets without a page · 2 files written · 1 removed",
        "    - wiki/x/index.md",
        "",
        "  index_hand_written  warning × 1",
        "    → move its text to a page",
        "    it is so",
        "    - concepts/index.md",
    ]


def test_a_rebuild_that_a_broken_page_stopped_is_a_finding(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["vault/rebuild_meta"] = rebuild(rebuilt=False, findings=(ERROR,))
    code, out, _ = run(capsys, "rebuild-meta")
    assert code == 1
    assert "not rebuilt; nothing was changed" in out
    assert "concepts/b.md:1" in out


def test_what_comes_from_a_vault_cannot_steer_the_terminal() -> None:
    odd = finding("error", "a\x1b[2Jb", "c\x1b[2J\nd.md", message="\x1b[2J", remedy="\x1b[2J", related=("\x1b[2J",))
    assert "\x1b" not in plain(linted(report(odd, name="\x1b[2J", path="\x1b[2J"), 80))
    assert "\x1b" not in plain(rebuilt(rebuild(name="\x1b[2J", removed=("\x1b[2J",), findings=(odd,)), 80))
