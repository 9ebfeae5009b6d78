"""The catalog of one vault: pages, chunks, vectors and generations in SQLite (WAL).

The catalog is the index's own truth. Lucene and FAISS are fed from it: each page row carries the generation that last
changed it and each removal leaves a tombstone, so an index that is behind is brought up by feeding what came after its
cursor. Vectors are kept by chunk hash and model identity, so unchanged text is never embedded twice, whatever its path.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import apsw
import orjson

from wikid_daemon.core.manifest import Known, Stamp
from wikid_daemon.core.summary import summary_from_json
from wikid_daemon.index.catalog_rows import (
    MAX_CHUNKS,
    SCHEMA,
    TABLES,
    NewPage,
    StoredChunk,
    StoredLink,
    StoredPage,
    Written,
    chunk_number,
)

UNUSED_FACTOR: Final = 2  # a deleted note that comes back should find its vectors
_PAGE_COLUMNS: Final = "page, path, page_id, generation, content_hash, summary"


CatalogError = apsw.Error
"""What SQLite raises while the catalog is opened or in use: a full disk, say."""

# anything else, a full disk or too many open files, passes, and must not cost every vector
_DAMAGE: Final = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)


class CatalogDamaged(Exception):
    """The database cannot be read or has another schema; it is rebuilt from the vault."""


class Catalog:
    """One SQLite file. One thread writes; any number of threads read, each over its own connection."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._readers = threading.local()
        self._open_readers: list[apsw.Connection] = []
        self._guard = threading.Lock()
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
        with self._guard:
            for each in (*self._open_readers, self._db):
                each.close()
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

    # -- reading: any thread ------------------------------------------------------------------------------------------

    def _reader(self) -> apsw.Connection:
        found: apsw.Connection | None = getattr(self._readers, "connection", None)
        if found is None:
            found = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READONLY)
            found.set_busy_timeout(5_000)
            self._readers.connection = found
            with self._guard:
                self._open_readers.append(found)
        return found

    def state(self, key: str) -> str | None:
        value = self._reader().execute("SELECT value FROM state WHERE key=?", (key,)).get
        return None if value is None else str(value)

    def known_files(self) -> dict[str, Known]:
        """Every file that was read, served or not, by path."""
        rows = self._reader().execute("SELECT path, content_hash, size, mtime_ns, ctime_ns, inode FROM pages")
        return {path: Known(Stamp(*stamp), digest) for path, digest, *stamp in rows}

    def served(self) -> dict[str, tuple[str, str]]:
        """Page id → path and content hash, of every served page."""
        rows = self._reader().execute("SELECT page_id, path, content_hash FROM pages WHERE summary IS NOT NULL")
        return {page_id: (path, digest) for page_id, path, digest in rows}

    def page_by_id(self, page_id: str) -> StoredPage | None:
        return self._one_page("page_id=? AND summary IS NOT NULL", page_id)

    def _one_page(self, where: str, value: object) -> StoredPage | None:
        rows = self._reader().execute(
            f"SELECT {_PAGE_COLUMNS} FROM pages WHERE {where} ORDER BY path LIMIT 1", (value,)
        )
        return next((_stored(row) for row in rows if row[5] is not None), None)

    def pages(self, numbers: Sequence[int]) -> dict[int, StoredPage]:
        """The served pages with these numbers."""
        marks = ",".join("?" * len(numbers))
        rows = self._reader().execute(
            f"SELECT {_PAGE_COLUMNS} FROM pages WHERE page IN ({marks}) AND summary IS NOT NULL", tuple(numbers)
        )
        return {row[0]: _stored(row) for row in rows}

    def pages_after(self, generation: int) -> Iterator[StoredPage]:
        """Served pages changed after `generation`, oldest change first."""
        rows = self._reader().execute(
            f"SELECT {_PAGE_COLUMNS} FROM pages WHERE generation>? AND summary IS NOT NULL ORDER BY generation, page",
            (generation,),
        )
        return map(_stored, rows)

    def gone_after(self, generation: int) -> list[int]:
        """Numbers of pages removed, or no longer served, after `generation`."""
        rows = self._reader().execute(
            "SELECT page FROM tombstones WHERE generation>?1 UNION"
            " SELECT page FROM pages WHERE generation>?1 AND summary IS NULL",
            (generation,),
        )
        return [page for (page,) in rows]

    def chunks(self, numbers: Sequence[int]) -> dict[int, StoredChunk]:
        marks = ",".join("?" * len(numbers))
        rows = self._reader().execute(
            f"SELECT chunk, page, ordinal, line, heading, text, hash FROM chunks WHERE chunk IN ({marks})",
            tuple(numbers),
        )
        return {row[0]: StoredChunk(*row) for row in rows}

    def chunks_of(self, page: int) -> list[StoredChunk]:
        rows = self._reader().execute(
            "SELECT chunk, page, ordinal, line, heading, text, hash FROM chunks WHERE page=? ORDER BY ordinal", (page,)
        )
        return [StoredChunk(*row) for row in rows]

    def vectors(self, identity: str, page: int | None = None) -> Iterator[tuple[int, bytes]]:
        """(chunk, float32 vector) of every served chunk that has one from this model, of one page or of all."""
        where, values = ("", (identity,)) if page is None else (" AND c.page=?", (identity, page))
        yield from self._reader().execute(
            "SELECT c.chunk, v.vector FROM chunks c JOIN vectors v ON v.hash=c.hash"
            f" WHERE v.model=(SELECT model FROM models WHERE identity=?){where}",
            values,
        )

    def chunks_without_vector(self, identity: str) -> list[int]:
        """Every chunk that has no vector from this model yet."""
        rows = self._reader().execute(
            "SELECT chunk FROM chunks c WHERE NOT EXISTS (SELECT 1 FROM vectors v WHERE v.hash=c.hash"
            " AND v.model=(SELECT model FROM models WHERE identity=?)) ORDER BY chunk",
            (identity,),
        )
        return [chunk for (chunk,) in rows]

    def chunks_with_hash(self, hashes: Sequence[bytes]) -> list[tuple[int, bytes]]:
        marks = ",".join("?" * len(hashes))
        return list(self._reader().execute(f"SELECT chunk, hash FROM chunks WHERE hash IN ({marks})", tuple(hashes)))

    def counts(self) -> tuple[int, int]:
        """Served pages and chunks."""
        reader = self._reader()
        pages = reader.execute("SELECT count(*) FROM pages WHERE summary IS NOT NULL").get
        return int(pages), int(reader.execute("SELECT count(*) FROM chunks").get)

    def findings(self, limit: int = 200) -> list[tuple[str, str, str, str, int | None]]:
        """(path, severity, code, message, line), errors first."""
        rows = self._reader().execute(
            "SELECT path, severity, code, message, line FROM findings ORDER BY severity, path LIMIT ?", (limit,)
        )
        return list(rows)

    def finding_counts(self) -> dict[str, int]:
        return dict(self._reader().execute("SELECT code, count(*) FROM findings GROUP BY code ORDER BY code"))

    def page_ids(self) -> set[str]:
        rows = self._reader().execute("SELECT page_id FROM pages WHERE summary IS NOT NULL")
        return {page_id for (page_id,) in rows}

    def relations_from(self, pages: Sequence[int]) -> list[StoredLink]:
        """The typed relations of these pages."""
        marks = ",".join("?" * len(pages))
        rows = self._reader().execute(
            f"SELECT source, target, relation, scope FROM links WHERE source IN ({marks}) AND relation IS NOT NULL",
            tuple(pages),
        )
        return [StoredLink(*row) for row in rows]

    def links_among(self, pages: Mapping[str, int]) -> list[tuple[int, int]]:
        """The (source, target) numbers of the untyped links between these pages, given as id → number."""
        ids, numbers = ",".join("?" * len(pages)), ",".join("?" * len(pages))
        rows = self._reader().execute(
            f"SELECT source, target FROM links WHERE target IN ({ids}) AND source IN ({numbers}) AND relation IS NULL",
            (*pages, *pages.values()),
        )
        return [(source, pages[target]) for source, target in rows]

    def relations_to(self, page_ids: Sequence[str]) -> list[StoredLink]:
        """The typed relations that point at these pages."""
        marks = ",".join("?" * len(page_ids))
        rows = self._reader().execute(
            f"SELECT source, target, relation, scope FROM links WHERE target IN ({marks}) AND relation IS NOT NULL",
            tuple(page_ids),
        )
        return [StoredLink(*row) for row in rows]

    def numbers_of(self, page_ids: Sequence[str]) -> dict[str, int]:
        """Page id → number, for the served ones."""
        marks = ",".join("?" * len(page_ids))
        rows = self._reader().execute(
            f"SELECT page_id, page FROM pages WHERE page_id IN ({marks}) AND summary IS NOT NULL", tuple(page_ids)
        )
        return dict(rows)

    def backlinks(self, page_id: str) -> list[str]:
        rows = self._reader().execute(
            "SELECT DISTINCT p.page_id FROM links l JOIN pages p ON p.page=l.source"
            " WHERE l.target=? AND l.relation IS NULL ORDER BY 1",
            (page_id,),
        )
        return [source for (source,) in rows]

    def all_pages(self) -> Iterator[StoredPage]:
        """Every served page, by id."""
        rows = self._reader().execute(f"SELECT {_PAGE_COLUMNS} FROM pages WHERE summary IS NOT NULL ORDER BY page_id")
        return map(_stored, rows)


def _stamp_columns(stamp: Stamp) -> tuple[int, int, int, int]:
    return stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode


def _stored(row: Sequence[Any]) -> StoredPage:
    page, path, page_id, generation, content_hash, summary = row
    return StoredPage(page, path, page_id, generation, content_hash, summary_from_json(orjson.loads(summary)))
