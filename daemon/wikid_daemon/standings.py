"""What feedback says of each vault's pages, kept up to date with the vault's log, and its file in the vault.

A log is read again when it has changed, but never more than a small share of the time: every recall adds to it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog

from wikid_daemon import files
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.feedback import (
    CORRECTION,
    Correction,
    Standing,
    correction_of,
    pending,
    projection,
    reactions,
    standings,
)
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.index.catalog import CatalogError
from wikid_daemon.indexer import Indexer
from wikid_daemon.threads import Cancelled
from wikid_daemon.vault.event_log import LOG_NAME
from wikid_daemon.vault.vault import Vault

PROJECTION: Final = "recall-feedback.json"
PROJECTION_LIMIT: Final = 1 << 26
REST_SECONDS: Final = 2.0  # between two readings of a log, at least
REST_SHARE: Final = 20.0  # and so many times as long as reading it took

log = structlog.get_logger("feedback")

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Known:
    """As of the log's `stamp`, None where there was none; not to be read again before `rests_until`."""

    stamp: Stamp | None
    pages: Mapping[str, Standing] = field(default_factory=dict)
    disabled: bool = False
    rests_until: float = 0.0


_NOTHING: Final = _Known(None)


class Standings:
    """The standings of all open vaults, by their roots: copies of one vault share its id, but not what became of them.

    Any thread may call.
    """

    def __init__(self, indexers: Callable[[], Sequence[Indexer]], logs: EventLogs) -> None:
        self._indexers = indexers
        self._logs = logs
        self._guard = threading.Lock()
        self._busy: dict[Path, threading.Lock] = {}
        self._known: dict[Path, _Known] = {}

    def adjustment(self, vault: Vault, page_id: str, now: datetime) -> float:
        """What feedback adds to the page's multiplier at that time; it waits for nothing."""
        found = self._known.get(vault.root, _NOTHING).pages.get(page_id)
        return 0.0 if found is None else found.adjustment(now)

    def is_disabled(self, vault: Vault) -> bool:
        """Whether the vault's log cannot be trusted to say all that was fed back."""
        return self._known.get(vault.root, _NOTHING).disabled

    def catch_up(self) -> None:
        """Read the logs that have changed and whose rest is over, and forget vaults that are closed."""
        indexers = [each for each in self._indexers() if each.vault.meta is not None]
        for root in {*list(self._known)} - {each.vault.root for each in indexers}:
            self._known.pop(root, None)
        for indexer in indexers:
            known = self._known.get(indexer.vault.root)
            if indexer.store is None or (known is not None and time.monotonic() < known.rests_until):
                continue
            if known is None or known.stamp != _stamp(indexer.vault):
                self.refresh(indexer)

    def refresh(self, indexer: Indexer) -> None:
        """Read the vault's log and corrections now, and write the file where it is another than before."""
        vault, began = indexer.vault, time.monotonic()
        with self._guard:
            busy = self._busy.setdefault(vault.root, threading.Lock())
        with busy:
            stamp = _stamp(vault)
            stream = self._logs.of(vault).read()
            indexed = _in_index(indexer)
            pages: Mapping[str, Standing] = {}
            if indexed is None:
                stamp, pages = None, self._known.get(vault.root, _NOTHING).pages
            elif not stream.malformed_after_wikid:
                told = reactions(stream.events, vault.vault_id)
                pages = standings([*told, *pending(told, indexed.corrections)], indexed.page_ids)
                _write(vault, pages)
            rest = max(REST_SECONDS, REST_SHARE * (time.monotonic() - began))
            disabled = stream.malformed_after_wikid
            self._known[vault.root] = _Known(stamp, {} if disabled else pages, disabled, time.monotonic() + rest)


@dataclass(frozen=True, slots=True)
class _Indexed:
    """The ids of the pages there are, and the corrections among them."""

    page_ids: set[str]
    corrections: Sequence[Correction]


def _in_index(indexer: Indexer) -> _Indexed | None:
    """None while the index cannot be read: the vault is being closed or opened, or its index repaired."""
    store, vault = indexer.store, indexer.vault
    if store is None:
        return None
    try:
        page_ids = store.catalog.page_ids()
        paths = store.catalog.paths_of_category(CORRECTION)
        read = list(indexer.reader.pages(paths))
    except (CatalogError, Cancelled) as problem:
        log.debug("feedback_without_index", error=type(problem).__name__)
        return None
    parsed = [parse_page(path, found.data, strict=vault.strict) for path, found in read if not isinstance(found, str)]
    documents = [each.document for each in parsed if each.document is not None]
    corrections = [correction_of(each, vault.vault_id) for each in documents]
    return _Indexed(page_ids, [each for each in corrections if each is not None])


def _stamp(vault: Vault) -> Stamp | None:
    assert vault.meta is not None
    try:
        status = (vault.meta / LOG_NAME).lstat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _write(vault: Vault, pages: Mapping[str, Standing]) -> None:
    """The file is a convenience for people and other programs: what keeps it from being written is told in the log."""
    if vault.meta is None or vault.read_only or vault.blocked is not None:
        return
    place, wanted = vault.meta / PROJECTION, projection(vault.vault_id, pages)
    try:
        present = files.read_regular(place, PROJECTION_LIMIT).data if os.path.lexists(place) else None
        if present != wanted and (pages or present is not None):
            files.atomic_write(place, wanted)
    except (OSError, files.NotReadable) as problem:
        log.info("feedback_not_written", vault_id=vault.vault_id, kind=files.failure_reason(problem))
