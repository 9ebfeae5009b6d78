"""`vault/lint`: what is worth saying about a vault's pages, its generated files, its events and its index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from wikid_daemon.calls import CallContext
from wikid_daemon.core import feedback, projections
from wikid_daemon.core.lint import lint, search_remarks, severities
from wikid_daemon.core.names import printable
from wikid_daemon.core.remarks import Remark, in_order, remark
from wikid_daemon.core.survey import Survey
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.indexer import Indexer
from wikid_daemon.surveying import (
    FINDINGS_BYTES,
    blocked_remark,
    config,
    generated,
    hand_written,
    listed,
    meant,
    survey,
)
from wikid_daemon.vault.config_json import OKF
from wikid_daemon.vault.vault import Vault, VaultError
from wikid_daemon.vaults import Vaults
from wikid_protocol import methods as m
from wikid_protocol import records as r

CAUGHT_UP_SECONDS: Final = 10.0  # that the index may take to catch up with what was saved just now


class Linting:
    """Lints vaults. It reads them as they are on disk, and writes nothing."""

    def __init__(
        self, vaults: Vaults, logs: EventLogs, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._vaults = vaults
        self._logs = logs
        self._now = now

    def long_methods(self) -> Mapping[str, Callable[[Any, CallContext], object]]:
        """The methods of the protocol that are answered here, which may take minutes."""
        return {"vault/lint": self.lint}

    def lint(self, params: m.LintParams, context: CallContext) -> r.LintReports:
        """A report for each vault that is named, or for the active one. Cancelled."""
        found = meant(self._vaults, params.vault, params.cwd)
        room = FINDINGS_BYTES // len(found)
        return r.LintReports(vaults=tuple(self._report(each, room, context) for each in found))

    def _report(self, indexer: Indexer, room: int, context: CallContext) -> r.LintReport:
        vault = indexer.vault
        pages, remarks = self._remarks(indexer, context)
        counts = severities(remarks)
        return r.LintReport(
            vault_id=r.VaultId(vault.vault_id),
            name=vault.name,
            path=printable(str(vault.pages_root)),
            pages=pages,
            errors=counts["error"],
            warnings=counts["warning"],
            hints=counts["hint"],
            findings_by_code=dict(sorted(Counter(each.code for each in remarks).items())),
            findings=listed(remarks, room),
        )

    def _remarks(self, indexer: Indexer, context: CallContext) -> tuple[int, list[Remark]]:
        """How many pages there are, and what is to be said, in order."""
        vault = indexer.vault
        blocked = vault.blocked if vault.kind == "plain" else config(vault).blocked
        remarks = [] if blocked is None else [blocked_remark(blocked)]
        remarks += map(remark, vault.findings)
        if blocked is not None and not blocked.serve:
            return 0, in_order(remarks)
        caught_up = _catch_up(indexer, context)
        found = survey(indexer, context.alive)
        remarks += lint(found, strict=vault.strict, vault_id=vault.vault_id, now=self._now())
        remarks += _search(indexer, caught_up=caught_up)
        if vault.kind == "wiki":
            context.alive()
            stream = self._logs.of(vault).read()
            # a vault in which nothing has happened yet has no events
            remarks += map(remark, (each for each in stream.findings if each.code != "event_source_missing"))
            remarks += [feedback.disabled_remark()] if stream.malformed_after_wikid else []
            remarks += _edited(vault, found)
            remarks += hand_written(vault, found) if config(vault).knowledge_format == OKF else []
        return len(found.documents), in_order(remarks)


def _catch_up(indexer: Indexer, context: CallContext) -> bool:
    """Whether all that was saved before is searchable: a page saved a moment ago is no stale index."""
    try:
        indexer.sync(CAUGHT_UP_SECONDS, context.cancelled.is_set)
    except (TimeoutError, VaultError):
        return False
    return True


def _search(indexer: Indexer, *, caught_up: bool) -> list[Remark]:
    state = indexer.state
    failed = {printable(path): reason for path, reason in list(state.failed.items())}
    # what is noticed after that was saved after it, or is told late and once more
    return search_remarks(state.state, state.reason, 0 if caught_up else state.pending, failed)


def _edited(vault: Vault, found: Survey) -> list[Remark]:
    """The generated files of which a rebuild would write others. While pages are broken no rebuild would write any."""
    assert vault.meta is not None
    if found.errors:
        return []
    pages = projections.entries(found.documents, found.packets)
    rebuilt = {
        "registry.json": projections.registry(pages, ""),
        "backlinks.json": projections.backlinks(found.documents),
    }
    remarks = []
    for name, data in rebuilt.items():
        present = generated(vault.meta / name)
        if present is not None and not projections.says_the_same(present, data):
            message = "a rebuild would write another one: it was edited by hand, or is older than the pages"
            remarks.append(Remark("warning", "generated_file_edited", f"meta/{name}", message))
    return remarks
