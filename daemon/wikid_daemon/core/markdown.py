"""The structure of a Markdown body, read once: blocks for chunking and link destinations.

CommonMark with tables. The block parser sees the whole body; the inline parser runs only on text that can hold a link.
"""

import re
from dataclasses import dataclass, replace
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.utils import EnvType

from wikid_daemon.core.page import Block, BlockKind

LONGEST_HEADING = 500  # characters; a longer one is text, so that no chunk carries it as its heading path
MOST_BRACKETS = 500  # opening brackets read in one go, because time grows with their square
MOST_LINES = 30_000  # longer bodies go to the line scanner: block tokens of each line would take gigabytes

_KINDS: dict[str, BlockKind] = {
    "fence": "code",
    "code_block": "code",
    "table_open": "table",
    "paragraph_open": "prose",
}
_LISTS = ("bullet_list_open", "ordered_list_open")
_WIKILINK = re.compile(r"!?\[\[([^\[\]|\n]*)(?:\|([^\[\]\n]*))?\]\]")
_INLINE_MARKS = re.compile(r"[*_`\[<&\\]")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_ATX_END = re.compile(r"(?:^|[ \t]+)#+[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")


class _Markdown(MarkdownIt):
    """Keeps link destinations as written: vault format §3 decodes them itself and refuses bad percent escapes."""

    def normalizeLink(self, url: str) -> str:
        return url

    def validateLink(self, url: str) -> bool:  # noqa: ARG002
        return True


_PARSER = (
    _Markdown("commonmark", {"inline_definitions": True}).enable("table").disable(["emphasis", "entity", "newline"])
)
_TEXT = MarkdownIt("commonmark")


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a Markdown link leads, as written, and the 0-based body line of its block."""

    href: str
    line: int


@dataclass(frozen=True, slots=True)
class Outline:
    """Blocks that cover the body without gaps, and the Markdown links outside code, in order."""

    blocks: tuple[Block, ...]
    destinations: tuple[Destination, ...]


def outline(body: str) -> Outline:
    """Read an LF-normalised body. Bodies beyond `MOST_LINES` know ATX headings, fences and inline links only."""
    lines = body.count("\n") + 1
    if lines > MOST_LINES:
        return _scan(body.split("\n"))
    env: EnvType = {}
    tokens: list[Token] = []
    _PARSER.block.parse(body, _PARSER, env, tokens)
    return Outline(_without_gaps(_blocks(tokens), lines), tuple(_destinations(tokens, env)))


def _blocks(tokens: list[Token]) -> list[Block]:
    found = []
    for index, token in enumerate(tokens):
        span = token.map
        if span is None or token.level > 1 or token.nesting < 0:
            continue
        if token.level == 1:
            if token.type == "list_item_open":
                found.append(Block("lines", span[0], span[1]))
        elif token.type == "heading_open":
            found.append(_heading(span[0], span[1], int(token.tag[1]), tokens[index + 1].content))
        elif token.type not in _LISTS:
            found.append(Block(_KINDS.get(token.type, "lines"), span[0], span[1]))
    return found


def _heading(start: int, end: int, level: int, content: str) -> Block:
    if len(content) > LONGEST_HEADING:
        return Block("prose", start, end)
    return Block("heading", start, end, level, plain_text(content))


def plain_text(content: str) -> str:
    """Inline Markdown as a reader sees it, on one line; a wikilink shows its label."""
    if "[[" in content:
        content = _WIKILINK.sub(lambda link: link.group(2) or link.group(1), content)
    if _INLINE_MARKS.search(content):
        tokens: list[Token] = []
        _TEXT.inline.parse(content, _TEXT, {}, tokens)
        content = "".join(" " if token.type.endswith("break") else token.content for token in tokens)
    return " ".join(content.split())


def _without_gaps(blocks: list[Block], lines: int) -> tuple[Block, ...]:
    """Stretch each block to the next one, over the blank lines between them."""
    if not blocks:
        return (Block("lines", 0, lines),)
    if blocks[0].start > 0:
        blocks.insert(0, Block("lines", 0, blocks[0].start))
    closed = [left if left.end == right.start else replace(left, end=right.start) for left, right in pairwise(blocks)]
    return (*closed, replace(blocks[-1], end=lines))


def _destinations(tokens: list[Token], env: EnvType) -> list[Destination]:
    found: list[Destination] = []
    line = 0
    has_definitions = bool(env.get("references"))
    for token in tokens:
        if token.map is not None:
            line = token.map[0]
        if token.type == "inline" and ("](" in token.content or (has_definitions and "[" in token.content)):
            found.extend(Destination(href, line) for href in _inline_hrefs(token.content, env))
    return found


def _inline_hrefs(content: str, env: EnvType) -> list[str]:
    """The link destinations in `content`; text with a great many brackets only line by line, such a line not at all."""
    if content.count("[") > MOST_BRACKETS:
        rest = content.split("\n") if "\n" in content else []
        return [href for line in rest if "[" in line for href in _inline_hrefs(line, env)]
    children: list[Token] = []
    _PARSER.inline.parse(content, _PARSER, env, children)
    return [
        str(child.attrs.get("href", ""))
        for child in children
        if child.type == "link_open" and child.markup != "autolink"
    ]


def _scan(lines: list[str]) -> Outline:
    blocks: list[Block] = []
    destinations: list[Destination] = []
    fence: str | None = None
    for index, line in enumerate(lines):
        opening = _FENCE.match(line)
        heading = _ATX.match(line) if fence is None else None
        kind: BlockKind = "lines" if fence is None else "code"
        if fence is not None:
            if opening is not None and opening[1].startswith(fence) and not line[opening.end() :].strip():
                fence = None
        elif opening is not None:
            fence, kind = opening[1], "code"
            blocks.append(Block(kind, index, index + 1))
        elif heading is not None:
            text = _ATX_END.sub("", heading[2] or "")
            blocks.append(_heading(index, index + 1, len(heading[1]), text))
        elif "](" in line:
            destinations.extend(Destination(href, index) for href in _inline_hrefs(line, {}))
        if not blocks or (heading is None and blocks[-1].kind != kind):
            blocks.append(Block(kind, index, index + 1))
    return Outline(_without_gaps(blocks, len(lines)), tuple(destinations))
