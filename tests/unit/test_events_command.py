"""`wikid events`: its calls, and what it shows of their answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from wikid_client import cli
from wikid_client.commands import events as command
from wikid_client.testing import FakeDaemon, in_turn
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused

CAPTURE = r.EventRecord(line=1, timestamp="2026-07-01", kind="capture", details={"source_id": "SRC-1", "n": [1, None]})
LINT = r.EventRecord(line=2, timestamp="2026-07-02", kind="lint")
CUT = r.EventRecord(line=3, timestamp="2026-07-03", kind="digest", cut=True)


def answer(*events: r.EventRecord, **changes: Any) -> r.EventList:
    given: dict[str, Any] = {"vault_id": "v", "vault": "notes", "events": events, "resume": "3"}
    return r.EventList(**{**given, **changes})


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaemon]:
    monkeypatch.delenv("COLUMNS", raising=False)
    with FakeDaemon({"event/list": answer(CAPTURE, LINT, CUT)}) as running:
        monkeypatch.setenv("WIKID_SOCKET", str(running.endpoint))
        yield running


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    try:
        code = cli.main(words)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0
    out, err = capsys.readouterr()
    return code, out, err


def test_every_option_reaches_the_daemon(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    words = "events --cwd /w --since 2026-01-01 --kind a --kind b --vault work"
    assert run(capsys, *words.split())[0] == 0
    [(method, params)] = daemon.calls
    assert method == "event/list"
    assert params == {
        "since": "2026-01-01",
        "kinds": ["a", "b"],
        "limit": command.PAGE,
        "vault": "work",
        "cwd": "/w",
    }


@pytest.mark.usefixtures("daemon")
def test_events_are_shown_oldest_first_with_their_details(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "events") == (
        0,
        "2026-07-01  capture\n"
        "  source_id: SRC-1 · n: [1,null]\n"
        "2026-07-02  lint\n"
        "2026-07-03  digest\n"
        "  too much to show; see line 3 of the log\n",
        "",
    )


def test_all_pages_become_one_answer(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    pages = {None: answer(CAPTURE, next_cursor="1", resume="1"), "1": answer(LINT, resume="2", findings=1)}
    daemon.answers["event/list"] = lambda params: pages[params.get("cursor")]
    code, out, err = run(capsys, "events", "--json")
    assert (code, err) == (0, "")
    assert out.encode() == orjson.dumps(replace(pages["1"], events=(CAPTURE, LINT))) + b"\n"


def test_what_is_wrong_with_a_log_is_told_with_its_remedy(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["event/list"] = answer(findings=2)
    out = run(capsys, "events")[1]
    assert "No event." in out
    assert "! 2 findings in the log of notes" in out
    assert "--acknowledge" not in out
    daemon.answers["event/list"] = answer(LINT, findings=2, malformed=True)
    assert "wikid events --acknowledge" in run(capsys, "events")[1]


def test_taking_note_appends_an_event(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    added = r.EventAppended(vault_id=r.VaultId("v"), vault="notes", kind="events_acknowledged", timestamp="2026-07-01")
    daemon.answers["event/append"] = added
    code, out, _ = run(capsys, "events", "--acknowledge", "--vault", "notes", "--cwd", "/w")
    assert (code, "notes" in out) == (0, True)
    assert daemon.calls == [("event/append", {"kind": "events_acknowledged", "vault": "notes", "cwd": "/w"})]
    assert run(capsys, "events", "--acknowledge", "--json")[1].encode() == orjson.dumps(added) + b"\n"


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_following_shows_what_comes_and_only_that(
    flags: tuple[str, ...], daemon: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_FOLLOW_SECONDS", 0.0)
    answers = iter((answer(CAPTURE, resume="1"), answer(resume="1"), answer(LINT, resume="2")))

    def next_answer(_params: dict[str, Any]) -> object:
        return next(answers, RequestRefused("vault_not_found", "enough"))

    daemon.answers["event/list"] = next_answer
    code, out, _ = run(capsys, "events", "--follow", *flags)
    assert code == 4
    assert [params.get("cursor") for _, params in daemon.calls] == [None, "1", "1", "2"]
    if flags:
        assert [orjson.loads(line)["kind"] for line in out.splitlines()] == ["capture", "lint"]
    else:
        assert out.splitlines()[-1] == "2026-07-02  lint"
        assert out.count("capture") == 1


def test_following_goes_on_where_it_was_when_the_daemon_is_there_again(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answers["event/list"] = in_turn(
        answer(CAPTURE, resume="1"),
        RequestRefused("busy", "the daemon is stopping"),
        answer(LINT, resume="2"),
        RequestRefused("vault_not_found", "enough"),
    )
    steps = iter((daemon.stop, lambda: None, daemon.start))
    sleep = SimpleNamespace(sleep=lambda _seconds: next(steps, lambda: None)())
    monkeypatch.setattr(command, "time", sleep)
    code, out, err = run(capsys, "events", "--follow")
    assert (code, out.splitlines()[-1]) == (4, "2026-07-02  lint")
    assert err.count("waiting for it to come back") == 1
    assert [params.get("cursor") for _, params in daemon.calls] == [None, "1", "1", "2"]


def test_following_and_taking_note_exclude_each_other(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "events", "--follow", "--acknowledge")[0] == 2
    assert daemon.calls == []


def test_what_comes_from_a_log_cannot_steer_the_terminal(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = replace(
        LINT, kind="a\x1b[2J", timestamp="2026-07-01\x1b[2J", details={"\x1b[2J": "\x1b[2J\nb", "n": ["\x1b"]}
    )
    daemon.answers["event/list"] = answer(odd, vault="\x1b[2J", findings=1)
    assert "\x1b" not in run(capsys, "events")[1]
