"""Whether a process that is named by its id still runs. An id is given out again, so the time of its start counts too.

Linux tells all of it in /proc. macOS and Windows are asked as their manuals say; that was never run.
"""

from __future__ import annotations

import ctypes
import functools
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

_ASK_SECONDS: Final = 5.0
_STARTED_FIELD: Final = 19  # in /proc/PID/stat, counted from the state, which follows the name
_ENDED: Final = ("Z", "X")  # states of a process whose parent has not waited for it yet
_QUERY_LIMITED: Final = 0x1000  # Windows: PROCESS_QUERY_LIMITED_INFORMATION


def host() -> str:
    """The name of this machine."""
    return socket.gethostname()


@functools.cache
def boot_id() -> str:
    """What differs from one start of this machine to the next; empty where nobody can tell."""
    try:
        if sys.platform == "linux":
            return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        elif sys.platform == "darwin":  # noqa: RET505 - for a type checker of either platform
            return _told_by("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")
        else:
            return ""
    except (OSError, subprocess.SubprocessError):
        return ""


def is_running(pid: int) -> bool:
    """Whether there is such a process, of whatever user; True where nobody can tell."""
    if sys.platform == "win32":
        return _windows_started(pid) is not None
    else:  # noqa: RET505 - as above
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True  # somebody else's
        return sys.platform != "linux" or "".join(_linux_stat(pid)[:1]) not in _ENDED


def started(pid: int) -> str:
    """When the process began, in words of the system's own that only compare; empty where nobody can tell."""
    if sys.platform == "win32":
        return _windows_started(pid) or ""
    elif sys.platform == "linux":  # noqa: RET505 - as above
        fields = _linux_stat(pid)
        return fields[_STARTED_FIELD] if len(fields) > _STARTED_FIELD else ""
    else:
        try:
            return _told_by("/bin/ps", "-o", "lstart=", "-p", str(pid))
        except (OSError, subprocess.SubprocessError):
            return ""


def _linux_stat(pid: int) -> list[str]:
    """State and everything behind it; empty where the process is gone or hidden."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _told_by(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, timeout=_ASK_SECONDS, check=True, env={"LC_ALL": "C", "TZ": "UTC"}
    )
    return done.stdout.decode("utf-8", "replace").strip()


def _windows_started(pid: int) -> str | None:
    """The time of making as a number; None for a process that is gone, empty for one that may not be asked."""
    kernel: Any = ctypes.windll.kernel32  # type: ignore[attr-defined,unused-ignore]
    handle = kernel.OpenProcess(_QUERY_LIMITED, False, pid)
    if not handle:
        gone = 87  # ERROR_INVALID_PARAMETER: no such process
        return None if kernel.GetLastError() == gone else ""
    try:
        times = [ctypes.c_ulonglong() for _ in range(4)]
        asked = kernel.GetProcessTimes(handle, *map(ctypes.byref, times))
        return str(times[0].value) if asked else ""
    finally:
        kernel.CloseHandle(handle)
