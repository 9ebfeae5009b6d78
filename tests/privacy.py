"""What must never be in a log: notes' text, queries, and the paths of people's vaults.

Every daemon of the suite is held to it when it ends (`DaemonProcess.discard`), so all that is ever written is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

MOST_NOTES = 60  # of a vault, so that a large one takes no longer to check than to index
SHORTEST_LINE = 20
# words that only notes and queries of the tests hold
_SENTINELS = re.compile(r"\w*zebra|atomic\d+|pgbouncer|autovacuum|sourdough|lighthouse|breakwater", re.IGNORECASE)


def leaks(log: str, roots: Iterable[Path]) -> list[str]:
    """The private text in `log`: known words, lines of the notes below `roots`, and the roots themselves."""
    found = dict.fromkeys(_SENTINELS.findall(log))
    for root in roots:
        if str(root) in log:
            found[str(root)] = None
        for note in islice(sorted(root.rglob("*.md")) if root.is_dir() else [], MOST_NOTES):
            found.update(dict.fromkeys(line for line in _lines(note) if line in log))
    return list(found)


def _lines(note: Path) -> list[str]:
    if note.is_symlink() or not note.is_file():
        return []  # a pipe would wait and a device has no end
    try:
        text = note.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line for line in map(str.strip, text.splitlines()) if len(line) >= SHORTEST_LINE]
