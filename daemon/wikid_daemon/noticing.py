"""A worker that is told at which paths something may have changed, and takes them a few at a time."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

from wikid_daemon.core.arrivals import Arrivals
from wikid_daemon.updater import IndexState
from wikid_daemon.worker import Worker

SLICE: Final = 50  # paths that are looked at together, so that a save amid thousands waits for few of them
SHORTEST_SECONDS: Final = 0.01


class Noticing(Worker):
    """What is noticed counts as pending until it is taken."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.state = IndexState()
        self._arrivals = Arrivals()

    def notice(self, paths: set[str]) -> None:
        """Something may have changed at these paths, relative to the pages' folder; "" is everything. Any thread."""
        with self._wake:
            self._arrivals.add(paths)
            self.state.pending = len(self._arrivals)
            self._wake.notify()

    # -- the thread ----------------------------------------------------------------------------------------------------

    @property
    def _noticed(self) -> set[str]:
        """Everything that is not taken yet."""
        with self._wake:
            return self._arrivals.paths

    @property
    def _arrived(self) -> bool:
        """Whether something is to be looked at now."""
        with self._wake:
            return self._arrivals.any_ready(time.monotonic())

    @property
    def _called(self) -> bool:
        """Whether there is something that work without haste makes way for."""
        return self._asked or self._stopping or self._arrived

    def _taken(self, needed: Collection[str] = ()) -> set[str]:
        """What is to be looked at next; of what rests, only what is `needed`."""
        with self._wake:
            return self._arrivals.take(time.monotonic(), SLICE, needed)

    def _looked_at(self, paths: Collection[str], busy: float) -> None:
        """Let these rest after a look that kept a processor busy for so many seconds."""
        with self._wake:
            self._arrivals.looked_at(paths, time.monotonic(), busy)

    def _wait_until(self, due: float) -> None:
        """Sleep until something is to be done, or that time (monotonic seconds) has come."""
        with self._wake:
            if not self._called:
                due = min(due, self._arrivals.next_ready)
                self._wake.wait(max(due - time.monotonic(), SHORTEST_SECONDS))
