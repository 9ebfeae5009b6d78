"""Files that change without end, thousands at once, or megabytes at a time: what is written, and who waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builders import base_notes, page, until, write
from wikid_daemon import updater
from wikid_daemon.core import arrivals
from wikid_daemon.core.document import MAX_BYTES
from wikid_daemon.index import jvm, pages
from wikid_daemon.index.catalog_rows import NewPage
from wikid_daemon.indexer import Indexer
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import init_vault, open_vault

NEVER = 3_600.0
LARGE_SECONDS = 120.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "notes"
    base_notes(place)
    return place


@contextmanager
def opened(root: Path, home: Path) -> Iterator[Indexer]:
    vault = open_vault(root, name=None, state_home=home)
    running = Indexer(vault, machine_id(home), lambda: None, lambda _indexer: None, jvm.detach)
    running.start()
    running.sync(30)
    yield running
    running.close()


@pytest.fixture
def indexer(root: Path, tmp_path: Path) -> Iterator[Indexer]:
    with opened(root, tmp_path / "state") as running:
        yield running


@pytest.fixture
def resting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that was looked at rests for longer than any test runs."""
    monkeypatch.setattr(arrivals, "FIRST_REST", NEVER)
    monkeypatch.setattr(arrivals, "LONGEST_REST", NEVER)


def found(indexer: Indexer, query: str) -> list[str]:
    store = indexer.store
    assert store is not None
    loaded = store.load([hit.key for hit in store.lexical(query, 10)])
    return [each.page.page_id for each in loaded.values()]


def generation(indexer: Indexer, page_id: str) -> int:
    assert indexer.store is not None
    stored = indexer.store.catalog.page_by_id(page_id)
    assert stored is not None
    return stored.generation


def read_everything(indexer: Indexer) -> None:
    indexer.reindex(
        everything=True,
        lexical=True,
        vectors=False,
        force=False,
        progress=lambda _message, _share: None,
        cancelled=lambda: False,
    )


def append(root: Path, word: str) -> None:
    with (root / "log.md").open("a", encoding="utf-8") as log:
        log.write(f"- one more line, {word}\n")


@pytest.mark.usefixtures("resting")
def test_a_page_that_keeps_changing_is_written_once_while_other_pages_are_written_each_time(
    indexer: Indexer, root: Path
) -> None:
    numbers = iter(range(1_000))

    def was_written() -> bool:
        """Whether the log is written again before a note that is saved after it."""
        number, before = next(numbers), generation(indexer, "log")
        append(root, f"line{number}zebra")
        write(root, f"other{number}.md", f"# Other\n\nother{number}zebra")
        until(lambda: found(indexer, f"other{number}zebra"), "a note beside it")
        return generation(indexer, "log") != before

    append(root, "firstzebra")
    until(lambda: found(indexer, "firstzebra"), "the log's first line")
    # its rest begins with the first look at it alone
    until(lambda: not was_written(), "the log at rest")
    assert [was_written() for _ in range(10)] == [False] * 10
    assert indexer.stale


@pytest.mark.usefixtures("resting")
@pytest.mark.parametrize("strict", [False, True], ids=["by scan", "by marker"])
def test_sync_waits_for_no_rest(root: Path, tmp_path: Path, strict: bool) -> None:
    place = init_vault(tmp_path / "strict", "strict", "personal") if strict else root
    with opened(place, tmp_path / "state") as indexer:
        until(lambda: indexer.state.watch.mode == "watching", "the watcher")
        pages_root, lines = indexer.vault.pages_root, ""
        for number in range(5):
            lines += f"- line{number}zebra\n"
            write(pages_root, "concepts/steady.md", page(lines, title="Steady"))
            indexer.sync(30)
            assert found(indexer, f"line{number}zebra") == ["concepts/steady"]


def test_the_last_line_of_a_log_is_found_without_being_asked_for(indexer: Indexer, root: Path) -> None:
    for number in range(200):
        append(root, f"line{number}zebra")
        indexer.notice({"log.md"})
    until(lambda: found(indexer, "line199zebra"), "the last line")
    until(lambda: not indexer.stale, "nothing being due")


def test_a_save_amid_a_whole_look_does_not_wait_for_its_end(
    indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., NewPage] = pages.new_page
    saved: list[str] = []

    def new_page(path: str, *given: object, **more: object) -> NewPage:
        if not saved:
            saved.append(path)
            write(root, "late.md", "# Late\n\nlatezebra")
            indexer.notice({"late.md"})
        return real(path, *given, **more)

    monkeypatch.setattr(updater, "BATCH_PAGES", 2)
    monkeypatch.setattr("wikid_daemon.updater.new_page", new_page)
    read_everything(indexer)
    assert found(indexer, "latezebra") == ["late"]
    assert generation(indexer, "late") < max(generation(indexer, f"n{number:02}") for number in range(1, 21))


def test_pages_that_go_amid_a_whole_look_are_gone_after_it(
    indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., NewPage] = pages.new_page
    gone: list[str] = []

    def new_page(path: str, *given: object, **more: object) -> NewPage:
        if not gone:
            gone.extend(["n01.md", "n10.md", "n20.md"])
            for each in gone:
                (root / each).unlink()
            indexer.notice(set(gone))
        return real(path, *given, **more)

    monkeypatch.setattr(updater, "BATCH_PAGES", 2)
    monkeypatch.setattr("wikid_daemon.updater.new_page", new_page)
    read_everything(indexer)
    indexer.sync(30)
    assert indexer.store is not None
    kept = {f"n{number:02}" for number in range(1, 21)} - {"n01", "n10", "n20"}
    assert indexer.store.catalog.page_ids() == kept
    until(lambda: not indexer.stale, "nothing being due")


def test_a_page_of_four_megabytes_and_the_notes_beside_it_are_found(indexer: Indexer, root: Path) -> None:
    line = "The harbour keeps a ledger of every boat that enters, and each morning the warden walks along the quay.\n\n"
    head = "# Export\n\nlargezebra\n\n"
    write(root, "export.md", head + line * ((MAX_BYTES - len(head)) // len(line)))
    write(root, "small.md", "# Small\n\nsmallzebra")
    until(lambda: found(indexer, "smallzebra") == ["small"], "the small note", LARGE_SECONDS)
    until(lambda: "export" in found(indexer, "largezebra"), "the large page", LARGE_SECONDS)
    assert indexer.state.failed == {}
    (root / "export.md").unlink()
    indexer.sync(LARGE_SECONDS)
    assert found(indexer, "largezebra") == []
