"""A note written while the daemon runs, and how long until it can be found."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Final

from wikid_client.client import Client
from wikid_daemon.demo.sandbox import DemoFailed, Sandbox
from wikid_protocol.memories import Recall
from wikid_protocol.records import StatusReport, VaultStatus

PAGE_ID: Final = "concepts/webhook-secret-rotation"
QUERY: Final = "rotating a webhook signing secret"

_LONGEST_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.002
_TITLE: Final = "Rotate a webhook signing secret in two steps"
_CLAIM: Final = """\
Publish the new signing secret first and accept both for a week, then drop
the old one. Rotating in one step rejects every webhook still in flight.
"""


@dataclass(frozen=True, slots=True)
class Saved:
    """Milliseconds from the end of the write to the first answer by words with the note in it, and to its vector.

    `vector_ms` is None where there is no model.
    """

    words_ms: float
    vector_ms: float | None


def note(today: date) -> str:
    """A page with a claim of its own."""
    lines = ("type: concept", f"title: {_TITLE}", "status: draft", f"created: {today}")
    return "\n".join(("---", *lines, "---", "", f"# {_TITLE}", "", "## Claim", "", _CLAIM))


def save(sandbox: Sandbox, client: Client, vault_id: str, text: str, *, with_model: bool) -> Saved:
    """Write the note and ask until it is found. DemoFailed when that takes too long."""
    place = sandbox.pages / f"{PAGE_ID}.md"
    place.write_text(text, encoding="utf-8")
    saved = time.perf_counter()

    def found() -> bool:
        return holds(client.recall(QUERY, vault=vault_id, mode="lexical"), PAGE_ID)

    words_ms = _until(found, saved, "the note was not found")
    vector_ms = None
    if with_model:
        vector_ms = _until(lambda: embedded(client.status(vault=vault_id)), saved, "the note got no vector")
    return Saved(words_ms, vector_ms)


def holds(answer: Recall, page_id: str) -> bool:
    """Whether the page is anywhere in the answer."""
    items = (item for each in answer.bundles for item in (*filter(None, (each.card,)), *each.evidence, *each.conflicts))
    return any(item.page_id == page_id for item in items)


def embedded(report: StatusReport) -> bool:
    """Whether every chunk of the vault has a vector."""
    vault: VaultStatus = report.vaults[0]
    return vault.embedding_pending == 0 and vault.embedded >= vault.chunks


def _until(condition: Callable[[], bool], since: float, problem: str) -> float:
    """Milliseconds from `since` to the end of the first call of `condition` that says yes."""
    while not condition():
        if time.perf_counter() - since > _LONGEST_SECONDS:
            raise DemoFailed(f"{problem} within {_LONGEST_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
    return (time.perf_counter() - since) * 1_000
