"""Carry a plan out: look at the files, write or remove them, and tell the service manager."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from wikid_client.services import marking
from wikid_client.services.plans import Command, Plan, ServiceFile, command_in
from wikid_client.services.reports import (
    Action,
    CommandReport,
    FileReport,
    FileState,
    ServiceRefused,
    ServiceReport,
)
from wikid_client.services.telling import remedy

_FORCE_HINT: Final = "keep it elsewhere if you need it, then: wikid service install --force"
_COMMAND_SECONDS: Final = 60
_STOP_SECONDS: Final = 30.0
_REFUSED_SECONDS: Final = 5.0  # launchd may refuse to end what is ending
_POLL_SECONDS: Final = 0.1

Run = Callable[[Command], CommandReport]


def run(command: Command) -> CommandReport:
    """Run one command of the service manager and keep what it said."""
    shown = shlex.join(command)
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return CommandReport(shown, 124, "did not end in time")
    except OSError as error:
        return CommandReport(shown, 127, error.strerror or "")
    return CommandReport(shown, done.returncode, done.stdout.decode(errors="replace").strip())


def install(
    plan: Plan, *, force: bool = False, dry_run: bool = False, make_way: Callable[[], str] = str, run: Run = run
) -> ServiceReport:
    """Write the files that are not there or no longer right, and have the manager hold the socket from now on.

    `make_way` stops a daemon that nobody manages and says so: the service takes its place. ServiceRefused for a file
    that is not wikid's, or was changed by hand, unless `force`.
    """
    found = [(each, _state(each)) for each in plan.files]
    _refuse_others([] if force else found)
    wanted = [each for each, state in found if state != "current"]
    files = tuple(FileReport(str(each.path), state, "" if state == "current" else "written") for each, state in found)
    if dry_run:
        return _report(plan, "install", files, commands=tuple(map(_not_run, plan.start)), dry_run=True)
    reached = _reached(plan, run)
    done: list[CommandReport] = []
    notes: list[str] = []
    if reached and wanted and any(state != "absent" for _, state in found):
        done += _stopped(plan, run)
    for each in wanted:
        _write(each)
    if reached and (wanted or not (_yes(plan.enabled, run) and _yes(plan.active, run))):
        if not _yes(plan.active, run):
            notes.append(make_way())
        done += _in_order(plan.start, run)
    if not reached:
        done += map(_not_run, plan.start)
    return _report(plan, "install", files, run=run if reached else None, commands=tuple(done), notes=notes)


def uninstall(plan: Plan, *, force: bool = False, dry_run: bool = False, run: Run = run) -> ServiceReport:
    """Have the manager forget the service, and remove the files that wikid wrote. Those that were changed by hand and
    those of somebody else stay, unless `force`; where there are no others, nothing is done at all. All stay where the
    manager holds on to the service."""
    found = [(each, _state(each)) for each in plan.files]
    going = [each for each, state in found if state in ("current", "outdated") or (force and state != "absent")]
    commands = (*plan.stop, *plan.forget) if going else ()
    if dry_run:
        files = _left(found, going)
        return _report(plan, "uninstall", files, commands=tuple(map(_not_run, commands)), dry_run=True)
    reached = _reached(plan, run)
    done = _stopped(plan, run) if reached and going else []
    if any(each.exit_code for each in done) and (_yes(plan.enabled, run) or _yes(plan.active, run)):
        going = []
    for each in going:
        _remove(each)
    if reached and going:
        done += _in_order(plan.forget, run)
    done += map(_not_run, commands[len(done) :])
    files = _left(found, going)
    return _report(plan, "uninstall", files, run=run if reached else None, commands=tuple(done))


def _left(found: Sequence[tuple[ServiceFile, FileState]], going: Sequence[ServiceFile]) -> tuple[FileReport, ...]:
    return tuple(
        FileReport(str(each.path), state, "removed" if each in going else "" if state == "absent" else "kept")
        for each, state in found
    )


def status(plan: Plan, *, run: Run = run) -> ServiceReport:
    """How the service is installed, and whether it works; nothing is changed."""
    files = tuple(FileReport(str(each.path), _state(each)) for each in plan.files)
    return _report(plan, "status", files, run=run if _reached(plan, run) else None)


def with_notes(report: ServiceReport, notes: tuple[str, ...]) -> ServiceReport:
    """The report with something to say about what it does not look at itself."""
    return replace(report, notes=(*report.notes, *notes))


def _report(
    plan: Plan,
    action: Action,
    files: tuple[FileReport, ...],
    *,
    run: Run | None = None,
    commands: tuple[CommandReport, ...] = (),
    notes: Sequence[str] = (),
    dry_run: bool = False,
) -> ServiceReport:
    command = (_installed_command(plan) if action == "status" else None) or list(plan.command)
    enabled, active = (None, None) if run is None else (_yes(plan.enabled, run), _yes(plan.active, run))
    report = ServiceReport(
        action=action,
        kind=plan.kind,
        ok=True,
        files=files,
        command=shlex.join(command),
        command_found=shutil.which(command[0]) is not None,
        commands=commands,
        enabled=enabled,
        active=active,
        dry_run=dry_run,
        notes=tuple(filter(None, notes)),
    )
    hint = "" if dry_run else remedy(report, plan)
    return replace(report, ok=not hint, hint=hint)


def _installed_command(plan: Plan) -> list[str]:
    for each in plan.files:
        text = _read(each)
        if text is not None and (found := command_in(plan.kind, text)):
            return found
    return []


def _state(file: ServiceFile) -> FileState:
    text = _read(file)
    if text is None:
        return "absent"
    if text == file.text:
        return "current"
    return {"ours": "outdated", "edited": "edited", "foreign": "foreign"}[marking.origin(text)]  # type: ignore[return-value]


def _read(file: ServiceFile) -> str | None:
    """What is at the file's place; None for nothing. What cannot be read as text is somebody else's."""
    try:
        return file.path.read_bytes().decode(file.encoding).replace("\r\n", "\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeError):
        return ""


def _refuse_others(found: Sequence[tuple[ServiceFile, FileState]]) -> None:
    for file, state in found:
        if state == "edited":
            raise ServiceRefused(f"{file.path} was changed by hand", hint=_FORCE_HINT)
        if state == "foreign":
            raise ServiceRefused(f"{file.path} was not written by wikid service install", hint=_FORCE_HINT)


def _write(file: ServiceFile) -> None:
    """The whole file or nothing of it."""
    name = ""
    try:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".wikid-", dir=file.path.parent)
        with os.fdopen(handle, "wb") as new:
            new.write(file.text.encode(file.encoding))
            new.flush()
            os.fsync(new.fileno())
        os.chmod(name, 0o644)  # systemd complains of units that others cannot read
        os.replace(name, file.path)
    except OSError as error:
        if name:
            Path(name).unlink(missing_ok=True)
        raise _untouchable(file, error) from error


def _remove(file: ServiceFile) -> None:
    try:
        file.path.unlink(missing_ok=True)
    except OSError as error:
        raise _untouchable(file, error) from error


def _untouchable(file: ServiceFile, error: OSError) -> ServiceRefused:
    return ServiceRefused(f"cannot change {file.path}: {error.strerror}", hint=f"check who owns {file.path.parent}")


def _reached(plan: Plan, run: Run) -> bool:
    return shutil.which(plan.reached[0]) is not None and _yes(plan.reached, run)


def _yes(question: Command, run: Run) -> bool:
    return run(question).exit_code == 0


def _not_run(command: Command) -> CommandReport:
    return CommandReport(shlex.join(command))


def _in_order(commands: Sequence[Command], run: Run) -> list[CommandReport]:
    """Run them until one fails; the rest is listed as not run."""
    done: list[CommandReport] = []
    for each in commands:
        done.append(_not_run(each) if done and done[-1].exit_code != 0 else run(each))
    return done


def _stopped(plan: Plan, run: Run) -> list[CommandReport]:
    """Stop the service and wait until its manager says so, which may be some time after it was told."""
    done = [run(each) for each in plan.stop]
    refused = all(each.exit_code for each in done)
    give_up = time.monotonic() + (_REFUSED_SECONDS if refused else _STOP_SECONDS)
    while _yes(plan.active, run) and time.monotonic() < give_up:
        time.sleep(_POLL_SECONDS)
    return done
