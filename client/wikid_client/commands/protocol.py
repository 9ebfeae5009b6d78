"""`wikid protocol`: the wire in words, or for programs. Asks no daemon."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

import orjson

from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_protocol.errors import EXIT_OK


def configure_protocol(parser: CommandParser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="a page for people (this is what you get without a flag)")
    form.add_argument("--openrpc", action="store_true", help="an OpenRPC document, for making clients")
    parser.set_defaults(run=_protocol)


def _protocol(options: argparse.Namespace, console: Console) -> int:
    # loaded here because the page and the document are made by different modules, and few ask for either
    describe: Any = import_module("wikid_protocol.describe")
    if options.openrpc:
        openrpc: Any = import_module("wikid_protocol.openrpc")
        console.text(orjson.dumps(openrpc.document(), option=orjson.OPT_INDENT_2).decode() + "\n")
    elif options.json:
        console.json(describe.table())
    else:
        console.text(describe.markdown())
    return EXIT_OK
