"""`wikid config get | set | list`."""

from __future__ import annotations

import argparse

from wikid_client.commands.calling import connect, folder, show
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout import config as layout
from wikid_client.layout.notes import diagnostics
from wikid_client.layout.spans import plain
from wikid_protocol.errors import EXIT_FINDING
from wikid_protocol.records import Configuration


def configure_config(parser: CommandParser) -> None:
    parser.epilog = "For example: wikid config list, wikid config set retrievalMode hybrid"
    get = parser.sub_command("get", "the value of one setting", _get)
    get.add_argument("key", metavar="KEY")
    _add_folder(get)
    change = parser.sub_command("set", "set a setting in your own file, or remove it from there", _set)
    change.add_argument("key", metavar="KEY")
    what = change.add_mutually_exclusive_group(required=True)
    what.add_argument("value", metavar="VALUE", nargs="?")
    what.add_argument("--unset", action="store_true", help="remove the key, so that what lies below it applies")
    _add_folder(parser.sub_command("list", "every setting, its value, and where that comes from", _list))


def _add_folder(parser: CommandParser) -> None:
    parser.add_argument("--cwd", metavar="D", help="as it applies to this folder (default: the current one)")


def _get(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        found = client.config_get(options.key, cwd=folder(options.cwd))
    code = show(options, console, found, lambda: layout.value(found))
    if not options.json:
        _note(found, console)
    return code if all(each.valid for each in found.settings) else EXIT_FINDING


def _set(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        found = client.config_set(options.key, value=options.value)
    return show(options, console, found, lambda: layout.changed(found, console.width))


def _list(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        found = client.config_get(cwd=folder(options.cwd))
    return show(options, console, found, lambda: layout.settings(found, console.width))


def _note(found: Configuration, console: Console) -> None:
    """Beside the value, which a script may be reading."""
    for each in plain(diagnostics(found.diagnostics, console.width)).splitlines():
        console.note(each)
