"""Which page a link's target reaches: in a vault the one with exactly that id, in a plain folder whatever an editor of
notes would open. Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from wikid_daemon.core.page import KnowledgeDocument

_FRAGMENT: Final = re.compile(r"[#^]")
_ATTACHMENT: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,5}$")


class Reach:
    """The pages that a vault's links can lead to."""

    def __init__(self, page_ids: Iterable[str], *, strict: bool) -> None:
        self._strict = strict
        self._pages: defaultdict[str, list[str]] = defaultdict(list)
        for page_id in page_ids:
            for name in (page_id,) if strict else _endings(page_id.casefold()):
                self._pages[name].append(page_id)

    def pages(self, target: str) -> list[str]:
        """The ids that `target` may mean; more than one only in plain folders, where names repeat."""
        return self._pages.get(target if self._strict else _note(target), [])

    def reached(self, document: KnowledgeDocument) -> set[str]:
        """The targets of the page's links that lead somewhere, or to what is no page at all."""
        return {link.target for link in document.links if self.pages(link.target) or self._is_no_page(link.target)}

    def _is_no_page(self, target: str) -> bool:
        """In a plain folder: a heading of the page itself, or a picture."""
        note = _note(target)
        return not self._strict and (not note or _ATTACHMENT.search(note) is not None)


def _endings(page_id: str) -> list[str]:
    """`a/b/c` can be called `c`, `b/c` and by its whole path."""
    parts = page_id.split("/")
    return ["/".join(parts[at:]) for at in range(len(parts))]


def _note(target: str) -> str:
    """The part of a target that names a note, however it is spelt."""
    note = _FRAGMENT.split(target, maxsplit=1)[0].strip().casefold().removesuffix(".md")
    while note.startswith(("/", "./", "../")):
        note = note[note.index("/") + 1 :]
    return note
