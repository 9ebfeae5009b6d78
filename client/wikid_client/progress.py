"""Shows the steps of a long call: a bar on a terminal, otherwise a line for each new message and each tenth part."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, TextIO

from wikid_client.caller import OnProgress, Progress
from wikid_client.console import Console
from wikid_client.text import line

_PATIENCE_SECONDS: Final = 0.5


@contextmanager
def shown(console: Console, title: str) -> Iterator[OnProgress]:
    """What to give to a call as `progress`. Everything goes to standard error."""
    if not console.bars:
        yield PlainProgress(console.err).step
        return
    pretty: Any = import_module("wikid_client.pretty")
    bar = pretty.Bar(console.err, title)
    bar.start()
    try:
        yield bar.step
    finally:
        bar.stop()


@contextmanager
def awaited(console: Console, title: str) -> Iterator[None]:
    """A bar for a call that tells no steps, once it takes longer than a moment; nothing where no terminal is."""
    if not console.bars:
        yield
        return
    patience = _Patience(console, title)
    patience.start()
    try:
        yield
    finally:
        patience.stop()


class _Patience:
    """Shows the bar a moment later, unless it is stopped before."""

    def __init__(self, console: Console, title: str) -> None:
        self._console, self._title = console, title
        self._guard = threading.Lock()
        self._timer = threading.Timer(_PATIENCE_SECONDS, self._show)
        self._timer.daemon = True
        self._bar: Any = None
        self._stopped = False

    def start(self) -> None:
        self._timer.start()

    def stop(self) -> None:
        self._timer.cancel()
        with self._guard:
            self._stopped = True
            if self._bar is not None:
                self._bar.stop()

    def _show(self) -> None:
        pretty: Any = import_module("wikid_client.pretty")
        with self._guard:
            if not self._stopped:
                self._bar = pretty.Bar(self._console.err, self._title)
                self._bar.start()


class PlainProgress:
    """Lines that a log can keep."""

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self._last = ("", -1)

    def step(self, step: Progress) -> None:
        message = line(step.message)
        tenth = -1 if step.percentage is None else int(step.percentage // 10)
        if not message or (message, tenth) == self._last:
            return
        self._last = (message, tenth)
        share = "" if step.percentage is None else f" ({step.percentage:.0f} %)"
        self._err.write(f"{message}{share}\n")
        self._err.flush()
