"""The client for an event loop: each method of `Client`, to be awaited.

    async with AsyncClient() as wikid:
        answer = await wikid.recall("how do we roll back a deploy")

Needs aiohttp, which the extra `async` brings. A method is defined once, in `Client`; here it is made to wait otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from wikid_client.aio_caller import AsyncCaller, CallOf
from wikid_client.aio_listening import AsyncSubscription as AsyncSubscription
from wikid_client.caller import OnProgress
from wikid_client.client import Client

P = ParamSpec("P")
T = TypeVar("T")


class _Describing(Client):
    """Tells which call a method of `Client` would make, instead of making it."""

    def __init__(self) -> None:
        """Opens nothing."""

    def _read(self, kind: type[T], method: str, params: dict[str, Any], timeout: float | None) -> Any:
        return CallOf(kind, method, params, timeout, None, again=True)

    def _write(
        self,
        kind: type[T],
        method: str,
        params: dict[str, Any],
        timeout: float | None,
        progress: OnProgress | None = None,
    ) -> Any:
        return CallOf(kind, method, params, timeout, progress, again=False)


_DESCRIBING: Final = _Describing()


def _awaited(
    method: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate[AsyncCaller, P], Coroutine[Any, Any, T]]:
    """The same parameters and the same record, in a coroutine."""

    @functools.wraps(method)
    async def call(self: AsyncCaller, /, *args: P.args, **kwargs: P.kwargs) -> T:
        described: Any = method(_DESCRIBING, *args, **kwargs)
        answer: T = await self._perform(described)
        return answer

    return call


class AsyncClient(AsyncCaller):
    """A connection to this user's daemon, opened at the first call and started where none runs (unless `start=False`).

    Belongs to one event loop, where any number of calls may be in flight. Cancelling a call cancels it in the daemon.
    Every method takes the parameters of its namesake in `Client` and may raise what that raises.
    """

    ping = _awaited(Client.ping)
    status = _awaited(Client.status)
    doctor = _awaited(Client.doctor)
    shutdown = _awaited(Client.shutdown)
    vault_list = _awaited(Client.vault_list)
    vault_add = _awaited(Client.vault_add)
    vault_remove = _awaited(Client.vault_remove)
    vault_init = _awaited(Client.vault_init)
    vault_resolve = _awaited(Client.vault_resolve)
    vault_lint = _awaited(Client.vault_lint)
    vault_rebuild_meta = _awaited(Client.vault_rebuild_meta)
    recall = _awaited(Client.recall)
    page_search = _awaited(Client.page_search)
    page_get = _awaited(Client.page_get)
    reindex = _awaited(Client.reindex)
    sync = _awaited(Client.sync)
    verify = _awaited(Client.verify)
    event_append = _awaited(Client.event_append)
    event_list = _awaited(Client.event_list)
    feedback_judge = _awaited(Client.feedback_judge)
    feedback_signal = _awaited(Client.feedback_signal)
    config_get = _awaited(Client.config_get)
    config_set = _awaited(Client.config_set)
    models_list = _awaited(Client.models_list)
    models_build = _awaited(Client.models_build)
    models_pull = _awaited(Client.models_pull)
    models_use = _awaited(Client.models_use)
    models_verify = _awaited(Client.models_verify)
    page_ensure = _awaited(Client.page_ensure)
    observe = _awaited(Client.observe)
    retro = _awaited(Client.retro)
    conflict_list = _awaited(Client.conflict_list)
    conflict_resolve = _awaited(Client.conflict_resolve)
