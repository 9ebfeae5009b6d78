"""What an index was made with is recorded, and a part made with something else is made anew by itself, and told.

Tests named T… are the inputs of the list of known faults.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from builders import FakeEmbedder, Vector, base_notes, until
from wikid_daemon import files, health, updater
from wikid_daemon.core import chunking
from wikid_daemon.files import FileBytes
from wikid_daemon.index import catalog, jvm, lucene
from wikid_daemon.index import store as store_module
from wikid_daemon.index.catalog_rows import NewPage
from wikid_daemon.index.pages import new_page, stored_embedding_text
from wikid_daemon.index.store import Store
from wikid_daemon.index.vectors import STORE_EVERY
from wikid_daemon.indexer import Indexer
from wikid_daemon.retrieval import QueryVector, Question, retrieve
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import open_vault

Open = Callable[..., Indexer]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens the same vault of twenty notes again, after closing it, and waits until it is settled."""
    running: list[Indexer] = []
    base_notes(tmp_path / "notes")

    def again(fake: FakeEmbedder | None = None) -> Indexer:
        for each in running:
            each.close()
        home = tmp_path / "home"
        vault = open_vault(tmp_path / "notes", name=None, state_home=home)
        indexer = Indexer(vault, machine_id(home), lambda: fake, lambda _: None, jvm.detach)
        running.append(indexer)
        indexer.start()
        indexer.sync(30)
        if fake is not None:
            until(lambda: indexer.embedding_pending == 0, "every chunk having a vector")
        return indexer

    yield again
    for each in running:
        each.close()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the files that were read and cut, in order."""
    paths: list[str] = []
    cut = new_page

    def counted(path: str, *given: object, **options: bool) -> NewPage:
        paths.append(path)
        return cut(path, *given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(updater, "new_page", counted)
    return paths


def rebuilt(indexer: Indexer) -> list[str]:
    return [each.kind for each in health.vault_status(indexer).rebuilt]


def found(indexer: Indexer) -> int:
    return 0 if indexer.store is None else len(indexer.store.lexical("tok05zebra", 10))


def test_nothing_is_made_anew_without_a_reason(opened: Open, parsed: list[str]) -> None:
    fake = FakeEmbedder()
    assert rebuilt(opened(fake)) == []
    parsed.clear()
    indexer = opened(fake)
    assert (rebuilt(indexer), parsed) == ([], [])
    assert health.vault_status(indexer).versions["chunker"] == chunking.VERSION


def test_pages_cut_by_another_version_are_read_again_once(
    opened: Open, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeEmbedder()
    opened(fake)
    parsed.clear()
    fake.embedded.clear()
    monkeypatch.setattr(store_module, "CHUNKER", "another")
    indexer = opened(fake)
    assert (rebuilt(indexer), len(parsed), found(indexer)) == (["pages_read_again"], 20, 1)
    parsed.clear()
    assert (rebuilt(opened(fake)), parsed) == ([], [])
    assert fake.embedded == []


def test_a_file_that_cannot_be_read_now_is_cut_anew_later(
    opened: Open, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened()
    read = files.read_regular

    def refused(path: Path, limit: int) -> FileBytes:
        if path.name == "n05.md":
            raise PermissionError(errno.EACCES, "no")
        return read(path, limit)

    monkeypatch.setattr(store_module, "CHUNKER", "another")
    with monkeypatch.context() as patched:
        patched.setattr(files, "read_regular", refused)
        indexer = opened()
        assert found(indexer) == 1
        # a look that comes after the patch would read the file
        indexer.close()
    parsed.clear()
    assert rebuilt(opened()) == ["pages_read_again"]
    assert "n05.md" in parsed
    assert rebuilt(opened()) == []


@pytest.mark.parametrize("part", ["LUCENE", "SCHEMA"])
def test_a_lucene_index_of_another_version_is_fed_anew(
    opened: Open, parsed: list[str], monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    opened().close()  # which commits
    parsed.clear()
    monkeypatch.setattr(lucene, part, "another")
    indexer = opened()
    assert (rebuilt(indexer), found(indexer), parsed) == (["lexical_rebuilt"], 1, [])
    assert rebuilt(opened()) == []


def test_vectors_of_another_model_are_made_anew_and_told(opened: Open) -> None:
    first, other = FakeEmbedder(), FakeEmbedder("fake-2")
    opened(first)
    assert rebuilt(opened(other)) == ["vectors_rebuilt"]
    assert rebuilt(opened(other)) == []
    # those of the first one are still there
    assert rebuilt(opened(first)) == []


NOTES = 200


class Gated(FakeEmbedder):
    """Embeds as many texts as it has been allowed to."""

    def __init__(self, identity: str, dims: int) -> None:
        super().__init__(identity, dims)
        self._allowed = threading.Semaphore(0)

    def allow(self, texts: int) -> None:
        for _ in range(texts):
            self._allowed.release()

    def passages(self, texts: Iterable[str]) -> Iterator[Vector | Exception]:
        for text in texts:
            assert self._allowed.acquire(timeout=60)
            yield from super().passages([text])


class Switching:
    """An indexer whose embedder the test changes while it runs."""

    def __init__(self, root: Path, home: Path, embedder: FakeEmbedder) -> None:
        self.embedder = embedder
        vault = open_vault(root, name=None, state_home=home)
        self.indexer = Indexer(vault, machine_id(home), lambda: self.embedder, lambda _: None, jvm.detach)
        self.indexer.start()
        self.indexer.sync(60)
        self.until_all(NOTES)

    @property
    def store(self) -> Store:
        assert self.indexer.store is not None
        return self.indexer.store

    def use(self, embedder: FakeEmbedder) -> None:
        self.embedder = embedder
        self.indexer.wake()

    def until_all(self, embedded: int) -> None:
        """Until so many chunks have a vector of the model in use, as `status` tells."""

        def reached() -> bool:
            status = health.vault_status(self.indexer)
            told = (status.embedded, status.embedding_pending) == (embedded, NOTES - embedded)
            return told and status.versions["model"] == self.embedder.identity

        until(reached, f"{embedded} vectors", seconds=60)

    def served(self) -> dict[int, Vector]:
        """Every vector that a search can meet, by chunk."""
        index = self.store.dense_index
        assert index is not None
        keys = sorted(index.keys)
        return dict(zip(keys, index.vectors(keys), strict=True))

    def are_all_of(self, fake: FakeEmbedder) -> bool:
        """Whether each vector that is served is the one that this model makes of its chunk."""
        loaded = self.store.load(list(self.served()))
        return all(
            float(vector @ fake.embed_query(stored_embedding_text(loaded[key].chunk, loaded[key].page.summary.title)))
            > 0.999
            for key, vector in self.served().items()
        )

    def by_meaning(self, fake: FakeEmbedder) -> bool:
        """Whether the vectors find anything for a query that this model embedded."""
        vector = QueryVector(fake.identity, fake.embed_query("tok05zebra harbour"), 0.5)
        return bool(retrieve(self.store, Question("tok05zebra harbour", vector)).dense)


@pytest.fixture
def switching(tmp_path: Path) -> Iterator[Callable[[FakeEmbedder], Switching]]:
    running: list[Switching] = []
    base_notes(tmp_path / "many", NOTES)

    def started(embedder: FakeEmbedder) -> Switching:
        running.append(Switching(tmp_path / "many", tmp_path / "home", embedder))
        return running[-1]

    yield started
    for each in running:
        each.indexer.close()


@pytest.mark.parametrize(
    ("identity", "dims"), [("minilm-large@aa", 768), ("minilm@bb", 384)], ids=["768 dimensions", "another file's hash"]
)
def test_t29_another_model_takes_over_while_words_answer_and_no_vector_is_mixed(
    switching: Callable[[FakeEmbedder], Switching], identity: str, dims: int
) -> None:
    first, other = FakeEmbedder("minilm@aa", dims=384), Gated(identity, dims)
    running = switching(first)
    assert (running.by_meaning(first), running.by_meaning(other)) == (True, False)
    first.embedded.clear()
    running.use(other)
    for embedded in (0, STORE_EVERY, NOTES):
        other.allow(embedded - len(other.embedded))
        running.until_all(embedded)
        assert running.are_all_of(other)
        assert (running.by_meaning(first), running.by_meaning(other)) == (False, embedded > 0)
        assert found(running.indexer) == 1
    assert rebuilt(running.indexer) == ["vectors_rebuilt"]
    assert len(other.embedded) == NOTES
    running.use(first)
    running.until_all(NOTES)
    assert running.are_all_of(first)
    assert (running.by_meaning(first), running.by_meaning(other)) == (True, False)
    assert first.embedded == []
    # the first one never left the catalog
    assert rebuilt(running.indexer) == ["vectors_rebuilt"]


def test_t29_an_answer_that_was_begun_with_one_model_meets_no_vector_of_the_next(
    switching: Callable[[FakeEmbedder], Switching],
) -> None:
    first, other = FakeEmbedder("minilm@aa", dims=32), FakeEmbedder("minilm@bb", dims=48)
    running, asked = switching(first), first.embed_query("harbour")
    assert running.store.dense(asked, 5, first.identity) != []
    running.use(other)
    running.until_all(NOTES)
    assert running.store.dense(asked, 5, first.identity) == []
    assert running.store.cosines(asked, list(running.served()), first.identity) == {}


def test_a_catalog_of_another_schema_is_made_anew(
    opened: Open, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened()
    parsed.clear()
    monkeypatch.setattr(catalog, "SCHEMA", 99)
    indexer = opened()
    assert "catalog_rebuilt" in rebuilt(indexer)
    assert (len(parsed), found(indexer)) == (20, 1)
