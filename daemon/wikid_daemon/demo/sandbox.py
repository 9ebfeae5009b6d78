"""A folder of the demo's own with everything in it: the notes, the daemon's folders, its socket, and the daemon."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from wikid_client.client import Client
from wikid_protocol.endpoint import MAX_SOCKET_BYTES, folders
from wikid_protocol.errors import DaemonNotRunning

VAULT: Final = Path(__file__).with_name("vault")
MARKER: Final = ".llm-wiki"

_PREFIX: Final = "wikid-demo-"
_SOCKET: Final = "wikid.sock"
_TEMPORARY: Final = "tmp"
_PLACES: Final = {
    "HOME": "home",
    "WIKI_HOME": "home",
    "XDG_CONFIG_HOME": "config",
    "XDG_STATE_HOME": "state",
    "XDG_RUNTIME_DIR": "run",
    "TMPDIR": _TEMPORARY,
}
_LOG: Final = "daemon.out"
_RANDOM_PART: Final = 8
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.01
_LOG_LINES: Final = 5


class DemoFailed(Exception):
    """The demo cannot go on. The text is one line for a person; `details` may follow it."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class Sandbox:
    """One temporary folder (0700) and at most one daemon in it; `clear` takes both away and may be called again."""

    def __init__(self, base: Path) -> None:
        self.folder = Path(os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX, dir=base)))
        self.notes = self.folder / "notes"
        self.pages = self.notes / MARKER / "wiki"
        self.temporary = self.folder / _TEMPORARY
        self.temporary.mkdir(mode=0o700)
        self.endpoint = self.folder / _SOCKET
        self._daemon: subprocess.Popen[bytes] | None = None

    def fill(self) -> None:
        """Copy the sample vault in."""
        shutil.copytree(VAULT, self.notes / MARKER)

    def start_daemon(self) -> None:
        """Start the daemon as a child that only this sandbox knows of. The terminal's Ctrl-C does not reach it."""
        with (self.folder / _LOG).open("wb") as output:
            self._daemon = subprocess.Popen(
                [sys.executable, "-P", "-m", "wikid_daemon"],
                cwd=self.folder,
                env=self.environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait_for_daemon(self, client: Client) -> int:
        """The process id of the daemon, once it answers. DemoFailed when it leaves or takes too long."""
        assert self._daemon is not None
        give_up = time.monotonic() + _START_SECONDS
        while True:
            try:
                return client.ping().pid
            except DaemonNotRunning:
                code = self._daemon.poll()
                if code is not None:
                    raise DemoFailed(f"the daemon left at once with exit code {code}", self._said()) from None
                if time.monotonic() >= give_up:
                    raise DemoFailed(f"the daemon did not answer within {_START_SECONDS:.0f} s", self._said()) from None
            time.sleep(_POLL_SECONDS)

    def clear(self) -> None:
        """Stop the daemon, wait until it has gone, and remove the folder. DemoFailed where that cannot be removed."""
        if self._daemon is not None:
            self._daemon.terminate()
            try:
                self._daemon.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._daemon.kill()
                self._daemon.wait()
        try:
            shutil.rmtree(self.folder)
        except FileNotFoundError:
            pass  # cleared before
        except OSError as error:
            raise DemoFailed(f"{self.folder} could not be removed: {error.strerror}; please remove it") from error

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """`env` with home and wikid's folders in the sandbox; the cache, which holds the model, stays the user's."""
        own = {name: str(self.folder / place) for name, place in _PLACES.items()}
        cache = str(folders(env).cache.parent)
        return {**env, **own, "XDG_CACHE_HOME": cache, "WIKID_SOCKET": str(self.endpoint)}

    def _said(self) -> str:
        text = (self.folder / _LOG).read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-_LOG_LINES:])


def place_for_sandbox() -> Path:
    """The user's temporary folder, or the system's where a socket's path would be too long in that one."""
    own = Path(os.path.realpath(tempfile.gettempdir()))
    longest = own / f"{_PREFIX}{'x' * _RANDOM_PART}" / _SOCKET
    return own if len(os.fsencode(longest)) <= MAX_SOCKET_BYTES else Path("/tmp")
