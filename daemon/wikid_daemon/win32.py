"""Windows: pipes and files that this user alone may open, who is at a pipe's other end, and the end of a console.

Loads on Windows alone. `descriptor` is a security descriptor in Windows' own words (SDDL).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from ctypes import wintypes
from pathlib import Path
from typing import Final

assert sys.platform == "win32"  # a type checker of another platform stops here

import _winapi  # noqa: E402
from asyncio.windows_utils import PipeHandle  # noqa: E402

from wikid_daemon import files  # noqa: E402
from wikid_protocol import windows  # noqa: E402
from wikid_protocol.windows import current_user as current_user  # noqa: E402
from wikid_protocol.windows import succeeded  # noqa: E402
from wikid_protocol.windows import user_of as user_of  # noqa: E402

_PIPE_BUFFER: Final = 65_536
_SDDL_REVISION: Final = 1
_CREATE_NEW: Final = 1
_CONSOLE_ENDS: Final = (2, 5, 6)  # CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT
_CONSOLE_SECONDS: Final = (
    4.5  # 5 s after its console is closed a process is ended, and at once when its handler returns
)


class _SecurityAttributes(ctypes.Structure):
    """SECURITY_ATTRIBUTES."""

    _fields_ = (
        ("nLength", wintypes.DWORD),
        ("lpSecurityDescriptor", wintypes.LPVOID),
        ("bInheritHandle", wintypes.BOOL),
    )


class _MemoryCounters(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS."""

    _fields_ = (
        ("cb", wintypes.DWORD),
        ("PageFaultCount", wintypes.DWORD),
        ("PeakWorkingSetSize", ctypes.c_size_t),
        ("WorkingSetSize", ctypes.c_size_t),
        ("QuotaPeakPagedPoolUsage", ctypes.c_size_t),
        ("QuotaPagedPoolUsage", ctypes.c_size_t),
        ("QuotaPeakNonPagedPoolUsage", ctypes.c_size_t),
        ("QuotaNonPagedPoolUsage", ctypes.c_size_t),
        ("PagefileUsage", ctypes.c_size_t),
        ("PeakPagefileUsage", ctypes.c_size_t),
    )


_kernel = ctypes.WinDLL("kernel32", use_last_error=True)
_advapi = ctypes.WinDLL("advapi32", use_last_error=True)
_Handler = ctypes.WINFUNCTYPE(wintypes.BOOL, wintypes.DWORD)

_kernel.LocalFree.argtypes = (wintypes.HLOCAL,)
_kernel.LocalFree.restype = wintypes.HLOCAL
_kernel.GetNamedPipeClientProcessId.argtypes = (wintypes.HANDLE, wintypes.LPDWORD)
_kernel.GetNamedPipeClientProcessId.restype = wintypes.BOOL
_kernel.K32GetProcessMemoryInfo.argtypes = (wintypes.HANDLE, ctypes.POINTER(_MemoryCounters), wintypes.DWORD)
_kernel.K32GetProcessMemoryInfo.restype = wintypes.BOOL
_kernel.SetConsoleCtrlHandler.argtypes = (_Handler, wintypes.BOOL)
_kernel.SetConsoleCtrlHandler.restype = wintypes.BOOL
_advapi.ConvertStringSecurityDescriptorToSecurityDescriptorW.argtypes = (
    wintypes.LPCWSTR,
    wintypes.DWORD,
    ctypes.POINTER(wintypes.LPVOID),
    wintypes.LPDWORD,
)
_advapi.ConvertStringSecurityDescriptorToSecurityDescriptorW.restype = wintypes.BOOL


@contextlib.contextmanager
def _attributes(descriptor: str) -> Iterator[int]:
    """The address of SECURITY_ATTRIBUTES for a call, valid while inside."""
    made = wintypes.LPVOID()
    succeeded(
        _advapi.ConvertStringSecurityDescriptorToSecurityDescriptorW(
            descriptor, _SDDL_REVISION, ctypes.byref(made), None
        )
    )
    try:
        attributes = _SecurityAttributes(ctypes.sizeof(_SecurityAttributes), made, False)
        yield ctypes.addressof(attributes)
    finally:
        _kernel.LocalFree(made)


def create_pipe(name: str, open_mode: int, pipe_mode: int, timeout_ms: int, descriptor: str) -> PipeHandle:
    """One instance of the pipe, to which nobody is connected yet. PermissionError where somebody else made the first;
    OSError with `winerror` 231 where there is no room for one more."""
    with _attributes(descriptor) as attributes:
        handle = _winapi.CreateNamedPipe(
            name,
            open_mode,
            pipe_mode,
            _winapi.PIPE_UNLIMITED_INSTANCES,
            _PIPE_BUFFER,
            _PIPE_BUFFER,
            timeout_ms,
            attributes,
        )
    return PipeHandle(handle)


def client_process(handle: int) -> int:
    """The id of the process that opened the other end of a pipe."""
    pid = wintypes.DWORD()
    succeeded(_kernel.GetNamedPipeClientProcessId(handle, ctypes.byref(pid)))
    return pid.value


def write_private(path: Path, data: bytes, descriptor: str) -> None:
    """Replace `path` by a file of that descriptor from the first moment on, whatever its folder would hand down."""
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    with _attributes(descriptor) as attributes:
        handle = _winapi.CreateFile(
            os.fspath(temporary), _winapi.GENERIC_WRITE, 0, attributes, _CREATE_NEW, 0, _winapi.NULL
        )
    try:
        try:
            _winapi.WriteFile(handle, data)
        finally:
            _winapi.CloseHandle(handle)
        files.move_over(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def pipe_answers(name: str, lines: bytes, seconds: float) -> bool:
    """True where this user's process that has the pipe sends anything back for `lines`."""
    until = time.monotonic() + seconds

    def left() -> int:
        return max(int((until - time.monotonic()) * 1000), 1)

    try:
        handle = windows.open_pipe(name)
    except OSError as error:
        return error.winerror == windows.ERROR_PIPE_BUSY
    try:
        if windows.user_of(windows.server_process(handle)) != current_user():
            return False
        windows.write(handle, lines, left())
        return bool(windows.read(handle, 1, left()))
    except OSError:
        return False
    finally:
        windows.close(handle)


def resident_bytes() -> int:
    """Memory that this process has in use now."""
    found = _MemoryCounters()
    size = ctypes.sizeof(found)
    succeeded(_kernel.K32GetProcessMemoryInfo(_winapi.GetCurrentProcess(), ctypes.byref(found), size))
    return int(found.WorkingSetSize)


def when_console_ends(tell: Callable[[], object]) -> Callable[[], None]:
    """Have `tell` called, in a thread of the system's, when the console is closed or its user logs off. The process is
    given the few seconds that Windows allows. What is returned ends that."""

    def handle(event: int) -> bool:
        if event not in _CONSOLE_ENDS:
            return False  # Ctrl-C and Ctrl-Break are signals
        tell()
        time.sleep(_CONSOLE_SECONDS)
        return True

    handler = _Handler(handle)
    succeeded(_kernel.SetConsoleCtrlHandler(handler, True))

    def forget() -> None:
        _kernel.SetConsoleCtrlHandler(handler, False)

    return forget
