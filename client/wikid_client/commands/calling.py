"""What the commands share: the client they call with, where and who they call for, and how a result is shown."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from wikid_client.caller import DEFAULT_TIMEOUT, may_ask_again
from wikid_client.client import Client
from wikid_client.console import Console
from wikid_client.layout.spans import Line
from wikid_client.upgrading import UpgradingClient
from wikid_protocol.endpoint import socket_path
from wikid_protocol.errors import EXIT_OK, DaemonFailed, DaemonNotRunning, RequestRefused, WikidError


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
    """The folder to recall for: absolute, the current one unless another is given; None where that one is gone or
    no message can name it. RequestRefused for one that is given from a current folder that is gone."""
    try:
        found = os.getcwd() if given is None else os.path.abspath(os.path.expanduser(given))
    except FileNotFoundError as error:
        if given is None:
            return None
        raise RequestRefused("not_a_folder", "the current folder is gone", hint="cd to one that is there") from error
    return None if given is None and not _is_text(found) else found


def _is_text(path: str) -> bool:
    """Whether a message can hold it: a folder's name need not be in UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def session(given: str | None) -> str | None:
    """Which session pages are shown to: the one given, `$WIKID_SESSION`, or one for each terminal."""
    if given or os.environ.get("WIKID_SESSION"):
        return given or os.environ["WIKID_SESSION"]
    if sys.platform == "win32":
        tab = os.environ.get("WT_SESSION")  # Windows Terminal gives each tab one, other consoles have none
        return f"terminal:{tab}" if tab else None
    else:  # noqa: RET505 - for a type checker of either platform
        # of the terminal whatever is redirected, and in a container that does not know its terminal's name
        return f"terminal:{os.getsid(0)}"


def silence_of(error: WikidError) -> str:
    """Why nothing is heard of a daemon that somebody watches and that may come back; any other error is raised."""
    is_away = isinstance(error, DaemonNotRunning | DaemonFailed)
    if not is_away and not (isinstance(error, RequestRefused) and may_ask_again(error)):
        raise error
    return error.message
