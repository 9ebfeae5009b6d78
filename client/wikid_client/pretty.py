"""Lines on a terminal, styled by rich. The words are those of the plain output."""

from __future__ import annotations

import os
from collections.abc import Iterable
from io import StringIO
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
OFF: Final = "off"
EDITORS: Final = {
    "vscode": "vscode://file{path}:{line}",
    "cursor": "cursor://file{path}:{line}",
    "zed": "zed://file{path}:{line}",
    "idea": "idea://open?file={path}&line={line}",
    "textmate": "txmt://open?url=file://{path}&line={line}",
    "obsidian": "obsidian://open?path={path}",
}


def rendered(lines: Iterable[Line], width: int) -> str:
    """The lines as a terminal wants them. Long lines are left for the terminal to fold."""
    out = StringIO()
    console = Console(file=out, width=width, highlight=False, markup=False, emoji=False, force_terminal=True)
    for each in lines:
        text = Text.assemble(*((span.text, _style(span)) for span in each), no_wrap=True, overflow="ignore")
        console.print(text, soft_wrap=True)
    return out.getvalue()


def _style(span: Span) -> Style:
    style = _STYLES.get(span.style, _PLAIN)
    link = _target(span) if os.path.isabs(span.link) else ""
    return style.update_link(link) if link else style


def _target(span: Span) -> str:
    """Where a click leads: to the file, or into the editor that `WIKID_LINKS` names or gives an address for."""
    wanted = os.environ.get("WIKID_LINKS", "")
    address = EDITORS.get(wanted, wanted)
    if address == OFF:
        return ""
    uri = Path(span.link).as_uri()
    path = uri.removeprefix("file://")
    return address.replace("{path}", path).replace("{line}", str(span.at or 1)) if "{path}" in address else uri


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
