"""Where this user's daemon listens, and the folders wikid uses. Standard library only, no IO beyond lstat and mkdir."""

from __future__ import annotations

import ntpath
import os
import stat
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

if sys.platform == "win32":
    from wikid_protocol import windows

MAX_SOCKET_BYTES = 103  # sun_path holds 104 bytes with its NUL on macOS and the BSDs, 108 on Linux
PIPES: Final = "\\\\.\\pipe\\"
_DIGEST_DIGITS: Final = 16


class EndpointRefused(Exception):
    """The socket's folder belongs to somebody else or is open to others."""


@dataclass(frozen=True, slots=True)
class Folders:
    """This user's folders for wikid, by XDG variables first and the platform's own custom otherwise."""

    config: Path
    state: Path
    cache: Path
    runtime: Path


def folders(env: Mapping[str, str] | None = None, platform: str = sys.platform) -> Folders:
    """The four folders; none is created here."""
    env = os.environ if env is None else env
    home = Path(env.get("HOME") or env.get("USERPROFILE") or Path.home())
    if platform == "darwin":
        support = home / "Library" / "Application Support"
        defaults = {"CONFIG": support, "STATE": support, "CACHE": home / "Library" / "Caches"}
    elif platform == "win32":
        local = Path(env.get("LOCALAPPDATA") or home / "AppData" / "Local")
        defaults = {"CONFIG": local, "STATE": local, "CACHE": local / "Cache"}
    else:
        defaults = {"CONFIG": home / ".config", "STATE": home / ".local" / "state", "CACHE": home / ".cache"}

    def pick(name: str) -> Path:
        given = env.get(f"XDG_{name}_HOME")
        return (Path(given) if given and os.path.isabs(given) else defaults[name]) / "wikid"

    return Folders(pick("CONFIG"), pick("STATE"), pick("CACHE"), _runtime(env))


def _runtime(env: Mapping[str, str]) -> Path:
    given = env.get("XDG_RUNTIME_DIR")
    if given and os.path.isabs(given):
        return Path(given) / "wikid"
    login = Path("/run/user") / _user()
    if _is_own_folder(login):
        return login / "wikid"
    return Path(env.get("TMPDIR") or env.get("TEMP") or "/tmp") / f"wikid-{_user()}"


def _is_own_folder(folder: Path) -> bool:
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return hasattr(os, "getuid") and stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


def socket_path(env: Mapping[str, str] | None = None) -> Path:
    """`$WIKID_SOCKET`, else `wikid.sock` in the runtime folder; a path too long goes to a short hashed folder.

    On Windows it is a pipe, see `pipe_name`.
    """
    env = os.environ if env is None else env
    if sys.platform == "win32":
        return Path(pipe_name(env, windows.current_user()))
    else:  # noqa: RET505 - for a type checker of either platform
        given = env.get("WIKID_SOCKET")
        path = Path(os.path.abspath(given)) if given else _runtime(env) / "wikid.sock"
        if len(os.fsencode(path)) <= MAX_SOCKET_BYTES:
            return path
        digest = zlib.crc32(os.fsencode(path))
        return Path("/tmp") / f"wikid-{_user()}-{digest:08x}" / "wikid.sock"


def pipe_name(env: Mapping[str, str], sid: str) -> str:
    """The pipe of the user with this SID: the one that `$WIKID_SOCKET` names, else one named by a hash of the SID.

    A `$WIKID_SOCKET` that is the path of a file, or an `$XDG_RUNTIME_DIR`, stands for a pipe of its own, so that what
    isolates a daemon elsewhere does so on Windows too.
    """
    given = env.get("WIKID_SOCKET", "")
    name = given.replace("/", "\\")
    if name.lower().startswith(PIPES) and len(name) > len(PIPES):
        return name
    runtime = env.get("XDG_RUNTIME_DIR", "")
    place = ntpath.abspath(given) if given else ntpath.join(runtime, "wikid", "wikid.sock") if runtime else ""
    return f"{PIPES}wikid-{_digest(sid + ntpath.normcase(place))}"


def token_path(pipe: Path, state: Path) -> Path:
    """The file with the line that a client has to send first through `pipe`; only this user can read it."""
    return state / f"pipe-{_digest(str(pipe).lower())}.token"


def _digest(text: str) -> str:
    # loaded here because only Windows needs it, and a command on a socket starts faster without
    digest: str = import_module("hashlib").sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return digest[:_DIGEST_DIGITS]


def check_folder(folder: Path) -> None:
    """Make `folder` 0700 if it is missing, and refuse one that is a link, another user's, or open to others."""
    try:
        os.makedirs(folder, mode=0o700)
    except FileExistsError:
        pass
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise EndpointRefused(f"{folder} is not a folder; remove it or set WIKID_SOCKET to another place")
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise EndpointRefused(f"{folder} belongs to another user; set WIKID_SOCKET to a folder of your own")
    if os.name == "posix" and found.st_mode & 0o077:
        raise EndpointRefused(f"{folder} is open to other users; {closing(folder, found.st_mode)[0]}")


def closing(folder: Path, mode: int) -> tuple[str, bool]:
    """What to do about a folder that is open to others, and whether closing it hides nobody's files."""
    try:
        safe = not mode & stat.S_ISVTX and all(stat.S_ISSOCK(each.lstat().st_mode) for each in folder.iterdir())
    except OSError:
        safe = False
    return (f"run: chmod 700 {folder}" if safe else "set WIKID_SOCKET to a folder that nothing else uses"), safe
