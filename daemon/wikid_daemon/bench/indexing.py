"""An index of a measured vault, complete, in a folder of the benchmark's own: nothing is written into the vault.

The folder is a temporary one, or, so that constants can be tuned quickly, one that is kept. A kept index is brought up
to date before it is asked, and is another one for other versions of what made it.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from wikid_daemon.bench.dataset import DatasetUnusable
from wikid_daemon.core.chunking import VERSION as CHUNKER
from wikid_daemon.index import jvm
from wikid_daemon.index.catalog_rows import SCHEMA as CATALOG_SCHEMA
from wikid_daemon.index.lucene import LUCENE
from wikid_daemon.index.lucene import SCHEMA as LEXICAL_SCHEMA
from wikid_daemon.index.store import Store
from wikid_daemon.index.vectors import PassageEncoder
from wikid_daemon.indexer import Indexer
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import Vault, VaultError, open_vault
from wikid_daemon.vaults import Applied

KEY_LENGTH: Final = 16  # hexadecimal digits of a kept index's name
CATALOG_OF_INDEX: Final = "index/current/catalog.sqlite"  # below the state folder of an index

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Indexed:
    """A vault that can be asked as recall asks one."""

    applied: Applied
    store: Store

    @property
    def asked(self) -> list[tuple[Applied, Store]]:
        return [(self.applied, self.store)]


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where indexes are made: below `cache`, to be found again, or in temporary folders where that is None."""

    cache: Path | None = None

    @contextmanager
    def folder(self, name: str, *parts: str) -> Iterator[Path]:
        """A folder of its own for `name` as `parts` and the versions of all that makes an index tell it."""
        if self.cache is None:
            with tempfile.TemporaryDirectory(prefix="wikid-bench-") as temporary:
                yield Path(temporary).resolve()
            return
        versions = [CHUNKER, str(CATALOG_SCHEMA), f"lucene-{LUCENE}/{LEXICAL_SCHEMA}", *parts]
        key = hashlib.sha256(json.dumps(versions).encode()).hexdigest()[:KEY_LENGTH]
        folder = self.cache / f"{name}-{key}"
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.resolve()


@contextmanager
def indexed(root: Path, state: Path, encoder: PassageEncoder | None, say: Say) -> Iterator[Indexed]:
    """The vault's index, below `state`, with every page and, given an encoder, every vector. DatasetUnusable."""
    state.mkdir(parents=True, exist_ok=True)
    indexer = Indexer(_outside(root, state), machine_id(state), lambda: encoder, _ignore, jvm.detach)
    indexer.start()
    try:
        indexer.reindex(
            everything=False,
            lexical=True,
            vectors=encoder is not None,
            force=False,
            progress=Progress(say).tell,
            cancelled=lambda: False,
        )
        if indexer.store is None:
            raise DatasetUnusable(f"{root} could not be indexed: {indexer.state.reason}")
        yield Indexed(Applied(indexer, "personal", "measured"), indexer.store)
    finally:
        indexer.close()


def fingerprint(files: Sequence[Path]) -> str:
    """SHA-256 over the files' bytes. DatasetUnusable."""
    digest = hashlib.sha256()
    for path in files:
        try:
            digest.update(path.read_bytes())
        except OSError as problem:
            raise DatasetUnusable(f"{path} cannot be read: {problem.strerror or type(problem).__name__}") from problem
    return digest.hexdigest()


def _outside(root: Path, state: Path) -> Vault:
    try:
        vault = open_vault(root, name=None, state_home=state, may_backfill=False)
    except VaultError as problem:
        raise DatasetUnusable(str(problem)) from problem
    return replace(vault, state=state / "index", state_outside="benchmark")


def _ignore(_indexer: Indexer) -> None:
    """Nobody waits for a generation here."""


class Progress:
    """Tells a long step once for every tenth of it."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._last = ("", -1)

    def tell(self, message: str, percentage: float | None) -> None:
        step = (message, -1 if percentage is None else int(percentage // 10))
        if step != self._last:
            self._last = step
            self._say(message if percentage is None else f"{message} {percentage:.0f} %")
