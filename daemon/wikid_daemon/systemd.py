"""The three things systemd can do for a daemon: hold its socket, learn that it is ready, see that it lives.

Every function does nothing when systemd did not ask (sd_listen_fds(3), sd_notify(3), sd_watchdog_enabled(3)).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Mapping
from typing import Final

_FIRST_FD: Final = 3
_SEND_SECONDS: Final = 0.5


def inherited_listener(env: Mapping[str, str] = os.environ) -> socket.socket | None:
    """The listening Unix socket passed to this very process, or None."""
    if env.get("LISTEN_PID") != str(os.getpid()) or env.get("LISTEN_FDS") != "1":
        return None
    listener = socket.socket(fileno=_FIRST_FD)
    listener.set_inheritable(False)
    if not _listens(listener):
        listener.close()
        raise OSError("the socket that systemd passed is not a listening Unix stream")
    return listener


def notify(state: str, env: Mapping[str, str] = os.environ, *, wait_s: float = _SEND_SECONDS) -> None:
    """Tell systemd `READY=1`, `STOPPING=1`, … A manager that has gone, or does not read, keeps nobody from serving."""
    address = env.get("NOTIFY_SOCKET", "")
    if address.startswith(("/", "@")):
        _send(state.encode(), "\0" + address[1:] if address[0] == "@" else address, wait_s)


if sys.platform == "win32":

    def _listens(_listener: socket.socket) -> bool:
        return False

    def _send(_data: bytes, _address: str, _wait_s: float) -> None:
        """Nobody asks for it there."""
else:

    def _listens(listener: socket.socket) -> bool:
        return listener.family == socket.AF_UNIX and bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))

    def _send(data: bytes, address: str, wait_s: float) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, contextlib.suppress(OSError):
            sender.settimeout(wait_s)
            sender.sendto(data, address)


async def feed_watchdog(env: Mapping[str, str] = os.environ) -> None:
    """Say twice per watchdog interval that the event loop still turns; returns at once where none is asked for."""
    interval = env.get("WATCHDOG_USEC", "")
    if not interval.isdecimal() or env.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return
    while True:
        notify("WATCHDOG=1", env, wait_s=0)  # the next one says it as well
        await asyncio.sleep(int(interval) / 2_000_000)
