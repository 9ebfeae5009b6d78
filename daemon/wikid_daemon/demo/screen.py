"""What the tour looks like: numbered steps, the command each stands for, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wikid_client.console import Console
from wikid_client.layout.notes import hanging
from wikid_client.layout.spans import BLANK, Line, Span, Style, row


@dataclass(frozen=True, slots=True)
class Screen:
    """Writes each part at once, so that a reader at the other end of a pipe sees the tour as it goes."""

    console: Console

    def step(self, title: str) -> None:
        """The head of the next step."""
        self.show([BLANK, row(Span(title, "title"))])

    def command(self, text: str) -> None:
        """What a person would type."""
        self.show([row(Span("$ ", "dim"), Span(text, "id"))])

    def say(self, text: str, style: Style = "") -> None:
        """A sentence or two, wrapped."""
        self.show(hanging("", text, self.console.width, 0, style))

    def show(self, lines: list[Line]) -> None:
        self.console.show(lines)
        self.console.flush()


def short(path: Path) -> str:
    """The path with `~` for the user's home."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
