"""`meta/registry.json` and `meta/backlinks.json`: what the pages and the source packets are, as files (vault format
§4). Pure, and byte for byte what the extension writes of the same pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from wikid_daemon.core.json_text import json_file
from wikid_daemon.core.names import sort_key
from wikid_daemon.core.page import Json, KnowledgeDocument

Registry = dict[str, Json]
Entry = dict[str, Json]

VERSION: Final = "1.0"
_COPIED: Final = (
    *("description", "tags", "category", "domain", "aliases", "recall_triggers", "status", "stale_after"),
    *("resource", "generated", "verified", "summary", "raw_path", "source_id"),
)
_KNOWN: Final = frozenset({*_COPIED, "type", "title", "sources", "created", "updated"})
_PACKET_TYPES: Final = {"sources": "source", "trajectories": "trajectory"}


@dataclass(frozen=True, slots=True)
class Packet:
    """A folder of `raw/sources` or `raw/trajectories` that has a manifest; one that is no object counts as empty."""

    kind: Literal["sources", "trajectories"]
    folder: str
    manifest: dict[str, Json]

    @property
    def page_id(self) -> str:
        return f"{self.kind}/{self._id}"

    @property
    def _id(self) -> str:
        return _text(self.manifest.get("id")) or self.folder

    def entry(self) -> Entry:
        """The registry's entry for a packet without a page; the manifest's own keys win."""
        captured = _text(self.manifest.get("captured"))
        dates: Entry = {"created": captured, "updated": captured} if captured else {}
        title = _text(self.manifest.get("title")) or self._id
        return {"type": _PACKET_TYPES[self.kind], "title": title, **dates, **self.manifest}


def entries(documents: Iterable[KnowledgeDocument], packets: Iterable[Packet]) -> dict[str, Entry]:
    """One entry for each page in the order of ids, then one for each packet that no page stands for."""
    found = {document.page_id: _entry(document) for document in in_order(documents)}
    for packet in packets:
        if packet.page_id not in found:
            found[packet.page_id] = packet.entry()
    return found


def in_order(documents: Iterable[KnowledgeDocument]) -> list[KnowledgeDocument]:
    return sorted(documents, key=lambda document: sort_key(document.page_id))


def registry(pages: dict[str, Entry], written_at: str) -> bytes:
    """The file; `written_at` is ISO 8601 in UTC to the millisecond."""
    values: Registry = {"version": VERSION, "last_updated": written_at, "pages": dict(pages)}
    return json_file(values)


def backlinks(documents: Sequence[KnowledgeDocument]) -> bytes:
    """The file: for each page those that link to it, each once and in order; links to no page are left out."""
    inbound: dict[str, set[str]] = {document.page_id: set() for document in in_order(documents)}
    for document in documents:
        for link in document.links:
            if link.target in inbound:
                inbound[link.target].add(document.page_id)
    sorted_ids = {page_id: sorted(sources, key=sort_key) for page_id, sources in inbound.items()}
    return json_file({page_id: [*sources] for page_id, sources in sorted_ids.items()})


def says_the_same(present: bytes, rebuilt: bytes) -> bool:
    """Whether a file holds what a rebuild would write, apart from when that was."""
    try:
        values = json.loads(present)
    except ValueError:
        return False
    wanted = json.loads(rebuilt)
    if isinstance(values, dict) and "last_updated" in wanted:
        values = {**values, "last_updated": wanted["last_updated"]}
    same: bool = values == wanted
    return same


def _entry(document: KnowledgeDocument) -> Entry:
    metadata = document.metadata
    entry: Entry = {"type": document.type, "title": document.title}
    entry.update((key, metadata[key]) for key in _COPIED if key in metadata)
    entry.update((key, value) for key, value in metadata.items() if key not in _KNOWN)
    for key in ("created", "updated"):
        date = metadata.get(key)
        if isinstance(date, str) and date.strip():
            entry[key] = date
    return entry


def _text(value: Json) -> str:
    """The value as JavaScript's `String(value || "")` has it, for the kinds that a manifest holds."""
    if isinstance(value, str):
        return value
    return str(value) if value and isinstance(value, int | float) and not isinstance(value, bool) else ""
