"""`python -m wikid_daemon`: the daemon as a process, and its exit codes."""

from __future__ import annotations

import os
import socket
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from wikid_daemon import app, systemd
from wikid_daemon.instance import AlreadyRunning, Instance
from wikid_daemon.memory import keep_little
from wikid_protocol.endpoint import EndpointRefused, folders, socket_path

EXIT_DONE: Final = 0
EXIT_REFUSED: Final = 1
EXIT_UNREACHABLE: Final = 3
# A recall calls Java some hundred times and waits after each for a thread that parses: with Python's own 5 ms for 99 ms
# at the 95th percentile, with this for 21, of 13 when nothing is parsed; pages are parsed no slower.
SWITCH_SECONDS: Final = 0.0005


def main() -> int:
    """Claim the endpoint and serve. 0 also when another daemon already answers there."""
    sys.setswitchinterval(SWITCH_SECONDS)
    keep_little()
    try:
        inherited = _inherited_listener()
    except OSError as problem:
        print(f"wikid: {problem}; install the service anew: wikid service install", file=sys.stderr)
        return EXIT_REFUSED
    # a service's clients come to the service's socket, wherever this process would have put its own
    endpoint = socket_path() if inherited is None else Path(inherited.getsockname())
    settings = app.Settings(endpoint, folders(), dict(os.environ))
    console = sys.stderr is not None and sys.stderr.isatty()  # none where Windows starts it without a window
    app.configure_log(settings, console=console)
    try:
        instance = Instance.claim(settings.endpoint, settings.folders.state, inherited=inherited)
    except AlreadyRunning as problem:
        print(f"wikid: {problem}", file=sys.stderr)
        return EXIT_DONE if problem.answers else EXIT_UNREACHABLE
    try:
        app.run(settings, instance)
    except AlreadyRunning as problem:
        print(f"wikid: {problem}", file=sys.stderr)
        return EXIT_DONE
    except EndpointRefused as problem:
        print(f"wikid: {problem}", file=sys.stderr)
        return EXIT_REFUSED
    finally:
        instance.release()
    return EXIT_DONE


def _inherited_listener() -> socket.socket | None:
    """The socket of whichever service manager started this process, or None."""
    found = systemd.inherited_listener()
    if found is None and sys.platform == "darwin":
        # only there: what it needs to call the system's library is slow to load
        launchd: Any = import_module("wikid_daemon.launchd")
        found = launchd.inherited_listener()
    return found


if __name__ == "__main__":
    sys.exit(main())
