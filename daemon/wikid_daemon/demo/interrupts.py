"""Ctrl-C and its kin, let through only where the demo can be left at any line."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_NAMES: Final = ("SIGINT", "SIGTERM", "SIGHUP")


class Interrupts:
    """Turns the first SIGINT, SIGTERM or SIGHUP into one KeyboardInterrupt, raised inside `allowed` alone.

    Elsewhere a signal waits: what starts something can note it, and what clears up is never cut short.
    """

    def __init__(self) -> None:
        self._came = self._raised = self._open = False

    def install(self) -> None:
        """From now on for the life of the process, in the main thread. What the caller has ignored stays ignored."""
        for each in (signal.Signals[name] for name in _NAMES if name in signal.Signals.__members__):
            if signal.getsignal(each) is not signal.SIG_IGN:
                signal.signal(each, self._on_signal)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """A signal interrupts what is inside; one that waited does so at once."""
        with self._passing(True):
            yield

    @contextmanager
    def held(self) -> Iterator[None]:
        """A signal waits for the end of what is inside."""
        with self._passing(False):
            yield

    @contextmanager
    def _passing(self, now: bool) -> Iterator[None]:
        before, self._open = self._open, now
        try:
            self._interrupt()
            yield
        finally:
            self._open = before
        self._interrupt()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
        self._interrupt()

    def _interrupt(self) -> None:
        if self._came and self._open and not self._raised:
            self._raised = True
            raise KeyboardInterrupt
