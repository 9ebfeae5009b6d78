"""What was found and done about the service: records that `--json` prints as they are. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wikid_client.services.plans import Kind
from wikid_protocol.errors import EXIT_FINDING, WikidError

FileState = Literal["absent", "current", "outdated", "edited", "foreign"]
Action = Literal["install", "uninstall", "status"]


class ServiceRefused(WikidError):
    """A service file is not wikid's to change, or there is no service manager that wikid knows."""

    exit_code = EXIT_FINDING


@dataclass(frozen=True, slots=True)
class FileReport:
    """`state` is how the file was found; `done` what became of it, or would with a dry run."""

    path: str
    state: FileState
    done: Literal["", "written", "removed", "kept"] = ""


@dataclass(frozen=True, slots=True)
class CommandReport:
    """A command to the service manager. Without an exit code it was not run."""

    command: str
    exit_code: int | None = None
    output: str = ""


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """`enabled` and `active` are None where no service manager could be asked. `command` is what the installed service
    runs, or would; `command_found` says whether that program is there. `ok` sums it up."""

    action: Action
    kind: Kind
    ok: bool
    files: tuple[FileReport, ...]
    command: str
    command_found: bool
    commands: tuple[CommandReport, ...] = ()
    enabled: bool | None = None
    active: bool | None = None
    dry_run: bool = False
    notes: tuple[str, ...] = ()
    hint: str = ""
