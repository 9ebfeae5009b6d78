"""BM25 over chunks: Lucene's own IndexWriter and SearcherManager, near-real-time, through pyserini's jar.

One Lucene document a chunk, all chunks of a page replaced in one atomic call. Field weights and BM25 constants were
chosen on the tuning halves of Cranfield, CACM, SciFact, XQuAD-de, CMRC and JSQuAD: title, headings, body in one field
beat separate fields (SciFact nDCG@10 .693 against .668), and a light title field helps on top. Japanese chunks
have their words beside their pairs of characters (JSQuAD .955 against .946). The jar has no such analyzer for Korean.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wikid_daemon.index import jvm
from wikid_daemon.index.admission import EVERY, Admission, limited
from wikid_daemon.index.analysis import (
    field_analyzer,
    fold,
    has_cjk,
    has_kana,
    identifier_words,
    java_classes,
    rarity,
    split_scripts,
)
from wikid_daemon.index.jvm import java_exception
from wikid_daemon.index.lucene_document import LexicalChunk, LexicalDocument

K1: Final = 1.2
B: Final = 0.75
WEIGHTS: Final = {"text": 1.0, "title": 0.25, "aliases": 0.4, "headings": 0.1}
CJK_WEIGHT: Final = 1.0
JAPANESE_WEIGHT: Final = 2.0
IDENTIFIER_WEIGHT: Final = 0.5

MAX_IDENTIFIER_TERMS: Final = 64
RAM_BUFFER_MB: Final = 12.0
DELETED_PERCENT: Final = 20.0
SCHEMA: Final = "2"
POOL: Final = 64  # documents kept for refilling
LISTED: Final = 2_000  # documents listed at a time, so that searches wait for milliseconds
LUCENE: Final = "9.9"
NO_TERMS: Final[Mapping[str, float]] = {}


# pyjnius keeps a call's receiver on the method object that all instances of a class share, and may let another thread
# in before the call reads it: two threads in the same Java method can swap their receivers (seen: chunks indexed with
# another vault's text). Writers and readers use different methods, so one lock for each kind is enough.
_WRITING = threading.RLock()
_READING = threading.RLock()


class LexicalIndexDamaged(Exception):
    """Lucene cannot open or write the index in this folder; a rebuild from the catalog heals it."""


class LexicalIndexBusy(Exception):
    """Another process, or an indexer that is still closing, writes the index in this folder; it must not be touched."""


@dataclass(frozen=True, slots=True)
class LexicalHit:
    key: int
    score: float


class LexicalIndex:
    """The Lucene index of one vault in `folder`. Written by one thread, searched by many.

    `cursor` is the generation that the last commit holds; what the catalog changed after it must be fed again, which is
    everything where the index is `outdated`: made with another schema or Lucene.
    """

    def __init__(self, folder: Path) -> None:
        jvm.start()
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.writable = True
        with _writing("open its index"), _READING:
            self._java = java_classes()
            self._open(folder)
            self._pool: list[LexicalDocument] = []
            self._pool_list = self._java.ArrayList()

    def _open(self, folder: Path) -> None:
        java = self._java
        path = java.Paths.get(str(folder))
        self._directory = java.FSDirectory.open(path)
        self._analyzer = field_analyzer(java)
        config = java.IndexWriterConfig(self._analyzer)
        similarity = java.BM25Similarity(K1, B)
        config.setSimilarity(similarity)
        mode = java.OpenMode.CREATE_OR_APPEND
        config.setOpenMode(mode)
        config.setRAMBufferSizeMB(RAM_BUFFER_MB)
        merging = java.TieredMergePolicy()
        merging.setDeletesPctAllowed(DELETED_PERCENT)
        # Lucene would leave up to a tenth of a segment
        merging.setForceMergeDeletesPctAllowed(0.0)
        config.setMergePolicy(merging)
        # closing must never make uncommitted work durable under an old cursor
        config.setCommitOnClose(False)
        self._writer = java.IndexWriter(self._directory, config)
        try:
            factory = java.SearcherFactory()
            self._searchers = java.SearcherManager(self._writer, factory)
            self._similarity = similarity
            self._builder = java.QueryBuilder(self._analyzer)
            self.cursor = self._read_cursor()
        except BaseException:
            # else its lock would keep every other attempt of this process out
            self._writer.rollback()
            self._directory.close()
            raise

    def _read_cursor(self) -> int:
        self.outdated = False
        data = self._writer.getLiveCommitData()
        if data is None:
            return 0
        entries = data.iterator()
        found = {}
        while entries.hasNext():
            entry = entries.next()
            key = entry.getKey()
            found[key] = entry.getValue()
        self.outdated = bool(found) and (found.get("schema"), found.get("lucene")) != (SCHEMA, LUCENE)
        return int(found["generation"]) if found and not self.outdated else 0

    # -- writing: the indexer's thread alone --------------------------------------------------------------------------

    def put(self, page: int, chunks: Sequence[LexicalChunk], *, known: bool = True) -> None:
        """Replace every chunk of page number `page`; visible after `refresh`. Of a page that is not `known` yet nothing
        is looked for to be replaced, which every refresh would do for each page written since the last."""
        with _writing("write"):
            while len(self._pool) < len(chunks):
                document = LexicalDocument(self._java)
                self._pool.append(document)
                java_document = document.java
                self._pool_list.add(java_document)
            for document, chunk in zip(self._pool, chunks, strict=False):
                document.fill(page, chunk)
            documents = self._pool_list.subList(0, len(chunks))
            if known:
                term = self._java.Term("page", str(page))
                self._writer.updateDocuments(term, documents)
            else:
                self._writer.addDocuments(documents)
            if len(self._pool) > POOL:
                tail = self._pool_list.subList(POOL, len(self._pool))
                tail.clear()
                del self._pool[POOL:]

    def remove(self, page: int) -> None:
        """Drop every chunk of page number `page`; gone after `refresh`."""
        self.put(page, ())

    def clear(self) -> None:
        """Drop everything, for a rebuild from the catalog."""
        with _writing("clear"):
            self._writer.deleteAll()
        self.cursor = 0

    def refresh(self) -> None:
        """Make what was written visible to the next search."""
        with _writing("refresh"):
            self._searchers.maybeRefreshBlocking()

    def commit(self, generation: int) -> None:
        """Make everything written durable (20–240 ms, fsync) and record `generation` as the cursor."""
        with _writing("commit"):
            data = self._java.HashMap()
            data.put("generation", str(generation))
            data.put("schema", SCHEMA)
            data.put("lucene", LUCENE)
            entries = data.entrySet()
            self._writer.setLiveCommitData(entries)
            self._writer.commit()
        self.cursor = generation

    def expunge(self) -> None:
        """Merge deleted documents away, so that term statistics equal a fresh build's."""
        with _writing("expunge"):
            self._writer.forceMergeDeletes()

    def stop_writing(self) -> None:
        """Release the writer and the lock, without a commit; what was visible last goes on being searched."""
        self.writable = False
        with _writing("close"):
            self._writer.close()

    def close(self) -> None:
        """Release the searcher, the writer and the lock, without a commit of what is not committed."""
        self.writable = False
        with _writing("close"), _READING:
            self._searchers.close()
            self._writer.close()
            self._directory.close()

    # -- reading: any thread -------------------------------------------------------------------------------------------

    def search(
        self, text: str, limit: int, among: Admission = EVERY, more: Mapping[str, float] = NO_TERMS
    ) -> list[LexicalHit]:
        """The best `limit` chunks for `text`, best first. Words, never operators: no input is a syntax error.

        `more` are analysed words that count besides, each by its weight (a word of the query has 1).
        """
        with self._reading() as searcher:
            query = self._query(text, more, searcher)
            query = None if query is None else limited(self._java, query, among)
            if query is None:
                return []
            searcher.setSimilarity(self._similarity)
            top = searcher.search(query, limit)
            scored = self._java.ScoredDocs.fromTopDocs(top, searcher)
            keys, scores = scored.docids, scored.scores
        return [LexicalHit(int(key), score) for key, score in zip(keys, scores, strict=True)]

    def terms(self, text: str) -> tuple[list[tuple[str, float]], list[str]]:
        """The analysed words of `text` (as they stand where all are stop words) and their rarity in this vault: 1 for a
        word of one chunk, 0 for one of all; and those that stand nowhere, nor in a page's other names and tags."""
        with self._reading() as searcher:
            reader = searcher.getIndexReader()
            total = reader.numDocs()
            result, unknown = list[tuple[str, float]](), list[str]()
            for word, field in self._analysed(fold(text)).items():
                term = self._java.Term(field, word)
                frequency = min(reader.docFreq(term), total)
                result.append((word, rarity(frequency, total)))
                if not frequency:
                    other_name = self._java.Term("aliases", word)
                    if not reader.docFreq(other_name):
                        unknown.append(word)
            return result, unknown

    def words(self, text: str) -> Counter[str]:
        """How often each analysed word stands in `text`."""
        java, folded = self._java, fold(text)
        latin, cjk = split_scripts(folded)
        found: Counter[str] = Counter()
        with _READING:
            if latin:
                analyzer = java.english
                found.update(java.AnalyzerUtils.analyze(analyzer, latin).toArray())
            if cjk:
                analyzer = java.cjk
                found.update(filter(has_cjk, java.AnalyzerUtils.analyze(analyzer, folded).toArray()))
        return found

    def counts(self) -> tuple[int, int]:
        """Live and deleted documents in the searcher's view."""
        with self._reading() as searcher:
            reader = searcher.getIndexReader()
            live = reader.numDocs()
            return live, reader.maxDoc() - live

    def keys(self) -> list[int]:
        """The key of every live document; one that is there twice is named twice. For an index that nobody writes."""
        java, found = self._java, list[int]()
        last, more = -1, True
        while more:
            with self._reading() as searcher:
                query, after = java.MatchAllDocsQuery(), java.ScoreDoc(last, 1.0)
                top = searcher.search(query, LISTED) if last < 0 else searcher.searchAfter(after, query, LISTED)
                scored = java.ScoredDocs.fromTopDocs(top, searcher)
                found += map(int, scored.docids)
                numbers = scored.lucene_docids
                more = len(numbers) == LISTED
                last = numbers[-1] if more else last
        return found

    def check(self) -> None:
        """Read every file through and compare its checksum, which opening does for few; searches go on in between.
        Raises LexicalIndexDamaged."""
        number, more = 0, True
        while more:
            with self._reading() as searcher:
                reader = searcher.getIndexReader()
                leaves = reader.leaves()
                more = number < leaves.size()
                if more:
                    leaf = leaves.get(number)
                    segment = leaf.reader()
                    segment.checkIntegrity()
            number += 1

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """Hold the current searcher, and keep other threads from the method objects that a search uses."""
        with _READING:
            try:
                searcher = self._searchers.acquire()
                try:
                    yield searcher
                finally:
                    self._searchers.release(searcher)
            except java_exception() as problem:
                raise LexicalIndexDamaged(f"Lucene could not search: {_java_name(problem)}") from problem

    def _analysed(self, folded: str) -> dict[str, str]:
        """Each word that a search would look for, with a field that holds it."""
        java = self._java
        latin, cjk = split_scripts(folded)
        words: dict[str, str] = {}
        if latin:
            english = java.english
            found = java.AnalyzerUtils.analyze(english, latin)
            words = dict.fromkeys(found.toArray(), "text")
        if cjk:
            analyzer = java.cjk
            found = java.AnalyzerUtils.analyze(analyzer, folded)
            for word in found.toArray():
                if has_cjk(word):
                    words.setdefault(word, "cjk")
        return words or dict.fromkeys(self._identifier_tokens([folded]), "identifiers")

    def _query(self, text: str, more: Mapping[str, float], searcher: Any) -> Any:
        java, folded = self._java, fold(text)
        builder = java.BooleanQueryBuilder()
        should, found = java.Occur.SHOULD, False
        latin, cjk = split_scripts(folded)
        wanted = [(name, latin, weight) for name, weight in WEIGHTS.items() if latin]
        if cjk:
            wanted.append(("cjk", folded, CJK_WEIGHT))
            if has_kana(folded) or _is_japanese(searcher):
                wanted.append(("ja", folded, JAPANESE_WEIGHT))
        for name, words, weight in wanted:
            query = self._builder.createBooleanQuery(name, words)
            if query is not None:
                boosted = java.BoostQuery(query, weight)
                builder.add(boosted, should)
                found = True
        # where every word is a stop word the identifiers field, which has none, still answers
        for token in self._identifier_tokens(identifier_words(folded) if found else [folded]):
            term = java.Term("identifiers", token)
            query = java.TermQuery(term)
            boosted = java.BoostQuery(query, IDENTIFIER_WEIGHT)
            builder.add(boosted, should)
            found = True
        for word, weight in more.items():
            term = java.Term("cjk" if has_cjk(word) else "text", word)
            query = java.TermQuery(term)
            boosted = java.BoostQuery(query, weight)
            builder.add(boosted, should)
            found = True
        return builder.build() if found else None

    def _identifier_tokens(self, words: list[str]) -> list[str]:
        # single terms, not Lucene's synonym query, which would give a whole identifier its commonest part's weight
        if not words:
            return []
        analyzer = self._java.identifiers
        found = self._java.AnalyzerUtils.analyze(analyzer, " ".join(words))
        return list(dict.fromkeys(found.toArray()))[:MAX_IDENTIFIER_TERMS]


def _is_japanese(searcher: Any) -> bool:
    """Whether what looks Chinese here mostly is Japanese: a query without kana does not tell."""
    reader = searcher.getIndexReader()
    return bool(reader.getDocCount("ja") * 2 > reader.getDocCount("cjk"))


@contextmanager
def _writing(doing: str) -> Iterator[None]:
    """One writer at a time in this process; what Java throws becomes LexicalIndexDamaged or LexicalIndexBusy."""
    with _WRITING:
        try:
            yield
        except java_exception() as problem:
            name = _java_name(problem)
            if name.endswith("LockObtainFailedException"):
                raise LexicalIndexBusy("another wikid writes this index") from problem
            raise LexicalIndexDamaged(f"Lucene could not {doing}: {name}") from problem


def _java_name(problem: Exception) -> str:
    return str(getattr(problem, "classname", None) or type(problem).__name__)
