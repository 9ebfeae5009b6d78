"""What monitoring asks of the daemon: `/health` and `/metrics`, both out of the report that `status` gives."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Final, Literal

from wikid_daemon import log
from wikid_daemon.metrics import Meter
from wikid_daemon.models.resting import is_at_rest
from wikid_protocol.records import ModelRecord, StatusReport

UNWELL: Final = frozenset({"unavailable", "blocked", "failed"})
IN_USE: Final = ("ready", "failed", "loading", "resting")


@dataclass(frozen=True, slots=True)
class Openings:
    """How many there are at this moment."""

    calls: Callable[[], int]
    connections: Callable[[], int]
    subscriptions: Callable[[], int]


class Monitoring:
    """`report` is what `status` tells, `draining` whether the daemon takes no more calls. Lives in the event loop's
    thread."""

    def __init__(
        self,
        report: Callable[[], Awaitable[StatusReport]],
        meter: Meter,
        openings: Openings,
        draining: Callable[[], bool],
    ) -> None:
        self._report = report
        self._meter = meter
        self._openings = openings
        self._draining = draining

    async def health(self) -> dict[str, object]:
        """The members of `/health`: well or not at one look, and the numbers that say why."""
        report = await self._report()
        return {
            "status": "draining" if self._draining() else _condition(report),
            "version": report.daemon.version,
            "pid": report.daemon.pid,
            "uptime_s": report.daemon.uptime_s,
            "vaults": len(report.vaults),
            "stale": sum(each.stale for each in report.vaults),
            "pending": sum(each.pending for each in report.vaults),
            "models": {
                purpose: _state(each for each in report.models if each.purpose == purpose)
                for purpose in ("embedder", "reranker")
            },
        }

    async def metrics(self) -> tuple[bytes, str]:
        """The body of `/metrics` and its content type."""
        report = await self._report()
        meter, calls = copy.deepcopy(self._meter), self._openings
        open_now = calls.calls(), calls.connections(), calls.subscriptions()

        def text() -> tuple[bytes, str]:
            # at the first scrape: what it imports takes longer than all else that the daemon's start imports of its own
            exposition: Any = import_module("wikid_daemon.exposition")
            live = exposition.Live(*open_now, log.LOST.lines)
            found: tuple[bytes, str] = exposition.exposition(report, meter, live, datetime.now(UTC))
            return found

        return await asyncio.to_thread(text)


def _condition(report: StatusReport) -> Literal["ok", "degraded"]:
    """Degraded where a vault or a model is not what its owner may expect; not for indexing, which is daily work."""
    states = {*(each.state for each in report.vaults), *(each.state for each in report.models)}
    return "degraded" if states & UNWELL or report.diagnostics else "ok"


def _state(models: Iterable[ModelRecord]) -> str:
    """The state of the one that is in use, if one is."""
    states = ("resting" if is_at_rest(each) else each.state for each in models)
    return next((state for state in states if state in IN_USE), "absent")
