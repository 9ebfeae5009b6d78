"""Windows: whose process is at the other end of a pipe, and bytes through one with a time limit. Loads there alone.

What the standard library's own pipes use does the work (`_winapi`, as in `multiprocessing.connection`); ctypes asks
only what that cannot. Handles are numbers and never inherited.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import wintypes
from typing import Final

assert sys.platform == "win32"  # a type checker of another platform stops here

import _winapi  # noqa: E402

ERROR_ACCESS_DENIED: Final = 5
ERROR_PIPE_BUSY: Final = 231
_GONE: Final = (_winapi.ERROR_BROKEN_PIPE, 232, 233)  # … ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED
_LONGEST_WAIT: Final = 0x7FFF_FFFF  # milliseconds; the longest number of all stands for no end

_QUERY_LIMITED: Final = 0x1000  # PROCESS_QUERY_LIMITED_INFORMATION
_TOKEN_QUERY: Final = 0x8
_TOKEN_USER: Final = 1  # TOKEN_INFORMATION_CLASS.TokenUser
_TOKEN_USER_BYTES: Final = 512  # a pointer, a number, and a SID of 68 bytes at most
# A server of somebody else's may learn who we are, and never act as us.
_SQOS_IDENTIFICATION: Final = 0x0010_0000 | 0x0001_0000  # SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION

_kernel = ctypes.WinDLL("kernel32", use_last_error=True)
_advapi = ctypes.WinDLL("advapi32", use_last_error=True)

_kernel.GetNamedPipeServerProcessId.argtypes = (wintypes.HANDLE, wintypes.LPDWORD)
_kernel.GetNamedPipeServerProcessId.restype = wintypes.BOOL
_kernel.LocalFree.argtypes = (wintypes.HLOCAL,)
_kernel.LocalFree.restype = wintypes.HLOCAL
_advapi.OpenProcessToken.argtypes = (wintypes.HANDLE, wintypes.DWORD, wintypes.LPHANDLE)
_advapi.OpenProcessToken.restype = wintypes.BOOL
_advapi.GetTokenInformation.argtypes = (
    wintypes.HANDLE,
    ctypes.c_int,
    wintypes.LPVOID,
    wintypes.DWORD,
    wintypes.LPDWORD,
)
_advapi.GetTokenInformation.restype = wintypes.BOOL
_advapi.ConvertSidToStringSidW.argtypes = (wintypes.LPVOID, ctypes.POINTER(wintypes.LPWSTR))
_advapi.ConvertSidToStringSidW.restype = wintypes.BOOL


def succeeded(done: int) -> None:
    """OSError of the system's last error where a call returned 0. At once after the call."""
    if not done:
        raise ctypes.WinError(ctypes.get_last_error())


def current_user() -> str:
    """The SID of the user this process runs as, such as `S-1-5-21-…`."""
    return _user_of(_winapi.GetCurrentProcess())


def user_of(pid: int) -> str:
    """The SID of the user that a process runs as; OSError where it is gone or may not be asked."""
    process = _winapi.OpenProcess(_QUERY_LIMITED, False, pid)
    try:
        return _user_of(process)
    finally:
        _winapi.CloseHandle(process)


def _user_of(process: int) -> str:
    token = wintypes.HANDLE()
    succeeded(_advapi.OpenProcessToken(process, _TOKEN_QUERY, ctypes.byref(token)))
    try:
        # TOKEN_USER begins with the pointer to the SID, which lies in the same memory
        found = (ctypes.c_void_p * (_TOKEN_USER_BYTES // ctypes.sizeof(ctypes.c_void_p)))()
        size = wintypes.DWORD()
        succeeded(_advapi.GetTokenInformation(token, _TOKEN_USER, found, ctypes.sizeof(found), ctypes.byref(size)))
        text = wintypes.LPWSTR()
        succeeded(_advapi.ConvertSidToStringSidW(found[0], ctypes.byref(text)))
        try:
            return text.value or ""
        finally:
            _kernel.LocalFree(ctypes.cast(text, ctypes.c_void_p))
    finally:
        _winapi.CloseHandle(token.value or 0)


def server_process(handle: int) -> int:
    """The id of the process that made the pipe."""
    pid = wintypes.DWORD()
    succeeded(_kernel.GetNamedPipeServerProcessId(handle, ctypes.byref(pid)))
    return pid.value


def open_pipe(name: str) -> int:
    """A handle of the client's end. FileNotFoundError where nobody has the pipe; OSError with `winerror` 231 while
    every instance is taken."""
    return _winapi.CreateFile(
        name,
        _winapi.GENERIC_READ | _winapi.GENERIC_WRITE,
        0,
        _winapi.NULL,
        _winapi.OPEN_EXISTING,
        _winapi.FILE_FLAG_OVERLAPPED | _SQOS_IDENTIFICATION,
        _winapi.NULL,
    )


def wait_for_pipe(name: str, milliseconds: int) -> None:
    """Until an instance is free, which somebody else may take first. OSError when none is in time, or ever."""
    _winapi.WaitNamedPipe(name, max(milliseconds, 1))  # 0 stands for the server's own choice


def read(handle: int, size: int, milliseconds: int) -> bytes:
    """At most `size` bytes, as soon as there are some; none once the other end is closed. TimeoutError."""
    try:
        overlapped, _ = _winapi.ReadFile(handle, size, overlapped=True)
        done = _finish(overlapped, milliseconds)
    except OSError as error:
        if error.winerror in _GONE:
            return b""
        raise
    found = overlapped.getbuffer()
    if not done and not found:
        raise TimeoutError
    return found or b""


def write(handle: int, data: bytes, milliseconds: int) -> None:
    """All of `data`. TimeoutError, after which some of it may have been sent; BrokenPipeError."""
    overlapped, _ = _winapi.WriteFile(handle, data, overlapped=True)
    if not _finish(overlapped, milliseconds):
        raise TimeoutError


def is_closed(handle: int) -> bool:
    """Whether the other end is closed and all it sent is read, as far as is known without waiting."""
    try:
        _winapi.PeekNamedPipe(handle)
    except OSError:
        return True
    return False


def close(handle: int) -> None:
    _winapi.CloseHandle(handle)


def _finish(overlapped: _winapi.Overlapped, milliseconds: int) -> bool:
    """Wait for the end of an operation; past the time it is cancelled, and False is the answer. Its memory is the
    system's until then, so in either case the end is waited for."""
    finished = False
    try:
        waited = _winapi.WaitForMultipleObjects([overlapped.event], False, min(max(milliseconds, 0), _LONGEST_WAIT))
        finished = waited == _winapi.WAIT_OBJECT_0
    finally:
        if not finished:
            overlapped.cancel()
        _, problem = overlapped.GetOverlappedResult(True)
    return problem != _winapi.ERROR_OPERATION_ABORTED
