"""`python -m wikid_daemon`: the daemon as a process, and its exit codes."""

from __future__ import annotations

import os
import sys
from typing import Final

from wikid_daemon import app, systemd
from wikid_daemon.instance import AlreadyRunning, Instance
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
    settings = app.Settings(socket_path(), folders(), dict(os.environ))
    console = sys.stderr.isatty()
    app.configure_log(settings, console=console)
    try:
        instance = Instance.claim(settings.endpoint, settings.folders.state, inherited=systemd.inherited_listener())
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


if __name__ == "__main__":
    sys.exit(main())
