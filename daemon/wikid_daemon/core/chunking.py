"""Pages → chunks: consecutive slices of the body along headings, each small enough for the embedder's window.

A chunk never crosses a heading, except that tiny neighbouring sections under one parent share a chunk. Code and tables
stay whole when they fit; a table that does not repeats its header. Every visible word of the body is in the text or the
heading path of some chunk, or in the page's title.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wikid_daemon.core.cutting import BY_LINE, BY_SENTENCE, count_pieces, cut
from wikid_daemon.core.page import Block, KnowledgeDocument

VERSION = "3"  # of parsing and cutting: where the same bytes give other pages or chunks than before, it must change
WINDOW = 256  # word pieces that MiniLM reads
_RESERVED = 12  # start, end, separators, and room for text whose estimate is low
_TINY_SHARE = 6  # a section under a sixth of the budget is tiny
_HEADER_ROWS = 2  # the header and the delimiter row
_RULES = "#-*_= \t\n"  # a chunk of nothing but rules says nothing


@dataclass(frozen=True, slots=True)
class Chunk:
    """One indexed slice. `heading` is the path of headings above it, without the page's title; `text` is Markdown as
    written; `start_line` is the file line, from 1, where it begins."""

    ordinal: int
    heading: tuple[str, ...]
    text: str
    start_line: int


@dataclass(frozen=True, slots=True)
class _Section:
    """A heading (none at the page's head, level 0) and the body blocks directly under it."""

    head: Block | None
    parent: tuple[str, ...]
    heading: tuple[str, ...]
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A chunk in the making; `line` is a 0-based body line."""

    heading: tuple[str, ...]
    text: str
    line: int
    pieces: int


def chunk(document: KnowledgeDocument, count_tokens_upper: int = WINDOW) -> list[Chunk]:
    """Cut the page so that title, heading path and text of a chunk fit in `count_tokens_upper` estimated word pieces.

    A page without body but with frontmatter gives one chunk, its description or title; an empty file gives none.
    """
    lines = document.body.split("\n")
    chunks: list[Chunk] = []
    for piece in _pieces(document, lines, count_tokens_upper):
        chunks.append(Chunk(len(chunks), piece.heading, piece.text, document.body_line + piece.line))
    if not chunks and document.metadata:
        chunks.append(Chunk(0, (), document.description or document.title, 1))
    return chunks


def embedding_text(title: str, chunk: Chunk, count_tokens_upper: int = WINDOW) -> str:
    """The text to embed: title and heading path, cut to half of the window if need be, then the chunk's text."""
    prefix = " > ".join((title, *chunk.heading))
    # a piece is a character at least, and hardly a prefix is long enough to need counting
    if len(prefix) > count_tokens_upper // 2 < count_pieces(prefix):
        prefix = prefix[: cut(prefix, count_tokens_upper // 2, BY_SENTENCE)[0].end].rstrip()
    # a page of nothing but a title says it once
    return prefix if chunk.text == title else f"{prefix}\n{chunk.text}"


def _pieces(document: KnowledgeDocument, lines: list[str], window: int) -> Iterator[_Piece]:
    title_pieces = count_pieces(document.title)
    waiting: list[_Tiny] = []
    for section in _sections(document):
        prefix = title_pieces + count_pieces(" ".join(section.heading)) + len(section.heading)
        budget = max(window - _RESERVED - prefix, window // 2 - _RESERVED, 1)
        found = _fill(section, lines, budget)
        tiny = _tiny(section, found, budget)
        if waiting and not (tiny is not None and _join(waiting, tiny, budget)):
            yield _merged(waiting, lines)
            waiting = []
        if tiny is not None:
            waiting.append(tiny)
        else:
            yield from found
    if waiting:
        yield _merged(waiting, lines)


def _sections(document: KnowledgeDocument) -> list[_Section]:
    """The body's sections in order; those whose heading only leads on to deeper headings are left out."""
    title = _key(document.title)
    path: list[tuple[int, str]] = []
    sections: list[_Section] = []
    head: Block | None = None
    parent: tuple[str, ...] = ()
    heading: tuple[str, ...] = ()
    blocks: list[Block] = []
    for block in document.blocks:
        if block.kind != "heading":
            blocks.append(block)
            continue
        if blocks or _level(head) >= block.level:
            sections.append(_Section(head, parent, heading, tuple(blocks)))
        while path and path[-1][0] >= block.level:
            path.pop()
        parent = tuple(text for _, text in path if text)
        is_title = block.level == 1 and _key(block.heading) == title
        path.append((block.level, "" if is_title else block.heading))
        head, heading, blocks = block, tuple(text for _, text in path if text), []
    return [*sections, _Section(head, parent, heading, tuple(blocks))]


def _level(head: Block | None) -> int:
    return head.level if head is not None else 0


def _key(heading: str) -> str:
    return " ".join(heading.split()).casefold()


def _fill(section: _Section, lines: list[str], budget: int) -> list[_Piece]:
    """The section's blocks as pieces; its heading line when they say nothing."""
    found = _pack(section.heading, section.blocks, lines, budget)
    if not found and section.head is not None:
        found = _pack(section.heading, (section.head,), lines, budget)
    return found


def _pack(heading: tuple[str, ...], blocks: tuple[Block, ...], lines: list[str], budget: int) -> list[_Piece]:
    """Blocks packed from the front, without pieces of rules alone."""
    found: list[_Piece] = []
    start, end, total = 0, 0, 0
    for block in blocks:
        text = "\n".join(lines[block.start : block.end])
        pieces = count_pieces(text)
        if total and total + pieces > budget:
            found.append(_piece(heading, "\n".join(lines[start:end]), start, total))
            total = 0
        if pieces > budget:
            found += _split_table(heading, block, text, budget) or _split(heading, block, text, budget)
        else:
            start, end, total = (start if total else block.start), block.end, total + pieces
    if total:
        found.append(_piece(heading, "\n".join(lines[start:end]), start, total))
    return [piece for piece in found if piece.text.strip(_RULES)]


def _piece(heading: tuple[str, ...], text: str, line: int, pieces: int) -> _Piece:
    """Without blank lines around the text; the indentation of its first line stays."""
    blank = text.rfind("\n", 0, len(text) - len(text.lstrip())) + 1
    return _Piece(heading, text[blank:].rstrip(), line + text.count("\n", 0, blank), pieces)


def _split(heading: tuple[str, ...], block: Block, text: str, budget: int) -> list[_Piece]:
    found = []
    line, counted = block.start, 0
    for part in cut(text, budget, BY_SENTENCE if block.kind == "prose" else BY_LINE):
        line, counted = line + text.count("\n", counted, part.start), part.start
        found.append(_piece(heading, text[part.start : part.end], line, part.pieces))
    return found


def _split_table(heading: tuple[str, ...], block: Block, text: str, budget: int) -> list[_Piece]:
    """Pieces that each begin with the header rows; none when this is no table or its header is too long to repeat."""
    if block.kind != "table":
        return []
    rows = text.split("\n")
    header = "\n".join(rows[:_HEADER_ROWS])
    header_pieces = count_pieces(header)
    if header_pieces * 2 > budget:
        return []
    below = Block("table", block.start + _HEADER_ROWS, block.end)
    found = _split(heading, below, "\n".join(rows[_HEADER_ROWS:]), budget - header_pieces)
    return [replace(piece, text=f"{header}\n{piece.text}", pieces=piece.pieces + header_pieces) for piece in found]


@dataclass(frozen=True, slots=True)
class _Tiny:
    """A section small enough to share a chunk; `pieces` includes its heading line."""

    section: _Section
    piece: _Piece
    pieces: int


def _tiny(section: _Section, found: list[_Piece], budget: int) -> _Tiny | None:
    if section.head is None or len(found) != 1 or found[0].pieces * _TINY_SHARE > budget:
        return None
    heading_pieces = section.head.level + count_pieces(section.head.heading)
    return _Tiny(section, found[0], found[0].pieces + heading_pieces)


def _join(waiting: list[_Tiny], tiny: _Tiny, budget: int) -> bool:
    """Whether `tiny` may share a chunk with the neighbours before it: brothers only, and within the budget."""
    first = waiting[0].section
    brothers = first.parent == tiny.section.parent and _level(first.head) == _level(tiny.section.head)
    return brothers and sum(one.pieces for one in waiting) + tiny.pieces <= budget


def _merged(waiting: list[_Tiny], lines: list[str]) -> _Piece:
    """One section as it is; several under their parent's path, with their heading lines in the text."""
    first, last = waiting[0], waiting[-1]
    if first is last or first.section.head is None or last.section.head is None:
        return first.piece
    start = first.section.head.start
    end = last.section.blocks[-1].end if last.section.blocks else last.section.head.end
    return _piece(first.section.parent, "\n".join(lines[start:end]), start, sum(one.pieces for one in waiting))
