"""A parsed page → what the catalog keeps of it, and a stored chunk → the text that is embedded for it."""

from __future__ import annotations

import hashlib

from wikid_daemon.core.chunking import Chunk, chunk, embedding_text
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.manifest import Known
from wikid_daemon.core.page import KnowledgeDocument
from wikid_daemon.core.summary import summarise
from wikid_daemon.index.catalog_rows import NewChunk, NewLink, NewPage, StoredChunk

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
    return links + [NewLink(each.target, each.type, each.scope) for each in document.relations]
