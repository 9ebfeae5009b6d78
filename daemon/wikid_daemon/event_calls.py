"""`event/append` and `event/list`: one more line in a vault's log, and the lines it has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

import orjson

from wikid_daemon.addressing import one_vault, writable
from wikid_daemon.calls import listed_at_most
from wikid_daemon.core.dates import normalised
from wikid_daemon.core.events import RESERVED, START, Event, Mark, scan_events
from wikid_daemon.core.page import Json
from wikid_daemon.core.period import Period, day_named
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.vault.event_log import Lines
from wikid_daemon.vaults import Vaults
from wikid_protocol import methods as m
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused
from wikid_protocol.limits import LIMITS

MAX_LIMIT: Final = 1_000
ANSWER_BYTES: Final = 800_000  # of kinds and details; times and line numbers come on top
CUT_BYTES: Final = ANSWER_BYTES // 2
CUT_KIND: Final = 200
DEEPEST: Final = LIMITS.depth - 4  # of details, which stand in an event in the list of a result in a message
_CURSOR: Final = re.compile(r"([0-9]{1,15})-([0-9]{1,15})-([0-9]{1,15})-([01])-([01])")


class EventCalls:
    """Answers for the logs of all vaults."""

    def __init__(self, vaults: Vaults, logs: EventLogs) -> None:
        self._vaults = vaults
        self._logs = logs

    def methods(self) -> Mapping[str, Callable[[Any], object]]:
        """The methods of the protocol that are answered here."""
        return {"event/append": self.append, "event/list": self.list}

    def append(self, params: m.EventAppendParams) -> r.EventAppended:
        """Append one event. RequestRefused `invalid_params`, `read_only`, `vault_blocked`, `lock_busy`."""
        details = params.details or {}
        reserved = [name for name in RESERVED if name in details]
        if reserved:
            message = f"the details of an event have no {' and no '.join(reserved)} of their own"
            raise RequestRefused("invalid_params", message, hint="event_reserved_field: wikid sets both")
        vault = writable(one_vault(self._vaults, params.vault, params.cwd))
        timestamp = self._logs.of(vault).append({**details, "kind": params.kind})
        return r.EventAppended(
            vault_id=r.VaultId(vault.vault_id), vault=vault.name, kind=params.kind, timestamp=timestamp
        )

    def list(self, params: m.EventListParams) -> r.EventList:
        """Events behind the cursor that are of the day and the kinds asked for. RequestRefused `invalid_params`."""
        wanted = _wanted(params, _day(params.since))
        mark = _mark(params.cursor)
        limit = listed_at_most(params.limit, MAX_LIMIT)
        vault = one_vault(self._vaults, params.vault, params.cwd)
        if vault.blocked is not None and not vault.blocked.serve:
            raise RequestRefused("vault_blocked", vault.blocked.message, hint="repair its config.json")
        lines = self._logs.of(vault).read_behind(mark)
        shown, end, is_more = _page(lines, wanted, limit)
        faults = () if lines.fault is None else lines.fault.findings
        return r.EventList(
            vault_id=r.VaultId(vault.vault_id),
            vault=vault.name,
            events=tuple(shown),
            next_cursor=_cursor(end) if is_more else None,
            resume=_cursor(end),
            findings=end.findings + len(faults),
            malformed=end.malformed or (lines.fault is not None and lines.fault.malformed_after_wikid),
        )


def _page(lines: Lines, wanted: Callable[[Event], bool], limit: int) -> tuple[Sequence[r.EventRecord], Mark, bool]:
    """As many as are asked for and fit into one answer, where that ends, and whether there are more."""
    shown: list[r.EventRecord] = []
    room, end = ANSWER_BYTES, lines.start
    for found, behind in scan_events(lines.data, lines.start):
        if isinstance(found, Event) and wanted(found):
            is_deep = _nests_deeper(found.details, DEEPEST)
            size = CUT_KIND if is_deep else len(orjson.dumps((found.kind, found.details)))
            is_cut = is_deep or size > CUT_BYTES
            room -= CUT_KIND if is_cut else size
            if len(shown) == limit or room < 0:
                return shown, end, True
            shown.append(_record(found, is_cut=is_cut))
        end = behind
    return shown, end, False


def _nests_deeper(value: Json, most: int) -> bool:
    """Whether arrays and objects stand in each other more than `most` deep."""
    level = [value]
    for _ in range(most + 1):
        level = [each for each in level if isinstance(each, dict | list)]
        if not level:
            return False
        level = [inner for each in level for inner in _members(each)]
    return True


def _members(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _record(event: Event, *, is_cut: bool) -> r.EventRecord:
    return r.EventRecord(
        line=event.line,
        timestamp=event.timestamp,
        kind=event.kind[:CUT_KIND] if is_cut else event.kind,
        details={} if is_cut else event.details,
        cut=is_cut,
    )


def _wanted(params: m.EventListParams, since: date | None) -> Callable[[Event], bool]:
    period = Period(since, None)

    def wanted(event: Event) -> bool:
        if params.kinds and event.kind not in params.kinds:
            return False
        return not period or period.holds(normalised(event.timestamp), datetime.astimezone)

    return wanted


def _day(text: str | None) -> date | None:
    if text is None:
        return None
    found = day_named(text, datetime.now().astimezone().date())
    if found is None:
        raise RequestRefused("invalid_params", "since is no day", hint="give it as 2026-01-31, today or yesterday")
    return found


def _cursor(mark: Mark) -> str:
    return f"{mark.offset}-{mark.line}-{mark.findings}-{mark.after_wikid:d}-{mark.malformed:d}"


def _mark(cursor: str | None) -> Mark:
    if cursor is None:
        return START
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise RequestRefused("invalid_params", "that cursor was not given out by this method")
    offset, line, findings, after_wikid, malformed = map(int, found.groups())
    return Mark(offset, line, findings, bool(after_wikid), bool(malformed))
