"""Changes that the real watcher tells of, or cannot: one vault, its indexer and what is kept of the pages.

Tests named T… are the inputs of the list of known faults.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from builders import FakeEmbedder, base_notes, numbered_note, until, write
from wikid_daemon.health import vault_status
from wikid_daemon.index import jvm
from wikid_daemon.index.catalog_rows import StoredPage
from wikid_daemon.indexer import Indexer
from wikid_daemon.updater import Updater
from wikid_daemon.vault.canary import ProvenWatcher
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import open_vault
from wikid_daemon.vault.watcher import Notifier, Watcher, watch_folders

EIGHT_HOURS = 8 * 3_600
CHANGED = 50


class Watched:
    """An indexer that is left to its watcher, and the embedder it works with."""

    def __init__(self, root: Path, home: Path) -> None:
        self.fake = FakeEmbedder()
        vault = open_vault(root, name=None, state_home=home)
        self.indexer = Indexer(vault, machine_id(home), lambda: self.fake, lambda _: None, jvm.detach)
        self.indexer.start()
        until(self.settled, "the first scan and every vector")

    def settled(self) -> bool:
        indexer = self.indexer
        watched = indexer.state.watch.mode != "stopped"
        return watched and not indexer.stale and indexer.embedding_pending == 0

    def found(self, query: str) -> list[str]:
        store = self.indexer.store
        assert store is not None
        keys = [hit.key for hit in store.lexical(query, 10)]
        loaded = store.load(keys)
        return [loaded[key].page.page_id for key in keys if key in loaded]

    def page(self, page_id: str) -> StoredPage | None:
        store = self.indexer.store
        assert store is not None
        return store.catalog.page_by_id(page_id)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "notes"
    base_notes(place)
    return place


@pytest.fixture
def watch(root: Path, tmp_path: Path) -> Iterator[Callable[[], Watched]]:
    running: list[Watched] = []

    def watching() -> Watched:
        running.append(Watched(root, tmp_path / "state"))
        return running[-1]

    yield watching
    for each in running:
        each.indexer.close()


def test_t02_a_vim_save_is_an_edit_of_the_page_not_another_page(watch: Callable[[], Watched], root: Path) -> None:
    watched = watch()
    before = watched.page("n02")
    (root / "4913").touch()
    (root / "4913").unlink()
    (root / "n02.md").rename(root / "n02.md~")
    write(root, "n02.md", numbered_note(2) + "\nvimtok\n")
    (root / "n02.md~").unlink()
    until(lambda: watched.found("vimtok") == ["n02"], "the save")
    after = watched.page("n02")
    assert before is not None
    assert after is not None
    assert after.page == before.page


def test_t03_a_name_that_changes_its_case_is_not_embedded_again(watch: Callable[[], Watched], root: Path) -> None:
    write(root, "Notes.md", "# Notes\n\ntokcase\n")
    watched = watch()
    watched.fake.embedded.clear()
    (root / "Notes.md").rename(root / "notes.md")
    until(lambda: watched.found("tokcase") == ["notes"], "the new spelling alone")
    until(watched.settled, "being current")
    assert watched.fake.embedded == []


def test_t07_too_few_watches_mean_polling_and_the_remedy_in_status(
    watch: Callable[[], Watched], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        write(root, f"d{number}/n.md", f"# N\n\ntokdeep{number}\n")

    def start_notifier(folders: list[str]) -> Notifier:
        watch_folders(folders[:10]).close()
        raise OSError(errno.ENOSPC, "No space left on device")

    def limited(*given: object, **more: object) -> Watcher:
        return Watcher(*given, **more, start_notifier=start_notifier, poll_seconds=0.02)  # type: ignore[arg-type]

    monkeypatch.setattr("wikid_daemon.indexer.ProvenWatcher", partial(ProvenWatcher, new_watcher=limited))
    watched = watch()
    status = vault_status(watched.indexer)
    assert status.watcher == "polling"
    assert "sysctl fs.inotify.max_user_watches" in status.watcher_reason
    assert status.last_canary is None
    write(root, "d77/n.md", "# N\n\ntokpolled\n")
    (root / "d78" / "n.md").unlink()
    until(lambda: watched.found("tokpolled") == ["d77/n"], "the edit")
    until(lambda: watched.found("tokdeep78") == [], "the removal")


@pytest.mark.parametrize("moved", [EIGHT_HOURS, -EIGHT_HOURS])
def test_t14_the_wall_clock_may_be_moved(
    watch: Callable[[], Watched], root: Path, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    watched = watch()
    looks: list[float] = []
    look = Updater.look

    def counted(updater: Updater, **options: object) -> object:
        looks.append(time.monotonic())
        return look(updater, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Updater, "look", counted)
    clock, clock_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: clock() + moved)
    monkeypatch.setattr(time, "time_ns", lambda: clock_ns() + moved * 10**9)
    for number in range(CHANGED):
        write(root, f"later{number}.md", f"# Later\n\ntoklater{number}\n")
    until(
        lambda: all(watched.found(f"toklater{number}") == [f"later{number}"] for number in range(CHANGED)),
        "all of them",
    )
    until(watched.settled, "being current")
    write(root, "n01.md", numbered_note(1).replace("tok01zebra", "tok01other"))
    until(lambda: watched.found("tok01other") == ["n01"], "one more edit")
    until(watched.settled, "being current")
    assert len(looks) <= 3
    state = watched.indexer.state
    assert (state.state, state.watch.mode, state.watch.reason) == ("ready", "watching", "")
