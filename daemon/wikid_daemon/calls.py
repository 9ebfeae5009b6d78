"""What a handler is given with each call, and what every transport asks of the handlers (protocol, Messages)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from wikid_protocol.errors import RequestRefused
from wikid_protocol.methods import Method

ProgressKind = Literal["begin", "report", "end"]
Progress = Callable[[str, ProgressKind, str, float | None], None]
"""token, kind, message, percentage 0–100. Callable from any thread; silent once the call is answered."""


@dataclass(slots=True)
class CallContext:
    """Travels with one call. Work in other threads looks at `cancelled` and gives up when it is set."""

    session: str | None
    cancelled: threading.Event
    progress: Progress
    connection_id: int


def absolute(path: str) -> Path:
    """A path that came with a call. RequestRefused where only the caller could tell what it is relative to."""
    given = Path(path).expanduser()
    if not given.is_absolute():
        raise RequestRefused("invalid_params", "a path must be absolute: the daemon has another working folder")
    return given


class Dispatcher(Protocol):
    async def call(self, method: Method, params: object, context: CallContext) -> object:
        """Answer with a `method.result` record, given a `method.params` record; raise RequestRefused to say no."""
        ...
