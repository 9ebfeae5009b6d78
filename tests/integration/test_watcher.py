"""Batches of changes from real events, and what is done when events fail."""

import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wikid_daemon.vault import watcher as watching
from wikid_daemon.vault.state import prepare_tree
from wikid_daemon.vault.vault import Vault, init_vault, open_vault
from wikid_daemon.vault.watcher import EVERYTHING, Notifier, Watcher, WatchState, watch_folders

HANG_SECONDS = 30


class Watched:
    """A watcher and what it has reported so far."""

    def __init__(self, vault: Vault, **options: object) -> None:
        self.batches: list[set[str]] = []
        self.states: list[WatchState] = []
        self.markers: list[tuple[str, set[str]]] = []
        self._changed = threading.Condition()
        self.watcher = Watcher(vault, self._change, self._state, on_marker=self._marker, **options)  # type: ignore[arg-type]
        self.watcher.start()

    def _change(self, batch: set[str]) -> None:
        with self._changed:
            self.batches.append(batch)
            self._changed.notify_all()

    def _state(self, state: WatchState) -> None:
        with self._changed:
            self.states.append(state)
            self._changed.notify_all()

    def _marker(self, name: str) -> None:
        with self._changed:
            self.markers.append((name, set().union(*self.batches)))
            self._changed.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, HANG_SECONDS), (self.states, self.batches)

    def seen(self) -> set[str]:
        return set().union(*self.batches)

    def wait_for(self, *paths: str) -> None:
        self.wait(lambda: set(paths) <= self.seen())

    def forget(self) -> None:
        with self._changed:
            self.batches.clear()


Start = Callable[..., Watched]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "deep" / "er").mkdir(parents=True)
    for name in ("a.md", "b.md", "deep/c.md", "deep/er/d.md"):
        (folder / name).write_text(f"# {name}")
    return folder


@pytest.fixture
def vault(notes: Path, tmp_path: Path) -> Vault:
    return open_vault(notes, name=None, state_home=tmp_path / "state")


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[Watched] = []

    def begin(vault: Vault, *, mode: str = "watching", **options: object) -> Watched:
        watched = Watched(vault, **options)
        running.append(watched)
        watched.wait(lambda: watched.watcher.state.mode == mode and bool(watched.batches))
        assert watched.batches[0] == {EVERYTHING}
        watched.forget()
        return watched

    yield begin
    for watched in running:
        watched.watcher.close()


def test_saved_made_renamed_and_deleted_pages_are_reported(start: Start, vault: Vault, notes: Path) -> None:
    watched = start(vault)
    (notes / "a.md").write_text("changed")
    (notes / "deep" / "er" / "new.md").write_text("new")
    (notes / "b.md").rename(notes / "deep" / "moved.md")
    (notes / "deep" / "c.md").unlink()
    watched.wait_for("a.md", "deep/er/new.md", "b.md", "deep/moved.md", "deep/c.md")
    assert watched.seen() == {"a.md", "deep/er/new.md", "b.md", "deep/moved.md", "deep/c.md"}


def test_atomic_saves_never_report_the_temporary_name(start: Start, vault: Vault, notes: Path) -> None:
    watched = start(vault)
    for number in range(20):
        for temporary in (f".a.md.tmp{number}", f"a.md.tmp-{number}-ab"):
            (notes / temporary).write_text(f"atomic{number}")
            os.replace(notes / temporary, notes / "a.md")
    (notes / "last.md").write_text("x")
    watched.wait_for("a.md", "last.md")
    assert watched.seen() == {"a.md", "last.md"}


def test_a_vim_save_reports_the_page_alone(start: Start, vault: Vault, notes: Path) -> None:
    watched = start(vault)
    (notes / "4913").touch()
    (notes / "4913").unlink()
    (notes / "b.md").rename(notes / "b.md~")
    (notes / "b.md").write_text("vimtok")
    (notes / "b.md~").unlink()
    (notes / "last.md").write_text("x")
    watched.wait_for("b.md", "last.md")
    assert watched.seen() <= {"b.md", "last.md", "4913"}
    assert "b.md~" not in watched.seen()


def test_made_and_moved_folders_are_reported_and_then_watched(start: Start, vault: Vault, notes: Path) -> None:
    watched = start(vault)
    (notes / "made" / "inner").mkdir(parents=True)
    watched.wait_for("made")
    (notes / "made" / "inner" / "x.md").write_text("x")
    watched.wait_for("made/inner/x.md")
    (notes / "deep").rename(notes / "moved")
    watched.wait_for("deep", "moved")
    (notes / "moved" / "er" / "d.md").write_text("x")
    watched.wait_for("moved/er/d.md")
    shutil.rmtree(notes / "moved")
    watched.wait_for("moved")


def test_hidden_folders_are_not_reported(start: Start, vault: Vault, notes: Path) -> None:
    watched = start(vault)
    (notes / ".git" / "refs").mkdir(parents=True)
    (notes / ".git" / "refs" / "x.md").write_text("x")
    (notes / "last.md").write_text("x")
    watched.wait_for("last.md")
    assert watched.seen() == {"last.md"}


def test_changes_behind_a_symlink_are_not_watched(start: Start, vault: Vault, notes: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (notes / "link").symlink_to(tmp_path / "outside")
    (notes / "loop").symlink_to("..")
    watched = start(vault)
    (tmp_path / "outside" / "x.md").write_text("x")
    (notes / "last.md").write_text("x")
    watched.wait_for("last.md")
    assert watched.seen() == {"last.md"}


def test_many_changes_arrive_as_few_batches(start: Start, vault: Vault, notes: Path) -> None:
    watched = start(vault)
    names = {f"n{number}.md" for number in range(500)}
    for name in names:
        (notes / name).write_text("x")
    watched.wait_for(*names)
    assert len(watched.batches) < 50


def test_a_marker_is_reported_after_the_changes_before_it(start: Start, tmp_path: Path) -> None:
    vault = open_vault(init_vault(tmp_path / "v", "t", "personal"), name=None, state_home=tmp_path / "state")
    prepare_tree(vault.state, b"{}")
    watched = start(vault)
    for number in range(10):
        page = f"concepts/n{number}.md"
        (vault.pages_root / page).write_text("x")
        name = watched.watcher.drop_marker()
        assert name is not None
        watched.wait(lambda name=name: any(seen == name for seen, _ in watched.markers))  # type: ignore[misc]
        assert page in next(before for seen, before in watched.markers if seen == name)
    assert os.listdir(vault.state / "markers") == []
    assert watched.seen() == {f"concepts/n{number}.md" for number in range(10)}


def test_generated_files_in_the_vault_cause_no_batches(start: Start, tmp_path: Path) -> None:
    vault = open_vault(init_vault(tmp_path / "v", "t", "personal"), name=None, state_home=tmp_path / "state")
    prepare_tree(vault.state, b"{}")
    watched = start(vault)
    (vault.state / "current").mkdir()
    (vault.state / "current" / "x.md").write_text("x")
    (vault.pages_root / "concepts" / "last.md").write_text("x")
    watched.wait_for("concepts/last.md")
    assert watched.seen() == {"concepts/last.md"}


def test_a_plain_folder_has_no_markers(start: Start, vault: Vault) -> None:
    assert start(vault).watcher.drop_marker() is None


def limited(allowed: list[int]) -> Callable[[list[str]], Notifier]:
    def start_notifier(folders: list[str]) -> Notifier:
        if len(folders) > allowed[0]:
            raise OSError("OS file watch limit reached.")
        return watch_folders(folders)

    return start_notifier


def test_too_few_watches_mean_polling_with_a_remedy(start: Start, vault: Vault, notes: Path) -> None:
    watched = start(vault, mode="polling", start_notifier=limited([1]), poll_seconds=0.02)
    assert "sysctl fs.inotify.max_user_watches" in watched.watcher.state.reason
    (notes / "deep" / "er" / "d.md").write_text("changed")
    (notes / "a.md").unlink()
    (notes / "new").mkdir()
    (notes / "new" / "x.md").write_text("x")
    watched.wait_for("deep/er/d.md", "a.md", "new/x.md")
    assert EVERYTHING not in watched.seen()


def test_events_are_used_again_once_they_work(
    start: Start, vault: Vault, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_FIRST_RETRY_SECONDS", 0.02)
    allowed = [1]
    watched = start(vault, mode="polling", start_notifier=limited(allowed), poll_seconds=0.02)
    allowed[0] = 100
    watched.wait(lambda: watched.watcher.state == WatchState("watching"))
    watched.wait_for(EVERYTHING)
    (notes / "a.md").write_text("changed")
    watched.wait_for("a.md")


def test_a_limit_met_while_watching_means_polling(start: Start, vault: Vault, notes: Path) -> None:
    watched = start(vault, start_notifier=limited([3]), poll_seconds=0.02)
    (notes / "one-more").mkdir()
    watched.wait(lambda: watched.watcher.state.mode == "polling")
    (notes / "one-more" / "x.md").write_text("x")
    watched.wait(lambda: bool({EVERYTHING, "one-more/x.md"} & watched.seen()))


class Broken:
    """A notifier that fails at the first wait, as watchfiles does after an internal error."""

    def watch(self, *_: object) -> set[tuple[int, str]]:
        raise RuntimeError("text that names a note")

    def close(self) -> None:
        pass


def test_a_failing_notifier_is_started_again_and_never_hidden(
    start: Start, vault: Vault, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_FIRST_RETRY_SECONDS", 0.02)
    starts: list[int] = []

    def start_notifier(folders: list[str]) -> Notifier:
        starts.append(1)
        return Broken() if len(starts) < 3 else watch_folders(folders)

    watched = start(vault, mode="polling", start_notifier=start_notifier, poll_seconds=0.02)
    assert "note" not in watched.states[1].reason
    assert "RuntimeError" in watched.states[1].reason
    watched.wait(lambda: len(starts) == 3 and watched.watcher.state.mode == "watching")
    (notes / "a.md").write_text("changed")
    watched.wait_for("a.md")


def test_a_root_that_goes_away_stops_the_watch_until_it_is_back(
    start: Start, vault: Vault, notes: Path, tmp_path: Path
) -> None:
    watched = start(vault, poll_seconds=0.02)
    notes.rename(tmp_path / "away")
    watched.wait(lambda: watched.watcher.state.mode == "stopped")
    assert "root_missing" in watched.watcher.state.reason
    watched.forget()
    (tmp_path / "away").rename(notes)
    watched.wait(lambda: watched.watcher.state.mode == "watching")
    watched.wait_for(EVERYTHING)
    (notes / "a.md").write_text("changed")
    watched.wait_for("a.md")


def test_a_root_replaced_from_further_up_is_watched_anew(start: Start, tmp_path: Path) -> None:
    for name in ("here", "other"):
        (tmp_path / name / "notes").mkdir(parents=True)
        (tmp_path / name / "notes" / "a.md").write_text(name)
    vault = open_vault(tmp_path / "here" / "notes", name=None, state_home=tmp_path / "state")
    watched = start(vault)
    (tmp_path / "here").rename(tmp_path / "away")
    (tmp_path / "other").rename(tmp_path / "here")
    watched.wait_for(EVERYTHING)
    (tmp_path / "here" / "notes" / "a.md").write_text("changed")
    watched.wait_for("a.md")


def test_a_network_file_system_is_polled(
    start: Start, vault: Vault, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "network_filesystem", lambda _: "nfs4")
    watched = start(vault, mode="polling", poll_seconds=0.02)
    assert watched.watcher.state.reason.startswith("nfs4")
    (notes / "a.md").write_text("changed")
    watched.wait_for("a.md")


class Scripted:
    """A notifier that hands out prepared events, one set for each wait, once ``ready`` is set."""

    def __init__(self, ready: threading.Event, *answers: set[tuple[int, str]]) -> None:
        self._ready = ready
        self._answers = list(answers)

    def watch(
        self, _debounce_ms: int, _step_ms: int, _timeout_ms: int, stop_event: threading.Event | None, /
    ) -> set[tuple[int, str]]:
        if self._ready.is_set() and self._answers:
            return self._answers.pop(0)
        if stop_event is not None:
            stop_event.wait(0.02)
        return set()

    def close(self) -> None:
        pass


def test_a_flood_of_events_means_looking_at_everything(start: Start, vault: Vault, notes: Path) -> None:
    ready = threading.Event()
    flood = {(2, str(notes / f"{number}.md")) for number in range(5_000)}
    notifiers = [Scripted(ready, flood), Scripted(ready, {(2, str(notes / "a.md"))})]
    watched = start(vault, start_notifier=lambda _: notifiers.pop(0))
    ready.set()
    watched.wait_for(EVERYTHING, "a.md")
    assert watched.seen() == {EVERYTHING, "a.md"}


def test_events_that_arrive_while_folders_are_listed_again_are_kept(start: Start, vault: Vault, notes: Path) -> None:
    ready = threading.Event()
    made = {(1, str(notes / "deep"))}
    late = {(2, str(notes / "a.md")), (1, str(notes / "deep" / "er"))}
    notifiers = [Scripted(ready, made, late), Scripted(ready), Scripted(ready, {(2, str(notes / "b.md"))})]
    watched = start(vault, start_notifier=lambda _: notifiers.pop(0))
    ready.set()
    watched.wait_for("deep", "a.md", "deep/er", "b.md")
    assert (notifiers, EVERYTHING in watched.seen()) == ([], False)


def test_folders_that_never_settle_mean_looking_at_everything(start: Start, vault: Vault, notes: Path) -> None:
    ready = threading.Event()
    made = {(1, str(notes / "deep"))}
    watched = start(vault, start_notifier=lambda _: Scripted(ready, made, made))
    ready.set()
    watched.wait_for(EVERYTHING)
    watched.watcher.close()
    assert watched.watcher.state == WatchState("stopped", "closed")


def test_waking_after_sleep_means_looking_at_everything(
    start: Start, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = start(vault)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3_600)
    watched.wait_for(EVERYTHING)


def test_closing_ends_the_thread_and_says_so(vault: Vault) -> None:
    states: queue.Queue[WatchState] = queue.Queue()
    watcher = Watcher(vault, lambda _: None, states.put)
    watcher.start()
    assert states.get(timeout=HANG_SECONDS).mode == "watching"
    watcher.close()
    assert states.get(timeout=HANG_SECONDS) == WatchState("stopped", "closed")
    assert not any(thread.name == "watch-notes" for thread in threading.enumerate())
    watcher.close()


def test_a_watcher_that_was_never_started_can_be_closed(vault: Vault) -> None:
    watcher = Watcher(vault, lambda _: None, lambda _: None)
    watcher.close()
    assert watcher.state.mode == "stopped"
