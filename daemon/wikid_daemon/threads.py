"""A few threads for work that may never return, such as a system call on a dead mount.

Such a call can be neither limited nor interrupted. What can is the wait for it: its thread stays behind, one of few,
and what it brings after all is dropped. The threads are daemonic, so none keeps the process from ending.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

IDLE_SECONDS: Final = 5.0
FOREVER: Final = float("inf")

T = TypeVar("T")
R = TypeVar("R", covariant=True)
Alive = Callable[[], None]
"""Called by work now and then: the limit is one on silence, not on the whole. Ends work that was given up."""


class Wait(Protocol[R]):
    """Waits for what work returns or raises, for `within` seconds. Work in hand goes on after them; what was not begun
    never is. TimedOut, Cancelled."""

    def __call__(self, within: float = FOREVER) -> R: ...


class TimedOut(Exception):
    """The work was silent for too long, or was never begun, since every thread hangs in some other."""


class Cancelled(Exception):
    """The caller gave up, or the daemon is stopping; what was published stays."""


class _GivenUp(Exception):
    """Nobody waits for this work any more."""


class _Task(Generic[T]):
    """Work, queued until `since` is set (monotonic seconds of its last sign of life), then in hand until `done`."""

    __slots__ = ("_problem", "_result", "_work", "done", "given_up", "since")

    def __init__(self, work: Callable[[Alive], T]) -> None:
        self._work = work
        self._result: T | None = None
        self._problem: Exception | None = None
        self.since: float | None = None
        self.done = False
        self.given_up = False

    def alive(self) -> None:
        if self.given_up:
            raise _GivenUp
        self.since = time.monotonic()

    def attempt(self) -> None:
        try:
            self._result = self._work(self.alive)
        except Exception as problem:  # noqa: BLE001 - raised to whoever waits for the result
            self._problem = problem

    def result(self) -> T:
        if self._problem is not None:
            raise self._problem
        return self._result  # type: ignore[return-value]  # None only where T allows it


class Threads:
    """At most `count` threads, each begun when there is work for it. Work is given up after `seconds` of silence; while
    every thread hangs in such work, more of it fails at once. Any thread may call."""

    def __init__(self, name: str, count: int, seconds: float) -> None:
        self._name = name
        self._count = count
        self._seconds = seconds
        lock = threading.Lock()
        self._arrived = threading.Condition(lock)
        self._finished = threading.Condition(lock)
        self._queue: deque[_Task[Any]] = deque()
        self._busy: set[_Task[Any]] = set()
        self._running = 0
        self._closed = False

    def begin(self, work: Callable[[Alive], T]) -> Wait[T]:
        """Have a thread do the work; what is returned waits for what `work` returns or raises, and must be called.
        Cancelled."""
        task = _Task(work)
        with self._arrived:
            if self._closed:
                raise Cancelled
            if len(self._queue) >= self._running - len(self._busy) and self._running < self._count:
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
                self._running += 1
            self._queue.append(task)
            self._arrived.notify()
        return lambda within=FOREVER: self._wait(task, within)

    def close(self) -> None:
        """Whoever waits gets Cancelled, and so does whoever comes; work in hand is left to itself."""
        with self._arrived:
            self._closed = True
            self._queue.clear()
            for task in self._busy:
                task.given_up = True
            self._arrived.notify_all()
            self._finished.notify_all()

    def _wait(self, task: _Task[T], within: float) -> T:
        until = time.monotonic() + within
        with self._finished:
            while not task.done:
                if self._closed:
                    raise Cancelled
                silent, left = self._left(task), until - time.monotonic()
                if silent <= 0.0 or left <= 0.0:
                    task.given_up = silent <= 0.0
                    if task.since is None:
                        self._queue.remove(task)
                    raise TimedOut
                self._finished.wait(min(silent, left))
        if task.given_up:
            raise Cancelled  # by `close`, and the work saw it before its caller did
        return task.result()

    def _left(self, task: _Task[Any]) -> float:
        """Seconds that this task may still be waited for: one that is queued, until the last thread hangs."""
        since = task.since
        if since is None:
            if len(self._busy) < self._count:
                return self._seconds  # a thread is about to take it
            since = max(each.since for each in self._busy if each.since is not None)
        return since + self._seconds - time.monotonic()

    # -- the threads ---------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while (task := self._next()) is not None:
            task.attempt()
            with self._finished:
                self._busy.discard(task)
                task.done = True
                self._finished.notify_all()
            del task  # its result may be large

    def _next(self) -> _Task[Any] | None:
        """What to do; None ends the thread, when nothing came for a while."""
        with self._arrived:
            if not self._queue:
                self._arrived.wait(IDLE_SECONDS)
            if not self._queue:
                self._running -= 1
                return None
            task = self._queue.popleft()
            task.alive()
            self._busy.add(task)
            return task
