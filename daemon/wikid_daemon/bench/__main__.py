"""`python -m wikid_daemon.bench speed | quality`: measure, print a table, or JSON with `--json`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn, get_args

from wikid_daemon.bench import quality, report
from wikid_daemon.bench.dataset import DatasetUnusable

EXIT_DONE: Final = 0
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_TERMINATED: Final = 143
DEFAULT_QUERIES: Final = 300


def main() -> int:
    """Run one benchmark. 2 for a folder that is missing or not understood, 130 when interrupted."""
    signal.signal(signal.SIGTERM, _terminate)
    options = _parser().parse_args()
    try:
        return int(options.run(options))
    except DatasetUnusable as problem:
        print(f"wikid bench: {problem}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(EXIT_TERMINATED)  # unwinds, so that the private daemon and the temporary folders go


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="wikid bench", description="Measure wikid.")
    commands = parser.add_subparsers(required=True, metavar="speed | quality")
    about = commands.add_parser("quality", help="ranking quality on judged queries")
    about.add_argument("place", type=Path, metavar="DIR", help="a BEIR folder, or a golden file or the folder of one")
    about.add_argument("--vault", type=Path, help="the vault of a golden file (default: the folder it is in)")
    about.add_argument("--modes", type=_modes, default=quality.MODES, help="comma-separated: lexical,hybrid")
    about.add_argument("--queries", type=_count, default=DEFAULT_QUERIES, help="how many by sorted id, 0 = all (%(default)s)")
    about.add_argument("--json", action="store_true", help="print JSON")
    about.set_defaults(run=_quality)
    return parser


def _modes(text: str) -> tuple[quality.Mode, ...]:
    wanted = [each.strip() for each in text.split(",")]
    known = get_args(quality.Mode)
    if not wanted or any(each not in known for each in wanted):
        raise argparse.ArgumentTypeError(f"modes are {', '.join(known)}")
    return tuple(mode for mode in quality.MODES if mode in wanted)


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("a count is 0 or more")
    return value


def _quality(options: argparse.Namespace) -> int:
    found = quality.measure(
        options.place, vault=options.vault, modes=options.modes, queries=options.queries, say=report.say
    )
    if options.json:
        print(json.dumps({"machine": report.machine(), **found.to_json()}, indent=2))
    else:
        print(report.quality_table(found))
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main())
