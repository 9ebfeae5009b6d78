"""Links between pages (vault format §3): targets are page ids; whether they exist is judged later."""

import re
import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from wikid_daemon.core.markdown import Destination
from wikid_daemon.core.page import Finding, KnowledgeDocument, Link

_WIKILINK = re.compile(r"\[\[([^\[\]|\n]+)(?:\|[^\]\n]{0,1000})?\]\]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_AFTER_PATH = re.compile(r"[?#]")


@dataclass(frozen=True, slots=True)
class Links:
    """Distinct links in order of appearance, Markdown links first, and what was wrong with the others."""

    links: tuple[Link, ...]
    findings: tuple[Finding, ...]


def extract(path: str, body: str, body_line: int, destinations: Iterable[Destination]) -> Links:
    """All links of the page at `path`; `body_line` is the file line where `body` begins."""
    found: dict[tuple[str, str], Link] = {}
    findings: list[Finding] = []
    for destination in destinations:
        line = body_line + destination.line
        resolved = resolve(destination.href, path)
        if isinstance(resolved, Unusable):
            findings.append(Finding("warning", resolved.code, path, resolved.message, line))
        elif resolved is not None:
            found.setdefault(("markdown", resolved), Link("markdown", resolved, line))
    if "[[" in body:
        line, counted = body_line, 0
        for match in _WIKILINK.finditer(body):
            target = unicodedata.normalize("NFC", match[1].strip())
            line, counted = line + body.count("\n", counted, match.start()), match.start()
            if target:
                found.setdefault(("wikilink", target), Link("wikilink", target, line))
    return Links(tuple(found.values()), tuple(findings))


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why a destination names no page, as a finding's code and message."""

    code: str
    message: str


_ESCAPES = Unusable("link_path_escape", "a link leads out of the wiki")
_MISSPELT = Unusable("link_unresolved", "a link holds a bad percent escape")


def resolve(href: str, path: str) -> str | Unusable | None:
    """The page id that `href` on the page at `path` names; None for destinations that are not pages."""
    place = _AFTER_PATH.split(href, maxsplit=1)[0]
    if not place or _SCHEME.match(place):
        return None
    if "%" in place:
        if _BAD_PERCENT.search(place):
            return _MISSPELT
        try:
            place = unquote_to_bytes(place).decode()
        except UnicodeDecodeError:
            return _MISSPELT
    place = place.replace("\\", "/")
    segments = [] if place.startswith("/") else path.split("/")[:-1]
    for segment in place.split("/"):
        if segment == "..":
            if not segments:
                return _ESCAPES
            segments.pop()
        elif segment not in ("", "."):
            segments.append(segment)
    resolved = "/".join(segments)
    return unicodedata.normalize("NFC", resolved[:-3]) if resolved.endswith(".md") else None


def unresolved(document: KnowledgeDocument, known_ids: Collection[str]) -> list[Finding]:
    """A warning for each link whose target is not among `known_ids` (NFC, case matters)."""
    return [
        Finding("warning", "link_unresolved", document.path, f"a {link.kind} link names no known page", link.line)
        for link in document.links
        if link.target not in known_ids
    ]
