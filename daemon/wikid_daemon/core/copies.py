"""Names that look as if a program had copied the file: a hint, for nothing else tells a copy from a page (§11.35)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from wikid_daemon.core.names import sort_key

# Finder, Explorer, file managers of Linux, iCloud; in the languages that people of this vault format write in
_COPY_ENDINGS: Final = re.compile(
    r"(?: \([0-9]{1,3}\)| [2-9]| (?:- )?(?:copy|kopie|copie|copia)(?: [0-9]{1,3})?"
    r"| \((?:copy|kopie|copie|copia|another copy|[0-9]+(?:st|nd|rd|th) copy)(?: [0-9]{1,3})?\))$",
    re.IGNORECASE,
)
_COPY_BEGINNING: Final = re.compile(r"(?:copy|kopie|copie|copia) (?:\([0-9]{1,3}\) )?(?:of|von|de|di) ", re.IGNORECASE)


def suspicious(paths: Iterable[str]) -> dict[str, str]:
    """The pages whose names are those of a copy, each with the page beside it that it may be a copy of."""
    known = set(paths)
    found = {}
    for path in sorted(known, key=sort_key):
        original = next((each for each in _originals(path) if each in known), None)
        if original is not None:
            found[path] = original
    return found


def _originals(path: str) -> Iterable[str]:
    folder, slash, name = path.rpartition("/")
    stem = name.removesuffix(".md")
    for shorter in (_COPY_ENDINGS.sub("", stem), _COPY_BEGINNING.sub("", stem)):
        if shorter and shorter != stem:
            yield f"{folder}{slash}{shorter}.md"
