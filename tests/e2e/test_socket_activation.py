"""The daemon behind a socket that somebody else holds, as systemd does: started by the first call, and watched.

`systemd-socket-activate` stands for the manager; what the manager would hear arrives in a socket of the test's own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from builders import base_notes, until
from daemon_process import WIKID, DaemonProcess
from wikid_client import Client, RequestRefused
from wikid_client.caller import Progress

ACTIVATE = shutil.which("systemd-socket-activate")
pytestmark = pytest.mark.skipif(ACTIVATE is None, reason="NOT CHECKED: systemd-socket-activate is not here")

WATCHDOG_USEC = 100_000


class Service:
    """`wikid serve` as a service of `world`, whose process becomes the daemon at the first call."""

    def __init__(self, world: DaemonProcess) -> None:
        self.endpoint = world.endpoint
        self.world = world
        self._manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._listening = threading.Thread(target=self._listen, name="service-manager")
        self._heard: list[str] = []

    def __enter__(self) -> Self:
        address = self.endpoint.with_name("notify")
        self._manager.bind(str(address))
        self._listening.start()
        passed = {
            **{name: value for name, value in self.world.env.items() if name != "WIKID_SOCKET"},
            "NOTIFY_SOCKET": str(address),
            "WATCHDOG_USEC": str(WATCHDOG_USEC),
        }
        output = (self.world.home / "daemon.out").open("ab")
        with output:
            self.process = subprocess.Popen(
                [
                    str(ACTIVATE),
                    f"--listen={self.endpoint}",
                    *(f"--setenv={name}={value}" for name, value in passed.items()),
                    str(WIKID),
                    "serve",
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._manager.shutdown(socket.SHUT_RDWR)
        self._listening.join()
        self._manager.close()

    def _listen(self) -> None:
        while told := self._manager.recv(4_096):
            self._heard += told.decode().splitlines()

    def heard(self, state: str) -> int:
        """How often the manager was told so, until now."""
        return self._heard.count(state)

    def until_listening(self) -> None:
        until(self.endpoint.is_socket, "the manager's socket")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[DaemonProcess]:
    found = DaemonProcess(tmp_path / "home")
    yield found
    found.discard()


@pytest.fixture
def service(world: DaemonProcess) -> Iterator[Service]:
    with Service(world) as found:
        found.until_listening()
        yield found


def test_the_first_call_starts_it_the_manager_hears_of_it_and_sigterm_drains_it(
    service: Service, tmp_path: Path
) -> None:
    client = service.world.client
    assert client.ping(timeout=60).pid == service.process.pid
    until(lambda: service.heard("READY=1") == 1, "readiness")
    beats = service.heard("WATCHDOG=1")
    until(lambda: service.heard("WATCHDOG=1") >= beats + 2, "the watchdog being fed")
    assert client.status().daemon.endpoint == str(service.endpoint)

    base_notes(tmp_path / "notes")
    service.world.add(tmp_path / "notes", "notes")

    steps: list[Progress] = []

    def end(step: Progress) -> None:
        if not steps:  # a second signal would hurry it
            service.process.send_signal(signal.SIGTERM)
        steps.append(step)

    # a call in flight is answered; one that takes longer than the drain is told that it was cut short
    with contextlib.suppress(RequestRefused):
        assert client.reindex(scope="all", force=True, vault="notes", progress=end).vaults
    assert steps
    assert service.process.wait(60) == 0
    until(lambda: service.heard("STOPPING=1") == 1, "the end being told")
    assert service.endpoint.is_socket(), "the manager's own, which it goes on listening at"


def test_many_first_calls_at_once_are_all_answered_by_the_one_service(service: Service) -> None:
    def pid(_number: int) -> int:
        with Client(endpoint=service.endpoint, start=False) as client:
            return client.ping(timeout=60).pid

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(pid, range(6))) == {service.process.pid}


def test_stop_says_that_the_service_will_start_it_again(service: Service) -> None:
    done = service.world.wikid("stop", "--timeout", "60")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("wikid has stopped. The next command starts it again, through its service")
    assert service.process.wait(60) == 0
    assert service.endpoint.is_socket()


def test_a_daemon_that_ran_before_gives_way_to_the_service(world: DaemonProcess) -> None:
    world.start()
    with Service(world) as service:

        def answering() -> int:
            with world.connect() as client:
                return client.ping(timeout=60).pid

        until(lambda: answering() == service.process.pid, "the service answering")
        ended = os.waitid(os.P_PID, world.pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        assert (ended.si_code, ended.si_status) == (os.CLD_EXITED, 0), "it was asked to stop, and drained"
        world.stop()
