"""The command's parser: flags that stand before or after a sub-command, and usage errors in two lines."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NoReturn, Self

from wikid_client.console import columns, open_console
from wikid_protocol.errors import EXIT_USAGE

EVERYWHERE: Final = "everywhere"
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


class _Row(argparse.Action):
    """A line of help that is no argument."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, metavar=dest, **options)


class CommandParser(argparse.ArgumentParser):
    """Takes the flags of everywhere. Only the outermost one has defaults for them; an inner one's would win over it."""

    def __init__(
        self,
        *,
        outermost: bool = False,
        sections: Mapping[str, Sequence[str]] = MappingProxyType({}),
        exit_codes: Mapping[int, str] = MappingProxyType({}),
        **options: Any,
    ) -> None:
        """`sections` are titles and the names of the commands that the outermost help lists below them."""
        super().__init__(allow_abbrev=False, formatter_class=_Help, **options)
        self._positionals.title = "arguments"
        self._sections = sections
        self._exit_codes = exit_codes
        self._actions_of_mine: argparse._SubParsersAction[Self] | None = None
        self._add_everywhere(None if outermost else argparse.SUPPRESS, False if outermost else argparse.SUPPRESS)

    def _add_everywhere(self, value: str | None, flag: bool | str) -> None:
        add = self.add_argument_group(EVERYWHERE).add_argument
        add("--vault", metavar="V", default=value, help="a vault's name or id, or active, personal, project, all")
        add("--json", action="store_true", default=flag, help="the wire's result, one object on a line")
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

    def format_help(self) -> str:
        """The usual help; where there are sections, commands by what they are for, then flags, then exit codes."""
        if not self._sections or self._actions_of_mine is None:
            return super().format_help()
        named = {each.dest: each for each in self._actions_of_mine._get_subactions()}
        known = {name for names in self._sections.values() for name in names}
        others = [name for name in named if name not in known]
        formatter = self._get_formatter()
        formatter.add_text(f"usage: {self.prog} COMMAND … [options]")
        formatter.add_text(self.description)
        for title, names in (*self._sections.items(), ("other", others)):
            formatter.start_section(title)
            formatter.add_arguments([named[name] for name in names if name in named])
            formatter.end_section()
        for group in self._action_groups:
            if group.title == EVERYWHERE:
                formatter.start_section(EVERYWHERE)
                formatter.add_arguments([each for each in group._group_actions if each.help != argparse.SUPPRESS])
                formatter.end_section()
        formatter.start_section("exit codes")
        formatter.add_arguments([_Row([], str(code), help=meaning) for code, meaning in self._exit_codes.items()])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def error(self, message: str) -> NoReturn:
        open_console().failed(message, f"{self.prog} --help")
        self.exit(EXIT_USAGE)


def seconds(text: str) -> float:
    """A positive number of seconds, or a usage error."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return found
