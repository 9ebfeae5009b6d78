"""What a test makes a `FakeDaemon` answer: sample records, and answers that wait or follow one another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from wikid_protocol import records as r

_HELD_SECONDS: Final = 60.0

MARKER: Final = "fake-marker-5f1e2d3c"


def sample_item(page_id: str = "concepts/sample", **changes: Any) -> r.Item:
    """A stable canonical page of the vault `personal`, with `changes`."""
    given: dict[str, Any] = {
        "vault_id": "0b5e3c6a-58b8-4a50-9a1f-000000000001",
        "vault": "personal",
        "page_id": page_id,
        "path": f"/notes/.llm-wiki/wiki/{page_id}.md",
        "title": "A sample page",
        "type": "concept",
        "role": "canonical",
        "status": "stable",
        "freshness": "current",
        "excerpt": "What the page says.",
        "score": 0.75,
        "rank": 1,
    }
    return r.Item(**{**given, **changes})


def sample_recall(*bundles: r.Bundle, **changes: Any) -> r.Recall:
    """A current answer from the vault `personal`, with `changes`. Without bundles its reason says so."""
    searched = r.SearchedVault(
        vault_id=r.VaultId("0b5e3c6a-58b8-4a50-9a1f-000000000001"),
        name="personal",
        layer="personal",
        generation=7,
        stale=False,
        pending=0,
    )
    given: dict[str, Any] = {
        "recall_id": "recall-1",
        "bundles": bundles,
        "vaults": (searched,),
        "mode_used": "adaptive",
        "generation": 7,
        "stale": False,
        "pending": 0,
        "elapsed_ms": 14.2,
        "marker": MARKER,
        "reason": None if bundles else "no_reliable_memory",
    }
    return r.Recall(**{**given, **changes})


@dataclass
class Held:
    """An answer that is kept back until `release`, so that a test sees what happens meanwhile.

    `arrived` is set when the call is there. Stopping the daemon releases it too.
    """

    answer: object
    arrived: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)

    def __call__(self, _params: dict[str, Any]) -> object:
        self.arrived.set()
        self._released.wait(_HELD_SECONDS)
        return self.answer

    def release(self) -> None:
        self._released.set()


def in_turn(*answers: object) -> Callable[[dict[str, Any]], object]:
    """One answer after the other, and the last one from then on."""
    left = list(answers)

    def answer(params: dict[str, Any]) -> object:
        found = left.pop(0) if len(left) > 1 else left[0]
        return found(params) if callable(found) else found

    return answer
