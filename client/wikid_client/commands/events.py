"""`wikid events`. `--follow` asks the daemon once a second, until the daemon tells of news by itself."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from functools import partial
from typing import Final

from wikid_client.client import Client
from wikid_client.commands.calling import connect, folder, show
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout import events as layout
from wikid_protocol.records import EventList, EventRecord

PAGE: Final = 1_000
_FOLLOW_SECONDS: Final = 1.0
_ACKNOWLEDGED: Final = "events_acknowledged"


def configure_events(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--cwd", metavar="DIR", help="those of the vault that this folder belongs to (default: the current one)")
    add("--since", metavar="D", help="only those of this day or later: 2026-01-31, today or yesterday")
    add("--kind", metavar="K", action="append", default=[], help="only events of this kind; may be repeated")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--follow", action="store_true", help="go on with those to come, until interrupted")
    what.add_argument(
        "--acknowledge", action="store_true", help="take note of the lines that cannot be read, so that feedback counts"
    )
    parser.set_defaults(run=_events)


def _events(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        if options.acknowledge:
            added = client.event_append(_ACKNOWLEDGED, vault=options.vault, cwd=folder(options.cwd))
            return show(options, console, added, lambda: layout.acknowledged(added))
        found = _all_behind(client, options, None)
        code = show(options, console, found, partial(layout.events, found, console.width))
        while options.follow:
            console.flush()
            time.sleep(_FOLLOW_SECONDS)
            found = _all_behind(client, options, found.resume)
            if found.events:
                show(options, console, found, partial(layout.news, found, console.width))
    return code


def _all_behind(client: Client, options: argparse.Namespace, cursor: str | None) -> EventList:
    """Every event behind the cursor, however many answers that takes."""
    events: tuple[EventRecord, ...] = ()
    found: EventList | None = None
    while found is None or found.next_cursor is not None:
        found = client.event_list(
            options.since,
            kinds=options.kind,
            limit=PAGE,
            cursor=cursor,
            vault=options.vault,
            cwd=folder(options.cwd),
        )
        events, cursor = (*events, *found.events), found.next_cursor
    return replace(found, events=events)
