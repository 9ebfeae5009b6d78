"""Tries again what a wrong, half or missing model file kept from working, once the files have changed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

LOOK_SECONDS: Final = 5.0
REST_SECONDS: Final = 60.0  # between two attempts: a file that is being copied changes all the time
MOST_FILES: Final = 500

Seen = tuple[tuple[str, int, int], ...]


class Mending:
    """Looks at `places`, where a model would lie, while it is `lacking`, and calls `again` after they have changed."""

    def __init__(
        self,
        lacking: Callable[[], bool],
        places: Callable[[], Iterable[Path]],
        again: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lacking = lacking
        self._places = places
        self._again = again
        self._now = now
        self._seen: Seen = ()
        self._tried = float("-inf")
        self._started = threading.Lock()

    def start(self, name: str) -> None:
        """Look every few seconds from now on, on a thread of its own."""
        if self._started.acquire(blocking=False):
            threading.Thread(target=self._run, name=name, daemon=True).start()

    def attempt(self) -> None:
        """An attempt is about to be made: only what changes from here on is worth another one."""
        self._seen, self._tried = files_in(self._places()), self._now()

    def look(self) -> bool:
        """Try again where that may help now; whether it was tried."""
        if not self._lacking() or self._now() < self._tried + REST_SECONDS or files_in(self._places()) == self._seen:
            return False
        self._again()
        return True

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            self.look()


def files_in(places: Iterable[Path]) -> Seen:
    """The files below the places with size and time of change, as many as a model may have."""
    found: list[tuple[str, int, int]] = []
    for place in places:
        for folder, _, names in os.walk(place):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    status = os.stat(path)
                except OSError:
                    found.append((path, -1, -1))
                else:
                    found.append((path, status.st_size, status.st_mtime_ns))
            if len(found) >= MOST_FILES:
                return tuple(sorted(found))
    return tuple(sorted(found))
