"""A view that is drawn again and again in the same place of a terminal, and leaves its last state behind."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Final, Self

from wikid_client.console import Console
from wikid_client.layout.spans import Line, Span, row

# the other screen has no scrollback to fill, and without wrapping a line stays one row
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_EMPTY_ROW: Final = "\x1b[2K"
_REST_OF_SCREEN: Final = "\x1b[J"
_FEWEST_ROWS: Final = 5
_TERMINATED: Final = 128 + signal.SIGTERM


class Screen:
    """The terminal's other screen while it is open. The console must be one whose cursor `moves`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: Sequence[Line] = ()

    def __enter__(self) -> Self:
        self._console.text(_ENTER)
        self._console.flush()
        self._before = signal.signal(signal.SIGTERM, _terminated)
        if sys.platform != "win32":
            signal.signal(signal.SIGTSTP, self._suspended)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGTERM, self._before)
        if sys.platform != "win32":
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        if kind is not None and issubclass(kind, BrokenPipeError):
            return  # the terminal itself has gone
        self._console.text(_LEAVE)
        self._console.show(self._last)
        self._console.flush()

    if sys.platform != "win32":

        def _suspended(self, number: int, _frame: FrameType | None) -> None:
            """Ctrl-Z: the shell gets its own screen, until it lets this go on."""
            place = self._console.out.fileno()
            os.write(place, _LEAVE.encode())  # not through the console, which may be in the middle of writing
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            signal.signal(number, self._suspended)
            os.write(place, _ENTER.encode())

    def draw(self, lines: Sequence[Line]) -> None:
        """Show these lines in the place of those before; what does not fit is counted."""
        self._last = lines
        rows = self._rows()
        if len(lines) > rows:
            more = len(lines) - rows + 1
            lines = [*lines[: rows - 1], row(Span(f"… {more} more lines than fit here", "dim"))]
        # a row is emptied before it is written: behind a full one the cursor still stands on its last column
        drawn = "".join(f"{_EMPTY_ROW}{each}\r\n" for each in self._console.rendered(lines).split("\n")[:-1])
        self._console.text(f"{_HOME}{drawn}{_REST_OF_SCREEN}")
        self._console.flush()

    def _rows(self) -> int:
        """One less than there are, for the cursor stands below what is drawn."""
        return max(os.get_terminal_size(self._console.out.fileno()).lines - 1, _FEWEST_ROWS)


def _terminated(_number: int, _frame: FrameType | None) -> None:
    sys.exit(_TERMINATED)
