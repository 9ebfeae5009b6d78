"""`kill -9` at any moment of indexing, as often as wanted: every start answers and the index equals a fresh build.

Nothing is repaired by hand between two rounds. Two independent proofs: the running daemon's own `index/verify` after
each restart, and now and then a comparison of the files it left with an index that this process builds.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from builders import FakeEmbedder
from comparison import contents, differences, fresh_build, settle, start_indexer
from daemon_process import DaemonProcess
from torture.edits import WORDS, Scribbler
from wikid_daemon.vault.vault import init_vault

NOTES: Final = 500
LONGEST_SECONDS: Final = 3.0
COLD_EVERY: Final = 4  # rounds, of which one starts without any index
COMPARED_EVERY: Final = 10
PAUSE_SECONDS: Final = 0.02  # between two edits
WHILE_DOWN: Final = 10
VERIFY_SECONDS: Final = 120.0
QUERIES: Final = (*WORDS, "harbour ledger tide", "the storm of the winter", "pool.size v1.0.21")

Say = Callable[[str], None]


@dataclass(slots=True)
class Totals:
    """What a campaign did. `differences` names each way in which an index was not what a fresh build is."""

    rounds: int = 0
    operations: int = 0
    kills: int = 0
    verified: int = 0
    compared: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds, {self.operations} operations, {self.kills} kills, {self.verified} verified and"
            f" {self.compared} compared indexes, differences: {len(self.differences)}"
        )


class Campaign:
    """A plain folder and a strict vault with half the notes each, below `folder`, and one daemon that keeps dying."""

    def __init__(
        self, folder: Path, notes: int, seed: int, say: Say, *, longest_seconds: float = LONGEST_SECONDS
    ) -> None:
        self._folder = folder
        self._longest_seconds = longest_seconds
        self._random = random.Random(seed)
        self._say = say
        strict = init_vault(folder / "strict", "strict", "personal")
        self._roots = {"plain": folder / "plain", "strict": strict}
        pages = {"plain": folder / "plain", "strict": strict / ".llm-wiki" / "wiki"}
        self._scribblers = [Scribbler(place, seed + number) for number, place in enumerate(pages.values())]
        for each in self._scribblers:
            each.fill(notes // 2)
        self._daemon = DaemonProcess(folder / "home")
        self._state_home = folder / "home" / "xdg_state_home" / "wikid"
        self._totals = Totals()

    def run(self, rounds: int) -> Totals:
        """So many rounds, then the totals."""
        totals = self._totals
        with self._daemon:
            for name, root in self._roots.items():
                self._daemon.client.vault_add(str(root), name=name)
            self._kill()
            while totals.rounds < rounds:
                self._round(totals.rounds)
                totals.rounds += 1
                totals.operations = sum(each.operations for each in self._scribblers)
                self._say(str(totals))
        return totals

    def _round(self, number: int) -> None:
        """The daemon is down when it begins, and running again when it is verified."""
        if number % COLD_EVERY == 0:
            self._forget()
        self._daemon.spawn()
        until = time.monotonic() + self._random.uniform(0.0, self._longest_seconds)
        while time.monotonic() < until:
            self._random.choice(self._scribblers).edit()
            time.sleep(PAUSE_SECONDS)
        self._kill()
        for _ in range(self._random.randrange(WHILE_DOWN)):
            self._random.choice(self._scribblers).edit()
        self._daemon.start()
        for name in self._roots:
            self._daemon.client.sync(vault=name)
            self._verify(name, number)
        self._kill()
        if number % COMPARED_EVERY == COMPARED_EVERY - 1:
            self._compare(number)

    def _kill(self) -> None:
        self._daemon.kill()
        self._totals.kills += 1

    def _forget(self) -> None:
        """Take the indexes away, so that the next round is killed while it builds them."""
        shutil.rmtree(self._state_home / "vaults", ignore_errors=True)
        shutil.rmtree(self._roots["strict"] / ".llm-wiki" / "meta" / "wikid", ignore_errors=True)

    def _verify(self, name: str, number: int) -> None:
        report = self._daemon.client.verify(vault=name, timeout=VERIFY_SECONDS).vaults[0]
        self._totals.verified += 1
        if "ranking" not in report.compared:
            self._totals.differences.append(f"round {number + 1}, {name}: words were not compared")
        self._totals.differences += [
            f"round {number + 1}, {name}: {each.kind} {each.path} {each.detail}" for each in report.differences
        ]

    def _compare(self, number: int) -> None:
        fake = FakeEmbedder()
        for name, root in self._roots.items():
            left = start_indexer(root, self._state_home, fake)
            try:
                settle(left)
                with fresh_build(root, self._folder / "fresh", fake) as fresh:
                    found, wanted = (contents(each, QUERIES, fake) for each in (left, fresh))
            finally:
                left.close()
            self._totals.compared += 1
            self._totals.differences += [f"round {number + 1}, {name}: {line}" for line in differences(found, wanted)]
