"""Whether an index equals a fresh build of the same files: what differs, page by page and part by part.

A difference names a path and a word, never text from a note. Numbers that depend on an index's history, such as those
of pages and chunks, are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

import numpy as np

from wikid_daemon.index.catalog import Catalog
from wikid_daemon.index.catalog_rows import PageContent, page_of
from wikid_daemon.index.lucene import LexicalIndex
from wikid_daemon.index.store import Store

TOP: Final = 10
CANDIDATES: Final = 400  # chunks, of which the best of each page count
TOLERANCE: Final = 1e-3  # of a score: its parts may be added in another order
SAME_COSINE: Final = 0.999  # vectors are held as 16-bit floats
VECTORS_AT_ONCE: Final = 2_048
PROBED_PAGES: Final = 40
PROBE_WORDS: Final = 6
PROBE_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which an index is not what a fresh build is. `kind` and `detail` are stable words."""

    kind: str
    path: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """A query made of a page's own words."""

    path: str
    kind: Literal["title", "words"]
    query: str


def page_differences(
    live: Catalog, fresh: Catalog, kept: Callable[[str], bool], cancelled: Callable[[], bool]
) -> list[Difference]:
    """Pages, content hashes, chunks, links and findings. `kept` tells of a path that cannot be read now, whose page an
    index keeps and a fresh build lacks. Stops early once `cancelled`."""
    ours, theirs = live.versions_of_files(), fresh.versions_of_files()
    found = [Difference("page_missing", path) for path in theirs.keys() - ours.keys()]
    found += [Difference("page_extra", path) for path in ours.keys() - theirs.keys() if not kept(path)]
    for path in ours.keys() & theirs.keys():
        if cancelled():
            break
        (ours_page, *our_identity), (theirs_page, *their_identity) = ours[path], theirs[path]
        if our_identity != their_identity:
            found.append(Difference("page_differs", path, "id" if our_identity[0] != their_identity[0] else "hash"))
        else:
            part = _differing_part(live.content_of(ours_page), fresh.content_of(theirs_page))
            if part:
                found.append(Difference("page_differs", path, part))
    return sorted(found, key=_order)


def _differing_part(ours: PageContent, theirs: PageContent) -> str:
    for part in ("summary", "chunks", "links", "findings"):
        if getattr(ours, part) != getattr(theirs, part):
            return part
    return ""


def document_differences(documents: Mapping[int, int], chunks: Set[int], paths: Mapping[int, str]) -> list[Difference]:
    """Lucene documents, as chunk number → how many there are, against the catalog's chunks: each once, and no other.
    `paths` are those of the pages, by number."""
    found = [Difference("document_missing", path) for path in _owners(paths, chunks - documents.keys())]
    found += [Difference("document_extra", path) for path in _owners(paths, documents.keys() - chunks)]
    twice = {key for key, times in documents.items() if times > 1 and key in chunks}
    found += [Difference("document_extra", path, "twice") for path in _owners(paths, twice)]
    return sorted(found, key=_order)


def vector_differences(store: Store, paths: Mapping[int, str]) -> list[Difference]:
    """Vectors that are searched against those that the catalog keeps for the same chunk hashes."""
    dense = store.dense_index
    if dense is None:
        return []
    keys = dense.keys
    rows = store.catalog.vectors(store.model)
    expected, other = set[int](), set[int]()
    while part := list(islice(rows, VECTORS_AT_ONCE)):
        expected.update(chunk for chunk, _ in part)
        served = [(chunk, vector) for chunk, vector in part if chunk in keys]
        if served:
            kept = np.frombuffer(b"".join(vector for _, vector in served), dtype=np.float32).reshape(-1, dense.dims)
            cosines = np.einsum("ij,ij->i", kept, dense.vectors([chunk for chunk, _ in served]))
            other.update(served[place][0] for place in np.flatnonzero(cosines < SAME_COSINE))
    found = [Difference("vector_missing", path) for path in _owners(paths, expected - keys)]
    found += [Difference("vector_extra", path) for path in _owners(paths, keys - expected)]
    found += [Difference("vector_differs", path) for path in _owners(paths, other)]
    return sorted(found, key=_order)


def probes(catalog: Catalog) -> list[Probe]:
    """Queries from evenly spaced pages: each one's title, and some words from the middle of one of its chunks."""
    step = max(catalog.counts()[0] // PROBED_PAGES, 1)
    found = []
    for page in islice(catalog.all_pages(), 0, PROBED_PAGES * step, step):
        found.append(Probe(page.path, "title", page.summary.title[:PROBE_LENGTH]))
        chunks = catalog.chunks_of(page.page)
        words = chunks[len(chunks) // 2].text.split() if chunks else []
        found.append(Probe(page.path, "words", " ".join(words[len(words) // 2 :][:PROBE_WORDS])[:PROBE_LENGTH]))
    return [each for each in found if each.query.strip()]


def ranking_differences(
    asked: Sequence[Probe],
    live: LexicalIndex,
    live_pages: Mapping[int, str],
    fresh: LexicalIndex,
    fresh_pages: Mapping[int, str],
) -> list[Difference]:
    """The same best pages for each probe, those with equal scores in any order. Both indexes hold no deleted documents;
    the mappings give a page's id by its number."""
    found = []
    for probe in asked:
        ours = _best_pages(live, live_pages, probe.query)
        theirs = _best_pages(fresh, fresh_pages, probe.query)
        if not _same_ranking(ours, theirs):
            found.append(Difference("ranking_differs", probe.path, probe.kind))
    return found


def _best_pages(lexical: LexicalIndex, pages: Mapping[int, str], query: str) -> dict[str, float]:
    best: dict[str, float] = {}
    for hit in lexical.search(query, CANDIDATES):
        best.setdefault(pages.get(page_of(hit.key), ""), hit.score)
    return best


def _same_ranking(ours: Mapping[str, float], theirs: Mapping[str, float]) -> bool:
    """Whether each side's first ten have the other side's scores."""
    return all(
        abs(ours.get(page, 0.0) - theirs.get(page, 0.0)) <= TOLERANCE * max(abs(ours.get(page, 0.0)), 1.0)
        for side in (ours, theirs)
        for page in islice(side, TOP)
    )


def _owners(paths: Mapping[int, str], chunks: Collection[int]) -> set[str]:
    """The paths of these chunks' pages; "" stands for a page that is not known."""
    return {paths.get(page_of(chunk), "") for chunk in chunks}


def _order(difference: Difference) -> tuple[str, str]:
    return difference.path, difference.kind
