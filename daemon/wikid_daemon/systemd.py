"""The three things systemd can do for a daemon: hold its socket, learn that it is ready, see that it lives.

Every function does nothing when systemd did not ask (sd_listen_fds(3), sd_notify(3), sd_watchdog_enabled(3)).
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from typing import Final

_FIRST_FD: Final = 3


def inherited_listener(env: Mapping[str, str] = os.environ) -> socket.socket | None:
    """The listening Unix socket passed to this very process, or None."""
    if env.get("LISTEN_PID") != str(os.getpid()) or env.get("LISTEN_FDS") != "1":
        return None
    listener = socket.socket(fileno=_FIRST_FD)
    listener.set_inheritable(False)
    if listener.family != socket.AF_UNIX or not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        listener.close()
        raise OSError("the socket that systemd passed is not a listening Unix stream")
    return listener


def notify(state: str, env: Mapping[str, str] = os.environ) -> None:
    """Tell systemd `READY=1`, `STOPPING=1`, …"""
    address = env.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(state.encode(), "\0" + address[1:] if address[0] == "@" else address)


async def feed_watchdog(env: Mapping[str, str] = os.environ) -> None:
    """Say twice per watchdog interval that the event loop still turns; returns at once where none is asked for."""
    interval = env.get("WATCHDOG_USEC", "")
    if not interval.isdecimal() or env.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return
    while True:
        notify("WATCHDOG=1", env)
        await asyncio.sleep(int(interval) / 2_000_000)
