"""The catalogues that people read: `meta/index.md`, `meta/log.md`, and in OKF mode `index.md` in every folder of pages
and `log.md` (vault format §4, §6). Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from wikid_daemon.core.dates import instant, normalised
from wikid_daemon.core.events import Event
from wikid_daemon.core.json_text import json_text
from wikid_daemon.core.names import sort_key
from wikid_daemon.core.page import Json, KnowledgeDocument
from wikid_daemon.core.projections import Entry

INDEX: Final = "index.md"
LOG: Final = "log.md"
_INTERNAL: Final = "internal"
_LOG_TITLE: Final = "# Wiki Update Log"
_FRONT: Final = '---\nokf_version: "0.2"\n---\n'
_UNQUOTED: Final = "-_.!~*'()"  # what JavaScript's `encodeURIComponent` leaves, besides letters and digits
_LABEL_MARKS: Final = re.compile(r"[\\\[\]]")
_KIND_MARKS: Final = re.compile(r"[\\*_\[\]]")

_LABEL: Final = r"\[(?:\\[\\\[\]]|[^\\\[\]])*\]"  # a title may hold line ends
_INDEX_BODY: Final = re.compile(
    r"# (?P<heading>[^\n]*)\n"
    rf"(?:\n## Directories\n\n(?:- {_LABEL}\([^\s/]+/\)\n)+)?"
    rf"(?:\n## Concepts\n\n(?:- {_LABEL}\([^\s/]+\.md\)(?: — [^\n]+)?\n)+)?"
)
_LOG_BODY: Final = re.compile(
    rf"{re.escape(_LOG_TITLE)}\n(?:\n## [0-9-]+\n\n(?:- \*\*[^\n]*\*\*(?:: \{{[^\n]*\}})?\n)+)*"
)
# the order of ICU's root collation, in which a person's locale sorts ids: marks, then digits, then letters
_MARKS: Final = {mark: rank for rank, mark in enumerate(" _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789")}


def meta_index(pages: Mapping[str, Entry], written_at: str) -> bytes:
    """All entries of the registry by type, with their titles and dates."""
    by_type: defaultdict[str, list[str]] = defaultdict(list)
    for page_id, entry in pages.items():
        by_type[_words(entry["type"])].append(page_id)
    lines = ["# Wiki Index", "", "> Auto-generated from meta/registry.json. Do not edit manually.", ""]
    for kind in sorted(by_type, key=lambda each: sort_key(f"{each},")):
        lines += [f"## {kind[:1].upper()}{kind[1:]}s", ""]
        for page_id in sorted(by_type[kind], key=collation):
            entry = pages[page_id]
            created = _words(entry.get("created") or "unknown")
            lines.append(f"- [[{page_id}]] — {_words(entry['title'])} *(created: {created})*")
        lines.append("")
    lines += ["---", f"*Last updated: {written_at}* | *Total pages: {len(pages)}*"]
    return _file(lines)


def meta_log(events: Sequence[Event]) -> bytes:
    """Every event in the order of the file, with all it says."""
    lines = ["# Activity Log", "", "> Auto-generated from meta/events.jsonl. Do not edit manually.", ""]
    for each in events:
        lines.append(f"## [{each.timestamp}] {each.kind}")
        details = [f"{key}: {json_text(value)}" for key, value in each.details.items()]
        lines += [f"- {', '.join(details)}", ""] if details else [""]
    if not events:
        lines += ["_No events recorded yet._", ""]
    return _file(lines)


def update_log(events: Sequence[Event]) -> bytes:
    """`wiki/log.md`: by day of UTC, the newest first, and of one moment the later line first."""
    days: defaultdict[str, list[tuple[datetime, int, str]]] = defaultdict(list)
    for each in events:
        at = _utc(each.timestamp)
        kind = re.sub(r"\s+", " ", _KIND_MARKS.sub(r"\\\g<0>", each.kind.strip()))
        details = f": {json_text(each.details, canonical=True)}" if each.details else ""
        days[at.date().isoformat()].append((at, each.line, f"- **{kind}**{details}"))
    lines = [_LOG_TITLE]
    for day in sorted(days, reverse=True):
        lines += ["", f"## {day}", "", *(text for _, _, text in sorted(days[day], reverse=True))]
    return _file(lines)


def shown(events: Iterable[Event]) -> list[Event]:
    """The events that logs for people hold: not those which are internal (§11.26)."""
    return [each for each in events if each.details.get("visibility") != _INTERNAL]


def folder_indexes(documents: Iterable[KnowledgeDocument], vault_name: str) -> dict[str, bytes]:
    """The `index.md` of the root and of every folder with pages below it, by path relative to the wiki."""
    folders: defaultdict[str, set[str]] = defaultdict(set)
    pages: defaultdict[str, list[KnowledgeDocument]] = defaultdict(list)
    for document in documents:
        folder = document.path.rpartition("/")[0]  # as it is on disk, whatever its normal form
        pages[folder].append(document)
        while folder:
            parent, _, name = folder.rpartition("/")
            folders[parent].add(name)
            folder = parent
    return {
        f"{folder}/{INDEX}" if folder else INDEX: _index(folder, vault_name, folders[folder], pages[folder])
        for folder in sorted({"", *folders, *pages}, key=sort_key)
    }


def is_generated_index(path: str, data: bytes) -> bool:
    """Whether the file at `path` has nothing but what a rebuild writes into an index, so that nothing is lost with it.

    What a generated index says may be of long ago; a line, a heading or a mark of any other kind is a person's.
    """
    text = _decoded(data)
    if text is None:
        return False
    folder = path.rpartition("/")[0]
    if not folder:
        if not text.startswith(_FRONT):
            return False
        text = text.removeprefix(_FRONT).removeprefix("\n")
    body = _INDEX_BODY.fullmatch(text)
    return body is not None and (not folder or body["heading"] == _label(folder.rpartition("/")[2]))


def is_generated_log(data: bytes) -> bool:
    """The same of `wiki/log.md`."""
    text = _decoded(data)
    return text is not None and _LOG_BODY.fullmatch(text) is not None


def collation(text: str) -> tuple[tuple[int, ...], str, str]:
    """Near to the order of a person's locale: marks, digits, letters; where that is the same, accents, then case."""
    plain = unicodedata.normalize("NFD", text)
    bases = tuple(
        _MARKS.get(each, len(_MARKS) + ord(each.lower()[0])) for each in plain if not unicodedata.combining(each)
    )
    accents = "".join(each if unicodedata.combining(each) else "\0" for each in plain)
    return bases, accents, plain.swapcase()


def _index(folder: str, vault_name: str, folders: Iterable[str], pages: Iterable[KnowledgeDocument]) -> bytes:
    if folder:
        lines = [f"# {_label(folder.rpartition('/')[2])}"]
    else:
        lines = [*_FRONT.splitlines(), "", f"# {_label(vault_name)}"]
    inner = [f"- [{_label(name)}/]({_quoted(name)}/)" for name in sorted(folders, key=sort_key)]
    if inner:
        lines += ["", "## Directories", "", *inner]
    concepts = [_concept(document) for document in sorted(pages, key=lambda each: sort_key(each.page_id))]
    if concepts:
        lines += ["", "## Concepts", "", *concepts]
    return _file(lines)


def _concept(document: KnowledgeDocument) -> str:
    description = document.metadata.get("description")
    words = " ".join(description.split()) if isinstance(description, str) else ""
    return f"- [{_label(document.title)}]({_quoted(document.path.rpartition('/')[2])})" + (
        f" — {words}" if words else ""
    )


def _label(text: str) -> str:
    return _LABEL_MARKS.sub(r"\\\g<0>", text)


def _quoted(name: str) -> str:
    return quote(name, safe=_UNQUOTED)


def _utc(timestamp: str) -> datetime:
    text = normalised(timestamp)
    assert text is not None  # or it were no event
    return instant(text).astimezone(UTC)


def _words(value: Json) -> str:
    return value if isinstance(value, str) else json_text(value)


def _file(lines: Iterable[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None
