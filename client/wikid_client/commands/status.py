"""`wikid status`, once or again and again."""

from __future__ import annotations

import argparse
import os
import time
from datetime import UTC, datetime
from functools import partial
from typing import Final

from wikid_client.caller import DEFAULT_TIMEOUT
from wikid_client.client import Client
from wikid_client.commands.calling import connect, show, silence_of
from wikid_client.commands.parser import CommandParser
from wikid_client.commands.screen import Screen
from wikid_client.console import Console, columns
from wikid_client.layout.spans import BLANK, Line
from wikid_client.layout.status import status
from wikid_client.layout.watch import waiting, watched
from wikid_client.upgrading import difference
from wikid_protocol.errors import WikidError
from wikid_protocol.records import StatusReport

_WATCH_SECONDS: Final = 2.0


def configure_status(parser: CommandParser) -> None:
    parser.add_argument(
        "--watch",
        action="store_true",
        help="again every two seconds, in place on a terminal, until Ctrl-C, which is exit code 130",
    )
    parser.set_defaults(run=_status)


def _status(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        report = client.status(vault=options.vault)
    if told := difference(report.daemon.version):
        console.note(told)
    if options.watch:
        return _watch(options, console, report)
    return show(options, console, report, lambda: status(report, console.width, now=datetime.now(UTC)))


def _watch(options: argparse.Namespace, console: Console, report: StatusReport) -> int:
    """Until interrupted. Never starts a daemon again: who stops one that is watched means it."""
    draw = _on_screen if console.moves and not options.json else _on_lines
    timeout = options.timeout or DEFAULT_TIMEOUT
    with Client(endpoint=options.socket, start=False, timeout=timeout) as client:
        return draw(client, options, console, report)


def _on_lines(client: Client, options: argparse.Namespace, console: Console, report: StatusReport) -> int:
    """One block after the other, or one object a line; ends with the daemon."""
    while True:
        if not options.json:
            console.text(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S}\n")
        show(options, console, report, partial(_lines, report, console.width))
        console.flush()
        time.sleep(_WATCH_SECONDS)
        report = client.status(vault=options.vault)


def _lines(report: StatusReport, width: int) -> list[Line]:
    return [*watched(report, width, datetime.now(UTC)), BLANK]


def _on_screen(client: Client, options: argparse.Namespace, console: Console, report: StatusReport) -> int:
    """In place, and waits for a daemon that has gone."""
    with Screen(console) as screen:
        before, looked, silence = report, time.monotonic(), ""
        while True:
            width, now = columns(os.environ, console.out), datetime.now(UTC)
            if silence:
                screen.draw(waiting(silence, width, report, now))
            else:
                screen.draw(watched(report, width, now, before, time.monotonic() - looked))
                before, looked = report, time.monotonic()
            time.sleep(_WATCH_SECONDS)
            try:
                report, silence = client.status(vault=options.vault), ""
            except WikidError as error:
                silence = silence_of(error)
