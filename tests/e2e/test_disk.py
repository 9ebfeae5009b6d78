"""Disks and permissions that do not let wikid write: it answers from what it has, says why, and goes on by itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from builders import page, tree, until, write
from daemon_process import HELD_TO_PERMISSIONS, NOT_HELD, DaemonProcess
from wikid_client import RequestRefused
from wikid_daemon.vault.vault import open_vault

WORD = "postgresql"
TREE = ".llm-wiki/meta/wikid"
MEBIBYTES = 4


def own_files(root: Path) -> dict[str, tuple[str, int]]:
    """What is the vault's own: the bytes and the inode of each file outside the generated tree."""
    kept = {path: digest for path, digest in tree(root).items() if not path.startswith(TREE)}
    return {path: (digest, (root / path).stat().st_ino) for path, digest in kept.items()}


def mounted(*arguments: str) -> bool:
    if sys.platform != "linux" or shutil.which("mount") is None:
        return False
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


@pytest.fixture
def root(sample_vault: Callable[[str], Path]) -> Path:
    return sample_vault("project")


@pytest.fixture
def small_disk(root: Path) -> Iterator[Path]:
    """The vault's generated tree on a disk of its own, of a few mebibytes."""
    place = root / TREE
    place.mkdir()
    if not mounted("-t", "tmpfs", "-o", f"size={MEBIBYTES}m", "tmpfs", str(place)):
        pytest.skip("a disk that is really full needs leave to mount a tmpfs")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue
    return filler


def grow(root: Path) -> list[str]:
    """Save pages that need more room than a full disk has; the word of each."""
    words = [f"tokfull{number}" for number in range(30)]
    for word in words:
        write(root, f".llm-wiki/wiki/concepts/{word}.md", page(f"{word} " + "and many more words " * 200, title=word))
    return words


def test_a_full_disk_costs_no_answer_and_what_was_saved_is_found_when_there_is_room(
    daemon: DaemonProcess, root: Path, small_disk: Path
) -> None:
    daemon.add(root, "notes")
    filler = fill(small_disk)
    words = grow(root)
    before = own_files(root)
    for _ in range(3):
        with pytest.raises(RequestRefused) as refused:
            daemon.client.sync(vault="notes")
        assert refused.value.kind == "vault_unavailable"
        assert "postgresql" in " ".join(daemon.found(WORD, "notes"))
    status = daemon.status("notes")
    assert (status.state, bool(status.reason), status.stale) == ("failed", True, True)
    answer = daemon.client.recall(WORD, vault="notes", mode="lexical")
    assert answer.stale
    assert "indexing_interrupted" in [each.kind for each in answer.diagnostics]
    filler.unlink()
    daemon.client.sync(vault="notes")
    assert [word for word in words if daemon.found(word, "notes") != [f"concepts/{word}"]] == []
    assert own_files(root) == before
    assert (daemon.status("notes").state, daemon.status("notes").stale) == ("ready", False)
    assert daemon.client.verify(vault="notes").vaults[0].differences == ()


def test_a_start_on_a_full_disk_goes_on_when_there_is_room(daemon: DaemonProcess, root: Path, small_disk: Path) -> None:
    daemon.add(root, "notes")
    filler = fill(small_disk)
    words = grow(root)
    before = own_files(root)
    daemon.kill()
    daemon.start()
    until(lambda: daemon.status("notes").reason, "the trouble being told")
    filler.unlink()
    daemon.client.sync(vault="notes")
    assert [word for word in words if daemon.found(word, "notes") != [f"concepts/{word}"]] == []
    assert own_files(root) == before
    assert daemon.client.verify(vault="notes").vaults[0].differences == ()


def test_a_full_rebuild_without_room_keeps_the_index_in_use_and_leaves_nothing_behind(
    daemon: DaemonProcess, root: Path, small_disk: Path
) -> None:
    daemon.add(root, "notes")
    before = daemon.found(WORD, "notes")
    filler = fill(small_disk)
    with pytest.raises(RequestRefused) as refused:
        daemon.client.reindex(vault="notes", scope="all", force=True, components=["lexical"])
    assert refused.value.kind == "vault_unavailable"
    assert "disk_full" in refused.value.message
    assert refused.value.hint
    assert daemon.found(WORD, "notes") == before
    filler.unlink()
    assert [each.name for each in small_disk.glob("staging-*")] == []
    daemon.client.reindex(vault="notes", scope="all", force=True, components=["lexical"])
    assert daemon.found(WORD, "notes") == before
    assert daemon.client.verify(vault="notes").vaults[0].differences == ()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[DaemonProcess]:
    """A daemon that permissions hold, also where the tests run as root."""
    if HELD_TO_PERMISSIONS is None:
        pytest.skip(NOT_HELD)
    with DaemonProcess(tmp_path / "home", under=HELD_TO_PERMISSIONS) as running:
        yield running


@pytest.fixture
def permitted(root: Path) -> Iterator[Callable[[str, int], None]]:
    """Changes the permissions of a folder of the vault, until the test ends."""
    changed: dict[Path, int] = {}

    def change(folder: str, mode: int) -> None:
        place = root / folder
        changed.setdefault(place, place.stat().st_mode)
        place.chmod(mode)

    yield change
    for place, mode in changed.items():
        place.chmod(mode)


def test_a_vault_that_may_not_be_written_is_served_from_outside_and_left_alone(
    held: DaemonProcess, root: Path, permitted: Callable[[str, int], None]
) -> None:
    for folder in (".llm-wiki/meta", ".llm-wiki"):
        permitted(folder, 0o555)
    before = own_files(root)
    record = held.add(root, "notes")
    assert record.read_only
    assert not Path(record.state_path).is_relative_to(root)
    assert held.found(WORD, "notes") != []
    write(root, ".llm-wiki/wiki/concepts/after.md", page("tokafter", title="After"))
    held.until_found("tokafter", "concepts/after", "notes")
    assert {path: kept for path, kept in own_files(root).items() if path in before} == before
    assert not (root / TREE).exists()


@pytest.mark.parametrize("mode", [0o555, 0o000], ids=["not to be written", "not to be entered"])
def test_a_tree_whose_permissions_are_taken_away_while_running_answers_and_goes_on(
    held: DaemonProcess, root: Path, permitted: Callable[[str, int], None], mode: int
) -> None:
    held.add(root, "notes")
    assert held.found(WORD, "notes") != []
    before = own_files(root)
    below = sorted((path for path in (root / TREE).rglob("*") if path.is_dir()), reverse=True)
    for folder in (*below, root / TREE):
        permitted(folder.relative_to(root).as_posix(), mode)
    write(root, ".llm-wiki/wiki/concepts/after.md", page("tokafter", title="After"))
    until(lambda: held.status("notes").state == "failed", "the trouble being told")
    assert "permission" in held.status("notes").reason
    answered = []
    # a thread that never read the catalog before cannot open it now where its folder may not be entered
    for _ in range(20):
        with suppress(RequestRefused) if mode == 0 else nullcontext():
            answered.append(held.found(WORD, "notes"))
    assert answered
    assert [] not in answered
    for folder in (root / TREE, *reversed(below)):
        permitted(folder.relative_to(root).as_posix(), 0o755)
    held.client.sync(vault="notes")
    assert held.found("tokafter", "notes") == ["concepts/after"]
    assert {path: kept for path, kept in own_files(root).items() if path in before} == before
    assert held.client.verify(vault="notes").vaults[0].differences == ()


def test_a_tree_that_may_not_be_entered_at_the_start_is_left_alone(
    held: DaemonProcess, root: Path, permitted: Callable[[str, int], None]
) -> None:
    held.add(root, "notes")
    held.stop()
    permitted(TREE, 0o000)
    before = own_files(root)
    held.start()
    until(lambda: held.found(WORD, "notes"), "an answer")
    assert not Path(held.status("notes").vault.state_path).is_relative_to(root)
    assert own_files(root) == before


def test_a_disk_that_is_mounted_to_be_read_only_is_served_from_outside(
    daemon: DaemonProcess, root: Path, tmp_path: Path
) -> None:
    place = tmp_path / "mounted"
    place.mkdir()
    if not mounted("--bind", str(root), str(place)):
        pytest.skip("a read-only disk needs leave to mount")
    try:
        assert mounted("-o", "remount,ro,bind", str(place))
        before = own_files(root)
        record = daemon.add(place, "notes")
        assert (record.read_only, Path(record.state_path).is_relative_to(place)) == (True, False)
        assert daemon.found(WORD, "notes") != []
        write(root, ".llm-wiki/wiki/concepts/after.md", page("tokafter", title="After"))
        daemon.client.sync(vault="notes")
        assert daemon.found("tokafter", "notes") == ["concepts/after"]
        assert {path: kept for path, kept in own_files(root).items() if path in before} == before
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_config_that_cannot_be_read_blocks_its_vault_until_it_can_be(
    held: DaemonProcess, root: Path, tmp_path: Path, permitted: Callable[[str, int], None]
) -> None:
    open_vault(root, name=None, state_home=tmp_path / "other")  # which gives it its id
    before = own_files(root)
    permitted(".llm-wiki/config.json", 0o000)
    held.client.vault_add(str(root), name="notes")
    status = until(lambda: (s := held.status("notes")).state != "indexing" and s, "the block being told")
    assert (status.state, "config" in (status.vault.blocked or "")) == ("blocked", True)
    held.stop()
    permitted(".llm-wiki/config.json", 0o644)
    held.start()
    until(lambda: held.found(WORD, "notes"), "an answer once it can be read")
    assert own_files(root) == before
