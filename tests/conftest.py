"""Fixtures for all tests: copies of the sample vaults, real daemons, and the real model built once."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from daemon_process import JAVA_ARCHIVE, DaemonProcess
from wikid_daemon.log import CALL
from wikid_daemon.models.catalogue import DEFAULT_MODEL
from wikid_daemon.models.location import SETTINGS_FILE, models_folder
from wikid_protocol.endpoint import folders

DATA = Path(__file__).parent / "data"

# how long an example may take would be an assertion about the machine
settings.register_profile("wikid", deadline=None)
settings.load_profile("wikid")

# whoever runs the tests in the background has them ignore interrupts, and so would every program that they start
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    # each Python has its own, for an archive takes the place of that of another installation
    JAVA_ARCHIVE.keep_below(config.cache.mkdir(f"java-{sys.implementation.cache_tag}"))


@pytest.fixture(autouse=True)
def fresh_log() -> Iterator[None]:
    """What a test set up for the log would go on to write into that test's own, closed, output, as of its own call."""
    yield
    CALL.set("")
    if structlog.is_configured():
        structlog.reset_defaults()


@pytest.fixture
def sample_vault(tmp_path: Path) -> Callable[[str], Path]:
    """Copies one of the sample vaults (personal, project, ugly) below `tmp_path`; called twice, it copies once."""

    def copied(name: str) -> Path:
        place = tmp_path / "vaults" / name
        return place if place.exists() else Path(shutil.copytree(DATA / name, place, symlinks=True))

    return copied


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    """A real daemon of this test alone, without a model."""
    with DaemonProcess(tmp_path / "home") as running:
        yield running


@pytest.fixture(scope="module")
def module_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("shared") / "home") as running:
        yield running


@pytest.fixture
def shared_daemon(module_daemon: DaemonProcess) -> Iterator[DaemonProcess]:
    """A real daemon without a model and, at first, without a vault, for tests that leave nothing behind but vaults.

    One for all of a module, since a start costs more than most tests.
    """
    yield module_daemon
    for each in module_daemon.client.vault_list().vaults:
        module_daemon.client.vault_remove(each.path)


@pytest.fixture(scope="session")
def model_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An `XDG_CACHE_HOME` that holds the default model: the user's own where it is there, else one that is built."""
    own = folders().cache
    if (models_folder(own) / DEFAULT_MODEL / SETTINGS_FILE).is_file():
        return own.parent
    home = tmp_path_factory.mktemp("model")
    with DaemonProcess(home) as running:
        running.client.models_build(DEFAULT_MODEL, timeout=900)
    return home / "xdg_cache_home"
