"""The launchd agent: a daemon from login on, behind a socket that launchd keeps open while it restarts. Pure."""

from __future__ import annotations

import plistlib
from collections.abc import Mapping, Sequence
from typing import Any, Final
from xml.parsers.expat import ExpatError

LABEL: Final = "dev.wikid.daemon"
SOCKET_NAME: Final = "Listener"  # by which the daemon asks for it


def agent(command: Sequence[str], *, socket: str | None = None, environment: Mapping[str, str] | None = None) -> str:
    """The property list. launchd expands neither ~ nor variables, so every path is a whole one.

    `socket` may vanish with the system's temporary folder at a restart. launchd cannot make it then, starts the daemon
    all the same, and the daemon makes its own.
    """
    job: dict[str, Any] = {
        "Label": LABEL,
        "ProgramArguments": list(command),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "Umask": 0o077,
    }
    if socket is not None:
        job["Sockets"] = {SOCKET_NAME: {"SockType": "stream", "SockPathName": socket, "SockPathMode": 0o600}}
    if environment:
        job["EnvironmentVariables"] = dict(environment)
    return plistlib.dumps(job, sort_keys=False).decode()


def command_of(text: str) -> list[str]:
    """The command line of a property list; empty where there is none."""
    try:
        job = plistlib.loads(text.encode())
    except (plistlib.InvalidFileException, ExpatError, ValueError):
        return []
    words = job.get("ProgramArguments") if isinstance(job, dict) else None
    return [each for each in words if isinstance(each, str)] if isinstance(words, list) else []
