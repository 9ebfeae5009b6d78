"""The catalog's tables and the records that go in and come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from wikid_daemon.core.manifest import Known
from wikid_daemon.core.page import Finding
from wikid_daemon.core.summary import PageSummary

SCHEMA: Final = 1
# a chunk's number is its page's and its place there, so that a hit names its page without a look-up
_CHUNK_BITS: Final = 16
MAX_CHUNKS: Final = 1 << _CHUNK_BITS

TABLES: Final = """
CREATE TABLE state(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE pages(
  page INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, page_id TEXT NOT NULL, generation INTEGER NOT NULL,
  content_hash TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
  inode INTEGER NOT NULL, summary BLOB);
CREATE INDEX pages_by_id ON pages(page_id);
CREATE INDEX pages_by_generation ON pages(generation);
CREATE TABLE chunks(
  chunk INTEGER PRIMARY KEY, page INTEGER NOT NULL, ordinal INTEGER NOT NULL, line INTEGER NOT NULL,
  heading TEXT NOT NULL, text TEXT NOT NULL, hash BLOB NOT NULL);
CREATE INDEX chunks_by_page ON chunks(page, ordinal);
CREATE INDEX chunks_by_hash ON chunks(hash);
CREATE TABLE vectors(model INTEGER NOT NULL, hash BLOB NOT NULL, vector BLOB NOT NULL, UNIQUE(model, hash));
CREATE TABLE models(model INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE);
CREATE TABLE findings(path TEXT NOT NULL, severity TEXT NOT NULL, code TEXT NOT NULL, message TEXT NOT NULL,
  line INTEGER, "column" INTEGER);
CREATE INDEX findings_by_path ON findings(path);
CREATE TABLE links(source INTEGER NOT NULL, target TEXT NOT NULL, relation TEXT, scope TEXT);
CREATE INDEX links_by_source ON links(source);
CREATE INDEX links_by_target ON links(target);
CREATE TABLE tombstones(page INTEGER PRIMARY KEY, generation INTEGER NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class NewChunk:
    ordinal: int
    line: int
    heading: str
    text: str
    hash: bytes


@dataclass(frozen=True, slots=True)
class NewLink:
    """A link to the page `target`, typed where `relation` is set."""

    target: str
    relation: str | None = None
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class NewPage:
    """A file to be remembered. `summary` is None where it is known but not served (malformed)."""

    path: str
    page_id: str
    file: Known
    summary: PageSummary | None
    chunks: Sequence[NewChunk] = ()
    links: Sequence[NewLink] = ()
    findings: Sequence[Finding] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """What one write did: the page's number, its new chunk numbers, and those that went."""

    page: int
    added: Sequence[int]
    dropped: Sequence[int]


@dataclass(frozen=True, slots=True)
class StoredPage:
    page: int
    path: str
    page_id: str
    generation: int
    content_hash: str
    summary: PageSummary


@dataclass(frozen=True, slots=True)
class PageContent:
    """What two catalogs of the same files must have in common for a page. `summary` is None where it is not served."""

    summary: bytes | None
    chunks: Sequence[tuple[Any, ...]]
    links: Sequence[tuple[Any, ...]]
    findings: Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class StoredLink:
    """A link from page number `source` to a page id, typed where `relation` is set."""

    source: int
    target: str
    relation: str | None
    scope: str | None


@dataclass(frozen=True, slots=True)
class StoredChunk:
    chunk: int
    page: int
    ordinal: int
    line: int
    heading: str
    text: str
    hash: bytes


def chunk_number(page: int, ordinal: int) -> int:
    """The number of a page's chunk; `ordinal` is below `MAX_CHUNKS`."""
    return page << _CHUNK_BITS | ordinal


def page_of(chunk: int) -> int:
    """The number of the page that a chunk's number names."""
    return chunk >> _CHUNK_BITS
