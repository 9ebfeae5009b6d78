"""The client's methods that write into a vault, or tell what there is to decide in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wikid_client.caller import LONG_TIMEOUT, Caller, LaterRecords, within

if TYPE_CHECKING:
    from wikid_protocol import records as r
else:
    r = LaterRecords()


class Curation(Caller):
    """A part of `Client`. `vault` is a name or an id; without it the vault is the one that `cwd` belongs to."""

    def page_ensure(
        self,
        type: r.PageType,
        *,
        title: str,
        content: str | None = None,
        vault: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> r.EnsuredPage:
        """Make the page of this type and title unless it is there."""
        params = {"type": type, "title": title, "content": content, "vault": vault, "cwd": cwd}
        return self._write(r.EnsuredPage, "page/ensure", params, timeout)

    def observe(
        self,
        title: str,
        *,
        content: str,
        relevance: r.Relevance = "medium",
        tags: Sequence[str] = (),
        source_context: str | None = None,
        vault: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> r.Observed:
        """Note down what was seen, as a page of its own. The same again on one day is the page that is there."""
        params = {
            "title": title,
            "content": content,
            "relevance": relevance,
            "tags": tuple(tags),
            "source_context": source_context,
            "vault": vault,
            "cwd": cwd,
        }
        return self._write(r.Observed, "observe", params, timeout)

    def retro(
        self,
        slug: str,
        *,
        title: str,
        body: str,
        category: str | None = None,
        hash: str | None = None,
        vault: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> r.Insight:
        """Note down what was learned, as `sources/<slug>`. To change a page that is there, pass the `hash` it had when
        it was read: refused as `hash_conflict` where it is another page by now."""
        params = {
            "slug": slug,
            "title": title,
            "body": body,
            "category": category,
            "hash": hash,
            "vault": vault,
            "cwd": cwd,
        }
        return self._write(r.Insight, "retro", params, timeout)

    def conflict_list(
        self,
        states: Sequence[r.ConflictState] = (),
        *,
        limit: int = 100,
        cursor: str | None = None,
        vault: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> r.ConflictList:
        """Claims that dispute each other, open ones first, and what was decided. Pass `next_cursor` back for more."""
        params = {"states": tuple(states), "limit": limit, "cursor": cursor, "vault": vault, "cwd": cwd}
        return self._read(r.ConflictList, "conflict/list", params, within(timeout, LONG_TIMEOUT))

    def conflict_resolve(
        self,
        selected_page_id: str,
        *,
        other_page_id: str,
        relation: r.Choice,
        scope: str | None = None,
        rationale: str | None = None,
        replaces: str | None = None,
        vault: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> r.ConflictResolved:
        """Record what a person decided: what the selected page is to the other one. The same again is no new record; to
        change one's mind, `replaces` is the id of the record that stands."""
        params = {
            "selected_page_id": selected_page_id,
            "other_page_id": other_page_id,
            "relation": relation,
            "scope": scope,
            "rationale": rationale,
            "replaces": replaces,
            "vault": vault,
            "cwd": cwd,
        }
        return self._write(r.ConflictResolved, "conflict/resolve", params, timeout)
