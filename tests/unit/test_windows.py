"""The thin layers over Windows, on stand-ins for its libraries that check each argument as ctypes would."""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from serving import scenario, until
from wikid_client import launch
from wikid_daemon import files, instance
from wikid_protocol import messages
from wikid_protocol.endpoint import token_path

NAME = "\\\\.\\pipe\\wikid-test"
SID = "S-1-5-21-1-2-3-1001"
SHOWN = ("wikid_protocol.windows", "wikid_daemon.win32", "wikid_daemon.stop_signals")
TIMED_OUT, ABORTED = 258, 995

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="these are stand-ins for what is there")


class Failed(OSError):
    def __init__(self, winerror: int) -> None:
        super().__init__(0, "the system says no")
        self.winerror = winerror


class Function:
    """A function of a library: takes only what its argtypes take, and counts its calls."""

    argtypes: tuple[Any, ...] | None = None
    restype: Any = ctypes.c_int

    def __init__(self, work: Callable[..., int]) -> None:
        self._work = work
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *args: Any) -> int:
        assert self.argtypes is not None, "a call without argtypes cuts pointers to 32 bits"
        assert len(args) == len(self.argtypes)
        for kind, value in zip(self.argtypes, args, strict=True):
            kind.from_param(value)
        self.calls.append(args)
        return self._work(*args)


class Overlapped:
    """An operation that ends when it is waited for, or never."""

    event = 7

    def __init__(self, windows: Windows, outcome: bytes | int | OSError | None) -> None:
        self._windows = windows
        self.outcome = outcome
        self.cancelled = False
        self.ended = False

    def cancel(self) -> None:
        self.cancelled = True

    def GetOverlappedResult(self, wait: bool) -> tuple[int, int]:
        assert wait
        self.ended = True
        if isinstance(self.outcome, OSError):
            raise self.outcome
        if self.cancelled:
            return 0, ABORTED
        return (len(self.outcome), 0) if isinstance(self.outcome, bytes) else (self.outcome or 0, 0)

    def getbuffer(self) -> bytes | None:
        assert self.ended, "the system may still write there"
        return self.outcome if isinstance(self.outcome, bytes) else None


class Windows:
    """What the system was asked, and what it answers."""

    constants: ClassVar = {
        "NULL": 0,
        "GENERIC_READ": 0x8000_0000,
        "GENERIC_WRITE": 0x4000_0000,
        "OPEN_EXISTING": 3,
        "FILE_FLAG_OVERLAPPED": 0x4000_0000,
        "ERROR_BROKEN_PIPE": 109,
        "ERROR_OPERATION_ABORTED": ABORTED,
        "WAIT_OBJECT_0": 0,
        "PIPE_UNLIMITED_INSTANCES": 255,
    }

    def __init__(self) -> None:
        self.closed: list[int] = []
        self.created: list[tuple[Any, ...]] = []
        self.pipes: list[tuple[Any, ...]] = []
        self.attributes: list[tuple[int, int, int]] = []
        self.freed: list[int] = []
        self.handlers: list[Any] = []
        self.operations: list[Overlapped] = []
        self.outcomes: list[bytes | int | OSError | None] = []
        self.server_pid = 41
        self.denied: set[str] = set()
        self.peeked: OSError | None = None

    # -- _winapi -------------------------------------------------------------------------------------------------------

    def GetCurrentProcess(self) -> int:
        return 0xFFFF_FFFF_FFFF_FFFF

    def OpenProcess(self, access: int, inherit: bool, pid: int) -> int:
        assert (access, inherit) == (0x1000, False)
        if "OpenProcess" in self.denied:
            raise Failed(5)
        return 1_000 + pid

    def CloseHandle(self, handle: int) -> None:
        self.closed.append(handle)

    def CreateFile(self, name: str, *rest: int) -> int:
        self.created.append((name, *rest))
        if rest[2]:
            self.attributes.append(ctypes.cast(rest[2], ctypes.POINTER(_Attributes)).contents.values())
            Path(name).touch()
        return 55

    def CreateNamedPipe(self, *given: Any) -> int:
        self.pipes.append(given)
        self.attributes.append(ctypes.cast(given[-1], ctypes.POINTER(_Attributes)).contents.values())
        return 66

    def WaitNamedPipe(self, name: str, milliseconds: int) -> None:
        assert name == NAME
        assert milliseconds > 0
        raise Failed(121)

    def PeekNamedPipe(self, _handle: int) -> tuple[int, int]:
        if self.peeked is not None:
            raise self.peeked
        return 0, 0

    def ReadFile(self, _handle: int, _size: int, overlapped: bool) -> tuple[Overlapped, int]:
        assert overlapped
        return self._begun(), 997

    def WriteFile(self, handle: int, data: bytes, overlapped: bool = False) -> tuple[Any, int]:
        if not overlapped:
            Path(self.created[-1][0]).write_bytes(data)
            return len(data), 0
        assert handle
        return self._begun(), 997

    def WaitForMultipleObjects(self, events: list[int], every: bool, milliseconds: int) -> int:
        assert (events, every) == ([7], False)
        assert 0 <= milliseconds < 0xFFFF_FFFF
        return TIMED_OUT if self.operations[-1].outcome is None else 0

    def _begun(self) -> Overlapped:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BrokenPipeError):
            raise outcome
        self.operations.append(Overlapped(self, outcome))
        return self.operations[-1]

    # -- the libraries -------------------------------------------------------------------------------------------------

    def library(self, name: str, use_last_error: bool) -> Any:
        assert use_last_error
        libraries: dict[str, dict[str, Callable[..., int]]] = {
            "kernel32": {
                "GetNamedPipeServerProcessId": self._process(lambda: self.server_pid),
                "GetNamedPipeClientProcessId": self._process(lambda: 42),
                "LocalFree": self._free,
                "SetConsoleCtrlHandler": self._handle,
                "K32GetProcessMemoryInfo": self._memory,
            },
            "advapi32": {
                "OpenProcessToken": self._token,
                "GetTokenInformation": self._information,
                "ConvertSidToStringSidW": self._sid,
                "ConvertStringSecurityDescriptorToSecurityDescriptorW": self._descriptor,
            },
        }
        return types.SimpleNamespace(**{each: Function(work) for each, work in libraries[name].items()})

    def _process(self, pid: Callable[[], int]) -> Callable[..., int]:
        def ask(_handle: int, found: Any) -> int:
            found._obj.value = pid()
            return int("ProcessId" not in self.denied)

        return ask

    def _free(self, pointer: Any) -> int:
        self.freed.append(getattr(pointer, "value", pointer))
        return 0

    def _handle(self, handler: Any, add: bool) -> int:
        (self.handlers.append if add else self.handlers.remove)(handler)
        return 1

    def _memory(self, _process: int, found: Any, size: int) -> int:
        assert size == ctypes.sizeof(found._obj)
        found._obj.WorkingSetSize = 123_456
        return 1

    def _token(self, process: int, access: int, token: Any) -> int:
        assert process
        assert access == 0x8
        token._obj.value = 77
        return int("OpenProcessToken" not in self.denied)

    def _information(self, token: Any, kind: int, found: Any, size: int, used: Any) -> int:
        assert token.value == 77
        assert kind == 1
        assert size == ctypes.sizeof(found) >= 84
        found[0] = 4_711
        used._obj.value = 44
        return 1

    def _sid(self, sid: int, text: Any) -> int:
        assert sid == 4_711
        text._obj.value = SID
        return 1

    def _descriptor(self, text: str, revision: int, made: Any, size: Any) -> int:
        assert text.startswith("D:P(")
        assert (revision, size) == (1, None)
        made._obj.value = 9_000
        return 1


class _Attributes(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint32), ("descriptor", ctypes.c_void_p), ("inherit", ctypes.c_int32))

    def values(self) -> tuple[int, int, int]:
        return self.length, self.descriptor, self.inherit


class Held:
    """asyncio's PipeHandle."""

    def __init__(self, handle: int) -> None:
        self.handle = handle


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[Windows]:
    """Modules that this fixture's users import anew see a Windows made up here."""
    found = Windows()
    api = types.ModuleType("_winapi")
    for name in dir(found):
        if name[:1].isupper():
            setattr(api, name, getattr(found, name))
    for name, value in Windows.constants.items():
        setattr(api, name, value)
    utilities = types.ModuleType("asyncio.windows_utils")
    utilities.PipeHandle = Held  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "_winapi", api)
    monkeypatch.setitem(sys.modules, "asyncio.windows_utils", utilities)
    monkeypatch.setattr(ctypes, "WinDLL", found.library, raising=False)
    monkeypatch.setattr(ctypes, "WINFUNCTYPE", ctypes.CFUNCTYPE, raising=False)
    monkeypatch.setattr(ctypes, "get_last_error", lambda: 5, raising=False)
    monkeypatch.setattr(ctypes, "WinError", Failed, raising=False)
    kept = {name: sys.modules.pop(name, None) for name in SHOWN}
    parents = {name: sys.modules[name.rpartition(".")[0]] for name in SHOWN}
    monkeypatch.setattr(sys, "platform", "win32")
    yield found
    for name, module in kept.items():
        sys.modules.pop(name, None)
        short = name.rpartition(".")[2]
        if module is not None:
            sys.modules[name] = module
            setattr(parents[name], short, module)
        elif hasattr(parents[name], short):
            delattr(parents[name], short)


@pytest.fixture
def windows(system: Windows) -> Any:
    assert system
    return importlib.import_module("wikid_protocol.windows")


@pytest.fixture
def win32(system: Windows) -> Any:
    assert system
    return importlib.import_module("wikid_daemon.win32")


# -- who ---------------------------------------------------------------------------------------------------------------


def test_a_process_s_user_is_asked_for_and_every_handle_given_back(system: Windows, windows: Any) -> None:
    assert windows.user_of(12) == SID
    assert system.closed == [77, 1_012]
    assert len(system.freed) == 1
    assert windows.current_user() == SID


@pytest.mark.parametrize("denied", ["OpenProcess", "OpenProcessToken"])
def test_a_process_that_may_not_be_asked_is_an_error(denied: str, system: Windows, windows: Any) -> None:
    system.denied.add(denied)
    with pytest.raises(OSError, match="no"):
        windows.user_of(12)
    assert system.closed == ([1_012] if denied == "OpenProcessToken" else [])


def test_both_ends_of_a_pipe_are_named(system: Windows, windows: Any, win32: Any) -> None:
    assert windows.server_process(55) == 41
    assert win32.client_process(66) == 42
    system.denied.add("ProcessId")
    for ask in (windows.server_process, win32.client_process):
        with pytest.raises(OSError, match="no"):
            ask(55)


# -- a client's end ----------------------------------------------------------------------------------------------------


def test_a_pipe_is_opened_so_that_its_server_cannot_act_as_the_client(system: Windows, windows: Any) -> None:
    assert windows.open_pipe(NAME) == 55
    ((name, access, share, attributes, disposition, flags, template),) = system.created
    assert (name, share, attributes, disposition, template) == (NAME, 0, 0, 3, 0)
    assert access == 0xC000_0000
    assert flags == 0x4000_0000 | 0x0011_0000  # overlapped; the security quality given: identification


def test_bytes_are_read_as_they_come(system: Windows, windows: Any) -> None:
    system.outcomes = [b"some"]
    assert windows.read(55, 100, 1_000) == b"some"
    assert not system.operations[0].cancelled


@pytest.mark.parametrize("problem", [BrokenPipeError(), Failed(109), Failed(233)])
def test_a_closed_pipe_reads_as_its_end(problem: OSError, system: Windows, windows: Any) -> None:
    problem.winerror = getattr(problem, "winerror", 109)  # type: ignore[attr-defined]
    system.outcomes = [problem]
    assert windows.read(55, 100, 1_000) == b""


def test_any_other_problem_is_told(system: Windows, windows: Any) -> None:
    system.outcomes = [Failed(5)]
    with pytest.raises(Failed):
        windows.read(55, 100, 1_000)


def test_a_read_or_write_past_its_time_is_cancelled_and_over(system: Windows, windows: Any) -> None:
    system.outcomes = [None, None]
    with pytest.raises(TimeoutError):
        windows.read(55, 100, 5)
    with pytest.raises(TimeoutError):
        windows.write(55, b"data", 5)
    assert all(each.cancelled and each.ended for each in system.operations)


def test_an_interrupted_read_is_cancelled_before_its_memory_is_given_up(
    system: Windows, windows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["_winapi"], "WaitForMultipleObjects", interrupted)
    system.outcomes = [b"late"]
    with pytest.raises(KeyboardInterrupt):
        windows.read(55, 100, 1_000)
    assert system.operations[0].cancelled
    assert system.operations[0].ended


def test_writing_and_waiting_and_looking(system: Windows, windows: Any) -> None:
    system.outcomes = [4]
    windows.write(55, b"data", 1_000)
    with pytest.raises(Failed):
        windows.wait_for_pipe(NAME, 0)
    assert not windows.is_closed(55)
    system.peeked = Failed(109)
    assert windows.is_closed(55)
    windows.close(55)
    assert system.closed == [55]


# -- the daemon's end --------------------------------------------------------------------------------------------------


def test_an_instance_has_its_descriptor_and_is_not_inherited(system: Windows, win32: Any) -> None:
    made = win32.create_pipe(NAME, 1, 8, 2_000, f"D:P(A;;GA;;;{SID})")
    assert made.handle == 66
    ((name, open_mode, pipe_mode, instances, _, _, timeout, _),) = system.pipes
    assert (name, open_mode, pipe_mode, instances, timeout) == (NAME, 1, 8, 255, 2_000)
    assert system.attributes == [(ctypes.sizeof(_Attributes), 9_000, 0)]
    assert system.freed == [9_000]


def test_a_private_file_has_its_descriptor_before_its_name(system: Windows, win32: Any, tmp_path: Path) -> None:
    place = tmp_path / "token"
    place.write_bytes(b"old")
    win32.write_private(place, b"new", f"D:P(A;;GA;;;{SID})")
    assert place.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [place]
    ((name, _, share, _, disposition, _, _),) = system.created
    assert Path(name).parent == tmp_path
    assert Path(name) != place
    assert (share, disposition) == (0, 1)  # shared with nobody; only if there is no such file
    assert system.attributes == [(ctypes.sizeof(_Attributes), 9_000, 0)]
    assert system.closed == [55]


def test_a_reader_of_the_old_file_is_waited_for(win32: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[OSError] = [PermissionError(), PermissionError()]
    replace = os.replace

    def replacing(source: Any, target: Any) -> None:
        if problems:
            raise problems.pop()
        replace(source, target)

    monkeypatch.setattr(os, "replace", replacing)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(files, "_REPLACE_TRIES", 6)  # as it is on Windows
    win32.write_private(tmp_path / "token", b"new", "D:P()")
    assert (tmp_path / "token").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("outcomes", "answers"),
    [([9, b"{"], True), ([9, b""], False), ([9, None], False), ([None], False), ([BrokenPipeError()], False)],
)
def test_a_daemon_is_asked_whether_it_answers(outcomes: list[Any], answers: bool, system: Windows, win32: Any) -> None:
    system.outcomes = outcomes
    assert win32.pipe_answers(NAME, b"token\nping\n", 2.0) is answers
    assert system.closed[-1] == 55


def test_memory_in_use_is_what_the_system_says(win32: Any) -> None:
    assert win32.resident_bytes() == 123_456


# -- its process -------------------------------------------------------------------------------------------------------


def test_a_closing_console_is_told_and_given_time(system: Windows, win32: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(time, "sleep", lambda seconds: told.append(f"{seconds} s"))
    forget = win32.when_console_ends(lambda: told.append("end"))
    (handler,) = system.handlers
    assert handler(0) == handler(1) == 0
    assert told == []
    assert handler(2) == 1
    assert told == ["end", "4.5 s"]
    forget()
    assert system.handlers == []


@scenario
async def _stopped_by(number: signal.Signals, told: list[str]) -> None:
    watch = importlib.import_module("wikid_daemon.stop_signals").watch
    before = signal.getsignal(number)
    end = watch(told.append)
    os.kill(os.getpid(), number)
    await until(lambda: bool(told))
    end()
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("name", ["SIGINT", "SIGBREAK"])
def test_ctrl_c_and_ctrl_break_stop_the_daemon(name: str, system: Windows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "SIGBREAK", signal.SIGUSR1, raising=False)
    told: list[str] = []
    _stopped_by(getattr(signal, name), told)
    assert told == [signal.Signals(getattr(signal, name)).name]
    assert system.handlers == []


@scenario
async def _console_closed(system: Windows, told: list[str]) -> None:
    watch = importlib.import_module("wikid_daemon.stop_signals").watch
    end = watch(told.append)
    (handler,) = system.handlers
    assert await asyncio.to_thread(handler, 2) == 1
    await until(lambda: bool(told))
    end()


def test_a_closed_console_stops_the_daemon(system: Windows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "SIGBREAK", signal.SIGUSR1, raising=False)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    told: list[str] = []
    _console_closed(system, told)
    assert told == ["CTRL_CLOSE"]


@pytest.mark.parametrize("jailed", [False, True])
def test_a_daemon_that_a_client_starts_outlives_its_terminal(
    jailed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = {"CREATE_NO_WINDOW": 1, "CREATE_NEW_PROCESS_GROUP": 2, "CREATE_BREAKAWAY_FROM_JOB": 4}
    tried: list[int] = []

    def popen(_command: list[str], *, creationflags: int, **_: Any) -> str:
        tried.append(creationflags)
        if jailed and creationflags & 4:
            raise PermissionError
        return "child"

    for name, value in flags.items():
        monkeypatch.setattr(subprocess, name, value, raising=False)
    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(launch, "sys", types.SimpleNamespace(platform="win32"))
    assert launch._spawn(["python"], Path(NAME), tmp_path / "start.log") == "child"  # type: ignore[comparison-overlap]
    assert tried == ([7, 3] if jailed else [7])


def test_a_starting_daemon_asks_the_one_that_has_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bytes, float]] = []

    def answers(name: str, lines: bytes, seconds: float) -> bool:
        asked.append((name, lines, seconds))
        return True

    monkeypatch.setattr(instance, "sys", types.SimpleNamespace(platform="win32"))
    monkeypatch.setattr(instance, "win32", types.SimpleNamespace(pipe_answers=answers), raising=False)
    assert not instance._answers(Path(NAME), tmp_path)
    assert asked == []
    token_path(Path(NAME), tmp_path).write_bytes(b"token\n")
    assert instance._answers(Path(NAME), tmp_path)
    assert asked == [(NAME, b"token\n" + messages.request(0, "ping", {}), 2.0)]
