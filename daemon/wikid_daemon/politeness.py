"""Bulk work is polite: its threads step back behind everybody else's, and it goes slowly while power is to be saved.

Linux tells in /sys what the machine draws its power from. macOS and Windows are asked as their manuals say; that was
never run.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from wikid_daemon.core.settings import LowPower

NICENESS: Final = 10
LOOK_SECONDS: Final = 30.0  # so long the source of power counts as known
SUPPLIES: Final = Path("/sys/class/power_supply")
_ASK_SECONDS: Final = 2.0
_UTILITY: Final = 0x11  # macOS: QOS_CLASS_UTILITY
_LOWEST: Final = -2  # Windows: THREAD_PRIORITY_LOWEST
_UNPLUGGED: Final = 0  # Windows: AC_LINE_OFFLINE
_NO_BATTERY: Final = 128  # Windows: BATTERY_FLAG_NO_BATTERY


# -- priority ----------------------------------------------------------------------------------------------------------


def step_back() -> None:
    """From now on the calling thread gets the processor after others; it cannot come forward again."""
    if sys.platform == "linux":  # where niceness is a thread's own
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            os.setpriority(os.PRIO_PROCESS, 0, max(NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))
    elif sys.platform == "darwin":
        set_class = getattr(ctypes.CDLL(None), "pthread_set_qos_class_self_np", None)
        if set_class is not None:
            set_class(_UTILITY, 0)
    elif sys.platform == "win32":
        # not Windows' background mode, which would let the model's pages go first that queries read as well
        kernel: Any = ctypes.windll.kernel32
        kernel.SetThreadPriority(ctypes.c_void_p(kernel.GetCurrentThread()), _LOWEST)


# -- power -------------------------------------------------------------------------------------------------------------


class Power:
    """Whether power is to be saved now: `setting` says always, never, or on battery. Any thread."""

    def __init__(
        self,
        setting: Callable[[], LowPower],
        on_battery: Callable[[], bool] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._setting = setting
        self._on_battery = on_battery or is_on_battery
        self._now = now
        self._until = float("-inf")
        self._found = False

    def is_saved(self) -> bool:
        """As it was found in the last half minute; work that is slow to tell is not asked more often."""
        now = self._now()
        if now >= self._until:
            self._until = now + LOOK_SECONDS
            setting = self._setting()
            self._found = self._on_battery() if setting == "auto" else setting == "on"
        return self._found


def is_on_battery() -> bool:
    """Whether this machine draws its power from a battery of its own; False where nobody can tell."""
    try:
        if sys.platform == "linux":
            return draws_on_battery(linux_supplies(SUPPLIES))
        elif sys.platform == "darwin":  # noqa: RET505 - for a type checker of either platform
            command = ["/usr/bin/pmset", "-g", "batt"]
            done = subprocess.run(command, capture_output=True, timeout=_ASK_SECONDS, check=True)
            return pmset_says_battery(done.stdout.decode("utf-8", "replace"))
        elif sys.platform == "win32":
            status = _PowerStatus()
            asked = ctypes.windll.kernel32.GetSystemPowerStatus(ctypes.byref(status))
            return bool(asked) and windows_says_battery(status.line, status.flag)
        else:
            return False
    except (OSError, subprocess.SubprocessError):
        return False


def linux_supplies(folder: Path) -> list[Mapping[str, str]]:
    """What each supply below `folder` tells of itself."""
    return [{name: _told(each / name) for name in ("type", "online", "status", "scope")} for each in folder.iterdir()]


def _told(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:  # not every driver has every file, and some answer with an error now and then
        return ""


def draws_on_battery(supplies: Iterable[Mapping[str, str]]) -> bool:
    """Of Linux' supplies: one of the machine's own batteries is discharged, and nothing else feeds it. The battery of a
    mouse has the scope Device."""
    discharged = False
    for each in supplies:
        if each["type"] in ("Mains", "USB", "Wireless") and each["online"] == "1":
            return False
        own = each["type"] == "Battery" and each["scope"] != "Device"
        discharged = discharged or (own and each["status"] == "Discharging")
    return discharged


def pmset_says_battery(text: str) -> bool:
    """Of the answer of macOS' `pmset -g batt`, whose first line names the source in use."""
    return "'Battery Power'" in text.partition("\n")[0]


def windows_says_battery(line: int, flag: int) -> bool:
    """Of the members ACLineStatus and BatteryFlag of SYSTEM_POWER_STATUS."""
    return line == _UNPLUGGED and not (flag & _NO_BATTERY and flag != 255)  # 255: unknown


class _PowerStatus(ctypes.Structure):
    """SYSTEM_POWER_STATUS."""

    _fields_ = (
        ("line", ctypes.c_ubyte),
        ("flag", ctypes.c_ubyte),
        ("percent", ctypes.c_ubyte),
        ("saver", ctypes.c_ubyte),
        ("lifetime", ctypes.c_uint32),
        ("full_lifetime", ctypes.c_uint32),
    )
