"""A subscription over a connection of its own: what changed, and nothing missed when the daemon is restarted."""

from __future__ import annotations

import time
from _thread import LockType  # `threading` would be loaded for this alone
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from wikid_client.caller import answer_of, given, may_ask_again, message_of, own_lock
from wikid_client.transport import ConnectionLost, SocketTransport, TooSlow
from wikid_protocol.decode import DecodeError, decode
from wikid_protocol.errors import DaemonNotRunning, RequestRefused
from wikid_protocol.messages import request
from wikid_protocol.subscriptions import EVENTS, EventKind, IndexChanged, Subscribed, VaultState

Change = IndexChanged | VaultState

CALL_ID: Final = 1  # there is never more than one call on the connection

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_LEAST_PATIENCE: Final = 1.0
_GLANCE: Final = 0.5  # until a wait looks whether another thread has closed the subscription


class Subscription:
    """Yields what changes until it is closed: `with client.subscribe() as changes`, then `for change in changes`.

    When the daemon goes away, the subscription waits for it to come back, without starting it, and goes on from
    `generations`; the states of the vaults are then told again. One thread at a time reads; any may close.
    RequestRefused where the daemon says no.
    """

    def __init__(
        self,
        transport: SocketTransport,
        *,
        vaults: Sequence[str] | None,
        kinds: Sequence[EventKind],
        since: Mapping[str, int] | None,
        timeout: float,
    ) -> None:
        self._transport = transport
        self._vaults = None if vaults is None else tuple(vaults)
        self._kinds = tuple(kinds)
        self._since = None if since is None else dict(since)
        self._timeout = timeout
        self._turns: dict[int, LockType] = {}
        self._open = False
        self._closed = False

    @property
    def generations(self) -> dict[str, int]:
        """The generation of each vault as it was told last. Given as `since`, it resumes from here."""
        return dict(self._since or {})

    def __enter__(self) -> Self:
        with own_lock(self._turns):
            self._subscribe(self._transport, self._timeout)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        change = self.next()
        if change is None:
            raise StopIteration
        return change

    def next(self, timeout: float | None = None) -> Change | None:
        """The next change. None when `timeout` seconds pass first, or the subscription is closed. A daemon that is
        silent when it is subscribed to anew may take a second more."""
        until = None if timeout is None else time.monotonic() + timeout
        with own_lock(self._turns):
            try:
                return self._next(until)
            finally:
                if self._closed:
                    self._transport.close()

    def close(self) -> None:
        """End the subscription. A thread that waits for the next change gets none, within half a second."""
        self._closed = True
        turn = own_lock(self._turns)
        if turn.acquire(blocking=False):
            try:
                self._transport.close()
            finally:
                turn.release()

    def _next(self, until: float | None) -> Change | None:
        pause = _FIRST_PAUSE
        while not self._closed:
            glance = time.monotonic() + _GLANCE
            try:
                if not self._open:
                    self._subscribe(self._transport.sibling(start=False), self._patience(until))
                line = self._transport.receive_by(glance if until is None else min(glance, until))
            except RequestRefused as refused:
                if not may_ask_again(refused):
                    raise
                self._open = False
            except (ConnectionLost, DaemonNotRunning, TooSlow):
                self._open = False
            else:
                pause = _FIRST_PAUSE
                change = None if line is None else change_in(message_of(line))
                if isinstance(change, IndexChanged):
                    self._since = {**(self._since or {}), change.vault_id: change.generation}
                if change is not None:
                    return change
            if until is not None and time.monotonic() >= until:
                return None
            if not self._open:
                time.sleep(pause if until is None else max(min(pause, until - time.monotonic()), 0.0))
                pause = min(pause * 2, _LONGEST_PAUSE)
        return None

    def _patience(self, until: float | None) -> float:
        """Seconds for subscribing anew to whoever waits `until` then; a daemon that lives needs less than the least."""
        return self._timeout if until is None else min(self._timeout, max(until - time.monotonic(), _LEAST_PATIENCE))

    def _subscribe(self, transport: SocketTransport, patience: float) -> None:
        self._transport.close()
        self._transport = transport
        deadline = time.monotonic() + patience
        params: dict[str, Any] = {"vaults": self._vaults, "kinds": self._kinds, "since": self._since}
        try:
            transport.connect(deadline)
            transport.send(request(CALL_ID, "subscribe", given(params, None)), deadline)
            answer = message_of(transport.receive(deadline))
            while "method" in answer:  # nothing is lost: the daemon answers before it tells anything
                answer = message_of(transport.receive(deadline))
            begun = answer_of(Subscribed, "subscribe", answer)
        except BaseException:
            transport.close()
            raise
        self._since = begun.generations if self._since is None else self._since
        self._open = True


def change_in(message: dict[str, Any]) -> Change | None:
    """What a notification tells; None for what a newer daemon tells beside it."""
    kind = EVENTS.get(str(message.get("method")))
    if kind is None:
        return None
    try:
        return decode(kind, message.get("params"))
    except DecodeError:
        return None
