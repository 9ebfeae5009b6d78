"""`wikid demo` as a person runs it, in a world where everything that it leaves behind can be seen."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import HANG_GUARD_SECONDS, environment, tree, until
from daemon_process import WIKID
from wikid_daemon.models.catalogue import DEFAULT_MODEL
from wikid_daemon.models.location import models_folder

TOUR_SECONDS = 180.0
INSTALLERS_OWN = ("uv", "pip")  # what package installers cache for themselves
NO_INDEX = {"UV_OFFLINE": "1", "PIP_NO_INDEX": "1"}
NO_MODEL = {"WIKID_EMBED_MODEL": "one-that-nobody-has"}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its screen was never tried on Windows")


class World:
    """A home, a cache and a folder for temporary files of its own; `more` adds to the environment."""

    def __init__(self, home: Path, temporary: Path) -> None:
        self.home, self.temporary = home, temporary
        self.cache = home / "xdg_cache_home"
        self.cache.mkdir(parents=True)
        # version managers put commands of their own on the path, which make files in the home of whoever calls them
        path = os.pathsep.join((str(WIKID.parent), "/usr/bin", "/bin"))
        self.env = {**environment(home), "TMPDIR": str(temporary), "PATH": path}
        self._before = tree(home)

    def give_model(self, cache: Path) -> None:
        """Let the model in the cache folder `cache` be the one that is already built."""
        mine = models_folder(self.cache / "wikid")
        mine.mkdir(parents=True)
        shutil.copytree(models_folder(cache / "wikid") / DEFAULT_MODEL, mine / DEFAULT_MODEL)
        self._before = tree(self.home)

    def start(self, errors: Path, **more: str) -> subprocess.Popen[str]:
        """Start the demo in a process group of its own. Its output can be read as it comes."""
        # a signal that is ignored here, as under nohup, would be ignored there
        ignored = signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with errors.open("w") as sink, contextlib.ExitStack() as after:
            after.callback(signal.signal, signal.SIGHUP, ignored)
            return subprocess.Popen(
                [str(WIKID), "demo"],
                env={**self.env, **more},
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                start_new_session=True,
            )

    def run(self, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the demo to its end."""
        return subprocess.run(
            [str(WIKID), "demo"],
            env={**self.env, **more},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TOUR_SECONDS,
            check=False,
        )

    def assert_nothing_left(self) -> None:
        """No file of the demo and no process that was given this world's environment."""
        assert list(self.temporary.iterdir()) == []
        mine = {
            path: digest
            for path, digest in tree(self.home).items()
            if not path.startswith(tuple(f"{self.cache.name}/{name}/" for name in INSTALLERS_OWN))
        }
        assert mine == self._before
        assert self.processes() == []

    def processes(self) -> list[str]:
        """Command lines of the processes that live in this world, where the system shows them."""
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if os.fsencode(self.temporary) in (each / "environ").read_bytes():
                    found.append((each / "cmdline").read_text().replace("\0", " "))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue  # gone meanwhile, or another user's
        return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    temporary = Path(tempfile.mkdtemp(prefix="wikid-test-", dir="/tmp"))
    yield World(tmp_path / "home", temporary)
    shutil.rmtree(temporary)


@pytest.fixture
def silent_index() -> Iterator[socket.socket]:
    """A package index that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(HANG_GUARD_SECONDS)
        yield listener


def joined(text: str) -> str:
    """The text in one line, as if it had not been wrapped."""
    return " ".join(text.replace("│", " ").split())


def answers(output: str) -> list[str]:
    """What follows each recall command, up to the next empty step, in one line each."""
    return [joined(part.split("\n$ ")[0]) for part in re.split(r"^\$ wikid recall .*$", output, flags=re.MULTILINE)[1:]]


def assert_a_persons_answers(output: str) -> None:
    known, disputed, nothing, saved = answers(output)
    assert "notes:concepts/autovacuum-tuning concept · canonical" in known
    assert "derived from: Observation: Autovacuum stalled on events table" in known
    question = re.search(r"Which of the two applies: (\S+) or (\S+)\?", disputed)
    assert question is not None
    assert {each.rpartition(":")[2] for each in question.groups()} == {
        "concepts/pgbouncer-supports-prepared-statements",
        "concepts/pgbouncer-breaks-prepared-statements",
    }
    assert nothing.startswith("No reliable memory.")
    assert "notes:concepts/webhook-secret-rotation" in saved


def test_the_tour_with_the_model_shows_three_answers_and_times_a_saved_note(world: World, model_cache: Path) -> None:
    world.give_model(model_cache)
    done = world.run()
    assert done.returncode == 0, done.stderr
    assert_a_persons_answers(done.stdout)
    assert f"{DEFAULT_MODEL} is already there" in joined(done.stdout)
    times = re.search(
        r"Found by its words (\d+) ms after it was saved; it had its vector after (\d+) ms", joined(done.stdout)
    )
    assert times is not None
    assert 0 < int(times[1]) <= int(times[2])
    assert max(map(len, done.stdout.splitlines())) <= 80
    world.assert_nothing_left()


def test_without_a_package_index_it_goes_on_in_words_and_says_so(world: World) -> None:
    done = world.run(**NO_INDEX)
    assert done.returncode == 0, done.stderr
    assert_a_persons_answers(done.stdout)
    assert "There is no model." in done.stdout
    assert re.search(r"Found by its words \d+ ms after it was saved; without a model", joined(done.stdout))
    assert "meaning 0." not in done.stdout
    world.assert_nothing_left()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_in_the_middle_leaves_nothing(world: World, name: str, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with world.start(errors, **NO_MODEL) as demo:
        assert demo.stdout is not None
        until(lambda: demo.stdout is None or demo.stdout.readline().startswith("$ wikid recall"), "the first recall")
        if name == "SIGINT":
            os.killpg(demo.pid, signal.SIGINT)  # as a terminal does
        else:
            demo.send_signal(signal.Signals[name])
        demo.stdout.read()
        assert demo.wait(HANG_GUARD_SECONDS) == 130, errors.read_text()
    world.assert_nothing_left()


def test_a_signal_while_the_model_is_fetched_ends_the_fetching(
    world: World, silent_index: socket.socket, tmp_path: Path
) -> None:
    index = f"http://127.0.0.1:{silent_index.getsockname()[1]}/simple"
    errors = tmp_path / "errors"
    with world.start(errors, UV_DEFAULT_INDEX=index, PIP_INDEX_URL=index, PIP_CONFIG_FILE=os.devnull) as demo:
        asking, _ = silent_index.accept()
        with asking:  # an installer asks, and waits
            demo.terminate()
            assert demo.wait(HANG_GUARD_SECONDS) == 130, errors.read_text()
    until(lambda: not world.processes(), "the installer being gone")
    world.assert_nothing_left()


def test_a_daemon_that_cannot_start_is_told_and_nothing_is_left(world: World, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "faiss.py").write_text("raise ImportError('no such library here')\n")
    done = world.run(PYTHONPATH=str(broken), **NO_MODEL)
    assert done.returncode == 5
    assert "error: the daemon left at once with exit code 1" in done.stderr
    assert "no such library here" in done.stderr
    world.assert_nothing_left()


def test_an_unknown_argument_is_refused_before_anything_starts(world: World) -> None:
    done = subprocess.run([str(WIKID), "demo", "--nothing"], env=world.env, capture_output=True, check=False)
    assert done.returncode == 2
    world.assert_nothing_left()
