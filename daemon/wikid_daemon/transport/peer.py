"""Who is at the other end of a Unix socket, as the kernel says. Of a Windows pipe its listener has asked already."""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from typing import Final, Protocol

_MAC_SOL_LOCAL: Final = 0
_MAC_LOCAL_PEERCRED: Final = 1
_MAC_XUCRED: Final = "=IIh2x16I"  # version, uid, count of groups, groups


class CredentialSocket(Protocol):
    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...

    def fileno(self) -> int: ...


def own_uid() -> int:
    """The uid of this process; the same as every peer's on Windows, where users have none."""
    if sys.platform == "win32":
        return 0
    else:  # noqa: RET505 - only the branch of this platform is type-checked
        return os.getuid()


def peer_uid(connection: CredentialSocket) -> int:
    """The uid that opened the other end; OSError where the kernel does not tell."""
    if sys.platform == "win32":
        return own_uid()
    elif sys.platform == "linux":  # noqa: RET505 - as above
        size = struct.calcsize("3i")
        _pid, uid, _gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        return int(uid)
    else:
        size = struct.calcsize(_MAC_XUCRED)
        found = connection.getsockopt(_MAC_SOL_LOCAL, _MAC_LOCAL_PEERCRED, size)
        version, uid = struct.unpack_from("=II", found)
        if version != 0:
            raise OSError("the kernel describes its peers in an unknown form")
        return int(uid)


def hung_up(connection: CredentialSocket) -> bool:
    """True where the other end is closed both ways. One that only finished sending still waits for its answers."""
    if sys.platform == "win32":
        return True  # a pipe is only closed whole
    else:  # noqa: RET505 - as above
        watch = select.poll()
        watch.register(connection.fileno(), 0)
        return any(event & (select.POLLHUP | select.POLLERR) for _, event in watch.poll(0))
