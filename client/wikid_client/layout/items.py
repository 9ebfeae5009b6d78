"""What an answer says of its pages, in words that a person and a model share. Pure."""

from __future__ import annotations

from typing import Final

from wikid_client.layout.notes import moment
from wikid_client.text import line
from wikid_protocol.memories import Bundle, ConflictResolution, Item, Recall

_CONTRADICTS: Final = "contradicts"
_OUTSIDE: Final = "applies outside the card's scope"  # here an item's scope is the card's
OPENING: Final = "vault_opening"  # of `reason`: not everything could be looked through yet
_REQUESTED: Final = "requested"
_REASONS: Final = {
    "narrow_margin": "the two best are close",
    "lists_disagree": "words and vectors disagree",
    "question": "it is a question",
    "contradiction": "two of the best contradict each other",
    "deadline_short": "there was too little time",
    "model_absent": "there is no embedding model",
    "model_loading": "the embedding model is still loading",
    "model_failed": "the embedding model failed",
    "vectors_missing": "no page has a vector yet",
    "query_not_embedded": "the query could not be embedded",
    "reranker_absent": "there is no reranker",
    "reranker_loading": "the reranker is still loading",
    "reranker_failed": "the reranker failed",
    "java_unavailable": "there is no Java",
}
_LONGEST_NAME: Final = 40


def reference(page: Item | ConflictResolution) -> str:
    """How a command names the page: `vault:folder/name`."""
    return line(f"{page.vault}:{page.page_id}")


def choices(left: Item, right: Item) -> tuple[str, str]:
    """The page ids to choose between, with their vaults only where these differ."""
    if left.vault_id == right.vault_id:
        return line(left.page_id), line(right.page_id)
    return reference(left), reference(right)


def leading(bundle: Bundle) -> Item | None:
    """The page that the others of the bundle support or dispute."""
    return bundle.card or next(iter((*bundle.evidence, *bundle.conflicts)), None)


def sides(bundle: Bundle) -> list[Item]:
    """The claims that stand against each other, the leading one first; empty where nothing is disputed."""
    first = leading(bundle)
    others = [each for each in bundle.conflicts if each is not first]
    return [first, *others] if first is not None and others else []


def is_open(claim: Item) -> bool:
    """Whether the person has to be asked. Where the notes themselves say which claim holds, nobody has to be."""
    return claim.settled_by is None and claim.relation in (None, _CONTRADICTS)


def is_decided_by(claim: Item, resolution: ConflictResolution | None) -> bool:
    return resolution is not None and claim.settled_by == resolution.id


def relation(item: Item, otherwise: str) -> str:
    """What the page is to the leading one."""
    return line(item.relation or otherwise).replace("_", " ")


def facts(item: Item, *, promoted: bool) -> tuple[str, ...]:
    """What the page is and how far to trust it, each in a few words; what needs a warning is left to `warnings`.

    Evidence is not `promoted` where its bundle has no card.
    """
    dates = item.dates
    changed = ("updated", dates.updated) if dates.updated else ("created", dates.created)
    dated = [f"{name} {_day(value)}" for name, value in (changed, ("verified", dates.verified)) if value]
    return (
        line(item.type),
        role(item, promoted=promoted),
        "" if item.status == "deprecated" else item.status,
        "" if item.freshness in ("stale", "outdated") else line(item.freshness),
        *dated,
    )


def role(item: Item, *, promoted: bool) -> str:
    return item.role if promoted or item.role == "canonical" else f"unpromoted {item.role}"


def scope(item: Item) -> str:
    """Where the page applies, or where the card does that it stands against."""
    whose = "the card's scope" if item.relation == _OUTSIDE else "scope"
    return f"{whose}: {line(item.scope)}" if item.scope else ""


def warnings(item: Item) -> tuple[str, ...]:
    """Why not to rely on the page as it stands."""
    found = []
    if item.status == "deprecated":
        found.append("deprecated: withdrawn by its author")
    if item.freshness == "stale":
        found.append(f"stale: its review was due {_day(item.dates.stale_after)}".rstrip())
    if item.freshness == "outdated":
        found.append("outdated: changed since it was verified")
    if item.missing:
        found.append("deleted since it was indexed")
    return tuple(found)


def reasons(item: Item) -> str:
    """Why the page is in the answer, apart from the relation that its heading tells."""
    told = f"relation {item.relation}" if item.relation else "linked"
    return ", ".join(line(each) for each in item.match_reasons if each != told)


def decision(claim: Item, resolution: ConflictResolution | None) -> tuple[str, str]:
    """Who settled this conflict, when, and where that is recorded; and what they decided."""
    if resolution is None or claim.settled_by != resolution.id:
        return f"Settled by the user ({shortened(claim.settled_by or '', _LONGEST_NAME)})", ""
    decider = "the user" if resolution.decided_by == "user" else shortened(resolution.decided_by, _LONGEST_NAME)
    selected, other = line(resolution.selected_page_id), line(resolution.other_page_id)
    if resolution.relation == "applies_under":
        decided = f'{selected} applies under "{line(resolution.scope or "")}", {other} outside it'
    else:
        decided = f"{selected} {resolution.relation} {other}"
    return f"Settled by {decider} on {_day(resolution.decided_at)} ({reference(resolution)})", decided


def mode(answer: Recall) -> str:
    """The path that was taken and why, such as `quality: the two best are close, it is a question`."""
    why = ", ".join(mode_reason(each) for each in answer.mode_reasons if each != _REQUESTED)
    return f"{answer.mode_used}: {why}" if why else answer.mode_used


def mode_reason(reason: str) -> str:
    return _REASONS.get(reason) or line(reason).replace("_", " ")


def shortened(text: str, most: int) -> str:
    """`text` on one line of at most `most` code points."""
    flat = line(text)
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"


def _day(value: str | None) -> str:
    return moment(value)[:10]
