"""The measurements that need a process of their own, so that each starts with a cold Java machine and an empty heap.

`python -m wikid_daemon.bench.child NAME JSON` prints one JSON object.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
import structlog

from wikid_daemon.bench import bare
from wikid_daemon.bench.engines import model_folder
from wikid_daemon.bench.generate import VaultGenerator, letters
from wikid_daemon.bench.sandbox import BenchmarkFailed
from wikid_daemon.index import jvm
from wikid_daemon.index.catalog import Catalog
from wikid_daemon.index.catalog_rows import StoredChunk
from wikid_daemon.index.dense import Vectors
from wikid_daemon.index.encoders import Embedder
from wikid_daemon.index.pages import stored_embedding_text
from wikid_daemon.index.store import Store
from wikid_daemon.index.vectors import PassageEncoder
from wikid_daemon.indexer import Indexer
from wikid_daemon.models.location import ModelFolder
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import open_vault

LIMIT: Final = 40  # results asked of each engine
POLL_SECONDS: Final = 0.005
SLICE: Final = 1_000  # SQLite takes a limited number of values in one statement
NO_MODEL: Final = ""
EMBED_SECONDS: Final = 300.0
DEFAULTS_SHARE: Final = 3  # with the session options that suit it less, every third batch says enough

Given = Mapping[str, Any]


@dataclass(slots=True)
class Clock:
    """Wall and processor seconds of a block, all threads of this process together."""

    wall: float = 0.0
    cpu: float = 0.0


@contextmanager
def clock() -> Iterator[Clock]:
    found = Clock()
    wall, cpu = time.perf_counter(), time.process_time()
    yield found
    found.wall, found.cpu = time.perf_counter() - wall, time.process_time() - cpu


def run(name: str, environment: Mapping[str, str], **given: Any) -> dict[str, Any]:
    """Do the measurement `name` in a new process. BenchmarkFailed."""
    command = [sys.executable, "-P", "-m", "wikid_daemon.bench.child", name, json.dumps(given)]
    # a session of its own: Ctrl-C comes to the parent, which ends the child
    done = subprocess.run(command, env=dict(environment), stdout=subprocess.PIPE, start_new_session=True, check=False)
    if done.returncode:
        raise BenchmarkFailed(f"the measurement {name} left with exit code {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def index_wikid(given: Given) -> dict[str, Any]:
    """wikid's indexer over a cold vault, from its start to the state ready, without a model."""
    jvm.start()
    indexer = _indexer(given, lambda: None)
    with clock() as spent:
        indexer.start()
        while indexer.state.last_scan is None and indexer.state.state == "indexing":
            time.sleep(POLL_SECONDS)
    store = indexer.store
    pages, chunks = (0, 0) if store is None else store.catalog.counts()
    findings = {} if store is None else store.catalog.finding_counts()
    indexer.close()
    return {"pages": pages, "chunks": chunks, "wall": spent.wall, "cpu": spent.cpu, "findings": findings}


def index_bare(given: Given) -> dict[str, Any]:
    """The bare loop over the same pages and chunks, from its first file to the refresh."""
    catalog = Catalog(Path(given["catalog"]))
    chunks_of = bare.lexical_chunks(catalog)
    catalog.close()
    jvm.start()
    with clock() as spent:
        index = bare.BareLucene(Path(given["folder"]))
        chunks = bare.index_pages(Path(given["pages_root"]), chunks_of, index)
    index.close()
    return {"pages": len(chunks_of), "chunks": chunks, "wall": spent.wall, "cpu": spent.cpu}


def embed_wikid(given: Given) -> dict[str, Any]:
    """wikid's background embedding: words first, then the model becomes ready and every chunk gets its vector."""
    folder = _model()
    embedder = Embedder.load(folder, workers=min(2, os.cpu_count() or 1))
    held: list[Embedder] = []
    indexer = _indexer(given, lambda: held[0] if held else None)
    indexer.start()
    indexer.sync(60)
    store = indexer.store
    assert store is not None
    chunks = store.catalog.counts()[1]
    with clock() as spent:
        held.append(embedder)
        indexer.wake()
        until = time.perf_counter() + EMBED_SECONDS
        while (missing := store.missing) and time.perf_counter() < until:
            time.sleep(POLL_SECONDS)
    indexer.close()
    return {"chunks": chunks - missing, "wall": spent.wall, "cpu": spent.cpu}


def embed_bare(given: Given) -> dict[str, Any]:
    """The same texts in length-sorted batches of eight, tokenised beforehand, in a bare session."""
    folder = _model()
    texts = _texts(Path(given["catalog"]))
    options, disabled = (onnxruntime.SessionOptions(), ()) if given["defaults"] else bare.wikid_options(threads=2)
    encoder = bare.BareEncoder(folder, options, disabled)
    encoder.embed_query("ready")
    batches = encoder.batches(texts)[:: DEFAULTS_SHARE if given["defaults"] else 1]
    with clock() as spent:
        for feed in batches:
            encoder.embed(feed)
    return {"chunks": sum(map(bare.size, batches)), "wall": spent.wall, "cpu": spent.cpu}


def fill_vectors(given: Given) -> dict[str, Any]:
    """Give every chunk a stand-in for its vector."""
    embedder = Embedder.load(_model(), workers=min(2, os.cpu_count() or 1))
    return {"chunks": fill_catalog(Path(given["catalog"]), embedder, given["pages"], given["seed"])}


def fill_catalog(path: Path, encoder: PassageEncoder, pages: int, seed: int) -> int:
    """Give every chunk of a generated vault that has no vector a stand-in: the mean of the model's vectors of its
    telling words. How many those were.

    Embedding the chunks themselves would take many minutes; these have cosines with queries as real ones do, so recall
    does all its work on them.
    """
    words = VaultGenerator(pages, seed).telling_words
    catalog = Catalog(path)
    try:
        chunks = _without_vector(catalog, encoder.identity)
        if chunks:
            made = zip(words, encoder.passages(words), strict=True)
            vector_of = {word: vector for word, vector in made if not isinstance(vector, Exception)}
            catalog.add_vectors(encoder.identity, ((each.hash, _mean_vector(each.text, vector_of)) for each in chunks))
    finally:
        catalog.close()
    return len(chunks)


def _mean_vector(text: str, vector_of: Mapping[str, Vectors]) -> bytes:
    known = [vector_of[word] for word in letters(text).split() if word in vector_of]
    mean = np.mean(known or [next(iter(vector_of.values()))], axis=0)
    return bytes((mean / np.linalg.norm(mean)).astype(np.float32).tobytes())


def engines(given: Given) -> dict[str, Any]:
    """The engines alone on the queries, warmed by others, `LIMIT` results with their ids read: milliseconds a query.

    A hybrid question needs all three, so they take turns on it, as they do in the daemon: each finds the caches as the
    other left them.
    """
    warm_up, queries = given["warm_up"], given["queries"]
    store = Store(Path(given["catalog"]).parent)
    found = {"lexical": _each(warm_up, queries, lambda text: store.lexical(text, LIMIT))}
    if given["hybrid"]:
        folder = _model()
        options, disabled = bare.wikid_options(threads=1)
        encoder = bare.BareEncoder(folder, options, disabled)
        vectors = dict(store.catalog.vectors(folder.identity))
        rows = np.frombuffer(b"".join(vectors.values()), np.float32).reshape(-1, folder.dims)
        dense = bare.BareDense(list(vectors), rows)

        def ask(text: str) -> None:
            store.lexical(text, LIMIT)
            dense.search(encoder.embed_query(text), LIMIT)

        found["hybrid"] = _each(warm_up, queries, ask)
    store.close()
    return found


def _each(warm_up: list[str], queries: list[str], ask: Callable[[str], object]) -> dict[str, float]:
    for text in warm_up:
        ask(text)
    times = []
    with clock() as spent:
        for text in queries:
            started = time.perf_counter()
            ask(text)
            times.append(time.perf_counter() - started)
    return {"cpu_ms": spent.cpu * 1e3 / len(queries), "p50_ms": float(np.median(times)) * 1e3}


def _indexer(given: Given, encoder: Callable[[], Embedder | None]) -> Indexer:
    state = Path(given["state"])
    vault = open_vault(Path(given["vault"]), name=None, state_home=state)
    return Indexer(vault, machine_id(state), encoder, lambda _: None, jvm.detach)


def _without_vector(catalog: Catalog, identity: str) -> list[StoredChunk]:
    numbers = catalog.chunks_without_vector(identity)
    slices = [numbers[start : start + SLICE] for start in range(0, len(numbers), SLICE)]
    return [chunk for each in slices for chunk in catalog.chunks(each).values()]


def _texts(catalog_path: Path) -> list[str]:
    catalog = Catalog(catalog_path)
    chunks = _without_vector(catalog, NO_MODEL)
    titles = {page.page: page.summary.title for page in catalog.all_pages()}
    texts = [stored_embedding_text(each, titles[each.page]) for each in chunks]
    catalog.close()
    return texts


def _model() -> ModelFolder:
    folder = model_folder()
    if folder is None:
        raise SystemExit("no embedding model has been built")
    return folder


MEASUREMENTS: Final[dict[str, Callable[[Given], dict[str, Any]]]] = {
    each.__name__: each for each in (index_wikid, index_bare, embed_wikid, embed_bare, fill_vectors, engines)
}


if __name__ == "__main__":
    # standard output is the answer's
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    print(json.dumps(MEASUREMENTS[sys.argv[1]](json.loads(sys.argv[2]))))
