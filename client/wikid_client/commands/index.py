"""`wikid sync`, `wikid reindex` and `wikid verify`."""

from __future__ import annotations

import argparse
from typing import Final

from wikid_client.commands.calling import connect, folder, show
from wikid_client.commands.parser import CommandParser, seconds
from wikid_client.console import Console
from wikid_client.layout.status import reindexed, synced, verified
from wikid_client.progress import awaited, shown
from wikid_protocol.errors import EXIT_FINDING

_COMPONENTS: Final = ("lexical", "vectors")


def configure_sync(parser: CommandParser) -> None:
    parser.add_argument("--wait", metavar="S", type=seconds, default=30.0, help="seconds at most (default: 30)")
    parser.set_defaults(run=_sync)
    parser.epilog = "For example, in a script that has just written notes: wikid sync --vault work --wait 60"


def configure_reindex(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--scope", choices=("changed", "all"), default="changed", help="default: changed")
    add("--components", metavar="C", type=_components, default=_COMPONENTS, help="lexical, vectors, or both")
    add("--force", action="store_true", help="build anew what is up to date as well")
    parser.set_defaults(run=_reindex)
    parser.epilog = (
        "For example: wikid reindex --vault work --scope all --force builds the index anew beside the one in use. What "
        "is saved is indexed by itself."
    )


def configure_verify(parser: CommandParser) -> None:
    parser.set_defaults(run=_verify)
    parser.epilog = "For example: wikid verify --vault work. Exit code 1 where anything differs."


def _sync(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client, awaited(console, "Waiting until everything saved is searchable"):
        found = client.sync(
            vault=options.vault, cwd=folder(), timeout_ms=max(int(options.wait * 1_000), 1), timeout=options.timeout
        )
    return show(options, console, found, lambda: synced(found, console.width))


def _reindex(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client, shown(console, "Indexing") as progress:
        found = client.reindex(
            scope=options.scope,
            components=options.components,
            force=options.force,
            vault=options.vault,
            cwd=folder(),
            progress=progress,
            timeout=options.timeout,
        )
    code = show(options, console, found, lambda: reindexed(found, console.width))
    return EXIT_FINDING if any(each.errors for each in found.vaults) else code


def _verify(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client, shown(console, "Verifying") as progress:
        found = client.verify(vault=options.vault, cwd=folder(), progress=progress, timeout=options.timeout)
    code = show(options, console, found, lambda: verified(found, console.width))
    return EXIT_FINDING if any(each.differing for each in found.vaults) else code


def _components(text: str) -> tuple[str, ...]:
    found = tuple(each.strip() for each in text.split(","))
    if not set(found) <= set(_COMPONENTS):
        raise argparse.ArgumentTypeError(f"{text!r} is not lexical, vectors, or lexical,vectors")
    return found
