"""`config/get` and `config/set` on the real daemon, by the client and by the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders import base_notes, write
from daemon_process import DaemonProcess
from wikid_client import RequestRefused
from wikid_protocol import records as r


def setting(found: r.Configuration, key: str) -> r.SettingRecord:
    return next(each for each in found.settings if each.key == key)


def config_file(daemon: DaemonProcess) -> Path:
    return daemon.home / "xdg_config_home" / "wikid" / "config.toml"


def test_a_setting_is_set_read_and_removed_again(daemon: DaemonProcess) -> None:
    before = setting(daemon.client.config_get(), "retrievalMode")
    assert (before.value, before.origin) == ("adaptive", "default")
    assert setting(daemon.client.config_set("retrievalMode", value="lexical"), "retrievalMode").value == "lexical"
    path = config_file(daemon)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.write_text("# why: the laptop is old\n" + path.read_text())
    daemon.client.config_set("recallLinksThreshold", value=20)
    assert path.read_text() == '# why: the laptop is old\nretrievalMode = "lexical"\nrecallLinksThreshold = 20\n'
    found = daemon.client.config_get("retrievalMode")
    assert [(each.value, each.origin, each.source) for each in found.settings] == [("lexical", "user", str(path))]
    assert setting(daemon.client.config_set("retrievalMode"), "retrievalMode").origin == "default"
    assert path.read_text() == "# why: the laptop is old\nrecallLinksThreshold = 20\n"


def test_settings_outlive_the_daemon(daemon: DaemonProcess) -> None:
    daemon.client.config_set("recallFeedback", value=False)
    daemon.stop()
    daemon.start()
    assert setting(daemon.client.config_get(), "recallFeedback").value is False


def test_a_project_s_host_settings_apply_to_its_folder_alone(daemon: DaemonProcess, tmp_path: Path) -> None:
    daemon.client.config_set("recallLinksThreshold", value=20)
    project = tmp_path / "project"
    path = write(project, ".pi/settings.json", '{"llm-wiki": {"recallLinksThreshold": 7.9, "notices": true}}')
    here = daemon.client.config_get("recallLinksThreshold", cwd=str(project))
    assert [(each.value, each.origin, each.source) for each in here.settings] == [(7, "host", str(path))]
    assert not here.diagnostics
    elsewhere = daemon.client.config_get("recallLinksThreshold", cwd=str(tmp_path))
    assert [(each.value, each.origin) for each in elsewhere.settings] == [(20, "user")]
    path.write_text("{")
    broken = daemon.client.config_get("recallLinksThreshold", cwd=str(project))
    assert [(each.value, each.origin) for each in broken.settings] == [(20, "user")]
    assert [each.kind for each in broken.diagnostics] == ["config_unreadable"]


def test_what_is_no_setting_is_refused_and_nothing_is_written(daemon: DaemonProcess) -> None:
    wrong: list[tuple[str, str | float]] = [
        ("retrievalMod", "lexical"),
        ("retrievalMode", "fast"),
        ("retrievalMode", 3),
        ("recallFeedback", "perhaps"),
        ("recallLinksThreshold", "many"),
        ("embedModel", ""),
        ("embedModel", "a\nretrievalMode = 1"),
    ]
    for key, value in wrong:
        with pytest.raises(RequestRefused) as refused:
            daemon.client.config_set(key, value=value)
        assert (refused.value.kind, refused.value.exit_code) == ("invalid_params", 2), key
        assert refused.value.hint
    with pytest.raises(RequestRefused, match="absolute"):
        daemon.client.config_get(cwd="notes")
    assert not config_file(daemon).exists()


def test_the_command_gets_sets_and_lists(daemon: DaemonProcess) -> None:
    assert daemon.wikid("config", "get", "recallFeedback").stdout == "true\n"
    done = daemon.wikid("config", "set", "recallFeedback", "false")
    assert (done.returncode, done.stderr) == (0, "")
    assert daemon.wikid("config", "get", "recallFeedback").stdout == "false\n"
    listed = json.loads(daemon.wikid("config", "list", "--json").stdout)
    assert {each["key"]: each["value"] for each in listed["settings"]} == {
        "retrievalMode": "adaptive",
        "recallFeedback": False,
        "recallLinksThreshold": 50,
        "recallSkillInlineMax": 1600,
        "ambientPersonalVault": True,
        "embedModel": None,
        "rerankModel": None,
        "lowPower": "auto",
        "unloadAfterMinutes": 0,
    }
    assert listed["path"] == str(config_file(daemon))
    unknown = daemon.wikid("config", "get", "retrievalMod")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "retrievalMode" in unknown.stderr
    assert daemon.wikid("config", "set", "recallFeedback", "--unset").returncode == 0
    assert config_file(daemon).read_text() == ""


def test_the_command_reads_the_settings_of_the_folder_it_stands_in(daemon: DaemonProcess, tmp_path: Path) -> None:
    project = tmp_path / "project"
    write(project, ".omp/config.yml", "llm-wiki:\n  retrievalMode: fast\n")
    done = daemon.wikid("config", "get", "retrievalMode", cwd=project)
    assert (done.returncode, done.stdout) == (1, "\n")
    assert "retrievalMode" in done.stderr
    assert daemon.wikid("config", "get", "retrievalMode", cwd=tmp_path).stdout == "adaptive\n"


def test_a_recall_whose_folder_sets_no_mode_that_exists_is_refused_until_it_names_one(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    base_notes(tmp_path / "notes", 2)
    daemon.add(tmp_path / "notes", "notes")
    path = write(tmp_path, "notes/.pi/settings.json", '{"llm-wiki": {"retrievalMode": "fast"}}')
    with pytest.raises(RequestRefused) as refused:
        daemon.client.recall("tok01zebra", cwd=str(path.parents[1]))
    assert (refused.value.kind, refused.value.exit_code) == ("config_invalid", 1)
    assert "retrievalMode" in refused.value.hint
    assert str(path) in refused.value.hint
    assert daemon.client.recall("tok01zebra", cwd=str(path.parents[1]), mode="lexical").bundles
    path.write_text('{"llm-wiki": {"retrievalMode": "lexical"}}')
    assert daemon.client.recall("tok01zebra", cwd=str(path.parents[1])).mode_used == "lexical"
