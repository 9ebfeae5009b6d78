"""The YAML block at the head of a page (vault format §2.2).

Parsing is YAML 1.2 core over libyaml's events: scalars are resolved here, because YAML 1.1 reads `yes`, dates and
`010` as something else, and because events still show aliases, tags and repeated keys.
"""

import json
import math
import re
from dataclasses import dataclass
from typing import Protocol

from yaml import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    MarkedYAMLError,
    ScalarEvent,
    YAMLError,
)
from yaml._yaml import CParser

from wikid_daemon.core.page import Json

MAX_BYTES = 131_072
MAX_DEPTH = 32
_LINES_BEFORE_YAML = 2  # the opening fence, and marks count from 0

_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER_HEADS = frozenset("0123456789+-.")
_LONGEST_INTEGER = 18  # digits and sign that surely fit in 64 bits
_STANDARD_TAG = "tag:yaml.org,2002:"

# libyaml refuses characters, and `?` inside flow lists, that YAML 1.2 readers take; they travel as private characters.
_MASKED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|\?(?=[^\s,\[\]{}])")
_MASK_BASE = 0x100000
_UNMASKED = re.compile("[\U00100000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a block is refused: a code of vault format §2.3, a fixed sentence, and the place in the file."""

    code: str
    message: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Fenced:
    """A page cut at its fences. `body_line` is the file line, from 1, where `body` begins."""

    yaml: str
    body: str
    body_line: int


def split(text: str) -> Fenced | Fault:
    """Cut LF-normalised text into YAML and body; the fault says which fence is missing."""
    if not text.startswith("---\n"):
        return Fault("frontmatter_missing", "the page does not begin with a line of exactly three hyphens", 1)
    close = _fence(text, 3)
    if close is None:
        return Fault("frontmatter_parse_error", "the frontmatter has no closing line of three hyphens", 1)
    if text.endswith("\n...", 0, close):
        close = _fence(text, close + 4) or close
    body_at = close + 5
    if text.startswith("\n", body_at):
        body_at += 1
    return Fenced(text[4 : close + 1], text[body_at:], 1 + text.count("\n", 0, body_at))


def _fence(text: str, start: int) -> int | None:
    """Where the line end before the next fence line stands."""
    found = text.find("\n---\n", start)
    if found >= 0:
        return found
    at_end = len(text) - 4
    return at_end if at_end >= start and text.endswith("\n---") else None


def parse(yaml: str) -> dict[str, Json] | Fault:
    """Read one YAML mapping, or say what forbids it. Values are safe to encode as JSON."""
    if len(yaml) > MAX_BYTES or (len(yaml) * 4 > MAX_BYTES and len(yaml.encode()) > MAX_BYTES):
        return Fault("frontmatter_limit_bytes", f"the frontmatter is longer than {MAX_BYTES} bytes", 1)
    masks = _MASKED.search(yaml) is not None and _UNMASKED.search(yaml) is None
    reader = _Reader(unmask=masks)
    syntax = reader.read(_MASKED.sub(_mask, yaml) if masks else yaml)
    if reader.duplicate is not None:
        return reader.duplicate
    if syntax is not None:
        return syntax
    if reader.documents != 1:
        return Fault("frontmatter_multiple_documents", "the frontmatter must hold exactly one YAML document", 1)
    if not isinstance(reader.root, dict):
        return Fault("frontmatter_parse_error", "the frontmatter is not a YAML mapping", _LINES_BEFORE_YAML)
    fault = reader.alias or reader.tag or reader.depth
    return fault if fault is not None else reader.root


def _mask(match: re.Match[str]) -> str:
    return chr(_MASK_BASE + ord(match[0]))


def _unmask(match: re.Match[str]) -> str:
    return chr(ord(match[0]) - _MASK_BASE)


class _Position(Protocol):
    line: int
    column: int


class _Frame:
    """An open mapping or sequence; keys, values and items alike arrive through `add`."""

    __slots__ = ("flow", "items", "key", "key_is_next", "pairs", "seen")

    def __init__(self, *, mapping: bool, flow: bool) -> None:
        self.items: list[Json] = []
        self.pairs: dict[str, Json] | None = {} if mapping else None
        self.seen: set[tuple[str, str]] = set()
        self.key = ""
        self.key_is_next = mapping
        self.flow = flow

    def add(self, value: Json, *, by_text: bool) -> bool:
        """Take the next key, value or item; True when it is a key seen before (`by_text`: 1 and "1" are one key)."""
        if self.pairs is None:
            self.items.append(value)
        elif self.key_is_next:
            self.key = key = value if isinstance(value, str) else json.dumps(value)
            self.key_is_next = False
            identity = ("" if by_text else type(value).__name__, key)
            if identity in self.seen:
                return True
            self.seen.add(identity)
        else:
            self.pairs[self.key] = value
            self.key_is_next = True
        return False

    def value(self) -> Json:
        return self.items if self.pairs is None else self.pairs


class _Reader:
    """Builds values from libyaml's events and remembers the first fault of each kind."""

    def __init__(self, *, unmask: bool) -> None:
        self.documents = 0
        self.root: Json = None
        self.duplicate: Fault | None = None
        self.alias: Fault | None = None
        self.tag: Fault | None = None
        self.depth: Fault | None = None
        self._indentation: Fault | None = None
        self._unmask = unmask
        self._frames: list[_Frame] = []

    def read(self, yaml: str) -> Fault | None:
        """Consume all events; the result is the syntax fault, if any."""
        parser = CParser(yaml)
        try:
            while (event := parser.get_event()) is not None:
                self._take(event)
        except MarkedYAMLError as error:
            line, column = (1, None) if error.problem_mark is None else _place(error.problem_mark)
            # libyaml's sentences are constants and never quote the page
            message = f"the frontmatter is not valid YAML: {error.problem or 'unreadable'}"
            return Fault("frontmatter_parse_error", message, line, column)
        except YAMLError:
            return Fault("frontmatter_parse_error", "the frontmatter is not valid YAML", 1)
        finally:
            parser.dispose()
        return self._indentation

    def _take(self, event: Event) -> None:
        if isinstance(event, ScalarEvent):
            self._check_tag(event, event.tag)
            self._check_indentation(event)
            self._add(self._scalar(event), event)
        elif isinstance(event, CollectionStartEvent):
            self._check_tag(event, event.tag)
            self._check_indentation(event)
            self._frames.append(_Frame(mapping=isinstance(event, MappingStartEvent), flow=bool(event.flow_style)))
            if len(self._frames) > MAX_DEPTH and self.depth is None:
                message = f"the frontmatter nests deeper than {MAX_DEPTH} levels"
                self.depth = _fault(event, "frontmatter_limit_depth", message)
        elif isinstance(event, CollectionEndEvent):
            self._add(self._frames.pop().value(), event)
        elif isinstance(event, AliasEvent):
            if self.alias is None:
                message = "YAML aliases are not allowed in frontmatter"
                self.alias = _fault(event, "frontmatter_alias_forbidden", message)
            self._add(None, event)
        elif isinstance(event, DocumentStartEvent):
            self.documents += 1

    def _add(self, value: Json, event: Event) -> None:
        if not self._frames:
            self.root = value
        elif self._frames[-1].add(value, by_text=len(self._frames) == 1) and self.duplicate is None:
            self.duplicate = _fault(event, "frontmatter_duplicate_key", "a frontmatter key occurs twice")

    def _scalar(self, event: ScalarEvent) -> Json:
        text = event.value
        if self._unmask:
            text = _UNMASKED.sub(_unmask, text)
        if event.tag is not None:
            return _tagged(text, event.tag)
        return core_scalar(text) if event.implicit[0] else text

    def _check_tag(self, event: Event, tag: str | None) -> None:
        if tag is not None and tag.startswith("!") and self.tag is None:
            message = "only standard YAML tags are allowed in frontmatter"
            self.tag = _fault(event, "frontmatter_custom_tag_forbidden", message)

    def _check_indentation(self, event: Event) -> None:
        """YAML 1.2 wants a flow list inside a block mapping indented on every line; libyaml does not care."""
        mark = event.start_mark
        if mark is None or mark.column or not self._frames or not self._frames[-1].flow or self._frames[0].flow:
            return
        if self._indentation is None:
            message = "the frontmatter is not valid YAML: a flow list continues without indentation"
            self._indentation = _fault(event, "frontmatter_parse_error", message)


def _place(mark: _Position) -> tuple[int, int]:
    return mark.line + _LINES_BEFORE_YAML, mark.column + 1


def _fault(event: Event, code: str, message: str) -> Fault:
    return Fault(code, message, *(_place(event.start_mark) if event.start_mark is not None else (1, None)))


def core_scalar(text: str) -> Json:
    """The value of an untagged plain scalar by the YAML 1.2 core schema; numbers that JSON lacks stay text."""
    head = text[:1]
    if head in _NUMBER_HEADS:
        return _number(text)
    return _WORDS.get(text, text)


def _number(text: str) -> Json:
    if _INTEGER.fullmatch(text):
        if len(text) <= _LONGEST_INTEGER:
            base = {"0o": 8, "0x": 16}.get(text[:2], 10)
            return int(text, base)
        number = float(text) if text.lstrip("+-").isdigit() else math.inf
    elif _FLOAT.fullmatch(text):
        number = float(text)
    else:
        return text
    return number if math.isfinite(number) else text


def _tagged(text: str, tag: str) -> Json:
    name = tag.removeprefix(_STANDARD_TAG)
    if name in ("int", "float", "bool", "null"):
        return core_scalar(text)
    return text
