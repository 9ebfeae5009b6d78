"""`wikid config`: its calls, and what it shows of their answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from wikid_client import cli
from wikid_client.testing import FakeDaemon
from wikid_protocol import records as r

FILE = "/home/me/.config/wikid/config.toml"
MODE = r.SettingRecord(
    key="retrievalMode",
    value="quality",
    default="adaptive",
    origin="user",
    source=FILE,
    expects="one of four",
    meaning="how a recall searches",
)
FEEDBACK = r.SettingRecord(key="recallFeedback", value=True, default=True, origin="default", meaning="keep signals")
MODEL = r.SettingRecord(key="embedModel", value=None, default=None, origin="default", at_start=True)
TOLD = r.Diagnostic(kind="config_unknown_key", message=f"{FILE} sets x", remedy="see: wikid config list")


def answer(*settings: r.SettingRecord, told: tuple[r.Diagnostic, ...] = ()) -> r.Configuration:
    return r.Configuration(path=FILE, settings=settings, diagnostics=told)


def changed(record: r.SettingRecord, **changes: object) -> r.SettingRecord:
    given: dict[str, Any] = {name: getattr(record, name) for name in r.SettingRecord.__slots__}
    return r.SettingRecord(**{**given, **changes})


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaemon]:
    monkeypatch.delenv("COLUMNS", raising=False)
    with FakeDaemon() as running:
        monkeypatch.setenv("WIKID_SOCKET", str(running.endpoint))
        yield running


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    try:
        code = cli.main(words)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("words", "method", "params"),
    [
        ("get retrievalMode --cwd /w", "config/get", {"key": "retrievalMode", "cwd": "/w"}),
        ("list --cwd /w", "config/get", {"cwd": "/w"}),
        ("set retrievalMode quality", "config/set", {"key": "retrievalMode", "value": "quality"}),
        ("set recallLinksThreshold -5", "config/set", {"key": "recallLinksThreshold", "value": "-5"}),
        ("set retrievalMode --unset", "config/set", {"key": "retrievalMode"}),
    ],
)
def test_each_action_makes_its_call(
    words: str, method: str, params: dict[str, Any], daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers[method] = answer(MODE)
    assert run(capsys, "config", *words.split())[0] == 0
    assert daemon.calls == [(method, params)]


@pytest.mark.parametrize("words", ["set retrievalMode", "set retrievalMode quality --unset", "get", ""])
def test_an_action_that_lacks_its_words_is_a_usage_error(
    words: str, daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "config", *words.split())
    assert (code, out, daemon.calls) == (2, "", [])
    assert err.startswith("error: ")


@pytest.mark.parametrize(
    ("record", "said"), [(MODE, "quality\n"), (FEEDBACK, "true\n"), (MODEL, "\n"), (changed(MODE, value=80), "80\n")]
)
def test_get_prints_the_value_alone_and_what_is_wrong_beside_it(
    record: r.SettingRecord, said: str, daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["config/get"] = answer(record, told=(TOLD,))
    code, out, err = run(capsys, "config", "get", record.key)
    assert (code, out) == (0, said)
    assert TOLD.message in err
    assert TOLD.remedy in err


def test_getting_what_is_not_valid_is_a_finding(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["config/get"] = answer(changed(MODE, value=None, valid=False))
    assert run(capsys, "config", "get", "retrievalMode")[0] == 1


def test_list_shows_each_value_and_where_it_comes_from(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    host = changed(MODE, key="other", value=None, valid=False, origin="host", source="/w/.pi/settings.json")
    daemon.answers["config/get"] = answer(MODE, FEEDBACK, MODEL, host, told=(TOLD,))
    code, out, err = run(capsys, "config", "list")
    assert (code, err) == (0, "")
    lines = [" ".join(each.split()) for each in out.splitlines()]
    assert "retrievalMode quality your own file" in lines
    assert "recallFeedback true default" in lines
    assert "embedModel not set default" in lines
    assert "other not valid /w/.pi/settings.json" in lines
    assert "how a recall searches: one of four" in lines
    assert f"your own file: {FILE}" in lines
    assert f"! {TOLD.message}" in lines


def test_json_is_the_wire_s_result(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers |= {"config/get": answer(MODE, told=(TOLD,)), "config/set": answer(MODE)}
    for words, record in (
        ("get retrievalMode", answer(MODE, told=(TOLD,))),
        ("list", answer(MODE, told=(TOLD,))),
        ("set retrievalMode quality", answer(MODE)),
    ):
        assert run(capsys, "config", *words.split(), "--json") == (0, orjson.dumps(record).decode() + "\n", "")


def test_set_says_what_still_stands_in_the_way(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    record = changed(MODEL, value="m", origin="environment", source="WIKID_EMBED_MODEL")
    daemon.answers["config/set"] = answer(record)
    _, out, _ = run(capsys, "config", "set", "embedModel", "m")
    assert "wikid restart" in out
    assert "! WIKID_EMBED_MODEL decides before your own file does" in out


def test_what_comes_from_files_cannot_steer_the_terminal(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = changed(MODE, value="a\x1b[2Jb\nc", source="/x\x1b[2J", meaning="\x1b[2J")
    daemon.answers |= {"config/get": answer(odd), "config/set": answer(odd)}
    for words in ("get x", "list", "set x y"):
        assert "\x1b" not in run(capsys, "config", *words.split())[1]
