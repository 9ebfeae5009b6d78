"""Watching files as people and tools change them: a real daemon over real plain folders, found by words.

Tests named T… are the inputs of the list of known faults. `WIKID_LONG_TESTS=1` runs them at their full size.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from builders import base_notes, numbered_note, save_atomically, until, write
from daemon_process import DaemonProcess
from wikid_client import RequestRefused

LONG = os.environ.get("WIKID_LONG_TESTS") == "1"
BRANCH_NOTES = 5_000 if LONG else 400
ASK_SECONDS = 0.1 if LONG else 0.02  # fewer notes are indexed sooner
SUSPENDED_SECONDS = 60.0 if LONG else 0.0
SETPRIV = shutil.which("setpriv")
# root reads whatever its permissions say; without these capabilities it is held to them like anybody else
AS_ANYBODY = "-dac_override,-dac_read_search"
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("watching") / "home") as daemon:
        yield daemon


class Notes:
    """A folder with the base fixture, registered with the module's daemon under a name of its own."""

    def __init__(self, daemon: DaemonProcess, root: Path, name: str) -> None:
        self.daemon = daemon
        self.root = root
        self.name = name
        self.added = False

    def add(self) -> None:
        self.daemon.add(self.root, self.name)
        self.added = True

    def found(self, query: str) -> list[str]:
        return self.daemon.found(query, self.name)

    def until_found(self, query: str, page_id: str) -> None:
        self.daemon.until_found(query, page_id, self.name)

    def all_found(self) -> bool:
        return all(self.found(f"tok{number:02}zebra") == [f"n{number:02}"] for number in range(1, 21))

    def skipped(self) -> dict[str, str]:
        return {each.path: each.reason for each in self.daemon.status(self.name).skipped_paths}

    def failed(self) -> dict[str, str]:
        return {each.path: each.reason for each in self.daemon.status(self.name).failed}


@pytest.fixture
def notes(running: DaemonProcess, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Notes]:
    root = tmp_path / "notes"
    base_notes(root)
    made = Notes(running, root, request.node.name)
    yield made
    if made.added:
        running.client.vault_remove(made.name)


# -- saving ------------------------------------------------------------------------------------------------------------


def test_t01_of_twenty_atomic_saves_the_last_is_found_and_no_temporary_name(notes: Notes) -> None:
    notes.add()
    for number in range(1, 21):
        temporary = write(notes.root, f".n01.md.tmp{number}", numbered_note(1) + f"\natomic{number}\n")
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, notes.root / "n01.md")
        if number % 5 == 0:
            notes.until_found(f"atomic{number}", "n01")
    assert notes.found("atomic20") == ["n01"]
    assert [notes.found(f"atomic{number}") for number in range(1, 20)] == [[]] * 19
    # the last temporary name is gone, and a look that saw it will be followed by one that does not
    until(lambda: not notes.daemon.status(notes.name).skipped, "nothing being skipped any more")
    status = notes.daemon.status(notes.name)
    assert (status.pages, status.failed) == (20, ())
    matches = notes.daemon.client.page_search("", vault=notes.name, limit=100).matches
    assert {each.page_id for each in matches} == {f"n{number:02}" for number in range(1, 21)}


def test_t02_a_vim_save_keeps_the_page(notes: Notes) -> None:
    notes.add()
    (notes.root / "4913").touch()
    (notes.root / "4913").unlink()
    (notes.root / "n02.md").rename(notes.root / "n02.md~")
    write(notes.root, "n02.md", numbered_note(2) + "\nvimtok\n")
    (notes.root / "n02.md~").unlink()
    notes.until_found("vimtok", "n02")
    assert notes.found("tok02zebra") == ["n02"]
    assert notes.daemon.status(notes.name).pages == 20


def case_sensitive(folder: Path) -> bool:
    probe = write(folder, "Case-probe", "")
    try:
        return not (folder / "case-probe").exists()
    finally:
        probe.unlink()


@pytest.mark.parametrize("disk", ["case_sensitive", "case_insensitive"])
def test_t03_a_name_that_changes_its_case_is_one_page_under_the_new_spelling(notes: Notes, disk: str) -> None:
    if case_sensitive(notes.root) != (disk == "case_sensitive"):
        pytest.skip(f"T03 needs a {disk.replace('_', '-')} file system for the tests' temporary folder (--basetemp)")
    write(notes.root, "Notes.md", "# Notes\n\ntokcase\n")
    notes.add()
    assert notes.found("tokcase") == ["Notes"]
    (notes.root / "Notes.md").rename(notes.root / "notes.md")
    until(lambda: notes.found("tokcase") == ["notes"], "the new spelling alone")
    assert notes.daemon.status(notes.name).pages == 21


def git(root: Path, *arguments: str) -> None:
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "gc.auto=0")
    subprocess.run(["git", *settings, "-C", str(root), *arguments], check=True, capture_output=True)


def branch_note(number: int, branch: str) -> str:
    own = branch if number % 5 else "both"  # four in five differ
    return f"# Note {number}\n\nThe {own} of tokbranch{number} and word{number % 20}{own} stand here.\n"


@pytest.mark.skipif(shutil.which("git") is None, reason="T04 needs git")
def test_t04_a_branch_switch_answers_throughout_and_equals_a_fresh_build(notes: Notes, tmp_path: Path) -> None:
    root = notes.root
    git(root, "init", "-q", "-b", "A")
    for branch in ("A", "B"):
        if branch == "B":
            git(root, "checkout", "-q", "-b", "B")
        for number in range(BRANCH_NOTES):
            write(root, f"d{number % 37}/b{number}.md", branch_note(number, branch))
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", branch)
    git(root, "checkout", "-q", "A")
    notes.add()
    assert notes.found("tokbranch7") == ["d7/b7"]
    stale: list[bool] = []
    problems: list[Exception] = []
    over = threading.Event()

    def ask() -> None:
        try:
            with notes.daemon.connect() as client:
                while not over.wait(ASK_SECONDS):
                    stale.append(client.recall("word7A word7B", vault=notes.name, mode="lexical").stale)
        except Exception as problem:  # noqa: BLE001 - whatever it is, the test reports it
            problems.append(problem)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        until(lambda: stale, "a first answer")
        git(root, "checkout", "-q", "B")
        until(lambda: any(stale), "an answer that says it is stale")
        notes.daemon.client.sync(vault=notes.name, timeout=240)
        until(lambda: not notes.daemon.status(notes.name).stale, "being current")
    finally:
        over.set()
        asking.join()
    assert problems == []
    assert notes.all_found()
    queries = [f"word{number}{branch}" for number in range(20) for branch in ("A", "B", "both")]
    queries += [f"tokbranch{number}" for number in range(0, BRANCH_NOTES, 17)]
    with DaemonProcess(tmp_path / "fresh") as fresh:
        fresh.add(root, notes.name)
        assert {query: fresh.found(query, notes.name) for query in queries} == {
            query: notes.found(query) for query in queries
        }
        incremental, expected = notes.daemon.status(notes.name), fresh.status(notes.name)
    assert (incremental.pages, incremental.chunks) == (expected.pages, expected.chunks)


@pytest.mark.parametrize("paused", [False, True])
def test_t05_a_note_with_the_same_length_and_time_is_still_noticed(notes: Notes, paused: bool) -> None:
    notes.add()
    place = notes.root / "n05.md"
    before = place.stat()
    with ExitStack() as pause:
        if paused:
            pause.enter_context(notes.daemon.paused())
        place.write_text(numbered_note(5).replace("tok05zebra", "tok05other"))
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (place.stat().st_size, place.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    notes.daemon.client.sync(vault=notes.name)
    assert notes.found("tok05other") == ["n05"]
    assert notes.found("tok05zebra") == []


def test_t06_a_root_that_is_away_or_empty_keeps_its_answers(daemon: DaemonProcess, tmp_path: Path) -> None:
    root, away = tmp_path / "notes", tmp_path / "away"
    base_notes(root, 4)
    daemon.add(root, "notes")
    generation = daemon.status("notes").generation
    root.rename(away)
    until(lambda: daemon.status("notes").state == "unavailable", "the root being missed")
    answer = daemon.client.recall("tok03zebra", vault="notes", mode="lexical")
    item = answer.bundles[0].card
    assert item is not None
    assert (item.page_id, answer.stale) == ("n03", True)
    assert "vault_unavailable" in [each.kind for each in answer.diagnostics]
    assert daemon.status("notes").pages == 4
    root.mkdir()  # an unmounted disk leaves its mount point, empty
    with pytest.raises(RequestRefused) as refused:
        daemon.client.sync(vault="notes")
    assert refused.value.kind == "vault_unavailable"
    assert (daemon.status("notes").state, daemon.status("notes").pages) == ("unavailable", 4)
    root.rmdir()
    away.rename(root)
    until(lambda: daemon.status("notes").state == "ready", "the root being back")
    assert daemon.found("tok03zebra", "notes") == ["n03"]
    assert daemon.status("notes").generation == generation


# -- what is not a note of this folder ---------------------------------------------------------------------------------


def test_t08_links_lead_nowhere_and_the_folder_itself_may_be_one(running: DaemonProcess, tmp_path: Path) -> None:
    base_notes(tmp_path / "real")
    write(tmp_path, "outside.md", "# Outside\n\ntokoutside\n")
    (tmp_path / "real" / "loop").symlink_to("..")
    (tmp_path / "real" / "out.md").symlink_to("../outside.md")
    (tmp_path / "linked").symlink_to("real")
    notes = Notes(running, tmp_path / "linked", "t08")
    notes.add()
    assert notes.all_found()
    assert notes.found("tokoutside") == []
    assert notes.skipped() == {"loop": "symlink", "out.md": "symlink"}
    write(tmp_path / "linked", "later.md", "# Later\n\ntoklater\n")
    notes.until_found("toklater", "later")
    running.client.vault_remove("t08")


@pytest.mark.skipif(IS_ROOT and SETPRIV is None, reason="T09 needs setpriv, or a user who is not root")
def test_t09_a_note_without_permission_is_told_and_read_when_it_has_it(tmp_path: Path) -> None:
    root = tmp_path / "notes"
    base_notes(root)
    (root / "n09.md").chmod(0)
    dropped = (f"--inh-caps={AS_ANYBODY}", f"--bounding-set={AS_ANYBODY}")
    under = (SETPRIV, *dropped) if IS_ROOT and SETPRIV is not None else ()
    with DaemonProcess(tmp_path / "home", under=under) as daemon:
        notes = Notes(daemon, root, "notes")
        notes.add()
        assert notes.failed() == {"n09.md": "permission_denied"}
        assert (daemon.status("notes").pages, daemon.status("notes").state) == (19, "ready")
        assert (notes.found("tok08zebra"), notes.found("tok09zebra")) == (["n08"], [])
        (root / "n09.md").chmod(0o600)
        notes.until_found("tok09zebra", "n09")
        assert notes.failed() == {}


def test_t10_odd_files_are_counted_with_their_reason_and_stop_nothing(daemon: DaemonProcess, tmp_path: Path) -> None:
    root = tmp_path / "notes"
    base_notes(root, 3)
    os.mkfifo(root / "pipe.md")
    (root / "folder.md").mkdir()
    write(root, "folder.md/inner.md", "# Inner\n\ntokinner\n")
    (root / "device.md").symlink_to("/dev/zero")
    (root / "dangling.md").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(root)
        listener.bind("socket.md")
        os.chdir(here)
    write(root, "CON.md", "# Device name\n\ntokdevice\n")
    write(root, "big.md", "# Big\n\n" + "word " * (1 << 20))
    write(root, ".obsidian/w.md", "hidden")
    write(root, "x.md.tmp-1-2", "temporary")
    write(root, "plan.sync-conflict-20261101-101500-ABCDEFG.md", "copy")
    daemon.add(root, "notes")
    status = daemon.status("notes")
    assert {each.path: each.reason for each in status.failed} == {"big.md": "document_limit_bytes"}
    assert {each.path: each.reason for each in status.skipped_paths} == {
        "pipe.md": "not_a_regular_file",
        "folder.md": "not_a_regular_file",
        "socket.md": "not_a_regular_file",
        "device.md": "symlink",
        "dangling.md": "symlink",
        ".obsidian": "hidden",
        "x.md.tmp-1-2": "temporary",
        "plan.sync-conflict-20261101-101500-ABCDEFG.md": "conflict_copy",
    }
    assert status.state == "ready"
    assert status.pages == 5
    assert daemon.found("tokdevice") == ["CON"]
    assert daemon.found("tokinner") == ["folder.md/inner"]
    assert daemon.found("tok02zebra") == ["n02"]


PLANS = ("plan", "plan-DESKTOP-AB12", "plan 2")
COPIES = ("plan.sync-conflict-20261101-101500-ABCDEFG", "plan (conflicted copy 2026-11-01)")


def test_t11_conflict_copies_are_left_out_and_told_and_names_that_may_be_none_stay(notes: Notes) -> None:
    for name in (*PLANS, *COPIES):
        write(notes.root, f"{name}.md", f"# {name}\n\nthe tokplan as it stood\n")
    notes.add()
    assert sorted(notes.found("tokplan")) == sorted(PLANS)
    assert notes.skipped() == {f"{name}.md": "conflict_copy" for name in COPIES}
    later = "plan (Ada's conflicted copy 2026-11-02).md"
    write(notes.root, later, "# later\n\nthe tokplan tokcopy\n")
    until(lambda: later in notes.skipped(), "the copy that appears later being told")
    assert notes.found("tokcopy") == []


def test_t12_hidden_folders_and_leftovers_of_editors_are_no_notes(notes: Notes) -> None:
    for path in (".obsidian/w.md", ".git/x.md", ".trash/o.md", "~$x.md", "#x.md#", "x.md.swp"):
        write(notes.root, path, "# Left\n\ntokleft\n")
    (notes.root / ".#x.md").symlink_to("user@host.123")
    notes.add()
    for path in (".obsidian/later.md", "~$later.md", "#later.md#", "later.md.swp"):
        write(notes.root, path, "# Left\n\ntokleft\n")
    write(notes.root, "last.md", "# Last\n\ntoklast\n")
    notes.until_found("toklast", "last")
    assert notes.found("tokleft") == []
    status = notes.daemon.status(notes.name)
    assert (status.pages, status.failed, status.state) == (21, (), "ready")


# -- suspended ---------------------------------------------------------------------------------------------------------


def test_t14_what_changed_while_the_daemon_was_suspended_is_found(notes: Notes) -> None:
    for number in range(50):
        write(notes.root, f"s{number}.md", f"# S\n\ntokbefore{number}\n")
    notes.add()
    generation = notes.daemon.status(notes.name).generation
    with notes.daemon.paused():
        for number in range(50):
            save_atomically(notes.root, f"s{number}.md", f"# S\n\ntokafter{number}\n")
        threading.Event().wait(SUSPENDED_SECONDS)
    for number in range(50):
        notes.until_found(f"tokafter{number}", f"s{number}")
    assert [notes.found(f"tokbefore{number}") for number in range(50)] == [[]] * 50
    status = until(lambda: (s := notes.daemon.status(notes.name)) and not s.stale and s, "being current")
    assert status.generation - generation < 50
    assert (status.watcher, status.watcher_reason) == ("watching", "")
    assert status.last_scan is not None
    assert datetime.fromisoformat(status.last_scan) <= datetime.now(UTC)


# -- long tables, open fences, endless lines ---------------------------------------------------------------------------


def test_t27_a_word_in_a_late_row_of_a_long_table_is_found_with_the_tables_header(notes: Notes) -> None:
    rows = [
        f"| part {number} | made of steel and glass in hall {number % 7} | {number * 31} |" for number in range(120)
    ]
    rows[118] = "| part 118 | toktablerow | 3658 |"
    table = "\n".join(["| Headname | Headmade | Headcost |", "|---|---|---|", *rows])
    write(notes.root, "table.md", f"# Table\n\n{table}\n")
    notes.add()
    answer = notes.daemon.client.recall("toktablerow", vault=notes.name, mode="lexical")
    item = answer.bundles[0].card or answer.bundles[0].evidence[0]
    assert item.page_id == "table"
    assert "Headname" in item.excerpt
    assert notes.found("toktablerow Headcost") == ["table"]


def test_t28_open_fences_endless_lines_and_joined_emoji_lose_nothing(notes: Notes) -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
    write(notes.root, "fence.md", "# Fence\n\n```\n" + "a line of code\n" * 200 + "toklastline\n")
    write(notes.root, "line.md", "# Line\n\n" + "x" * 1_000_000 + " tokendless\n")
    write(notes.root, "emoji.md", "# Emoji\n\n" + family * 4_000 + " tokfamily\n")
    before = notes.daemon.client.status().daemon.rss_bytes
    notes.add()
    for query, page_id in (("toklastline", "fence"), ("tokendless", "line"), ("tokfamily", "emoji")):
        assert notes.found(query) == [page_id]
        answer = notes.daemon.client.recall(query, vault=notes.name, mode="lexical")
        item = answer.bundles[0].card or answer.bundles[0].evidence[0]
        assert "\ufffd" not in item.excerpt
    assert notes.daemon.client.status().daemon.rss_bytes - before < 150 << 20
    assert notes.all_found()
