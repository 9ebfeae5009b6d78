"""`wikid observe`, `wikid retro`, `wikid conflicts` and `wikid resolve`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Final

from wikid_client.client import Client
from wikid_client.commands.calling import connect, folder, show
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout import curation as layout
from wikid_protocol.errors import RequestRefused
from wikid_protocol.records import Conflict, ConflictList

PAGE: Final = 200
_STDIN: Final = "-"
_RELATIONS: Final = ("supersedes", "qualifies", "applies_under")
_RELEVANCES: Final = ("low", "medium", "high", "critical")
_STATES: Final = ("undecided", "confirmed", "proposed", "resolved")


def configure_observe(parser: CommandParser) -> None:
    add = parser.add_argument
    add("title", metavar="TITLE", help="what it is about, in one line")
    _add_text(parser, "content", "what was seen")
    add("--relevance", metavar="R", choices=_RELEVANCES, default="medium", help=", ".join(_RELEVANCES))
    add("--tag", metavar="T", action="append", default=[], help="may be repeated")
    add("--context", metavar="C", help="where it was seen")
    parser.set_defaults(run=_observe)
    parser.epilog = (
        'For example: wikid observe "Deploys stall at noon" "Three in a row, all behind the backup." --tag deploy'
    )


def configure_retro(parser: CommandParser) -> None:
    add = parser.add_argument
    add("slug", metavar="SLUG", help="the page's name: words in lower case, joined by hyphens")
    add("title", metavar="TITLE", help="the insight in one line")
    _add_text(parser, "body", "what was learned")
    add("--category", metavar="C", help="what kind of insight it is")
    add("--hash", metavar="SHA256", help="to change a page that is there: what it was when it was read")
    parser.set_defaults(run=_retro)
    parser.epilog = 'For example: wikid retro backups-before-deploys "Back up before noon" < insight.md'


def configure_conflicts(parser: CommandParser) -> None:
    add = parser.add_argument
    add(
        "action", nargs="?", choices=("list",), default="list", help="what else is there to do with them: wikid resolve"
    )
    add("--state", metavar="S", action="append", choices=_STATES, default=[], help=", ".join(_STATES))
    parser.set_defaults(run=_conflicts)
    parser.epilog = (
        "For example: wikid conflicts --state confirmed. To decide one: wikid resolve SELECTED OTHER --relation R"
    )


def configure_resolve(parser: CommandParser) -> None:
    add = parser.add_argument
    add("selected", metavar="SELECTED", help="the page that holds: folder/name or vault:folder/name")
    add("other", metavar="OTHER", help="the page that it is set against")
    add(
        "--relation",
        metavar="R",
        required=True,
        choices=_RELATIONS,
        help="what SELECTED is to OTHER: supersedes, "
        "qualifies (narrows it) or applies_under (takes its place in a scope)",
    )
    add("--scope", metavar="S", help="where SELECTED applies; with applies_under alone")
    add("--rationale", metavar="T", help="why")
    add("--replaces", metavar="ID", help="the decision that this one takes the place of")
    parser.set_defaults(run=_resolve)
    parser.epilog = (
        'For example: wikid resolve concepts/new concepts/old --relation supersedes --rationale "measured in June". '
        "Neither page is changed; the decision is a page of its own."
    )


def _add_text(parser: CommandParser, name: str, meaning: str) -> None:
    parser.add_argument(
        name, metavar=name.upper(), nargs="?", default=_STDIN, help=f"{meaning}; from standard input unless given"
    )


def _text(given: str) -> str:
    """What was given, or all of standard input. RequestRefused where a person would be left waiting."""
    if given != _STDIN:
        return given
    if sys.stdin is None or sys.stdin.isatty():
        raise RequestRefused("invalid_params", "there is no text", hint="give it as the last word, or pipe it in")
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _observe(options: argparse.Namespace, console: Console) -> int:
    content = _text(options.content)
    with connect(options) as client:
        found = client.observe(
            options.title,
            content=content,
            relevance=options.relevance,
            tags=options.tag,
            source_context=options.context,
            vault=options.vault,
            cwd=folder(),
        )
    return show(options, console, found, lambda: layout.observed(found, console.width))


def _retro(options: argparse.Namespace, console: Console) -> int:
    body = _text(options.body)
    with connect(options) as client:
        found = client.retro(
            options.slug,
            title=options.title,
            body=body,
            category=options.category,
            hash=options.hash,
            vault=options.vault,
            cwd=folder(),
        )
    return show(options, console, found, lambda: layout.learned(found, console.width))


def _conflicts(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        found = _all(client, options)
    return show(options, console, found, lambda: layout.conflicts(found, console.width))


def _all(client: Client, options: argparse.Namespace) -> ConflictList:
    """Every conflict, however many answers that takes."""
    conflicts: tuple[Conflict, ...] = ()
    found: ConflictList | None = None
    while found is None or found.next_cursor is not None:
        found = client.conflict_list(
            options.state,
            limit=PAGE,
            cursor=None if found is None else found.next_cursor,
            vault=options.vault,
            cwd=folder(),
            timeout=options.timeout,
        )
        conflicts = (*conflicts, *found.conflicts)
    return replace(found, conflicts=conflicts)


def _resolve(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        found = client.conflict_resolve(
            options.selected,
            other_page_id=options.other,
            relation=options.relation,
            scope=options.scope,
            rationale=options.rationale,
            replaces=options.replaces,
            vault=options.vault,
            cwd=folder(),
        )
    return show(options, console, found, lambda: layout.resolved(found, console.width))
