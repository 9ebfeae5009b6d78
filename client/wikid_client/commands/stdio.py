"""`wikid stdio`: standard input and output as a connection to the daemon, for hosts without sockets."""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from wikid_client.bridge import Bridge
from wikid_client.caller import DEFAULT_TIMEOUT
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.transport import START_HINT, Connection, SocketTransport, try_connect
from wikid_protocol.endpoint import socket_path
from wikid_protocol.errors import EXIT_OK, EXIT_UNREACHABLE, DaemonNotRunning

if sys.platform == "win32":
    import msvcrt

_STDIN: Final = 0
_STDOUT: Final = 1


def configure_stdio(parser: CommandParser) -> None:
    parser.set_defaults(run=_stdio)


def _stdio(options: argparse.Namespace, console: Console) -> int:
    path = socket_path({"WIKID_SOCKET": options.socket}) if options.socket else socket_path()
    deadline = time.monotonic() + (options.timeout or DEFAULT_TIMEOUT)
    with closing(_connection(path, deadline, start=not options.no_start)) as connection:
        _keep_bytes()
        bridge = Bridge(connection, _STDIN, _STDOUT, lambda: os._exit(EXIT_OK))
        if bridge.run():
            return EXIT_OK
    console.note("the daemon closed the connection")
    return EXIT_UNREACHABLE


def _keep_bytes() -> None:
    """On Windows, line ends would be translated unless told otherwise."""
    if sys.platform == "win32":
        for each in (_STDIN, _STDOUT):
            msvcrt.setmode(each, os.O_BINARY)


def _connection(path: Path, deadline: float, *, start: bool) -> Connection:
    opened = SocketTransport(path, start=start)
    opened.connect(deadline)  # starts a daemon where none runs, and says what is wrong where it cannot
    opened.close()
    found = try_connect(path, deadline)
    if found is None:
        raise DaemonNotRunning(f"no wikid daemon answers at {path}", hint=START_HINT)
    return found
