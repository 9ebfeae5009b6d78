"""The command's parser: flags that stand before or after a sub-command, and usage errors in two lines."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, Self

from wikid_client.console import columns
from wikid_protocol.errors import EXIT_USAGE

WITH_VALUE = ("--vault", "--socket", "--timeout")


class _Help(argparse.HelpFormatter):
    """Told its width, because argparse loads `shutil` to find it, and makes a formatter for every argument."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns(os.environ, sys.stdout) - 2)

    def add_argument(self, action: argparse.Action) -> None:
        """Measure sub-commands where they stand: argparse forgets their indent, and breaks the line of the longest."""
        super().add_argument(action)
        for each in self._iter_indented_subactions(action):
            length = len(self._format_action_invocation(each)) + self._current_indent
            self._action_max_length = max(self._action_max_length, length)


class CommandParser(argparse.ArgumentParser):
    """Takes the flags of everywhere. Only the outermost one has defaults for them; an inner one's would win over it."""

    def __init__(self, *, outermost: bool = False, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_Help, **options)
        self._actions_of_mine: argparse._SubParsersAction[Self] | None = None
        self._add_everywhere(None if outermost else argparse.SUPPRESS, False if outermost else argparse.SUPPRESS)

    def _add_everywhere(self, value: str | None, flag: bool | str) -> None:
        add = self.add_argument_group("everywhere").add_argument
        add("--vault", metavar="V", default=value, help="a vault's name or id, or active, personal, project, all")
        add("--json", action="store_true", default=flag, help="the wire's result, one object")
        add("--no-start", action="store_true", default=flag, help="fail rather than start the daemon")
        add("--socket", metavar="PATH", default=value, help="where the daemon listens")
        add("--timeout", metavar="S", type=seconds, default=value, help="seconds to wait for the answer")
        add("-v", "--verbose", action="store_true", default=flag, help="say more about errors")

    def sub_command(
        self, name: str, summary: str, run: Callable[..., int] | None = None, metavar: str = "ACTION"
    ) -> Self:
        """A parser for the sub-command `name`, which `run(options, console)` carries out."""
        if self._actions_of_mine is None:
            kind = type(self)
            self._actions_of_mine = self.add_subparsers(metavar=metavar, required=True, parser_class=kind)
        sub = self._actions_of_mine.add_parser(name, help=summary, description=summary)
        if run is not None:
            sub.set_defaults(run=run)
        return sub

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"error: {message}\nhint: {self.prog} --help\n")


def seconds(text: str) -> float:
    """A positive number of seconds, or a usage error."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return found
