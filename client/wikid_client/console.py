"""What the command writes and where: results on standard output, coloured on a terminal; notes on standard error."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, TextIO

import orjson

from wikid_client.layout.spans import Line, plain

PIPED_WIDTH: Final = 80
_NARROWEST: Final = 40
_WIDEST: Final = 100
_RED: Final = "\x1b[1;31m{}\x1b[0m"
_DIM: Final = "\x1b[2m{}\x1b[0m"

_STAND_INS: Final = {
    "·": "-",
    "→": "->",
    "│": "|",
    "…": "...",
    "§": "#",
    "✓": "*",
    "✗": "x",
    "–": "-",
    "’": "'",
    "█": "#",
    "░": ".",
}


@dataclass(frozen=True, slots=True)
class Console:
    """`width` in columns; `colour` and `bars` say whether standard output and standard error are a willing terminal,
    `moves` whether the cursor of standard output can be moved."""

    out: TextIO
    err: TextIO
    width: int
    colour: bool
    bars: bool
    moves: bool = False

    def show(self, lines: Iterable[Line]) -> None:
        """For a person."""
        self.out.write(self.rendered(lines))

    def rendered(self, lines: Iterable[Line]) -> str:
        """The lines as `show` writes them."""
        if not self.colour:
            return plain(lines)
        # rich takes longer to load than most commands take
        pretty: Any = import_module("wikid_client.pretty")
        found: str = pretty.rendered(lines, self.width)
        return found

    def text(self, text: str) -> None:
        self.out.write(text)

    def json(self, record: object) -> None:
        """The wire's result: one object on one line, in UTF-8 whatever the locale says."""
        data = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        if isinstance(self.out, io.TextIOWrapper):
            self.out.flush()
            self.out.buffer.write(data)
        else:
            self.out.write(data.decode())

    def note(self, text: str) -> None:
        """One line beside the result."""
        self.err.write(text + "\n")

    def failed(self, message: str, hint: str) -> None:
        """What went wrong, and what to do next."""
        error, hinted = (_RED, _DIM) if self.bars else ("{}", "{}")
        self.note(f"{error.format('error:')} {message}")
        if hint:
            self.note(f"{hinted.format('hint:')} {hint}")

    def flush(self) -> None:
        self.out.flush()

    def abandon(self) -> None:
        """Write nothing more: the reader has gone, and flushing at exit must not complain about it."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.out.fileno())


def open_console(env: Mapping[str, str] | None = None) -> Console:
    """The console of this process. Characters that its encoding lacks get stand-ins; nothing is refused."""
    env = os.environ if env is None else env
    # a stream that was closed before the command began is None
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    codecs.register_error("wikid_stand_in", _stand_in)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="wikid_stand_in")
    able = env.get("TERM", "dumb") != "dumb"
    willing = able and not env.get("NO_COLOR") and env.get("CLICOLOR") != "0"
    return Console(
        out=sys.stdout,
        err=sys.stderr,
        width=columns(env, sys.stdout),
        colour=willing and _is_terminal(sys.stdout) and find_spec("rich") is not None,
        bars=willing and _is_terminal(sys.stderr) and find_spec("rich") is not None,
        moves=able and _is_terminal(sys.stdout),
    )


def columns(env: Mapping[str, str], out: TextIO) -> int:
    """How wide text for `out` may be: the terminal's width within bounds, or a common one where there is none."""
    given = env.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        found = int(given)
    elif _is_terminal(out):
        found = os.get_terminal_size(out.fileno()).columns or PIPED_WIDTH
    else:
        found = PIPED_WIDTH
    return max(_NARROWEST, min(found, _WIDEST))


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _is_terminal(stream: TextIO) -> bool:
    return not stream.closed and stream.isatty()


def _stand_in(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    wanted = error.object[error.start : error.end]
    return "".join(_STAND_INS.get(each, "?") for each in wanted), error.end
