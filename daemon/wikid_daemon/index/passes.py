"""Passes through a session that another thread may end before they are through."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

import onnxruntime

LOOK_MS: Final = 20.0  # between two looks at whether what is computed is still wanted

T = TypeVar("T")


class Ended(Exception):
    """The pass was ended, or never begun, because nobody waits for it any more."""


class Passes:
    """All passes of one piece of work, in whatever threads. ONNX Runtime looks between two operators whether it should
    stop, so that a pass ends in the time that one operator takes."""

    def __init__(self) -> None:
        self._guard = threading.RLock()  # a generator may be collected, and end its passes, anywhere
        self._under_way: set[Any] = set()
        self._ended = False

    def run(self, session: Any, outputs: Sequence[str], feed: dict[str, Any]) -> Any:
        """What `session.run` gives. Ended."""
        options = onnxruntime.RunOptions()
        with self._guard:
            if self._ended:
                raise Ended
            self._under_way.add(options)
        try:
            return session.run(outputs, feed, options)
        except Exception as problem:
            if self._ended:  # ONNX Runtime has no type of its own for this
                raise Ended from problem
            raise
        finally:
            with self._guard:
                self._under_way.discard(options)

    def end(self) -> None:
        """End those under way, and let no other begin."""
        with self._guard:
            self._ended = True
            for options in self._under_way:
                options.terminate = True

    @property
    def ended(self) -> bool:
        return self._ended


def finished(work: Sequence[Future[T]], passes: Passes, left_ms: Callable[[], float], reserve_ms: float) -> list[T]:
    """The results in order, those that came in time: with `reserve_ms` left, or none at all because the caller is gone,
    the passes are ended. What the work raises is raised, except Ended."""
    waiting = set(work)
    while waiting:
        left = left_ms() - reserve_ms
        if left <= 0:
            passes.end()
        waiting = wait(waiting, max(min(left, LOOK_MS), 1.0) / 1e3).not_done
    found = []
    for each in work:
        try:
            found.append(each.result())
        except Ended:
            break
    return found
