"""A parsed page → what the catalog keeps of it; a chunk → what Lucene sees of it, and the text embedded for it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from wikid_daemon.core.chunking import Chunk, chunk, embedding_text
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.manifest import Known
from wikid_daemon.core.page import KnowledgeDocument
from wikid_daemon.core.resolutions import RESOLVES
from wikid_daemon.core.summary import PageSummary, summarise
from wikid_daemon.index.catalog_rows import NewChunk, NewLink, NewPage, StoredChunk
from wikid_daemon.index.lucene_document import LexicalChunk

_HASH_BYTES = 16


def new_page(path: str, page_id: str, data: bytes, file: Known, *, strict: bool) -> NewPage:
    """Parse and cut one file; a page that is refused keeps only its findings."""
    parsed = parse_page(path, data, strict=strict)
    document = parsed.document
    if document is None:
        return NewPage(path, page_id, file, None, findings=parsed.findings)
    return NewPage(path, page_id, file, summarise(document), _chunks(document), _links(document), parsed.findings)


def stored_embedding_text(chunk: StoredChunk, title: str) -> str:
    """The same text whose hash the chunk carries."""
    heading = (chunk.heading,) if chunk.heading else ()
    return embedding_text(title, Chunk(chunk.ordinal, heading, chunk.text, chunk.line))


def chunk_hash(title: str, heading: str, text: str) -> bytes:
    """What a chunk is known by: a hash of the text that is embedded for it."""
    embedded = embedding_text(title, Chunk(0, (heading,) if heading else (), text, 0))
    return hashlib.sha256(embedded.encode("utf-8", "surrogatepass")).digest()[:_HASH_BYTES]


def _chunks(document: KnowledgeDocument) -> list[NewChunk]:
    found = []
    for each in chunk(document):
        heading = " > ".join(each.heading)
        digest = chunk_hash(document.title, heading, each.text)
        found.append(NewChunk(each.ordinal, each.start_line, heading, each.text, digest))
    return found


def _links(document: KnowledgeDocument) -> list[NewLink]:
    links = [NewLink(target) for target in dict.fromkeys(link.target for link in document.links)]
    links += [NewLink(each.target, each.type, each.scope) for each in document.relations]
    decided = document.resolution
    # so that the one hop from a claim also finds what a person decided about it
    claims = () if decided is None else (decided.selected, decided.other)
    return [*links, *(NewLink(each, RESOLVES) for each in claims)]


def lexical_chunks(new: NewPage, numbers: Sequence[int]) -> list[LexicalChunk]:
    """What Lucene sees of a page whose chunks got these numbers; nothing of one that is not served."""
    if new.summary is None:
        return []
    return [lexical_chunk(new.page_id, new.summary, c, n) for c, n in zip(new.chunks, numbers, strict=True)]


def lexical_chunk(
    page_id: str, summary: PageSummary, chunk: NewChunk | StoredChunk, number: int | None = None
) -> LexicalChunk:
    """What Lucene sees of one chunk; a stored one knows its number."""
    key = chunk.chunk if isinstance(chunk, StoredChunk) else number
    assert key is not None
    return LexicalChunk(
        key=key,
        title=summary.title,
        aliases=" \n ".join((*summary.aliases, *summary.recall_triggers, *summary.tags)),
        headings=chunk.heading,
        # a page of nothing but a title must not count its words twice
        body="" if chunk.text == summary.title else chunk.text,
        page_id=page_id,
        type=summary.type,
    )
