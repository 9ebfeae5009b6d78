"""A vault's files as the indexer sees them: a file or folder that never answers is told, and stops nobody."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from wikid_daemon import files
from wikid_daemon.core.document import MAX_BYTES
from wikid_daemon.core.manifest import Scan
from wikid_daemon.threads import Alive, Cancelled, Threads, TimedOut
from wikid_daemon.vault.scan import RootUnavailable, scan, scan_paths
from wikid_daemon.vault.vault import OutsideVault, Vault, read_page

READERS: Final = 4
READ_SECONDS: Final = 10.0
GLANCE_SECONDS: Final = 0.05  # somebody waits for an answer
LOOK_SECONDS: Final = 60.0  # without one more entry of a folder; the whole of a large vault may take longer
ROUND_FILES: Final = 16  # in memory at a time, of `MAX_BYTES` at most
SLOW_SECONDS: Final = 0.002  # a file; where several threads wait at once is worth more than what they cost each other

READ_TIMED_OUT: Final = "read_timed_out"
NOT_ANSWERING: Final = "not_answering"

Found = files.FileBytes | str


class VaultReader:
    """What looks into one vault's folder for any thread, by at most six of its own."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self._reads = Threads(f"read-{vault.name}", READERS, READ_SECONDS)
        # apart from the reads: where some files hang, those that are new, changed or gone are found all the same
        self._looks = Threads(f"look-{vault.name}", 1, LOOK_SECONDS)
        self._glances = Threads(f"glance-{vault.name}", 1, GLANCE_SECONDS)
        self._slow = False
        self._lock = threading.Lock()
        self._hanging: set[str] = set()

    def scan(self, known_pages: int, wanted: Alive = lambda: None) -> Scan:
        """A look at every file. RootUnavailable, also where the folder does not answer; Cancelled, and what `wanted`
        raises, which is called at each file."""

        def look(alive: Alive) -> Scan:
            def at_each() -> None:
                alive()
                wanted()

            return scan(self.vault, known_pages=known_pages, alive=at_each)

        return self._looked(look)

    def scan_paths(self, paths: Iterable[str]) -> Scan:
        """A look at these files and folders. RootUnavailable, also where the folder does not answer; Cancelled."""
        return self._looked(lambda alive: scan_paths(self.vault, paths, alive=alive))

    def pages(self, paths: Sequence[str]) -> Iterator[tuple[str, Found]]:
        """Each file's bytes, or a stable word for why it cannot be read, in the order asked for. Cancelled."""
        for start in range(0, len(paths), ROUND_FILES):
            yield from self._round(paths[start : start + ROUND_FILES])

    def gone(self, paths: Collection[str]) -> Collection[str]:
        """Those of the paths at which nothing is; none of them where the folder does not answer at once."""
        if not paths:
            return ()
        root = self.vault.pages_root
        try:
            return self._glances.begin(lambda _alive: [path for path in paths if not os.path.lexists(root / path)])()
        except (TimedOut, Cancelled):
            return ()

    def close(self) -> None:
        """End every wait, by Cancelled; what hangs is left to itself."""
        self._reads.close()
        self._looks.close()
        self._glances.close()

    def _looked(self, look: Callable[[Alive], Scan]) -> Scan:
        try:
            return self._looks.begin(look)()
        except TimedOut as problem:
            raise RootUnavailable(NOT_ANSWERING) from problem

    def _round(self, paths: Sequence[str]) -> Iterator[tuple[str, Found]]:
        """Read by one thread in one piece, which costs a fast disk nothing, or by all of them where it is slow."""
        started = time.monotonic()
        share = -(-len(paths) // READERS) if self._slow else len(paths)
        pieces = [
            _Piece(self.vault, paths[at : at + share], self._lock, self._hanging) for at in range(0, len(paths), share)
        ]
        for piece, wait in [(piece, self._reads.begin(piece.read)) for piece in pieces]:
            with contextlib.suppress(TimedOut):  # then it has fewer results than files
                wait()
            piece.close()
        self._slow = (time.monotonic() - started) * len(pieces) > SLOW_SECONDS * len(paths)
        for piece in pieces:
            yield from zip(piece.paths, piece.found, strict=False)
            if piece.rest:
                yield piece.rest[0], READ_TIMED_OUT
                yield from self.pages(piece.rest[1:])


class _Piece:
    """Files that one thread reads one after the other. After `close` nothing more is found, however late it comes; a
    file that is still being read then is one of `hanging` until that ends, and not tried again so long."""

    def __init__(self, vault: Vault, paths: Sequence[str], lock: threading.Lock, hanging: set[str]) -> None:
        self.paths = paths
        self.found: list[Found] = []
        self._vault = vault
        self._lock = lock
        self._hanging = hanging
        self._reading: str | None = None
        self._closed = False

    def read(self, alive: Alive) -> None:
        for path in self.paths:
            alive()
            if self._may_read(path):
                self._end(path, _read(self._vault, path))

    def _may_read(self, path: str) -> bool:
        with self._lock:
            if self._closed:
                return False
            if path in self._hanging:
                self.found.append(READ_TIMED_OUT)
                return False
            self._reading = path
            return True

    def _end(self, path: str, found: Found) -> None:
        with self._lock:
            self._reading = None
            if self._closed:
                self._hanging.discard(path)
            else:
                self.found.append(found)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._reading is not None:
                self._hanging.add(self._reading)

    @property
    def rest(self) -> Sequence[str]:
        """The file that did not answer and those after it."""
        return self.paths[len(self.found) :]


def _read(vault: Vault, path: str) -> Found:
    try:
        return read_page(vault, path, MAX_BYTES)
    except OutsideVault:
        return "outside_vault"
    except (files.NotReadable, OSError) as problem:
        return files.failure_reason(problem)
