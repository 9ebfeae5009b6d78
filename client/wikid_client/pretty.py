"""Lines on a terminal, styled by rich. The words are those of the plain output."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.style import Style
from rich.text import Text

from wikid_client.caller import Progress as Step
from wikid_client.layout.spans import Line, Span
from wikid_client.text import line

_STYLES: Final = {
    "title": Style(bold=True),
    "id": Style(color="cyan"),
    "dim": Style(dim=True),
    "match": Style(bold=True, color="yellow"),
    "label": Style(color="magenta"),
    "good": Style(color="green"),
    "warn": Style(color="yellow"),
    "bad": Style(color="red"),
}
_PLAIN: Final = Style()


def show(lines: Iterable[Line], out: TextIO, width: int) -> None:
    """Write the lines to `out`, which is a terminal. Long lines are left for the terminal to fold."""
    console = Console(file=out, width=width, highlight=False, markup=False, emoji=False, force_terminal=True)
    for each in lines:
        text = Text.assemble(*((span.text, _style(span)) for span in each), no_wrap=True, overflow="ignore")
        console.print(text, soft_wrap=True)


def _style(span: Span) -> Style:
    style = _STYLES.get(span.style, _PLAIN)
    return style.update_link(Path(span.link).as_uri()) if os.path.isabs(span.link) else style


class Bar:
    """A progress bar on standard error that goes away when the work is done."""

    def __init__(self, err: TextIO, title: str) -> None:
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=Console(file=err, highlight=False, markup=False, emoji=False, force_terminal=True),
            transient=True,
        )
        self._task = self._bars.add_task(title, total=None)

    def start(self) -> None:
        self._bars.start()

    def step(self, step: Step) -> None:
        total = None if step.percentage is None else 100
        if step.message:
            self._bars.update(self._task, description=line(step.message))
        self._bars.update(self._task, total=total, completed=step.percentage or 0)

    def stop(self) -> None:
        self._bars.stop()
