"""What a handler is given with each call, and what every transport asks of the handlers (protocol, Messages)."""

from __future__ import annotations

import re
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol

from wikid_daemon.threads import Cancelled
from wikid_protocol.errors import RequestRefused
from wikid_protocol.methods import Method

ProgressKind = Literal["begin", "report", "end"]
Progress = Callable[[str, str, float | None], None]
"""token, message, percentage 0–100. Callable from any thread; silent once the call is answered. That a call begins and
ends the session tells."""

_PLACE: Final = re.compile("[0-9]{1,9}")


class Connection(Protocol):
    """Where a call came from, for what is to be told later. In the event loop's thread only."""

    def notify(self, method: str, params: object) -> bool:
        """Send a notification; False where it is dropped, because the client does not read or is gone."""
        ...

    def at_end(self, work: Callable[[], None]) -> None:
        """Call `work` when the connection ends; at once where it has."""
        ...


@dataclass(slots=True)
class CallContext:
    """Travels with one call. Work in other threads looks at `cancelled` and gives up when it is set. `connection` is
    None where nothing but the answer finds its way back."""

    session: str | None
    cancelled: threading.Event
    progress: Progress
    connection_id: int
    connection: Connection | None = None

    def alive(self) -> None:
        """Cancelled where nobody waits for the answer any more. Any thread."""
        if self.cancelled.is_set():
            raise Cancelled


def absolute(path: str) -> Path:
    """A path that came with a call. RequestRefused where it is none, or only the caller could tell what it is relative
    to."""
    if "\0" in path:
        raise RequestRefused("invalid_params", "a path cannot hold the character NUL")
    try:
        given = Path(path).expanduser()
    except RuntimeError:
        raise RequestRefused("invalid_params", "a path begins with the home folder of an unknown user") from None
    if not given.is_absolute():
        raise RequestRefused("invalid_params", "a path must be absolute: the daemon has another working folder")
    return given


def listed_at_most(limit: int, most: int) -> int:
    """How many of a list to give in one answer. RequestRefused where that is none."""
    if limit < 1:
        raise RequestRefused("invalid_params", f"limit must be 1 or more; an answer lists {most} at most")
    return min(limit, most)


def place_of(cursor: str | None) -> int:
    """How many of a list came before: what the `next_cursor` of a list says that is made anew for each call.
    RequestRefused."""
    if cursor is None:
        return 0
    if not _PLACE.fullmatch(cursor):
        raise RequestRefused("invalid_params", "that cursor was not given out by this method")
    return int(cursor)


@dataclass(frozen=True, slots=True)
class Face:
    """What is told beside the protocol, to monitoring: the members of `/health`, and `/metrics` as its body and content
    type."""

    health: Callable[[], Awaitable[dict[str, object]]]
    metrics: Callable[[], Awaitable[tuple[bytes, str]]]


class Dispatcher(Protocol):
    async def call(self, method: Method, params: object, context: CallContext) -> object:
        """Answer with a `method.result` record, given a `method.params` record; raise RequestRefused to say no."""
        ...
