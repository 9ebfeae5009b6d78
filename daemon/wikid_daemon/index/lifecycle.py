"""The folders of one vault's index, and how a new one takes the old one's place (seed A, Index lifecycle).

A rebuild is made in `staging-<uuid>/` while `current/` goes on answering. Then whole folders change places, while no
index in them is open: `swap.json` tells how far that has come, so that the next start completes it or undoes it.
"""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Final, Literal, get_args

import orjson
import structlog

from wikid_daemon import files
from wikid_daemon.index.catalog import CatalogError
from wikid_daemon.index.lucene import LexicalIndexDamaged
from wikid_daemon.index.store import Store

CURRENT: Final = "current"
PREVIOUS: Final = "previous"
STAGING: Final = "staging-"
SWAP: Final = "swap.json"
UNDONE: Final = "rebuild_undone"
_SWAP_LIMIT: Final = 1 << 16

Phase = Literal["prepared", "retired", "placed"]

log = structlog.get_logger("lifecycle")


@dataclass(frozen=True, slots=True)
class Swap:
    """What `swap.json` holds: the last step that is done, the folder that is to be `current`, and what is in it.

    `prepared`: the new index is whole. `retired`: the old one is `previous`. `placed`: the new one is `current`.
    """

    phase: Phase
    staging: str
    pages: int
    chunks: int


class Recovery(Enum):
    """What a start does about an interrupted replacement."""

    KEEP = "open current; previous and staging are left over"
    PLACE = "staging becomes current; where it is not whole, previous does again"
    TRY = "open current; where it is not whole, previous becomes current again"
    RESTORE = "previous becomes current again"


def decide(phase: Phase | None, *, current: bool, previous: bool, staging: bool) -> Recovery:
    """From the phase in `swap.json`, None where there is none that can be read, and the folders that exist.

    Folders are only ever renamed while whole, and deleted under a staging name, so each that exists is whole.
    """
    if current:
        never_moved = phase == "prepared" and staging
        return Recovery.TRY if previous and not never_moved else Recovery.KEEP
    if staging and phase is not None:
        return Recovery.PLACE
    return Recovery.RESTORE if previous else Recovery.KEEP


def new_staging(state: Path) -> Path:
    """An empty folder to build an index in, below a vault's state."""
    folder = state / f"{STAGING}{uuid.uuid4().hex}"
    folder.mkdir()
    return folder


def discard(folder: Path) -> None:
    """Delete a staging folder; what cannot be deleted goes at the next start."""
    shutil.rmtree(folder, ignore_errors=True)


def open_current(state: Path) -> Store:
    """Finish or undo what was interrupted, delete what is left over, and open the index. Raises as `Store` does."""
    swap = _read(state)
    phase, staging = (None, "") if swap is None else (swap.phase, swap.staging)
    recovery = decide(
        phase,
        current=(state / CURRENT).is_dir(),
        previous=(state / PREVIOUS).is_dir(),
        staging=swap is not None and (state / staging).is_dir(),
    )
    if recovery is not Recovery.KEEP or phase is not None:
        log.warning("replacement_recovered", kind=recovery.name.lower(), step=phase or "none")
    if recovery is Recovery.PLACE:
        assert swap is not None
        return _placed(state, swap)
    if recovery is Recovery.TRY:
        return _accepted(state, swap)
    if recovery is Recovery.RESTORE:
        _move(state / PREVIOUS, state / CURRENT)
    return _opened(state)


def replace(state: Path, staging: Path, pages: int, chunks: int) -> Store:
    """Put the closed index in `staging`, of so many served pages and chunks, in the place of the closed one in
    `current`, and open it. Where it cannot be opened as it was left, the old one is put back and opened, with a note
    `UNDONE`.

    Raises OSError or what `Store` raises; `open_current` then goes on from there.
    """
    _retire(state / PREVIOUS)
    _record(state, Swap("prepared", staging.name, pages, chunks))
    if (state / CURRENT).exists():
        _move(state / CURRENT, state / PREVIOUS)
    swap = Swap("retired", staging.name, pages, chunks)
    _record(state, swap)
    return _placed(state, swap)


def _placed(state: Path, swap: Swap) -> Store:
    _move(state / swap.staging, state / CURRENT)
    placed = Swap("placed", swap.staging, swap.pages, swap.chunks)
    _record(state, placed)
    return _accepted(state, placed)


def _accepted(state: Path, swap: Swap | None) -> Store:
    """The index in `current` where it is whole, else the one in `previous`, moved back."""
    store = _whole(state / CURRENT, swap)
    if store is None:
        log.error("replacement_not_whole")
        if (state / PREVIOUS).exists():
            _retire(state / CURRENT)
            _move(state / PREVIOUS, state / CURRENT)
        store = _opened(state)
        store.notes.append((UNDONE, "the new index was not whole, so the one before it is back"))
        return store
    try:
        _tidy(state)
    except BaseException:
        store.close()
        raise
    return store


def _whole(folder: Path, swap: Swap | None) -> Store | None:
    """The index, opened, where nothing had to be repaired and it holds what it should."""
    try:
        store = Store(folder)
    except (OSError, CatalogError, LexicalIndexDamaged) as problem:
        log.warning("index_not_opened", kind=type(problem).__name__)
        return None
    if not store.notes and (swap is None or store.catalog.counts() == (swap.pages, swap.chunks)):
        return store
    store.close()
    return None


def _opened(state: Path) -> Store:
    _tidy(state)
    return Store(state / CURRENT)


def _tidy(state: Path) -> None:
    """Delete all but `current`: there is nothing to go back to, and nothing to go on with."""
    _retire(state / PREVIOUS)
    _forget(state)
    for entry in os.scandir(state) if state.is_dir() else ():
        if entry.name.startswith(STAGING) and entry.is_dir(follow_symlinks=False):
            discard(Path(entry.path))


def _retire(folder: Path) -> None:
    """Give a folder a staging name, so that it is never taken for a whole index while it is deleted."""
    if folder.exists():
        retired = folder.with_name(f"{STAGING}{uuid.uuid4().hex}")
        _move(folder, retired)
        discard(retired)


def _read(state: Path) -> Swap | None:
    try:
        found = orjson.loads(files.read_regular(state / SWAP, _SWAP_LIMIT).data)
        swap = Swap(found["phase"], found["staging"], int(found["pages"]), int(found["chunks"]))
    except FileNotFoundError:
        return None
    except (files.NotReadable, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        log.warning("swap_not_readable")
        return None
    named = isinstance(swap.staging, str) and Path(swap.staging).name == swap.staging
    if swap.phase not in get_args(Phase) or not named or not swap.staging.startswith(STAGING):
        log.warning("swap_not_readable")
        return None
    return swap


# -- the steps that last, one by one -----------------------------------------------------------------------------------


def _record(state: Path, swap: Swap) -> None:
    files.atomic_write(state / SWAP, orjson.dumps(asdict(swap)) + b"\n", durable=True)


def _move(source: Path, target: Path) -> None:
    os.rename(source, target)
    files.sync_folder(target.parent)


def _forget(state: Path) -> None:
    (state / SWAP).unlink(missing_ok=True)
