"""The proof that a watcher lives: markers that come back, scans that find nothing untold, and what follows if not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from builders import page, until, write
from wikid_daemon.health import vault_status
from wikid_daemon.index import jvm
from wikid_daemon.indexer import Indexer
from wikid_daemon.updater import Updater
from wikid_daemon.vault.canary import ProvenWatcher
from wikid_daemon.vault.state import MARKERS, machine_id, prepare_tree
from wikid_daemon.vault.vault import Vault, init_vault, open_vault
from wikid_daemon.vault.watcher import EVERYTHING, Watcher, WatchState


class Puppet:
    """A watcher that reports what the test tells it to. Its markers never come back by themselves."""

    made: list[Puppet]

    def __init__(
        self,
        vault: Vault,
        on_change: Callable[[set[str]], None],
        on_state: Callable[[WatchState], None],
        *,
        on_marker: Callable[[str], None],
    ) -> None:
        self.change = on_change
        self.tell = on_state
        self.report = on_marker
        self.state = WatchState("watching")
        self.alive = False
        self.misses_markers = False
        self.dropped: list[str] = []
        self._marks = vault.state_outside is None
        self.made.append(self)

    def start(self) -> None:
        self.alive = True
        self.tell(WatchState("watching"))
        self.change({EVERYTHING})

    def close(self) -> None:
        self.alive = False
        self.tell(WatchState("stopped", "closed"))

    def drop_marker(self) -> str | None:
        if self._marks:
            self.dropped.append(f".sync-{len(self.dropped)}")
        return self.dropped[-1] if self._marks else None


class Proof:
    """A `ProvenWatcher` over puppets, without patience: what is asked is due at once."""

    def __init__(self, vault: Vault, patience: float = 0.0) -> None:
        self.states: list[WatchState] = []
        self.puppets: list[Puppet] = []
        kind = type("Kind", (Puppet,), {"made": self.puppets})
        self.watcher = ProvenWatcher(
            vault,
            lambda _: None,
            self.states.append,
            new_watcher=kind,
            canary_seconds=0.0,
            patience_seconds=patience,
        )
        self.watcher.start()


@pytest.fixture
def marked(tmp_path: Path) -> Vault:
    vault = open_vault(init_vault(tmp_path / "v", "t", "personal"), name=None, state_home=tmp_path / "state")
    prepare_tree(vault.state, b"{}")
    return vault


@pytest.fixture
def plain(tmp_path: Path) -> Vault:
    write(tmp_path, "notes/a.md", "# A\n")
    return open_vault(tmp_path / "notes", name=None, state_home=tmp_path / "state")


def test_a_marker_that_comes_back_is_a_proof(marked: Vault) -> None:
    proof = Proof(marked)
    proof.watcher.tend()
    unproven = proof.watcher.last_proof
    (puppet,) = proof.puppets
    puppet.report(puppet.dropped[0])
    assert unproven is None
    assert proof.watcher.last_proof is not None
    proof.watcher.tend()
    assert len(puppet.dropped) == 2
    assert (len(proof.puppets), proof.watcher.doubtful) == (1, False)


def test_two_markers_that_do_not_come_back_replace_the_watcher_and_are_told(marked: Vault) -> None:
    proof = Proof(marked)
    proof.watcher.tend()
    proof.watcher.tend()
    assert proof.watcher.doubtful
    assert len(proof.puppets) == 1
    proof.watcher.tend()
    first, second = proof.puppets
    assert [first.alive, second.alive] == [False, True]
    assert proof.states[-1].mode == "watching"
    assert "markers did not come back" in proof.states[-1].reason
    first.report(first.dropped[0])
    assert proof.watcher.last_proof is None


def test_a_slow_watcher_is_not_replaced(marked: Vault) -> None:
    proof = Proof(marked)
    (puppet,) = proof.puppets
    for _ in range(3):
        proof.watcher.tend()
        assert not proof.watcher.reached(0.0)
        puppet.report(puppet.dropped[-1])
        assert not proof.watcher.doubtful
    assert len(proof.puppets) == 1


def test_who_waits_for_a_marker_goes_on_when_it_comes(marked: Vault) -> None:
    proof = Proof(marked)
    (puppet,) = proof.puppets
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(proof.watcher.reached(30)))
    waiting.start()
    until(lambda: puppet.dropped, "a marker being dropped")
    puppet.report(puppet.dropped[0])
    waiting.join()
    assert answers == [True]


def test_a_watcher_whose_thread_ended_is_replaced(marked: Vault) -> None:
    proof = Proof(marked)
    proof.puppets[0].alive = False
    proof.watcher.tend()
    assert (len(proof.puppets), "its thread ended" in proof.states[-1].reason) == (2, True)


def test_a_watcher_that_misses_the_folder_of_its_markers_is_replaced(marked: Vault) -> None:
    proof = Proof(marked)
    proof.puppets[0].misses_markers = True
    proof.watcher.tend()
    assert (len(proof.puppets), "its markers" in proof.states[-1].reason) == (2, True)


def test_markers_left_by_a_crash_are_taken_away(marked: Vault) -> None:
    left = marked.state / MARKERS / ".sync-left"
    left.touch()
    Proof(marked)
    assert not left.exists()


def settled(proof: Proof) -> None:
    """Two comparisons, after which the look at everything that a new watcher asks for excuses nothing more."""
    proof.watcher.compare({"a.md", "b.md"})
    proof.watcher.compare({"a.md"})


def test_what_a_scan_finds_and_no_event_told_replaces_the_watcher(plain: Vault) -> None:
    proof = Proof(plain)
    settled(proof)
    proven = proof.watcher.last_proof
    proof.watcher.tend()
    assert (len(proof.puppets), proof.watcher.last_proof) == (1, proven)
    proof.watcher.compare({"a.md"})
    proof.watcher.tend()
    assert (len(proof.puppets), "a scan found" in proof.states[-1].reason) == (2, True)


@pytest.mark.parametrize("told", ["deep/a.md", "deep", EVERYTHING])
def test_what_was_told_before_or_is_told_soon_is_no_doubt(plain: Vault, told: str) -> None:
    proof = Proof(plain)
    settled(proof)
    (puppet,) = proof.puppets
    puppet.change({told})
    proof.watcher.compare({"deep/a.md"})
    proof.watcher.compare(set())
    proof.watcher.compare({"deep/a.md"})
    puppet.change({told})
    proof.watcher.tend()
    assert len(proof.puppets) == 1


def test_while_polling_nothing_is_compared(plain: Vault) -> None:
    proof = Proof(plain)
    settled(proof)
    proof.puppets[0].state = WatchState("polling", "a reason")
    proof.watcher.compare({"a.md"})
    proof.watcher.tend()
    assert len(proof.puppets) == 1


# -- the indexer over it -----------------------------------------------------------------------------------------------


class Deaf(Watcher):
    """Watches, and tells nobody."""

    def _report(self, batch: object) -> None:
        pass


Start = Callable[[Vault, Callable[..., ProvenWatcher]], Indexer]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    running: list[Indexer] = []

    def started(vault: Vault, proven: Callable[..., ProvenWatcher]) -> Indexer:
        monkeypatch.setattr("wikid_daemon.indexer.ProvenWatcher", proven)
        indexer = Indexer(vault, machine_id(tmp_path / "state"), lambda: None, lambda _: None, jvm.detach)
        running.append(indexer)
        indexer.start()
        until(lambda: indexer.state.watch.mode == "watching" and not indexer.stale, "the first scan")
        return indexer

    yield started
    for indexer in running:
        indexer.close()


def found(indexer: Indexer, query: str) -> bool:
    store = indexer.store
    return store is not None and bool(store.lexical(query, 1))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with every look at the whole vault."""
    seen: list[str] = []
    look = Updater.look

    def counted(updater: Updater, **options: object) -> object:
        seen.append("look")
        return look(updater, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Updater, "look", counted)
    return seen


def test_a_sync_waits_for_the_marker_and_scans_nothing(
    marked: Vault, start: Start, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wikid_daemon.indexer.MARKER_SECONDS", 30.0)
    indexer = start(marked, ProvenWatcher)
    indexer.sync(30)
    looks.clear()
    for number in range(10):
        write(marked.pages_root, f"concepts/n{number}.md", page(f"tokmarker{number}", title="N"))
        indexer.sync(30)
        assert found(indexer, f"tokmarker{number}")
    assert looks == []
    assert vault_status(indexer).last_canary is not None
    assert list((marked.state / MARKERS).iterdir()) == []


def test_a_sync_of_a_plain_folder_scans(plain: Vault, start: Start, looks: list[str]) -> None:
    indexer = start(plain, ProvenWatcher)
    looks.clear()
    write(plain.pages_root, "b.md", "# B\n\ntokplain\n")
    indexer.sync(30)
    assert found(indexer, "tokplain")
    assert looks == ["look"]


def test_a_sync_past_a_deaf_watcher_scans_and_the_watcher_is_replaced(
    marked: Vault, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wikid_daemon.indexer.MARKER_SECONDS", 0.05)
    kinds: list[type[Watcher]] = [Deaf, Watcher]

    def proven(*callbacks: object) -> ProvenWatcher:
        return ProvenWatcher(
            *callbacks,  # type: ignore[arg-type]
            # a busy machine may have it replaced more than once
            new_watcher=lambda *given, **more: (kinds.pop(0) if kinds[1:] else kinds[0])(*given, **more),
            patience_seconds=0.2,
        )

    indexer = start(marked, proven)
    write(marked.pages_root, "concepts/n.md", page("tokdeaf", title="N"))
    indexer.sync(30)
    assert found(indexer, "tokdeaf")
    until(lambda: indexer.state.watch.mode == "watching" and "replaced at" in indexer.state.watch.reason, "the new one")
    write(marked.pages_root, "concepts/m.md", page("tokheard", title="M"))
    until(lambda: found(indexer, "tokheard"), "the new one telling of a change")
    until(lambda: not indexer.stale, "the doubt being over")


def is_other(indexer: Indexer, proof: datetime | None) -> bool:
    return indexer.watcher.last_proof != proof


def test_a_deaf_watcher_of_a_plain_folder_is_found_out_by_a_scan(
    plain: Vault, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wikid_daemon.indexer.SCAN_SECONDS", 0.1)
    kinds: list[type[Watcher]] = [Deaf, Watcher]

    def proven(*callbacks: object) -> ProvenWatcher:
        return ProvenWatcher(
            *callbacks,  # type: ignore[arg-type]
            # a busy machine may have it replaced more than once
            new_watcher=lambda *given, **more: (kinds.pop(0) if kinds[1:] else kinds[0])(*given, **more),
            patience_seconds=0.2,
        )

    indexer = start(plain, proven)
    for _ in range(3):  # the look that the start asks for excuses two scans
        until(partial(is_other, indexer, indexer.watcher.last_proof), "one more scan")
    write(plain.pages_root, "b.md", "# B\n\ntokuntold\n")
    until(lambda: "a scan found" in indexer.state.watch.reason, "the replacement")
    assert found(indexer, "tokuntold")
