"""The records of `doctor`, which are also names of `wikid_protocol.records`, and the look at the endpoint, which the
client takes by itself where no daemon can start."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wikid_protocol.endpoint import closing

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """One thing that was found: a stable `kind`, words for a person, and what to do about it. An `error` keeps
    something from working, a `warning` makes it worse or soon will, an `info` is only good to know. `vault` is the name
    of the vault it is about; `fix` says that `wikid doctor --fix` does what the remedy says."""

    severity: Severity
    kind: str
    message: str
    remedy: str = ""
    fix: bool = False
    vault_id: str | None = None
    vault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFix:
    """What was done about the findings of one `kind`; where it is not `done`, `message` says why."""

    kind: str
    done: bool
    message: str
    vault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """All findings, the worst first, and the names of what was looked at. `fixed` is what the command did before it
    looked: the daemon itself repairs nothing here."""

    findings: tuple[DoctorFinding, ...] = ()
    checked: tuple[str, ...] = ()
    fixed: tuple[DoctorFix, ...] = ()


def endpoint_findings(endpoint: Path) -> Iterator[DoctorFinding]:
    """Who else could reach the socket, and what keeps a daemon from binding it. Only looks; never raises."""
    folder = endpoint.parent
    kept = _status(folder)
    if kept is None:
        return  # made when the daemon starts
    elsewhere = "move it away, or set WIKID_SOCKET to another place"
    if not stat.S_ISDIR(kept.st_mode):
        yield _error("endpoint_folder_not_a_folder", f"{folder} is not a folder of its own", elsewhere)
    elif hasattr(os, "getuid") and kept.st_uid != os.getuid():
        own = "set WIKID_SOCKET to a folder of your own"
        yield _error("endpoint_folder_foreign", f"{folder} belongs to another user", own)
    elif os.name == "posix" and kept.st_mode & 0o077:
        remedy, safe = closing(folder, kept.st_mode)
        yield _error("endpoint_folder_open", f"{folder} is open to other users", remedy.removeprefix("run: "), fix=safe)
    bound = _status(endpoint)
    if bound is None:
        return
    if not stat.S_ISSOCK(bound.st_mode):
        yield _error("endpoint_in_the_way", f"{endpoint} is in the way: it is not a socket", elsewhere)
    elif hasattr(os, "getuid") and bound.st_uid != os.getuid():
        yield _error("socket_foreign", f"{endpoint} belongs to another user", elsewhere)
    elif os.name == "posix" and bound.st_mode & 0o077:
        message = f"{endpoint} could be opened by other users"
        yield DoctorFinding(
            severity="warning", kind="socket_open", message=message, remedy=f"chmod 600 {endpoint}", fix=True
        )


def _error(kind: str, message: str, remedy: str, *, fix: bool = False) -> DoctorFinding:
    return DoctorFinding(severity="error", kind=kind, message=message, remedy=remedy, fix=fix)


def _status(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None
