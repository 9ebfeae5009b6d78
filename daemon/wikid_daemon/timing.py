"""How long a call has taken and has left."""

from __future__ import annotations

import time
from collections.abc import Callable

FOREVER = float("inf")


class Clock:
    """Starts when it is made. `limit_ms` is the whole of the call's time, None for as long as it takes. Nothing is left
    of it once the call is `over`."""

    def __init__(self, limit_ms: float | None = None, over: Callable[[], bool] = lambda: False) -> None:
        self._started = time.perf_counter()
        self._limit = FOREVER if limit_ms is None else limit_ms
        self._over = over

    @property
    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self._started) * 1e3

    @property
    def left_ms(self) -> float:
        """Negative once the time is over."""
        return -FOREVER if self._over() else self._limit - self.elapsed_ms
