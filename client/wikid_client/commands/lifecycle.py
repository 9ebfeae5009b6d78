"""`wikid start | stop | restart | get-socket`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Final

from wikid_client.caller import DEFAULT_TIMEOUT
from wikid_client.client import Client
from wikid_client.commands.calling import show
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout.spans import Line, Span, row
from wikid_client.transport import SocketTransport, try_connect
from wikid_protocol.endpoint import socket_path
from wikid_protocol.errors import DaemonFailed, DaemonNotRunning
from wikid_protocol.memories import Pong

_POLL_SECONDS: Final = 0.02


def configure_start(parser: CommandParser) -> None:
    parser.set_defaults(run=_start)


def configure_stop(parser: CommandParser) -> None:
    parser.set_defaults(run=_stop)


def configure_restart(parser: CommandParser) -> None:
    parser.set_defaults(run=_restart)


def configure_get_socket(parser: CommandParser) -> None:
    parser.set_defaults(run=_get_socket)


def _start(options: argparse.Namespace, console: Console) -> int:
    path = _path(options)
    with _client(options, start=not options.no_start) as client:
        pong = client.ping()
    return show(options, console, pong, lambda: _running(pong, path))


def _stop(options: argparse.Namespace, console: Console) -> int:
    stopped = _shut_down(options)
    said = "wikid has stopped." if stopped else "wikid was not running."
    return show(options, console, {"done": True, "was_running": stopped}, lambda: [row(said)])


def _restart(options: argparse.Namespace, console: Console) -> int:
    _shut_down(options)
    return _start(options, console)


def _get_socket(options: argparse.Namespace, console: Console) -> int:
    path = str(_path(options))
    return show(options, console, {"socket": path}, lambda: [row(path)])


def _shut_down(options: argparse.Namespace) -> bool:
    """Ask the daemon to stop and wait until nothing listens; False where nothing did."""
    path = _path(options)
    deadline = time.monotonic() + (options.timeout or DEFAULT_TIMEOUT)
    with _client(options, start=False) as client:
        try:
            client.shutdown()
        except DaemonNotRunning:
            if try_connect(path, deadline) is not None or (path.exists() and not path.is_socket()):
                raise
            return False
    while (left := try_connect(path, deadline)) is not None:
        left.close()
        if time.monotonic() >= deadline:
            raise DaemonFailed("the daemon said it would stop but still listens", hint="see: wikid status")
        time.sleep(_POLL_SECONDS)
    return True


def _client(options: argparse.Namespace, *, start: bool) -> Client:
    transport = SocketTransport(_path(options), start=start)
    return Client(transport=transport, timeout=options.timeout or DEFAULT_TIMEOUT)


def _path(options: argparse.Namespace) -> Path:
    return socket_path({"WIKID_SOCKET": options.socket}) if options.socket else socket_path()


def _running(pong: Pong, path: Path) -> list[Line]:
    about = f"pid {pong.pid} · {path}"
    return [row(Span(f"wikid {pong.version}", "title"), " is running  ", Span(about, "dim"))]
