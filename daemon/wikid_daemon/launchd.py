"""The socket that launchd holds for a job, asked for by launch_activate_socket(3).

The name is that of the entry in the job's `Sockets`. Nothing is asked for where launchd did not start this process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

SOCKET_NAME: Final = "Listener"
_NOT_OURS: Final = (errno.ENOENT, errno.ESRCH)  # the job has no such socket; launchd does not manage this process


def inherited_listener(
    env: Mapping[str, str] = os.environ,
    *,
    platform: str = sys.platform,
    load: Callable[[str | None], Any] = ctypes.CDLL,
) -> socket.socket | None:
    """The listening Unix socket of this job, or None. OSError where launchd has one and does not give it.

    launchd gives a socket once: a second call fails with EALREADY.
    """
    if platform != "darwin" or env.get("XPC_SERVICE_NAME", "0") in ("", "0"):  # "0" is what a terminal's children have
        return None
    library = load(None)  # libSystem is part of every process
    descriptors = _activate(library)
    if not descriptors:
        return None
    for each in descriptors[1:]:
        os.close(each)
    listener = socket.socket(fileno=descriptors[0])
    listener.set_inheritable(False)
    if listener.family != getattr(socket, "AF_UNIX", None):
        listener.close()
        raise OSError("the socket that launchd passed is not a Unix stream")
    return listener


def _activate(library: Any) -> list[int]:
    activate, release = library.launch_activate_socket, library.free
    activate.argtypes = (
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.POINTER(ctypes.c_int)),
        ctypes.POINTER(ctypes.c_size_t),
    )
    activate.restype = ctypes.c_int
    release.argtypes, release.restype = (ctypes.c_void_p,), None
    found, count = ctypes.POINTER(ctypes.c_int)(), ctypes.c_size_t()
    problem = activate(SOCKET_NAME.encode(), ctypes.byref(found), ctypes.byref(count))
    if problem in _NOT_OURS:
        return []
    if problem:
        raise OSError(problem, os.strerror(problem))
    descriptors = [found[i] for i in range(count.value)]
    release(found)
    return descriptors
