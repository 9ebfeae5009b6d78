"""Events that nest deeper than a message may are listed without their details, as those that are too long are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from wikid_client.caller import message_of
from wikid_daemon.core.events import START
from wikid_daemon.event_calls import EventCalls
from wikid_daemon.vault.event_log import Lines
from wikid_protocol import messages
from wikid_protocol import methods as m
from wikid_protocol import records as r
from wikid_protocol.limits import LIMITS


def event(deep: int) -> bytes:
    """A line whose details nest so deep."""
    inner = "[" * (deep - 1) + "]" * (deep - 1)
    return b'{"timestamp":"2026-01-01T00:00:00Z","kind":"note","a":%b}\n' % inner.encode()


def listed(*lines: bytes) -> r.EventList:
    vault = SimpleNamespace(vault_id="v", name="notes", blocked=None)
    applied = [SimpleNamespace(indexer=SimpleNamespace(vault=vault))]
    vaults = SimpleNamespace(looked_through=lambda *_, **__: (applied, []))
    log = SimpleNamespace(read_behind=lambda _mark: Lines(b"".join(lines), START))
    calls = EventCalls(cast(Any, vaults), cast(Any, SimpleNamespace(of=lambda _vault: log)))
    return calls.list(m.EventListParams())


@pytest.mark.parametrize("deep", [2, LIMITS.depth - 4, LIMITS.depth - 3, 300, 499])
def test_an_event_is_listed_whole_only_where_a_client_can_read_it(deep: int) -> None:
    found = listed(event(2), event(deep), event(2))
    assert [(each.line, each.kind) for each in found.events] == [(1, "note"), (2, "note"), (3, "note")]
    assert [each.cut for each in found.events] == [False, deep > LIMITS.depth - 4, False]
    assert bool(found.events[1].details) is not found.events[1].cut
    message_of(messages.result(1, found))
