"""A report on the service for a person, and what it asks of one. Pure."""

from __future__ import annotations

import shlex
from typing import Final

from wikid_client.layout.notes import hanging
from wikid_client.layout.spans import Line, Span, Style, row
from wikid_client.services.plans import Command, Kind, Plan
from wikid_client.services.reports import CommandReport, FileReport, ServiceReport
from wikid_client.text import line

_MANAGERS: Final[dict[Kind, str]] = {
    "systemd": "systemd's user manager",
    "launchd": "launchd",
    "windows": "the Task Scheduler",
}
_STATES: Final[dict[str, tuple[str, Style]]] = {
    "absent": ("not there", "dim"),
    "current": ("current", "good"),
    "outdated": ("of another wikid", "warn"),
    "edited": ("changed by hand", "warn"),
    "foreign": ("not written by wikid", "warn"),
}


def remedy(report: ServiceReport, plan: Plan) -> str:
    """What to do next, or nothing where all is as it was asked for."""
    manager = _MANAGERS[report.kind]
    states = {each.state for each in report.files}
    if report.action == "uninstall":
        if refused := _refused(report, plan):
            return refused
        if report.enabled is None and report.commands:
            told = _in_a_shell((*plan.stop, *plan.forget))
            return f"{manager} does not answer here; in a login session of your own run: {told}"
        kept = [each.path for each in report.files if each.done == "kept"]
        return f"{kept[0]} is not as wikid wrote it and stays; remove it with --force" if kept else ""
    if report.action == "status":
        if states == {"absent"}:
            return "install it with: wikid service install"
        if "absent" in states or not report.command_found or "outdated" in states:
            return "write it anew with: wikid service install"
    if report.enabled is None or report.active is None:
        told = _in_a_shell(plan.start)
        return (
            f"{manager} does not answer here, as in a container or another user's shell. In a login session of your own"
            f" run: {told}. Until then the first wikid command starts the daemon, as ever"
        )
    failed = [each for each in report.commands if each.exit_code]
    if report.action == "install" and failed and not (report.enabled and report.active):
        return f"{manager} refused {failed[-1].command!r}: {failed[-1].output or failed[-1].exit_code}"
    if not (report.enabled and report.active):
        return f"have {manager} take it up with: wikid service install"
    return ""


def _refused(report: ServiceReport, plan: Plan) -> str:
    """What an uninstall could not have done. To end what has ended already may fail."""
    holds = report.enabled or report.active
    later = set(map(shlex.join, plan.forget))
    failed = [each for each in report.commands if each.exit_code and (holds or each.command in later)]
    if not failed:
        return f"{_MANAGERS[report.kind]} still has it; try again in a moment" if holds and report.commands else ""
    return f"{_MANAGERS[report.kind]} refused {failed[0].command!r}: {failed[0].output or failed[0].exit_code}"


def lines(report: ServiceReport, width: int) -> list[Line]:
    """Files, commands and state."""
    found: list[Line] = [row(Span(_headline(report), "title"))]
    found += [_file(each, report.dry_run) for each in report.files]
    if report.action != "uninstall":
        style: Style = "" if report.command_found else "bad"
        missing = "" if report.command_found else "  is not there"
        found.append(row(Span("runs ", "label"), Span(line(report.command), style), Span(missing, "bad"), indent=2))
    for each in report.commands:
        found += _command(each, report.dry_run, width)
    for note in report.notes:
        found += hanging("", line(note), width, 2)
    if report.hint:
        found += hanging("→ ", line(report.hint), width, 2, "warn")
    return found


def _headline(report: ServiceReport) -> str:
    manager = _MANAGERS[report.kind]
    if report.action == "uninstall":
        if all(each.state == "absent" for each in report.files):
            return "wikid is no service here."
        if report.commands and (report.enabled or report.active):
            return f"{manager} still starts wikid."
        if any(each.done == "kept" for each in report.files):
            return "Not all of it is wikid's own to remove."
        if report.dry_run:
            return "This would end the service."
        if report.enabled is None:
            return f"The files are gone, but {manager} was not told."
        return f"{manager} no longer starts wikid."
    if report.dry_run:
        return f"This would make wikid a service of {manager}."
    if report.enabled and report.active:
        return f"{manager} starts wikid."
    if all(each.state == "absent" and not each.done for each in report.files):
        return "wikid is no service here."
    return f"wikid is written down as a service of {manager}, which does not hold it yet."


def _file(file: FileReport, dry_run: bool) -> Line:
    state, style = _STATES[file.state]
    if file.done:
        state = f"would be {file.done}" if dry_run and file.done != "kept" else file.done
        style = "warn" if file.done == "kept" else "good"
    return row(Span(line(file.path), "", file.path), "  ", Span(state, style), indent=2)


def _command(told: CommandReport, dry_run: bool, width: int) -> list[Line]:
    if told.exit_code is None:
        return [row(Span("would run " if dry_run else "not run ", "label"), Span(line(told.command)), indent=2)]
    style: Style = "good" if told.exit_code == 0 else "warn"
    shown = row(Span("ran ", "label"), Span(line(told.command)), Span(f"  exit {told.exit_code}", style), indent=2)
    return [shown, *(hanging("", line(told.output), width, 4, "dim") if told.exit_code else [])]


def _in_a_shell(commands: tuple[Command, ...]) -> str:
    return " && ".join(map(shlex.join, commands))
