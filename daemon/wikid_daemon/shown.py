"""Which pages were shown to whom: the last recalls of each session, and those of its turn that is still going on.

Kept in memory alone and bounded: sessions that were silent for a day, or that are too many, are forgotten.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from wikid_daemon.core.feedback import Action, Showing
from wikid_daemon.vault.vault import Vault

RECALLS: Final = 20  # of a session that are remembered
SESSIONS: Final = 256
PAGES: Final = 10_000  # of all sessions, about 4 MB; what was shown to the sessions silent longest goes first
KEPT_SECONDS: Final = 86_400.0

Key = tuple[Path, str]


@dataclass(frozen=True, slots=True)
class Shown:
    """A page that a recall has shown. `implicit`: whether more may be noted of it than what a person says."""

    recall_id: str
    vault: Vault
    page_id: str
    path: str
    showing: Showing
    implicit: bool

    @property
    def key(self) -> Key:
        return self.vault.root, self.page_id


@dataclass(slots=True)
class _Session:
    recalls: deque[tuple[Shown, ...]] = field(default_factory=lambda: deque(maxlen=RECALLS))
    turn: deque[tuple[Shown, ...]] = field(default_factory=lambda: deque(maxlen=RECALLS))
    noted: set[tuple[Action, Key]] = field(default_factory=set)
    seen: float = 0.0

    @property
    def size(self) -> int:
        """Pages remembered; those of the turn are among the recalls', unless it has outlived them."""
        return sum(map(len, self.recalls))


class ShownPages:
    """What each session was shown. Any thread may call; `clock` is in seconds and never goes back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._size = 0

    def add(self, session: str, pages: Sequence[Shown]) -> None:
        """The pages of one more recall, best first."""
        with self._guard:
            found = self._sessions.setdefault(session, _Session())
            before = found.size
            found.recalls.append(tuple(pages))
            found.turn.append(tuple(pages))
            if found.noted:
                current = {each.key for each in _latest(found.turn)}
                found.noted = {note for note in found.noted if note[1] in current}
            self._size += found.size - before
            self._touch(session, found)
            self._forget()

    def all(self, session: str) -> list[Shown]:
        """Every page that the session was shown and that is remembered, the latest recall first."""
        with self._guard:
            found = self._find(session)
            return [] if found is None else [each for pages in reversed(found.recalls) for each in pages]

    def turn(self, session: str) -> list[Shown]:
        """The pages of the turn that is going on, each as it was shown last."""
        with self._guard:
            found = self._find(session)
            return [] if found is None else _latest(found.turn)

    def note(self, session: str, action: Action, pages: Iterable[Shown]) -> list[Shown]:
        """Those of the pages of which this was not noted in this turn before; from now on it is."""
        with self._guard:
            found = self._find(session)
            if found is None:
                return []
            current = {each.key for each in _latest(found.turn)}
            fresh = [each for each in pages if each.key in current and (action, each.key) not in found.noted]
            found.noted.update((action, each.key) for each in fresh)
            return fresh

    def end_turn(self, session: str) -> list[Shown]:
        """End the turn; the pages of which nothing was noted in it."""
        with self._guard:
            found = self._find(session)
            if found is None:
                return []
            noted = {key for _, key in found.noted}
            left = [each for each in _latest(found.turn) if each.key not in noted]
            found.turn.clear()
            found.noted.clear()
            return left

    def _find(self, session: str) -> _Session | None:
        self._forget()
        found = self._sessions.get(session)
        if found is not None:
            self._touch(session, found)
        return found

    def _touch(self, session: str, found: _Session) -> None:
        found.seen = self._clock()
        self._sessions.move_to_end(session)

    def _forget(self) -> None:
        oldest = self._clock() - KEPT_SECONDS
        while self._sessions:
            first = next(iter(self._sessions))
            few = len(self._sessions) <= SESSIONS and (self._size <= PAGES or len(self._sessions) == 1)
            if few and self._sessions[first].seen >= oldest:
                return
            self._size -= self._sessions.pop(first).size


def _latest(recalls: Iterable[tuple[Shown, ...]]) -> list[Shown]:
    return list({each.key: each for pages in recalls for each in pages}.values())
