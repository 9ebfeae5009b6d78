"""The long campaigns: `python tests/torture` prints what each did, and leaves with 1 when a promise was ever broken."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from torture.appends import APPENDS, CLIENTS, KILLS, AppendCampaign  # noqa: E402 - the path above leads to it
from torture.damage import damage_each  # noqa: E402
from torture.edits import WORDS, Scribbler  # noqa: E402
from torture.fuzz import INPUTS, FuzzCampaign  # noqa: E402
from torture.kill9 import NOTES, Campaign  # noqa: E402

INVARIANT: Final = TESTS / "integration" / "test_invariant.py"


def main() -> int:
    options = _parser().parse_args()
    print(f"seed {options.seed}", flush=True)
    parts: list[tuple[str, Callable[[], bool]]] = [
        ("kill -9", lambda: _kill9(options.rounds, options.seed)),
        ("appends", lambda: _appends(options.kills, options.seed)),
        ("damage", lambda: _damage(options.pages, options.seed)),
        ("fuzz", lambda: _fuzz(options.inputs, options.seed)),
        ("histories", lambda: _histories(options.histories, options.steps, options.seed)),
    ]
    failed = [name for name, part in parts if options.only in (None, name) and not part()]
    print(f"differences in: {', '.join(failed)}" if failed else "no difference anywhere", flush=True)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    about = "Try to make an index lie, a log lose an event, and a daemon break."
    parser = argparse.ArgumentParser(prog="torture", description=about)
    parser.add_argument("--rounds", type=int, default=100, help="of kill -9 (%(default)s)")
    parser.add_argument("--kills", type=int, default=KILLS, help="while clients append events (%(default)s)")
    parser.add_argument("--pages", type=int, default=40, help="of the vault whose files are damaged (%(default)s)")
    parser.add_argument("--inputs", type=int, default=INPUTS, help="of all kinds over every framing (%(default)s)")
    parser.add_argument("--histories", type=int, default=300, help="of edits, crashes and restarts (%(default)s)")
    parser.add_argument("--steps", type=int, default=30, help="of each history (%(default)s)")
    parser.add_argument("--only", metavar="PART", help="kill -9, appends, damage, fuzz or histories alone")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="to run a campaign again")
    return parser


def _kill9(rounds: int, seed: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="wikid-torture-") as folder:
        totals = Campaign(Path(folder), NOTES, seed, lambda words: _say("kill -9", words)).run(rounds)
    return _told("kill -9", str(totals), totals.differences)


def _appends(kills: int, seed: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="wikid-torture-") as folder:
        campaign = AppendCampaign(
            Path(folder), CLIENTS, APPENDS, seed, lambda words: _say("appends", words), patient=True
        )
        totals = campaign.run(kills)
    return _told("appends", str(totals), totals.differences)


def _damage(pages: int, seed: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="wikid-torture-") as folder:
        root = Path(folder, "notes")
        Scribbler(root, seed).fill(pages)
        totals = damage_each(root, Path(folder), WORDS[:8], lambda words: _say("damage", words))
    return _told("damage", str(totals), totals.differences)


def _fuzz(inputs: int, seed: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="wikid-torture-") as folder:
        totals = FuzzCampaign(Path(folder), seed, lambda words: _say("fuzz", words)).run(inputs)
    return _told("fuzz", str(totals), totals.differences)


def _histories(count: int, steps: int, seed: int) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(INVARIANT)]
    environment = {**os.environ, "WIKID_INVARIANT_EXAMPLES": str(count), "WIKID_INVARIANT_STEPS": str(steps)}
    done = subprocess.run([*command, f"--hypothesis-seed={seed}"], env=environment, check=False)
    _say("histories", f"{count} of up to {steps} steps, {'no difference' if done.returncode == 0 else 'see above'}")
    return done.returncode == 0


def _told(name: str, totals: str, differences: list[str]) -> bool:
    for each in differences:
        _say(name, each)
    _say(name, totals)
    return not differences


def _say(name: str, words: str) -> None:
    print(f"{name}: {words}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
