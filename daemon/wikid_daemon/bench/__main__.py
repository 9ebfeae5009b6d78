"""`python -m wikid_daemon.bench speed | quality | gates | storm | memory`: measure, print a table or JSON.

`calibrate` fits the constants of confidence, `corrections` writes a file of judged queries that `quality` reads.
`record` keeps what the hot paths cost at this commit, `compare` says whether one costs more now.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import structlog

from wikid_daemon.bench import (
    calibrate,
    compare,
    corrections,
    engines,
    golden,
    quality,
    regression,
    release,
    report,
    scale,
    soak,
    speed,
    storm,
    tables,
)
from wikid_daemon.bench.dataset import HALVES, DatasetUnusable
from wikid_daemon.bench.indexing import Workplace
from wikid_daemon.bench.rankers import SYSTEMS, System
from wikid_daemon.bench.sandbox import BenchmarkFailed
from wikid_daemon.files import atomic_write

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_TERMINATED: Final = 143
COMMANDS: Final = ("speed", "quality", "gates", "calibrate", "corrections", "storm", "memory", "record", "compare")
FROM_CORRECTIONS: Final = "--from-corrections"  # `wikid bench --from-corrections VAULT`
COLLECTIONS: Final = "COLLECTIONS"
DEFAULT_QUERIES: Final = 300


def main() -> int:
    """Run one benchmark. 1 when it could not be taken or a gate fails, 2 for a folder that is missing or not
    understood."""
    signal.signal(signal.SIGTERM, _terminate)
    # standard output is the answer's
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    words = sys.argv[1:]
    if words and words[0] == FROM_CORRECTIONS:
        words[0] = "corrections"
    elif words and words[0] not in (*COMMANDS, "-h", "--help"):
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
    commands = parser.add_subparsers(required=True, metavar=" | ".join(COMMANDS))
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
    about.add_argument("--modes", type=_systems, default=SYSTEMS, help=f"comma-separated: {','.join(SYSTEMS)}")
    _add_quality_options(about, half="all")
    about.add_argument("--json", action="store_true", help="print JSON")
    about.set_defaults(run=_quality)
    about = commands.add_parser("gates", help="everything that a release must reach, measured anew")
    about.add_argument("--judged", type=Path, default=Path("quality"), help="folder of the judged vault (%(default)s)")
    about.add_argument(
        "--collections", type=Path, metavar="DIR", help=f"a folder of BEIR folders (default: {COLLECTIONS})"
    )
    about.add_argument("--without-collections", action="store_true", help="leave them out; their gates fail")
    about.add_argument(
        "--pages", type=_count, default=release.PAGES, help="size of the vault for timing, 0 = none (%(default)s)"
    )
    _add_quality_options(about, half="reporting")
    about.add_argument("--out", type=Path, metavar="FILE", help="write the results as JSON")
    about.add_argument("--json", action="store_true", help="print JSON, and the tables on stderr")
    about.set_defaults(run=_gates)
    about = commands.add_parser("calibrate", help="fit and measure confidence on the judged collections")
    about.add_argument("--judged", type=Path, default=Path("quality"), help="folder of the judged vault (%(default)s)")
    about.add_argument(
        "--collections", type=Path, metavar="DIR", help=f"a folder of BEIR folders (default: {COLLECTIONS})"
    )
    about.add_argument(
        "--queries", type=_positive, default=calibrate.QUERIES, help="of each collection and half (%(default)s)"
    )
    about.add_argument(
        "--judged-weight",
        type=float,
        default=calibrate.JUDGED_WEIGHT,
        help="for how many collections the judged vault counts (%(default)s)",
    )
    about.add_argument("--cache", type=Path, metavar="DIR", help="keep indexes and what was gathered in this folder")
    about.add_argument("--date", metavar="YYYY-MM-DD", help="of the fit, to be told with it")
    about.add_argument("--json", action="store_true", help="print JSON, and the tables on stderr")
    about.set_defaults(run=_calibrate)
    about = commands.add_parser("corrections", help="a vault's recall corrections as judged queries")
    about.add_argument("vault", type=Path, metavar="VAULT")
    about.add_argument("--out", type=Path, default=Path(golden.GOLDEN), metavar="FILE", help="(%(default)s)")
    about.set_defaults(run=_corrections)
    about = commands.add_parser("storm", help="recall, processor and memory while files change in a storm")
    about.add_argument("--pages", type=_positive, default=storm.PAGES, help="size of the vault (%(default)s)")
    about.add_argument("--json", action="store_true", help="print JSON, and the tables on stderr")
    about.set_defaults(run=_storm)
    about = commands.add_parser("memory", help="memory over many embeddings of mixed lengths; exit 1 where it strays")
    about.add_argument("--embeddings", type=_positive, default=soak.EMBEDDINGS, help="how many (%(default)s)")
    about.add_argument("--json", action="store_true", help="print JSON, and the table on stderr")
    about.set_defaults(run=_memory)
    about = commands.add_parser("record", help="keep what each hot path costs at this commit")
    _add_results_option(about)
    about.add_argument("--force", action="store_true", help="also of a working tree that is not as committed")
    about.set_defaults(run=_record)
    about = commands.add_parser("compare", help="exit 1 where a hot path costs a fifth more than was recorded")
    _add_results_option(about)
    about.set_defaults(run=_compare)
    return parser


def _add_quality_options(about: argparse.ArgumentParser, *, half: str) -> None:
    about.add_argument("--half", choices=HALVES, default=half, help="of the judged queries (%(default)s)")
    about.add_argument(
        "--queries", type=_count, default=DEFAULT_QUERIES, help="how many by sorted id, 0 = all (%(default)s)"
    )
    about.add_argument("--cache", type=Path, metavar="DIR", help="keep the indexes in this folder for the next run")


def _add_results_option(about: argparse.ArgumentParser) -> None:
    about.add_argument(
        "--results", type=Path, default=regression.RESULTS, metavar="FILE", help="one record a line (%(default)s)"
    )


def _systems(text: str) -> tuple[System, ...]:
    wanted = [each.strip() for each in text.split(",")]
    if any(each not in SYSTEMS for each in wanted):
        raise argparse.ArgumentTypeError(f"modes are {', '.join(SYSTEMS)}")
    return tuple(system for system in SYSTEMS if system in wanted)


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
    asked = quality.Asked(options.modes, options.queries, options.half)
    found = quality.measure(
        options.place,
        vault=options.vault,
        asked=asked,
        engines=engines.load() if asked.needs_models else engines.NONE,
        workplace=Workplace(options.cache),
        say=report.say,
    )
    if options.json:
        print(json.dumps({"machine": report.machine(), **found.to_json()}, indent=2))
    else:
        print(tables.quality_table(found))
    return EXIT_DONE


def _gates(options: argparse.Namespace) -> int:
    plan = release.Plan(options.judged, _collections(options), options.half, options.queries, options.pages)
    found = release.measure(plan, engines.load(), Workplace(options.cache), report.say)
    text = json.dumps(found.to_json(), indent=2, ensure_ascii=False)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(options.out, f"{text}\n".encode())
    if options.json:
        print(text)
    print(tables.release_text(found), file=sys.stderr if options.json else sys.stdout)
    return EXIT_DONE if found.passed else EXIT_FAILED


def _calibrate(options: argparse.Namespace) -> int:
    plan = calibrate.Plan(
        _folder_of_collections(options.collections), options.judged, options.queries, options.judged_weight
    )
    found = calibrate.calibrate(plan, engines.load(), Workplace(options.cache), options.date, report.say)
    if options.json:
        print(json.dumps({"machine": report.machine(), **found.to_json()}, indent=2))
    print(calibrate.calibration_text(found), file=sys.stderr if options.json else sys.stdout)
    return EXIT_DONE


def _collections(options: argparse.Namespace) -> Path | None:
    if options.without_collections:
        return None
    return _folder_of_collections(options.collections)


def _folder_of_collections(named: Path | None) -> Path:
    place = named or os.environ.get(COLLECTIONS)
    if not place:
        raise DatasetUnusable(f"say where the collections are: --collections DIR, or {COLLECTIONS}=DIR")
    if not Path(place).is_dir():
        raise DatasetUnusable(f"the folder of collections is not there: {place}")
    return Path(place)


def _corrections(options: argparse.Namespace) -> int:
    count = corrections.write_golden(options.vault, options.out)
    print(f"{options.out}: {count} corrections; measure them with: wikid bench {options.out} --vault {options.vault}")
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


def _storm(options: argparse.Namespace) -> int:
    phases = storm.measure(options.pages, report.say)
    figures, found = storm.figures(phases), [each.to_json() for each in phases]
    tables = f"{report.growth_table(found)}\n\n{report.figure_table(figures)}"
    if options.json:
        settings = {"pages": options.pages, "seed": speed.SEED, "vectors": speed.VECTORS}
        about = {"machine": report.machine(), "settings": settings, "phases": found}
        print(json.dumps({**about, "figures": [each.to_json() for each in figures]}, indent=2))
        print(tables, file=sys.stderr)
    else:
        print(tables)
    return EXIT_DONE


def _memory(options: argparse.Namespace) -> int:
    readings = soak.measure(options.embeddings, report.say)
    found = soak.figure(readings)
    table = report.figure_table([found])
    if options.json:
        about = {"machine": report.machine(), "readings": soak.to_json(readings), "figures": [found.to_json()]}
        print(json.dumps(about, indent=2))
        print(table, file=sys.stderr)
    else:
        print(table)
    return EXIT_DONE if found.met else EXIT_FAILED


def _record(options: argparse.Namespace) -> int:
    made = regression.record(options.results, force=options.force, say=report.say)
    print(regression.record_table(made))
    print(f"{options.results}: recorded for {made.commit}")
    return EXIT_DONE


def _compare(options: argparse.Namespace) -> int:
    last, found = regression.against_recorded(options.results, report.say)
    print(compare.comparison_table(found))
    print(f"compared with {last.commit} of {last.date} ({last.cpu})")
    return EXIT_FAILED if compare.is_worse(found) else EXIT_DONE


if __name__ == "__main__":
    sys.exit(main())
