"""`wikid start | stop | restart | get-socket`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from wikid_client.caller import DEFAULT_TIMEOUT
from wikid_client.client import Client
from wikid_client.commands.calling import show
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout.spans import Line, Span, row
from wikid_client.stopping import Stopped, shut_down
from wikid_client.transport import SocketTransport
from wikid_client.upgrading import difference, may_replace
from wikid_protocol import __version__
from wikid_protocol.endpoint import socket_path
from wikid_protocol.memories import Pong

_UPGRADES: Final = (
    "A daemon that runs already is left alone, unless it is older than this command and in the background: then it "
    "finishes the calls in flight and makes way for one of this version. So it does for any command that it is too old "
    "for. A newer daemon is never replaced, and one in the foreground of a terminal only by: wikid restart."
)


def configure_start(parser: CommandParser) -> None:
    parser.epilog = _UPGRADES
    parser.set_defaults(run=_start)


def configure_stop(parser: CommandParser) -> None:
    parser.set_defaults(run=_stop)


def configure_restart(parser: CommandParser) -> None:
    parser.set_defaults(run=_restart)


def configure_get_socket(parser: CommandParser) -> None:
    parser.set_defaults(run=_get_socket)


def _start(options: argparse.Namespace, console: Console) -> int:
    pong = _ping(options)
    if not options.no_start and may_replace(pong):
        if _shut_down(options, only_older=True).was_running:
            console.note(f"wikid {pong.version} was running and makes way for {__version__}.")
        pong = _ping(options)
    return _started(options, console, pong)


def _stop(options: argparse.Namespace, console: Console) -> int:
    stopped = _shut_down(options)
    said = "wikid has stopped." if stopped.was_running else "wikid was not running."
    if stopped.held:
        said += " The next command starts it again, through its service; end that with: wikid service uninstall"
    told = {"done": True, "was_running": stopped.was_running, "service": stopped.held}
    return show(options, console, told, lambda: [row(said)])


def _restart(options: argparse.Namespace, console: Console) -> int:
    _shut_down(options)
    return _started(options, console, _ping(options))


def _get_socket(options: argparse.Namespace, console: Console) -> int:
    path = str(_path(options))
    return show(options, console, {"socket": path}, lambda: [row(path)])


def _shut_down(options: argparse.Namespace, *, only_older: bool = False) -> Stopped:
    return shut_down(_path(options), options.timeout or DEFAULT_TIMEOUT, wanted=may_replace if only_older else None)


def _started(options: argparse.Namespace, console: Console, pong: Pong) -> int:
    if told := difference(pong.version):
        console.note(told)
    return show(options, console, pong, lambda: _running(pong, _path(options)))


def _ping(options: argparse.Namespace) -> Pong:
    with _client(options, start=not options.no_start) as client:
        return client.ping()


def _client(options: argparse.Namespace, *, start: bool) -> Client:
    transport = SocketTransport(_path(options), start=start)
    return Client(transport=transport, timeout=options.timeout or DEFAULT_TIMEOUT)


def _path(options: argparse.Namespace) -> Path:
    return socket_path({"WIKID_SOCKET": options.socket}) if options.socket else socket_path()


def _running(pong: Pong, path: Path) -> list[Line]:
    about = f"pid {pong.pid} · {path}"
    return [row(Span(f"wikid {pong.version}", "title"), " is running  ", Span(about, "dim"))]
