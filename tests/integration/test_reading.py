"""Files and folders that never answer, or whose content is in a cloud: told, kept as they were, and in nobody's way."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import HANG_GUARD_SECONDS, base_notes, numbered_note, until, write
from wikid_daemon import files, pages, updater
from wikid_daemon.core import manifest
from wikid_daemon.files import FileBytes
from wikid_daemon.health import vault_status
from wikid_daemon.index import jvm
from wikid_daemon.index.catalog_rows import NewPage
from wikid_daemon.index.store import Store
from wikid_daemon.indexer import Indexer
from wikid_daemon.updater import Cancelled
from wikid_daemon.vault import reading
from wikid_daemon.vault import scan as scanning
from wikid_daemon.vault import vault as vault_module
from wikid_daemon.vault.reading import READ_TIMED_OUT, READERS, ROUND_FILES, VaultReader
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import Vault, VaultError, open_vault
from wikid_daemon.vaults import Applied
from wikid_protocol.errors import RequestRefused
from wikid_protocol.methods import PageGetParams
from wikid_protocol.records import Page

NEVER = 1_000.0
PATHS = [f"n{number:02}.md" for number in range(1, 21)]

Make = Callable[..., Indexer]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "notes"
    base_notes(place)
    return place


@pytest.fixture
def vault(root: Path, tmp_path: Path) -> Vault:
    return open_vault(root, name=None, state_home=tmp_path / "state")


class Disk:
    """Stands between the reader and the files: reads of `silent` paths wait until `answer`."""

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.waiting: list[str] = []
        self.read: list[str] = []
        self.threads: set[str] = set()
        self._answers = threading.Event()

    def answer(self) -> None:
        self.silent.clear()
        self._answers.set()

    def read_page(self, vault: Vault, path: str, limit: int) -> FileBytes:
        found = vault_module.read_page(vault, path, limit)
        self.read.append(path)
        self.threads.add(threading.current_thread().name)
        if path in self.silent:
            self.waiting.append(path)
            self._answers.wait(HANG_GUARD_SECONDS)
        return found


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Limits are short and retries come at once, without end."""
    standing = Disk()
    monkeypatch.setattr(reading, "read_page", standing.read_page)
    monkeypatch.setattr(reading, "READ_SECONDS", 0.3)
    monkeypatch.setattr(updater, "RETRY_SECONDS", (0.05,) * 1_000)
    yield standing
    standing.answer()


@pytest.fixture
def make(vault: Vault, tmp_path: Path, disk: Disk) -> Iterator[Make]:
    """Starts the vault's indexer; unless it should not, waits for its first look."""
    running: list[Indexer] = []

    def made(*, wait: bool = True) -> Indexer:
        indexer = Indexer(vault, machine_id(tmp_path / "state"), lambda: None, lambda _indexer: None, jvm.detach)
        running.append(indexer)
        indexer.start()
        if wait:
            indexer.sync(HANG_GUARD_SECONDS)
        return indexer

    yield made
    disk.answer()
    for indexer in running:
        indexer.close()


def found(indexer: Indexer, word: str) -> bool:
    store = indexer.store
    return store is not None and bool(store.lexical(word, 10))


def words(numbers: list[int]) -> list[str]:
    return [f"tok{number:02}zebra" for number in numbers]


# -- the indexer -------------------------------------------------------------------------------------------------------


def test_of_many_notes_one_hangs_and_is_told_and_the_others_are_served(make: Make, disk: Disk) -> None:
    disk.silent = {"n09.md"}
    indexer = make()
    others = words([number for number in range(1, 21) if number != 9])
    until(lambda: all(found(indexer, word) for word in others), "the others being searchable")
    until(lambda: indexer.state.failed == {"n09.md": "read_timed_out"}, "the failure being told alone")
    status = vault_status(indexer)
    assert (status.state, status.stale) == ("ready", True)
    assert [(each.path, each.reason) for each in status.failed] == [("n09.md", "read_timed_out")]
    disk.answer()
    until(lambda: found(indexer, "tok09zebra"), "the retry")
    until(lambda: indexer.state.failed == {}, "nothing failing any more")


def test_a_note_that_hangs_holds_one_thread_however_often_it_is_tried(make: Make, disk: Disk) -> None:
    disk.silent = {"n09.md"}
    indexer = make()
    for number in range(30, 36):
        write(indexer.vault.root, f"n{number}.md", f"# Later\n\ntok{number}zebra\n")
        indexer.sync(HANG_GUARD_SECONDS)
        until(lambda word=f"tok{number}zebra": found(indexer, word), "what was saved meanwhile")  # type: ignore[misc]
    assert disk.waiting == ["n09.md"]


def test_a_disk_that_answers_no_read_fails_them_all_and_is_read_once_it_does(make: Make, disk: Disk) -> None:
    disk.silent = set(PATHS)
    with structlog.testing.capture_logs() as logged:
        indexer = make()
        until(lambda: len(indexer.state.failed) == 20, "every failure being told")
    assert set(indexer.state.failed.values()) == {"read_timed_out"}
    assert len(disk.waiting) <= READERS
    told = [each for each in logged if each["event"] == "file_not_read"]
    assert sum(each["count"] for each in told) >= 20 > len(told)
    disk.answer()
    until(lambda: all(found(indexer, word) for word in words(list(range(1, 21)))), "every note being read")
    until(lambda: indexer.state.failed == {}, "nothing failing any more")


def test_a_page_whose_file_hangs_is_kept_as_it_was(make: Make, disk: Disk, root: Path) -> None:
    indexer = make()
    disk.silent = {"n09.md"}
    write(root, "n09.md", "# Changed\n\ntokchanged\n")
    indexer.sync(HANG_GUARD_SECONDS)
    until(lambda: indexer.state.failed == {"n09.md": "read_timed_out"}, "the failure being told")
    assert found(indexer, "tok09zebra")
    disk.answer()
    until(lambda: found(indexer, "tokchanged") and not found(indexer, "tok09zebra"), "the change")


def test_what_a_late_read_brings_is_dropped(make: Make, disk: Disk, root: Path) -> None:
    disk.silent = {"n09.md"}
    indexer = make()
    until(lambda: indexer.state.failed.get("n09.md") == "read_timed_out", "the read being given up")
    write(root, "n09.md", "# Newer\n\ntoknewer\n")
    disk.answer()
    until(lambda: found(indexer, "toknewer"), "the newer text")
    indexer.sync(HANG_GUARD_SECONDS)
    assert not found(indexer, "tok09zebra")


def test_closing_does_not_wait_for_a_read_that_hangs(make: Make, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "READ_SECONDS", NEVER)
    disk.silent = {"n09.md"}
    indexer = make(wait=False)
    until(lambda: disk.waiting, "the read that hangs")
    indexer.close()
    assert not indexer.closing
    with pytest.raises(Cancelled):
        indexer.sync(1)


@pytest.mark.parametrize("retries", [(0.05,) * 1_000, ()], ids=["retry", "scan"])
def test_a_full_reindex_goes_past_a_note_that_hangs_and_reads_it_later(
    make: Make, disk: Disk, monkeypatch: pytest.MonkeyPatch, retries: tuple[float, ...]
) -> None:
    monkeypatch.setattr(updater, "RETRY_SECONDS", retries)
    monkeypatch.setattr(manifest, "RACY_WINDOW_NS", 0)  # no stamp tells that the note should be read
    indexer = make()
    disk.silent = {"n09.md"}
    options = {"progress": lambda _words, _share: None, "cancelled": lambda: False}
    for lexical in (False, True):  # in place, and anew
        indexer.reindex(everything=True, lexical=lexical, vectors=False, force=True, **options)  # type: ignore[arg-type]
        assert all(found(indexer, word) for word in words(list(range(1, 21))))
    until(lambda: indexer.state.failed == {"n09.md": "read_timed_out"}, "the failure being told")
    disk.answer()

    def mended() -> bool:
        if not retries:
            indexer.notice({""})
        return indexer.state.failed == {}

    until(mended, "nothing failing any more")


def test_large_notes_are_published_before_a_batch_is_full(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    together: list[int] = []
    apply = Store.apply

    def counted(store: Store, pages: Sequence[NewPage], removed: Sequence[str]) -> object:
        together.append(len(pages))
        return apply(store, pages, removed)

    monkeypatch.setattr(Store, "apply", counted)
    monkeypatch.setattr(updater, "BATCH_BYTES", 3 * len(numbered_note(1)))
    indexer = make()
    until(lambda: sum(together) >= 20, "every note")
    assert max(together) <= 4
    assert all(found(indexer, word) for word in words(list(range(1, 21))))


# -- the folder --------------------------------------------------------------------------------------------------------


def test_a_folder_that_does_not_answer_is_unavailable_and_nothing_is_pruned(
    make: Make, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LOOK_SECONDS", 0.3)
    indexer = make()
    until(lambda: indexer.state.state == "ready", "the first look")
    answers = threading.Event()

    def silent(walk: scanning._Walk, start: str) -> None:
        answers.wait(HANG_GUARD_SECONDS)
        real(walk, start)

    real = scanning._Walk.folder
    monkeypatch.setattr(scanning._Walk, "folder", silent)
    (root / "n01.md").unlink()
    try:
        indexer.notice({""})
        until(lambda: indexer.state.state == "unavailable", "the folder being missed")
        assert indexer.state.reason == "not_answering"
        indexer.sync(HANG_GUARD_SECONDS)
        with pytest.raises(VaultError):
            indexer.reindex(
                everything=False,
                lexical=True,
                vectors=False,
                force=False,
                progress=lambda _words, _share: None,
                cancelled=lambda: False,
            )
        assert found(indexer, "tok01zebra")
    finally:
        answers.set()

    def ready() -> bool:
        indexer.sync(HANG_GUARD_SECONDS)
        return indexer.state.state == "ready"

    until(ready, "the folder answering")
    assert not found(indexer, "tok01zebra")


def test_closing_does_not_wait_for_a_folder_that_hangs(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LOOK_SECONDS", NEVER)
    entered, answers = threading.Event(), threading.Event()

    def silent(_walk: scanning._Walk, _start: str) -> None:
        entered.set()
        answers.wait(HANG_GUARD_SECONDS)

    monkeypatch.setattr(scanning._Walk, "folder", silent)
    try:
        indexer = make(wait=False)
        assert entered.wait(HANG_GUARD_SECONDS)
        indexer.close()
        assert not indexer.closing
    finally:
        answers.set()


# -- one page ----------------------------------------------------------------------------------------------------------


def shown(indexer: Indexer, page_id: str) -> str:
    """The text of the page, or the kind of the refusal."""
    try:
        return pages.get(PageGetParams(page_id=page_id), [Applied(indexer, "project", "")], "m").text
    except RequestRefused as refused:
        return refused.kind


def test_a_page_that_is_too_long_for_one_answer_says_where_to_ask_on(
    make: Make, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["---", "title: Long", "---", *(f"line {number}" for number in range(4, 24)), "x" * 200, "the end"]
    (root / "long.md").write_text("\n".join(lines))
    indexer = make()
    monkeypatch.setattr(pages, "PAGE_TEXT_CODE_POINTS", 100)

    def asked(**params: Any) -> Page:
        return pages.get(PageGetParams(page_id="long", **params), [Applied(indexer, "project", "")], "m")

    whole, at = list[str](), 1
    while True:
        page = asked(from_line=at)
        assert len(page.text) <= 100
        whole += page.text.split("\n")
        if page.next_line is None:
            break
        assert page.next_line > page.from_line
        at = page.next_line
    # a line that is longer by itself is cut
    assert whole == [*lines[3:23], "x" * 100, "the end"]
    # what was not asked for is not missing
    assert asked(max_lines=3).next_line is None
    assert [asked(from_line=line).next_line for line in (25, 1_000)] == [None, None]


def test_a_page_that_very_many_link_to_lists_the_first_and_tells_how_many(
    make: Make, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "hub.md").write_text("# Hub\n")
    for number in range(5):
        (root / f"spoke{number}.md").write_text("See [[hub]].\n")
    indexer = make()
    monkeypatch.setattr(pages, "PAGE_BACKLINKS", 3)
    page = pages.get(PageGetParams(page_id="hub"), [Applied(indexer, "project", "")], "m")
    assert page.backlinks == ("spoke0", "spoke1", "spoke2")
    assert page.backlinks_total == 5


def test_a_page_whose_file_hangs_is_refused_and_the_others_are_shown(make: Make, disk: Disk, root: Path) -> None:
    indexer = make()
    disk.silent = {"n09.md"}
    for _ in range(READERS + 1):
        assert shown(indexer, "n09") == "vault_unavailable"
    assert len(disk.waiting) <= 2  # the indexer may have begun to read it, too
    until(lambda: "tok10zebra" in shown(indexer, "n10"), "another page")
    (root / "n11.md").unlink()
    until(lambda: shown(indexer, "n11") == "page_not_found", "a page that was deleted")
    disk.answer()
    until(lambda: "tok09zebra" in shown(indexer, "n09"), "the page")


# -- the reader --------------------------------------------------------------------------------------------------------


@pytest.fixture
def many(root: Path) -> list[str]:
    """More files than two rounds, in no order of names."""
    paths = [f"m{number * 7 % 100:02}.md" for number in range(3 * ROUND_FILES)]
    for path in paths:
        write(root, path, path)
    return paths


@pytest.mark.parametrize("slow", [0.0, NEVER])
def test_results_come_in_the_order_asked_for(
    vault: Vault, many: list[str], disk: Disk, monkeypatch: pytest.MonkeyPatch, slow: float
) -> None:
    monkeypatch.setattr(reading, "SLOW_SECONDS", slow)
    disk.silent = {many[3], many[ROUND_FILES + 5], many[ROUND_FILES + 6]}
    gone = many[ROUND_FILES + 1]
    (vault.root / gone).unlink()
    results = list(VaultReader(vault).pages(many))
    assert [path for path, _ in results] == many
    read = {path: each.data.decode() for path, each in results if isinstance(each, FileBytes)}
    assert all(path == text for path, text in read.items())
    refused = {path: each for path, each in results if isinstance(each, str)}
    assert refused[gone] == "vanished"
    assert disk.silent <= {path for path, word in refused.items() if word == READ_TIMED_OUT}


def test_a_fast_disk_is_read_by_one_thread(
    vault: Vault, many: list[str], disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SLOW_SECONDS", NEVER)
    monkeypatch.setattr(reading, "READ_SECONDS", NEVER)
    in_hand = []
    for _ in VaultReader(vault).pages(many):
        in_hand.append(len(disk.read))
    assert in_hand == [ROUND_FILES * (1 + at // ROUND_FILES) for at in range(len(many))]


def test_a_slow_disk_is_read_by_all_threads_at_once(
    vault: Vault, many: list[str], disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(reading, "READ_SECONDS", NEVER)
    together = threading.Barrier(READERS)

    def read_page(vault: Vault, path: str, limit: int) -> FileBytes:
        if len(disk.read) >= ROUND_FILES:  # the first round tells that it is slow
            together.wait(HANG_GUARD_SECONDS)
        return disk.read_page(vault, path, limit)

    monkeypatch.setattr(reading, "read_page", read_page)
    assert all(isinstance(each, FileBytes) for _, each in VaultReader(vault).pages(many))


@settings(deadline=None, max_examples=30)
@given(st.sets(st.sampled_from(PATHS)), st.sets(st.sampled_from(PATHS)))
def test_what_is_gone_is_what_was_asked_for_and_is_not_there(there: set[str], asked: set[str]) -> None:
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        patched.setattr(reading, "GLANCE_SECONDS", NEVER)
        root = Path(folder).resolve()
        for path in there:
            write(root, path, "")
        reader = VaultReader(open_vault(root, name=None, state_home=root / "state"))
        assert set(reader.gone(asked)) == asked - there
        reader.close()
        assert not reader.gone(asked)


# -- content that is not on this machine -------------------------------------------------------------------------------


class Placeholder:
    """The status of a file whose content is in a cloud, as macOS or Windows tells it."""

    def __init__(self, status: os.stat_result, **flags: int) -> None:
        self._status = status
        self.__dict__.update(flags)

    def __getattr__(self, name: str) -> int:
        value: int = getattr(self._status, name)
        return value


PLACEHOLDERS = [
    {"st_flags": 0x40000000},
    {"st_file_attributes": 0x00400020},
    {"st_file_attributes": 0x00040020},
    {"st_file_attributes": 0x00001020},
]


def in_cloud(monkeypatch: pytest.MonkeyPatch, path: Path, flags: dict[str, int]) -> list[str]:
    """Makes the file a placeholder; the returned list has every file that is opened."""
    lstat, open_, opened = os.lstat, os.open, list[str]()

    def placeholder(place: Path) -> object:
        status = lstat(place)
        return Placeholder(status, **flags) if Path(place) == path else status

    def noted(place: Path, *more: int) -> int:
        opened.append(os.fspath(place))
        return open_(place, *more)

    monkeypatch.setattr(os, "lstat", placeholder)
    monkeypatch.setattr(os, "open", noted)
    return opened


@pytest.mark.parametrize("flags", PLACEHOLDERS)
def test_a_placeholder_is_never_opened(root: Path, monkeypatch: pytest.MonkeyPatch, flags: dict[str, int]) -> None:
    opened = in_cloud(monkeypatch, root / "n09.md", flags)
    with pytest.raises(files.NotDownloaded):
        files.read_regular(root / "n09.md", 10_000)
    assert opened == []
    assert files.read_regular(root / "n10.md", 10_000).data


def test_files_with_other_flags_are_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_cloud(monkeypatch, root / "n09.md", {"st_flags": 0x00000040, "st_file_attributes": 0x00000020})
    assert files.read_regular(root / "n09.md", 10_000).data


def test_a_note_in_a_cloud_is_told_and_read_once_it_is_here(
    make: Make, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        opened = in_cloud(patched, root / "n09.md", PLACEHOLDERS[0])
        indexer = make()
        indexer.sync(HANG_GUARD_SECONDS)
        until(lambda: indexer.state.failed == {"n09.md": "not_downloaded"}, "the failure being told alone")
        assert found(indexer, "tok10zebra")
        assert os.fspath(root / "n09.md") not in opened
    indexer.notice({""})
    until(lambda: found(indexer, "tok09zebra"), "the look after the download")
    until(lambda: indexer.state.failed == {}, "nothing failing any more")


def test_a_note_that_went_into_a_cloud_keeps_its_page(make: Make, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    indexer = make()
    until(lambda: found(indexer, "tok09zebra"), "the note")
    in_cloud(monkeypatch, root / "n09.md", PLACEHOLDERS[0])
    os.utime(root / "n09.md")
    indexer.notice({""})
    until(lambda: indexer.state.failed == {"n09.md": "not_downloaded"}, "the failure being told")
    assert found(indexer, "tok09zebra")
