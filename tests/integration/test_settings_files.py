"""Settings from real files: which are read, in which order, what broken ones do, and how the user's own is written."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import until
from wikid_daemon.core.settings import BY_NAME
from wikid_daemon.settings_files import SettingsFiles
from wikid_protocol.errors import RequestRefused

THRESHOLD = BY_NAME["recallLinksThreshold"]


class World:
    """A home with the folders that settings are read from."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = root / "project"
        self.config = self.home / ".config" / "wikid"
        self.environment = {"HOME": str(self.home)}
        self.project.mkdir()

    def files(self, later_ns: int = 0, /, **environment: str) -> SettingsFiles:
        """Reads this world, by a clock that is fast by `later_ns`."""
        return SettingsFiles(self.config, {**self.environment, **environment}, lambda: time.time_ns() + later_ns)

    def put(self, path: Path, text: str | bytes) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def threshold(self, **environment: str) -> int:
        return self.files(**environment).settings_for(self.project).settings.recall_links_threshold


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def section(threshold: int, path: str) -> str:
    """A host's file that sets one key, in the format that its name asks for."""
    if path.endswith(".json"):
        return f'{{"other": [], "llm-wiki": {{"recallLinksThreshold": {threshold}}}}}'
    return f"other: []\nllm-wiki:\n  recallLinksThreshold: {threshold}\n"


@pytest.mark.parametrize(
    ("environment", "native", "foreign"),
    [
        ({}, "pi", "omp"),
        ({"LLM_WIKI_HOST": " OMP "}, "omp", "pi"),
        ({"OMP_PROFILE": "work"}, "omp", "pi"),
        ({"LLM_WIKI_HOST": "pi", "OMP_PROFILE": "work"}, "pi", "omp"),
        ({"LLM_WIKI_HOST": "emacs"}, "pi", "omp"),
    ],
)
def test_each_file_stands_above_those_before_it(
    world: World, environment: dict[str, str], native: str, foreign: str
) -> None:
    names = ("settings.json", "config.yml", "config.yaml")
    folders = (world.home / f".{native}" / "agent", world.project / f".{foreign}", world.project / f".{native}")
    world.put(world.config / "config.toml", "recallLinksThreshold = 100\n")
    assert world.threshold(**environment) == 100
    for number, path in enumerate(folder / name for folder in folders for name in names):
        world.put(path, section(number, path.name))
        assert world.threshold(**environment) == number


def test_the_other_host_s_agent_and_other_folders_are_not_read(world: World) -> None:
    world.put(world.home / ".omp/agent/settings.json", section(1, "settings.json"))
    world.put(world.project.parent / ".pi/settings.json", section(2, "settings.json"))
    assert world.threshold() == 50


def test_a_request_from_nowhere_has_the_agent_s_settings_alone(world: World) -> None:
    world.put(world.home / ".pi/agent/config.yml", section(1, "config.yml"))
    world.put(world.project / ".pi/config.yml", section(2, "config.yml"))
    assert world.files().settings_for(None).settings.recall_links_threshold == 1


def test_ambient_use_of_the_personal_vault_depends_on_the_host(world: World) -> None:
    assert world.files().settings_for(None).settings.ambient_personal_vault
    assert not world.files(LLM_WIKI_HOST="omp").settings_for(None).settings.ambient_personal_vault


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".pi/settings.json", "{"),
        (".pi/settings.json", "[1]"),
        (".pi/settings.json", '{"llm-wiki": "on"}'),
        (".pi/settings.json", b"\xff\xfe"),
        (".pi/settings.json", "[" * 100_000),
        (".pi/config.yml", "a: [\n"),
        (".pi/config.yml", "a: &x 1\nb: *x\n"),
        (".pi/config.yaml", "- one\n"),
        (".pi/config.yaml", "a: 1\na: 2\n"),
        ("config.toml", "recallFeedback = "),
        ("config.toml", "a = " + "9" * 5_000),
        ("config.toml", "a = " + "[" * 5_000),
        ("config.toml", b'a = "\xff"\n'),
    ],
)
def test_a_broken_file_counts_as_empty_and_is_told(world: World, name: str, text: str | bytes) -> None:
    path = world.put((world.config if name == "config.toml" else world.project) / name, text)
    effective = world.files().settings_for(world.project)
    assert all(each.origin == "default" for each in effective.decided)
    assert effective.mode() == "adaptive"
    [told] = effective.diagnostics
    assert told.kind == "config_unreadable"
    assert str(path) in told.message
    assert "\n" not in told.message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".pi/settings.json", ""),
        (".pi/settings.json", '{"llm-wiki": null}'),
        (".pi/config.yml", "# nothing yet\n\n  # really\n"),
        (".pi/config.yml", "---\nother: 1\n"),
        ("config.toml", "# nothing yet\n"),
        ("config.toml", "\ufeff\n"),
    ],
)
def test_a_file_that_sets_nothing_is_no_fault(world: World, name: str, text: str) -> None:
    world.put((world.config if name == "config.toml" else world.project) / name, text)
    effective = world.files().settings_for(world.project)
    assert not effective.diagnostics
    assert all(each.origin == "default" for each in effective.decided)


def test_what_is_no_file_or_may_not_be_read_is_told(world: World) -> None:
    (world.project / ".pi/settings.json").mkdir(parents=True)
    os.mkfifo(world.project / ".pi/config.yml")
    effective = world.files().settings_for(world.project)
    assert [each.kind for each in effective.diagnostics] == ["config_unreadable"] * 2
    assert effective.mode() == "adaptive"


@pytest.mark.parametrize("cwd", ["/nowhere/at/all", "/dev/null/x", "/a\0b", "/" + "x" * 5_000])
def test_no_folder_is_too_odd(world: World, cwd: str) -> None:
    assert world.files().settings_for(Path(cwd)).mode() == "adaptive"


def test_linked_files_are_read(world: World) -> None:
    kept = world.put(world.home / "dotfiles/wikid.toml", "recallLinksThreshold = 9\n")
    world.config.mkdir(parents=True)
    (world.config / "config.toml").symlink_to(kept)
    assert world.threshold() == 9


def test_a_mode_that_is_none_refuses_a_recall_that_names_none(world: World) -> None:
    path = world.put(world.project / ".pi/settings.json", '{"llm-wiki": {"retrievalMode": "fast"}}')
    effective = world.files().settings_for(world.project)
    with pytest.raises(RequestRefused) as refused:
        effective.mode()
    assert refused.value.kind == "config_invalid"
    assert "retrievalMode" in refused.value.hint
    assert str(path) in refused.value.hint
    assert "fast" not in str(refused.value)
    assert effective.mode("lexical") == "lexical"
    assert [each.kind for each in effective.diagnostics] == ["config_invalid_value"]


def test_unknown_keys_are_told_by_name_and_file(world: World) -> None:
    path = world.put(world.config / "config.toml", "recallFeedbak = false\n[recall]\nmode = 1\n")
    told = world.files().settings_for(None).diagnostics
    assert [each.kind for each in told] == ["config_unknown_key"] * 2
    assert all(str(path) in each.message for each in told)
    assert "recallFeedbak" in told[0].message


# -- what is kept ------------------------------------------------------------------------------------------------------


def tick(world: World) -> None:
    """Until a change of a file gets another time than those before."""
    probe = world.home / "probe"
    first = world.put(probe, "").stat().st_ctime_ns
    until(lambda: world.put(probe, "").stat().st_ctime_ns > first, "the file system's next tick")


def change_in_place(path: Path) -> None:
    path.write_text(path.read_text().replace("3", "4"))


def change_by_rename(path: Path) -> None:
    beside = path.with_name("new")
    beside.write_text(path.read_text().replace("3", "4"))
    beside.replace(path)


def change_unseen_by_size_and_time(path: Path) -> None:
    before = path.stat()
    change_in_place(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [change_in_place, change_by_rename, change_unseen_by_size_and_time])
@pytest.mark.parametrize("is_old", [True, False])
def test_a_change_is_seen_by_the_next_request(world: World, change: Callable[[Path], None], is_old: bool) -> None:
    path = world.put(world.project / ".pi/settings.json", section(3, "settings.json"))
    files = world.files(10_000_000_000 if is_old else 0)
    first = files.settings_for(world.project)
    assert first.settings.recall_links_threshold == 3
    if is_old:  # a file that has just changed may change again unseen, and is read every time
        assert files.settings_for(world.project) is first
        tick(world)
    change(path)
    assert files.settings_for(world.project).settings.recall_links_threshold == 4
    path.unlink()
    assert files.settings_for(world.project).settings.recall_links_threshold == 50


def test_a_file_that_appears_is_seen_by_the_next_request(world: World) -> None:
    files = world.files()
    first = files.settings_for(world.project)
    assert files.settings_for(world.project) is first
    world.put(world.project / ".omp/config.yaml", section(3, "config.yaml"))
    assert files.settings_for(world.project).settings.recall_links_threshold == 3


def test_many_folders_keep_to_their_own_settings(world: World) -> None:
    files = world.files()
    for number in range(300):
        world.put(world.project / f"{number}/.pi/settings.json", section(number, "settings.json"))
    for _ in range(2):
        for number in range(300):
            found = files.settings_for(world.project / str(number)).settings.recall_links_threshold
            assert found == number


# -- writing -----------------------------------------------------------------------------------------------------------


def test_the_first_change_makes_a_private_file_in_a_private_folder(world: World) -> None:
    files = world.files()
    files.write(THRESHOLD, 80)
    assert files.path.read_text() == "recallLinksThreshold = 80\n"
    assert files.path.stat().st_mode & 0o777 == 0o600
    assert files.path.parent.stat().st_mode & 0o777 == 0o700
    assert files.settings_for(None).settings.recall_links_threshold == 80


def test_a_change_keeps_comments_other_keys_and_the_file_s_mode(world: World) -> None:
    text = "# mine\nrecallLinksThreshold = 3 # few\nunknown = 1\n"
    path = world.put(world.config / "config.toml", text)
    path.chmod(0o644)
    files = world.files()
    files.write(THRESHOLD, 80)
    assert path.read_text() == text.replace("3", "80")
    assert path.stat().st_mode & 0o777 == 0o644
    files.write(THRESHOLD, None)
    assert path.read_text() == "# mine\nunknown = 1\n"
    assert list(path.parent.iterdir()) == [path]


def test_a_linked_file_is_changed_where_it_lies(world: World) -> None:
    target = world.put(world.home / "dotfiles/wikid.toml", "recallFeedback = false\n")
    world.config.mkdir(parents=True)
    link = world.config / "config.toml"
    link.symlink_to(target)
    world.files().write(THRESHOLD, 80)
    assert link.is_symlink()
    assert target.read_text() == "recallFeedback = false\nrecallLinksThreshold = 80\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a = [", "config_unreadable"),
        (b"\xff", "config_unreadable"),
        ("recallLinksThreshold.x = 1\n", "config_unreadable"),
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_left_as_it_is(world: World, text: str | bytes, kind: str) -> None:
    path = world.put(world.config / "config.toml", text)
    before = path.read_bytes()
    with pytest.raises(RequestRefused) as refused:
        world.files().write(THRESHOLD, 80)
    assert refused.value.kind == kind
    assert str(path) in refused.value.message
    assert path.read_bytes() == before


def test_a_file_that_cannot_be_written_is_refused(world: World) -> None:
    (world.config / "config.toml").mkdir(parents=True)
    with pytest.raises(RequestRefused) as refused:
        world.files().write(THRESHOLD, 80)
    assert refused.value.kind == "read_only"
