"""Looking at pages themselves: exact look-up, and one page's text with what is known of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from wikid_daemon import files
from wikid_daemon.calls import listed_at_most, place_of
from wikid_daemon.core.dates import freshness
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.names import printable
from wikid_daemon.core.page import KnowledgeDocument
from wikid_daemon.core.summary import summarise
from wikid_daemon.index.catalog_rows import StoredPage
from wikid_daemon.unserved import OPENING_REMEDY, STATUS_REMEDY, Unopened, not_looked_through, refusal_of
from wikid_daemon.vault.reading import READ_TIMED_OUT, VaultReader
from wikid_daemon.vaults import Applied
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused
from wikid_protocol.limits import PAGE_BACKLINKS, PAGE_TEXT_CODE_POINTS
from wikid_protocol.methods import PageGetParams, PageSearchParams

MAX_LIMIT: Final = 500
_SUFFIX: Final = ".md"
_HEADING: Final = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_FENCE: Final = re.compile(r"^ {0,3}(```|~~~)")


def search(params: PageSearchParams, vaults: Sequence[Applied], left_out: Sequence[Unopened] = ()) -> r.PageMatches:
    """Case-insensitive substring over id, title, type, category, domain, tags, aliases and triggers; order by id.
    `left_out` are vaults that were meant as well and are not open."""
    start = place_of(params.cursor)
    limit = listed_at_most(params.limit, MAX_LIMIT)
    indexers = [applied.indexer for applied in vaults]
    # before the look-up: what is published meanwhile must not make this answer look newer than it is
    generation = sum(each.store.generation for each in indexers if each.store is not None)
    stale = bool(left_out) or any(each.stale for each in indexers)
    pending = sum(each.state.pending for each in indexers)
    unseen = (*(_unseen(each) for each in vaults if each.indexer.store is None), *map(not_looked_through, left_out))
    wanted = params.query.casefold().strip()
    found = [match for applied in vaults for match in _matches(applied, wanted, params.type)]
    shown = found[start : start + limit]
    more = start + limit < len(found)
    return r.PageMatches(
        matches=tuple(shown),
        next_cursor=str(start + limit) if more else None,
        generation=generation,
        stale=stale,
        pending=pending,
        diagnostics=unseen,
    )


def _unseen(applied: Applied) -> r.Diagnostic:
    """Why nothing can be said of this vault's pages."""
    vault = applied.vault
    if vault.blocked is not None and not vault.blocked.serve:
        kind, what, remedy = "vault_blocked", f"is not served: {vault.blocked.code}", "repair its config.json"
    elif applied.indexer.state.state == "indexing":
        kind, what, remedy = "vault_opening", "is still being opened", OPENING_REMEDY
    else:
        kind, what, remedy = "vault_not_opened", "could not be opened", STATUS_REMEDY
    return r.Diagnostic(kind=kind, message=f"{vault.name} {what}", remedy=remedy, vault_id=vault.vault_id)


def _matches(applied: Applied, wanted: str, kind: str | None) -> Iterable[r.PageMatch]:
    store, vault = applied.indexer.store, applied.vault
    if store is None:
        return
    for page in store.catalog.all_pages():
        summary = page.summary
        if kind is not None and summary.type.strip().lower() != kind.strip().lower():
            continue
        fields = (page.page_id, summary.title, summary.type, summary.category or "", summary.domain or "")
        lists = (*summary.tags, *summary.aliases, *summary.recall_triggers)
        if any(wanted in text.casefold() for text in (*fields, *lists)):
            yield r.PageMatch(
                vault_id=r.VaultId(vault.vault_id),
                vault=vault.name,
                page_id=r.PageId(printable(page.page_id)),
                title=summary.title,
                type=summary.type,
                path=printable(str(vault.pages_root / page.path)),
            )


def get(params: PageGetParams, vaults: Sequence[Applied], marker: str, left_out: Sequence[Unopened] = ()) -> r.Page:
    """The page as it is on disk now. `left_out` are vaults that were meant as well and are not open. RequestRefused
    `page_not_found`, `outside_vault` or `vault_unavailable`."""
    _refuse_escape(params.page_id)
    for applied in vaults:
        store = applied.indexer.store
        page = None if store is None else _find(applied, params.page_id)
        if page is not None:
            return _page(params, applied, page, marker)
    opening = [each.vault.name for each in vaults if _may_have_more(each)]
    opening += [each.entry.name for each in left_out if each.opening]
    if opening:
        message = f"{opening[0]} is still being opened, and no page has this id so far"
        raise RequestRefused("vault_unavailable", message, hint=OPENING_REMEDY)
    if left_out and not vaults:
        raise refusal_of(left_out[0])
    raise RequestRefused(
        "page_not_found",
        "no page has this id in the vaults that were searched",
        hint="find it with: wikid search WORDS",
    )


def _may_have_more(applied: Applied) -> bool:
    """Whether the vault's pages are not all known yet: its index is being opened, or its files were never looked at."""
    blocked = applied.vault.blocked
    return (blocked is None or blocked.serve) and applied.indexer.state.state == "indexing"


def _find(applied: Applied, page_id: str) -> StoredPage | None:
    store = applied.indexer.store
    if store is None:
        return None
    found = store.catalog.page_by_id(page_id)
    if found is None and page_id.endswith(_SUFFIX):
        found = store.catalog.page_by_id(page_id.removesuffix(_SUFFIX))
    return found


def _refuse_escape(page_id: str) -> None:
    parts = page_id.replace("\\", "/").split("/")
    if (
        page_id.startswith(("/", "\\"))
        or ".." in parts
        or "%2e" in page_id.lower()
        or ":" in parts[0]
        or "\0" in page_id
    ):
        raise RequestRefused("outside_vault", "a page id is a path inside the vault, such as concepts/name")


def _page(params: PageGetParams, applied: Applied, page: StoredPage, marker: str) -> r.Page:
    vault, store = applied.vault, applied.indexer.store
    assert store is not None
    data = _read(applied.indexer.reader, page.path)
    document = parse_page(page.path, data, strict=vault.strict).document
    text = document.body if document is not None else data.decode("utf-8", "replace")
    lines = text.split("\n")
    first = document.body_line if document is not None else 1
    start, end = _slice(lines, first, params)
    summary = page.summary if document is None else summarise(document)
    asked = lines[start:end]
    fit = _that_fit(asked)
    backlinks, linking = store.catalog.backlinks(page.page_id, PAGE_BACKLINKS)
    shown = "\n".join(asked[:fit])[:PAGE_TEXT_CODE_POINTS]
    return r.Page(
        vault_id=r.VaultId(vault.vault_id),
        vault=vault.name,
        page_id=r.PageId(printable(page.page_id)),
        path=printable(str(vault.pages_root / page.path)),
        title=summary.title,
        type=summary.type,
        role=summary.role,
        status=summary.status,
        freshness=freshness(summary, datetime.now(UTC)),
        text=shown,
        hash=files.content_hash(data),
        from_line=first + start,
        total_lines=first - 1 + len(lines),
        metadata={} if document is None else document.metadata,
        relations=_relations(document),
        backlinks=tuple(map(r.PageId, backlinks)),
        backlinks_total=linking,
        marker=marker,
        generation=store.generation,
        stale=applied.indexer.stale,
        pending=applied.indexer.state.pending,
        next_line=first + start + fit if fit < len(asked) else None,
    )


def _that_fit(lines: Sequence[str]) -> int:
    """How many of the lines have room in one answer; the first of them in any case."""
    room = PAGE_TEXT_CODE_POINTS
    for count, line in enumerate(lines):
        room -= len(line) + (count > 0)
        if room < 0:
            return max(count, 1)
    return len(lines)


def _relations(document: KnowledgeDocument | None) -> tuple[r.RelationRecord, ...]:
    if document is None:
        return ()
    return tuple(
        r.RelationRecord(target=r.PageId(each.target), type=each.type, scope=each.scope) for each in document.relations
    )


def _read(reader: VaultReader, path: str) -> bytes:
    [(_, found)] = reader.pages([path])
    if isinstance(found, files.FileBytes):
        return found.data
    if found == "outside_vault":
        raise RequestRefused("outside_vault", "the page's path leads out of the vault")
    if found == "vanished":
        raise RequestRefused("page_not_found", "the page was deleted since it was indexed")
    if found == READ_TIMED_OUT:
        raise RequestRefused("vault_unavailable", "the page's file does not answer", hint="look at: wikid status")
    raise RequestRefused("vault_unavailable", f"the page cannot be read now: {found}")


def _slice(lines: Sequence[str], first: int, params: PageGetParams) -> tuple[int, int]:
    """The half-open range of body lines that is asked for."""
    start, end = 0, len(lines)
    if params.heading is not None:
        start, end = _section(lines, params.heading)
    start = max(start, params.from_line - first)
    if params.max_lines is not None:
        end = min(end, start + max(params.max_lines, 0))
    return min(start, len(lines)), max(end, start)


def _section(lines: Sequence[str], heading: str) -> tuple[int, int]:
    """From the named heading to the next one of its level or above; headings in code fences do not count."""
    wanted = heading.rsplit(" > ", 1)[-1].strip().casefold()
    fence, level, start = "", 0, -1
    for at, line in enumerate(lines):
        mark = _FENCE.match(line)
        if mark is not None:
            fence = "" if fence == mark.group(1) else fence or mark.group(1)
        found = None if fence else _HEADING.match(line)
        if found is None:
            continue
        if start >= 0 and len(found.group(1)) <= level:
            return start, at
        if start < 0 and found.group(2).strip().casefold() == wanted:
            start, level = at, len(found.group(1))
    if start < 0:
        raise RequestRefused(
            "page_not_found", "the page has no such heading", hint="ask for the whole page, without a heading"
        )
    return start, len(lines)
