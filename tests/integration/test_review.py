"""Trouble around an index: it cannot be opened, a crash, folders and settings that change, names that clash."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from builders import (
    HANG_GUARD_SECONDS,
    NO_RERANKER,
    Clock,
    FakeEmbedder,
    base_notes,
    default_settings,
    numbered_note,
    page,
    until,
    write,
)
from wikid_daemon import checkup, index_calls, pages
from wikid_daemon import indexer as indexer_module
from wikid_daemon import updater as updater_module
from wikid_daemon import vaults as vaults_module
from wikid_daemon.addressing import one_vault
from wikid_daemon.health import unopened_status
from wikid_daemon.index import jvm
from wikid_daemon.index.catalog import Catalog, CatalogError
from wikid_daemon.index.lucene import LexicalIndex, LexicalIndexBusy, LexicalIndexDamaged
from wikid_daemon.index.pages import new_page
from wikid_daemon.index.store import Store
from wikid_daemon.indexer import Indexer
from wikid_daemon.recall import Recaller
from wikid_daemon.refusals import translated
from wikid_daemon.searching import Models
from wikid_daemon.surveying import meant
from wikid_daemon.unserved import AmbiguousVault, NotOpen, UnknownVault, Unopened, refusal_of
from wikid_daemon.updater import Cancelled
from wikid_daemon.vault import opening
from wikid_daemon.vault.opening import NotAnswering, SettingsStamp
from wikid_daemon.vault.registry import Registry, RegistryEntry, RegistryUnreadable
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import Vault, init_vault, open_vault, path_vault_id
from wikid_daemon.vaults import Applied, Vaults
from wikid_protocol.errors import RequestRefused
from wikid_protocol.methods import PageGetParams, PageSearchParams, RecallParams

FAKE = FakeEmbedder()


def found(store: Store | None, query: str) -> list[str]:
    assert store is not None
    chunks = [hit.key for hit in store.lexical(query, 10)]
    loaded = store.load(chunks)
    return [loaded[key].page.page_id for key in chunks if key in loaded]


# -- opening -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    base_notes(tmp_path / "notes", 3)
    return tmp_path / "notes"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Indexer]]:
    running: list[Indexer] = []

    def made(root: Path, encoder: FakeEmbedder | None = None) -> Indexer:
        home = tmp_path / "state"
        vault = open_vault(root, name=None, state_home=home)
        running.append(Indexer(vault, machine_id(home), lambda: encoder, lambda _: None, jvm.detach))
        return running[-1]

    yield made
    for indexer in running:
        indexer.close()


def current(indexer: Indexer) -> Path:
    return indexer.vault.state / "current"


def test_an_index_that_another_process_writes_is_left_alone(make: Callable[..., Indexer], notes: Path) -> None:
    indexer = make(notes)
    indexer.start()
    indexer.sync(30)
    assert indexer.store is not None
    indexer.store.commit()
    with pytest.raises(LexicalIndexBusy):
        Store(current(indexer))
    assert found(indexer.store, "tok01zebra") == ["n01"]
    write(notes, "more.md", "# More\n\ntokmore\n")
    indexer.sync(30)
    assert found(indexer.store, "tokmore") == ["more"]


def test_a_catalog_that_cannot_be_opened_now_keeps_its_vectors(
    make: Callable[..., Indexer], notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeEmbedder()
    indexer = make(notes, fake)
    indexer.start()
    until(lambda: len(fake.embedded) == 3 and indexer.embedding_pending == 0, "three vectors")
    indexer.close()

    def full(_catalog: Catalog) -> None:
        raise apsw.FullError

    with monkeypatch.context() as patched:
        patched.setattr(Catalog, "_prepare", full)
        with pytest.raises(CatalogError):
            Store(current(indexer))
    again = make(notes, fake)
    again.start()
    again.sync(30)
    until(lambda: again.store is not None and again.store.embedded == 3, "the vectors being loaded")
    assert len(fake.embedded) == 3


def test_opening_is_tried_again_after_trouble(
    make: Callable[..., Indexer], notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Path] = []

    def store(folder: Path) -> Store:
        tries.append(folder)
        if len(tries) < 3:
            raise OSError(errno.ENOSPC, "full")
        return Store(folder)

    monkeypatch.setattr(indexer_module, "Store", store)
    monkeypatch.setattr(indexer_module, "TROUBLE_SECONDS", 0.01)
    indexer = make(notes)
    indexer.start()
    until(lambda: indexer.state.state == "ready", "the index being open")
    assert found(indexer.store, "tok02zebra") == ["n02"]


def test_the_mirror_is_mended_after_a_crash(make: Callable[..., Indexer], notes: Path) -> None:
    first = make(notes)
    first.start()
    first.sync(30)
    first.close()
    manifest = first.vault.state / "manifest.json"
    behind = manifest.read_bytes()
    (notes / "n01.md").unlink()
    write(notes, "n02.md", "# Two\n\ntoktwo\n")
    write(notes, "n04.md", numbered_note(4))
    second = make(notes)
    second.start()
    second.sync(30)
    second.close()
    manifest.write_bytes(behind)
    third = make(notes)
    third.start()
    third.sync(30)
    third.close()
    documents = json.loads(manifest.read_bytes())["documents"]
    assert sorted(each["pageId"] for each in documents.values()) == ["n02", "n03", "n04"]
    copies = sorted(path.stem for path in (third.vault.state / "documents").rglob("*.md"))
    assert copies == ["n02", "n03", "n04"]


# -- working -----------------------------------------------------------------------------------------------------------


def test_a_page_that_cannot_be_parsed_stops_no_other(
    make: Callable[..., Indexer], notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = new_page

    def parse(path: str, *rest: Any, **options: Any) -> Any:
        if path == "n02.md":
            raise RecursionError
        return real(path, *rest, **options)

    monkeypatch.setattr(updater_module, "new_page", parse)
    indexer = make(notes)
    indexer.start()
    indexer.sync(30)
    assert indexer.state.failed == {"n02.md": "not_parsed_RecursionError"}
    assert [found(indexer.store, f"tok0{n}zebra") for n in (1, 2, 3)] == [["n01"], [], ["n03"]]


def test_after_a_failed_refresh_words_and_vectors_are_those_of_the_catalog(
    make: Callable[..., Indexer], notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeEmbedder()
    indexer = make(notes, fake)
    indexer.start()
    until(lambda: len(fake.embedded) == 3 and indexer.embedding_pending == 0, "three vectors")
    real, failures = LexicalIndex.refresh, [LexicalIndexDamaged("no room")]

    def refresh(self: LexicalIndex) -> None:
        if failures:
            raise failures.pop()
        real(self)

    monkeypatch.setattr(LexicalIndex, "refresh", refresh)
    write(notes, "n01.md", "# One\n\ntokanew\n")
    indexer.sync(30)
    until(lambda: indexer.embedding_pending == 0, "nothing pending")
    assert not failures
    assert indexer.store is not None
    assert (found(indexer.store, "tokanew"), found(indexer.store, "tok01zebra")) == (["n01"], [])
    assert indexer.store.embedded == indexer.store.catalog.counts()[1] == 3


class Hooked(FakeEmbedder):
    """An embedder that calls `hook` after each passage."""

    def __init__(self) -> None:
        super().__init__()
        self.hook: Callable[[], None] = lambda: None

    def passages(self, texts: Iterable[str]) -> Iterator[Any]:
        for each in super().passages(texts):
            self.hook()
            yield each


def reindex(indexer: Indexer, progress: Callable[[str, float | None], None] = lambda _words, _share: None) -> None:
    indexer.reindex(
        everything=False, lexical=False, vectors=True, force=True, progress=progress, cancelled=lambda: False
    )


def test_a_note_saved_while_all_is_embedded_anew_is_searchable_before_that_ends(
    make: Callable[..., Indexer], notes: Path
) -> None:
    fake = Hooked()
    indexer = make(notes, fake)
    indexer.start()
    until(lambda: len(fake.embedded) == 3 and indexer.embedding_pending == 0, "three vectors")

    def save() -> None:
        fake.hook = lambda: None
        write(notes, "late.md", "# Late\n\ntoklate\n")
        indexer.notice({"late.md"})

    seen: list[tuple[list[str], int]] = []
    fake.hook = save
    reindex(indexer, lambda _words, _share: seen.append((found(indexer.store, "toklate"), indexer.embedding_pending)))
    assert any(pages == ["late"] and pending for pages, pending in seen)


def test_closing_ends_a_reindex(make: Callable[..., Indexer], notes: Path) -> None:
    fake = Hooked()
    indexer = make(notes, fake)
    indexer.start()
    until(lambda: len(fake.embedded) == 3 and indexer.embedding_pending == 0, "three vectors")
    fake.embedded.clear()
    fake.hook = indexer.stop
    with pytest.raises(Cancelled):
        reindex(indexer)
    indexer.close()
    assert not indexer.closing
    assert len(fake.embedded) < 3


# -- the vaults of a daemon --------------------------------------------------------------------------------------------


class Daemon:
    """The vaults of a daemon whose refreshing a test does itself."""

    def __init__(self, home: Path) -> None:
        self.home, self.registry_file = home, home / "config" / "vaults.json"
        self.registry = Registry(self.registry_file)

        def indexer(vault: Vault, machine: str) -> Indexer:
            return Indexer(vault, machine, lambda: None, lambda _: None, jvm.detach)

        environment = {"HOME": str(home / "user")}
        self.vaults = Vaults(self.registry, home / "state", indexer, environment)

    def register(self, root: Path, name: str) -> None:
        self.registry.add(RegistryEntry(root, name, path_vault_id(root)))


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path)
    yield made
    made.vaults.close()


def test_a_folder_that_was_away_at_start_is_opened_when_it_is_there(daemon: Daemon, tmp_path: Path) -> None:
    daemon.register(tmp_path / "notes", "mine")
    daemon.vaults.start()
    until(lambda: [each.entry.name for each in daemon.vaults.unopened()] == ["mine"], "the vault being told")
    base_notes(tmp_path / "notes", 1)
    daemon.vaults.refresh()
    indexer = daemon.vaults.find("mine")
    indexer.sync(30)
    assert found(indexer.store, "tok01zebra") == ["n01"]
    assert daemon.vaults.unopened() == []


NEVER = 1_000.0


class Silence:
    """What touches a folder of `silent` waits until `end`."""

    def __init__(self) -> None:
        self.silent: set[Path] = set()
        self.waiting: list[Path] = []
        self._ended = threading.Event()

    def end(self) -> None:
        self.silent.clear()
        self._ended.set()

    def touch(self, folder: Path) -> None:
        if folder in self.silent:
            self.waiting.append(folder)
            self._ended.wait(HANG_GUARD_SECONDS)

    def open_vault(self, path: Path, *, name: str | None, state_home: Path) -> Vault:
        self.touch(path)
        return open_vault(path, name=name, state_home=state_home)

    def settings_stamp(self, root: Path) -> SettingsStamp:
        self.touch(root)
        return opening.settings_stamp(root)


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silence]:
    """Limits are short, and what was not opened is tried again at once."""
    made = Silence()
    monkeypatch.setattr(opening, "open_vault", made.open_vault)
    monkeypatch.setattr(vaults_module, "settings_stamp", made.settings_stamp)
    monkeypatch.setattr(opening, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(vaults_module, "REFRESH_SECONDS", 0.05)
    monkeypatch.setattr(vaults_module, "FIRST_SECONDS", 0.05)
    yield made
    made.end()


def beside_a_silent_one(daemon: Daemon, silence: Silence) -> Path:
    """Two registered vaults, of which the first does not answer."""
    for name in ("a silent", "good"):
        base_notes(daemon.home / name, 1)
        daemon.register(daemon.home / name, name)
    silence.silent = {daemon.home / "a silent"}
    return daemon.home / "a silent"


def serving(daemon: Daemon) -> list[str]:
    return [each.vault.name for each in daemon.vaults.all()]


def test_a_folder_that_does_not_answer_at_start_is_told_and_opened_once_it_does(
    daemon: Daemon, silence: Silence
) -> None:
    silent = beside_a_silent_one(daemon, silence)
    daemon.vaults.start()
    until(lambda: serving(daemon) == ["good"], "the good vault")
    good = daemon.vaults.find("good")
    good.sync(HANG_GUARD_SECONDS)
    assert found(good.store, "tok01zebra") == ["n01"]

    def told() -> list[tuple[str, str, str]]:
        statuses = map(unopened_status, daemon.vaults.unopened())
        return [(each.vault.name, each.state, each.reason) for each in statuses]

    until(lambda: told() == [("a silent", "unavailable", "its folder does not answer")], "the other being told")
    until(lambda: silence.waiting, "its thread hanging")
    with pytest.raises(NotAnswering):
        daemon.vaults.add(silent, None)
    for _ in range(3):
        daemon.vaults.refresh()
    assert silence.waiting == [silent]  # however often it is tried
    silence.end()
    until(lambda: serving(daemon) == ["a silent", "good"], "the other opening by itself")
    assert daemon.vaults.unopened() == []


def test_no_vault_waits_for_one_that_is_still_being_opened(
    daemon: Daemon, silence: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "ANSWER_SECONDS", NEVER)
    silent = beside_a_silent_one(daemon, silence)
    daemon.vaults.start()
    until(lambda: serving(daemon) == ["good"], "the good vault")
    until(lambda: silence.waiting == [silent], "the silent one")
    assert [each.reason for each in daemon.vaults.unopened()] == ["it is still being opened"]
    daemon.vaults.remove("a silent")
    daemon.vaults.close()
    silence.end()
    assert daemon.vaults.all() == []


def test_a_vault_that_is_still_being_opened_is_told_as_that_and_never_as_unknown(
    daemon: Daemon, silence: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "ANSWER_SECONDS", NEVER)
    silent = beside_a_silent_one(daemon, silence)
    daemon.vaults.start()
    until(lambda: serving(daemon) == ["good"], "the good vault")
    for name in ("a silent", str(silent)):
        with pytest.raises(RequestRefused) as refused:
            translated(partial(daemon.vaults.find, name))
        assert (refused.value.kind, refused.value.row.retry) == ("vault_unavailable", True)
        assert "still being opened" in refused.value.message
        indexers, left_out = daemon.vaults.looked_through(name, None, automatic=False)
        assert (indexers, [each.entry.path for each in left_out]) == ([], [silent])
        searched = pages.search(PageSearchParams(query="n01"), indexers, left_out)
        assert ([each.kind for each in searched.diagnostics], searched.stale) == (["vault_opening"], True)
        with pytest.raises(RequestRefused) as refused:
            pages.get(PageGetParams(page_id="n01"), indexers, "m", left_out)
        assert refused.value.kind == "vault_unavailable"
        answer = Recaller(lambda: Models(FAKE, NO_RERANKER), Clock()).recall(
            RecallParams(query="tok01zebra"), indexers, default_settings(), lambda: False, left_out
        )
        assert (answer.reason, answer.stale) == ("vault_opening", True)
    (unopened,) = daemon.vaults.unopened()
    assert unopened_status(unopened).state == "indexing"
    assert (checkup.unopened(unopened).kind, checkup.unopened(unopened).severity) == ("vault_opening", "info")
    with pytest.raises(UnknownVault):
        daemon.vaults.find("nowhere")


def test_a_call_waits_no_longer_than_it_says_for_vaults_to_be_opened(
    daemon: Daemon, silence: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "ANSWER_SECONDS", NEVER)
    monkeypatch.setattr(vaults_module, "FIRST_SECONDS", NEVER)
    silent = beside_a_silent_one(daemon, silence)
    unregistered = init_vault(daemon.home / "project", "things", "personal")
    silence.silent.add(unregistered)
    daemon.vaults.start()
    until(lambda: silence.waiting, "the silent one")

    def left_out(wanted: str | None, cwd: Path, *, automatic: bool) -> list[tuple[str, bool]]:
        now = time.monotonic()
        _, away = daemon.vaults.looked_through(wanted, cwd, automatic=automatic, until=now)
        return [(each.entry.name, each.opening) for each in away]

    for automatic in (True, False):
        assert left_out(None, silent, automatic=automatic) == [("a silent", True)]
        assert left_out(None, unregistered, automatic=automatic) == [("project", True)]
    assert ("a silent", True) in left_out("all", daemon.home, automatic=False)
    assert left_out("a silent", daemon.home, automatic=False) == [("a silent", True)]


def test_only_the_vaults_that_a_call_is_for_are_told_as_left_out(
    daemon: Daemon, silence: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "ANSWER_SECONDS", NEVER)
    silent = beside_a_silent_one(daemon, silence)
    init_vault(daemon.home / "user", "me", "personal")
    daemon.vaults.start()
    until(lambda: serving(daemon) == ["good"], "the good vault")

    def left_out(wanted: str | None, cwd: Path | None, *, automatic: bool = False) -> list[str]:
        _, unopened = daemon.vaults.looked_through(wanted, cwd, automatic=automatic)
        return [each.entry.name for each in unopened]

    for wanted, cwd in [("all", None), (None, silent), ("active", silent / "below"), ("project", silent)]:
        assert left_out(wanted, cwd) == ["a silent"]
    for wanted, cwd in [("good", silent), (None, daemon.home / "good"), ("personal", silent), (None, None)]:
        assert left_out(wanted, cwd) == []
    assert left_out("all", silent, automatic=True) == ["a silent"]
    assert left_out("all", daemon.home / "good", automatic=True) == []


def test_a_call_for_one_vault_never_takes_another_because_one_is_still_being_opened(
    daemon: Daemon, silence: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "ANSWER_SECONDS", NEVER)
    silent = beside_a_silent_one(daemon, silence)
    daemon.vaults.start()
    until(lambda: serving(daemon) == ["good"], "the good vault")

    def refused(wanted: str | None, cwd: Path | None = None) -> tuple[str, str]:
        with pytest.raises(RequestRefused) as problem:
            translated(lambda: one_vault(daemon.vaults, wanted, None if cwd is None else str(cwd)))
        return problem.value.kind, problem.value.hint

    assert refused(None) == ("invalid_params", "name one with: --vault V (a silent, good)")
    assert refused("a silent")[0] == refused(None, silent)[0] == "vault_unavailable"
    with pytest.raises(RequestRefused) as problem:
        meant(daemon.vaults, "all", None)
    assert problem.value.kind == "vault_unavailable"
    daemon.vaults.remove("good")
    assert refused(None)[0] == "vault_unavailable"


def test_a_sync_waits_for_a_vault_that_is_still_being_opened(
    daemon: Daemon, silence: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "ANSWER_SECONDS", NEVER)
    monkeypatch.setattr(index_calls, "OPENING_SECONDS", 0.01)
    beside_a_silent_one(daemon, silence)
    daemon.vaults.start()
    until(lambda: silence.waiting, "its thread hanging")
    looks = 0

    def find() -> tuple[list[Applied], list[Unopened]]:
        nonlocal looks
        looks += 1
        if looks == 3:
            silence.end()
        return daemon.vaults.looked_through("a silent", None, automatic=False)

    with pytest.raises(TimeoutError):
        index_calls.opened("a silent", find, time.monotonic(), lambda: False)
    with pytest.raises(Cancelled):
        index_calls.opened("a silent", find, time.monotonic() + NEVER, lambda: True)
    served, _ = index_calls.opened("a silent", find, time.monotonic() + HANG_GUARD_SECONDS, lambda: False)
    assert [each.vault.name for each in served] == ["a silent"]


def test_a_sync_of_a_vault_that_cannot_be_opened_says_so_at_once(daemon: Daemon, tmp_path: Path) -> None:
    daemon.register(tmp_path / "notes", "mine")
    daemon.vaults.start()
    until(lambda: not any(each.opening for each in daemon.vaults.unopened()), "the vault being tried")
    with pytest.raises(NotOpen) as refused:
        index_calls.opened(
            "mine", lambda: daemon.vaults.looked_through("mine", None, automatic=False), time.monotonic(), lambda: False
        )
    refusal = refusal_of(refused.value.unopened)
    assert (refusal.kind, "still" in refusal.message) == ("vault_unavailable", False)


def test_the_settings_of_a_vault_are_seen_while_another_is_silent(daemon: Daemon, silence: Silence) -> None:
    root = init_vault(daemon.home / "wiki", "things", "personal")
    base_notes(daemon.home / "a silent", 1)
    for place in (daemon.home / "a silent", root):
        until(lambda place=place: _added(daemon, place), "the vault being added")  # type: ignore[misc]
    silence.silent = {daemon.home / "a silent"}
    (root / ".llm-wiki" / "config.json").write_text("{ not json")

    def blocked() -> bool:
        daemon.vaults.refresh()
        return daemon.vaults.find("wiki").vault.blocked is not None

    until(blocked, "the damage being seen")
    assert serving(daemon) == ["a silent", "wiki"]


def _added(daemon: Daemon, place: Path) -> bool:
    try:
        return bool(daemon.vaults.add(place, place.name))
    except NotAnswering:  # a machine under load
        return False


def test_a_vault_whose_config_is_repaired_is_served_again(daemon: Daemon, tmp_path: Path) -> None:
    root = init_vault(tmp_path / "wiki", "things", "personal")
    write(root, ".llm-wiki/wiki/concepts/a.md", page("tokalpha", title="A"))
    config = root / ".llm-wiki" / "config.json"
    good = config.read_bytes()
    config.write_text("{ not json")
    assert daemon.vaults.add(root, "w").vault.blocked is not None
    config.write_bytes(good)
    for _ in range(2):  # once to see it, once to know that it has settled
        daemon.vaults.refresh()
    indexer = daemon.vaults.find("w")
    assert indexer.vault.blocked is None
    indexer.sync(30)
    assert found(indexer.store, "tokalpha") == ["concepts/a"]
    daemon.vaults.refresh()
    assert daemon.vaults.find("w") is indexer
    config.write_text("{ not json")
    for _ in range(2):
        daemon.vaults.refresh()
    assert daemon.vaults.find("w").vault.blocked is not None
    config.write_bytes(good)
    assert daemon.vaults.add(root, None).vault.blocked is None


def test_another_name_opens_the_index_once_the_old_indexer_let_go(daemon: Daemon, notes: Path) -> None:
    before = daemon.vaults.add(notes, "old")
    before.sync(30)
    after = daemon.vaults.add(notes, "new")
    after.sync(30)
    assert after.state.state == "ready"
    assert found(after.store, "tok03zebra") == ["n03"]
    assert [each.vault.name for each in daemon.vaults.all()] == ["new"]


def test_a_name_that_two_vaults_have_is_never_guessed(daemon: Daemon, tmp_path: Path) -> None:
    for place in ("a", "b"):
        base_notes(tmp_path / place / "notes", 1)
        daemon.vaults.add(tmp_path / place / "notes", None)
    for act in (daemon.vaults.find, daemon.vaults.remove):
        with pytest.raises(AmbiguousVault) as refused:
            act("notes")
        assert refused.value.paths == (str(tmp_path / "a" / "notes"), str(tmp_path / "b" / "notes"))
    daemon.vaults.remove(str(tmp_path / "b" / "notes"))
    assert daemon.vaults.find("notes").vault.root == tmp_path / "a" / "notes"


def test_a_vault_is_found_by_any_path_to_it(daemon: Daemon, notes: Path, tmp_path: Path) -> None:
    indexer = daemon.vaults.add(notes, "mine")
    (tmp_path / "link").symlink_to(notes)
    for path in (notes, tmp_path / "link", notes / ".." / "notes"):
        assert daemon.vaults.find(str(path)) is indexer
    with pytest.raises(UnknownVault):
        daemon.vaults.find(str(tmp_path))


def test_a_registry_that_could_not_be_read_is_told_and_never_overwritten(daemon: Daemon, notes: Path) -> None:
    daemon.register(notes, "mine")
    aside = daemon.registry_file.with_name("aside")
    os.rename(daemon.registry_file, aside)
    daemon.registry_file.mkdir()
    restarted = Daemon(daemon.home)
    restarted.vaults.start()
    assert restarted.vaults.all() == []
    assert restarted.vaults.faults()
    with pytest.raises(RegistryUnreadable):
        restarted.vaults.add(notes, "other")
    daemon.registry_file.rmdir()
    os.rename(aside, daemon.registry_file)
    restarted.vaults.refresh()
    assert restarted.vaults.find("mine").vault.root == notes
    restarted.vaults.close()


def test_an_automatic_recall_in_a_project_that_cannot_be_opened_stays_out_of_the_personal_vault(
    daemon: Daemon, tmp_path: Path
) -> None:
    init_vault(tmp_path / "user", "me", "personal")
    project = tmp_path / "project"
    daemon.register(project, "project")
    daemon.vaults.start()
    until(daemon.vaults.unopened, "the project being told")
    found, left_out = daemon.vaults.applying(project / "src", automatic=True)
    assert (found, [each.entry.name for each in left_out]) == ([], ["project"])
    found, left_out = daemon.vaults.applying(tmp_path, automatic=True)
    assert ([each.layer for each in found], left_out) == (["personal"], [])


@pytest.mark.parametrize("word", ["personal", "project", "active", "all"])
def test_a_vault_that_is_named_as_a_layer_is_found_where_no_layer_answers_to_the_word(
    daemon: Daemon, tmp_path: Path, word: str
) -> None:
    base_notes(tmp_path / "notes", 1)
    opened(daemon, tmp_path / "notes", word)
    found, _ = daemon.vaults.looked_through(word, tmp_path / "elsewhere", automatic=False)
    assert [each.vault.name for each in found] == [word]


def test_a_layer_comes_before_a_vault_of_its_name(daemon: Daemon, tmp_path: Path) -> None:
    init_vault(tmp_path / "user", "me", "personal")
    base_notes(tmp_path / "notes", 1)
    opened(daemon, tmp_path / "notes", "personal")
    found, _ = daemon.vaults.looked_through("personal", tmp_path / "elsewhere", automatic=False)
    assert [(each.layer, each.vault.root) for each in found] == [("personal", tmp_path / "user")]


@pytest.mark.parametrize("personal", [False, True])
def test_a_call_from_a_vault_that_is_away_never_acts_on_another(daemon: Daemon, tmp_path: Path, personal: bool) -> None:
    if personal:
        init_vault(tmp_path / "user", "me", "personal")
    base_notes(tmp_path / "notes", 1)
    opened(daemon, tmp_path / "notes", "good")
    daemon.register(tmp_path / "gone", "gone")
    daemon.vaults.start()
    until(lambda: any(not each.opening for each in daemon.vaults.unopened()), "the other being told")

    def find(wanted: str | None) -> tuple[list[Applied], list[Unopened]]:
        return daemon.vaults.looked_through(wanted, tmp_path / "gone" / "src", automatic=False)

    for wanted in (None, "active", "project"):
        found, left_out = find(wanted)
        assert [each.layer for each in found] == (["personal"] if personal and wanted != "project" else [])
        assert [each.entry.name for each in left_out] == ["gone"]
        with pytest.raises(NotOpen):
            index_calls.opened(wanted, partial(find, wanted), time.monotonic(), lambda: False)
    served, away = index_calls.opened("all", partial(find, "all"), time.monotonic(), lambda: False)
    assert "good" in [each.vault.name for each in served]
    synced = index_calls.sync(served, away, time.monotonic() + HANG_GUARD_SECONDS, lambda: False)
    assert [(each.kind, each.message.split()[0]) for each in synced.diagnostics] == [("vault_not_opened", "gone")]


def test_a_name_stays_ambiguous_while_one_of_its_vaults_is_away(daemon: Daemon, tmp_path: Path) -> None:
    base_notes(tmp_path / "notes", 1)
    opened(daemon, tmp_path / "notes", "mine")
    daemon.register(tmp_path / "gone", "mine")
    daemon.vaults.start()
    for wanted in ("mine", str(tmp_path / "notes"), str(tmp_path / "gone")):
        if wanted == "mine":
            with pytest.raises(AmbiguousVault) as refused:
                daemon.vaults.find(wanted)
            assert refused.value.paths == (str(tmp_path / "gone"), str(tmp_path / "notes"))
        elif wanted.endswith("gone"):
            with pytest.raises(NotOpen):
                daemon.vaults.find(wanted)
        else:
            assert daemon.vaults.find(wanted).vault.root == tmp_path / "notes"


# -- recall ------------------------------------------------------------------------------------------------------------


def ids(query: str, *applied: Applied, **params: Any) -> list[tuple[str, str]]:
    recaller = Recaller(lambda: Models(FAKE, NO_RERANKER), Clock())
    answer = recaller.recall(
        RecallParams(query=query, mode="lexical", **params), applied, default_settings(), lambda: False
    )
    items = [each for bundle in answer.bundles for each in ([bundle.card] if bundle.card else bundle.evidence)]
    return [(item.vault, item.page_id) for item in items]


def opened(daemon: Daemon, root: Path, name: str) -> Indexer:
    indexer = daemon.vaults.add(root, name)
    indexer.sync(30)
    return indexer


def test_a_date_is_looked_for_among_all_candidates(daemon: Daemon, tmp_path: Path) -> None:
    for number in range(20):
        text = page("harbour harbour harbour", title=f"Harbour {number}", updated="2020-01-01", type="concept")
        write(tmp_path / "notes", f"old{number:02}.md", text)
    write(tmp_path / "notes", "new.md", page("the harbour among other words", title="X", updated="2026-02-01"))
    indexer = opened(daemon, tmp_path / "notes", "notes")
    shown = ids("harbour", Applied(indexer, "project", ""), max_results=1, since="2026-01-01")
    assert shown == [("notes", "new")]


def test_of_two_copies_the_project_has_the_one_that_is_shown(daemon: Daemon, tmp_path: Path) -> None:
    same = page("the lighthouse keeper writes a ledger", title="Keeper")
    write(tmp_path / "mine", "b.md", same)
    write(tmp_path / "work", "a.md", same)
    write(tmp_path / "work", "c.md", page("lighthouse keeper ledger lighthouse keeper ledger", title="Keeper ledger"))
    personal, project = opened(daemon, tmp_path / "mine", "mine"), opened(daemon, tmp_path / "work", "work")
    layers = (Applied(project, "project", ""), Applied(personal, "personal", ""))
    shown = ids("lighthouse keeper ledger", *layers)
    assert ("mine", "b") not in shown
    assert ("work", "a") in shown


def test_a_page_with_thousands_of_relations_costs_no_more_than_what_is_shown(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wiki = init_vault(tmp_path / "wiki", "things", "personal") / ".llm-wiki" / "wiki"
    write(wiki, "concepts/hub.md", page("tokhub", title="Hub"))
    supports = "[{type: supports, target: concepts/hub}]"
    for number in range(300):
        text = page("[hub](/concepts/hub.md)", type="source", title=f"S{number}", relations=supports)
        write(wiki, f"sources/s{number}.md", text)
    indexer = opened(daemon, tmp_path / "wiki", "wiki")
    loaded: list[int] = []
    real = Catalog.pages

    def pages(self: Catalog, numbers: Any) -> Any:
        loaded.append(len(numbers))
        return real(self, numbers)

    monkeypatch.setattr(Catalog, "pages", pages)
    answer = Recaller(lambda: Models(FAKE, NO_RERANKER), Clock()).recall(
        RecallParams(query="tokhub", mode="lexical"),
        [Applied(indexer, "project", "")],
        default_settings(),
        lambda: False,
    )
    assert answer.bundles[0].card is not None
    assert len(answer.bundles[0].evidence) == 2
    assert max(loaded) < 100
