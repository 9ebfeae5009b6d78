"""Files of the generated tree truncated, flipped or removed, one by one: the next start answers as before."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from builders import FakeEmbedder, base_notes, tree, until, write
from comparison import contents, differences, fresh_build, settle, start_indexer
from torture.damage import DAMAGES, damage_each
from wikid_daemon.index.catalog import Catalog
from wikid_daemon.index.catalog_rows import NewPage, Written
from wikid_daemon.indexer import Indexer
from wikid_daemon.vault.vault import VaultError

QUERIES = ("retry budget", "outbox pattern", "postgresql", "which gateway sends a callback twice", "harbour ledger")

Start = Callable[[], Indexer]


@pytest.fixture
def fake() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
def start(tmp_path: Path, fake: FakeEmbedder) -> Iterator[Start]:
    """Starts and settles the indexer of twenty notes in `tmp_path/notes`; called again, it is a restart."""
    running: list[Indexer] = []

    def started() -> Indexer:
        for each in running:
            each.close()
        running.append(start_indexer(tmp_path / "notes", tmp_path / "state", fake))
        settle(running[-1])
        return running[-1]

    base_notes(tmp_path / "notes")
    yield started
    for each in running:
        each.close()


def change(indexer: Indexer, statement: str) -> None:
    """Write to the catalog of a closed index as no wikid does."""
    catalog = apsw.Connection(str(indexer.vault.state / "current" / "catalog.sqlite"))
    catalog.execute(statement)
    catalog.close()


def assert_whole(indexer: Indexer, tmp_path: Path, fake: FakeEmbedder) -> None:
    with fresh_build(tmp_path / "notes", tmp_path / "fresh", FakeEmbedder()) as fresh:
        assert differences(contents(indexer, QUERIES, fake), contents(fresh, QUERIES, fake)) == []


def test_any_damaged_file_is_mended_by_the_next_start(tmp_path: Path, sample_vault: Callable[[str], Path]) -> None:
    totals = damage_each(sample_vault("project"), tmp_path, QUERIES, print, alike=False)
    assert totals.differences == []
    assert totals.faults > 100


@pytest.mark.parametrize(
    ("statement", "embedded"),
    [
        ("UPDATE chunks SET text=text || cast(x'ff80' AS TEXT) WHERE chunk=(SELECT min(chunk) FROM chunks)", 0),
        ("UPDATE chunks SET heading='other' WHERE chunk=(SELECT max(chunk) FROM chunks)", 0),
        ("UPDATE pages SET summary=x'7b22' WHERE path='n07.md'", 0),
        ("UPDATE pages SET content_hash='other' WHERE path='n07.md'", 0),
        ("UPDATE pages SET path='other.md' WHERE path='n07.md'", 0),
        # nothing tells which page it was
        ("UPDATE pages SET path=path || cast(x'ff' AS TEXT) WHERE path='n07.md'", 20),
    ],
)
def test_stored_text_that_changed_is_read_again_from_its_file(
    start: Start, tmp_path: Path, fake: FakeEmbedder, statement: str, embedded: int
) -> None:
    first = start()
    first.close()
    change(first, statement)
    fake.embedded.clear()
    indexer = start()
    assert len(fake.embedded) == embedded
    assert_whole(indexer, tmp_path, fake)


def test_a_vector_that_changed_is_made_again_and_no_other(start: Start, tmp_path: Path, fake: FakeEmbedder) -> None:
    first = start()
    first.close()
    change(first, "UPDATE vectors SET vector=zeroblob(length(vector)) WHERE rowid=3")
    fake.embedded.clear()
    indexer = start()
    assert len(fake.embedded) == 1
    assert_whole(indexer, tmp_path, fake)


def test_a_page_of_the_catalog_that_cannot_be_read_is_found_late_and_all_is_built_anew(
    start: Start, tmp_path: Path, fake: FakeEmbedder
) -> None:
    indexer = start()
    indexer.close()
    catalog = indexer.vault.state / "current" / "catalog.sqlite"
    data = bytearray(catalog.read_bytes())
    for page in range(2, len(data) // 4096):  # all but the schema
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    catalog.write_bytes(data)
    assert_whole(start(), tmp_path, fake)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95])
def test_damage_in_the_midst_of_lucenes_files_is_found_before_a_search_meets_it(
    start: Start, tmp_path: Path, fake: FakeEmbedder, share: float
) -> None:
    indexer = start()
    indexer.close()
    for path in (indexer.vault.state / "current" / "lucene").glob("*.cfs"):
        data = bytearray(path.read_bytes())
        at = int(len(data) * share)
        data[at : at + 16] = bytes(each ^ 0xFF for each in data[at : at + 16])
        path.write_bytes(data)
    fake.embedded.clear()
    assert_whole(start(), tmp_path, fake)
    assert fake.embedded == []


def test_damage_that_is_met_while_running_has_everything_built_anew(
    start: Start, tmp_path: Path, fake: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexer, met = start(), threading.Event()
    whole = Catalog.put

    def put(catalog: Catalog, new: NewPage, generation: int) -> Written:
        if not met.is_set():
            met.set()
            raise apsw.CorruptError
        return whole(catalog, new, generation)

    monkeypatch.setattr(Catalog, "put", put)
    write(tmp_path / "notes", "late.md", "# Late\n\nharbour\n")
    until(met.is_set, "the note being written")
    # whether an event or this call met it, the next one finds an index again
    with contextlib.suppress(VaultError):
        indexer.sync(30)
    settle(indexer)
    assert_whole(indexer, tmp_path, fake)


@pytest.mark.parametrize("damage", ["emptied", "flipped_at_the_start", "removed"])
def test_a_machine_that_lost_its_id_leaves_the_tree_of_the_vault_alone_and_makes_another(
    sample_vault: Callable[[str], Path], tmp_path: Path, fake: FakeEmbedder, damage: str
) -> None:
    root, home = sample_vault("project"), tmp_path / "state"
    first = start_indexer(root, home, fake)
    settle(first)
    first.close()
    before, machine = tree(root), home / "machine-id"
    data = DAMAGES[damage](machine.read_bytes())
    if data is None:
        machine.unlink()
    else:
        machine.write_bytes(data)
    second = start_indexer(root, home, fake)
    settle(second)
    wanted = contents(second, QUERIES, fake)
    assert (second.vault.state_outside, tree(root)) == ("other_machine", before)
    second.close()
    with fresh_build(root, tmp_path / "fresh", FakeEmbedder()) as fresh:
        assert differences(wanted, contents(fresh, QUERIES, fake)) == []


def test_a_copy_whose_page_went_while_nothing_ran_goes_too(start: Start) -> None:
    indexer = start()
    indexer.close()
    write(indexer.vault.state, "documents/evidence/left.md", "copied before a crash, and its page deleted after it")
    assert "evidence/left.md" not in tree(start().vault.state / "documents")
