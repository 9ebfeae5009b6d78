"""The proof that a vault's watcher lives, and another watcher where that fails.

Where the generated tree lies in the vault, a marker file must come back through the watcher as an event. Elsewhere the
periodic scan must find nothing that no event told of. What was proven last, and when, is told in `status`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import structlog

from wikid_daemon.core.manifest import below
from wikid_daemon.vault.state import MARKERS
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vault.watcher import MARKER_PREFIX, Watcher, WatchState

CANARY_SECONDS: Final = 30.0
PATIENCE_SECONDS: Final = 5.0  # until a marker counts as lost, and a change that a scan found as never told
MISSES: Final = 2

log = structlog.get_logger("canary")


class ProvenWatcher:
    """One vault's watcher at a time. `tend` and `compare` belong to the indexer's thread, `reached` to any. `begun` is
    set when it first tells of its state; one that watches has called for a look at everything before."""

    def __init__(
        self,
        vault: Vault,
        on_change: Callable[[set[str]], None],
        on_state: Callable[[WatchState], None],
        *,
        new_watcher: Callable[..., Watcher] = Watcher,
        canary_seconds: float = CANARY_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._vault = vault
        self._on_change = on_change
        self._on_state = on_state
        self._new_watcher = new_watcher
        self._canary_seconds = canary_seconds
        self._patience_seconds = patience_seconds
        self._proof = threading.Condition()
        self._markers: set[str] = set()
        self._canary: str | None = None
        self._misses = 0
        self._next = time.monotonic() + canary_seconds
        self._told: set[str] = set()
        self._told_before: set[str] = set()
        self._untold: dict[str, float] = {}
        self._replaced = ""
        self.last_proof: datetime | None = None
        self.begun = threading.Event()
        self._watcher = self._made()

    # -- from any thread -----------------------------------------------------------------------------------------------

    def reached(self, seconds: float) -> bool:
        """Whether every change made before this call has been reported, as a marker dropped now proves in time."""
        marker = self._drop()
        if marker is None:
            self.prove_soon()
            return False
        with self._proof:
            if self._proof.wait_for(lambda: marker not in self._markers, seconds):
                return True
            self._lose(marker)
            self.prove_soon()  # whether it is slow or dead
        return False

    def prove_soon(self) -> None:
        """Have the next `tend` ask for a proof, where none is awaited."""
        with self._proof:
            if self._canary is None:
                self._next = time.monotonic()

    @property
    def doubtful(self) -> bool:
        """Whether the last marker did not come back, or nothing watches at all: changes may go unnoticed."""
        return self._misses > 0 or not self._watcher.alive

    @property
    def due(self) -> float:
        """When (monotonic seconds) `tend` has something to do."""
        with self._proof:
            return min([self._next, *self._untold.values()])

    # -- the indexer's thread ------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._sweep()
        self._watcher.start()

    def close(self) -> None:
        self._watcher.close()

    def tend(self) -> None:
        """Where it is due: judge what should have been reported by now, and replace the watcher or ask for a proof."""
        now = time.monotonic()
        if now < self.due:
            return
        with self._proof:
            if self._canary is not None and now >= self._next:
                self._lose(self._canary)
            fault = self._fault(now)
            if fault is None:
                self._canary = self._drop()
                self._next = now + (self._canary_seconds if self._canary is None else self._patience_seconds)
        if fault is not None:
            self._replace(fault)

    def compare(self, changed: Collection[str]) -> None:
        """A whole scan found these pages changed: each must have been told before, or be told soon.

        Call it only where the look before ended well. It judges nothing where markers do, or while polling.
        """
        with self._proof:
            # what is told while a scan runs may be found by it or by the next
            told = self._told | self._told_before
            self._told, self._told_before = set(), self._told
            if self._vault.state_outside is None or self._watcher.state.mode != "watching":
                return
            until = time.monotonic() + self._patience_seconds
            for path in set(changed) - set(below(changed, told)):
                self._untold.setdefault(path, until)
            self._note_comparison()

    # -- within --------------------------------------------------------------------------------------------------------

    def _made(self) -> Watcher:
        """A new watcher, whose reports count as long as it is the one in use."""
        made: list[Watcher] = []

        def state(watch: WatchState) -> None:
            if made[0] is self._watcher:
                self._on_state(self._explained(watch))
                self.begun.set()

        def marker(name: str) -> None:
            if made[0] is self._watcher:
                self._prove(name)

        made.append(self._new_watcher(self._vault, self._change, state, on_marker=marker))
        return made[0]

    def _explained(self, watch: WatchState) -> WatchState:
        return replace(watch, reason=self._replaced) if watch.mode == "watching" else watch

    def _change(self, paths: set[str]) -> None:
        with self._proof:
            self._told |= paths
            if self._untold:
                for path in below(list(self._untold), paths):
                    del self._untold[path]
                self._note_comparison()
        self._on_change(paths)

    def _note_comparison(self) -> None:
        if not self._untold:
            self.last_proof = datetime.now(UTC)

    def _fault(self, now: float) -> str | None:
        """Why the watcher cannot be relied on, if so."""
        if not self._watcher.alive:
            return "its thread ended"
        if self._watcher.misses_markers:
            return "the folder of its markers was made anew"
        if any(until <= now for until in self._untold.values()):
            return "a scan found what no event had told"
        return "markers did not come back" if self._misses >= MISSES else None

    def _drop(self) -> str | None:
        with self._proof:
            marker = self._watcher.drop_marker()
            if marker is not None:
                self._markers.add(marker)
        return marker

    def _prove(self, marker: str) -> None:
        with self._proof:
            self._markers.discard(marker)
            if marker == self._canary:
                self._canary = None
            self._misses = 0
            self._next = time.monotonic() + self._canary_seconds
            self.last_proof = datetime.now(UTC)
            self._proof.notify_all()

    def _lose(self, marker: str) -> None:
        self._markers.discard(marker)
        self._misses += 1
        if marker == self._canary:
            self._canary = None
        with contextlib.suppress(OSError):  # swept when the next watcher starts
            (self._vault.state / MARKERS / marker).unlink()

    def _replace(self, why: str) -> None:
        log.warning("watcher_replaced", vault_id=self._vault.vault_id, kind=why)
        self._replaced = f"replaced at {datetime.now(UTC).isoformat(timespec='seconds')}: {why}"
        with self._proof:
            old, self._watcher = self._watcher, self._made()
            self._misses, self._canary, self._untold = 0, None, {}
            self._next = time.monotonic() + self._patience_seconds
        self._on_state(WatchState("stopped", self._replaced))
        old.close()
        self.start()

    def _sweep(self) -> None:
        """Markers that nobody took away, after a crash say, tell nothing any more."""
        if self._vault.state_outside is not None:
            return
        for left in (self._vault.state / MARKERS).glob(f"{MARKER_PREFIX}*"):
            left.unlink(missing_ok=True)
