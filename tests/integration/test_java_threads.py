"""Two vaults are indexed and searched at once: Java's receivers never change places between threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from wikid_daemon.index.lucene import LexicalIndex
from wikid_daemon.index.lucene_document import LexicalChunk

PAGES = 40
ROUNDS = 25


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Threads change places as often as the interpreter allows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def chunks(vault: int, page: int) -> list[LexicalChunk]:
    text = f"word{page} vault{vault} " + "filler " * 40
    return [LexicalChunk(page * 10 + at, f"title{page}", "", "", text, "a/b", "concept") for at in range(3)]


def write(index: LexicalIndex, vault: int) -> None:
    for _ in range(ROUNDS):
        for page in range(PAGES):
            index.put(page, chunks(vault, page))
        index.refresh()


def strangers(index: LexicalIndex, vault: int) -> list[tuple[int, int]]:
    """(page asked for, page found) wherever a search for a page's own word finds another page."""
    found = ((page, hit.key // 10) for page in range(PAGES) for hit in index.search(f"word{page} vault{vault}", 3))
    return [(asked, page) for asked, page in found if asked != page]


@pytest.mark.usefixtures("eager_switching")
def test_two_vaults_written_at_once_keep_their_own_text(tmp_path: Path) -> None:
    indexes = [LexicalIndex(tmp_path / str(vault)) for vault in range(2)]
    for vault, index in enumerate(indexes):
        write(index, vault)
    seen: list[tuple[int, int]] = []
    writers = [threading.Thread(target=write, args=(index, vault)) for vault, index in enumerate(indexes)]

    def read(index: LexicalIndex, vault: int) -> None:
        while any(writer.is_alive() for writer in writers):
            seen.extend(strangers(index, vault))

    readers = [threading.Thread(target=read, args=(index, vault)) for vault, index in enumerate(indexes)]
    for thread in (*writers, *readers):
        thread.start()
    for thread in (*writers, *readers):
        thread.join()
    assert seen == []
    assert [strangers(index, vault) for vault, index in enumerate(indexes)] == [[], []]
    for index in indexes:
        index.close()
