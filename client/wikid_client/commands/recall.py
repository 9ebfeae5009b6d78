"""`wikid recall`."""

from __future__ import annotations

import argparse

from wikid_client.commands.calling import connect, folder, session, show
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout.context import recall_context
from wikid_client.layout.explain import explanation
from wikid_client.layout.recall import recall
from wikid_client.layout.spans import Line
from wikid_protocol.errors import EXIT_OK
from wikid_protocol.memories import Recall


def configure_recall(parser: CommandParser) -> None:
    add = parser.add_argument
    add("query", metavar="QUERY", nargs="+", help="what to remember, in your own words")
    add("--cwd", metavar="D", help="the folder to recall for (default: the current one)")
    add("--mode", metavar="M", help="lexical, hybrid, adaptive or quality")
    add("-n", dest="max_results", metavar="N", type=int, default=5, help="memories at most (default: 5)")
    add("--type", metavar="T", action="append", default=[], help="only pages of this type; may be repeated")
    add("--since", metavar="D", help="only pages dated on or after this day")
    add("--until", metavar="D", help="only pages dated on or before this day")
    add("--auto", action="store_true", help="be as strict as recall without being asked must be")
    add("--explain", action="store_true", help="add how the answer was found")
    add("--session", metavar="S", help="who the pages are shown to")
    add("--format", choices=("text", "json", "context"), default="text", help="context: Markdown for a model")
    parser.set_defaults(run=_recall)
    parser.epilog = (
        'For example: wikid recall "how do we roll back a deploy" --since 2026-01-01. Titles are links to their files; '
        "WIKID_LINKS=vscode (cursor, zed, idea, textmate, obsidian, or an address with {path} and {line}) leads into "
        "an editor, off makes none."
    )


def _recall(options: argparse.Namespace, console: Console) -> int:
    query = " ".join(options.query)
    with connect(options) as client:
        answer = client.recall(
            query,
            cwd=folder(options.cwd),
            vault=options.vault,
            policy="automatic" if options.auto else "explicit",
            mode=options.mode,
            max_results=options.max_results,
            types=options.type,
            since=options.since,
            until=options.until,
            session=session(options.session),
            explain=options.explain,
        )
    options.json = options.json or options.format == "json"
    if options.format == "context" and not options.json:
        console.text(recall_context(answer))
        return EXIT_OK
    return show(options, console, answer, lambda: _lines(answer, query, console.width))


def _lines(answer: Recall, query: str, width: int) -> list[Line]:
    return recall(answer, query, width) + (explanation(answer.explain, width) if answer.explain else [])
