"""The conflicts of a vault: claims that are declared or suspected to dispute each other, and what was decided (seed A,
Contradictions and User Resolution; vault format §11.39). Nothing is a conflict because a model says so. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from wikid_daemon.core import resolutions
from wikid_daemon.core.dates import instant
from wikid_daemon.core.feedback import CORRECTION
from wikid_daemon.core.names import sort_key
from wikid_daemon.core.page import KnowledgeDocument, Resolution
from wikid_daemon.core.resolutions import Pair

State = Literal["undecided", "confirmed", "proposed", "resolved"]
Reason = Literal["contradicts_both", "contradicts_one", "supersedes_both", "correction", "marker"]
STATES: Final[tuple[State, ...]] = ("undecided", "confirmed", "proposed", "resolved")
_CONTRADICTS: Final = "contradicts"
_SUPERSEDES: Final = "supersedes"


@dataclass(frozen=True, slots=True)
class Decided:
    """A record that stands, and the page that holds it."""

    record: Resolution
    page: KnowledgeDocument


@dataclass(frozen=True, slots=True)
class Conflict:
    """One dispute. `claims` are page ids, in order, and one alone where a page's own words are all there is.

    `confirmed`: each page says it contradicts the other. `undecided`: several records stand. `stale` are the claims
    that have changed since the decision, or are gone.
    """

    state: State
    claims: tuple[str, ...]
    reasons: tuple[Reason, ...]
    decided: tuple[Decided, ...] = ()
    stale: tuple[str, ...] = ()


def conflicts(documents: Sequence[KnowledgeDocument], marked: Collection[str]) -> list[Conflict]:
    """Every conflict of the vault, open ones first; `marked` are the ids of pages with the contradiction marker."""
    by_id = {document.page_id: document for document in documents}
    reasons = _declared(by_id)
    standing = _standing(documents)
    found = [
        _conflict(pair, reasons.get(pair, {}), standing.get(pair, ()), by_id, marked) for pair in {*reasons, *standing}
    ]
    told = {claim for each in found for claim in each.claims}
    found += [Conflict("proposed", (page_id,), ("marker",)) for page_id in marked if page_id not in told]
    return sorted(found, key=lambda each: (STATES.index(each.state), [sort_key(claim) for claim in each.claims]))


def _conflict(
    pair: Pair,
    reasons: Mapping[Reason, None],
    standing: Sequence[Decided],
    by_id: Mapping[str, KnowledgeDocument],
    marked: Collection[str],
) -> Conflict:
    told: tuple[Reason, ...] = (*reasons, *(("marker",) if not pair.isdisjoint(marked) else ()))
    state: State = "confirmed" if "contradicts_both" in reasons else "proposed"
    if standing:
        state = "resolved" if len(standing) == 1 else "undecided"
    claims = tuple(sorted(pair, key=sort_key))
    stale = () if len(standing) != 1 else tuple(each for each in claims if _is_stale(each, standing[0], by_id))
    return Conflict(state, claims, told, tuple(standing), stale)


def _is_stale(claim: str, decided: Decided, by_id: Mapping[str, KnowledgeDocument]) -> bool:
    page = by_id.get(claim)
    if page is None:
        return True
    return page.updated is not None and instant(page.updated) > instant(decided.record.decided_at)


def _standing(documents: Iterable[KnowledgeDocument]) -> dict[Pair, tuple[Decided, ...]]:
    holders = {each.resolution.id: each for each in documents if each.resolution is not None}
    live = resolutions.live(each.resolution for each in documents if each.resolution is not None)
    return {
        pair: tuple(Decided(record, holders[record.id]) for record in sorted(records, key=lambda each: each.id))
        for pair, records in live.items()
        if records
    }


def _declared(by_id: Mapping[str, KnowledgeDocument]) -> dict[Pair, dict[Reason, None]]:
    """Pair → why its pages are held to dispute each other."""
    found: defaultdict[Pair, dict[Reason, None]] = defaultdict(dict)
    both = set(_related(by_id, _CONTRADICTS))
    for one, other in both:
        found[frozenset((one, other))]["contradicts_both" if (other, one) in both else "contradicts_one"] = None
    over = set(_related(by_id, _SUPERSEDES))
    for one, other in over:
        if (other, one) in over and by_id[one].status == by_id[other].status == "stable":
            found[frozenset((one, other))]["supersedes_both"] = None
    for document in by_id.values():
        corrected = document.metadata.get("corrected_page")
        is_correction = document.category == CORRECTION and corrected != document.page_id
        if is_correction and isinstance(corrected, str) and corrected in by_id:
            found[frozenset((document.page_id, corrected))]["correction"] = None
    return found


def _related(by_id: Mapping[str, KnowledgeDocument], kind: str) -> Iterator[tuple[str, str]]:
    for page_id, document in by_id.items():
        for relation in document.relations:
            if relation.type == kind and relation.target in by_id:
                yield page_id, relation.target
