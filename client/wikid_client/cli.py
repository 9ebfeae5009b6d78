"""The `wikid` command: finds the sub-command, loads its module alone, and turns errors into a line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

from wikid_client.commands.parser import WITH_VALUE, CommandParser
from wikid_client.console import Console, open_console
from wikid_protocol import __version__
from wikid_protocol.errors import (
    EXIT_FINDING,
    EXIT_INTERNAL,
    EXIT_OK,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    EXIT_VAULT,
    RequestRefused,
    WikidError,
)

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
    "doctor": Row("doctor", "what is wrong, and what to do about it"),
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
    "models": Row("models", "list, build, pull, use and verify the models"),
    "start": Row("lifecycle", "start the daemon"),
    "stop": Row("lifecycle", "stop the daemon"),
    "restart": Row("lifecycle", "stop the daemon and start it again"),
    "serve": Row("handover", "be the daemon, in the foreground"),
    "service": Row("service", "have your system start the daemon and keep it alive"),
    "completion": Row("completion", "print the script that completes commands in your shell"),
    "get-socket": Row("lifecycle", "print where the daemon listens"),
    "protocol": Row("protocol", "the wire in words, for authors of plugins"),
    "mcp": Row("mcp", "the wiki's tools for a host that speaks MCP"),
    "stdio": Row("stdio", "standard input and output as a connection to the daemon"),
    "demo": Row("handover", "a tour with a sample vault; leaves nothing behind"),
    "bench": Row("handover", "measure recall against judged queries"),
}
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "ask": ("recall", "search", "show", "status", "doctor"),
    "vaults and their index": ("vault", "sync", "reindex", "verify", "lint", "rebuild-meta", "events"),
    "write and judge": ("observe", "retro", "conflicts", "resolve", "feedback", "signal"),
    "settings and daemon": ("config", "models", "start", "stop", "restart", "serve", "service", "completion"),
    "for programs": ("get-socket", "protocol", "mcp", "stdio"),
    "try it": ("demo", "bench"),
}
EXIT_CODES: Final[dict[int, str]] = {
    EXIT_OK: "done; an empty recall too, and an answer from a vault whose folder is gone",
    EXIT_FINDING: "a finding or a refusal: of lint, verify or doctor; a page that is not there; try again later",
    EXIT_USAGE: "usage: a word that is none, a value out of its range, a query that is too long",
    EXIT_UNREACHABLE: "no daemon can be reached, or may be started",
    EXIT_VAULT: "the vault is blocked, not found, or no folder",
    EXIT_INTERNAL: "something inside wikid failed",
    EXIT_INTERRUPTED: "interrupted by Ctrl-C, which is how --watch and --follow end",
}
_DOCTOR: Final = "see what is wrong with: wikid doctor"
_SEARCH: Final = "find the page's name with: wikid search WORDS"
_NEXT_BY_KIND: Final = {  # what to do about a refusal that says nothing of it
    "page_not_found": _SEARCH,
    "outside_vault": _SEARCH,
    "vault_unavailable": f"try again in a moment; if it stays, {_DOCTOR}",
    "model_unavailable": "see which models there are: wikid models list",
    "config_unreadable": "see what is wrong with: wikid config list",
    "config_invalid": "see what is wrong with: wikid config list",
    "not_shown": "recall it first: wikid recall QUERY",
    "vault_exists": "see which vaults there are: wikid vault list",
    "cancelled": "run the command again when it suits",
}
_NEXT: Final = {
    EXIT_FINDING: "see what there is: wikid status",
    EXIT_UNREACHABLE: _DOCTOR,
    EXIT_VAULT: "see which vaults there are: wikid vault list",
    EXIT_INTERNAL: _DOCTOR,
}
PASSED_ON: Final = ("demo", "bench")  # their arguments are read by the daemon's own modules


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code (protocol, The command)."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what could come next
        completion: Any = import_module("wikid_client.commands.completion")
        completion.answer(_parser, COMMANDS.keys() - set(PASSED_ON))
    words = list(sys.argv[1:] if argv is None else argv)
    console = open_console()
    try:
        code = _run(words, console)
        console.flush()
    except WikidError as error:
        console.failed(error.args[0] if error.args else type(error).__name__, _next(error, words))
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
    if place is not None and name == "help":
        words = [*words[:place], *words[place + 1 :], "--help"]
        return _run(words, console)
    if place is not None and name in PASSED_ON:
        handover: Any = import_module("wikid_client.commands.handover")
        code: int = handover.pass_on(name, [*words[:place], *words[place + 1 :]])
        return code
    parser = _parser(name)
    if name is not None and name not in COMMANDS:
        parser.error(f"there is no command {name!r}{_meant(name)}")
    if not words:
        console.note(parser.format_help().rstrip("\n"))
        return EXIT_USAGE
    options = parser.parse_args(words)
    finished: int = options.run(options, console)
    return finished


def _meant(name: str) -> str:
    # loaded here, because it takes time that only who mistyped needs to wait
    difflib: Any = import_module("difflib")
    close: list[str] = difflib.get_close_matches(name, COMMANDS, n=2)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _next(error: WikidError, words: list[str]) -> str:
    """What to do next: no error is left without it."""
    if error.hint:
        return error.hint
    if isinstance(error, RequestRefused):
        if error.kind in _NEXT_BY_KIND:
            return _NEXT_BY_KIND[error.kind]
        if error.row.retry:
            return "try again in a moment"
    place = _command_place(words)
    if error.exit_code == EXIT_USAGE and place is not None:
        return f"wikid {words[place]} --help"
    return _NEXT.get(error.exit_code, "wikid --help")


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
        epilog="More on a command, with examples: wikid COMMAND --help",
        sections={title: names for title, names in GROUPS.items() if name not in COMMANDS},
        exit_codes=EXIT_CODES,
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
