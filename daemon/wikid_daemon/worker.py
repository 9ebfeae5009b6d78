"""A thread that does what callers ask, first come first served, among work of its own."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Final, TypeVar

from wikid_daemon.updater import Cancelled

CLOSE_SECONDS: Final = 30.0
PREDECESSOR_SECONDS: Final = 0.1  # between two looks at whether the one before has ended
LOOK_SECONDS: Final = 0.05  # between two at whether who waits has been cancelled

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Task:
    """`answer` does the work and gives its caller the result, `refuse` a failure instead."""

    answer: Callable[[], None]
    refuse: Callable[[BaseException], None]


def outcome(asked: Future[T], until: float, cancelled: Callable[[], bool]) -> T:
    """What was `asked` for brings, waited for until then (`time.monotonic()`) and while the caller is not `cancelled`.
    TimeoutError or Cancelled otherwise; what has not begun by then never does."""
    while not asked.done():
        left = until - time.monotonic()
        if left <= 0 or cancelled():
            asked.cancel()
            raise TimeoutError if left <= 0 else Cancelled
        wait((asked,), min(left, LOOK_SECONDS))
    return asked.result()


def finished(asked: Future[T], cancelled: Callable[[], bool]) -> T:
    """The same without a limit, and to the end once it has begun, since such work uses what its caller holds."""
    while not asked.done():
        if cancelled() and asked.cancel():
            raise Cancelled
        wait((asked,), LOOK_SECONDS)
    return asked.result()


class Worker(ABC):
    """Everything that `_wake` guards may be changed by any thread, which then notifies it."""

    def __init__(self, name: str) -> None:
        self._wake = threading.Condition()
        self._tasks: deque[Task] = deque()
        self._soon: deque[Task] = deque()
        self._stopping = False
        self._after: Worker | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def _run(self) -> None:
        """The thread: begins with `_wait_for_predecessor` and ends soon after `_stopping`."""

    # -- from any thread -----------------------------------------------------------------------------------------------

    def start(self, after: Worker | None = None) -> None:
        """Begin; where `after` still holds the same files, once it has ended."""
        self._after = after
        self._thread.start()

    def stop(self) -> None:
        """End after the piece in hand, without waiting for it."""
        with self._wake:
            self._stopping = True
            self._wake.notify()

    def close(self) -> None:
        """Stop, and wait until that is done."""
        self.stop()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_SECONDS)

    def join(self, seconds: float) -> None:
        """Wait at most so long for its end."""
        self._thread.join(seconds)

    @property
    def closing(self) -> bool:
        """Whether it was told to stop and still holds its files."""
        return self._stopping and self._thread.is_alive()

    def wake(self) -> None:
        """Something outside changed, such as a model that became ready."""
        with self._wake:
            self._wake.notify()

    def _add(self, work: Callable[[], T], *, soon: bool = False) -> Future[T]:
        """The future of what `work` returns or raises; with `soon` it does not wait for longer work to end. Raises
        Cancelled where the thread stops."""
        future: Future[T] = Future()

        def answer() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except Exception as problem:  # noqa: BLE001 - handed to the caller, who reports it
                future.set_exception(problem)

        def refuse(problem: BaseException) -> None:
            if future.set_running_or_notify_cancel():
                future.set_exception(problem)

        with self._wake:
            if self._stopping:
                raise Cancelled
            (self._soon if soon else self._tasks).append(Task(answer, refuse))
            self._wake.notify()
        return future

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _wait_for_predecessor(self) -> None:
        after, self._after = self._after, None
        # also when told to stop meanwhile, since the next one waits for this one alone
        while after is not None and after.closing:
            after.join(PREDECESSOR_SECONDS)

    @property
    def _asked(self) -> bool:
        return bool(self._soon or self._tasks)

    def _next_task(self) -> Task | None:
        """What is to be done next. Called with the lock held."""
        waiting = self._soon or self._tasks
        return waiting.popleft() if waiting else None

    def _answer_soon(self) -> None:
        """Do what does not wait for longer work, in the midst of it."""
        while self._soon:
            self._soon.popleft().answer()

    def _refuse(self, problem: Exception) -> None:
        """Give everyone who waits this failure."""
        with self._wake:
            waiting = [*self._soon, *self._tasks]
            self._soon.clear()
            self._tasks.clear()
        for task in waiting:
            task.refuse(problem)
