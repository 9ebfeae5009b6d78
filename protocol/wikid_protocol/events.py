"""The records of a vault's event log. Part of `records`, and as those are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wikid_protocol.memories import VaultId


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """One event of a vault's log. `line` is its 1-based line there; `details` is everything but time and kind, and
    empty where that is too much for an answer (`cut`)."""

    line: int
    timestamp: str
    kind: str
    details: dict[str, Any] = field(default_factory=dict)
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EventList:
    """Events, and where the next ones start; `resume` is where those start that will be appended later. `findings`
    counts the lines that are no events, up to where this answer ends; with `malformed` there is one among them for
    which feedback is off until that is acknowledged. A last line that has no end is not looked at yet."""

    vault_id: VaultId
    vault: str
    events: tuple[EventRecord, ...] = ()
    next_cursor: str | None = None
    resume: str = ""
    findings: int = 0
    malformed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAppended:
    """The event is in the log, and would outlast a power cut."""

    vault_id: VaultId
    vault: str
    kind: str
    timestamp: str
