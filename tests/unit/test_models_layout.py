"""`wikid models`: what is asked of the daemon, and how its answers read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wikid_client import cli
from wikid_client.layout.models import checked, model_list, used
from wikid_client.layout.spans import plain
from wikid_client.testing import FakeDaemon
from wikid_protocol import records as r

WIDTH = 80
MINI = r.ModelRecord(
    name="mini", purpose="embedder", state="ready", dims=384, licence="MIT", languages=("en",), aliases=("english",)
)
USE = r.ModelUse(model=MINI, setting="embedModel", path="/c/config.toml", value="mini", embedding_pending=1)
WHOLE = r.ModelCheck(name="mini", path="/m/mini", state="intact", files=4, size_bytes=24_000_000)
HALF = r.ModelCheck(name="half", path="/m/half", state="damaged", damaged=("model.onnx",), remedy="Build it again.")


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    answers: dict[str, Any] = {
        "models/pull": MINI,
        "models/use": USE,
        "models/verify": r.ModelChecks(models=(WHOLE,)),
        "models/list": r.ModelList(models=(MINI,)),
    }
    with FakeDaemon(answers) as running:
        yield running


def run(daemon: FakeDaemon, *words: str) -> int:
    return cli.main(["--socket", str(daemon.endpoint), "models", *words])


@pytest.mark.parametrize(
    ("words", "method", "params"),
    [
        (["pull", "maker/fine"], "models/pull", {"name": "maker/fine"}),
        (["use", "multilingual"], "models/use", {"name": "multilingual", "purpose": "embedder"}),
        (["use", "judge", "--reranker"], "models/use", {"name": "judge", "purpose": "reranker"}),
        (["use", "/m/mini"], "models/use", {"name": "/m/mini", "purpose": "embedder"}),
        (["verify"], "models/verify", {}),
        (["verify", "mini"], "models/verify", {"name": "mini"}),
    ],
)
def test_what_is_asked_of_the_daemon(
    daemon: FakeDaemon, words: list[str], method: str, params: dict[str, object]
) -> None:
    assert run(daemon, *words) == 0
    asked, given = daemon.calls[-1]
    assert asked == method
    assert {key: value for key, value in given.items() if key != "progress_token"} == params
    assert "progress_token" in given


def test_a_folder_is_named_by_its_whole_path(
    daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    run(daemon, "use", "./mine")
    assert daemon.calls[-1][1]["name"] == os.path.join(os.getcwd(), "mine")
    run(daemon, "verify", "~/mine")
    assert daemon.calls[-1][1]["name"] == os.path.expanduser("~/mine")


def test_a_hidden_setting_and_a_damaged_model_are_findings(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    told = r.Diagnostic(kind="environment_overrides", message="WIKID_EMBED_MODEL is set", remedy="unset it")
    daemon.answers["models/use"] = r.ModelUse(
        model=MINI, setting="embedModel", path="/c/config.toml", value="mini", diagnostics=(told,)
    )
    assert run(daemon, "use", "mini") == 1
    assert "unset it" in capsys.readouterr().out
    daemon.answers["models/verify"] = r.ModelChecks(models=(WHOLE, HALF))
    assert run(daemon, "verify", "--json") == 1
    assert [each["state"] for each in json.loads(capsys.readouterr().out)["models"]] == ["intact", "damaged"]


def test_what_is_used_from_now_on() -> None:
    assert plain(used(USE, WIDTH)).splitlines() == [
        "embedder  mini  ready  384 dimensions · MIT",
        "  embedModel is set in /c/config.toml",
        "  1 chunk has no vector of it yet: words find what it holds meanwhile, and",
        "  `wikid status` shows how far it is",
    ]
    left = r.ModelUse(model=MINI, setting="rerankModel", path="/c/config.toml")
    assert "  rerankModel is no longer set in /c/config.toml" in plain(used(left, WIDTH)).splitlines()


def test_the_list_tells_the_short_names() -> None:
    lines = plain(model_list(r.ModelList(models=(MINI,)), WIDTH)).splitlines()
    assert lines[-1] == "  english  mini  English"
    assert "Short names" in lines[-2]


def test_a_damaged_model_is_told_with_its_files_and_the_remedy() -> None:
    assert plain(checked(r.ModelChecks(models=(WHOLE, HALF)), WIDTH)).splitlines() == [
        "mini  intact   4 files · 24 MB",
        "half  damaged",
        "  model.onnx is missing, or not what it was",
        "  Build it again.",
    ]
    assert plain(checked(r.ModelChecks(models=()), WIDTH)) == "No model is on this machine.\n"
