"""The indexer over real folders with a real index, and an embedder that counts what it is asked for."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import structlog

from builders import FakeEmbedder, base_notes, numbered_note, page, save_atomically, tree, until, write
from wikid_daemon import updater
from wikid_daemon.files import FileBytes
from wikid_daemon.health import vault_status
from wikid_daemon.index import jvm, vectors
from wikid_daemon.indexer import Indexer
from wikid_daemon.updater import Cancelled
from wikid_daemon.vault import vault as vault_module
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import Vault, open_vault

Make = Callable[..., Indexer]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Opens the folder and starts its indexer; `state` names the state directory, so that another is a fresh build."""
    running: list[Indexer] = []

    def made(root: Path, fake: FakeEmbedder | None = None, state: str = "state", *, start: bool = True) -> Indexer:
        home = tmp_path / state
        vault = open_vault(root, name=None, state_home=home)
        indexer = Indexer(vault, machine_id(home), lambda: fake, lambda _indexer: None, jvm.detach)
        running.append(indexer)
        if start:
            indexer.start()
            indexer.sync(30)
        return indexer

    yield made
    for indexer in running:
        indexer.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "notes"
    base_notes(place)
    return place


def found(indexer: Indexer, query: str) -> list[str]:
    store = indexer.store
    assert store is not None
    chunks = [hit.key for hit in store.lexical(query, 10)]
    loaded = store.load(chunks)
    return [loaded[key].page.page_id for key in chunks if key in loaded]


def embedded(indexer: Indexer) -> bool:
    store = indexer.store
    return store is not None and store.catalog.counts()[1] == store.embedded


def contents(indexer: Indexer) -> dict[str, tuple[str, list[str]]]:
    """Every served page: its hash and its chunks' texts."""
    store = indexer.store
    assert store is not None
    return {
        each.page_id: (each.content_hash, [chunk.text for chunk in store.catalog.chunks_of(each.page)])
        for each in store.catalog.all_pages()
    }


def equals_fresh(indexer: Indexer, fresh: Indexer) -> bool:
    queries = [f"tok{number:02}zebra" for number in range(1, 21)]
    return contents(indexer) == contents(fresh) and all(found(indexer, q) == found(fresh, q) for q in queries)


# -- embedding ---------------------------------------------------------------------------------------------------------


def test_every_chunk_is_embedded_once(make: Make, root: Path) -> None:
    fake = FakeEmbedder()
    indexer = make(root, fake)
    until(lambda: embedded(indexer), "every chunk having a vector")
    assert len(fake.embedded) == len(set(fake.embedded)) == 20
    until(lambda: indexer.embedding_pending == 0, "nothing pending")


def test_a_renamed_a_touched_and_a_copied_note_are_not_embedded_again(make: Make, root: Path) -> None:
    fake = FakeEmbedder()
    indexer = make(root, fake)
    until(lambda: embedded(indexer), "every chunk having a vector")
    fake.embedded.clear()
    (root / "sub").mkdir()
    (root / "n01.md").rename(root / "sub" / "renamed.md")
    os.utime(root / "n02.md")
    shutil.copy(root / "n03.md", root / "copy.md")
    save_atomically(root, "n04.md", numbered_note(4))
    indexer.sync(30)
    until(lambda: embedded(indexer), "every chunk having a vector")
    assert fake.embedded == []
    assert found(indexer, "tok01zebra") == ["sub/renamed"]
    assert sorted(found(indexer, "tok03zebra")) == ["copy", "n03"]


def test_only_the_edited_chunk_is_embedded_again(make: Make, root: Path) -> None:
    fake = FakeEmbedder()
    sections = "\n\n".join(f"## Part {n}\n\n" + f"words of part {n} " * 60 for n in range(4))
    write(root, "long.md", f"# Long\n\n{sections}\n")
    indexer = make(root, fake)
    until(lambda: embedded(indexer), "every chunk having a vector")
    fake.embedded.clear()
    write(root, "long.md", f"# Long\n\n{sections.replace('words of part 2', 'terms of part 2', 1)}\n")
    indexer.sync(30)
    until(lambda: embedded(indexer) and fake.embedded, "the edited chunk having its vector")
    assert len(fake.embedded) == 1
    assert "terms of part 2" in fake.embedded[0]


def test_a_restart_embeds_nothing_again(make: Make, root: Path) -> None:
    fake = FakeEmbedder()
    first = make(root, fake)
    until(lambda: embedded(first), "every chunk having a vector")
    first.close()
    fake.embedded.clear()
    again = make(root, fake)
    until(lambda: embedded(again), "the vectors being loaded")
    assert fake.embedded == []


def test_another_model_embeds_all_and_the_first_comes_back_for_nothing(make: Make, root: Path) -> None:
    fake, other = FakeEmbedder(), FakeEmbedder("fake-2", dims=16)
    for each in (fake, other, fake):
        indexer = make(root, each)
        until(partial(embedded, indexer), "every chunk having a vector")
        assert found(indexer, "tok05zebra") == ["n05"]
        indexer.close()
    assert (len(fake.embedded), len(other.embedded)) == (20, 20)


def failures(indexer: Indexer) -> dict[str, str]:
    return {each.path: each.reason for each in vault_status(indexer).failed}


def test_t30_a_text_that_the_model_refuses_is_found_by_words_tried_again_and_told(
    make: Make, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "RETRY_SECONDS", (0.02, 0.05))
    fake = FakeEmbedder(poison="POISON")
    write(root, "poison.md", "# Poison\n\nPOISON tokpoison\n")
    indexer = make(root, fake)
    until(lambda: fake.refused == 3, "the text being given up")
    assert len(fake.embedded) == 20
    for number in range(5):
        write(root, f"more{number}.md", f"# More\n\nmore{number}\n")
        indexer.sync(30)
    until(lambda: len(fake.embedded) == 25, "the new ones having vectors")
    assert found(indexer, "tokpoison") == ["poison"]
    assert (fake.refused, indexer.embedding_pending) == (3, 1)
    assert failures(indexer) == {"poison.md": "not_embedded"}
    assert indexer.state.state == "ready"
    (root / "poison.md").unlink()
    indexer.sync(30)
    assert failures(indexer) == {}


def test_t30_a_text_that_was_refused_once_gets_its_vector_by_and_by(
    make: Make, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "RETRY_SECONDS", (0.2,) * 100)
    fake = FakeEmbedder(poison="tok07zebra")
    indexer = make(root, fake)
    until(lambda: failures(indexer) == {"n07.md": "not_embedded"}, "the refusal being told")
    fake.relent()
    until(lambda: embedded(indexer), "every chunk having a vector")
    assert (failures(indexer), indexer.embedding_pending) == ({}, 0)


def test_a_model_that_arrives_later_is_used_at_once(tmp_path: Path, root: Path) -> None:
    fake, ready = FakeEmbedder(), [False]
    vault = open_vault(root, name=None, state_home=tmp_path / "state")
    indexer = Indexer(vault, "m", lambda: fake if ready[0] else None, lambda _indexer: None, jvm.detach)
    indexer.start()
    indexer.sync(30)
    assert fake.embedded == []
    ready[0] = True
    indexer.wake()
    until(lambda: embedded(indexer), "every chunk having a vector")
    indexer.close()


def test_reindexing_by_force_embeds_everything_anew(make: Make, root: Path) -> None:
    fake = FakeEmbedder()
    indexer = make(root, fake)
    until(lambda: embedded(indexer), "every chunk having a vector")
    fake.embedded.clear()
    seen: list[str] = []
    options = {"progress": lambda words, _share: seen.append(words), "cancelled": lambda: False}
    done = indexer.reindex(everything=True, lexical=True, vectors=True, force=True, **options)  # type: ignore[arg-type]
    assert (done.pages.indexed, done.pages.updated, done.pages.removed) == (0, 20, 0)
    assert (done.vectors.needing, done.vectors.generated, done.vectors.skipped) == (20, 20, 0)
    assert len(fake.embedded) == 20
    assert seen
    again = indexer.reindex(everything=False, lexical=True, vectors=True, force=False, **options)  # type: ignore[arg-type]
    assert (again.pages.indexed, again.pages.updated, again.pages.unchanged, again.pages.removed) == (0, 0, 20, 0)
    assert (again.vectors.needing, again.vectors.generated, again.vectors.skipped) == (0, 0, 20)
    assert found(indexer, "tok05zebra") == ["n05"]


@pytest.mark.parametrize(
    ("how", "steps"),
    [
        (
            {"everything": True, "lexical": True, "vectors": True, "force": True},
            ["building a fresh index", "embedding"],
        ),
        ({"everything": True, "lexical": True, "vectors": False, "force": False}, ["reading"]),
        ({"everything": False, "lexical": False, "vectors": True, "force": True}, ["embedding"]),
    ],
    ids=["anew", "in place", "vectors alone"],
)
def test_each_step_of_a_reindex_is_told_finely_up_to_its_end(
    how: dict[str, bool], steps: list[str], make: Make, root: Path
) -> None:
    fake = FakeEmbedder()
    indexer = make(root, fake)
    until(lambda: embedded(indexer), "every chunk having a vector")
    told: dict[str, list[float]] = {}

    def progress(step: str, share: float | None) -> None:
        told.setdefault(step, [])
        if share is None:
            return
        told[step].append(share)
        if step == "embedding" and len(told[step]) == 2:  # more to embed than there was
            for number in range(50, 80):
                write(root, f"n{number}.md", numbered_note(number))
            until(lambda: indexer.state.pending or indexer.stale, "the new notes being noticed")

    indexer.reindex(**how, progress=progress, cancelled=lambda: False)
    for step in steps:
        shares = told[step]
        assert shares == sorted(set(shares))
        assert len(shares) >= 10
        assert (shares[0] < 10, shares[-1]) == (True, 100)


# -- incremental equals fresh ------------------------------------------------------------------------------------------


def test_after_many_edits_the_index_equals_a_fresh_build(make: Make, root: Path) -> None:
    indexer = make(root)
    for step in range(6):
        write(root, f"n{step + 1:02}.md", numbered_note(step + 1) + f"\n## Step {step}\n\n" + "more words " * 300)
        (root / f"n{step + 8:02}.md").unlink()
        (root / f"dir{step}").mkdir()
        (root / f"n{step + 14:02}.md").rename(root / f"dir{step}" / "n.md")
        save_atomically(root, "always.md", f"# Always\n\nstep{step}\n")
        if step % 2:
            (root / f"dir{step - 1}").rename(root / f"folder{step}")
        indexer.sync(30)
    shutil.rmtree(root / "dir5")
    indexer.sync(30)
    fresh = make(root, state="fresh")
    assert equals_fresh(indexer, fresh)


def test_what_changed_while_nothing_ran_is_found_at_the_next_start(make: Make, root: Path) -> None:
    make(root).close()
    (root / "n01.md").unlink()
    write(root, "n02.md", numbered_note(2) + "\ntokdown\n")
    (root / "n03.md").rename(root / "moved.md")
    indexer = make(root)
    assert (found(indexer, "tok01zebra"), found(indexer, "tokdown")) == ([], ["n02"])
    assert equals_fresh(indexer, make(root, state="fresh"))


@pytest.mark.parametrize("events", ["watcher", "scan"])
def test_a_file_becomes_a_folder_and_back(make: Make, root: Path, events: str) -> None:
    indexer = make(root)

    def settled(condition: Callable[[], bool]) -> None:
        if events == "scan":
            indexer.sync(30)
        until(condition)

    (root / "n01.md").unlink()
    write(root, "n01.md/inner.md", "# Inner\n\ntokinner\n")
    settled(lambda: found(indexer, "tokinner") == ["n01.md/inner"] and found(indexer, "tok01zebra") == [])
    shutil.rmtree(root / "n01.md")
    write(root, "n01.md", numbered_note(1))
    settled(lambda: found(indexer, "tok01zebra") == ["n01"] and found(indexer, "tokinner") == [])


# -- files that cannot be read -----------------------------------------------------------------------------------------


def failing(monkeypatch: pytest.MonkeyPatch, path: str, problem: OSError, times: int = 1_000_000) -> list[str]:
    """Makes reading one note fail so many times; the returned list grows with each try."""
    tries: list[str] = []

    def read_page(vault: Vault, relative: str, limit: int) -> FileBytes:
        if relative == path:
            tries.append(relative)
            if len(tries) <= times:
                raise problem
        return vault_module.read_page(vault, relative, limit)

    monkeypatch.setattr("wikid_daemon.vault.reading.read_page", read_page)
    return tries


def test_t09_an_unreadable_note_is_told_and_the_others_are_served(
    make: Make, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "n09.md", PermissionError(errno.EACCES, "no"))
    indexer = make(root)
    assert indexer.state.failed == {"n09.md": "permission_denied"}
    assert len(contents(indexer)) == 19
    assert indexer.state.state == "ready"


def test_a_note_that_becomes_unreadable_keeps_its_last_text(
    make: Make, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexer = make(root)
    failing(monkeypatch, "n09.md", OSError(errno.EIO, "broken"))
    write(root, "n09.md", "changed")
    indexer.sync(30)
    assert indexer.state.failed == {"n09.md": "input_output_error"}
    assert found(indexer, "tok09zebra") == ["n09"]
    (root / "n09.md").unlink()
    indexer.sync(30)
    assert (indexer.state.failed, found(indexer, "tok09zebra")) == ({}, [])


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.EDEADLK])
def test_t09_a_note_that_is_busy_is_read_by_and_by_and_logged_once(
    make: Make, root: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(updater, "RETRY_SECONDS", (0.3, 0.01, 0.01, 0.01))
    tries = failing(monkeypatch, "n10.md", OSError(code, "busy"), times=3)
    with structlog.testing.capture_logs() as logged:
        indexer = make(root)
        until(lambda: found(indexer, "tok10zebra") == ["n10"], "the retry")
    assert indexer.state.failed == {}
    assert len(tries) >= 4
    told = [each for each in logged if each["event"] == "file_not_read"]
    assert [each["kind"] for each in told] == ["temporarily_unavailable"]


def test_an_empty_folder_is_a_vault_that_fills(make: Make, tmp_path: Path) -> None:
    root = tmp_path / "empty"
    root.mkdir()
    indexer = make(root)
    assert (indexer.state.state, contents(indexer)) == ("ready", {})
    write(root, "first.md", "# First\n\ntokfirst\n")
    until(lambda: found(indexer, "tokfirst") == ["first"])


# -- the root ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a folder that is gone is back."""
    monkeypatch.setattr("wikid_daemon.indexer.TROUBLE_SECONDS", 0.05)


@pytest.mark.usefixtures("looks_often")
def test_t06_a_root_that_went_away_prunes_nothing_and_embeds_nothing_when_it_is_back(
    make: Make, root: Path, tmp_path: Path
) -> None:
    fake = FakeEmbedder()
    indexer = make(root, fake)
    until(lambda: embedded(indexer), "every chunk having a vector")
    fake.embedded.clear()
    root.rename(tmp_path / "away")
    until(lambda: indexer.state.state == "unavailable", "the root being missed")
    assert indexer.stale
    root.mkdir()
    indexer.sync(30)
    assert (indexer.state.state, len(contents(indexer))) == ("unavailable", 20)
    root.rmdir()
    (tmp_path / "away").rename(root)
    until(lambda: indexer.state.state == "ready", "the root being back")
    assert (fake.embedded, len(contents(indexer))) == ([], 20)


@pytest.mark.usefixtures("looks_often")
def test_a_vault_that_opens_while_its_pages_are_away_keeps_what_it_knew(make: Make, root: Path, tmp_path: Path) -> None:
    make(root).close()
    for path in list(root.iterdir()):
        (tmp_path / "away").mkdir(exist_ok=True)
        path.rename(tmp_path / "away" / path.name)
    indexer = make(root)
    assert (indexer.state.state, len(contents(indexer))) == ("unavailable", 20)
    for path in (tmp_path / "away").iterdir():
        path.rename(root / path.name)
    until(lambda: indexer.state.state == "ready", "the pages being back")


# -- marker vaults: mirror, manifest, identity -------------------------------------------------------------------------


def mirrored(vault: Vault) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads((vault.state / "manifest.json").read_text())["documents"]
    return found


def copies(vault: Vault) -> set[str]:
    documents = vault.state / "documents"
    return {path.relative_to(vault.state).as_posix() for path in documents.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["personal", "project", "ugly"])
def test_mirror_and_manifest_hold_exactly_what_is_served(
    make: Make, sample_vault: Callable[[str], Path], name: str
) -> None:
    indexer = make(sample_vault(name))
    wiki = indexer.vault.pages_root
    indexer_pages = set(contents(indexer))
    changed = wiki / "concepts" / "made.md"
    write(wiki, "concepts/made.md", page("made", title="Made"))
    indexer.sync(30)
    assert set(contents(indexer)) == indexer_pages | {"concepts/made"}
    changed.unlink()
    indexer.sync(30)
    indexer.close()
    assert {entry["pageId"] for entry in mirrored(indexer.vault).values()} == indexer_pages
    assert copies(indexer.vault) == mirrored(indexer.vault).keys()
    hashes = tree(wiki)
    assert all(hashes[entry["sourcePath"]] == entry["contentHash"] for entry in mirrored(indexer.vault).values())


def test_a_page_that_breaks_is_withdrawn_and_told_until_it_is_mended(
    make: Make, sample_vault: Callable[[str], Path]
) -> None:
    indexer = make(sample_vault("project"))
    wiki = indexer.vault.pages_root
    before = (wiki / "concepts" / "retry-budget.md").read_bytes()
    write(wiki, "concepts/retry-budget.md", "no frontmatter at all\n")
    indexer.sync(30)
    store = indexer.store
    assert store is not None
    assert "concepts/retry-budget" not in contents(indexer)
    assert store.catalog.finding_counts()["frontmatter_missing"] == 1
    assert not any("retry-budget" in path for path in copies(indexer.vault))
    write(wiki, "concepts/retry-budget.md", before)
    indexer.sync(30)
    assert "concepts/retry-budget" in contents(indexer)
    assert "frontmatter_missing" not in store.catalog.finding_counts()


@pytest.mark.parametrize("how", ["event", "scan"])
def test_of_two_pages_with_one_id_the_first_keeps_it_until_it_goes(
    make: Make, sample_vault: Callable[[str], Path], how: str
) -> None:
    indexer = make(sample_vault("project"))
    wiki = indexer.vault.pages_root

    def settled(condition: Callable[[], bool]) -> None:
        if how == "scan":
            indexer.sync(30)
        until(condition)

    write(wiki, "concepts/twin.md", page("tokunder", title="Under"))
    settled(lambda: found(indexer, "tokunder") == ["concepts/twin"])
    write(wiki, "concepts/Twin.md", page("tokupper", title="Upper"))
    settled(lambda: found(indexer, "tokupper") == ["concepts/Twin"] and found(indexer, "tokunder") == [])
    assert [finding.path for finding in indexer.state.collisions] == ["concepts/twin.md"]
    (wiki / "concepts" / "Twin.md").unlink()
    settled(lambda: found(indexer, "tokunder") == ["concepts/twin"] and found(indexer, "tokupper") == [])
    assert indexer.state.collisions == ()


def test_packets_without_a_page_are_counted(make: Make, sample_vault: Callable[[str], Path]) -> None:
    assert make(sample_vault("personal")).state.packets_without_page == 2


def test_a_vault_without_a_journal_writes_only_below_its_own_tree(
    make: Make, sample_vault: Callable[[str], Path]
) -> None:
    root = sample_vault("personal")
    before = tree(root)
    indexer = make(root, FakeEmbedder())
    until(lambda: embedded(indexer), "every chunk having a vector")
    indexer.close()
    after = {path: digest for path, digest in tree(root).items() if "/meta/wikid/" not in path}
    assert {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)} == {
        ".llm-wiki/config.json"
    }


# -- the thread --------------------------------------------------------------------------------------------------------


def test_closing_twice_and_asking_afterwards_is_refused_not_hung(make: Make, root: Path) -> None:
    indexer = make(root)
    indexer.close()
    indexer.close()
    with pytest.raises(Cancelled):
        indexer.sync(5)
    assert indexer.store is None


def test_nothing_is_pending_and_nothing_stale_once_all_is_searchable(make: Make, root: Path) -> None:
    indexer = make(root)
    for number in range(30):
        write(root, f"burst{number}.md", f"# Burst\n\ntokburst{number}\n")
    until(lambda: found(indexer, "tokburst29") and not indexer.stale and indexer.state.pending == 0, "being current")
    assert len(contents(indexer)) == 50


def test_a_large_folder_arrives_in_batches_that_are_searchable(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "large"
    for number in range(450):
        write(root, f"d{number % 7}/n{number}.md", f"# N{number}\n\ntoklarge{number}\n")
    monkeypatch.setattr(updater, "BATCH_PAGES", 200)
    indexer = make(root)
    store = indexer.store
    assert store is not None
    assert store.catalog.counts()[0] == 450
    assert store.generation == 3
    assert found(indexer, "toklarge449") == ["d1/n449"]


def test_a_page_where_a_folder_was_takes_the_folders_pages_away(make: Make, root: Path) -> None:
    write(root, "plan.md/inner.md", "# Inner\n\ntokinner\n")
    indexer = make(root)
    shutil.rmtree(root / "plan.md")
    write(root, "plan.md", "# Plan\n\ntokplan\n")
    indexer.notice({"plan.md"})
    until(lambda: found(indexer, "tokplan") == ["plan"])
    assert found(indexer, "tokinner") == []
