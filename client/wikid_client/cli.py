"""The `wikid` command: finds the sub-command, loads its module alone, and turns errors into a line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

from wikid_client.commands.parser import WITH_VALUE, CommandParser
from wikid_client.console import Console, open_console
from wikid_protocol import __version__
from wikid_protocol.errors import EXIT_INTERNAL, EXIT_OK, RequestRefused, WikidError

EXIT_INTERRUPTED: Final = 130


class Row(NamedTuple):
    """Which module of `wikid_client.commands` has the command, and what it does."""

    module: str
    summary: str


COMMANDS: Final[dict[str, Row]] = {
    "recall": Row("recall", "what the vaults remember about a question"),
    "search": Row("pages", "exact look-up of pages by title, alias, id or tag"),
    "show": Row("pages", "one page: text, relations, backlinks"),
    "status": Row("status", "the daemon, its models and the vaults"),
    "vault": Row("vault", "add, remove, list, init, resolve"),
    "sync": Row("index", "wait until everything saved is searchable"),
    "reindex": Row("index", "bring the index up to date, or build it anew"),
    "verify": Row("index", "compare the index with a fresh build"),
    "events": Row("events", "what happened in a vault"),
    "feedback": Row("feedback", "say what a recalled page was good for"),
    "signal": Row("feedback", "tell what became of recalled pages"),
    "lint": Row("lint", "what is worth saying about a vault"),
    "rebuild-meta": Row("lint", "make a vault's generated files anew"),
    "observe": Row("curation", "note down what was seen"),
    "retro": Row("curation", "note down what was learned"),
    "conflicts": Row("curation", "claims that dispute each other, and what was decided"),
    "resolve": Row("curation", "decide which of two claims holds"),
    "config": Row("config", "get, set or list the settings"),
    "models": Row("models", "list and build the models"),
    "start": Row("lifecycle", "start the daemon"),
    "stop": Row("lifecycle", "stop the daemon"),
    "restart": Row("lifecycle", "stop the daemon and start it again"),
    "serve": Row("handover", "be the daemon, in the foreground"),
    "get-socket": Row("lifecycle", "print where the daemon listens"),
    "demo": Row("handover", "a tour with a sample vault; leaves nothing behind"),
    "bench": Row("handover", "measure recall against judged queries"),
}
PASSED_ON: Final = ("demo", "bench")  # their arguments are read by the daemon's own modules


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code (protocol, The command)."""
    words = list(sys.argv[1:] if argv is None else argv)
    console = open_console()
    try:
        code = _run(words, console)
        console.flush()
    except WikidError as error:
        console.failed(error.args[0] if error.args else type(error).__name__, error.hint)
        if isinstance(error, RequestRefused) and _is_verbose(words):
            console.note(f"kind: {error.kind}")
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        console.abandon()
        return EXIT_OK
    except Exception as error:  # noqa: BLE001 - the last frame: said on standard error, with exit code 5
        if _is_verbose(words):
            sys.excepthook(type(error), error, error.__traceback__)
        console.failed(f"wikid itself failed ({type(error).__name__})", "the same command with -v shows where")
        return EXIT_INTERNAL
    return code


def _run(words: list[str], console: Console) -> int:
    place = _command_place(words)
    name = words[place] if place is not None else None
    if place is not None and name in PASSED_ON:
        handover: Any = import_module("wikid_client.commands.handover")
        code: int = handover.pass_on(name, [*words[:place], *words[place + 1 :]])
        return code
    parser = _parser(name)
    if name is not None and name not in COMMANDS:
        parser.error(f"there is no command {name!r}")
    options = parser.parse_args(words)
    finished: int = options.run(options, console)
    return finished


def _is_verbose(words: list[str]) -> bool:
    return "-v" in words or "--verbose" in words


def _command_place(words: list[str]) -> int | None:
    """Where the sub-command stands: the first word that is neither an option nor an option's value."""
    skip = False
    for place, word in enumerate(words):
        if skip:
            skip = False
        elif word in WITH_VALUE:
            skip = True
        elif word == "--" or not word.startswith("-"):
            return place if word != "--" else None
    return None


def _parser(name: str | None) -> CommandParser:
    """The parser with the one command filled in; with the names of all where none is given."""
    parser = CommandParser(
        outermost=True,
        prog="wikid",
        description="One memory over your Markdown vaults, for every editor, agent and terminal.",
        epilog="Exit codes: 0 done, 1 finding or refusal, 2 usage, 3 daemon unreachable, 4 vault, 5 internal.",
    )
    parser.add_argument("--version", action="version", version=f"wikid {__version__}")
    for each, row in COMMANDS.items():
        if name in COMMANDS and each != name:
            continue
        sub = parser.sub_command(each, row.summary, metavar="COMMAND")
        if each == name:
            module: Any = import_module(f"wikid_client.commands.{row.module}")
            getattr(module, f"configure_{each.replace('-', '_')}")(sub)
    return parser


if __name__ == "__main__":
    sys.exit(main())
