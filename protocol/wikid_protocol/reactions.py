"""The records of feedback on what was recalled. Part of `records`, and as those are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wikid_protocol.memories import PageId, VaultId


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a person said of a page that was shown.

    `correction_page_id` is the page that the correction was saved as; with `correction_saved_feedback_pending` it is
    there, but the event is not, and is made up for from the page. `adjustment` is what all feedback on the page adds to
    the factor of its score now, within ±0.02; none while feedback is `disabled`.
    """

    vault_id: VaultId
    vault: str
    page_id: PageId
    judgment: Literal["relevant", "irrelevant", "corrected"]
    state: Literal["recorded", "correction_saved_feedback_pending"]
    correction_page_id: PageId | None = None
    adjustment: float = 0.0
    feedback: Literal["on", "disabled"] = "on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signalled:
    """How many pages of the session's turn the signal was noted for: none where it shows none, nothing is new, or
    signals are switched off."""

    counted: int = 0
