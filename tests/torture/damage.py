"""Every file of a vault's generated tree damaged in every way, one by one: the next start mends it or does without."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from builders import FakeEmbedder, tree
from comparison import Contents, contents, differences, fresh_build, settle, start_indexer
from wikid_daemon.vault.vault import VaultError

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


def damage_each(root: Path, folder: Path, queries: Sequence[str], say: Say) -> Totals:
    """The whole matrix over the vault at `root`, whose index is built below `folder` first and restored every time."""
    fake, totals = FakeEmbedder(), Totals()
    state_home, image = folder / "state", folder / "image"
    indexer = start_indexer(root, state_home, fake)
    settle(indexer)
    indexer.close()
    state = indexer.vault.state
    shutil.copytree(state, image)
    with fresh_build(root, folder / "fresh", fake) as fresh:
        wanted = contents(fresh, queries, fake)
    before = _own_files(root, state)
    for relative in _files(image):
        totals.files += 1
        for name, damage in DAMAGES.items():
            data = damage((image / relative).read_bytes())
            if data == (image / relative).read_bytes():
                continue
            shutil.rmtree(state)
            shutil.copytree(image, state)
            if data is None:
                (state / relative).unlink()
            else:
                (state / relative).write_bytes(data)
            totals.faults += 1
            # the copies of pages are for other programs: nothing reads them here, and only one that is gone is missed
            copy = relative.parts[0] == COPIES and data is not None
            expected = replace(wanted, copies=tree(state / COPIES)) if copy else wanted
            wrong = _restarted(root, state_home, fake, queries, expected)
            if _own_files(root, state) != before:
                wrong.append("files of the vault were touched")
            if not state.is_dir():
                shutil.copytree(image, state)
            if wrong:
                say(f"{relative} {name}: {wrong}")
            totals.differences += [f"{relative} {name}: {each}" for each in wrong]
    return totals


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


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder)


def _own_files(root: Path, state: Path) -> dict[str, str]:
    """What is the vault's own: all but the generated tree."""
    generated = f"{state.relative_to(root).as_posix()}/" if state.is_relative_to(root) else "\0"
    return {path: digest for path, digest in tree(root).items() if not path.startswith(generated)}
