"""Damage that SQLite does not notice: stored text that is not what was written."""

from __future__ import annotations

import orjson

from wikid_daemon.core.summary import summary_from_json
from wikid_daemon.index.catalog_reading import CatalogReader
from wikid_daemon.index.pages import chunk_hash


def unsound_paths(catalog: CatalogReader) -> set[str]:
    """The pages whose summary cannot be read or whose chunks are not those of their hashes: read their files again."""
    found = set[str]()
    at, title = "", None
    for path, summary, heading, text, digest in catalog.stored_texts():
        if path != at:
            at, title = path, _title(summary)
        if title is None or (heading is not None and not _is_sound(title, heading, text, digest)):
            found.add(path)
    return found


def _title(summary: bytes) -> str | None:
    try:
        return summary_from_json(orjson.loads(summary)).title
    except (ValueError, TypeError, KeyError):
        return None


def _is_sound(title: str, heading: bytes, text: bytes, digest: bytes) -> bool:
    try:
        return chunk_hash(title, heading.decode(), text.decode()) == digest
    except UnicodeDecodeError:
        return False
