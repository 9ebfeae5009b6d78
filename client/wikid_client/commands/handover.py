"""`wikid serve | demo | bench`: this process becomes one of the daemon's own modules."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from typing import Final

from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.launch import DAEMON, daemon_command

_MODULES: Final = {"serve": DAEMON, "demo": f"{DAEMON}.demo", "bench": f"{DAEMON}.bench"}


def configure_serve(parser: CommandParser) -> None:
    parser.add_argument("--low-power", action="store_true", help="make vectors slowly, whatever the settings say")
    parser.set_defaults(run=_serve)


def _serve(options: argparse.Namespace, _console: Console) -> int:
    if options.socket:
        os.environ["WIKID_SOCKET"] = os.path.abspath(options.socket)
    if options.verbose:
        os.environ["WIKID_LOG"] = "debug"
    if options.low_power:
        os.environ["WIKID_LOW_POWER"] = "on"
    return pass_on("serve", [])


def pass_on(name: str, words: list[str]) -> int:
    """Run the module that has the command, with the rest of the command line. Returns only on Windows."""
    command = daemon_command(_MODULES[name], *words)
    sys.stdout.flush()
    if os.name != "nt":
        os.execv(command[0], command)
    # exec on Windows starts a second process and returns to the shell at once; Ctrl-C reaches that one too, and is its
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return subprocess.run(command, check=False).returncode
