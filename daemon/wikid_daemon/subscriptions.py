"""Who wants to hear of an index or a vault's state, and telling them the newest there is (protocol, Messages).

One round serves all: look at every vault, tell each subscription what is not what it was told last. A notification that
a client had no room for is no different from one that was never sent, so the next round has the newest for it. What the
indexers publish makes a round begin; a look each second is the truth.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeVar
from weakref import WeakSet

import structlog

from wikid_daemon import health
from wikid_daemon.calls import CallContext, Connection
from wikid_daemon.index.catalog import CatalogError
from wikid_daemon.indexer import Indexer
from wikid_daemon.refusals import translated
from wikid_daemon.unserved import NotOpen
from wikid_daemon.vaults import Vaults
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused
from wikid_protocol.methods import SubscribeParams, UnsubscribeParams
from wikid_protocol.subscriptions import INDEX_CHANGED, SUBSCRIPTIONS_A_CONNECTION, VAULT_STATE

COALESCE_SECONDS: Final = 0.2  # between two notifications of one kind and vault
LOOK_SECONDS: Final = 1.0

T = TypeVar("T")

log = structlog.get_logger("subscriptions")


@dataclass(frozen=True, slots=True)
class Standing:
    """A vault's state as `vault/state` tells it."""

    state: Literal["indexing", "ready", "unavailable", "blocked", "failed", "removed"]
    stale: bool = True
    pending: int = 0
    watcher: str = "stopped"
    reason: str = ""


REMOVED: Final = Standing("removed", reason="it is no longer registered")


@dataclass(frozen=True, slots=True)
class Index:
    """What answers for a vault, but for the pages that wait: those are the state's business."""

    generation: int
    pages: int
    chunks: int
    embedded: int


@dataclass(frozen=True, slots=True)
class Seen:
    """One vault at one moment. `index` is None where there is none now, or it cannot be read."""

    vault_id: str
    standing: Standing
    index: Index | None = None


Look = Mapping[Path, Seen]
"""Vaults by root: copies of one vault share its id."""


@dataclass(slots=True)
class Subscription:
    """What one client wants to hear of, and what it was told last. `roots` None is every vault."""

    name: str
    connection: Connection
    kinds: Collection[str]
    roots: frozenset[Path] | None
    since: Mapping[str, int]
    indexes: dict[Path, Index] = field(default_factory=dict)
    standings: dict[Path, tuple[str, Standing]] = field(default_factory=dict)
    dropped: int = 0

    def wants(self, root: Path) -> bool:
        return self.roots is None or root in self.roots

    def tell(self, seen: Look) -> None:
        """Send what has changed; what the connection drops counts as not told."""
        for root, now in seen.items():
            if not self.wants(root):
                continue
            if VAULT_STATE in self.kinds:
                self._tell_standing(root, now.vault_id, now.standing)
            if INDEX_CHANGED in self.kinds and now.index is not None:
                self._tell_index(root, now, now.index)
        for root in self.standings.keys() - seen.keys():
            vault_id, _ = self.standings[root]
            if self._tell_standing(root, vault_id, REMOVED):
                del self.standings[root]
                self.indexes.pop(root, None)

    def _tell_standing(self, root: Path, vault_id: str, now: Standing) -> bool:
        if self.standings.get(root) == (vault_id, now):
            return True
        state = r.VaultState(
            subscription=self.name,
            vault_id=r.VaultId(vault_id),
            state=now.state,
            stale=now.stale,
            pending=now.pending,
            watcher=now.watcher,
            reason=now.reason,
            dropped=self.dropped,
        )
        told = self._send(VAULT_STATE, state)
        if told:
            self.standings[root] = vault_id, now
        return told

    def _tell_index(self, root: Path, seen: Seen, now: Index) -> None:
        last = self.indexes.get(root)
        known = self.since.get(seen.vault_id) == now.generation if last is None else last == now
        counts = r.IndexCounts(pages=now.pages, chunks=now.chunks, embedded=now.embedded, pending=seen.standing.pending)
        changed = r.IndexChanged(
            subscription=self.name,
            vault_id=r.VaultId(seen.vault_id),
            generation=now.generation,
            counts=counts,
            dropped=self.dropped,
        )
        if known or self._send(INDEX_CHANGED, changed):
            self.indexes[root] = now

    def _send(self, kind: str, params: r.IndexChanged | r.VaultState) -> bool:
        sent = self.connection.notify(kind, params)
        self.dropped += not sent
        return sent


class Subscriptions:
    """All subscriptions of this daemon. In the event loop's thread, but for `stir`."""

    def __init__(self, look: Callable[[], Look], find: Callable[[str], Path]) -> None:
        """`look` sees every vault, `find` gives the root of the one with that id or name, or raises RequestRefused;
        both are called in other threads."""
        self._look = look
        self._find = find
        self._all: dict[str, Subscription] = {}
        self._ending: WeakSet[Connection] = WeakSet()  # those whose end will be told here
        self._numbers = itertools.count(1)
        self._thread = ThreadPoolExecutor(1, "subscriptions")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stirred = False
        self._due = asyncio.Event()
        self._rounds: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        return len(self._all)

    def methods(self) -> Mapping[str, Callable[[Any, CallContext], Awaitable[object]]]:
        return {"subscribe": self.subscribe, "unsubscribe": self.unsubscribe}

    def stir(self) -> None:
        """A vault may have changed. From any thread at any time: it blocks nobody, and is nothing while nobody
        listens."""
        loop = self._loop
        if loop is None or self._stirred:
            return
        self._stirred = True
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the process is about to
            loop.call_soon_threadsafe(self._due.set)

    def close(self) -> None:
        """Tell nobody any more."""
        self._all.clear()
        self._loop = None
        if self._rounds is not None:
            self._rounds.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    # -- the calls -----------------------------------------------------------------------------------------------------

    async def subscribe(self, params: SubscribeParams, context: CallContext) -> r.Subscribed:
        connection = context.connection
        if connection is None:
            raise RequestRefused(
                "invalid_request",
                "a request with one answer cannot be told of anything later",
                hint="subscribe over the socket itself, or over a WebSocket at /ws",
            )
        seen = await self._in_thread(self._look)
        roots: frozenset[Path] | None = None
        if params.vaults is not None:
            wanted = params.vaults
            # a path may be on a folder that does not answer, and the rounds do not wait for it
            roots = await asyncio.to_thread(lambda: frozenset(self._find(each) for each in wanted))
        # from here on without a pause, so that the answer is written before the first notification
        if sum(each.connection is connection for each in self._all.values()) >= SUBSCRIPTIONS_A_CONNECTION:
            raise RequestRefused(
                "busy", f"a connection may have {SUBSCRIPTIONS_A_CONNECTION} subscriptions", hint="unsubscribe from one"
            )
        added = Subscription(f"s{next(self._numbers)}", connection, params.kinds, roots, params.since or {})
        mine = {root: each for root, each in seen.items() if added.wants(root)}
        indexes = {root: each.index for root, each in mine.items() if each.index is not None}
        if params.since is None:
            added.indexes.update(indexes)
        self._all[added.name] = added
        if connection not in self._ending:  # once, however often it subscribes
            self._ending.add(connection)
            connection.at_end(lambda: self._leave(connection))
        self._begin()
        return r.Subscribed(
            subscription=added.name,
            generations={mine[root].vault_id: index.generation for root, index in indexes.items()},
        )

    async def unsubscribe(self, params: UnsubscribeParams, context: CallContext) -> r.Done:
        found = self._all.get(params.subscription)
        if found is None or found.connection is not context.connection:
            raise RequestRefused("invalid_params", "this connection has no such subscription")
        del self._all[found.name]
        return r.Done()

    def _leave(self, connection: Connection) -> None:
        self._ending.discard(connection)
        for each in [each for each in self._all.values() if each.connection is connection]:
            del self._all[each.name]

    # -- the rounds ----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Have a round at once, or as soon as the one that runs allows it."""
        self._loop = asyncio.get_running_loop()
        self._due.set()
        if self._rounds is None or self._rounds.done():
            self._rounds = self._loop.create_task(self._tell_all())

    async def _tell_all(self) -> None:
        while self._all:
            with contextlib.suppress(TimeoutError):
                # not wait_for, which may swallow that it is cancelled (Python 3.11)
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._due.wait()
            # cleared before the look, so that what is published during it brings another round
            self._due.clear()
            self._stirred = False
            try:
                seen = await self._in_thread(self._look)
                for each in list(self._all.values()):
                    each.tell(seen)
            except Exception:  # told in the log; the next round may do better
                log.exception("subscribers_not_told")
            await asyncio.sleep(COALESCE_SECONDS)
        self._loop = None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


class VaultLook:
    """Sees the vaults as `status` does, and counts again only where something was published."""

    def __init__(self, vaults: Vaults) -> None:
        self._vaults = vaults
        self._counted: dict[Path, Index] = {}

    def __call__(self) -> Look:
        seen = {each.vault.root: self._see(each) for each in self._vaults.all()}
        for each in self._vaults.unopened():
            standing = Standing(health.state_of_unopened(each), reason=each.reason)
            seen.setdefault(each.entry.path, Seen(each.entry.vault_id, standing))
        for root in self._counted.keys() - seen.keys():
            del self._counted[root]
        return seen

    def find(self, wanted: str) -> Path:
        """The root of the vault with that id, name or path, opened or not. RequestRefused."""
        return translated(lambda: self._root(wanted))

    def _root(self, wanted: str) -> Path:
        try:
            return self._vaults.find(wanted).vault.root
        except NotOpen as problem:
            return problem.unopened.entry.path

    def _see(self, indexer: Indexer) -> Seen:
        state, blocked = indexer.state, indexer.vault.blocked
        reason = state.reason or ("" if blocked is None else blocked.message)
        standing = Standing(health.state_of(indexer), indexer.stale, state.pending, state.watch.mode, reason)
        return Seen(indexer.vault.vault_id, standing, self._index(indexer))

    def _index(self, indexer: Indexer) -> Index | None:
        store, root = indexer.store, indexer.vault.root
        if store is None:
            return None
        known = self._counted.get(root)
        try:
            generation, embedded = store.generation, store.embedded
            if known is None or (known.generation, known.embedded) != (generation, embedded):
                known = self._counted[root] = Index(generation, *store.catalog.counts(), embedded)
        except CatalogError:
            return None  # closed at this moment, or damaged: the state tells
        return known
