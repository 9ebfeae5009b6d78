"""A daemon that is older than the command makes way for one of the command's own version, where it must.

Nothing is compared on the way: an older daemon answers what both know, and costs no call a round trip. Only when it
does not know a method, or its answer cannot be read, is it asked for its version, drained, and replaced, once. An older
command never replaces a newer daemon, so that two versions in use cannot fight.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeVar

from wikid_client.caller import OnProgress
from wikid_client.client import Client
from wikid_protocol import __version__
from wikid_protocol.errors import DaemonFailed, RequestRefused, WikidError
from wikid_protocol.memories import Pong

T = TypeVar("T")

TOO_OLD: Final = ("method_not_found", "protocol_unsupported")
UPGRADE_HINT: Final = "wikid restart"


class UpgradingClient(Client):
    """A client whose daemon, at `path`, may be replaced by a newer one in the middle of a call. With `start` only."""

    def __init__(self, path: Path, *, start: bool, timeout: float) -> None:
        super().__init__(endpoint=path, start=start, timeout=timeout)
        self._path = path
        self._start = self._may_replace = start

    def _read(self, kind: type[T], method: str, params: dict[str, Any], timeout: float | None) -> T:
        try:
            return super()._read(kind, method, params, timeout)
        except (RequestRefused, DaemonFailed) as error:
            if not (_is_too_old(error) or _is_unreadable(error)) or not self._replaced(error):
                raise
        return super()._read(kind, method, params, timeout)

    def _write(
        self,
        kind: type[T],
        method: str,
        params: dict[str, Any],
        timeout: float | None,
        progress: OnProgress | None = None,
    ) -> T:
        try:
            return super()._write(kind, method, params, timeout, progress)
        except RequestRefused as error:  # what was answered, readable or not, has been done and is not done again
            if not _is_too_old(error) or not self._replaced(error):
                raise
        return super()._write(kind, method, params, timeout, progress)

    def _replaced(self, error: WikidError) -> bool:
        """Whether another daemon may answer now. Where an older one stays, the error's hint says what to do."""
        self.close()
        # loaded here because daemon and command are nearly always of one version
        stopping: Any = import_module("wikid_client.stopping")
        wanted, self._may_replace = may_replace if self._may_replace else _never, False
        found = stopping.shut_down(self._path, self._timeout, wanted=wanted)
        if found.was_running and found.daemon is not None:
            sys.stderr.write(f"wikid {found.daemon.version} was running and makes way for {__version__}.\n")
        elif found.daemon is not None and is_older(found.daemon.version):
            error.hint = difference(found.daemon.version)
        elif found.daemon is not None and is_older(__version__, found.daemon.version):
            error.hint = (
                f"the daemon is wikid {found.daemon.version}, newer than this command ({__version__}): update wikid"
            )
        if found.daemon is None:  # another command has just stopped it
            return bool(found.was_running) or self._start
        # one of this version has the method: another command has just put it in place of the one that had not
        return bool(found.was_running) or found.daemon.version == __version__


def is_older(version: str, than: str = __version__) -> bool:
    """Whether `version` is an earlier release. False for what is no plain release number: in doubt, nobody goes."""
    found, own = _release(version), _release(than)
    return found is not None and own is not None and found < own


def may_replace(daemon: Pong) -> bool:
    """Whether the daemon is older and runs in the background, and this Python has a daemon to put in its place."""
    return is_older(daemon.version) and in_background(daemon.pid) and find_spec("wikid_daemon") is not None


def in_background(pid: int) -> bool:
    """Whether a client or a service manager started the process: both give it its own session, a shell does not."""
    if sys.platform == "win32":
        return True
    else:  # noqa: RET505 - for a type checker of either platform
        try:
            return os.getsid(pid) == pid
        except OSError:
            return False


def _never(_daemon: Pong) -> bool:
    return False


def difference(version: str) -> str:
    """What is worth saying about a daemon of this version, or nothing."""
    if not is_older(version):
        return ""
    return (
        f"the daemon is wikid {version}, older than this command ({__version__}); run: {UPGRADE_HINT}"
        ", and if it comes back as it was, a service starts it: wikid service install"
    )


def _release(version: str) -> tuple[int, ...] | None:
    parts = version.split(".")
    if not all(each.isdecimal() and each.isascii() for each in parts):
        return None
    numbers = list(map(int, parts))
    while numbers and numbers[-1] == 0:  # 1.0 is 1.0.0
        numbers.pop()
    return tuple(numbers)


def _is_too_old(error: WikidError) -> bool:
    return isinstance(error, RequestRefused) and error.kind in TOO_OLD


def _is_unreadable(error: WikidError) -> bool:
    """The daemon answered with something else than this version expects."""
    return isinstance(error, DaemonFailed) and isinstance(error.__cause__, ValueError)
