"""Has a daemon start every thread that it may ever have, so that none that comes later is taken for one left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from torture.talk import Talk, Wire
from torture.values import dumped
from torture.verdicts import check_message, check_stream

CALLS: Final = 16
OCCUPYING: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("recall", {"query": "tok07zebra", "vault": "notes"}),
    ("status", {}),
    ("index/sync", {"vault": "notes"}),
)
"""Calls for each of the daemon's groups of threads, about a vault with this name."""


def occupy(endpoint: Path, bound: float) -> None:
    """Make so many calls of each kind at once that no thread stays unstarted; each is answered within the bound."""
    talk = Talk(endpoint, "lines", bound)
    for method, params in OCCUPYING:
        talk.send(dumped([{"jsonrpc": "2.0", "id": each, "method": method, "params": params} for each in range(CALLS)]))
        check_message(talk.wire.until(b"\n"))
    talk.send(dumped({"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": {}}))
    check_message(talk.wire.until(b"\n"))
    talk.close()
    scrapes = [Wire(endpoint, bound) for _ in range(CALLS)]
    for wire in scrapes:
        wire.send(b"GET /metrics HTTP/1.1\r\nHost: wikid\r\n\r\n")
        wire.finish()
    for wire in scrapes:
        check_stream(wire.everything())
        wire.close()
