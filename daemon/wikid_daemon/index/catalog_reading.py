"""Reading a vault's catalog, from any thread: each has a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import apsw
import orjson

from wikid_daemon.core.manifest import Known, Stamp
from wikid_daemon.core.page import Finding
from wikid_daemon.core.summary import summary_from_json
from wikid_daemon.index.catalog_rows import NewChunk, NewLink, NewPage, PageContent, StoredChunk, StoredLink, StoredPage

READER_CACHE_KIB: Final = 256  # some twenty threads have a connection to each catalog; SQLite's own 2 MB each add up
_PAGE_COLUMNS: Final = "page, path, page_id, generation, content_hash, summary"


class CatalogReader:
    """The reading half of `Catalog`, over the SQLite file at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._readers = threading.local()
        self._open_readers: list[apsw.Connection] = []
        self._guard = threading.Lock()
        self._closed = False
        self._counted = (-1, 0), 0  # for which generation and up to what, and the pages

    def _reader(self) -> apsw.Connection:
        found: apsw.Connection | None = getattr(self._readers, "connection", None)
        if found is None:
            with self._guard:
                if self._closed:  # what is at the path now may be another index
                    raise apsw.ConnectionClosedError("the catalog was closed")
                found = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READONLY)
                self._open_readers.append(found)
            found.set_busy_timeout(5_000)
            found.execute(f"PRAGMA cache_size=-{READER_CACHE_KIB}")
            self._readers.connection = found
        return found

    def state(self, key: str) -> str | None:
        value = self._reader().execute("SELECT value FROM state WHERE key=?", (key,)).get
        return None if value is None else str(value)

    def known_files(self) -> dict[str, Known]:
        """Every file that was read, served or not, by path."""
        rows = self._reader().execute("SELECT path, content_hash, size, mtime_ns, ctime_ns, inode FROM pages")
        try:
            return {path: Known(Stamp(*stamp), digest) for path, digest, *stamp in rows}
        except UnicodeDecodeError as problem:  # damage that SQLite does not notice
            raise apsw.CorruptError("a stored path cannot be read") from problem

    def served(self) -> dict[str, tuple[str, str]]:
        """Page id → path and content hash, of every served page."""
        rows = self._reader().execute("SELECT page_id, path, content_hash FROM pages WHERE summary IS NOT NULL")
        return {page_id: (path, digest) for page_id, path, digest in rows}

    def versions_of_files(self) -> dict[str, tuple[int, str, str]]:
        """Path → page number, page id and content hash, of every file that was read, served or not."""
        rows = self._reader().execute("SELECT path, page, page_id, content_hash FROM pages")
        return {path: (page, page_id, digest) for path, page, page_id, digest in rows}

    def content_of(self, page: int) -> PageContent:
        """All that is kept of one page, in an order and without the numbers that depend on history."""
        reader, one = self._reader(), (page,)
        return PageContent(
            summary=reader.execute("SELECT summary FROM pages WHERE page=?", one).get,
            chunks=reader.execute(
                "SELECT ordinal, line, heading, text, hash FROM chunks WHERE page=? ORDER BY ordinal", one
            ).fetchall(),
            links=reader.execute(
                "SELECT target, relation, scope FROM links WHERE source=? ORDER BY 1, 2, 3", one
            ).fetchall(),
            findings=reader.execute(
                'SELECT severity, code, message, line, "column" FROM findings'
                " WHERE path=(SELECT path FROM pages WHERE page=?) ORDER BY 1, 2, 3, 4, 5",
                one,
            ).fetchall(),
        )

    def page_as_new(self, path: str) -> NewPage | None:
        """The page at `path` as another catalog takes it; None where it is not known."""
        rows = self._reader().execute(
            "SELECT page, page_id, content_hash, size, mtime_ns, ctime_ns, inode FROM pages WHERE path=?", (path,)
        )
        for page, page_id, digest, *stamp in rows:
            content = self.content_of(page)
            return NewPage(
                path,
                page_id,
                Known(Stamp(*stamp), digest),
                None if content.summary is None else summary_from_json(orjson.loads(content.summary)),
                [NewChunk(*each) for each in content.chunks],
                [NewLink(*each) for each in content.links],
                [Finding(severity, code, path, *rest) for severity, code, *rest in content.findings],
            )
        return None

    def chunk_numbers(self) -> set[int]:
        return {chunk for (chunk,) in self._reader().execute("SELECT chunk FROM chunks")}

    def page_by_id(self, page_id: str) -> StoredPage | None:
        return self._one_page("page_id=? AND summary IS NOT NULL", page_id)

    def _one_page(self, where: str, value: object) -> StoredPage | None:
        rows = self._reader().execute(
            f"SELECT {_PAGE_COLUMNS} FROM pages WHERE {where} ORDER BY path LIMIT 1", (value,)
        )
        return next((_stored(row) for row in rows if row[5] is not None), None)

    def pages(self, numbers: Sequence[int]) -> dict[int, StoredPage]:
        """The served pages with these numbers."""
        if not numbers:
            return {}
        marks = ",".join("?" * len(numbers))
        rows = self._reader().execute(
            f"SELECT {_PAGE_COLUMNS} FROM pages WHERE page IN ({marks}) AND summary IS NOT NULL", tuple(numbers)
        )
        return {row[0]: _stored(row) for row in rows}

    def kinds(self) -> Iterator[tuple[int, str, str | None, str | None]]:
        """The number, type, category and date, that of its last change where it has one, of every served page."""
        yield from self._reader().execute(
            "SELECT page, json_extract(text, '$.type'), json_extract(text, '$.category'),"
            " coalesce(nullif(json_extract(text, '$.updated'), ''), json_extract(text, '$.created'))"
            " FROM (SELECT page, cast(summary AS TEXT) AS text FROM pages WHERE summary IS NOT NULL)"
        )

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
        if not numbers:
            return {}
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

    def count_pages(self, most: int, generation: int) -> int:
        """How many pages are served, counted up to `most`; once for each `generation`, since every recall asks."""
        known_for, pages = self._counted
        if known_for != (generation, most):
            found = self._reader().execute(
                "SELECT count(*) FROM (SELECT 1 FROM pages WHERE summary IS NOT NULL LIMIT ?)", (max(most, 0),)
            )
            pages = int(found.get)
            self._counted = (generation, most), pages
        return pages

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

    def paths_of_category(self, category: str) -> list[str]:
        """The paths of the served pages of this category."""
        rows = self._reader().execute(
            "SELECT path FROM pages WHERE summary IS NOT NULL"
            " AND json_extract(cast(summary AS TEXT), '$.category')=? ORDER BY path",
            (category,),
        )
        return [path for (path,) in rows]

    def relations_from(self, pages: Sequence[int]) -> list[StoredLink]:
        """The typed relations of these pages."""
        if not pages:
            return []
        marks = ",".join("?" * len(pages))
        rows = self._reader().execute(
            f"SELECT source, target, relation, scope FROM links WHERE source IN ({marks}) AND relation IS NOT NULL",
            tuple(pages),
        )
        return [StoredLink(*row) for row in rows]

    def links_among(self, pages: Mapping[str, int]) -> list[tuple[int, int]]:
        """The (source, target) numbers of the untyped links between these pages, given as id → number."""
        if not pages:
            return []
        ids, numbers = ",".join("?" * len(pages)), ",".join("?" * len(pages))
        rows = self._reader().execute(
            f"SELECT source, target FROM links WHERE target IN ({ids}) AND source IN ({numbers}) AND relation IS NULL",
            (*pages, *pages.values()),
        )
        return [(source, pages[target]) for source, target in rows]

    def relations_to(self, page_ids: Sequence[str]) -> list[StoredLink]:
        """The typed relations that point at these pages."""
        if not page_ids:
            return []
        marks = ",".join("?" * len(page_ids))
        rows = self._reader().execute(
            f"SELECT source, target, relation, scope FROM links WHERE target IN ({marks}) AND relation IS NOT NULL",
            tuple(page_ids),
        )
        return [StoredLink(*row) for row in rows]

    def numbers_of(self, page_ids: Sequence[str]) -> dict[str, int]:
        """Page id → number, for the served ones."""
        if not page_ids:
            return {}
        marks = ",".join("?" * len(page_ids))
        rows = self._reader().execute(
            f"SELECT page_id, page FROM pages WHERE page_id IN ({marks}) AND summary IS NOT NULL", tuple(page_ids)
        )
        return dict(rows)

    def ids_of(self, numbers: Sequence[int]) -> dict[int, str]:
        """Number → page id, for the served ones."""
        if not numbers:
            return {}
        marks = ",".join("?" * len(numbers))
        rows = self._reader().execute(
            f"SELECT page, page_id FROM pages WHERE page IN ({marks}) AND summary IS NOT NULL", tuple(numbers)
        )
        return dict(rows)

    def backlinks(self, page_id: str, most: int) -> tuple[list[str], int]:
        """Up to `most` of the ids of pages that link to this one, in their order, and how many there are."""
        rows = self._reader().execute(
            "SELECT DISTINCT p.page_id FROM links l JOIN pages p ON p.page=l.source"
            " WHERE l.target=? AND l.relation IS NULL ORDER BY 1",
            (page_id,),
        )
        found = [source for (source,) in rows]
        return found[:most], len(found)

    def stored_texts(self) -> Iterator[tuple[str, bytes, bytes | None, bytes, bytes]]:
        """(path, summary as JSON, heading, text, hash) of every chunk, page by page, as the bytes that are stored. A
        served page without chunks comes once, with None for the heading."""
        yield from self._reader().execute(
            "SELECT p.path, cast(p.summary AS BLOB), cast(c.heading AS BLOB), cast(c.text AS BLOB), c.hash"
            " FROM pages p LEFT JOIN chunks c ON c.page=p.page WHERE p.summary IS NOT NULL ORDER BY p.page"
        )

    def all_pages(self) -> Iterator[StoredPage]:
        """Every served page, by id."""
        rows = self._reader().execute(f"SELECT {_PAGE_COLUMNS} FROM pages WHERE summary IS NOT NULL ORDER BY page_id")
        return map(_stored, rows)


def _stored(row: Sequence[Any]) -> StoredPage:
    page, path, page_id, generation, content_hash, stored = row
    try:
        summary = summary_from_json(orjson.loads(stored))
    except (ValueError, TypeError, KeyError) as problem:  # damage that SQLite does not notice
        raise apsw.CorruptError("a stored summary cannot be read") from problem
    return StoredPage(page, path, page_id, generation, content_hash, summary)
