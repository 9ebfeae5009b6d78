"""`wikid doctor`: what the client sees by itself and what the daemon says, together; and `--fix`."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from wikid_client.caller import DEFAULT_TIMEOUT
from wikid_client.client import Client
from wikid_client.commands import checks
from wikid_client.commands.calling import connect, show
from wikid_client.commands.fixes import Repairer
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout.doctor import report
from wikid_protocol.doctor import DoctorFinding, DoctorReport, endpoint_findings
from wikid_protocol.endpoint import folders, socket_path
from wikid_protocol.errors import EXIT_FINDING, EXIT_OK, DaemonFailed, DaemonNotRunning, RequestRefused, WikidError

_ORDER: Final = ("error", "warning", "info")
_OWN: Final = ("endpoint", "installation", "versions", "service")
_ALL: Final = (None, "all", "active", "personal", "project")
_WITHOUT_DAEMON: Final = ("settings", "registry", "models", "disk", "log")


def configure_doctor(parser: CommandParser) -> None:
    parser.add_argument(
        "--fix",
        action="store_true",
        help="put right what is safe: the socket and its folder, a daemon of an older version, a missing model, "
        "a damaged index; never a note",
    )
    parser.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace, console: Console) -> int:
    """Exit code 1 where an error or a warning is left."""
    path = socket_path({"WIKID_SOCKET": options.socket}) if options.socket else socket_path()
    found = _looked(options, path)
    if options.fix and any(each.fix for each in found.findings):
        repairer = Repairer(path, not options.no_start, console, options.timeout or DEFAULT_TIMEOUT)
        fixed = tuple(repairer.repaired(found.findings))
        found = replace(_looked(options, path), fixed=fixed)
    show(options, console, found, lambda: report(found, console.width))
    return EXIT_FINDING if any(each.severity != "info" for each in found.findings) else EXIT_OK


def _looked(options: argparse.Namespace, path: Path) -> DoctorReport:
    """The client's own findings, and the daemon's."""
    own = [*checks.endpoint(path), *checks.installation(), *checks.service(os.environ)]
    told, checked = _asked(options, path)
    if checked != _WITHOUT_DAEMON:
        own = [each for each in own if each.kind != "socket_stale"]  # asking has started one in its place
    meant = [
        each for each in (*own, *told) if each.vault is None or options.vault in (*_ALL, each.vault, each.vault_id)
    ]
    unique = {(each.kind, each.vault, each.message): each for each in meant}
    findings = sorted(unique.values(), key=lambda each: _ORDER.index(each.severity))
    return DoctorReport(findings=tuple(findings), checked=tuple(dict.fromkeys((*_OWN, *checked))))


def _asked(options: argparse.Namespace, path: Path) -> tuple[list[DoctorFinding], tuple[str, ...]]:
    """What the daemon says, started where it may be; what is on disk where none answers."""
    try:
        with connect(options) as client:
            try:
                report = client.doctor(timeout=options.timeout)
            except (RequestRefused, DaemonFailed) as error:  # an older daemon, or one that is stuck
                return [*_not_asked(client, error), *checks.on_disk(folders(), os.environ)], _WITHOUT_DAEMON
            # asked last: a daemon that was too old has been replaced by now
            return [*checks.version(client.ping().version), *report.findings], report.checked
    except DaemonNotRunning as error:
        silent = _not_running(error, path, may_start=not options.no_start)
        return [*silent, *checks.on_disk(folders(), os.environ)], _WITHOUT_DAEMON


def _not_asked(client: Client, error: WikidError) -> Iterator[DoctorFinding]:
    message = f"the daemon could not be asked: {error.message}"
    yield DoctorFinding(
        severity="error", kind="daemon_not_asked", message=message, remedy=error.hint or "wikid restart"
    )
    with contextlib.suppress(WikidError):
        yield from checks.version(client.ping().version)


def _not_running(error: DaemonNotRunning, path: Path, *, may_start: bool) -> list[DoctorFinding]:
    if any(each.severity == "error" for each in endpoint_findings(path)):
        return []  # that is why, and is told
    if not may_start:
        message = "no daemon runs; the next command starts one"
        return [DoctorFinding(severity="info", kind="daemon_not_running", message=message, remedy=error.hint)]
    message = f"no daemon can be started: {error.message}"
    return [DoctorFinding(severity="error", kind="daemon_not_started", message=message, remedy=error.hint)]
