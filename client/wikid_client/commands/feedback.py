"""`wikid feedback` and `wikid signal`."""

from __future__ import annotations

import argparse
import io
import sys
from typing import Final

from wikid_client.commands.calling import connect, folder, session, show
from wikid_client.commands.pages import page_name
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout import feedback as layout

_STDIN: Final = "-"


def configure_feedback(parser: CommandParser) -> None:
    add = parser.add_argument
    add("page", metavar="PAGE", help="folder/name or vault:folder/name of a page that a recall has shown")
    add("judgment", choices=("relevant", "irrelevant", "corrected"), help="what it was for the question")
    add("--correction", metavar="TEXT", help="what is right, in your own words; for corrected alone")
    add("--recall", metavar="ID", help="the recall that is meant (default: the last that showed the page)")
    add("--session", metavar="S", help="who the page was shown to")
    parser.set_defaults(run=_feedback)
    parser.epilog = 'For example: wikid feedback concepts/x corrected --correction "It is 5, since June."'


def configure_signal(parser: CommandParser) -> None:
    opened = parser.sub_command("opened", "a file was opened", _opened, "KIND")
    opened.add_argument("path", metavar="PATH", help="the file")
    cited = parser.sub_command("cited", "a text was written that may cite pages", _cited)
    cited.add_argument("text", metavar="TEXT", help="the text, or - for standard input")
    ended = parser.sub_command("turn_end", "the turn has ended", _ended)
    for each in (opened, cited, ended):
        each.add_argument("--session", metavar="S", help="who the pages were shown to")


def _feedback(options: argparse.Namespace, console: Console) -> int:
    vault, page_id = page_name(options.page)
    with connect(options) as client:
        judged = client.feedback_judge(
            page_id,
            judgment=options.judgment,
            vault_id=vault or options.vault,
            session=session(options.session),
            recall_id=options.recall,
            correction=options.correction,
        )
    return show(options, console, judged, lambda: layout.judged(judged, console.width))


def _opened(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        noted = client.feedback_signal("opened", session=session(options.session), path=folder(options.path))
    return show(options, console, noted, lambda: layout.signalled(noted))


def _cited(options: argparse.Namespace, console: Console) -> int:
    text = _standard_input() if options.text == _STDIN else options.text
    with connect(options) as client:
        noted = client.feedback_signal("cited", session=session(options.session), text=text)
    return show(options, console, noted, lambda: layout.signalled(noted))


def _standard_input() -> str:
    """All of it. What is no text in it is replaced, for a citation beside it counts all the same."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    return "" if sys.stdin is None else sys.stdin.read()


def _ended(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        noted = client.feedback_signal("turn_end", session=session(options.session))
    return show(options, console, noted, lambda: layout.signalled(noted))
