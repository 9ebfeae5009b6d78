"""Names of new pages, made out of titles in any script (vault format §2.1). Pure."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

LONGEST: Final = 80  # UTF-16 code units
UNTITLED: Final = "untitled"

_RESERVED: Final = frozenset(("index", "log"))
_DIGITS: Final = "123456789\u00b9\u00b2\u00b3"  # Windows takes the raised ones for digits here
_DEVICES: Final = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{digit}" for port in ("com", "lpt") for digit in _DIGITS))
)
_HALF_WIDTH: Final = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}
_BREAKS: Final = re.compile(r"[\s-]+")


def slug(title: str, longest: int = LONGEST) -> str:
    """The title as a file name without suffix: letters and digits of any script, in lower case, joined by hyphens.

    Never empty, never a name that a vault or Windows keeps for itself, and the same again for what it made.
    """
    lowered = unicodedata.normalize("NFC", title.translate(_HALF_WIDTH).lower())
    kept = "".join(each for each in lowered if each.isalnum() or each.isspace() or each == "-")
    joined = unicodedata.normalize("NFC", _BREAKS.sub("-", kept)).strip("-")
    name = _cut(joined, longest).strip("-") or UNTITLED
    if name in _RESERVED:
        return f"{name}-page"
    return f"_{name}" if name in _DEVICES else name


def is_slug(text: str) -> bool:
    """Whether the text is a name that a title can have been given."""
    return slug(text) == text


def numbered(name: str, number: int) -> str:
    """The name itself, then `-2`, `-3` and so on, for pages whose titles make one name."""
    return name if number == 1 else f"{name}-{number}"


def _cut(text: str, units: int) -> str:
    """As much as fits into so many UTF-16 code units."""
    data = text.encode("utf-16-le", "replace")[: units * 2]
    return data.decode("utf-16-le", "ignore")
