"""`observe`, `retro`, `page/ensure`: what was seen, what was learned, pages that are to exist (vault format §5, §7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypedDict

from wikid_daemon.addressing import one_indexer
from wikid_daemon.core import noted
from wikid_daemon.core.amending import NotAmendable, amended
from wikid_daemon.core.composing import one_line
from wikid_daemon.core.names import printable
from wikid_daemon.core.slugs import is_slug, slug
from wikid_daemon.curating import create_numbered, curating
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vault.writing import PageExists, PageFile, PageWriter
from wikid_daemon.vaults import Vaults
from wikid_protocol import methods as m
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused

LONGEST_LINE: Final = 500  # code points of a title, and of anything else that is one line


class Place(TypedDict):
    """Where a page that was asked for is."""

    vault_id: r.VaultId
    vault: str
    page_id: r.PageId
    path: str
    hash: str


class Noting:
    """Writes notes into vaults. RequestRefused, WriteRefused, LockBusy."""

    def __init__(
        self, vaults: Vaults, logs: EventLogs, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._vaults = vaults
        self._logs = logs
        self._now = now

    def methods(self) -> Mapping[str, Callable[[Any], object]]:
        """The methods of the protocol that are answered here."""
        return {"observe": self.observe, "retro": self.retro, "page/ensure": self.ensure}

    def observe(self, params: m.ObserveParams) -> r.Observed:
        """Save what was seen as a page of its own; the same again on one day is the page that is there."""
        title, moment = _line("title", params.title), self._now()
        if not params.content.strip():
            raise RequestRefused("invalid_params", "an observation needs content")
        context = _line("source_context", params.source_context or "", may_be_empty=True)
        tags = noted.tags_of(params.tags)
        stem = f"obs-{noted.day_of(moment)}-{slug(title, noted.OBSERVED_LONGEST)}"

        def make(name: str) -> bytes:
            return noted.observation(name, title, params.content, params.relevance, tags, context, moment)

        with curating(one_indexer(self._vaults, params.vault, params.cwd), self._logs) as desk:
            name, page, created = create_numbered(desk.writer, noted.FOLDERS["source"], stem, make)
            event = {"slug": name, "title": title, "relevance": params.relevance, "kind": "observe"}
            diagnostics = desk.tell(event) if created else ()
        return r.Observed(
            **_place(desk.vault, page),
            created=created,
            slug=name,
            title=title,
            relevance=params.relevance,
            tags=tuple(tags),
            diagnostics=diagnostics,
        )

    def retro(self, params: m.RetroParams) -> r.Insight:
        """Save what was learned. An insight that is there is changed for one who has read it and gives its hash."""
        if not is_slug(params.slug):
            hint = f"invalid_insight_slug: give it as {slug(params.slug)}"
            raise RequestRefused("invalid_params", "the slug must be words in lower case, joined by hyphens", hint=hint)
        if not params.body.strip():
            raise RequestRefused("invalid_params", "an insight needs a body")
        title, category = _line("title", params.title), _line("category", params.category or "", may_be_empty=True)
        data = noted.insight(params.slug, title, params.body, category, self._now())
        with curating(one_indexer(self._vaults, params.vault, params.cwd), self._logs) as desk:
            created, changed = True, False
            try:
                page = desk.writer.create(f"{noted.FOLDERS['source']}/{params.slug}", data)
            except PageExists as taken:
                created = False
                page, changed = self._changed(desk.writer, taken.path, title, params)
            event = {
                "slug": params.slug,
                "title": title,
                "category": category or noted.UNCATEGORIZED,
                "kind": "retro",
            }
            diagnostics = desk.tell(event) if created or changed else ()
        return r.Insight(
            **_place(desk.vault, page),
            created=created,
            changed=changed,
            slug=params.slug,
            title=title,
            category=category or noted.UNCATEGORIZED,
            diagnostics=diagnostics,
        )

    def _changed(self, writer: PageWriter, path: str, title: str, params: m.RetroParams) -> tuple[PageFile, bool]:
        """The insight at the path made to say what is new, if that is anything; all else on the page stays."""
        present = writer.read(path)
        if present is None or present.document is None or present.document.metadata.get("status") != noted.INSIGHT:
            raise RequestRefused("invalid_params", "the page of this name is no insight", hint="give another slug")
        category = one_line(params.category or "")
        fields = {"title": title, **({"category": category} if category else {})}
        body = noted.insight_body(title, params.body)
        if _amended(present.data, fields, body) == present.data:
            return present, False
        if params.hash is None:
            hint = f"to change it, read it and give its hash: {present.hash}"
            raise RequestRefused("hash_conflict", "another insight of this name is there", hint=hint)
        fields["updated"] = noted.day_of(self._now())
        return writer.edit(path, params.hash, lambda before: _amended(before, fields, body)), True

    def ensure(self, params: m.PageEnsureParams) -> r.EnsuredPage:
        """Make the page of this type and title unless it is there."""
        title = _line("title", params.title)
        data = noted.ensured(params.type, title, params.content or "", self._now())
        with curating(one_indexer(self._vaults, params.vault, params.cwd), self._logs) as desk:
            created, diagnostics = True, tuple[r.Diagnostic, ...]()
            try:
                page = desk.writer.create(f"{noted.FOLDERS[params.type]}/{slug(title)}", data)
            except PageExists as taken:
                created = False
                present = desk.writer.read(taken.path)
                if present is None:
                    raise RequestRefused("outside_vault", "what has the page's name is no file of its own") from None
                page = present
            else:
                event = {"page_type": params.type, "title": title, "path": page.path, "kind": "ensure_page"}
                diagnostics = desk.tell(event)
        return r.EnsuredPage(**_place(desk.vault, page), created=created, diagnostics=diagnostics)


def _amended(data: bytes, fields: Mapping[str, str], body: str) -> bytes:
    try:
        return amended(data, fields, body)
    except NotAmendable as problem:
        raise RequestRefused("invalid_params", str(problem), hint="change the page by hand") from None


def _line(name: str, text: str, *, may_be_empty: bool = False) -> str:
    """The text on one line. RequestRefused for none, and for one that is no line any more."""
    found = one_line(text)
    if not found and not may_be_empty:
        raise RequestRefused("invalid_params", f"{name} must not be empty")
    if len(found) > LONGEST_LINE:
        raise RequestRefused("invalid_params", f"{name} has {LONGEST_LINE} characters at most")
    return found


def _place(vault: Vault, page: PageFile) -> Place:
    return {
        "vault_id": r.VaultId(vault.vault_id),
        "vault": vault.name,
        "page_id": r.PageId(printable(vault.page_id(page.path))),
        "path": printable(str(vault.pages_root / page.path)),
        "hash": page.hash,
    }
