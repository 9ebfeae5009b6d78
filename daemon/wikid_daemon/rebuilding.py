"""`vault/rebuild_meta`: the generated files of a vault, made anew from its pages, packets and events (vault format §4).

Everything is worked out before anything is written, and each file is replaced as a whole. What a person has written
into an index or the log is never lost: such a file is kept and told.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import structlog

from wikid_daemon import files
from wikid_daemon.addressing import writable
from wikid_daemon.calls import CallContext
from wikid_daemon.core import catalogues, links, projections
from wikid_daemon.core.catalogues import INDEX, LOG, is_generated_index, is_generated_log
from wikid_daemon.core.events import EventStream, timestamp_of
from wikid_daemon.core.names import printable
from wikid_daemon.core.page import Finding
from wikid_daemon.core.remarks import Remark, in_order, remark
from wikid_daemon.core.survey import Survey
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.indexer import Indexer
from wikid_daemon.surveying import (
    FINDINGS_BYTES,
    config,
    generated,
    hand_written,
    kept_remark,
    listed,
    meant,
    survey,
)
from wikid_daemon.threads import Alive
from wikid_daemon.vault.config_json import OKF
from wikid_daemon.vault.vault import Vault, inside
from wikid_daemon.vaults import Vaults
from wikid_protocol import methods as m
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused

log = structlog.get_logger("rebuilding")

NO_NAME: Final = "Wiki"
WAIT_SECONDS: Final = 0.1  # for another rebuild, between two looks at whether this one is still wanted


@dataclass(frozen=True, slots=True)
class _Made:
    """New contents by path below `meta/` and below the pages' folder; there are some of the latter in OKF mode only."""

    in_meta: dict[str, bytes]
    in_wiki: dict[str, bytes]
    packets_without_page: int


@dataclass(slots=True)
class _Done:
    """What has been done so far; the paths begin with `meta/` or `wiki/`."""

    packets: int = 0
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list[Remark] = field(default_factory=list)


class Rebuilding:
    """Rebuilds the generated files of vaults, one vault at a time."""

    def __init__(
        self,
        vaults: Vaults,
        logs: EventLogs,
        replay: Callable[[Indexer], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`replay` makes a vault's file of feedback anew, from its events and its corrections (seed A, Feedback)."""
        self._vaults = vaults
        self._logs = logs
        self._replay = replay
        self._now = now
        self._one_at_a_time = threading.Lock()

    def long_methods(self) -> Mapping[str, Callable[[Any, CallContext], object]]:
        """The methods of the protocol that are answered here, which may take minutes."""
        return {"vault/rebuild_meta": self.rebuild}

    def rebuild(self, params: m.RebuildMetaParams, context: CallContext) -> r.MetaRebuilds:
        """Rebuild each vault that is named, or the active one. RequestRefused, before anything is written, for a vault
        that may not be; Cancelled, between two files."""
        found = meant(self._vaults, params.vault, params.cwd)
        for indexer in found:
            _refuse_unwritable(indexer.vault)
        with self._turn(context.alive):
            room = FINDINGS_BYTES // len(found)
            return r.MetaRebuilds(vaults=tuple(self._rebuilt(each, room, context.alive) for each in found))

    @contextmanager
    def _turn(self, alive: Alive) -> Iterator[None]:
        while not self._one_at_a_time.acquire(timeout=WAIT_SECONDS):
            alive()
        try:
            yield
        finally:
            self._one_at_a_time.release()

    def _rebuilt(self, indexer: Indexer, room: int, alive: Alive) -> r.MetaRebuild:
        vault = indexer.vault
        found = survey(indexer, alive)
        if found.errors:
            return _report(vault, found, _Done(), found.errors, room, rebuilt=False)
        stream = self._logs.of(vault).read()
        made = _made(vault, found, stream, timestamp_of(self._now()))
        done = _Done(packets=made.packets_without_page, kept=hand_written(vault, found) if made.in_wiki else [])
        try:
            _write(vault, made, done, alive)
            if made.in_wiki:
                _remove_obsolete(vault, found.reserved, made.in_wiki, done)
        except OSError as problem:
            raise _not_written(vault, problem) from None
        self._replay(indexer)
        log.info("meta_rebuilt", vault_id=vault.vault_id, pages=len(found.documents), written=len(done.written))
        return _report(vault, found, done, [*_links(found), *stream.findings], room, rebuilt=True)


def _made(vault: Vault, found: Survey, stream: EventStream, written_at: str) -> _Made:
    """Every file as it is to be."""
    entries = projections.entries(found.documents, found.packets)
    in_meta = {
        "registry.json": projections.registry(entries, written_at),
        "backlinks.json": projections.backlinks(found.documents),
        INDEX: catalogues.meta_index(entries, written_at),
    }
    settings, in_wiki = config(vault), dict[str, bytes]()
    if settings.knowledge_format == OKF:
        in_wiki = catalogues.folder_indexes(found.documents, settings.name.strip() or NO_NAME)
    # without the events the logs are all that is left of them
    if not any(finding.code.startswith("event_source_") for finding in stream.findings):
        shown = catalogues.shown(stream.events)
        in_meta[LOG] = catalogues.meta_log(shown)
        if in_wiki:
            in_wiki[LOG] = catalogues.update_log(shown)
    return _Made(in_meta, in_wiki, len(entries) - len(found.documents))


def _links(found: Survey) -> list[Finding]:
    """What is wrong with links, which is what the extension's own rebuild tells besides."""
    known = {document.page_id for document in found.documents}
    told = [finding for finding in found.findings if finding.code.startswith("link_")]
    return told + [finding for document in found.documents for finding in links.unresolved(document, known)]


def _refuse_unwritable(vault: Vault) -> None:
    if vault.kind == "plain":
        message = f"{vault.name} is a plain folder, which has no generated files"
        raise RequestRefused("invalid_params", message, hint="only vaults with the .llm-wiki or .wiki marker have them")
    blocked = config(vault).blocked  # which may have changed since the vault was opened
    if blocked is not None:
        raise RequestRefused("vault_blocked", blocked.message, hint="see: wikid lint")
    writable(vault)


def _write(vault: Vault, made: _Made, done: _Done, alive: Alive) -> None:
    assert vault.meta is not None
    vault.meta.mkdir(parents=True, exist_ok=True)
    for name, data in made.in_meta.items():
        alive()
        files.atomic_write(vault.meta / name, data, durable=True)
        done.written.append(f"meta/{name}")
    kept = {each.path for each in done.kept}
    for path, data in made.in_wiki.items():
        alive()
        if path not in kept:
            _write_in_wiki(inside(vault, path), path, data, done)


def _write_in_wiki(place: Path, path: str, data: bytes, done: _Done) -> None:
    """Write an index or the log, unless there is one with a person's text in it."""
    present = generated(place)
    if present == data:
        return
    if _is_written(place, path, present, data):
        done.written.append(f"wiki/{path}")
    else:
        done.kept.append(kept_remark("log_hand_written" if path == LOG else "index_hand_written", path))


def _is_written(place: Path, path: str, present: bytes | None, data: bytes) -> bool:
    """Write the file; False where what is there is a person's, or has become it since it was read."""
    if present is None:
        try:
            files.create(place, data)
        except FileExistsError:
            return False
        return True
    ours = is_generated_log(present) if path == LOG else is_generated_index(path, present)
    return ours and files.replace_if_unchanged(place, present, data)


def _remove_obsolete(vault: Vault, reserved: Iterable[str], current: Collection[str], done: _Done) -> None:
    """Remove the generated indexes of folders that hold no pages any more."""
    for path in reserved:
        folder, slash, name = path.rpartition("/")
        place, twin = inside(vault, path), f"{folder}{slash}{INDEX}"
        if name.lower() != INDEX or path in current or (twin in current and _is_same(place, place.with_name(INDEX))):
            continue
        data = generated(place)
        if data and is_generated_index(path, data):
            place.unlink(missing_ok=True)
            done.removed.append(f"wiki/{path}")


def _is_same(place: Path, other: Path) -> bool:
    """Whether the file system makes no difference between two names."""
    try:
        return os.path.samefile(place, other)
    except FileNotFoundError:
        return False


def _not_written(vault: Vault, problem: OSError) -> RequestRefused:
    reason = files.failure_reason(problem)
    kind = "read_only" if reason in ("read_only", "permission_denied") else "vault_unavailable"
    message = f"not every generated file of {vault.name} could be written: {reason.replace('_', ' ')}"
    return RequestRefused(kind, message, hint="those that were are whole; ask again")


def _report(
    vault: Vault, found: Survey, done: _Done, told: Iterable[Finding], room: int, *, rebuilt: bool
) -> r.MetaRebuild:
    return r.MetaRebuild(
        vault_id=r.VaultId(vault.vault_id),
        name=vault.name,
        path=printable(str(vault.root)),
        rebuilt=rebuilt,
        pages=len(found.documents),
        packets_without_page=done.packets,
        written=tuple(map(printable, done.written)),
        removed=tuple(map(printable, done.removed)),
        findings=listed(in_order([*map(remark, told), *done.kept]), room),
    )
