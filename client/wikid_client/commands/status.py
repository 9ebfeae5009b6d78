"""`wikid status`."""

from __future__ import annotations

import argparse
import time
from typing import Final

from wikid_client.client import Client
from wikid_client.commands.calling import connect, show
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout.status import status

_WATCH_SECONDS: Final = 2.0


def configure_status(parser: CommandParser) -> None:
    parser.add_argument("--watch", action="store_true", help="again every two seconds, until interrupted")
    parser.set_defaults(run=_status)


def _status(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        while True:
            code = _once(client, options, console)
            if not options.watch:
                return code
            console.flush()
            time.sleep(_WATCH_SECONDS)


def _once(client: Client, options: argparse.Namespace, console: Console) -> int:
    report = client.status(vault=options.vault)
    if options.watch and not options.json:
        console.clear()
    return show(options, console, report, lambda: status(report, console.width))
