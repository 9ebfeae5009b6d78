"""The line by which a file that wikid wrote is known again, and an edit of it by hand seen. Pure."""

from __future__ import annotations

import hashlib
import re
from typing import Final, Literal

Origin = Literal["ours", "edited", "foreign"]

_WORDS: Final = "Written by wikid service install, which leaves it alone once it is edited."
_LINE: Final = re.compile(rf"^(?:# |<!-- ){re.escape(_WORDS)} ([0-9a-f]{{16}})(?: -->)?\n", re.MULTILINE)


def marked(text: str) -> str:
    """`text` with the mark: a comment at its head, in XML after the declarations."""
    digest = _digest(text)
    if not text.startswith("<?xml"):
        return f"# {_WORDS} {digest}\n{text}"
    place = text.index("\n") + 1
    if text.startswith("<!DOCTYPE", place):
        place = text.index("\n", place) + 1
    return f"{text[:place]}<!-- {_WORDS} {digest} -->\n{text[place:]}"


def origin(text: str) -> Origin:
    """Whose the file is that holds `text`: wikid's as written, wikid's but changed since, or somebody else's."""
    found = _LINE.search(text)
    if found is None:
        return "foreign"
    rest = text[: found.start()] + text[found.end() :]
    return "ours" if _digest(rest) == found.group(1) else "edited"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
