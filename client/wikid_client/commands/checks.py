"""What the client sees by itself: who listens, what is installed, and, where no daemon answers, what is on disk."""

from __future__ import annotations

import os
import plistlib
import shlex
import shutil
import stat
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import orjson

from wikid_client.launch import DAEMON, INSTALL_HINT
from wikid_client.services.plans import command_in
from wikid_client.transport import try_connect
from wikid_client.upgrading import is_older
from wikid_protocol import __version__
from wikid_protocol.doctor import DoctorFinding, Severity, endpoint_findings
from wikid_protocol.endpoint import Folders
from wikid_protocol.errors import WikidError

PROBE_SECONDS: Final = 2.0
LOW_BYTES: Final = 1_000_000_000
_LONGEST_FILE: Final = 4 << 20
_MODELS: Final = "models"


def endpoint(path: Path) -> Iterator[DoctorFinding]:
    """The socket and its folder, and whether anybody listens. Starts nothing."""
    found = list(endpoint_findings(path))
    yield from found
    if any(each.severity == "error" for each in found) or not path.is_socket():
        return
    try:
        connection = try_connect(path, time.monotonic() + PROBE_SECONDS)
    except WikidError as error:
        yield _finding("error", "endpoint_silent", error.message, error.hint)
        return
    if connection is not None:
        connection.close()
        return
    message = f"nobody listens on {path}: a daemon ended without taking it away"
    yield _finding("warning", "socket_stale", message, "the next start replaces it: wikid start", fix=True)


def installation() -> Iterator[DoctorFinding]:
    """Whether a daemon can be started from this Python at all."""
    if find_spec(DAEMON) is None:
        message = "the wikid daemon is not installed in this Python, so none can be started"
        yield _finding("warning", "daemon_not_installed", message, INSTALL_HINT)


def version(daemons: str) -> Iterator[DoctorFinding]:
    """Whether client and daemon come from one installation. Only an older daemon is replaced."""
    if daemons == __version__:
        return
    message = f"this command is wikid {__version__}, the daemon is {daemons}"
    if is_older(daemons):
        yield _finding("warning", "version_differs", message, "wikid restart", fix=True)
    else:
        yield _finding("warning", "version_differs", message, "bring this command to the daemon's version")


def on_disk(folders: Folders, env: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """What can be told without the daemon: settings, the list of vaults, models, room and the log."""
    yield from _settings(folders.config / "config.toml")
    yield from _registry(folders.config / "vaults.json")
    built, elsewhere = folders.cache / _MODELS, env.get("WIKID_EMBED_MODEL") or env.get("WIKID_MODEL_DIR")
    chosen = _chosen_model(folders.config / "config.toml")
    # one with a slash is a folder of the user's own, or in the cache of the hub
    if not elsewhere and "/" not in chosen and not any(built.glob("[!.]*/wikid-model.json")):
        message = "no embedding model has been built: notes are found by their words alone"
        yield _finding("warning", "model_absent", message, f"wikid models build {chosen}".rstrip(), fix=True)
    yield from _room(folders)
    yield from _writable(folders.state)


def service(env: Mapping[str, str], platform: str = sys.platform) -> Iterator[DoctorFinding]:
    """Whether the service that starts wikid by itself, where one is installed, can do so. Asks no service manager."""
    home = Path(env.get("HOME") or Path.home())
    if platform == "darwin":
        yield from _agent(home / "Library" / "LaunchAgents" / "dev.wikid.daemon.plist")
    elif platform == "linux":
        given = env.get("XDG_CONFIG_HOME", "")
        yield from _units((Path(given) if os.path.isabs(given) else home / ".config") / "systemd" / "user", home)


def _finding(severity: Severity, kind: str, message: str, remedy: str = "", *, fix: bool = False) -> DoctorFinding:
    return DoctorFinding(severity=severity, kind=kind, message=message, remedy=remedy, fix=fix)


def _chosen_model(path: Path) -> str:
    """The model that the settings ask for; empty where they leave that to wikid, or cannot be read."""
    try:
        chosen = tomllib.loads(_text(path)).get("embedModel")
    except (OSError, ValueError):
        return ""
    return chosen if isinstance(chosen, str) else ""


def _settings(path: Path) -> Iterator[DoctorFinding]:
    try:
        tomllib.loads(_text(path))
    except OSError as problem:
        message = f"{path} cannot be read: {problem.strerror}"
        yield _finding("warning", "config_unreadable", message, "check who owns it")
    except ValueError as problem:
        where = " ".join(str(problem).split()) if isinstance(problem, tomllib.TOMLDecodeError) else "it is not UTF-8"
        message = f"{path} counts as empty: it is not TOML that can be read: {where}"
        yield _finding("warning", "config_unreadable", message, "repair the file")


def _registry(path: Path) -> Iterator[DoctorFinding]:
    try:
        listed = orjson.loads(_text(path) or '{"vaults": []}')
        vaults = [(str(each["name"]), Path(each["path"])) for each in listed["vaults"]]
    except OSError as problem:
        yield _finding(
            "error", "registry_unreadable", f"{path} cannot be read: {problem.strerror}", "check who owns it"
        )
        return
    except (ValueError, KeyError, TypeError):
        remedy = "correct it, or add your vaults again: wikid vault add PATH"
        yield _finding("error", "registry_damaged", f"{path} is not a list of vaults that can be read", remedy)
        return
    for name, root in vaults:
        if not root.is_dir():
            remedy = f"bring the folder back, or forget it with: wikid vault remove {shlex.quote(name)}"
            yield DoctorFinding(
                severity="error", kind="vault_not_opened", message=f"{root} is not there", remedy=remedy, vault=name
            )


def _room(folders: Folders) -> Iterator[DoctorFinding]:
    seen: set[int] = set()
    for folder in (folders.state, folders.cache):
        place = next((each for each in (folder, *folder.parents) if each.exists()), Path(folder.anchor))
        device, free = place.stat().st_dev, shutil.disk_usage(place).free
        if device not in seen and free < LOW_BYTES:
            message = f"the disk has {free / 1e6:,.0f} MB left ({place})"
            yield _finding("warning", "disk_low", message, "make room before it is full")
        seen.add(device)


def _writable(state: Path) -> Iterator[DoctorFinding]:
    log = state / "wikid.log"
    path = log if log.exists() else next((each for each in (state, *state.parents) if each.exists()), None)
    if path is not None and not os.access(path, os.W_OK):
        message = f"{path} cannot be written, so a daemon cannot start"
        yield _finding("error", "log_not_writable", message, "check who owns it")


def _text(path: Path) -> str:
    """The file's text, none for one that is missing. OSError, ValueError."""
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST_FILE).decode("utf-8-sig")
    except FileNotFoundError:
        return ""


# -- services ----------------------------------------------------------------------------------------------------------


def _units(folder: Path, home: Path) -> Iterator[DoctorFinding]:
    unit = folder / "wikid.service"
    try:
        text = _text(unit)
    except (OSError, ValueError):
        text = ""
    if not text:
        return
    for program in command_in("systemd", text)[:1]:
        yield from _program(program.lstrip("-@:+!").replace("%h", str(home)), unit)
    links = (folder / "sockets.target.wants" / "wikid.socket", folder / "default.target.wants" / "wikid.service")
    if not any(os.path.lexists(each) for each in links):
        remedy = "systemctl --user enable --now wikid.socket"
        yield _finding("warning", "service_disabled", f"{unit} is installed but not enabled", remedy)


def _agent(plist: Path) -> Iterator[DoctorFinding]:
    try:
        agent: Any = plistlib.loads(plist.read_bytes())
        program = str(agent.get("Program") or agent["ProgramArguments"][0])
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, IndexError, AttributeError, plistlib.InvalidFileException):
        remedy = "install it anew: wikid service install"
        yield _finding("warning", "service_unreadable", f"{plist} cannot be read", remedy)
        return
    yield from _program(program, plist)
    if agent.get("Disabled") is True:
        yield _finding("warning", "service_disabled", f"{plist} is installed but not enabled", "wikid service install")


def _program(program: str, unit: Path) -> Iterator[DoctorFinding]:
    if os.path.isabs(program) and not _is_program(program):
        message = f"{unit} starts {program}, which is not there"
        yield _finding("error", "service_program_missing", message, "install it anew: wikid service install")


def _is_program(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except OSError:
        return False
