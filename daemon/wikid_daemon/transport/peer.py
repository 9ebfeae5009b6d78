"""Who is at the other end of a Unix socket, as the kernel says."""

from __future__ import annotations

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


def peer_uid(connection: CredentialSocket) -> int:
    """The uid that opened the other end; OSError where the kernel does not tell."""
    if sys.platform == "linux":
        size = struct.calcsize("3i")
        _pid, uid, _gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        return int(uid)
    else:  # noqa: RET505 - only the branch of this platform is type-checked
        size = struct.calcsize(_MAC_XUCRED)
        found = connection.getsockopt(_MAC_SOL_LOCAL, _MAC_LOCAL_PEERCRED, size)
        version, uid = struct.unpack_from("=II", found)
        if version != 0:
            raise OSError("the kernel describes its peers in an unknown form")
        return int(uid)


def hung_up(connection: CredentialSocket) -> bool:
    """True where the other end is closed both ways. One that only finished sending still waits for its answers."""
    watch = select.poll()
    watch.register(connection.fileno(), 0)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in watch.poll(0))
