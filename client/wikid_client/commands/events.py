"""`wikid events`. `--follow` asks the daemon once a second."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Final

from wikid_client.caller import DEFAULT_TIMEOUT
from wikid_client.client import Client
from wikid_client.commands.calling import connect, folder, show, silence_of
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout import events as layout
from wikid_protocol.errors import WikidError
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
    what.add_argument(
        "--follow",
        action="store_true",
        help="go on with those to come, until Ctrl-C, which is exit code 130; with --json one event a line",
    )
    what.add_argument(
        "--acknowledge", action="store_true", help="take note of the lines that cannot be read, so that feedback counts"
    )
    parser.set_defaults(run=_events)
    parser.epilog = "For example: wikid events --since yesterday --kind recall_feedback"


def _events(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        if options.acknowledge:
            added = client.event_append(_ACKNOWLEDGED, vault=options.vault, cwd=folder(options.cwd))
            return show(options, console, added, lambda: layout.acknowledged(added))
        found = _all_behind(client, options, None)
    if options.follow:
        return _follow(options, console, found)
    return show(options, console, found, lambda: layout.events(found, console.width))


def _follow(options: argparse.Namespace, console: Console, found: EventList) -> int:
    """Until interrupted. Never starts a daemon again: who stops one that is followed means it."""
    timeout = options.timeout or DEFAULT_TIMEOUT
    with Client(endpoint=options.socket, start=False, timeout=timeout) as client:
        if not options.json:
            console.show(layout.events(found, console.width))
        while True:
            if options.json:
                for each in found.events:
                    console.json(each)
            console.flush()
            found = _news(client, options, console, found.resume)
            if found.events and not options.json:
                console.show(layout.news(found, console.width))


def _news(client: Client, options: argparse.Namespace, console: Console, cursor: str | None) -> EventList:
    """What has come behind the cursor, once a daemon answers."""
    told = False
    while True:
        time.sleep(_FOLLOW_SECONDS)
        try:
            return _all_behind(client, options, cursor)
        except WikidError as error:
            reason = silence_of(error)
        if not told:
            console.note(f"{reason}; waiting for it to come back, Ctrl-C ends this")
            told = True


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
