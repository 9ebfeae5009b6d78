"""`wikid vault add | remove | list | init | resolve`."""

from __future__ import annotations

import argparse

from wikid_client.commands.calling import connect, folder, show
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout.spans import Line, Span, row
from wikid_client.layout.status import resolution, vault_line, vault_list
from wikid_client.text import line
from wikid_protocol.records import VaultRecord


def configure_vault(parser: CommandParser) -> None:
    parser.epilog = 'For example: wikid vault add ~/notes, wikid vault init ~/work/wiki --topic "our backend"'
    add = parser.sub_command("add", "register a folder of notes and index it", _add)
    add.add_argument("path", metavar="PATH")
    add.add_argument("--name", metavar="N", help="what to call it (default: the folder's name)")
    remove = parser.sub_command("remove", "forget a vault; its files stay", _remove)
    remove.add_argument("name", metavar="V", help="its name or id")
    parser.sub_command("list", "the registered vaults", _list)
    init = parser.sub_command("init", "make a new vault in a folder and register it", _init)
    init.add_argument("path", metavar="PATH")
    init.add_argument("--topic", metavar="T", required=True, help="what the vault is about")
    init.add_argument("--mode", metavar="M", default="personal", help="personal or company")
    init.add_argument("--name", metavar="N", help="what to call it (default: the topic)")
    resolve = parser.sub_command("resolve", "which vaults apply to a folder, and why", _resolve)
    resolve.add_argument("--cwd", metavar="D", help="the folder (default: the current one)")


def _add(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        record = client.vault_add(folder(options.path) or "", name=options.name)
    return show(options, console, record, lambda: _registered(record))


def _init(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        record = client.vault_init(
            folder(options.path) or "", topic=options.topic, mode=options.mode, name=options.name
        )
    return show(options, console, record, lambda: _registered(record))


def _remove(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        record = client.vault_remove(options.name)
    said = row("Forgot ", Span(line(record.name), "title"), "; its files stay in ", Span(line(record.path), "dim"))
    return show(options, console, record, lambda: [said])


def _list(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        found = client.vault_list()
    return show(options, console, found, lambda: vault_list(found, console.width))


def _resolve(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        found = client.vault_resolve(folder(options.cwd) or "")
    return show(options, console, found, lambda: resolution(found, console.width))


def _registered(record: VaultRecord) -> list[Line]:
    return [
        vault_line(record),
        row(Span(line(record.path), "dim", record.path), indent=2),
        row(Span("→ it is being indexed; watch it with: wikid status", "dim"), indent=2),
    ]
