"""The protocol's versions and limits, apart from the method table so that a client can do without loading that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the daemon accepts and sends at most."""

    message_bytes: int
    answer_bytes: int
    depth: int
    query_code_points: int
    calls_in_flight: int
    connections: int
    queue: int
    frame_seconds: int


PROTOCOL_VERSION: Final = 1
OLDEST_PROTOCOL: Final = 1

MAX_QUERY_CODE_POINTS: Final = 2_000
PAGE_TEXT_CODE_POINTS: Final = 200_000
"""Of one page's text in one answer; more is asked for by its lines."""
PAGE_BACKLINKS: Final = 500
"""Of one page in one answer, or a page that everything links to would fit in none."""
LIMITS: Final = Limits(
    message_bytes=4_000_000,
    answer_bytes=1_000_000,
    depth=64,
    query_code_points=MAX_QUERY_CODE_POINTS,
    calls_in_flight=32,
    connections=128,
    queue=256,
    frame_seconds=10,
)
