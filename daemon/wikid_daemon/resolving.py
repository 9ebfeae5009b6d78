"""`conflict/list` and `conflict/resolve`: the claims of a vault that dispute each other, and a person's decisions
(seed A, Contradictions and User Resolution).
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from wikid_daemon.addressing import all_of, one_indexer
from wikid_daemon.calls import listed_at_most, place_of
from wikid_daemon.core import deciding, noted, resolutions
from wikid_daemon.core.conflicts import STATES, Conflict, conflicts
from wikid_daemon.core.events import timestamp_of
from wikid_daemon.core.feedback import Showing, event_of
from wikid_daemon.core.names import printable
from wikid_daemon.core.page import KnowledgeDocument, Resolution
from wikid_daemon.core.resolutions import RESOLVES
from wikid_daemon.core.survey import Survey
from wikid_daemon.curating import Curating, curating
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.indexer import Indexer
from wikid_daemon.surveying import survey
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vault.writing import PageExists, PageFile, PageWriter
from wikid_daemon.vaults import Vaults
from wikid_protocol import methods as m
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused

MAX_LIMIT: Final = 200
LONGEST_SCOPE: Final = 500
_UNKNOWN: Final = Showing("", "", "", (), 0)  # the recall in which the person saw the two claims


@dataclass(frozen=True, slots=True)
class Recorded:
    """A record, and the page that holds it."""

    record: Resolution
    page: PageFile


class Resolving:
    """Lists conflicts and records decisions. RequestRefused, WriteRefused, LockBusy."""

    def __init__(
        self, vaults: Vaults, logs: EventLogs, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._vaults = vaults
        self._logs = logs
        self._now = now

    def methods(self) -> Mapping[str, Callable[[Any], object]]:
        """The methods of the protocol that are answered here."""
        return {"conflict/list": self.list, "conflict/resolve": self.resolve}

    # -- listing -------------------------------------------------------------------------------------------------------

    def list(self, params: m.ConflictListParams) -> r.ConflictList:
        """The conflicts of the vault as its pages are on disk now; of all vaults, where that is asked for."""
        start, limit = place_of(params.cursor), listed_at_most(params.limit, MAX_LIMIT)
        found = [each for indexer in self._meant(params) for each in _listed(indexer)]
        found.sort(key=lambda each: STATES.index(each.state))
        wanted = [each for each in found if not params.states or each.state in params.states]
        end = start + limit
        return r.ConflictList(
            conflicts=tuple(wanted[start:end]),
            counts=dict(Counter(each.state for each in found)),
            next_cursor=str(end) if end < len(wanted) else None,
        )

    def _meant(self, params: m.ConflictListParams) -> Iterator[Indexer]:
        if params.vault == "all":
            yield from all_of(self._vaults, "all", None)
        else:
            yield one_indexer(self._vaults, params.vault, params.cwd)

    # -- resolving -----------------------------------------------------------------------------------------------------

    def resolve(self, params: m.ConflictResolveParams) -> r.ConflictResolved:
        """Record the decision as a page, and tell the log, before anybody else of wikid's may write.

        The same decision again is the page that is there.
        """
        if len(params.scope or "") > LONGEST_SCOPE:
            raise RequestRefused("invalid_params", f"a scope has {LONGEST_SCOPE} characters at most")
        indexer, selected, other = self._claims_meant(params)
        vault, moment = indexer.vault, self._now()
        try:
            record = deciding.decision(
                vault.vault_id,
                selected,
                other,
                params.relation,
                params.scope,
                params.replaces,
                timestamp_of(moment),
            )
            with curating(indexer, self._logs) as desk:
                claims = self._claim(desk, selected), self._claim(desk, other)
                known = _records(indexer, desk.writer, resolutions.pair_of(record))
                present = deciding.standing(record, (each.record for each in known.values()))
                if present is not None:
                    return _resolved(vault, known[present.id], created=False)
                data = deciding.page_of(record, *claims, params.rationale or "", noted.day_of(moment))
                page = _committed(desk.writer, record, data)
                diagnostics = desk.tell(event_of(vault.vault_id, selected, _UNKNOWN, "conflict_selected"))
        except deciding.DecisionRefused as problem:
            kind = "invalid_params" if problem.invalid else "resolution_refused"
            raise RequestRefused(kind, str(problem), hint=problem.hint) from None
        return _resolved(vault, Recorded(record, page), created=True, diagnostics=diagnostics)

    def _claims_meant(self, params: m.ConflictResolveParams) -> tuple[Indexer, str, str]:
        """The one vault of both claims, and their page ids."""
        (one, selected), (two, other) = _split(params.selected_page_id), _split(params.other_page_id)
        named = [name for name in dict.fromkeys((params.vault, one, two)) if name is not None]
        found = [one_indexer(self._vaults, name, params.cwd) for name in named or (None,)]
        if any(each.vault.root != found[0].vault.root for each in found):
            hint = "decide within each vault"
            raise RequestRefused("invalid_params", "the two claims are of different vaults", hint=hint)
        return found[0], selected, other

    def _claim(self, desk: Curating, page_id: str) -> deciding.Claim:
        page = desk.writer.find(page_id)
        if page is not None and page.document is not None:
            return deciding.Claim(page_id, page.document.title)
        if page is not None:
            raise RequestRefused("page_not_found", "a claim's page cannot be read", hint="look at: wikid lint")
        elsewhere = sorted(
            each.vault.name
            for each in self._vaults.all()
            if each.store is not None and each.store.catalog.page_by_id(page_id) is not None
        )
        hint = f"a page of this id is in {', '.join(elsewhere)}; both claims must be of one vault" if elsewhere else ""
        message = f"a claim's page is not in {desk.vault.name}"
        raise RequestRefused("page_not_found", message, hint=hint or "find it with: wikid search WORDS")


def _committed(writer: PageWriter, record: Resolution, data: bytes) -> PageFile:
    """The page of the record, proved to say it and put in place."""
    page_id = deciding.page_id_of(record)
    try:
        page = writer.create(page_id, data, lambda document: deciding.is_recorded(document, record))
    except PageExists as taken:
        message = "the page that would record the decision is there and says something else"
        raise RequestRefused("resolution_refused", message, hint=f"look at {printable(taken.path)}") from None
    return page


def _records(indexer: Indexer, writer: PageWriter, pair: resolutions.Pair) -> dict[str, Recorded]:
    """The records between two claims as they are on disk now, by id: those in their own folder, even if no index has
    seen them yet, and those that somebody has put elsewhere."""
    paths = dict.fromkeys(writer.paths(deciding.FOLDER, deciding.NAME_BEGINS))
    if indexer.store is not None:
        catalog = indexer.store.catalog
        sources = [each.source for each in catalog.relations_to(sorted(pair)) if each.relation == RESOLVES]
        paths |= dict.fromkeys(page.path for page in catalog.pages(sorted(set(sources))).values())
    found: dict[str, Recorded] = {}
    for path in paths:
        page = writer.read(path)
        record = None if page is None or page.document is None else page.document.resolution
        if page is not None and record is not None and resolutions.pair_of(record) == pair:
            found.setdefault(record.id, Recorded(record, page))
    return found


def _split(text: str) -> tuple[str | None, str]:
    """The vault, if one is named, and the page id. A colon behind a slash belongs to the id."""
    vault, colon, page_id = text.partition(":")
    named = bool(colon and vault) and not {"/", "\\"} & set(vault)
    return (vault, unicodedata.normalize("NFC", page_id)) if named else (None, unicodedata.normalize("NFC", text))


# -- as records --------------------------------------------------------------------------------------------------------


def _listed(indexer: Indexer) -> Iterator[r.Conflict]:
    vault = indexer.vault
    if vault.blocked is not None and not vault.blocked.serve:
        raise RequestRefused("vault_blocked", vault.blocked.message, hint="repair its config.json")
    found = survey(indexer)
    by_id = {document.page_id: document for document in found.documents}
    for each in conflicts(found.documents, found.markers):
        yield _conflict(vault, each, found, by_id)


def _conflict(vault: Vault, found: Conflict, surveyed: Survey, by_id: Mapping[str, KnowledgeDocument]) -> r.Conflict:
    alone = len(found.claims) == 1
    return r.Conflict(
        vault_id=r.VaultId(vault.vault_id),
        vault=vault.name,
        state=found.state,
        claims=tuple(_claim(vault, claim, by_id.get(claim)) for claim in found.claims),
        reasons=found.reasons,
        resolutions=tuple(_resolution(vault, each.record, each.page.path) for each in found.decided),
        stale=tuple(r.PageId(printable(each)) for each in found.stale),
        line=surveyed.markers.get(found.claims[0]) if alone else None,
    )


def _claim(vault: Vault, page_id: str, document: KnowledgeDocument | None) -> r.Claim:
    path = f"{page_id}.md" if document is None else document.path
    place = printable(str(vault.pages_root / path))
    if document is None:
        return r.Claim(page_id=r.PageId(printable(page_id)), path=place, missing=True)
    return r.Claim(
        page_id=r.PageId(printable(page_id)),
        path=place,
        title=document.title,
        type=document.type,
        status=document.status,
        updated=document.updated,
    )


def _resolution(vault: Vault, record: Resolution, path: str) -> r.ConflictResolution:
    return r.ConflictResolution(
        id=record.id,
        vault_id=r.VaultId(vault.vault_id),
        vault=vault.name,
        page_id=r.PageId(printable(vault.page_id(path))),
        path=printable(str(vault.pages_root / path)),
        selected_page_id=r.PageId(printable(record.selected)),
        other_page_id=r.PageId(printable(record.other)),
        relation=record.relation,
        scope=record.scope,
        decided_by=record.decided_by,
        decided_at=record.decided_at,
        replaces=record.replaces,
    )


def _resolved(
    vault: Vault, recorded: Recorded, *, created: bool, diagnostics: tuple[r.Diagnostic, ...] = ()
) -> r.ConflictResolved:
    return r.ConflictResolved(
        resolution=_resolution(vault, recorded.record, recorded.page.path),
        created=created,
        hash=recorded.page.hash,
        diagnostics=diagnostics,
    )
