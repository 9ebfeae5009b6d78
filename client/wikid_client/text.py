"""Text for a terminal: made harmless, measured in cells, wrapped, and searched for the words of a query. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final
from unicodedata import category, east_asian_width, normalize

# control characters could move the cursor or rewrite what was shown; the others reorder or hide text
_HARMFUL: Final = dict.fromkeys(
    (
        *range(0x09),
        *range(0x0B, 0x20),
        *range(0x7F, 0xA0),
        *(0x200B, 0x200E, 0x200F, 0xFEFF),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x206A),
    )
)
_WIDE_SCRIPTS: Final = (("\u2e80", "\u9fff"), ("\uac00", "\ud7af"), ("\uf900", "\ufaff"))
_COMMON: Final = (
    " a an and are as at be by can do does for from how i in is it my of on or our that the this to was we what when "
    "where which who why with you "
)
_SHORTEST_STEM: Final = 3
# code is passed over as it stands; then links with a target, and those between pages
_LINK: Final = re.compile(
    r"`+[^`]*`+"
    r"|!?\[(?P<words>[^\[\]]*)\]\((?:[^()\s]|\([^()\s]*\))*(?:\s+(?:\"[^\"]*\"|'[^']*'))?\)"
    r"|\[\[(?P<page>[^\[\]|]+)(?:\|(?P<label>[^\[\]|]+))?\]\]"
)
_NO_WIDTH: Final = ("Mn", "Me", "Cf")
_EMOJI_STYLE: Final = "\ufe0f"


def harmless(text: str) -> str:
    """`text` without control and direction characters, never longer; line ends become newlines."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_HARMFUL)


def clean(text: str) -> str:
    """`text` made harmless and composed for a terminal, tabs as spaces."""
    text = harmless(text).expandtabs(4)
    composed = text if text.isascii() else normalize("NFC", text)
    return composed if len(composed) <= len(text) else text  # a few characters would come apart


def line(text: str) -> str:
    """`text` cleaned and on one line, never longer."""
    return " ".join(clean(text).split())


def cells(text: str) -> int:
    """How many terminal columns `text` takes."""
    if text.isascii():
        return len(text)
    found = sum(0 if category(each) in _NO_WIDTH else 2 if east_asian_width(each) in "WF" else 1 for each in text)
    # a sign that is asked to look like an emoji becomes as wide as one
    return found + sum(east_asian_width(text[i - 1]) not in "WF" for i in _places(text, _EMOJI_STYLE) if i)


def _places(text: str, wanted: str) -> list[int]:
    return [i for i, each in enumerate(text) if each == wanted] if wanted in text else []


def wrap(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells: its own line breaks kept, blank lines dropped, indents kept short."""
    found: list[str] = []
    for source in text.split("\n"):
        words = source.split()
        indent = " " * min(len(source) - len(source.lstrip()), 8, width // 4)
        current = ""
        for word in words:
            for piece in _pieces(word, width - len(indent)):
                if current and cells(current) + 1 + cells(piece) <= width:
                    current += " " + piece
                else:
                    if current:
                        found.append(current)
                    current = indent + piece
        if current:
            found.append(current)
    return found


def unfold(text: str) -> str:
    """Markdown with each paragraph on one line; list items, quotes, tables, headings and code keep their lines."""
    found: list[str] = []
    paragraph = code = False
    for each in text.split("\n"):
        fence = each.lstrip().startswith(("```", "~~~"))
        block = fence or code or each.startswith(("    ", "#", "|", ">"))
        if paragraph and each.strip() and not block and not _is_list_item(each):
            found[-1] += " " + each.strip()
        else:
            found.append(each)
        code ^= fence
        paragraph = bool(each.strip()) and not block
    return "\n".join(found)


def without_targets(text: str) -> str:
    """Markdown in which a link is its words alone, as a page reads; code keeps its letters."""
    found: list[str] = []
    code = False
    for each in text.split("\n"):
        fence = each.lstrip().startswith(("```", "~~~"))
        found.append(each if code or fence or "[" not in each else _LINK.sub(_words_of, each))
        code ^= fence
    return "\n".join(found)


def _words_of(link: re.Match[str]) -> str:
    words: str | None = link["words"] or link["label"] or link["page"]
    return words if words is not None and words.strip() else link.group()


def _is_list_item(text: str) -> bool:
    first = next(iter(text.split()), "")
    return first in ("-", "*", "+") or (first[-1:] in (".", ")") and first[:-1].isdecimal())


def wrap_parts(parts: Iterable[str], width: int, separator: str = " · ") -> list[str]:
    """The parts that are not empty, separated, in lines that break between parts where they can."""
    found: list[str] = []
    current = ""
    for part in filter(None, parts):
        longer = current + separator + part if current else part
        if current and cells(longer) > width:
            found.append(current)
            longer = part
        current = longer
    return [line for each in [*found, current] for line in wrap(each, width)]


def _pieces(word: str, width: int) -> Iterator[str]:
    """A word that is too long for a line, cut after its slashes or hyphens where it has some, anywhere otherwise."""
    while cells(word) > width:
        room = taken = 0
        for each in word:
            room += cells(each)
            if room > width:
                break
            taken += 1
        cut = max((word.rfind(mark, 0, max(taken, 1)) + 1 for mark in "/-_."), default=0)
        cut = cut if cut > taken // 2 else max(taken, 1)
        yield word[:cut]
        word = word[cut:]
    if word:
        yield word


def matcher(query: str) -> re.Pattern[str] | None:
    """Finds the words of `query` in a text, longer forms included; None where no word is worth looking for."""
    patterns: dict[str, None] = {}
    for word in _words(clean(query).casefold()):
        if any(low <= each <= high for each in word for low, high in _WIDE_SCRIPTS):
            pairs = [word[i : i + 2] for i in range(len(word) - 1)]
            patterns.update(dict.fromkeys(map(re.escape, (word, *pairs))))
        elif f" {word} " not in _COMMON:
            ending = r"\w*" if len(word) >= _SHORTEST_STEM else r"\b"
            patterns[rf"\b{re.escape(word)}{ending}"] = None
    return re.compile("|".join(patterns), re.IGNORECASE) if patterns else None


def _words(text: str) -> list[str]:
    return "".join(each if each.isalnum() or each == "_" else " " for each in text).split()


def split_matches(text: str, words: re.Pattern[str] | None) -> list[tuple[str, bool]]:
    """`text` in pieces, each with whether it is a matched word."""
    pieces: list[tuple[str, bool]] = []
    end = 0
    for found in words.finditer(text) if words else ():
        if found.end() == found.start():
            continue
        if found.start() > end:
            pieces.append((text[end : found.start()], False))
        pieces.append((found.group(), True))
        end = found.end()
    if end < len(text):
        pieces.append((text[end:], False))
    return pieces


def excerpt(text: str, words: re.Pattern[str] | None, width: int, most: int) -> list[str]:
    """At most `most` wrapped lines of `text`, those with the most different matched words; "…" marks a cut end."""
    lines = wrap(without_targets(unfold(clean(text))), width)
    if len(lines) <= most:
        return lines
    found = [{match.casefold() for match in words.findall(each)} if words else set() for each in lines]
    start = max(range(len(lines) - most + 1), key=lambda i: len(set[str]().union(*found[i : i + most])))
    shown = lines[start : start + most]
    if start > 0:
        shown[0] = _cut_front(shown[0], width)
    if start + most < len(lines):
        shown[-1] = _cut_back(shown[-1], width)
    return shown


def _cut_front(text: str, width: int) -> str:
    body = text.lstrip()
    while " " in body and cells(body) + 2 > width:
        body = body.split(" ", 1)[1]
    return "… " + body


def _cut_back(text: str, width: int) -> str:
    while " " in text.strip() and cells(text) + 2 > width:
        text = text.rsplit(" ", 1)[0]
    return text + " …"


def count(number: int, singular: str, plural: str = "") -> str:
    """`1 page`, `1,204 pages`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def joined(parts: Iterable[str], separator: str = " · ") -> str:
    """The parts that are not empty, in one line."""
    return separator.join(each for each in parts if each)
