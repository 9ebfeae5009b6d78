"""`wikid mcp`: the tools of the wiki for a host that speaks the Model Context Protocol."""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from wikid_client.caller import DEFAULT_TIMEOUT
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.transport import SocketTransport, Transport
from wikid_protocol.endpoint import socket_path
from wikid_protocol.errors import EXIT_OK, EXIT_USAGE

INSTALL: Final = "pip install 'wikid-memory[mcp]'"


def configure_mcp(parser: CommandParser) -> None:
    parser.set_defaults(run=_mcp)


def _mcp(options: argparse.Namespace, console: Console) -> int:
    # the SDK's types are a package of their own since version 2, which is the one this is written for
    if find_spec("mcp") is None or find_spec("mcp_types") is None:
        console.failed(
            "the MCP SDK, version 2 or newer, is not installed in this Python", f"install it with: {INSTALL}"
        )
        return EXIT_USAGE
    path = socket_path({"WIKID_SOCKET": options.socket}) if options.socket else socket_path()

    def connect() -> Transport:
        return SocketTransport(path, start=not options.no_start)

    # loaded here because importing the SDK takes a second, which the message above must not cost
    server: Any = import_module("wikid_client.mcp_server")
    server.serve(connect, vault=options.vault, timeout=options.timeout or DEFAULT_TIMEOUT)
    return EXIT_OK
