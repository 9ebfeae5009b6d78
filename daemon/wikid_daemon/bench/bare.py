"""The engines without wikid: the same work by the shortest loops that do it.

What each loop leaves out is wikid's own to pay for: finding and hashing files, cutting chunks, the catalog, the mirror,
batches that are searchable while the rest is read, and storing vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import faiss
import numpy as np
import onnxruntime
import yaml
from markdown_it import MarkdownIt
from tokenizers import Tokenizer

from wikid_daemon.index import jvm
from wikid_daemon.index.analysis import field_analyzer, java_classes
from wikid_daemon.index.catalog import Catalog
from wikid_daemon.index.dense import Vectors
from wikid_daemon.index.lucene import RAM_BUFFER_MB
from wikid_daemon.index.lucene_document import LexicalChunk, LexicalDocument
from wikid_daemon.models.location import ModelFolder

BATCH: Final = 8


class BareLucene:
    """A writer over wikid's schema, analyzers and buffer: one document refilled for every chunk, nothing else."""

    def __init__(self, folder: Path) -> None:
        jvm.start()
        java: Any = java_classes()
        path = java.Paths.get(str(folder))
        self._directory = java.FSDirectory.open(path)
        analyzer = field_analyzer(java)
        config = java.IndexWriterConfig(analyzer)
        config.setRAMBufferSizeMB(RAM_BUFFER_MB)
        self._writer = java.IndexWriter(self._directory, config)
        factory = java.SearcherFactory()
        self._searchers = java.SearcherManager(self._writer, factory)
        self._document = LexicalDocument(java)

    def add(self, page: int, chunk: LexicalChunk) -> None:
        self._document.fill(page, chunk)
        document = self._document.java
        self._writer.addDocument(document)

    def refresh(self) -> None:
        self._searchers.maybeRefreshBlocking()

    def close(self) -> None:
        self._searchers.close()
        self._writer.close()
        self._directory.close()


def lexical_chunks(catalog: Catalog) -> dict[str, list[LexicalChunk]]:
    """What Lucene sees of each page, by the page's path."""
    found = {}
    for page in catalog.all_pages():
        about = page.summary
        aliases = " \n ".join((*about.aliases, *about.recall_triggers, *about.tags))
        found[page.path] = [
            LexicalChunk(each.chunk, about.title, aliases, each.heading, each.text, page.page_id, about.type)
            for each in catalog.chunks_of(page.page)
        ]
    return found


def index_pages(root: Path, chunks_of: Mapping[str, Sequence[LexicalChunk]], index: BareLucene) -> int:
    """Read and parse each page below `root`, add its chunks, and show them all at the end; the count of chunks.

    Frontmatter goes through libyaml's safe loader, the body through a whole CommonMark parse: by the parser that wikid
    used when its rate was first compared with this loop's, so that the measure stays the same whatever wikid uses now.
    The chunks come ready: they are those that wikid cut from the same pages.
    """
    markdown = MarkdownIt("commonmark").enable("table")
    added = 0
    for page, (path, chunks) in enumerate(chunks_of.items()):
        text = (root / path).read_bytes().decode()
        _, head, body = text.split("---\n", 2)
        yaml.load(head, Loader=yaml.CSafeLoader)
        markdown.parse(body)
        for chunk in chunks:
            index.add(page, chunk)
            added += 1
    index.refresh()
    return added


class BareEncoder:
    """The model's graph and tokenizer as they come; vectors are scaled to unit length."""

    def __init__(self, folder: ModelFolder, options: onnxruntime.SessionOptions, disabled: Sequence[str]) -> None:
        self._folder = folder
        self._tokenizer = Tokenizer.from_file(str(folder.tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(folder.max_tokens)
        self._session = onnxruntime.InferenceSession(
            str(folder.graph), options, providers=["CPUExecutionProvider"], disabled_optimizers=list(disabled)
        )
        self._inputs = [each.name for each in self._session.get_inputs()]

    def batches(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """What the session is fed: sorted by length, padded to the longest of each batch of eight."""
        encoded = sorted((each.ids for each in self._tokenizer.encode_batch_fast(list(texts))), key=len)
        return [self._feed(encoded[start : start + BATCH]) for start in range(0, len(encoded), BATCH)]

    def _feed(self, rows: Sequence[Sequence[int]]) -> dict[str, Any]:
        width = max(map(len, rows))
        ids = np.zeros((len(rows), width), np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        offered = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return {name: offered[name] for name in self._inputs}

    def embed(self, feed: Mapping[str, Any]) -> Vectors:
        """Unit vectors of shape (texts, dims)."""
        hidden = self._session.run([self._session.get_outputs()[0].name], dict(feed))[0]
        mask = feed["attention_mask"][:, :, None].astype(np.float32)
        pooled = hidden[:, 0] if self._folder.pooling == "cls" else (hidden * mask).sum(1) / mask.sum(1)
        unit: Vectors = (pooled / np.linalg.norm(pooled, axis=1, keepdims=True)).astype(np.float32)
        return unit

    def embed_query(self, text: str) -> Vectors:
        """The unit vector (1, dims) of a query, tokenised on the way."""
        return self.embed(self._feed([self._tokenizer.encode(self._folder.query_prefix + text).ids]))


def size(feed: Mapping[str, Any]) -> int:
    """How many texts a batch holds."""
    return len(feed["input_ids"])


def wikid_options(threads: int) -> tuple[onnxruntime.SessionOptions, tuple[str, ...]]:
    """The session options that wikid runs with, on so many threads, and the optimizers it leaves out."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options, ("SkipLayerNormFusion",)


class BareDense:
    """A flat FAISS index over one array of vectors."""

    def __init__(self, keys: Sequence[int], vectors: Vectors) -> None:
        faiss.omp_set_num_threads(1)
        self._index = faiss.IndexIDMap2(faiss.IndexFlatIP(vectors.shape[1]))
        self._index.add_with_ids(vectors, np.asarray(keys, np.int64))

    def search(self, vector: Vectors, limit: int) -> list[int]:
        """The ids of the nearest `limit` to a vector of shape (1, dims)."""
        _, keys = self._index.search(vector, limit)
        return [int(key) for key in keys[0]]
