"""What the commands share: the client they call with, where and who they call for, and how a result is shown."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from wikid_client.caller import DEFAULT_TIMEOUT
from wikid_client.client import Client
from wikid_client.console import Console
from wikid_client.layout.spans import Line
from wikid_client.upgrading import UpgradingClient
from wikid_protocol.endpoint import socket_path
from wikid_protocol.errors import EXIT_OK


def connect(options: argparse.Namespace) -> Client:
    """A client for the flags given everywhere."""
    path = socket_path({"WIKID_SOCKET": options.socket}) if options.socket else socket_path()
    return UpgradingClient(path, start=not options.no_start, timeout=options.timeout or DEFAULT_TIMEOUT)


def show(options: argparse.Namespace, console: Console, record: object, lines: Callable[[], list[Line]]) -> int:
    """The record as the wire has it, or its lines."""
    if options.json:
        console.json(record)
    else:
        console.show(lines())
    return EXIT_OK


def folder(given: str | None = None) -> str | None:
    """The folder to recall for: absolute, the current one unless another is given; None where that one is gone."""
    if given is not None:
        return os.path.abspath(os.path.expanduser(given))
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def session(given: str | None) -> str | None:
    """Which session pages are shown to: the one given, `$WIKID_SESSION`, or one for each terminal."""
    if given or os.environ.get("WIKID_SESSION"):
        return given or os.environ["WIKID_SESSION"]
    if sys.platform == "win32":
        tab = os.environ.get("WT_SESSION")  # Windows Terminal gives each tab one, other consoles have none
        return f"terminal:{tab}" if tab else None
    else:  # noqa: RET505 - for a type checker of either platform
        terminal = os.ttyname(sys.stdin.fileno()) if sys.stdin is not None and sys.stdin.isatty() else "none"
        return f"terminal:{terminal}:{os.getsid(0)}"
