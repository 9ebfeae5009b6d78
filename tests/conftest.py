"""Fixtures for all tests: copies of the sample vaults, real daemons, and the real model built once."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from daemon_process import DaemonProcess
from wikid_daemon.log import CALL
from wikid_daemon.models.catalogue import DEFAULT_MODEL
from wikid_daemon.models.location import SETTINGS_FILE, models_folder
from wikid_protocol.endpoint import folders

DATA = Path(__file__).parent / "data"

# whoever runs the tests in the background has them ignore interrupts, and so would every program that they start
signal.signal(signal.SIGINT, signal.default_int_handler)


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
