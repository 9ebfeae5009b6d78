"""How far a long step is, told as often as a person can see it move, and never backwards."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float | None], None]
"""What a step is called, and how much of it is done, 0–100; None where that cannot be told."""
Told = Callable[[int, int], None]
"""How much is done, and of how much; the latter may grow on the way. All of all ends the step."""


def untold(_done: int, _whole: int) -> None:
    """For whoever does not want to know."""


def telling(progress: Progress, message: str) -> Told:
    """Tells `progress` each further hundredth of the step."""
    last = -1

    def tell(done: int, whole: int) -> None:
        nonlocal last
        share = 100 if done >= whole else 100 * done // whole
        if share > last:
            last = share
            progress(message, float(share))

    return tell
