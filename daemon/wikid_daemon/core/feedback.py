"""What reactions to recalled pages come to: for each page a small, bounded, fading adjustment of its rank. Pure.

Reactions are events of the vault's log that hold the hash of a query and never its text (seed A, Feedback; vault format
§11.24–28, §11.38).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, get_args

from wikid_daemon.core.dates import instant, normalised
from wikid_daemon.core.events import EVENTS_PATH, FEEDBACK_KIND, Event
from wikid_daemon.core.json_text import json_file
from wikid_daemon.core.names import sort_key
from wikid_daemon.core.page import Json, KnowledgeDocument
from wikid_daemon.core.query import normalise
from wikid_daemon.core.remarks import Remark

Action = Literal["shown", "opened", "cited", "shown_only", "relevant", "irrelevant", "corrected", "conflict_selected"]

SCHEMA: Final = 1
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
THOUSANDTHS: Final[Mapping[Action, int]] = {
    "shown": 0,
    "opened": 5,
    "cited": 10,
    "shown_only": -5,
    "relevant": 20,
    "irrelevant": -20,
    "corrected": -20,
    "conflict_selected": 20,
}
"""What each action adds to a page's weight, in thousandths: whole numbers have the same sum in every order."""

LIMIT: Final = 20  # thousandths
HALF_LIFE: Final = timedelta(days=90)
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
CORRECTION: Final = "recall-correction"  # the category of an observation that corrects a page


@dataclass(frozen=True, slots=True)
class Reaction:
    """What became of a page that a recall had shown."""

    page_id: str
    query_hash: str
    action: Action
    at: datetime


@dataclass(frozen=True, slots=True)
class Correction:
    """A person's correction of a page, as the page that holds it tells."""

    corrected: str
    query_hash: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Showing:
    """How a recall came to show a page: `rank` counts from 1, `models` are identities."""

    query_hash: str
    mode: str
    index_version: str
    models: tuple[str, ...]
    rank: int


@dataclass(frozen=True, slots=True)
class Standing:
    """What all reactions to a page came to when the last of them was: `weight` in thousandths, within `LIMIT`."""

    weight: int
    at: datetime
    counts: Mapping[str, int]

    def adjustment(self, now: datetime) -> float:
        """What is left of it, within ±0.02."""
        age = max(now - self.at, timedelta())
        return float(self.weight / 1_000 * 0.5 ** (age / HALF_LIFE))


def query_hash(text: str) -> str:
    """SHA-256 in hex of the query as recall reads it."""
    return hashlib.sha256(normalise(text).encode("utf-8", "surrogatepass")).hexdigest()


def event_of(vault_id: str, page_id: str, showing: Showing, action: Action) -> dict[str, Json]:
    """The event of a reaction, as the log takes it."""
    return {
        "schema": SCHEMA,
        "visibility": "internal",
        "vault_id": vault_id,
        "page_id": page_id,
        "query_hash": showing.query_hash,
        "mode": showing.mode,
        "index_version": showing.index_version,
        "models": list(showing.models),
        "rank": showing.rank,
        "action": action,
        "kind": FEEDBACK_KIND,
    }


# -- from events and pages to standings --------------------------------------------------------------------------------


def reactions(events: Iterable[Event], vault_id: str) -> list[Reaction]:
    """The reactions among the events of a vault's log. Those of a later schema, and of a vault with another id whose
    copy this one may be, are none."""
    found = (_reaction(event, vault_id) for event in events if event.kind == FEEDBACK_KIND)
    return [each for each in found if each is not None]


def _reaction(event: Event, vault_id: str) -> Reaction | None:
    details = event.details
    page_id, hashed, told = details.get("page_id"), details.get("query_hash"), details.get("action")
    action = next((each for each in ACTIONS if each == told), None)
    at = normalised(event.timestamp)
    if details.get("schema") != SCHEMA or details.get("vault_id") != vault_id or at is None:
        return None
    if not isinstance(page_id, str) or not isinstance(hashed, str) or action is None:
        return None
    return Reaction(page_id, hashed, action, instant(at))


def correction_of(document: KnowledgeDocument, vault_id: str) -> Correction | None:
    """The correction that a page holds, if that is what it is and it is of this vault."""
    corrected, hashed = document.metadata.get("corrected_page"), document.metadata.get("query_hash")
    at = document.created or document.updated
    if document.category != CORRECTION or document.metadata.get("vault_id") != vault_id or at is None:
        return None
    if not isinstance(corrected, str) or not isinstance(hashed, str):
        return None
    return Correction(corrected, hashed, instant(at))


class Tally:
    """The sum of reactions, page by page: whatever the order they are added in, and one by one as well as at once.

    That a page was shown says nothing of it, nor does it keep alive what was said before.
    """

    def __init__(self) -> None:
        self._sums: dict[str, _Sum] = {}
        self._corrected: Counter[tuple[str, str]] = Counter()

    @property
    def page_ids(self) -> list[str]:
        return list(self._sums)

    def add(self, told: Iterable[Reaction]) -> None:
        for each in told:
            if THOUSANDTHS[each.action]:
                self._sums.setdefault(each.page_id, _Sum()).add(each)
            if each.action == "corrected":
                self._corrected[each.page_id, each.query_hash] += 1

    def standings(self, known: Container[str], corrections: Iterable[Correction] = ()) -> dict[str, Standing]:
        """Page id → what its reactions came to, in the order of ids; pages that are not `known` have none: they were
        deleted. Corrections that were saved while the log could not be written count as if they had their events."""
        sums = {page_id: each for page_id, each in self._sums.items() if page_id in known}
        for told in self._pending(corrections):
            if told.page_id in known:
                sums[told.page_id] = _Sum.of(sums.get(told.page_id))
                sums[told.page_id].add(told)
        return {page_id: sums[page_id].standing() for page_id in sorted(sums, key=sort_key)}

    def _pending(self, corrections: Iterable[Correction]) -> Iterator[Reaction]:
        left = self._corrected.copy()
        for each in sorted(corrections, key=lambda correction: correction.at):
            if left[each.corrected, each.query_hash] > 0:
                left[each.corrected, each.query_hash] -= 1
            else:
                yield Reaction(each.corrected, each.query_hash, "corrected", each.at)


@dataclass(slots=True)
class _Sum:
    counts: Counter[Action] = field(default_factory=Counter)
    at: datetime = _LONG_AGO

    @classmethod
    def of(cls, other: _Sum | None) -> _Sum:
        return cls() if other is None else cls(other.counts.copy(), other.at)

    def add(self, told: Reaction) -> None:
        self.counts[told.action] += 1
        self.at = max(self.at, told.at)

    def standing(self) -> Standing:
        total = sum(THOUSANDTHS[action] * number for action, number in self.counts.items())
        counts: dict[str, int] = {action: self.counts[action] for action in ACTIONS if self.counts[action]}
        return Standing(min(LIMIT, max(-LIMIT, total)), self.at, counts)


def projection(vault_id: str, found: Mapping[str, Standing]) -> bytes:
    """`meta/recall-feedback.json`: the standings as a file, which says nothing that the events do not."""
    pages: dict[str, Json] = {
        page_id: {
            "weight": each.weight / 1_000,
            "last": each.at.isoformat(),
            "actions": dict(each.counts),
        }
        for page_id, each in found.items()
    }
    return json_file({"schema": SCHEMA, "vault_id": vault_id, "half_life_days": HALF_LIFE.days, "pages": pages})


# -- what signals say --------------------------------------------------------------------------------------------------


def cites(text: str, page_id: str) -> bool:
    """Whether the text links to the page, or has its id as a whole word."""
    name = re.escape(unicodedata.normalize("NFC", page_id))
    # an id that begins or ends another one is not that page's
    whole = rf"(?<![\w-])(?<![\w-]/){name}(?:\.md)?(?![\w/-])(?!\.\w)"
    return re.search(rf"\[\[\s*{name}\s*(?:[|#][^\]\n]*)?\]\]|{whole}", unicodedata.normalize("NFC", text)) is not None


def disabled_remark() -> Remark:
    """What lint says of a log that feedback cannot be taken from."""
    message = "a line since wikid's first event cannot be read, so no feedback counts until somebody takes note of it"
    return Remark("warning", "feedback_disabled", EVENTS_PATH, message)
