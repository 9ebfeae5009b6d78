"""One daemon per endpoint: the lock held for life, and the socket file that belongs to it (protocol, One daemon).

The lock is the only proof of a running daemon. A socket file is stale only where a connection to it is refused; what is
no socket, or answers, or fails in any other way is left alone.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import signal
import socket
import stat
import sys
import time
from pathlib import Path
from typing import Final, Literal

import structlog
from structlog.typing import FilteringBoundLogger

from wikid_protocol import messages
from wikid_protocol.endpoint import EndpointRefused, check_folder, token_path

if sys.platform == "win32":
    import msvcrt

    from wikid_daemon import win32
else:
    import fcntl

BACKLOG: Final = 128
_PROBE_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 0.05
_LONGEST_PID: Final = 12

_log: FilteringBoundLogger = structlog.get_logger()

Identity = tuple[int, int, int]


class AlreadyRunning(Exception):
    """Another daemon has this endpoint. Without `answers` it is starting, stopping or stuck; `holder` is its process,
    where it was asked to give way to a service and has not."""

    def __init__(self, endpoint: Path, answers: bool, holder: int | None = None) -> None:
        who = "another wikid" if holder is None else f"another wikid (process {holder})"
        what = "" if answers else ", but it does not answer"
        what += f"; end it with: kill -9 {holder}" if holder is not None and not answers else ""
        super().__init__(f"{who} has {endpoint}{what}")
        self.endpoint = endpoint
        self.answers = answers
        self.holder = holder


class Instance:
    """This process's claim on `endpoint`. Nothing in it blocks for longer than a probe."""

    def __init__(self, endpoint: Path, state: Path, lock: int, inherited: socket.socket | None) -> None:
        self.endpoint = endpoint
        self.state = state
        self._lock: int | None = lock
        self._inherited = inherited
        self._bound: Identity | None = None  # the socket file that this process listens at, whoever made it
        self._own = False

    @classmethod
    def claim(
        cls, endpoint: Path, state: Path, *, wait_s: float = 15.0, inherited: socket.socket | None = None
    ) -> Instance:
        """Take the lock, waiting while its holder neither answers nor goes; AlreadyRunning when that does not help.

        `inherited` is a listener that a service manager bound and keeps: its socket file is never removed. It has taken
        the place of the one of a daemon that nobody manages, which no client can reach any more: that is asked to stop.
        """
        path = _lock_path(endpoint, state)
        give_up = time.monotonic() + wait_s
        asked: int | None = None
        while True:
            lock = _try_lock(path)
            if lock is not None:
                _sign(lock)
                return cls(endpoint, state, lock, inherited)
            if inherited is None and _answers(endpoint, state):
                raise AlreadyRunning(endpoint, answers=True)
            holder = _holder(path) if inherited is not None else None
            if holder is not None and asked is None and _ask_to_stop(path, holder):
                asked = holder
                _log.warning("a daemon that no service manager started was asked to give way", pid=holder)
            if time.monotonic() >= give_up:
                raise AlreadyRunning(endpoint, answers=False, holder=holder)
            time.sleep(_RETRY_SECONDS)

    def listen(self) -> socket.socket:
        """The listening socket, 0600 in a 0700 folder. Before other threads start, because it sets the umask."""
        if self._inherited is not None:
            self._bound = _identity(self.endpoint)
            return self._inherited
        check_folder(self.endpoint.parent)
        mask = os.umask(0o177)
        try:
            return self._bind()
        finally:
            os.umask(mask)

    def listen_again(self) -> socket.socket:
        """A new listener after the file was `lost`. The umask stays as it is, for other threads may be making files;
        the checked 0700 folder keeps others out until the mode is set."""
        check_folder(self.endpoint.parent)
        return self._bind()

    def lost(self) -> bool:
        """True where the socket file is gone or somebody else's, a service manager's too: nobody would notice."""
        return self._bound is not None and _identity(self.endpoint) != self._bound

    def unlink(self) -> None:
        """Remove the socket file if it is still the one this process bound."""
        if self._own and not self.lost():
            with contextlib.suppress(OSError):  # gone meanwhile, or left behind: the next daemon finds it stale
                self.endpoint.unlink()
        self._bound, self._own = None, False

    def release(self) -> None:
        """Give up the socket file, then the lock. The lock file stays, for removing it would race."""
        self.unlink()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _bind(self) -> socket.socket:
        found = _probe(self.endpoint)
        if found == "alive":
            raise AlreadyRunning(self.endpoint, answers=True)
        if found == "stale":
            self.endpoint.unlink(missing_ok=True)
        listener = _unix_socket()
        try:
            listener.bind(os.fsencode(self.endpoint))
            self.endpoint.chmod(0o600)
            listener.listen(BACKLOG)
            self._bound, self._own = _identity(self.endpoint), True
        except OSError:
            listener.close()
            raise
        return listener


def _lock_path(endpoint: Path, state: Path) -> Path:
    if sys.platform == "win32":
        place = os.path.normcase(endpoint)  # a pipe's name has no folder, and a look at it would connect
    else:
        # the folder may be reached by a link, the socket itself never is
        place = os.path.join(os.path.realpath(endpoint.parent), endpoint.name)
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()[:16]
    return state / f"daemon-{digest}.lock"


def _try_lock(path: Path) -> int | None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        if sys.platform == "win32":
            msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            return None
        raise
    return lock


def _sign(lock: int) -> None:
    """Leave this process's number in its lock file, for messages and `_ask_to_stop`. Only the lock proves anything."""
    if sys.platform != "win32":  # whose locks keep others from reading
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)


def _holder(path: Path) -> int | None:
    """The process that holds the lock, as it signed; None where it has not yet."""
    try:
        found = path.read_bytes()
    except OSError:
        return None
    return int(found) if found.isdigit() and len(found) < _LONGEST_PID else None


def _ask_to_stop(path: Path, holder: int) -> bool:
    """SIGTERM to the holder, once it is certain that it still is: not where the lock is free or has another number."""
    lock = _try_lock(path)
    if lock is not None:
        os.close(lock)
        return False
    if _holder(path) != holder or holder == os.getpid():
        return False
    try:
        os.kill(holder, signal.SIGTERM)
    except OSError:
        return False
    return True


def _identity(path: Path) -> Identity | None:
    """Device, inode and time of making: inode numbers are given out again, often at once."""
    try:
        found = os.lstat(path)
    except OSError:
        return None  # or closed to us, or with a file in place of its folder: nobody reaches us by it
    return (found.st_dev, found.st_ino, found.st_mtime_ns) if stat.S_ISSOCK(found.st_mode) else None


def _probe(path: Path) -> Literal["absent", "stale", "alive"]:
    """What is at `path`. EndpointRefused for what is no socket; an OSError other than a refusal is passed on."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return "absent"
    if not stat.S_ISSOCK(found.st_mode):
        raise EndpointRefused(f"{path} is not a socket; move it away or set WIKID_SOCKET to another place")
    with _unix_socket() as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(os.fsencode(path))
        except ConnectionRefusedError:
            return "stale"
        except FileNotFoundError:
            return "absent"
        except (TimeoutError, BlockingIOError):
            return "alive"  # somebody listens, with a full queue
    return "alive"


def _answers(endpoint: Path, state: Path) -> bool:
    """True where a ping gets any reply; a listener that only accepts may be on its way out."""
    ping = messages.request(0, "ping", {})
    if sys.platform == "win32":
        try:
            token = token_path(endpoint, state).read_bytes()
        except OSError:
            return False  # a daemon that listens has written it before
        return win32.pipe_answers(os.fspath(endpoint), token + ping, _PROBE_SECONDS)
    else:  # noqa: RET505 - for a type checker of either platform
        with _unix_socket() as probe:
            probe.settimeout(_PROBE_SECONDS)
            try:
                probe.connect(os.fsencode(endpoint))
                probe.sendall(ping)
                return bool(probe.recv(1))
            except OSError:
                return False


def _unix_socket() -> socket.socket:
    if sys.platform == "win32":
        raise OSError("Windows has pipes instead, which their own listener makes")
    else:  # noqa: RET506 - as above
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
