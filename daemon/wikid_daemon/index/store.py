"""The index of one vault as one thing: catalog, Lucene and FAISS under one generation.

A batch is one catalog transaction; Lucene is written inside it and shown after it, so that a search never meets a chunk
number that the catalog does not know yet. Lucene commits lag behind: what its cursor has not seen is fed again at open.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from wikid_daemon.core.chunking import VERSION as CHUNKER
from wikid_daemon.core.confidence import Background
from wikid_daemon.core.manifest import Stamp
from wikid_daemon.index.admission import EVERY, Admission
from wikid_daemon.index.catalog import Catalog, CatalogDamaged
from wikid_daemon.index.catalog_rows import SCHEMA as CATALOG_SCHEMA
from wikid_daemon.index.catalog_rows import NewPage, StoredChunk, StoredPage
from wikid_daemon.index.dense import DenseHit, DenseIndex, Vectors
from wikid_daemon.index.jvm import JavaUnavailable
from wikid_daemon.index.lucene import LUCENE, NO_TERMS, LexicalHit, LexicalIndex, LexicalIndexDamaged
from wikid_daemon.index.lucene import SCHEMA as LEXICAL_SCHEMA
from wikid_daemon.index.pages import lexical_chunk, lexical_chunks

CATALOG: Final = "catalog.sqlite"
WARM_QUERY: Final = "warm up a_b.c 1.0"
LOAD_VECTORS: Final = 4_096  # at a time, so that loading takes little more than FAISS keeps


@dataclass(frozen=True, slots=True)
class Applied:
    """What a batch did: pages written (served), pages removed, and the generation it published."""

    written: int
    removed: int
    generation: int


@dataclass(frozen=True, slots=True)
class Found:
    """A retrieved chunk with its page. `chunk` is the catalog's number."""

    chunk: StoredChunk
    page: StoredPage


class Store:
    """One vault's index in the folder `current`. The indexer's thread writes, any thread reads.

    `notes` tells what had to be made anew, as (kind, words). Without Java the lexical part is absent and `java_missing`
    says why.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.notes: list[tuple[str, str]] = []
        self.java_missing = ""
        self.catalog = self._open_catalog()
        self._lexical: LexicalIndex | None = None
        self._dense: DenseIndex | None = None
        self._missing: dict[int, None] = {}
        try:
            self.pages_outdated = self._recognise_pages()
            self.catalog.drop_unused_vectors()
            self._chunks = self.catalog.counts()[1]
            self._lexical = self._open_lexical()
        except JavaUnavailable as problem:
            self.java_missing = str(problem)
        except BaseException:
            self.catalog.close()
            raise
        self.generation = self.catalog.generation  # that answers: the catalog's is ahead until Lucene shows it

    # -- opening and closing -------------------------------------------------------------------------------------------

    def _open_catalog(self) -> Catalog:
        path = self._folder / CATALOG
        try:
            return Catalog(path)
        except CatalogDamaged as problem:
            self.notes.append(("catalog_rebuilt", str(problem)))
            shutil.rmtree(self._folder)
            return Catalog(path)

    def _recognise_pages(self) -> bool:
        """Whether the pages were cut by another version, so that every file must be read again."""
        found = self.catalog.state("chunker")
        if found == CHUNKER:
            return False
        if not self.catalog.known_files():
            self.pages_renewed()
            return False
        self.notes.append(("pages_read_again", "the pages were cut by another version"))
        return True

    def pages_renewed(self) -> None:
        """Every page is as this version cuts it."""
        self.catalog.set_state("chunker", CHUNKER)
        self.pages_outdated = False

    def _open_lexical(self) -> LexicalIndex:
        folder = self._folder / "lucene"
        try:
            return self._fed(folder)
        except LexicalIndexDamaged as problem:
            self.notes.append(("lexical_rebuilt", str(problem)))
            shutil.rmtree(folder)
            return self._fed(folder)

    def _fed(self, folder: Path) -> LexicalIndex:
        lexical = LexicalIndex(folder)
        try:
            self._feed(lexical)
        except BaseException:
            # else its lock would keep the next attempt out
            lexical.close()
            raise
        return lexical

    def _feed(self, lexical: LexicalIndex) -> None:
        """Bring Lucene from its cursor to the catalog's generation."""
        catalog = self.catalog
        pages, chunks = catalog.counts()
        cursor = lexical.cursor
        if lexical.outdated:
            self.notes.append(("lexical_rebuilt", "the Lucene index was made by another version"))
        if cursor > catalog.generation or (cursor == catalog.generation and lexical.counts()[0] != chunks):
            # the catalog lost its last transactions, or an index was put here that is not this catalog's
            self.notes.append(("lexical_rebuilt", "the Lucene index did not belong to the catalog"))
            cursor = -1
        if cursor <= 0 and (pages or lexical.counts()[0]):
            lexical.clear()
            cursor = -1
        for page in catalog.gone_after(cursor):
            lexical.remove(page)
        for stored in catalog.pages_after(cursor):
            fresh = [lexical_chunk(stored.page_id, stored.summary, c) for c in catalog.chunks_of(stored.page)]
            lexical.put(stored.page, fresh, known=cursor >= 0)
        lexical.refresh()
        if cursor != catalog.generation:
            lexical.commit(catalog.generation)

    def use_model(self, identity: str, dims: int) -> None:
        """Serve vectors of this model from now on; those already in the catalog are loaded, others never mixed in."""
        dense = DenseIndex(dims, identity)
        rows, damaged = self.catalog.vectors(identity), list[int]()
        while part := list(islice(rows, LOAD_VECTORS)):
            damaged += dense.add_stored(part)
        # in this order: what is not embedded yet is told before the first search
        self._missing = dict.fromkeys([*self.catalog.chunks_without_vector(identity), *damaged])
        self._dense = dense
        before = self.catalog.state("model")
        if before != identity:
            self.catalog.set_state("model", identity)
        if before not in (None, identity) and self._missing:
            self.notes.append(("vectors_rebuilt", "the vectors were made by another model"))

    def close(self) -> None:
        """Commit what Lucene holds and let go of every file."""
        try:
            self.commit()
        finally:
            if self._lexical is not None:
                self._lexical.close()
            self.catalog.close()

    # -- writing: the indexer's thread ---------------------------------------------------------------------------------

    def apply(self, pages: Sequence[NewPage], removed: Iterable[str]) -> Applied:
        """Write one batch and publish it. Lexical search sees it when this returns, as do vectors already known."""
        if self._lexical is not None and not self._lexical.writable:
            self._reopen_lexical()
        catalog, lexical = self.catalog, self._lexical
        dropped: list[int] = []
        fresh: list[int] = []
        added: list[int] = []
        gone = 0
        try:
            with catalog.write() as generation:
                for path in removed:
                    was = catalog.remove(path, generation)
                    if was is not None:
                        gone += 1
                        dropped.extend(was.dropped)
                        if lexical is not None:
                            lexical.remove(was.page)
                for new in pages:
                    wrote = catalog.put(new, generation)
                    dropped.extend(wrote.dropped)
                    fresh.append(wrote.page)
                    added.extend(wrote.added)
                    if lexical is not None:
                        lexical.put(wrote.page, lexical_chunks(new, wrote.added), known=bool(wrote.dropped))
        except BaseException:
            # Lucene may hold half a batch that the catalog rolled back
            self._reopen_lexical()
            raise
        try:
            if lexical is not None:
                self._show(lexical)
        finally:
            # the catalog has the batch, whatever became of Lucene
            self._chunks += len(added) - len(dropped)
            self._publish_vectors(fresh, added, dropped)
        self.generation = generation
        return Applied(sum(new.summary is not None for new in pages), gone, generation)

    def touch(self, files: Sequence[tuple[str, Stamp]]) -> None:
        """These files have other metadata and the same bytes; no new generation."""
        if files:
            self.catalog.touch(files)

    def _publish_vectors(self, pages: list[int], added: list[int], dropped: list[int]) -> None:
        """Vectors that are known by their hash are served at once; the others are missing until they are made."""
        dense = self._dense
        if dense is None:
            return
        dense.remove(dropped)
        known = [row for page in pages for row in self.catalog.vectors(dense.model, page)]
        damaged = dense.add_stored(known)
        for chunk in dropped:
            self._missing.pop(chunk, None)
        have = {chunk for chunk, _ in known}.difference(damaged)
        self._missing.update(dict.fromkeys(chunk for chunk in added if chunk not in have))

    def add_vectors(self, hashes: Sequence[bytes], vectors: Vectors) -> None:
        """Keep vectors of shape (n, dims) by chunk hash and serve them for every chunk with that hash."""
        dense = self._dense
        if dense is None or not len(hashes):
            return
        rows = np.ascontiguousarray(vectors, dtype=np.float32)
        self.catalog.add_vectors(dense.model, ((h, rows[i].tobytes()) for i, h in enumerate(hashes)))
        place = {h: i for i, h in enumerate(hashes)}
        owners = self.catalog.chunks_with_hash(hashes)
        if owners:
            dense.add([chunk for chunk, _ in owners], rows[[place[h] for _, h in owners]])
        for chunk, _ in owners:
            self._missing.pop(chunk, None)

    def forget_vectors(self) -> None:
        """Drop every vector of the current model, so that all are made anew."""
        if self._dense is not None:
            self.catalog.drop_vectors(self._dense.model)
            self.use_model(self._dense.model, self._dense.dims)

    def commit(self) -> None:
        """Where its files are in place, make Lucene durable up to the catalog and forget tombstones now unneeded."""
        if self._lexical is None or self._lexical.cursor == self.catalog.generation or not self.in_place:
            return
        try:
            self._lexical.commit(self.catalog.generation)
        except LexicalIndexDamaged:
            self._reopen_lexical()
            raise
        self.catalog.drop_tombstones(self.catalog.generation)

    def _show(self, lexical: LexicalIndex) -> None:
        try:
            lexical.refresh()
        except LexicalIndexDamaged:
            # a writer that failed stays closed; a new one is fed what the catalog already has
            self._reopen_lexical()

    def _reopen_lexical(self) -> None:
        """A new writer, fed what the catalog has; until there is one, on a full disk say, the old index is searched."""
        old = self._lexical
        if old is not None:
            old.stop_writing()
            self._lexical = self._open_lexical()
            self.generation = self.catalog.generation
            old.close()

    def take_over(self, other: Store, kept: Iterable[str]) -> None:
        """Succeed another open index of the same files, with its vectors, its pages at the paths `kept`, and the next
        generation."""
        self.apply([page for path in kept if (page := other.catalog.page_as_new(path)) is not None], ())
        self.catalog.take_vectors(other._folder / CATALOG)
        self.catalog.follow(max(other.generation, self.generation))
        self.generation = self.catalog.generation
        self.commit()

    def rebuild_lexical(self) -> None:
        """Feed Lucene anew from the catalog."""
        if self._lexical is not None:
            self._lexical.clear()
            self._feed(self._lexical)

    def warm(self) -> None:
        """Run a search once, so that the first person to ask does not wait for Java to load it."""
        self._mended(lambda lexical: (lexical.terms(WARM_QUERY), lexical.search(WARM_QUERY, 10)))

    def mend_lexical(self) -> bool:
        """Read Lucene's files through, and feed it anew where one is damaged; whether that was so."""
        return self._mended(LexicalIndex.check)

    def _mended(self, look: Callable[[LexicalIndex], object]) -> bool:
        try:
            if self._lexical is not None:
                look(self._lexical)
        except LexicalIndexDamaged:
            self.rebuild_lexical()
            return True
        return False

    # -- reading: any thread -------------------------------------------------------------------------------------------

    @property
    def in_place(self) -> bool:
        """Whether its files are still those that were opened. Raises OSError where nobody can tell."""
        return self.catalog.in_place and (self._lexical is None or self._lexical.folder.is_dir())

    @property
    def has_lexical(self) -> bool:
        return self._lexical is not None

    @property
    def lexical_index(self) -> LexicalIndex | None:
        """The Lucene index itself, for what compares it; None without Java."""
        return self._lexical

    @property
    def dense_index(self) -> DenseIndex | None:
        """The vectors that are searched; None without a model."""
        return self._dense

    @property
    def embedded(self) -> int:
        return 0 if self._dense is None else len(self._dense)

    @property
    def model(self) -> str:
        return "" if self._dense is None else self._dense.model

    def versions(self) -> dict[str, str]:
        """What this index was made with; a change of any part of it means a rebuild of that part."""
        return {
            "catalog": str(CATALOG_SCHEMA),
            "chunker": CHUNKER,
            "lexical": f"lucene-{LUCENE}/{LEXICAL_SCHEMA}" if self.has_lexical else "",
            "model": self.model,
        }

    def lexical(
        self, text: str, limit: int, among: Admission = EVERY, more: Mapping[str, float] = NO_TERMS
    ) -> list[LexicalHit]:
        return [] if self._lexical is None else self._lexical.search(text, limit, among, more)

    def words(self, text: str) -> Counter[str]:
        return Counter() if self._lexical is None else self._lexical.words(text)

    def terms(self, text: str) -> tuple[list[tuple[str, float]], list[str]]:
        return ([], []) if self._lexical is None else self._lexical.terms(text)

    def dense(self, vector: Vectors, limit: int, model: str | None = None, among: Admission = EVERY) -> list[DenseHit]:
        """The chunks nearest to a vector; none where it is of a `model` whose place another has taken since."""
        index = self._of(model)
        return [] if index is None else index.search(vector, limit, among.pages)

    def vectors(self, chunks: Sequence[int]) -> dict[int, Vectors]:
        return {} if self._dense is None else self._dense.known(chunks)

    def background(self) -> Background | None:
        return None if self._dense is None else self._dense.background()

    def cosines(self, vector: Vectors, chunks: Sequence[int], model: str | None = None) -> dict[int, float]:
        index = self._of(model)
        return {} if index is None else index.cosines(vector, chunks)

    def _of(self, model: str | None) -> DenseIndex | None:
        index = self._dense
        return index if index is not None and model in (None, index.model) else None

    def load(self, chunks: Sequence[int]) -> dict[int, Found]:
        """The chunks that still exist, with their pages."""
        stored = self.catalog.chunks(chunks)
        pages = self.catalog.pages(list({chunk.page for chunk in stored.values()}))
        return {key: Found(chunk, pages[chunk.page]) for key, chunk in stored.items() if chunk.page in pages}

    @property
    def missing(self) -> int:
        """Chunks that have no vector of the current model; all of them without a model."""
        return self._chunks if self._dense is None else len(self._missing)

    def missing_vectors(self, limit: int, refused: Collection[bytes]) -> list[tuple[StoredChunk, str]]:
        """Up to `limit` chunks without a vector, each text once and none in `refused`, with their page's title."""
        found: dict[bytes, StoredChunk] = {}
        waiting = iter(self._missing)
        while len(found) < limit and (part := list(islice(waiting, limit))):
            for chunk in self.catalog.chunks(part).values():
                if chunk.hash not in refused:
                    found.setdefault(chunk.hash, chunk)
        pages = self.catalog.pages(list({chunk.page for chunk in found.values()}))
        return [(chunk, pages[chunk.page].summary.title) for chunk in found.values() if chunk.page in pages]
