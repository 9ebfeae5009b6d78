"""What `subscribe` promises, and what comes of it: notifications on the connection that subscribed.

Both kinds tell the newest there is and may skip what lies between, so a listener needs no history: `index/changed`
names the generation that answers now, `vault/state` how the vault is. After a lost connection, `since` asks for what
was missed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from wikid_protocol.memories import VaultId

EventKind = Literal["index/changed", "vault/state"]

INDEX_CHANGED: Final = "index/changed"
VAULT_STATE: Final = "vault/state"
SUBSCRIPTIONS_A_CONNECTION: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeParams:
    """`vaults` are ids or names, and all there are or will be where none is named. `since` has the generations that the
    caller has seen, by vault id: a vault that is at another one now, or that it does not name, is told of at once."""

    vaults: tuple[str, ...] | None = None
    kinds: tuple[EventKind, ...] = ("index/changed", "vault/state")
    since: dict[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsubscribeParams:
    subscription: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """`generations` are those at the time of the answer, without vaults that are still being opened; whatever comes
    after it is told under `subscription`, which ends with its connection."""

    subscription: str
    generations: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCounts:
    """As `status` counts them: `pending` are pages saved but not searchable yet, `embedded` chunks with a vector."""

    pages: int
    chunks: int
    embedded: int
    pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexChanged:
    """Params of `index/changed`: a vault answers at another `generation`, or with other `counts`, than was told last.
    `dropped` counts the notifications of this subscription that its connection had no room for, all told."""

    subscription: str
    vault_id: VaultId
    generation: int
    counts: IndexCounts
    dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultState:
    """Params of `vault/state`, with the words of `status`; told once at the start and whenever something of it changes.
    A vault that is no longer served is `removed`."""

    subscription: str
    vault_id: VaultId
    state: Literal["indexing", "ready", "unavailable", "blocked", "failed", "removed"]
    stale: bool
    pending: int
    watcher: str
    reason: str = ""
    dropped: int = 0


EVENTS: Final[dict[str, type[IndexChanged] | type[VaultState]]] = {
    INDEX_CHANGED: IndexChanged,
    VAULT_STATE: VaultState,
}
"""The params of each kind of notification, for whoever decodes them."""
