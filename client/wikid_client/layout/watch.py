"""The status as it changes: what is still to be done, how fast that goes, and how old the proofs are. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from wikid_client.layout.notes import span_of
from wikid_client.layout.spans import BLANK, Line, Span, row
from wikid_client.layout.status import status
from wikid_client.text import joined
from wikid_protocol.records import StatusReport, VaultStatus

_BAR: Final = 24


def watched(
    report: StatusReport, width: int, now: datetime, before: StatusReport | None = None, seconds: float = 0.0
) -> list[Line]:
    """The status at `now`, and under each vault with work left how that goes; `before` was so many seconds ago."""
    earlier = {each.vault.vault_id: each for each in (before.vaults if before else ())}

    def going(vault: VaultStatus) -> list[Line]:
        return _going(vault, earlier.get(vault.vault.vault_id), seconds, width)

    return status(report, width, now=now, more=going)


def waiting(reason: str, width: int, last: StatusReport | None, now: datetime) -> list[Line]:
    """What was last known, while no daemon answers."""
    head = [row(Span(f"! {reason}", "bad")), row(Span("→ waiting for it; Ctrl-C ends this", "dim"), indent=2)]
    return head if last is None else [*head, BLANK, *status(last, width, now=now)]


def _going(vault: VaultStatus, before: VaultStatus | None, seconds: float, width: int) -> list[Line]:
    lines: list[Line] = []
    if vault.pending:
        left = _pace(vault.pending, before.pending if before else None, seconds)
        lines.append(row(Span(joined((f"{vault.pending:,} pages to index", left)), "warn"), indent=2))
    if vault.embedding_pending:
        all_chunks = vault.embedded + vault.embedding_pending
        share = vault.embedded / all_chunks
        full = round(share * _BAR)
        left = _pace(vault.embedding_pending, before.embedding_pending if before else None, seconds)
        said = joined((f" embedding {vault.embedded:,} of {all_chunks:,}", left))
        bar = (Span("█" * full, "good"), Span("░" * (_BAR - full), "dim")) if width >= 2 * _BAR + 20 else ()
        lines.append(row(*bar, Span(said if bar else said.lstrip()), indent=2))
    return lines


def _pace(left: int, before: int | None, seconds: float) -> str:
    """How fast it goes, and how long it will still take at that."""
    if before is None or before <= left or seconds <= 0:
        return ""
    rate = (before - left) / seconds
    return f"{rate:,.0f}/s, about {span_of(left / rate)} left" if rate >= 1 else f"about {span_of(left / rate)} left"
