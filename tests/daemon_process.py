"""The daemon as a real process in a world of its own: home, XDG folders, and a socket whose path is short."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from builders import environment, until
from privacy import leaks
from wikid_client import Client, DaemonNotRunning, VaultRecord, VaultStatus
from wikid_daemon.index import jvm_archive

WIKID = Path(sys.executable).with_name("wikid")
NOT_HELD = "needs setpriv, or a user who is not root"
_SETPRIV = shutil.which("setpriv")
_AS_ANYBODY = "-dac_override,-dac_read_search,-fowner"


def _held_to_permissions() -> tuple[str, ...] | None:
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return ()
    if _SETPRIV is None:
        return None
    return (_SETPRIV, f"--inh-caps={_AS_ANYBODY}", f"--bounding-set={_AS_ANYBODY}")


HELD_TO_PERMISSIONS = _held_to_permissions()
"""What a daemon runs under so that permissions hold it as they hold anybody: root reads and writes whatever they say.
None where that cannot be."""


class JavaArchive:
    """One archive of Java's for every daemon of the tests. With one of its own, each would start without, and make it
    only after a minute."""

    def __init__(self) -> None:
        self._kept: Path | None = None
        self._made = False

    def keep_below(self, cache: Path) -> None:
        """Where it is made as soon as a daemon needs it, or lies from an earlier run. Before this there is none."""
        self._kept = cache

    def give_to(self, cache: Path) -> None:
        """Let the cache folder `cache` have it, unless that has its own."""
        if self._kept is None:
            return
        if not self._made:
            with suppress(jvm_archive.NotArchived):  # then they start as on a machine that cannot have one
                jvm_archive.make(self._kept)
            self._made = True
        given, made = cache / jvm_archive.FOLDER, self._kept / jvm_archive.FOLDER
        if made.is_dir() and not given.exists():
            cache.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):  # commands run side by side
                given.symlink_to(made)


JAVA_ARCHIVE = JavaArchive()


class DaemonProcess:
    """Runs `python -m wikid_daemon` below `home`; `kill` and `start` again is a crash and a restart.

    `more` adds to the environment, `under` is a command that runs it. `client` is one open connection to it, renewed by
    `start`.
    """

    def __init__(self, home: Path, *, under: Sequence[str] = (), **more: str) -> None:
        self.home = home
        self._under = tuple(under)
        # a socket's path has 103 bytes, which pytest's own folders use up
        self._runtime = Path(tempfile.mkdtemp(prefix="wikid-test-", dir="/tmp"))
        self.endpoint = self._runtime / "wikid.sock"
        home.mkdir(parents=True, exist_ok=True)
        self.env = {**environment(home), "WIKID_SOCKET": str(self.endpoint), **more}
        self._process: subprocess.Popen[bytes] | None = None
        self._roots: list[Path] = []
        self.client = self.connect()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.discard()

    def discard(self) -> None:
        """Drop the connection and the socket's folder, and see that nothing private was written on the way."""
        self.client.close()
        shutil.rmtree(self._runtime, ignore_errors=True)
        told = leaks(self.log_text(), self._roots)
        assert told == [], "the log holds text that is private"

    def log_text(self) -> str:
        """All that the daemon wrote for people so far: its log files and its output."""
        files = [self.home / "daemon.out", *self.home.rglob("wikid.log*")]
        return "\n".join(file.read_text(errors="replace") for file in files if file.is_file())

    def connect(self, *, start: bool = False) -> Client:
        return Client(endpoint=self.endpoint, start=start)

    def start(self) -> None:
        """Start the process and wait until it answers."""
        self.spawn()
        until(self._answers, "the daemon's first answer")

    def spawn(self) -> None:
        """Start the process without waiting for anything."""
        self._give_archive()
        command = [*self._under, sys.executable, "-P", "-m", "wikid_daemon"]
        output = (self.home / "daemon.out").open("ab")
        with output:
            self._process = subprocess.Popen(
                command, env=self.env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def _give_archive(self) -> None:
        cache = Path(self.env["XDG_CACHE_HOME"])
        if cache.is_relative_to(self.home):  # or it is somebody else's
            JAVA_ARCHIVE.give_to(cache / "wikid")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.home / "daemon.out").read_text()
        try:
            return self.client.ping().pid == self._process.pid
        except DaemonNotRunning:
            return False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End the process as a crash does: at once, with nothing written."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.client.close()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the process as a suspended machine does, and let it go on afterwards."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> int:
        """Ask the process to end, and return its exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(30)

    def wikid(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run the `wikid` command to its end."""
        self._give_archive()  # many start a daemon
        command = [str(WIKID), *arguments]
        return subprocess.run(
            command, env=self.env, cwd=cwd or self.home, capture_output=True, text=True, timeout=60, check=False
        )

    # -- what tests wait for -------------------------------------------------------------------------------------------

    def add(self, root: Path, name: str | None = None) -> VaultRecord:
        """Register a vault and wait until all of it is searchable."""
        self._roots.append(root)
        record = self.client.vault_add(str(root), name=name)
        self.client.sync(vault=record.vault_id)
        return record

    def status(self, vault: str) -> VaultStatus:
        return self.client.status(vault=vault).vaults[0]

    def found(self, query: str, vault: str | None = "all", *, mode: str = "lexical", limit: int = 10) -> list[str]:
        """The page ids of an explicit recall, in order, whatever their place in a bundle; without missing pages."""
        answer = self.client.recall(query, vault=vault, mode=mode, max_results=limit)
        ids = []
        for bundle in answer.bundles:
            cards = (bundle.card,) if bundle.card is not None else ()
            ids += [each.page_id for each in (*cards, *bundle.evidence, *bundle.conflicts) if not each.missing]
        return ids

    def until_found(self, query: str, page_id: str, vault: str | None = "all") -> None:
        until(lambda: page_id in self.found(query, vault), f"{page_id} being found")

    def until_gone(self, query: str, vault: str | None = "all") -> None:
        until(lambda: not self.found(query, vault), "nothing being found")


def environ_with(path_first: Sequence[Path]) -> dict[str, str]:
    """`PYTHONPATH` with these folders first, so that what they hold hides the installed packages of that name."""
    return {"PYTHONPATH": os.pathsep.join(map(str, path_first))}
