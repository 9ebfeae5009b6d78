"""Who has the processor: recalls while any is in flight, and bulk work in what they leave.

A recall marks the lane for as long as it lasts, its first look and its second one included. Meanwhile pieces of bulk
work are begun one at a time, and for a moment after it, because the next recall is then expected.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

ASKED_SECONDS: Final = 0.2  # for so long after a recall the next one is expected
REST_SHARE: Final = 4.0  # while power is saved: the rest after a piece, in lengths of the piece
LONGEST_REST_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 1.0  # between two looks at whether waiting work is still wanted


class GivenUp(Exception):
    """Nobody wants the piece of bulk work any more that waited for its turn."""


def never() -> bool:
    return False


class Lane:
    """One for all models. Any thread; a recall never waits in it. `saves_power` is asked before a piece of bulk work:
    while it holds they come one at a time with rests between them."""

    def __init__(self, saves_power: Callable[[], bool] = never, now: Callable[[], float] = time.monotonic) -> None:
        self.saves_power = saves_power
        self._now = now
        self._changed = threading.Condition()
        self._calls = 0
        self._asked = float("-inf")
        self._pieces = 0
        self._rest_until = float("-inf")

    @contextmanager
    def call(self) -> Iterator[None]:
        """A recall is in flight until the block ends."""
        with self._changed:
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._asked = self._now()
                self._changed.notify_all()

    @property
    def is_asked(self) -> bool:
        """Whether a recall is in flight, or the next one expected."""
        return self._calls > 0 or self._now() < self._asked + ASKED_SECONDS

    @contextmanager
    def piece(self, most: int, unwanted: Callable[[], bool] = never) -> Iterator[None]:
        """A piece of bulk work, begun once fewer than `most` others are in hand, or none while recalls come first.
        GivenUp where it is `unwanted` by then; see `stir`."""
        saves_power = self.saves_power()
        with self._changed:
            while not unwanted() and (seconds := self._until_turn(1 if saves_power else most)) > 0:
                self._changed.wait(min(seconds, LOOK_SECONDS))
            if unwanted():
                raise GivenUp
            self._pieces += 1
            began = self._now()
        try:
            yield
        finally:
            with self._changed:
                self._pieces -= 1
                now = self._now()
                if saves_power:
                    self._rest_until = now + min(REST_SHARE * (now - began), LONGEST_REST_SECONDS)
                self._changed.notify_all()

    def stir(self) -> None:
        """Waiting work may have become unwanted."""
        with self._changed:
            self._changed.notify_all()

    def _until_turn(self, most: int) -> float:
        """Seconds until it is worth looking again whether a piece may begin, 0 where it may now. With the lock held."""
        now = self._now()
        if now < self._rest_until:
            return self._rest_until - now
        if self._pieces < (1 if self.is_asked else most):
            return 0.0
        # at the end of a call or a piece everybody is woken; only that nobody asks any more comes by itself
        asked = self._asked + ASKED_SECONDS - now
        return asked if self._calls == 0 and asked > 0 else LOOK_SECONDS
