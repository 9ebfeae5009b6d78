"""A rebuilt index takes the old one's place: crashes at every step, failures, and what answers meanwhile."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest

from builders import FakeEmbedder, base_notes, numbered_note, until, write
from wikid_daemon import files, updater
from wikid_daemon.core.manifest import Known, Stamp
from wikid_daemon.files import FileBytes
from wikid_daemon.index import jvm, lifecycle
from wikid_daemon.index.catalog import Catalog
from wikid_daemon.index.lifecycle import STAGING, SWAP, UNDONE, Swap, new_staging, open_current, replace
from wikid_daemon.index.lucene import LexicalIndexDamaged
from wikid_daemon.index.pages import new_page, stored_embedding_text
from wikid_daemon.index.store import Store
from wikid_daemon.indexer import Indexer
from wikid_daemon.reindexing import Reindexed
from wikid_daemon.updater import Cancelled
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import VaultError, open_vault
from wikid_daemon.verification import verify

FAKE = FakeEmbedder()
STEPS = ("_record", "_move", "_forget", "discard")


class Crash(BaseException):
    """The process is gone."""


def failing_at(monkeypatch: pytest.MonkeyPatch, step: int, problem: BaseException, *, after: bool) -> Callable[[], int]:
    """The `step`th lasting change to the folders fails, before or after it is made; returns how many were tried."""
    count = [0]

    def wrapped(name: str) -> Callable[..., None]:
        real = getattr(lifecycle, name)

        def change(*given: object) -> None:
            count[0] += 1
            fails = count[0] == step
            if fails and not after:
                raise problem
            real(*given)
            if fails:
                raise problem

        return change

    for name in STEPS:
        monkeypatch.setattr(lifecycle, name, wrapped(name))
    return lambda: count[0]


# -- whole folders -----------------------------------------------------------------------------------------------------


def filled(folder: Path, word: str) -> Store:
    """Five pages with `word`, each with its vector."""
    store = Store(folder)
    store.use_model(FAKE.identity, FAKE.dims)
    texts = [(f"n{number}.md", f"# N{number}\n\n{word} {number}\n") for number in range(5)]
    store.apply(
        [
            new_page(path, path[:-3], text.encode(), Known(Stamp(len(text), 1, 1, 1), f"{path}{text}"), strict=False)
            for path, text in texts
        ],
        [],
    )
    missing = store.missing_vectors(100, ())
    vectors = [FAKE.embed_query(stored_embedding_text(chunk, title)) for chunk, title in missing]
    store.add_vectors([chunk.hash for chunk, _ in missing], np.stack(vectors))
    store.commit()
    return store


def word_of(store: Store) -> str:
    """Which of the two indexes this is; it must be whole."""
    found = {word for word in ("oldword", "newword") if len(store.lexical(word, 10)) == 5}
    assert len(found) == 1
    store.use_model(FAKE.identity, FAKE.dims)
    assert (store.embedded, store.missing, store.notes) == (5, 0, [])
    return found.pop()


def leftovers(state: Path) -> list[str]:
    return sorted(
        each.name for each in state.iterdir() if each.name.startswith(STAGING) or each.name in (SWAP, "previous")
    )


@pytest.fixture
def state(tmp_path: Path) -> Path:
    filled(tmp_path / "current", "oldword").close()
    return tmp_path


def staged(state: Path) -> Path:
    folder = new_staging(state)
    filled(folder, "newword").close()
    return folder


def test_a_replacement_leaves_the_new_index_alone(state: Path) -> None:
    store = replace(state, staged(state), 5, 5)
    assert word_of(store) == "newword"
    assert leftovers(state) == []
    store.close()


def steps_of_a_replacement(state: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    with monkeypatch.context() as patched:
        count = failing_at(patched, 0, Crash(), after=False)
        replace(state, staged(state), 5, 5).close()
        return count()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_step_leaves_one_whole_index(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    steps, seen = steps_of_a_replacement(state, monkeypatch), []
    assert steps >= 8
    for step in range(1, steps + 1):
        place = tmp_path / f"step{step}"
        filled(place / "current", "oldword").close()
        folder = staged(place)
        with monkeypatch.context() as patched:
            failing_at(patched, step, Crash(), after=after)
            with pytest.raises(Crash):
                replace(place, folder, 5, 5)
        store = open_current(place)
        seen.append(word_of(store))
        store.close()
        assert leftovers(place) == []
    # once the old one has gone aside the new one is what comes of it
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {"oldword", "newword"}


@pytest.mark.parametrize("first", [1, 2, 3, 4, 5])
def test_a_start_that_crashes_is_recovered_by_the_next(
    state: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    folder = staged(state)
    with monkeypatch.context() as patched:
        failing_at(patched, 2, Crash(), after=True)
        with pytest.raises(Crash):
            replace(state, folder, 5, 5)
    with monkeypatch.context() as patched:
        failing_at(patched, first, Crash(), after=True)
        with pytest.raises(Crash):
            open_current(state)
    store = open_current(state)
    assert word_of(store) == "newword"
    assert leftovers(state) == []
    store.close()


def test_a_new_index_that_is_not_whole_gives_way_to_the_old_one(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("pages", "lucene", "catalog", "refused"):
        folder = staged(state)
        pages = 6 if wrong == "pages" else 5
        if wrong == "lucene":
            for path in folder.glob("lucene/segments_*"):
                path.write_bytes(b"garbage" * 20)
        if wrong == "catalog":
            (folder / "catalog.sqlite").write_bytes(b"garbage" * 2_000)
        with monkeypatch.context() as patched:
            if wrong == "refused":
                patched.setattr(lifecycle, "Store", refusing_once())
            store = replace(state, folder, pages, 5)
        assert [kind for kind, _ in store.notes] == [UNDONE], wrong
        store.notes.clear()
        assert word_of(store) == "oldword"
        assert leftovers(state) == []
        store.close()


def refusing_once() -> Callable[[Path], Store]:
    refused: list[Path] = []

    def opened(folder: Path) -> Store:
        if not refused:
            refused.append(folder)
            raise LexicalIndexDamaged("not to be opened")
        return Store(folder)

    return opened


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"phase": "odd", "staging": "staging-x", "pages": 1, "chunks": 1}']
)
def test_a_damaged_swap_file_and_stagings_of_killed_builds_are_removed(state: Path, content: bytes) -> None:
    staged(state)
    (new_staging(state) / "half").write_bytes(b"x")
    (state / SWAP).write_bytes(content)
    store = open_current(state)
    assert word_of(store) == "oldword"
    assert leftovers(state) == []
    store.close()


def test_a_swap_file_never_names_a_folder_elsewhere(state: Path) -> None:
    (state / "current").rename(state / "other")
    for name in ("../outside", "other", "", "staging-../other"):
        lifecycle._record(state, Swap("prepared", name, 5, 5))
        store = open_current(state)
        assert store.catalog.counts() == (0, 0)
        store.close()
    assert (state / "other" / "catalog.sqlite").exists()


def test_a_catalog_closes_while_another_thread_searches_it(tmp_path: Path) -> None:
    catalog, problems, begun = Catalog(tmp_path / "catalog.sqlite"), list[BaseException](), threading.Event()

    def search() -> None:
        reader = catalog._reader()
        reader.create_scalar_function("begun", lambda *_: begun.set())
        try:
            list(
                reader.execute("WITH RECURSIVE c(n) AS (SELECT begun() UNION ALL SELECT 1 FROM c) SELECT max(n) FROM c")
            )
        except apsw.Error as problem:
            problems.append(problem)

    thread = threading.Thread(target=search)
    thread.start()
    begun.wait(30)
    catalog.close()
    thread.join(30)
    assert [type(each) for each in problems] == [apsw.InterruptError]
    with pytest.raises(apsw.ConnectionClosedError):
        catalog.counts()


# -- a rebuild ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "notes"
    base_notes(place)
    return place


@pytest.fixture
def fake() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
def indexer(tmp_path: Path, root: Path, fake: FakeEmbedder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Indexer]:
    """A settled index of twenty notes, each chunk with its vector; a batch is five pages."""
    monkeypatch.setattr(updater, "BATCH_PAGES", 5)
    home = tmp_path / "home"
    made = Indexer(
        open_vault(root, name=None, state_home=home), machine_id(home), lambda: fake, lambda _: None, jvm.detach
    )
    made.start()
    made.sync(30)
    until(lambda: made.embedding_pending == 0 and made.store, "every chunk having a vector")
    fake.embedded.clear()
    yield made
    made.close()


def rebuild(
    indexer: Indexer,
    *,
    vectors: bool = False,
    progress: Callable[[str, float | None], None] = lambda _words, _share: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Reindexed:
    return indexer.reindex(
        everything=True, lexical=True, vectors=vectors, force=True, progress=progress, cancelled=cancelled
    )


def store_of(indexer: Indexer) -> Store:
    assert indexer.store is not None
    return indexer.store


def pages_with(indexer: Indexer, query: str) -> list[str]:
    store = store_of(indexer)
    hits = [hit.key for hit in store.lexical(query, 10)]
    loaded = store.load(hits)
    return [loaded[key].page.page_id for key in hits]


def assert_sound(indexer: Indexer) -> None:
    """It answers, equals a fresh build, has every vector and left nothing behind."""
    indexer.sync(30)
    assert pages_with(indexer, "tok05zebra") == ["n05"]
    assert verify(indexer, lambda _words, _share: None, lambda: False).differences == ()
    assert (store_of(indexer).embedded, indexer.embedding_pending) == (20, 0)
    assert (indexer.state.state, leftovers(indexer.vault.state)) == ("ready", [])


def test_a_rebuild_keeps_vectors_and_goes_on_counting_generations(indexer: Indexer, fake: FakeEmbedder) -> None:
    before, old = store_of(indexer).generation, store_of(indexer)
    done = rebuild(indexer)
    assert (done.pages.indexed, done.pages.updated, done.pages.removed) == (0, 20, 0)
    assert store_of(indexer) is not old
    assert store_of(indexer).generation > before
    assert_sound(indexer)
    assert fake.embedded == []


def test_a_rebuild_heals_what_a_scan_cannot_see(indexer: Indexer) -> None:
    connection = apsw.Connection(str(indexer.vault.state / "current" / "catalog.sqlite"))
    connection.set_busy_timeout(5_000)
    connection.execute("UPDATE chunks SET text='wrong' WHERE page=(SELECT page FROM pages WHERE path='n03.md')")
    connection.close()
    assert verify(indexer, lambda _words, _share: None, lambda: False).differences
    rebuild(indexer)
    assert_sound(indexer)


def test_the_old_index_answers_and_takes_in_saves_while_the_new_one_is_built(indexer: Indexer, root: Path) -> None:
    answers: list[list[str]] = []

    def meanwhile(_words: str, _share: float | None) -> None:
        if not answers:
            write(root, "late.md", numbered_note(77))
            indexer.notice({"late.md"})
        answers.append(pages_with(indexer, "tok05zebra") + pages_with(indexer, "tok77zebra"))

    old = store_of(indexer)
    rebuild(indexer, progress=meanwhile)
    assert answers[0] == ["n05"]
    assert ["n05", "late"] in answers
    assert store_of(indexer) is not old
    assert pages_with(indexer, "tok77zebra") == ["late"]


def test_a_sync_does_not_wait_for_a_rebuild_to_end(indexer: Indexer, root: Path) -> None:
    synced: list[int] = []
    others = [threading.Thread(target=lambda: synced.append(indexer.sync(30))) for _ in range(2)]
    waiting: list[int] = []

    def meanwhile(_words: str, _share: float | None) -> None:
        if not waiting:
            write(root, "late.md", numbered_note(77))
            for each in others:
                each.start()
            until(lambda: len(indexer._soon) == 2, "both asking")
        waiting.append(len(indexer._soon))

    rebuild(indexer, progress=meanwhile)
    for each in others:
        each.join(30)
    assert len(synced) == 2
    # they are answered when the first batch is written, which is a quarter of all
    assert waiting == sorted(waiting, reverse=True)
    assert waiting.count(0) > len(waiting) / 2
    assert pages_with(indexer, "tok77zebra") == ["late"]


def test_vectors_made_anew_are_made_before_the_old_ones_go(indexer: Indexer, fake: FakeEmbedder) -> None:
    embedded: list[int] = []
    done = rebuild(indexer, vectors=True, progress=lambda _words, _share: embedded.append(store_of(indexer).embedded))
    assert (done.vectors.needing, done.vectors.generated) == (20, 20)
    assert len(fake.embedded) == 20
    assert set(embedded) == {20}
    assert_sound(indexer)


def test_a_page_that_cannot_be_read_now_survives_a_rebuild(indexer: Indexer, monkeypatch: pytest.MonkeyPatch) -> None:
    read = files.read_regular

    def refused(path: Path, limit: int) -> FileBytes:
        if path.name == "n05.md":
            raise PermissionError(errno.EACCES, "no")
        return read(path, limit)

    with monkeypatch.context() as patched:
        patched.setattr(files, "read_regular", refused)
        rebuild(indexer)
        assert pages_with(indexer, "tok05zebra") == ["n05"]
        assert store_of(indexer).embedded == 20
    indexer.notice({"n05.md"})
    assert_sound(indexer)


def test_a_rebuild_that_fails_or_is_cancelled_keeps_the_old_index(
    indexer: Indexer, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, asked = store_of(indexer), list[int]()

    def soon() -> bool:
        asked.append(1)
        return len(asked) > 2

    with pytest.raises(Cancelled):
        rebuild(indexer, cancelled=soon)
    assert (store_of(indexer) is old, leftovers(indexer.vault.state)) == (True, [])
    with monkeypatch.context() as patched:
        patched.setattr(Store, "take_over", _full_disk)
        with pytest.raises(VaultError):
            rebuild(indexer)
    assert store_of(indexer) is old
    assert_sound(indexer)


@pytest.mark.parametrize("empty", [False, True], ids=["gone", "empty"])
def test_a_rebuild_without_the_folder_prunes_nothing(indexer: Indexer, root: Path, empty: bool) -> None:
    away = root.rename(root.with_name("away"))
    if empty:
        root.mkdir()
    with pytest.raises(VaultError):
        rebuild(indexer)
    assert pages_with(indexer, "tok05zebra") == ["n05"]
    if empty:
        root.rmdir()
    away.rename(root)
    assert_sound(indexer)


def _full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "full")


def test_a_disk_that_fills_at_any_step_of_the_swap_costs_nothing(
    indexer: Indexer, fake: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        count = failing_at(patched, 0, Crash(), after=False)
        rebuild(indexer)
        steps = count()
    for step in range(1, steps + 1):
        with monkeypatch.context() as patched:
            failing_at(patched, step, OSError(errno.ENOSPC, "full"), after=False)
            with pytest.raises(VaultError):
                rebuild(indexer)
            indexer.wake()
            until(lambda: indexer.store is not None, "the index being opened again")
        assert_sound(indexer)
    assert fake.embedded == []
