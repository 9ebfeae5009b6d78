"""`wikid observe`, `retro`, `conflicts` and `resolve`: their calls, and what they show of the answers."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from wikid_client import cli
from wikid_client.testing import FakeDaemon
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused

WHERE: dict[str, Any] = {"vault_id": "v", "vault": "notes", "path": "/n/x.md", "hash": "ab"}
OBSERVED = r.Observed(
    **WHERE, page_id=r.PageId("sources/obs-x"), created=True, slug="obs-x", title="T", relevance="high", tags=("db",)
)
INSIGHT = r.Insight(
    **WHERE, page_id=r.PageId("sources/x"), created=False, changed=True, slug="x", title="T", category="tuning"
)
DECISION = r.ConflictResolution(
    id="f" * 64,
    vault_id=r.VaultId("v"),
    vault="notes",
    page_id=r.PageId("analyses/resolution-ffffffffffffffff"),
    path="/n/r.md",
    selected_page_id=r.PageId("concepts/a"),
    other_page_id=r.PageId("concepts/b"),
    relation="applies_under",
    scope="in winter",
    decided_by="user",
    decided_at="2026-05-01T10:00:00Z",
)
RESOLVED = r.ConflictResolved(resolution=DECISION, created=True, hash="ab")
A = r.Claim(page_id=r.PageId("concepts/a"), path="/n/a.md", title="A", type="concept", status="stable")
B = r.Claim(page_id=r.PageId("concepts/b"), path="/n/b.md", missing=True)


def conflict(state: r.ConflictState, *claims: r.Claim, **more: Any) -> r.Conflict:
    return r.Conflict(vault_id=r.VaultId("v"), vault="notes", state=state, claims=claims, **more)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaemon]:
    monkeypatch.delenv("COLUMNS", raising=False)
    with FakeDaemon({"observe": OBSERVED, "retro": INSIGHT, "conflict/resolve": RESOLVED}) as running:
        monkeypatch.setenv("WIKID_SOCKET", str(running.endpoint))
        yield running


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    try:
        code = cli.main(words)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0
    out, err = capsys.readouterr()
    return code, out, err


def piped(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="ascii"))


@pytest.mark.parametrize(
    ("words", "method", "params"),
    [
        (
            ["observe", "T", "seen", "--relevance", "high", "--tag", "a", "--tag", "b", "--context", "c"],
            "observe",
            {"title": "T", "content": "seen", "relevance": "high", "tags": ["a", "b"], "source_context": "c"},
        ),
        (
            ["retro", "x", "T", "learned", "--category", "c", "--hash", "ab"],
            "retro",
            {"slug": "x", "title": "T", "body": "learned", "category": "c", "hash": "ab"},
        ),
        (
            ["resolve", "notes:concepts/a", "concepts/b", "--relation", "applies_under", "--scope", "s"],
            "conflict/resolve",
            {
                "selected_page_id": "notes:concepts/a",
                "other_page_id": "concepts/b",
                "relation": "applies_under",
                "scope": "s",
            },
        ),
        (
            ["resolve", "a", "b", "--relation", "qualifies", "--rationale", "why", "--replaces", "ff"],
            "conflict/resolve",
            {
                "selected_page_id": "a",
                "other_page_id": "b",
                "relation": "qualifies",
                "rationale": "why",
                "replaces": "ff",
            },
        ),
    ],
)
def test_each_command_makes_its_call(
    words: list[str], method: str, params: dict[str, Any], daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, *words, "--vault", "notes")[0] == 0
    assert daemon.calls == [(method, {**params, "vault": "notes", "cwd": os.getcwd()})]


def test_text_comes_from_standard_input_in_utf_8_whatever_the_locale(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, name in ((["observe", "T"], "content"), (["retro", "x", "T", "-"], "body")):
        piped(monkeypatch, "größer\n".encode())
        assert run(capsys, *words)[0] == 0
        assert daemon.calls[-1][1][name] == "größer\n"


def test_nobody_is_left_waiting_for_text(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    code, _, err = run(capsys, "observe", "T")
    assert (code, daemon.calls) == (2, [])
    assert "pipe it in" in err


@pytest.mark.parametrize(
    "words",
    [
        ["resolve", "a", "b"],
        ["resolve", "a", "--relation", "supersedes"],
        ["resolve", "a", "b", "--relation", "contradicts"],
        ["observe"],
        ["observe", "T", "C", "--relevance", "huge"],
        ["conflicts", "all"],
    ],
)
def test_what_lacks_its_words_is_a_usage_error(
    words: list[str], daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *words)
    assert (code, out, daemon.calls) == (2, "", [])
    assert err.startswith("error: ")


def test_a_refusal_is_exit_code_one_with_its_remedy(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["conflict/resolve"] = RequestRefused("resolution_refused", "a decision stands", hint="replace ff")
    code, out, err = run(capsys, "resolve", "a", "b", "--relation", "supersedes")
    assert (code, out, err) == (1, "", "error: a decision stands\nhint: replace ff\n")


def test_what_was_noted_is_named(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    told = r.Diagnostic(kind="event_not_written", message="the log could not be", remedy="look at it")
    daemon.answers["retro"] = INSIGHT
    assert run(capsys, "observe", "T", "C")[1] == "Noted as notes:sources/obs-x\n  relevance high · #db\n"
    assert run(capsys, "retro", "x", "T", "B")[1] == "Changed notes:sources/x\n  tuning\n"
    given = {name: getattr(OBSERVED, name) for name in r.Observed.__slots__}
    daemon.answers["observe"] = r.Observed(**{**given, "created": False, "diagnostics": (told,)})
    _, out, _ = run(capsys, "observe", "T", "C")
    assert out.startswith("Noted before, as notes:sources/obs-x\n")
    assert "! the log could not be" in out


def test_a_decision_says_what_holds_and_how_to_change_it(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "resolve", "concepts/a", "concepts/b", "--relation", "supersedes")
    assert (code, len(daemon.calls)) == (0, 1)
    assert out.startswith("✓ Decided: concepts/a applies instead of concepts/b under: in winter\n")
    assert "notes:analyses/resolution-ffffffffffffffff" in out
    assert f"--replaces {'f' * 64}" in " ".join(out.split())


def test_every_conflict_is_shown_with_what_can_be_done(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    there = r.Claim(page_id=r.PageId("concepts/b"), path="/n/b.md", title="B")
    first = r.ConflictList(
        conflicts=(
            conflict("undecided", A, there, resolutions=(DECISION, DECISION)),
            conflict("confirmed", A, there, reasons=("contradicts_both",)),
        ),
        counts={"undecided": 1, "confirmed": 1, "proposed": 1, "resolved": 1},
        next_cursor="2",
    )
    rest = r.ConflictList(
        conflicts=(
            conflict("proposed", A, reasons=("marker",), line=8),
            conflict("resolved", A, B, resolutions=(DECISION,), stale=(B.page_id,)),
        ),
        counts=first.counts,
    )
    daemon.answers["conflict/list"] = lambda params: rest if params.get("cursor") else first
    code, out, _ = run(capsys, "conflicts", "list", "--state", "proposed", "--state", "resolved")
    assert code == 0
    assert [params.get("cursor") for _, params in daemon.calls] == [None, "2"]
    assert daemon.calls[0][1]["states"] == ["proposed", "resolved"]
    words = " ".join(out.split())
    assert "→ remove the pages of the decisions that do not hold" in words
    assert "wikid resolve notes:concepts/a notes:concepts/b --relation supersedes" in words
    assert "! its text has the sign of a contradiction, in line 8" in words
    assert "notes:concepts/b gone" in words
    assert "! concepts/b has changed since, or is gone" in words
    assert "1 undecided · 1 confirmed · 1 proposed · 1 resolved" in words


def test_json_is_the_wire_s_result(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    listed = r.ConflictList(conflicts=(conflict("confirmed", A, B),))
    daemon.answers["conflict/list"] = listed
    for words, record in (
        (["observe", "T", "C"], OBSERVED),
        (["retro", "x", "T", "B"], INSIGHT),
        (["conflicts"], listed),
        (["resolve", "a", "b", "--relation", "supersedes"], RESOLVED),
    ):
        assert run(capsys, *words, "--json") == (0, orjson.dumps(record).decode() + "\n", "")


def test_what_comes_from_pages_cannot_steer_the_terminal(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = r.Claim(
        page_id=r.PageId("a\x1b[2J"), path="/n", title="\x1b[2J\nx", type="\x1b", status="\x1b", updated="\x1b"
    )
    reasons = ("\x1b[2J",)
    daemon.answers["conflict/list"] = r.ConflictList(conflicts=(conflict("proposed", odd, A, reasons=reasons),))
    assert "\x1b" not in run(capsys, "conflicts")[1]
