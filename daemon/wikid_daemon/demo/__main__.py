"""`python -m wikid_daemon.demo`, which `wikid demo` becomes: runs the tour and always clears up after it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Final

from wikid_client.console import Console, open_console
from wikid_client.layout.notes import elapsed
from wikid_daemon.demo.interrupts import Interrupts
from wikid_daemon.demo.sandbox import DemoFailed, Sandbox, place_for_sandbox
from wikid_daemon.demo.screen import Screen
from wikid_daemon.demo.tour import tour
from wikid_protocol.errors import EXIT_INTERNAL, EXIT_OK, WikidError

EXIT_INTERRUPTED: Final = 130
NO_TELEMETRY: Final = "ORT_DISABLE_TELEMETRY"


def main(argv: Sequence[str] | None = None) -> int:
    """0 when the tour is over, 5 when it failed, 130 when it was interrupted. Nothing is left in any case."""
    verbose = _arguments(argv).verbose
    os.environ[NO_TELEMETRY] = "1"  # for the daemon and the build: ONNX Runtime would keep a device id in the cache
    console = open_console()
    interrupts = Interrupts()
    interrupts.install()
    try:
        return _shown(console, interrupts)
    except BrokenPipeError:
        console.abandon()
        return EXIT_OK
    except KeyboardInterrupt:
        console.note("Interrupted: the daemon has stopped and its folder is gone.")
        return EXIT_INTERRUPTED
    except WikidError as error:
        console.failed(error.message, error.hint)
    except DemoFailed as error:
        console.failed(str(error), "")
        if error.details:
            console.note(error.details)
    except Exception as error:  # noqa: BLE001 - the last frame: said on standard error, with exit code 5
        if verbose:
            sys.excepthook(type(error), error, error.__traceback__)
        console.failed(f"the demo failed ({type(error).__name__})", "the same command with -v shows where")
    return EXIT_INTERNAL


def _shown(console: Console, interrupts: Interrupts) -> int:
    started = time.monotonic()
    sandbox = Sandbox(place_for_sandbox())
    os.environ["TMPDIR"] = str(sandbox.temporary)  # an installer that is stopped leaves some behind
    try:
        with interrupts.allowed():
            tour(sandbox, Screen(console), interrupts)
    finally:
        sandbox.clear()
    screen = Screen(console)
    screen.step("That was all")
    took = elapsed((time.monotonic() - started) * 1_000)
    screen.say(f"{took} in all. The daemon has stopped and {sandbox.folder} is gone.", "dim")
    screen.say("With your own notes: wikid vault add FOLDER", "dim")
    return EXIT_OK


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="wikid demo",
        description="A tour with a private daemon on a copy of a sample vault. Nothing is left behind but the embedding"
        " model, which is built once and kept in your cache.",
        allow_abbrev=False,
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="say more about errors")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
