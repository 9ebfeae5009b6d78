"""A subscription that outlives its connection: what changed, the newest only, and nothing missed over a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from wikid_client.aio_connection import Connection, Message, bounded
from wikid_client.caller import answer_of, may_ask_again
from wikid_client.listening import Change, change_in
from wikid_client.transport import ConnectionLost, TooSlow
from wikid_protocol.errors import DaemonNotRunning, RequestRefused, WikidError
from wikid_protocol.subscriptions import EventKind, IndexChanged, Subscribed

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


class AsyncSubscription:
    """Yields what changes until it is closed: `async with client.subscribe() as changes`, then `async for` over those.

    A reader that is slow is told the newest of each vault, never the steps between. When the daemon goes away the
    subscription waits for it to come back, without starting it, and goes on from `generations`. RequestRefused where
    the daemon says no.
    """

    def __init__(
        self,
        connect: Callable[[bool], Awaitable[Connection]],
        *,
        vaults: Sequence[str] | None,
        kinds: Sequence[EventKind],
        since: Mapping[str, int] | None,
        timeout: float,
    ) -> None:
        self._connect = connect
        self._vaults = None if vaults is None else tuple(vaults)
        self._kinds = tuple(kinds)
        self._since = None if since is None else dict(since)  # what came last, read or not
        self._told = dict(since or {})
        self._timeout = timeout
        self._news: dict[tuple[type[Change], str], Change] = {}
        self._stirred = asyncio.Event()
        self._begun = False
        self._closed = False
        self._connection: Connection | None = None
        self._id: str | None = None

    @property
    def generations(self) -> dict[str, int]:
        """The generation of each vault as the reader was told it last. Given as `since`, it resumes from here."""
        return dict(self._told)

    async def __aenter__(self) -> Self:
        await self._subscribe(start=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        while not self._closed:
            self._stirred.clear()
            if self._news:
                return self._tell(self._news.pop(next(iter(self._news))))
            if self._id is not None:
                await self._stirred.wait()
            elif self._begun:
                await self._subscribe_again()
            else:
                try:
                    await self._subscribe(start=True)
                except ConnectionLost:
                    if not self._closed:
                        raise
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the subscription; whoever waits for its next change gets none."""
        self._closed = True
        self._stirred.set()
        connection, subscription = self._connection, self._id
        self._connection = self._id = None
        if connection is not None and subscription is not None:
            connection.listeners.pop(subscription, None)
            connection.run_errand(_unsubscribe(connection, subscription))

    def _tell(self, change: Change) -> Change:
        if isinstance(change, IndexChanged):
            self._told[change.vault_id] = change.generation
        return change

    async def _subscribe_again(self) -> None:
        pause = _FIRST_PAUSE
        while not self._closed:
            try:
                await self._subscribe(start=False)
                return
            except RequestRefused as error:
                if not may_ask_again(error):
                    raise
            except (ConnectionLost, DaemonNotRunning, TooSlow):
                pass
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stirred.wait()
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _subscribe(self, *, start: bool) -> None:
        params: Message = {"vaults": self._vaults, "kinds": self._kinds, "since": self._since}
        async with bounded(self._timeout):
            connection = await self._connect(start)
            # the listener must be there before the next message is read, which may be a notification already
            answer = await connection.call("subscribe", params, arrived=lambda found: self._begin(connection, found))
        answer_of(Subscribed, "subscribe", answer)
        if self._closed:  # meanwhile, by somebody else
            await self.aclose()

    def _begin(self, connection: Connection, answer: Message) -> None:
        with suppress(WikidError):  # an error is raised where the answer is awaited
            begun = answer_of(Subscribed, "subscribe", answer)
            if self._since is None:
                self._since, self._told = begun.generations, dict(begun.generations)
            self._begun = True
            self._connection, self._id = connection, begun.subscription
            connection.listeners[begun.subscription] = self._heard

    def _heard(self, message: Message | None) -> None:
        if message is None:
            self._connection = self._id = None
        else:
            self._note(message)
        self._stirred.set()

    def _note(self, message: Message) -> None:
        change = change_in(message)
        if change is None:
            return
        if isinstance(change, IndexChanged):
            self._since = {**(self._since or {}), change.vault_id: change.generation}
        place = (type(change), change.vault_id)
        self._news.pop(place, None)  # the newest goes to the end
        self._news[place] = change


async def _unsubscribe(connection: Connection, subscription: str) -> None:
    with suppress(WikidError):  # a connection that is lost has no subscriptions
        await connection.call("unsubscribe", {"subscription": subscription})
