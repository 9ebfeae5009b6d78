"""Completion in the shell: the scripts, and what a real bash is told while somebody types."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

import wikid_client
from wikid_client import cli
from wikid_client.testing import FakeDaemon
from wikid_protocol import records as r

ROOT = Path(wikid_client.__file__).parents[2]
PATHS = os.pathsep.join(str(ROOT / each) for each in ("protocol", "client"))
# what a shell does on a tab, for one line after the other; words are parted as COMP_WORDBREAKS says
ASK = r"""
source "$1"
shift
for line; do
  COMP_LINE=$line COMP_POINT=${#line} COMP_TYPE=9 COMPREPLY=()
  _python_argcomplete wikid
  (IFS='|'; printf '%s\n' "${COMPREPLY[*]}")
done
"""


def vault(name: str) -> r.VaultRecord:
    return r.VaultRecord(vault_id=r.VaultId(name), name=name, path=f"/{name}", kind="plain")


def match(page_id: str) -> r.PageMatch:
    return r.PageMatch(
        vault_id=r.VaultId("v"), vault="work", page_id=r.PageId(page_id), title="T", type="concept", path="/p"
    )


def setting(key: str, default: bool | str) -> r.SettingRecord:
    return r.SettingRecord(key=key, value=default, default=default, origin="default")


def settings(params: dict[str, Any]) -> r.Configuration:
    known = (setting("retrievalMode", "adaptive"), setting("recallFeedback", True))
    wanted = params.get("key")
    return r.Configuration(path="/c", settings=tuple(each for each in known if wanted in (None, each.key)))


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    answers = {
        "vault/list": r.VaultList(vaults=(vault("work"), vault("home"))),
        "models/list": r.ModelList(models=(r.ModelRecord(name="mini", purpose="embedder", state="ready"),)),
        "config/get": settings,
        "page/search": r.PageMatches(matches=(match("concepts/tides"), match("concepts/timber"))),
    }
    with FakeDaemon(answers) as running:
        yield running


class Shell:
    """A bash that has read the script, with `wikid` on its path."""

    def __init__(self, folder: Path, endpoint: Path) -> None:
        self._script = folder / "script"
        program = folder / "wikid"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m wikid_client.cli "$@"\n')
        program.chmod(0o755)
        self._env = {
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": PATHS,
            "WIKID_SOCKET": str(endpoint),
            "HOME": str(folder),
        }
        command = [str(program), "completion", "bash"]
        made = subprocess.run(command, env=self._env, capture_output=True, check=True, timeout=60)
        self._script.write_bytes(made.stdout)

    def asked(self, *lines: str) -> list[list[str]]:
        """The answers to a tab behind each line."""
        command = ["bash", "-c", ASK, "bash", str(self._script), *lines]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=True, timeout=120)
        assert done.stderr == ""
        return [[each.rstrip() for each in line.split("|") if each] for line in done.stdout.splitlines()]


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="asks a real bash")


@needs_bash
def test_words_of_the_grammar_are_completed_without_a_daemon(tmp_path: Path) -> None:
    shell = Shell(tmp_path, tmp_path / "none.sock")
    names, modes, relations, flags, vaults, nested = shell.asked(
        "wikid re",
        "wikid recall --mode ",
        "wikid resolve a b --relation ",
        "wikid --json recall --expl",
        "wikid recall --vault ",
        "wikid config ",
    )
    assert {"recall", "reindex", "resolve", "restart"} <= set(names)
    assert all(each.startswith("re") for each in names)
    assert modes == ["lexical", "hybrid", "adaptive", "quality"]
    assert relations == ["supersedes", "qualifies", "applies_under"]
    assert flags == ["--explain"]
    assert vaults == ["active", "personal", "project", "all"]
    assert {"get", "set", "list"} <= set(nested)
    assert not (tmp_path / "none.sock").exists()


@needs_bash
def test_names_that_the_daemon_knows_are_completed(daemon: FakeDaemon, tmp_path: Path) -> None:
    shell = Shell(tmp_path, Path(daemon.endpoint))
    vaults, removed, pages, keys, values = shell.asked(
        "wikid recall --vault w",
        "wikid vault remove ",
        "wikid show concepts/ti",
        "wikid config set re",
        "wikid config set recallFeedback ",
    )
    assert vaults == ["work"]
    assert removed == ["work", "home"]
    assert pages == ["concepts/tides", "concepts/timber"]
    assert keys == ["retrievalMode", "recallFeedback"]
    assert values == ["true", "false"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_it_can_read(
    shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "wikid" in script
    assert "_ARGCOMPLETE" in script
    assert cli.main(["completion", shell, "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out) == {"shell": shell, "script": script}
    if shutil.which(shell) is not None:
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True, timeout=60)


def test_without_its_package_completion_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wikid_client.commands.completion.find_spec", lambda _: None)
    assert cli.main(["completion", "bash"]) == 2
    assert "pip install" in capsys.readouterr().err


def test_a_command_that_is_only_run_loads_nothing_for_completion(daemon: FakeDaemon) -> None:
    code = (
        "import sys; from wikid_client import cli; cli.main(['vault', 'list']); "
        "print({'argcomplete', 'wikid_client.commands.completion', 'difflib', 'rich'} & set(sys.modules))"
    )
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": PATHS, "WIKID_SOCKET": str(daemon.endpoint)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "set()"
