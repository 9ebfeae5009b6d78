"""How long a call has taken and has left."""

from __future__ import annotations

import time

FOREVER = float("inf")


class Clock:
    """Starts when it is made. `limit_ms` is the whole of the call's time, None for as long as it takes."""

    def __init__(self, limit_ms: float | None = None) -> None:
        self._started = time.perf_counter()
        self._limit = FOREVER if limit_ms is None else limit_ms

    @property
    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self._started) * 1e3

    @property
    def left_ms(self) -> float:
        """Negative once the time is over."""
        return self._limit - self.elapsed_ms
