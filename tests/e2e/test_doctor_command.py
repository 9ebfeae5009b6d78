"""`wikid doctor` against the real daemon: what it finds, what it puts right, and that it works without one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import base_notes, until, write
from conftest import DATA
from daemon_process import DaemonProcess


class World:
    """A daemon whose model is missing, one plain vault in order, and the command."""

    def __init__(self, process: DaemonProcess, folder: Path) -> None:
        self.process = process
        self.notes = folder / "notes"
        self.wiki = folder / "wiki"
        base_notes(self.notes, 3)
        shutil.copytree(DATA / "personal", self.wiki, symlinks=True)
        process.add(self.notes, "notes")
        process.add(self.wiki, "wiki")

    def doctor(self, *flags: str, code: int | None = None) -> dict[str, dict[str, Any]]:
        """The findings by kind."""
        done = self.process.wikid("doctor", "--json", *flags)
        assert done.stderr == ""
        assert code is None or done.returncode == code, done.stdout
        return {each["kind"]: each for each in json.loads(done.stdout)["findings"]}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("doctor")
    # a model that is missing by its path is never built, as a missing default one would be by --fix
    with DaemonProcess(folder / "home", WIKID_EMBED_MODEL=str(folder / "none")) as running:
        yield World(running, folder)


def test_a_daemon_in_order_lacks_a_model_alone_and_tells_its_versions(world: World) -> None:
    found = world.doctor(code=1)
    assert set(found) == {"model_failed", "versions"}
    assert found["model_failed"]["severity"] == "error"
    assert "Python" in found["versions"]["message"]
    assert "Java" in found["versions"]["message"]
    text = world.process.wikid("doctor")
    assert text.returncode == 1
    assert "→ check it: wikid models list" in text.stdout
    assert "--fix" not in text.stdout


def test_conflict_copies_are_told_with_the_vault(world: World) -> None:
    copy = write(world.notes, "n01 (conflicted copy 2026-01-01).md", "# Copy\n")
    world.process.client.sync(vault="notes")
    found = world.doctor()["conflict_copies"]
    assert (found["vault"], found["severity"]) == ("notes", "warning")
    copy.unlink()
    world.process.client.sync(vault="notes")
    assert "conflict_copies" not in world.doctor()


def test_a_folder_that_is_gone_is_told_until_it_is_back(world: World) -> None:
    away = world.notes.with_name("away")
    world.notes.rename(away)
    found = until(lambda: world.doctor(code=1).get("vault_unavailable"), "the folder being missed")
    assert found["vault"] == "notes"
    assert str(world.notes) in found["remedy"]
    away.rename(world.notes)
    until(lambda: "vault_unavailable" not in world.doctor(), "the folder being found again")


def test_settings_that_are_none_and_a_log_that_cannot_be_read_are_told(world: World) -> None:
    config = world.process.home / "xdg_config_home" / "wikid" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('retreivalMode = "lexical"\n')
    found = world.doctor()["config_unknown_key"]
    assert "retreivalMode" in found["message"]
    config.unlink()
    events = world.wiki / ".llm-wiki" / "meta" / "events.jsonl"
    before = events.read_bytes()
    ours = b'{"kind":"recall_feedback","timestamp":"2026-01-01T00:00:00.000Z"}\n'
    events.write_bytes(before + ours + b"not JSON\n" + ours)
    found = world.doctor()["events_malformed"]
    assert (found["vault"], "--acknowledge" in found["remedy"]) == ("wiki", True)
    events.write_bytes(before)
    assert {"config_unknown_key", "events_malformed"}.isdisjoint(world.doctor())


@pytest.mark.skipif(os.name != "posix", reason="folders have modes")
def test_a_folder_that_others_may_enter_is_closed_by_fix(world: World) -> None:
    folder = world.process.endpoint.parent
    folder.chmod(0o755)
    assert world.doctor("--no-start")["endpoint_folder_open"]["fix"] is True
    done = world.process.wikid("doctor", "--fix", "--no-start", "--json")
    fixed = {each["kind"]: each["done"] for each in json.loads(done.stdout)["fixed"]}
    assert fixed["endpoint_folder_open"] is True
    assert folder.stat().st_mode & 0o777 == 0o700
    assert "endpoint_folder_open" not in world.doctor("--no-start")


def test_without_a_daemon_the_command_looks_by_itself(tmp_path: Path) -> None:
    process = DaemonProcess(tmp_path / "home")
    try:
        done = process.wikid("doctor", "--no-start", "--json")
        found = {each["kind"]: each for each in json.loads(done.stdout)["findings"]}
        assert set(found) == {"daemon_not_running", "model_absent"}
        process.start()
        process.kill()
        stale = process.wikid("doctor", "--no-start")
        assert stale.returncode == 1
        assert "nobody listens" in stale.stdout
        mended = json.loads(process.wikid("doctor", "--no-start", "--fix", "--json").stdout)
        assert {each["kind"]: each["done"] for each in mended["fixed"]} == {
            "socket_stale": True,
            "model_absent": False,  # building needs the daemon that may not be started
        }
        assert not process.endpoint.exists()
    finally:
        process.discard()
