"""`wikid search` and `wikid show`."""

from __future__ import annotations

import argparse

from wikid_client.commands.calling import connect, folder, session, show
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout import pages
from wikid_client.layout.context import page_context
from wikid_protocol.errors import EXIT_OK


def configure_search(parser: CommandParser) -> None:
    parser.add_argument("query", metavar="QUERY", nargs="+", help="a title, alias, id or tag, or a part of one")
    parser.add_argument("--type", metavar="T", help="only pages of this type")
    parser.set_defaults(run=_search)
    parser.epilog = "For example: wikid search retry --type concept. By meaning rather than by name: wikid recall QUERY"


def configure_show(parser: CommandParser) -> None:
    add = parser.add_argument
    add("page", metavar="PAGE", help="folder/name or vault:folder/name")
    add("--heading", metavar="H", help="only the part under this heading")
    add("--session", metavar="S", help="who the page is shown to")
    add("--format", choices=("text", "json", "context"), default="text", help="context: Markdown for a model")
    parser.set_defaults(run=_show)
    parser.epilog = (
        "For example: wikid show concepts/retry-budget, or wikid show work:concepts/retry-budget --heading Why"
    )


def _search(options: argparse.Namespace, console: Console) -> int:
    query = " ".join(options.query)
    with connect(options) as client:
        found = client.page_search(query, type=options.type, vault=options.vault, cwd=folder())
    return show(options, console, found, lambda: pages.matches(found, query, console.width))


def _show(options: argparse.Namespace, console: Console) -> int:
    vault, page_id = page_name(options.page)
    with connect(options) as client:
        found = client.page_get(
            page_id,
            vault_id=vault or options.vault,
            cwd=folder(),
            heading=options.heading,
            session=session(options.session),
        )
    options.json = options.json or options.format == "json"
    if options.format == "context" and not options.json:
        console.text(page_context(found))
        return EXIT_OK
    return show(options, console, found, lambda: pages.page(found, console.width))


def page_name(text: str) -> tuple[str | None, str]:
    """The vault, if one is named, and the page id. A colon behind a slash belongs to the id."""
    vault, colon, page_id = text.partition(":")
    return (vault, page_id) if colon and vault and "/" not in vault else (None, text)
