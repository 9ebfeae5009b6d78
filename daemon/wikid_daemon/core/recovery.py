"""Reading broken frontmatter of plain folders line by line, so that a stray colon does not cost a note its title."""

import re

from wikid_daemon.core.frontmatter import core_scalar
from wikid_daemon.core.page import Json

_PAIR = re.compile(r"([A-Za-z_][\w .-]{0,63}?)[ \t]*:(?:[ \t]+(.*))?")
_ITEM = re.compile(r"[ \t]*-(?:[ \t]+(.*))?")
_QUOTED = re.compile(r"(['\"])(.*)\1")


def begins_like_mapping(text: str) -> bool:
    """Whether the first line that says anything is a `key: value` line."""
    first = next((line for line in text.split("\n") if line.strip() and not line.startswith("#")), "")
    return _PAIR.fullmatch(first.rstrip()) is not None


def recover(yaml: str) -> dict[str, Json] | None:
    """Keys with text or lists of text; None when some unindented line is neither a pair, an item nor a comment.

    The first of repeated keys wins, unless it is empty. Deeper structure is dropped.
    """
    found: dict[str, Json] = {}
    open_list: list[Json] | None = None
    for line in (raw.rstrip() for raw in yaml.split("\n")):
        if not line or line.startswith(("#", "...")):
            continue
        item = _ITEM.fullmatch(line)
        if item is not None:
            if open_list is not None and item[1]:
                open_list.append(_scalar(item[1]))
            continue
        if line[0] in " \t":
            continue
        pair = _PAIR.fullmatch(line)
        if pair is None:
            return None
        value, open_list = _value(pair[2]), None
        if value is None:
            value = open_list = []
        if not found.get(pair[1]):
            found[pair[1]] = value
    return {key: None if value == [] else value for key, value in found.items()} or None


def _value(written: str | None) -> Json:
    """A list for `[a, b]`, otherwise text; None when nothing is written."""
    text = (written or "").strip()
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(part) for part in text[1:-1].split(",") if part.strip()]
    return _scalar(text) if text else None


def _scalar(text: str) -> Json:
    text = text.strip()
    quoted = _QUOTED.fullmatch(text)
    return quoted[2] if quoted is not None else core_scalar(text)
