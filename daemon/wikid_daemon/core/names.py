"""Names of files below a vault's pages: ids, order, collisions and what is no page (vault format §2.1, §11.9, §11.35).

Every relative path here is text with ``/`` separators; names that are not UTF-8 carry surrogate escapes.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal

SkipReason = Literal[
    "hidden", "reserved_name", "not_markdown", "temporary", "conflict_copy", "upper_case_suffix", "undecodable_name"
]

_RESERVED = frozenset({"index.md", "log.md"})
# Atomic writers (`x.md.tmp-<pid>-<uuid>`), the legacy repair, and the lock, swap and backup files of editors.
_TEMPORARY = re.compile(r"\.tmp-[0-9A-Za-z-]+$|\.legacy-repair-[0-9a-f]+$|^~\$|^#.*#$|\.sw[a-p]$|~$", re.DOTALL)
_SYNCTHING_COPY = re.compile(r"\.sync-conflict-\d{8}-\d{6}(?:-[0-9A-Z]+)?(?=\.[^./]*$|$)")
_CONFLICTED_COPY = re.compile(r" ?\([^()/]*\bconflicted copy\b[^()/]*\)(?=\.[^./]*$|$)", re.IGNORECASE)


def page_id(relative: str, *, normalise: bool = True) -> str:
    """The id of a page: its path in NFC without a final lower-case ``.md``.

    Plain folders pass ``normalise=False``, because there two names that differ only in normal form are two pages.
    """
    stem = relative.removesuffix(".md")
    return unicodedata.normalize("NFC", stem) if normalise and not stem.isascii() else stem


def skip_reason(relative: str, *, strict: bool) -> SkipReason | None:
    """Why this path is not a page, or None when it is one. ``strict`` vaults have the `.llm-wiki` or `.wiki` marker."""
    if relative.startswith(".") or "/." in relative:
        return "hidden"
    name = relative[relative.rfind("/") + 1 :]
    if _TEMPORARY.search(name):
        return "temporary"
    lowered = name.lower()
    if not lowered.endswith(".md"):
        return "not_markdown"
    if strict and lowered in _RESERVED:
        return "reserved_name"
    if not name.endswith(".md"):
        return "upper_case_suffix"
    if conflict_original(name) is not None:
        return "conflict_copy"
    if not relative.isascii() and has_undecodable(relative):
        return "undecodable_name"
    return None


def conflict_original(name: str) -> str | None:
    """The name that a sync tool's conflict copy was made from, or None for any other name. Folders are kept."""
    original, changed = name, True
    while changed:
        shorter = _CONFLICTED_COPY.sub("", _SYNCTHING_COPY.sub("", original))
        changed, original = shorter != original, shorter
    return (
        original if original != name and not original.rpartition("/")[2].startswith((".", " ")) and original else None
    )


def has_undecodable(relative: str) -> bool:
    """Whether the name on disk is not valid UTF-8 (or, on Windows, not valid UTF-16)."""
    return any("\ud800" <= character <= "\udfff" for character in relative)


def printable(relative: str) -> str:
    """The same path with undecodable parts replaced, fit for JSON and terminals."""
    if relative.isascii() or not has_undecodable(relative):
        return relative
    return relative.encode("utf-8", "replace").decode("utf-8")


def sort_key(relative: str) -> tuple[bytes, bytes]:
    """UTF-16 code units of the NFC form; names equal in NFC are ordered by their own code units."""
    own = relative.encode("utf-16-be", "surrogatepass")
    if relative.isascii():
        return own, own
    return unicodedata.normalize("NFC", relative).encode("utf-16-be", "surrogatepass"), own


def collisions(paths: Iterable[str]) -> dict[str, str]:
    """The paths of a strict vault that lose, each with the path that keeps the id: the first in `sort_key` order.

    ``paths`` must be the whole set: which page keeps an id depends on all others.
    """
    first: dict[str, str] = {}
    lost: dict[str, str] = {}
    for path in sorted(paths, key=sort_key):
        kept = first.setdefault(folded(path), path)
        if kept is not path:
            lost[path] = kept
    return lost


def folded(relative: str) -> str:
    """The form in which two paths of a strict vault count as one."""
    return relative.lower() if relative.isascii() else unicodedata.normalize("NFC", relative).lower()
