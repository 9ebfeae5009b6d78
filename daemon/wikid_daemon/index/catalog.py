"""The catalog of one vault: pages, chunks, vectors and generations in SQLite (WAL).

The catalog is the index's own truth. Lucene and FAISS are fed from it: each page row carries the generation that last
changed it and each removal leaves a tombstone, so an index that is behind is brought up by feeding what came after its
cursor. Vectors are kept by chunk hash and model identity, so unchanged text is never embedded twice, whatever its path.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw
import orjson

from wikid_daemon.core.manifest import Stamp
from wikid_daemon.index.catalog_reading import CatalogReader
from wikid_daemon.index.catalog_rows import (
    MAX_CHUNKS,
    SCHEMA,
    TABLES,
    NewPage,
    Written,
    chunk_number,
)

UNUSED_FACTOR: Final = 2  # a deleted note that comes back should find its vectors
BUSY_SECONDS: Final = 0.001  # between two looks at whether a search has ended


CatalogError = apsw.Error
"""What SQLite raises while the catalog is opened or in use: a full disk, say."""

CatalogCorrupt: Final = (apsw.CorruptError, apsw.NotADBError)
"""What SQLite raises when it reads a part of the file that is damaged, which may be long after it was opened."""

_SUFFIXES: Final = ("", "-wal", "-shm")  # of the files that one SQLite database is

_REASONS: Final = (
    (apsw.FullError, "disk_full"),
    (apsw.ReadOnlyError, "read_only"),
    (apsw.PermissionsError, "permission_denied"),
    (apsw.CantOpenError, "cannot_be_opened"),
    (apsw.IOError, "input_output_error"),
    (CatalogCorrupt, "catalog_damaged"),
)

# anything else, a full disk or too many open files, passes, and must not cost every vector
_DAMAGE: Final = (*CatalogCorrupt, apsw.SQLError)


class CatalogDamaged(Exception):
    """The database cannot be read or has another schema; it is rebuilt from the vault."""


def catalog_reason(problem: Exception) -> str:
    """A stable word for why the catalog failed, the same as a file's failure has."""
    return next((word for kind, word in _REASONS if isinstance(problem, kind)), type(problem).__name__)


class Catalog(CatalogReader):
    """One SQLite file. One thread writes; any number of threads read, each over its own connection."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = self._connect()
        try:
            self._prepare()
        except _DAMAGE as problem:
            self.close()
            raise CatalogDamaged(f"the catalog cannot be read: {type(problem).__name__}") from problem
        except (apsw.Error, CatalogDamaged):
            self.close()
            raise
        self._files, self._size = self._found()

    @property
    def in_place(self) -> bool:
        """Whether SQLite's files are still those that were opened, none removed, put in place of another or cut short.

        It goes on reading and writing files that are gone, which no later start ever sees. Raises OSError where nobody
        can tell.
        """
        files, size = self._found()
        kept = files == self._files and size >= self._size
        self._size = max(size, self._size)
        return kept

    def _found(self) -> tuple[list[tuple[int, int]], int]:
        """Device and inode of each file that there is, and the database's bytes, which never become fewer."""
        found = [status for suffix in _SUFFIXES if (status := _status(f"{self._path}{suffix}")) is not None]
        return [(each.st_dev, each.st_ino) for each in found], found[0].st_size if found else 0

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(str(self._path))
        connection.set_busy_timeout(5_000)
        return connection

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        # NORMAL cannot corrupt under WAL; what power loss could take is found again by the scan
        self._db.execute("PRAGMA synchronous=NORMAL; PRAGMA temp_store=MEMORY")
        found = self._db.execute("PRAGMA user_version").get
        if found == 0 and self._db.execute("SELECT count(*) FROM sqlite_schema").get == 0:
            with self._db:
                self._db.execute(TABLES)
                self._db.execute(f"PRAGMA user_version={SCHEMA}")
        elif found != SCHEMA:
            raise CatalogDamaged(f"the catalog has schema {found}, this daemon writes {SCHEMA}")
        self.generation = int(self.state("generation") or 0)

    def close(self) -> None:
        """Let go of the file; a search that another thread is at ends with an error."""
        with self._guard:
            self._closed = True
            for each in (*self._open_readers, self._db):
                _close(each)
            self._open_readers.clear()

    # -- writing: the indexer's thread alone --------------------------------------------------------------------------

    @contextmanager
    def write(self) -> Iterator[int]:
        """One transaction; yields the generation it will publish, which is lasting once the block ends."""
        generation = self.generation + 1
        with self._db:
            yield generation
            self.set_state("generation", str(generation))
        self.generation = generation

    def set_state(self, key: str, value: str) -> None:
        self._db.execute(
            "INSERT INTO state VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET value=excluded.value", (key, value)
        )

    def put(self, new: NewPage, generation: int) -> Written:
        """Insert or replace the page at `new.path` with its chunks, links and findings."""
        stamp = new.file.stamp
        summary = None if new.summary is None else orjson.dumps(new.summary)
        page = int(
            self._db.execute(
                "INSERT INTO pages(path, page_id, generation, content_hash, size, mtime_ns, ctime_ns, inode, summary)"
                " VALUES(?,?,?,?,?,?,?,?,?) ON CONFLICT(path) DO UPDATE SET page_id=excluded.page_id,"
                " generation=excluded.generation, content_hash=excluded.content_hash, size=excluded.size,"
                " mtime_ns=excluded.mtime_ns, ctime_ns=excluded.ctime_ns, inode=excluded.inode,"
                " summary=excluded.summary RETURNING page",
                (new.path, new.page_id, generation, new.file.content_hash, *_stamp_columns(stamp), summary),
            ).get
        )
        dropped = self._forget_parts(page, new.path)
        numbers = [chunk_number(page, each.ordinal) for each in new.chunks[:MAX_CHUNKS]]
        self._db.executemany(
            "INSERT INTO chunks(chunk, page, ordinal, line, heading, text, hash) VALUES(?,?,?,?,?,?,?)",
            (
                (number, page, c.ordinal, c.line, c.heading, c.text, c.hash)
                for number, c in zip(numbers, new.chunks, strict=False)
            ),
        )
        self._db.executemany(
            "INSERT INTO links VALUES(?,?,?,?)", ((page, each.target, each.relation, each.scope) for each in new.links)
        )
        self._db.executemany(
            "INSERT INTO findings VALUES(?,?,?,?,?,?)",
            ((new.path, f.severity, f.code, f.message, f.line, f.column) for f in new.findings),
        )
        self._db.execute("DELETE FROM tombstones WHERE page=?", (page,))
        return Written(page, numbers, dropped)

    def touch(self, files: Iterable[tuple[str, Stamp]]) -> None:
        """These files' metadata changed, their bytes did not."""
        with self._db:
            self._db.executemany(
                "UPDATE pages SET size=?, mtime_ns=?, ctime_ns=?, inode=? WHERE path=?",
                ((*_stamp_columns(stamp), path) for path, stamp in files),
            )

    def remove(self, path: str, generation: int) -> Written | None:
        """Forget the page at `path`, leaving a tombstone for the indexes that are fed from here."""
        page = self._db.execute("DELETE FROM pages WHERE path=? RETURNING page", (path,)).get
        if page is None:
            return None
        dropped = self._forget_parts(page, path)
        self._db.execute("INSERT OR REPLACE INTO tombstones VALUES(?,?)", (page, generation))
        return Written(int(page), (), dropped)

    def _forget_parts(self, page: int, path: str) -> list[int]:
        dropped = [chunk for (chunk,) in self._db.execute("DELETE FROM chunks WHERE page=? RETURNING chunk", (page,))]
        self._db.execute("DELETE FROM links WHERE source=?", (page,))
        self._db.execute("DELETE FROM findings WHERE path=?", (path,))
        return dropped

    def add_vectors(self, identity: str, vectors: Iterable[tuple[bytes, bytes]]) -> None:
        """Keep float32 vectors by chunk hash under the model's identity."""
        with self._db:
            model = self._model(identity)
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES(?,?,?)", ((model, h, v) for h, v in vectors))

    def _model(self, identity: str) -> int:
        self._db.execute("INSERT OR IGNORE INTO models(identity) VALUES(?)", (identity,))
        return int(self._db.execute("SELECT model FROM models WHERE identity=?", (identity,)).get)

    def take_vectors(self, other: Path) -> None:
        """Take over the vectors of another catalog's file, of every model, for the chunks that are here."""
        self._db.execute("ATTACH ? AS other", (str(other),))
        try:
            with self._db:
                self._db.execute("INSERT OR IGNORE INTO models(identity) SELECT identity FROM other.models")
                self._db.execute(
                    "INSERT OR IGNORE INTO vectors SELECT m.model, v.hash, v.vector FROM other.vectors v"
                    " JOIN other.models o ON o.model=v.model JOIN main.models m ON m.identity=o.identity"
                    " WHERE v.hash IN (SELECT hash FROM main.chunks)"
                )
        finally:
            self._db.execute("DETACH other")

    def follow(self, generation: int) -> None:
        """Publish all that is here as the generation after this one."""
        self.set_state("generation", str(generation + 1))
        self.generation = generation + 1

    def drop_tombstones(self, up_to: int) -> None:
        """Removals that every index has taken over need no tombstone."""
        with self._db:
            self._db.execute("DELETE FROM tombstones WHERE generation<=?", (up_to,))

    def drop_vectors(self, identity: str) -> None:
        """Forget every vector of one model."""
        with self._db:
            self._db.execute("DELETE FROM vectors WHERE model=(SELECT model FROM models WHERE identity=?)", (identity,))

    def drop_unused_vectors(self) -> None:
        """Forget vectors of texts that no page has any more, once they outnumber those in use."""
        kept = self._db.execute("SELECT count(*) FROM vectors").get
        used = self._db.execute("SELECT count(DISTINCT hash) FROM chunks").get
        if kept > UNUSED_FACTOR * used:
            with self._db:
                self._db.execute("DELETE FROM vectors WHERE hash NOT IN (SELECT hash FROM chunks)")


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _stamp_columns(stamp: Stamp) -> tuple[int, int, int, int]:
    return stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode


def _close(connection: apsw.Connection) -> None:
    while True:
        try:
            connection.close()
        except apsw.ThreadingViolationError:
            connection.interrupt()
            time.sleep(BUSY_SECONDS)
        else:
            return
