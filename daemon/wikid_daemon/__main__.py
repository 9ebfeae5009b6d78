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


def main() -> int:
    """Claim the endpoint and serve. 0 also when another daemon already answers there."""
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
