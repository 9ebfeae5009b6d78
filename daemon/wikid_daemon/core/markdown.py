"""The structure of a Markdown body, read once: blocks for chunking and link destinations.

CommonMark with tables. The parser, pulldown-cmark, takes time linear in the body, and its events are read as they come.
"""

import re
from dataclasses import dataclass

from pyromark import Markdown, Options
from pyromark.event import Event, Range

from wikid_daemon.core.page import Block, BlockKind

LONGEST_HEADING = 500  # characters; a longer one is text, so that no chunk carries it as its heading path

_PARSER = Markdown(options=Options.ENABLE_TABLES)
_KINDS: dict[str, BlockKind] = {"Paragraph": "prose", "Heading": "prose", "CodeBlock": "code", "Table": "table"}
_INLINE = ("Emphasis", "Strong", "Link", "Image")
_AUTOLINKS = ("Autolink", "Email")
_WIKILINK = re.compile(r"!?\[\[([^\[\]|\n]*)(?:\|([^\[\]\n]*))?\]\]")


class ParserFailed(Exception):
    """A fault of the parser's own, not of the page."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a Markdown link leads, percent escapes as written, and the 0-based body line of its block."""

    href: str
    line: int


@dataclass(frozen=True, slots=True)
class Outline:
    """Blocks that cover the body without gaps, and the Markdown links outside code, in order."""

    blocks: tuple[Block, ...]
    destinations: tuple[Destination, ...]


def outline(body: str) -> Outline:
    """Read an LF-normalised body."""
    reader = _Reader(body)
    try:
        for event, span in _PARSER.events_with_range(body, merge_text=True):
            reader.take(event, span)
    except BaseException as problem:
        # a panic in Rust is no Exception, and no module exports its class; it must cost this page alone
        if type(problem).__name__ != "PanicException":
            raise
        raise ParserFailed from None
    return reader.outline()


class _Reader:
    """Builds an outline from events. Offsets count bytes of UTF-8; a block lasts until the next one begins."""

    def __init__(self, body: str) -> None:
        self._source = body.encode()
        self._blocks: list[Block] = []
        self._destinations: list[Destination] = []
        self._block: tuple[BlockKind, int, int, str] = ("lines", 0, 0, "")  # the last one: kind, line, level, heading
        self._end = 0  # of the last block by the parser's account
        self._depth = 0  # open tags, without lists at the top: each of their items is a block
        self._images = 0  # open images, whose text holds no links
        self._inline: int | None = None  # where the inline text being read begins
        self._words: list[str] | None = None  # of the heading being read
        self._counted = (0, 0)  # an offset and its line

    def take(self, event: Event, span: Range) -> None:
        if isinstance(event, str):
            if event == "Rule":
                self._open("Rule", span)
                self._close("Rule")
            elif self._words is not None:
                self._words.append(" ")
        elif "Start" in event:
            tag = event["Start"]
            if isinstance(tag, str):
                self._open(tag, span)
                return
            self._open(next(iter(tag)), span)
            if "Link" in tag and not self._images and tag["Link"]["link_type"] not in _AUTOLINKS:
                line = self._line(self._inline_from(span["start"]))
                self._destinations.append(Destination(tag["Link"]["dest_url"], line))
            elif "Heading" in tag and self._depth == 1:
                self._words = []
        elif "End" in event:
            ended = event["End"]
            if isinstance(ended, str):
                self._close(ended)
                return
            self._close(next(iter(ended)))
            if "Heading" in ended and self._words is not None:
                self._head(int(ended["Heading"][1]), "".join(self._words))
                self._words = None
        else:
            self._inline_from(span["start"])
            if self._words is not None:
                self._words += map(str, event.values())

    def outline(self) -> Outline:
        self._fill(len(self._source))
        self._finish(self._line(len(self._source)) + 1)
        return Outline(tuple(self._blocks), tuple(self._destinations))

    def _open(self, tag: str, span: Range) -> None:
        if tag in _INLINE:
            self._inline_from(span["start"])
            self._images += tag == "Image"
        else:
            self._inline = None
            if self._depth == 0:
                if tag == "List":
                    return
                self._fill(span["start"])
                self._begin(_KINDS.get(tag, "lines"), span["start"])
                self._end = span["end"]
        self._depth += 1

    def _close(self, tag: str) -> None:
        if tag in _INLINE:
            self._images -= tag == "Image"
        else:
            self._inline = None
            if self._depth == 0:
                return
        self._depth -= 1

    def _inline_from(self, offset: int) -> int:
        """Where the inline text around `offset` begins."""
        if self._inline is None:
            self._inline = offset
        return self._inline

    def _head(self, level: int, text: str) -> None:
        """Make the last block a heading: its text as a reader sees it, on one line; a wikilink shows its label."""
        if "[[" in text:
            text = _WIKILINK.sub(lambda link: link[2] or link[1], text)
        text = " ".join(text.split())
        if len(text) <= LONGEST_HEADING:
            self._block = ("heading", self._block[1], level, text)

    def _fill(self, until: int) -> None:
        """Link definitions have no events: the text that they leave between blocks is a block of lines."""
        gap = self._source[self._end : until]
        text = gap.lstrip()
        if text:
            self._begin("lines", until - len(text))

    def _begin(self, kind: BlockKind, offset: int) -> None:
        line = self._line(offset)
        self._finish(line)
        self._block = (kind, line, 0, "")

    def _finish(self, line: int) -> None:
        kind, start, level, heading = self._block
        if line > start:
            self._blocks.append(Block(kind, start, line, level, heading))

    def _line(self, offset: int) -> int:
        """The line of an offset not before the one asked for last."""
        known, line = self._counted
        line += self._source.count(b"\n", known, offset)
        self._counted = (offset, line)
        return line
