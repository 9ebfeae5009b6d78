"""What installing wikid as a service means on each platform: which files, and what their manager is told. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Final, Literal

from wikid_client.services import agent, task, units
from wikid_client.services.marking import marked
from wikid_protocol.endpoint import folders

Kind = Literal["systemd", "launchd", "windows"]
Command = tuple[str, ...]

KINDS: Final[tuple[Kind, ...]] = ("systemd", "launchd", "windows")
# What the daemon reads from its environment. A service manager does not read a shell's start-up files.
KEPT: Final = (
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "WIKID_MODEL_DIR",
    "WIKID_EMBED_MODEL",
    "WIKID_RERANK_MODEL",
    "LLM_WIKI_HOST",
    "OMP_PROFILE",
    "JAVA_HOME",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
)


@dataclass(frozen=True, slots=True)
class ServiceFile:
    """A file to write, mark included, and the encoding its reader expects."""

    path: Path
    text: str
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class Plan:
    """`files` to write, and what the manager is told: `start` once they are there, `stop` before they go, `forget` when
    they are gone. `reached`, `enabled` and `active` are questions that it answers with an exit code of 0. `command` is
    what the service runs."""

    kind: Kind
    command: Command
    files: tuple[ServiceFile, ...]
    reached: Command
    start: tuple[Command, ...]
    stop: tuple[Command, ...]
    forget: tuple[Command, ...]
    enabled: Command
    active: Command


@dataclass(frozen=True, slots=True)
class Setting:
    """Where wikid is to be a service: the words that run `wikid`, the Python that they use, the socket that is called,
    the environment, and who the user is (a number for launchd, `DOMAIN\\name` for Windows)."""

    words: Command
    python: str
    socket: Path
    environment: Mapping[str, str]
    user: str


def native(platform: str = sys.platform) -> Kind | None:
    """The kind of service manager of a platform; None where wikid knows none."""
    return {"linux": "systemd", "darwin": "launchd", "win32": "windows"}.get(platform)  # type: ignore[return-value]


def plan(kind: Kind, setting: Setting) -> Plan:
    """Everything about the service `kind`. Nothing is looked at but the environment that is given."""
    return {"systemd": _systemd, "launchd": _launchd, "windows": _windows}[kind](setting)


def command_in(kind: Kind, text: str) -> list[str]:
    """What a service file has its manager run; empty where it does not say."""
    return {"systemd": units.command_of, "launchd": agent.command_of, "windows": task.command_of}[kind](text)


def kept(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of a shell's environment that the daemon reads too."""
    found = {name: environment.get(name, "") for name in KEPT}
    return {name: value for name, value in found.items() if value and value.isprintable()}


def _systemd(setting: Setting) -> Plan:
    folder = folders(setting.environment, "linux").config.parent / "systemd" / "user"
    command = (*setting.words, "serve")
    socket = units.socket_unit(units.written_path(str(setting.socket)))
    service = units.service_unit(units.written_command(command), units.written_environment(kept(setting.environment)))
    systemctl = ("systemctl", "--user")
    return Plan(
        kind="systemd",
        command=command,
        files=(
            ServiceFile(folder / units.SOCKET_UNIT, marked(socket)),
            ServiceFile(folder / units.SERVICE_UNIT, marked(service)),
        ),
        reached=(*systemctl, "show-environment"),
        start=((*systemctl, "daemon-reload"), (*systemctl, "enable", "--now", units.SOCKET_UNIT)),
        stop=((*systemctl, "disable", "--now", units.SOCKET_UNIT, units.SERVICE_UNIT),),
        forget=((*systemctl, "daemon-reload"),),
        enabled=(*systemctl, "--quiet", "is-enabled", units.SOCKET_UNIT),
        active=(*systemctl, "--quiet", "is-active", units.SOCKET_UNIT),
    )


def _launchd(setting: Setting) -> Plan:
    path = _home(setting.environment) / "Library" / "LaunchAgents" / f"{agent.LABEL}.plist"
    command = (*setting.words, "serve")
    text = agent.agent(command, socket=str(setting.socket), environment=kept(setting.environment))
    domain = f"gui/{setting.user}"
    about = ("launchctl", "print", f"{domain}/{agent.LABEL}")
    return Plan(
        kind="launchd",
        command=command,
        files=(ServiceFile(path, marked(text)),),
        reached=("launchctl", "print", domain),
        # bootstrap fails for a job that was once disabled
        start=(("launchctl", "enable", f"{domain}/{agent.LABEL}"), ("launchctl", "bootstrap", domain, str(path))),
        stop=(("launchctl", "bootout", f"{domain}/{agent.LABEL}"),),
        forget=(),
        enabled=about,
        active=about,
    )


def _windows(setting: Setting) -> Plan:
    path = folders(setting.environment, "win32").config / "wikid-task.xml"
    command = _without_window(setting.python)
    about = ("schtasks", "/Query", "/TN", task.TASK)
    return Plan(
        kind="windows",
        command=command,
        files=(ServiceFile(path, marked(task.logon_task(command, setting.user)), "utf-16"),),
        reached=("schtasks", "/Query", "/FO", "LIST"),
        start=(
            ("schtasks", "/Create", "/TN", task.TASK, "/XML", str(path), "/F"),
            ("schtasks", "/Run", "/TN", task.TASK),
        ),
        stop=(("schtasks", "/Delete", "/TN", task.TASK, "/F"),),
        forget=(),
        enabled=about,
        active=about,
    )


def _without_window(python: str) -> Command:
    """The daemon's own module, for a console program such as `wikid` gets a window at every logon."""
    return (str(PureWindowsPath(python).with_name("pythonw.exe")), "-P", "-m", "wikid_daemon")


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or Path.home())
