"""Parts of the generated tree that another program takes away while wikid runs: they are made again by themselves."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apsw
import pytest

from builders import FakeEmbedder, page, tree, until, write
from comparison import SETTLE_SECONDS, contents, differences, fresh_build, settle, start_indexer
from wikid_daemon.health import vault_status
from wikid_daemon.index.lucene import LexicalIndexDamaged
from wikid_daemon.indexer import Indexer
from wikid_daemon.vault.canary import ProvenWatcher
from wikid_daemon.vault.mirror import Mirror
from wikid_daemon.vault.state import machine_id, owner_of
from wikid_daemon.vault.vault import open_vault
from wikid_daemon.vault.watcher import EVERYTHING

QUERIES = ("retry budget", "outbox pattern", "postgresql", "tokafter")
CATALOG = "current/catalog.sqlite"
WITHOUT_VECTORS = ("current", CATALOG)


@pytest.fixture
def fake() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
def root(sample_vault: Callable[[str], Path], tmp_path: Path) -> Path:
    """A vault that has its id already: nothing of it changes any more but what a test changes."""
    place = sample_vault("project")
    open_vault(place, name=None, state_home=tmp_path / "state")
    return place


@pytest.fixture
def indexer(root: Path, tmp_path: Path, fake: FakeEmbedder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Indexer]:
    """The settled indexer of a vault with its tree inside; a marker that does not come back is missed soon."""
    monkeypatch.setattr("wikid_daemon.indexer.ProvenWatcher", partial(ProvenWatcher, patience_seconds=0.5))
    made = start_indexer(root, tmp_path / "state", fake)
    settle(made)
    assert made.vault.state == root / ".llm-wiki" / "meta" / "wikid"
    fake.embedded.clear()
    yield made
    made.close()


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a folder that is gone is back."""
    monkeypatch.setattr("wikid_daemon.indexer.TROUBLE_SECONDS", 0.05)


def own_files(root: Path) -> dict[str, tuple[str, int]]:
    """What is the vault's own: the bytes and the inode of each file outside the generated tree."""
    kept = {path: digest for path, digest in tree(root).items() if "/meta/wikid/" not in path}
    return {path: (digest, (root / path).stat().st_ino) for path, digest in kept.items()}


def take_away(state: Path, part: str) -> None:
    """At once, since what is taken away file by file may be made again meanwhile."""
    place, taken = state / part, state.with_name("taken")
    place.rename(taken)
    if taken.is_dir():
        shutil.rmtree(taken)
    else:
        taken.unlink()


def entries(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def found(indexer: Indexer, query: str) -> bool:
    store = indexer.store
    try:
        return store is not None and bool(store.lexical(query, 1))
    except LexicalIndexDamaged:
        return False  # it was closed meanwhile, to be opened anew


@pytest.mark.parametrize(
    "part",
    [
        ".",
        "current",
        CATALOG,
        f"{CATALOG}-wal",
        f"{CATALOG}-shm",
        "current/lucene",
        "documents",
        "manifest.json",
        ".gitignore",
        "CACHEDIR.TAG",
        "markers",
    ],
)
def test_what_is_taken_away_while_running_is_made_again(
    indexer: Indexer, root: Path, tmp_path: Path, fake: FakeEmbedder, part: str
) -> None:
    state = indexer.vault.state
    names = {name for name in entries(state) if not name.startswith(("current/lucene/", "markers/"))}
    take_away(state, part)
    before = own_files(root)
    until(lambda: found(indexer, "postgresql"), "an answer meanwhile")
    write(root, ".llm-wiki/wiki/concepts/after.md", page("tokafter", title="After"))
    indexer.sync(SETTLE_SECONDS)
    assert found(indexer, "tokafter")
    settle(indexer)
    texts = len(set(fake.embedded))
    assert (texts > 1) == (part in (".", *WITHOUT_VECTORS))
    with fresh_build(root, tmp_path / "fresh", FakeEmbedder()) as fresh:
        assert differences(contents(indexer, QUERIES, fake), contents(fresh, QUERIES, fake)) == []
    assert [each for each in names if not (state / each).exists()] == []
    assert owner_of(state) == machine_id(tmp_path / "state")
    assert {path: kept for path, kept in own_files(root).items() if path in before} == before
    assert vault_status(indexer).state == "ready"


@pytest.mark.parametrize("part", [".", "markers"])
def test_the_watcher_is_proven_again_after_its_markers_were_taken_away(indexer: Indexer, part: str) -> None:
    take_away(indexer.vault.state, part)
    indexer.sync(SETTLE_SECONDS)
    since = indexer.watcher.last_proof
    until(lambda: indexer.watcher.last_proof != since and not indexer.stale, "a marker that comes back")


def test_a_catalog_that_is_cut_short_while_running_is_made_again(
    indexer: Indexer, root: Path, tmp_path: Path, fake: FakeEmbedder
) -> None:
    with (indexer.vault.state / CATALOG).open("r+b") as file:
        file.truncate(0)
    write(root, ".llm-wiki/wiki/concepts/after.md", page("tokafter", title="After"))
    indexer.sync(SETTLE_SECONDS)
    settle(indexer)
    with fresh_build(root, tmp_path / "fresh", FakeEmbedder()) as fresh:
        assert differences(contents(indexer, QUERIES, fake), contents(fresh, QUERIES, fake)) == []


@pytest.mark.usefixtures("looks_often")
def test_a_vault_that_is_moved_away_is_not_made_again_in_its_old_place(
    indexer: Indexer, root: Path, tmp_path: Path, fake: FakeEmbedder
) -> None:
    write(root, ".llm-wiki/wiki/concepts/after.md", page("tokafter", title="After"))
    indexer.sync(SETTLE_SECONDS)  # what Lucene has not made lasting yet must not be made so in the old place
    away = root.rename(tmp_path / "away")
    indexer.notice({EVERYTHING})  # no event tells it; the next scan would
    until(lambda: indexer.state.state == "unavailable", "the folder being missed")
    indexer.wake()
    until(lambda: found(indexer, "tokafter"), "an answer meanwhile")
    assert not root.exists()
    away.rename(root)
    until(lambda: indexer.state.state == "ready", "the folder being back")
    settle(indexer)
    assert len(fake.embedded) == 1
    assert vault_status(indexer).rebuilt == ()


@pytest.mark.usefixtures("looks_often")
def test_a_vault_that_is_moved_away_while_its_tree_is_looked_at_keeps_its_index(
    indexer: Indexer, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[Path] = []
    seen = vars(Mirror)["in_place"].fget

    def look(mirror: Mirror) -> bool:
        if not moved:
            moved.append(root.rename(tmp_path / "away"))
        return bool(seen(mirror))

    monkeypatch.setattr(Mirror, "in_place", property(look))
    indexer.notice({EVERYTHING})
    until(lambda: indexer.state.state == "unavailable", "the folder being missed")
    assert found(indexer, "postgresql")
    moved[0].rename(root)
    until(lambda: indexer.state.state == "ready", "the folder being back")


def test_a_vault_that_is_away_when_its_indexer_ends_is_not_made_again_either(
    indexer: Indexer, root: Path, tmp_path: Path
) -> None:
    write(root, ".llm-wiki/wiki/concepts/after.md", page("tokafter", title="After"))
    indexer.sync(SETTLE_SECONDS)
    away = root.rename(tmp_path / "away")
    indexer.close()
    assert not root.exists()
    away.rename(root)
    again = start_indexer(root, tmp_path / "state", FakeEmbedder())
    again.sync(SETTLE_SECONDS)
    assert found(again, "tokafter")
    again.close()


def test_status_tells_what_it_knows_of_a_vault_whose_catalog_cannot_be_read(indexer: Indexer) -> None:
    store = indexer.store
    assert store is not None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store.catalog, "counts", refused)
        status = vault_status(indexer)
    assert (status.watcher, status.last_scan is None, status.pages) == ("watching", False, 0)
    assert "catalog" in status.reason


def refused() -> tuple[int, int]:
    raise apsw.CantOpenError("no")
