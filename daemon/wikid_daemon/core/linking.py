"""Markdown links to pages, written so that every reader of the vault resolves them (vault format §3). Pure."""

from __future__ import annotations

import re
from typing import Final

from wikid_daemon.core.composing import one_line

_LABEL_MARKS: Final = re.compile(r"[\\\[\]`<!]")
_PATH_MARKS: Final = re.compile(r"[\x00-\x20\x7f\"%()<>?#\[\]\\`]")


def link_to(page_id: str, title: str) -> str:
    """A link from anywhere in the vault; its label is the title on one line, or its id where it has none."""
    label = _LABEL_MARKS.sub(r"\\\g<0>", one_line(title) or page_id)
    path = _PATH_MARKS.sub(lambda found: f"%{ord(found[0]):02X}", page_id)
    return f"[{label}](/{path}.md)"
