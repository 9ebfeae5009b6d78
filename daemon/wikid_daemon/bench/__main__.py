"""`python -m wikid_daemon.bench speed | quality`: measure, print a table, or JSON with `--json`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn, get_args

from wikid_daemon.bench import quality, report, scale, speed
from wikid_daemon.bench.dataset import DatasetUnusable
from wikid_daemon.bench.sandbox import BenchmarkFailed

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_TERMINATED: Final = 143
COMMANDS: Final = ("speed", "quality")
DEFAULT_QUERIES: Final = 300


def main() -> int:
    """Run one benchmark. 1 when it could not be taken, 2 for a folder that is missing or not understood."""
    signal.signal(signal.SIGTERM, _terminate)
    words = sys.argv[1:]
    if words and words[0] not in (*COMMANDS, "-h", "--help"):
        words.insert(0, "quality")  # `wikid bench DIR`
    options = _parser().parse_args(words)
    try:
        return int(options.run(options))
    except DatasetUnusable as problem:
        print(f"wikid bench: {problem}", file=sys.stderr)
        return EXIT_USAGE
    except BenchmarkFailed as problem:
        print(f"wikid bench: {problem}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(EXIT_TERMINATED)  # unwinds, so that the private daemon and the temporary folders go


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="wikid bench", description="Measure wikid.")
    commands = parser.add_subparsers(required=True, metavar="speed | quality")
    about = commands.add_parser("speed", help="speed beside the bare engines, on a generated vault")
    about.add_argument("--pages", type=_positive, default=speed.PAGES, help="size of the vault (%(default)s)")
    about.add_argument(
        "--embed-chunks", type=_positive, default=speed.EMBED_CHUNKS, help="about how many are embedded (%(default)s)"
    )
    about.add_argument(
        "--scale", type=_sizes, nargs="?", const=scale.SIZES, metavar="PAGES,…", help="growth instead, over these sizes"
    )
    about.add_argument("--json", action="store_true", help="print JSON, and the table on stderr")
    about.set_defaults(run=_speed)
    about = commands.add_parser("quality", help="ranking quality on judged queries")
    about.add_argument("place", type=Path, metavar="DIR", help="a BEIR folder, or a golden file or the folder of one")
    about.add_argument("--vault", type=Path, help="the vault of a golden file (default: the folder it is in)")
    about.add_argument("--modes", type=_modes, default=quality.MODES, help="comma-separated: lexical,hybrid")
    about.add_argument(
        "--queries", type=_count, default=DEFAULT_QUERIES, help="how many by sorted id, 0 = all (%(default)s)"
    )
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


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_positive(each) for each in text.split(","))


def _quality(options: argparse.Namespace) -> int:
    found = quality.measure(
        options.place, vault=options.vault, modes=options.modes, queries=options.queries, say=report.say
    )
    if options.json:
        print(json.dumps({"machine": report.machine(), **found.to_json()}, indent=2))
    else:
        print(report.quality_table(found))
    return EXIT_DONE


def _speed(options: argparse.Namespace) -> int:
    if options.scale is not None:
        return _scale(options.scale)
    started = time.perf_counter()
    figures, settings = speed.measure(options.pages, options.embed_chunks, report.say)
    seconds = round(time.perf_counter() - started)
    table = report.figure_table(figures)
    if options.json:
        found = {"machine": report.machine(), "settings": settings, "seconds": seconds}
        print(json.dumps({**found, "figures": [each.to_json() for each in figures]}, indent=2))
        print(table, file=sys.stderr)
    else:
        print(table)
    return EXIT_DONE


def _scale(sizes: Sequence[int]) -> int:
    found = [each.to_json() for each in scale.measure(sizes, report.say)]
    print(json.dumps({"machine": report.machine(), "vectors": speed.VECTORS, "sizes": found}, indent=2))
    print(report.growth_table(found), file=sys.stderr)
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main())
