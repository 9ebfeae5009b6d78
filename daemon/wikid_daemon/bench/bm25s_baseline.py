"""The plain hybrid that wikid must beat: the library bm25s and the same vectors, fused by the same rule.

Its words come from the very text that is embedded for a chunk (title, headings, text), English stop words left out and
stemmed, as bm25s is commonly used. Everything else is wikid's own: chunks, vectors, how many candidates, the fusion.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wikid_daemon.core import query as q
from wikid_daemon.core.ranking import CANDIDATES, DENSE_SHARE, best_per_page, fuse
from wikid_daemon.index.catalog_rows import page_of
from wikid_daemon.index.pages import stored_embedding_text
from wikid_daemon.index.store import Store
from wikid_daemon.retrieval import WANTED
from wikid_daemon.searching import QueryEncoder

try:
    import bm25s
    import Stemmer
except ImportError as problem:
    MISSING: str | None = f"{problem}: the baseline bm25s was not measured (it is installed with the dev group)"
else:
    MISSING = None


class Bm25sBaseline:
    """The store's chunks, ready to be asked. Without an embedder words alone are ranked. Check `MISSING` before."""

    def __init__(self, store: Store, embedder: QueryEncoder | None) -> None:
        self._store, self._embedder = store, embedder
        self._stemmer: Any = Stemmer.Stemmer("english")
        self._page_ids: dict[int, str] = {}
        self._chunks: list[int] = []
        texts: list[str] = []
        for page in store.catalog.all_pages():
            self._page_ids[page.page] = page.page_id
            for chunk in store.catalog.chunks_of(page.page):
                self._chunks.append(chunk.chunk)
                texts.append(stored_embedding_text(chunk, page.summary.title))
        tokens = self._tokens(texts)
        self._index: Any = None
        if any(tokens):
            self._index = bm25s.BM25()
            self._index.index(tokens, show_progress=False)

    def ask(self, query: str) -> list[str]:
        """Page ids, best first."""
        text = q.normalise(query)[: q.MAX_CODE_POINTS]
        if not q.has_words(text):
            return []
        store, embedder = self._store, self._embedder
        vector = None if embedder is None else embedder.embed_query(text)
        share = 0.0 if embedder is None else DENSE_SHARE * embedder.familiarity(text)
        dense = [] if vector is None else [(hit.key, hit.score) for hit in store.dense(vector, WANTED)]
        fused = fuse(
            best_per_page(self._words(text), page_of, CANDIDATES),
            best_per_page(dense, page_of, CANDIDATES),
            lambda chunks: {} if vector is None else store.cosines(vector, chunks),
            share,
        )
        return [self._page_ids[each.page] for each in fused[:CANDIDATES]]

    def _words(self, text: str) -> list[tuple[int, float]]:
        """(chunk, score), best first, of the chunks that hold a word of the query; ties in the catalog's order."""
        (tokens,) = self._tokens([text])
        if self._index is None or not tokens:
            return []
        scores = self._index.get_scores(tokens)
        best = np.argsort(-scores, kind="stable")[:WANTED]
        return [(self._chunks[at], float(scores[at])) for at in best if scores[at] > 0]

    def _tokens(self, texts: list[str]) -> list[list[str]]:
        found: list[list[str]] = bm25s.tokenize(
            texts, stopwords="en", stemmer=self._stemmer, return_ids=False, show_progress=False
        )
        return found
