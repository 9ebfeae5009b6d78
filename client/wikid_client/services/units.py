"""The two systemd user units: a socket that is there from login, and the daemon that the first call starts. Pure.

What a user's own manager can do without privileges is asked for and nothing else: a mount namespace would hide drives
that are plugged in later, and memory that is written and then executed is how Java compiles.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

SOCKET_UNIT: Final = "wikid.socket"
SERVICE_UNIT: Final = "wikid.service"

_SOCKET: Final = """\
[Unit]
Description=wikid, one memory over your Markdown vaults: socket

[Socket]
ListenStream={listen}
SocketMode=0600
DirectoryMode=0700
Backlog=128
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
"""

_SERVICE: Final = """\
[Unit]
Description=wikid, one memory over your Markdown vaults
Requires=wikid.socket
After=wikid.socket
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
{environment}Restart=on-failure
RestartSec=2
WatchdogSec=60
TimeoutStartSec=60
TimeoutStopSec=20
KillMode=mixed
OOMPolicy=continue
Slice=background.slice
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native

[Install]
WantedBy=default.target
"""


def socket_unit(listen: str) -> str:
    """`listen` is a path in systemd's own writing."""
    return _SOCKET.format(listen=listen)


def service_unit(command: str, environment: Sequence[str] = ()) -> str:
    """`command` and the assignments of `environment` are in systemd's own writing."""
    return _SERVICE.format(command=command, environment="".join(f"Environment={each}\n" for each in environment))


def written_path(path: str) -> str:
    """A path as a unit has it."""
    return path.replace("%", "%%")


def written_command(words: Sequence[str]) -> str:
    """A command line as ExecStart= has it."""
    return " ".join(_quoted(each.replace("$", "$$")) for each in words)


def may_be_run(program: str) -> bool:
    """Whether systemd takes it as the program of ExecStart=: some characters it refuses however they are written."""
    return program.isprintable() and not any(each in program for each in "'\"\\")


def written_environment(environment: Mapping[str, str]) -> list[str]:
    """Assignments as Environment= has them."""
    return [_quoted(f"{name}={value}") for name, value in sorted(environment.items())]


def command_of(unit: str) -> list[str]:
    """The command line of a service unit, by the rules of `written_command`; empty where there is none."""
    for line in unit.splitlines():
        if line.startswith("ExecStart="):
            try:
                words = shlex.split(line.removeprefix("ExecStart="))
            except ValueError:
                return []
            return [each.replace("$$", "$").replace("%%", "%") for each in words]
    return []


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if escaped != word or not word or any(each in word for each in " ';\t") else word
