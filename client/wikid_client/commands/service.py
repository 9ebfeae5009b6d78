"""`wikid service install | uninstall | status | print`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from wikid_client.caller import DEFAULT_TIMEOUT
from wikid_client.commands.calling import show
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.launch import DAEMON, daemon_command
from wikid_client.services import carrying
from wikid_client.services.plans import KINDS, Command, Kind, Plan, Setting, native, plan
from wikid_client.services.reports import ServiceRefused, ServiceReport
from wikid_client.services.telling import lines
from wikid_client.services.units import may_be_run
from wikid_client.stopping import shut_down
from wikid_client.transport import try_connect
from wikid_protocol.endpoint import EndpointRefused, check_folder, socket_path
from wikid_protocol.errors import EXIT_FINDING, EXIT_OK, WikidError


def configure_service(parser: CommandParser) -> None:
    parser.epilog = (
        "Have systemd, launchd or the Task Scheduler of your own login start the daemon and keep it alive. Your own "
        "rights are enough for all of it. Without a service the first command starts the daemon."
    )
    install = parser.sub_command("install", "write the service's files and hand them to your service manager", _install)
    uninstall = parser.sub_command("uninstall", "end the service and remove the files that wikid wrote", _uninstall)
    for each in (install, uninstall):
        each.add_argument(
            "--force", action="store_true", help="also files that were changed by hand or are not wikid's"
        )
        each.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    status = parser.sub_command(
        "status", "whether the service is installed, enabled, active and of this wikid", _status
    )
    status.epilog = "Exit code 0 where it is all of that, else 1 with what to do next."
    shown = parser.sub_command("print", "print the service's files", _print)
    shown.add_argument("--kind", choices=KINDS, help="for which service manager (default: the one of this system)")


def _install(options: argparse.Namespace, console: Console) -> int:
    daemon_command(DAEMON)  # says so where there is none that a service could run
    path = _path(options)

    def make_way() -> str:
        stopped = shut_down(path, options.timeout or DEFAULT_TIMEOUT)
        return "The daemon that was running has stopped; the service's takes its place." if stopped.was_running else ""

    found = _plan(options)
    if found.kind == "launchd" and not options.dry_run:
        _make_folder(path.parent)
    report = carrying.install(found, force=options.force, dry_run=options.dry_run, make_way=make_way)
    return _told(options, console, report)


def _uninstall(options: argparse.Namespace, console: Console) -> int:
    return _told(options, console, carrying.uninstall(_plan(options), force=options.force, dry_run=options.dry_run))


def _status(options: argparse.Namespace, console: Console) -> int:
    report = carrying.status(_plan(options))
    # where the manager holds the socket, looking would start the daemon
    alone = "A daemon runs that no service manager started; wikid service install puts the service in its place."
    notes = (alone,) if report.active is False and _answers(_path(options)) else ()
    return _told(options, console, carrying.with_notes(report, notes))


def _print(options: argparse.Namespace, console: Console) -> int:
    found = _plan(options, options.kind)
    if options.json:
        files = [{"path": str(each.path), "text": each.text} for each in found.files]
        console.json({"kind": found.kind, "files": files})
        return EXIT_OK
    for number, each in enumerate(found.files):
        console.note(f"{each.path}:")
        console.text(("\n" if number else "") + each.text)
        console.flush()
    return EXIT_OK


def _told(options: argparse.Namespace, console: Console, report: ServiceReport) -> int:
    show(options, console, report, lambda: lines(report, console.width))
    return EXIT_OK if report.ok else EXIT_FINDING


def _plan(options: argparse.Namespace, kind: Kind | None = None) -> Plan:
    kind = kind or native()
    if kind is None:
        raise ServiceRefused(
            f"wikid knows no service manager of {sys.platform}",
            hint="have yours run: wikid serve (see wikid service print)",
        )
    words = _words()
    if kind == "systemd" and not may_be_run(words[0]):
        raise ServiceRefused(
            f"systemd runs no program with a quote or a backslash in its path: {words[0]}",
            hint="install wikid in a folder without any",
        )
    return plan(kind, Setting(words, sys.executable, _path(options), os.environ, _user(kind)))


def _words() -> Command:
    """How the `wikid` in use is run: the program beside its Python, which no change of PATH can replace."""
    program = Path(sys.executable).with_name("wikid.exe" if os.name == "nt" else "wikid")
    if program.is_file():
        return (str(program),)
    return (sys.executable, "-P", "-m", "wikid_client.cli")


def _user(kind: Kind) -> str:
    if kind == "windows":
        domain, name = os.environ.get("USERDOMAIN", ""), os.environ.get("USERNAME", "")
        return f"{domain}\\{name}" if domain else name
    return str(os.getuid()) if hasattr(os, "getuid") else ""


def _make_folder(folder: Path) -> None:
    """The socket's own, which launchd does not make."""
    try:
        check_folder(folder)
    except (EndpointRefused, OSError) as problem:
        raise ServiceRefused(str(problem)) from problem


def _answers(path: Path) -> bool:
    try:
        connection = try_connect(path, 0)
    except WikidError:
        return True
    if connection is None:
        return False
    connection.close()
    return True


def _path(options: argparse.Namespace) -> Path:
    return socket_path({"WIKID_SOCKET": options.socket}) if options.socket else socket_path()
