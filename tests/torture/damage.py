"""Every file of a vault's generated tree damaged in every way, one by one: the next start mends it or does without.

Three trees are damaged: that of a daemon which ended, which holds Lucene's files of every kind; that of one which was
killed, with SQLite's own files beside the catalog; and that of one which was killed while a new index took its place.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

import orjson

from builders import FakeEmbedder, tree
from comparison import Contents, contents, differences, fresh_build, settle, start_indexer
from wikid_daemon.index.catalog import Catalog
from wikid_daemon.index.lifecycle import CURRENT, PREVIOUS, STAGING, SWAP, Swap
from wikid_daemon.index.store import Store
from wikid_daemon.indexer import Indexer
from wikid_daemon.vault.vault import VaultError
from wikid_daemon.vault.watcher import MARKER_PREFIX

FLIPPED_BYTES: Final = 64
COPIES: Final = "documents"

Say = Callable[[str], None]


def _emptied(data: bytes) -> bytes | None:
    return data[:0]


def _halved(data: bytes) -> bytes | None:
    return data[: len(data) // 2]


def _flipped_in_the_middle(data: bytes) -> bytes | None:
    return _flipped(data, max(len(data) // 2 - FLIPPED_BYTES // 2, 0))


def _flipped_at_the_start(data: bytes) -> bytes | None:
    return _flipped(data, 0)


def _flipped_at_the_end(data: bytes) -> bytes | None:
    return _flipped(data, max(len(data) - FLIPPED_BYTES, 0))


def _flipped(data: bytes, start: int) -> bytes:
    end = start + FLIPPED_BYTES
    return data[:start] + bytes(each ^ 0xFF for each in data[start:end]) + data[end:]


def _removed(_data: bytes) -> bytes | None:
    return None


DAMAGES: Final[dict[str, Callable[[bytes], bytes | None]]] = {
    each.__name__.lstrip("_"): each
    for each in (_emptied, _halved, _flipped_at_the_start, _flipped_in_the_middle, _flipped_at_the_end, _removed)
}


@dataclass(slots=True)
class Totals:
    """Files damaged, in how many ways altogether, and what was not as it must be afterwards."""

    files: int = 0
    faults: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.files} files, {self.faults} faults injected, differences: {len(self.differences)}"


def damage_each(root: Path, folder: Path, queries: Sequence[str], say: Say, *, alike: bool = True) -> Totals:
    """The whole matrix over the vault at `root`, whose index is built below `folder` first and restored every time;
    one file of each kind where not `alike` ones too."""
    fake, totals = FakeEmbedder(), Totals()
    state_home, images = folder / "state", folder / "images"
    indexer = start_indexer(root, state_home, fake)
    settle(indexer)
    _vary(indexer)
    settle(indexer)
    state = indexer.vault.state
    shutil.copytree(state, images / "killed", ignore=shutil.ignore_patterns(f"{MARKER_PREFIX}*"))
    indexer.close()
    shutil.copytree(state, images / "ended")
    _replacing(shutil.copytree(state, images / "replacing"))
    with fresh_build(root, folder / "fresh", fake) as fresh:
        wanted = contents(fresh, queries, fake)
    before, damaged = _own_files(root, state), set[object]()
    for image in (images / "ended", images / "killed", images / "replacing"):
        for relative in _files(image):
            key = relative if alike else _kind(relative)
            if key in damaged:
                continue
            damaged.add(key)
            totals.files += 1
            for name, damage in DAMAGES.items():
                data = damage((image / relative).read_bytes())
                if data == (image / relative).read_bytes():
                    continue
                shutil.rmtree(state, ignore_errors=True)
                shutil.copytree(image, state)
                if data is None:
                    (state / relative).unlink()
                else:
                    (state / relative).write_bytes(data)
                totals.faults += 1
                # the copies of pages are for other programs: nothing reads them here, and only one that is gone is
                # missed
                copy = relative.parts[0] == COPIES and data is not None
                expected = replace(wanted, copies=tree(state / COPIES)) if copy else wanted
                wrong = _restarted(root, state_home, fake, queries, expected)
                if _own_files(root, state) != before:
                    wrong.append("files of the vault were touched")
                if wrong:
                    say(f"{image.name}/{relative} {name}: {wrong}")
                totals.differences += [f"{image.name}/{relative} {name}: {each}" for each in wrong]
    return totals


def _vary(indexer: Indexer) -> None:
    """Have Lucene hold what only merges and deletions make: a segment in many files, and a list of deleted documents.

    Two pages grow by a line each.
    """
    first, second = sorted(indexer.vault.pages_root.rglob("*.md"))[:2]
    _grow(first)
    indexer.after_look(lambda store: store.commit())
    indexer.after_look(_merge)
    _grow(second)
    indexer.after_look(lambda store: store.commit())


def _grow(page: Path) -> None:
    page.write_bytes(page.read_bytes() + b"\nOne more line.\n")


def _merge(store: Store) -> None:
    lexical = store.lexical_index
    assert lexical is not None
    lexical.expunge()
    lexical.commit(store.generation)


def _replacing(image: Path) -> None:
    """As a kill leaves it right after the new index was put in its place."""
    shutil.copytree(image / CURRENT, image / PREVIOUS)
    catalog = Catalog(image / CURRENT / "catalog.sqlite")
    pages, chunks = catalog.counts()
    catalog.close()
    swap = Swap("placed", f"{STAGING}new", pages, chunks)
    (image / SWAP).write_bytes(orjson.dumps(asdict(swap)))


def _restarted(root: Path, state_home: Path, fake: FakeEmbedder, queries: Sequence[str], wanted: Contents) -> list[str]:
    indexer = start_indexer(root, state_home, fake)
    try:
        # whoever meets the damage first may be refused, and finds an index again
        with contextlib.suppress(VaultError):
            settle(indexer)
        settle(indexer)
        return differences(contents(indexer, queries, fake), wanted)
    except Exception as problem:  # noqa: BLE001 - a finding like any other
        return [f"{type(problem).__name__}: {problem}"]
    finally:
        indexer.close()


def _kind(relative: Path) -> tuple[str, ...]:
    """What files that are read alike have in common: a role of copies, an ending of Lucene's names."""
    if relative.parts[0] in (COPIES, PREVIOUS):
        return relative.parts[:2]
    return relative.parent.as_posix(), relative.suffix or relative.name.strip("0123456789")


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder)


def _own_files(root: Path, state: Path) -> dict[str, str]:
    """What is the vault's own: all but the generated tree."""
    generated = f"{state.relative_to(root).as_posix()}/" if state.is_relative_to(root) else "\0"
    return {path: digest for path, digest in tree(root).items() if not path.startswith(generated)}
