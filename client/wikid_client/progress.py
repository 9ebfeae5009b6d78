"""Shows the steps of a long call: a bar on a terminal, otherwise a line for each new message and each tenth part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TextIO

from wikid_client.caller import OnProgress, Progress
from wikid_client.console import Console
from wikid_client.text import line


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
