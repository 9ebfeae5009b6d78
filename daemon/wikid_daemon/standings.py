"""What feedback says of each vault's pages, kept up to date with the vault's log, and its file in the vault.

A log is read again when it has changed, but never more than a small share of the time: every recall adds to it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog

from wikid_daemon import files
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.events import START, Event, scan_events
from wikid_daemon.core.feedback import CORRECTION, Correction, Standing, Tally, correction_of, projection, reactions
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.index.catalog import CatalogError
from wikid_daemon.index.store import Store
from wikid_daemon.indexer import Indexer
from wikid_daemon.threads import Cancelled
from wikid_daemon.vault.event_log import LOG_NAME
from wikid_daemon.vault.vault import Vault

PROJECTION: Final = "recall-feedback.json"
PROJECTION_LIMIT: Final = 1 << 26
AT_ONCE: Final = 10_000  # names in one question to the catalog
REST_SECONDS: Final = 2.0  # between two readings of a log, at least
REST_SHARE: Final = 20.0  # and so many times as long as reading it took

log = structlog.get_logger("feedback")

Stamp = tuple[int, int, int]
Key = tuple[Path, str]


class _Followed:
    """One vault's log as far as it was read. Who is `busy` with it changes it, anybody may read the last two."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        self.stamp: Stamp | None = None
        self.mark = START
        self.tally = Tally()
        self.generation = -1
        self.corrections: Sequence[Correction] = ()
        self.rests_until = 0.0
        self.pages: Mapping[str, Standing] = {}
        self.disabled = False


class Standings:
    """The standings of all open vaults. Copies of one vault share its id, but not what became of them.

    Any thread may call.
    """

    def __init__(self, indexers: Callable[[], Sequence[Indexer]], logs: EventLogs) -> None:
        self._indexers = indexers
        self._logs = logs
        self._guard = threading.Lock()
        self._followed: dict[Key, _Followed] = {}

    def adjustment(self, vault: Vault, page_id: str, now: datetime) -> float:
        """What feedback adds to the page's multiplier at that time; it waits for nothing."""
        followed = self._followed.get(_key(vault))
        standing = None if followed is None else followed.pages.get(page_id)
        return 0.0 if standing is None else standing.adjustment(now)

    def is_disabled(self, vault: Vault) -> bool:
        """Whether the vault's log cannot be trusted to say all that was fed back."""
        followed = self._followed.get(_key(vault))
        return followed is not None and followed.disabled

    def catch_up(self) -> None:
        """Read what was added to vaults whose rest is over, and forget those that are closed."""
        indexers = [each for each in self._indexers() if each.vault.meta is not None]
        with self._guard:
            for gone in self._followed.keys() - {_key(each.vault) for each in indexers}:
                del self._followed[gone]
        for indexer in indexers:
            followed = self._follow(indexer.vault)
            store = indexer.store
            if store is None or time.monotonic() < followed.rests_until:
                continue
            is_same = followed.stamp is not None and followed.stamp == _stamp(indexer.vault)
            # pages come and go, and corrections are pages
            if not is_same or followed.generation != store.generation:
                self._read(indexer, followed)

    def refresh(self, indexer: Indexer) -> None:
        """Read what was added to the vault's log, and its corrections, now; and write the file where it changes."""
        followed = self._follow(indexer.vault)
        followed.generation = -1
        self._read(indexer, followed)

    def _follow(self, vault: Vault) -> _Followed:
        with self._guard:
            return self._followed.setdefault(_key(vault), _Followed())

    def _read(self, indexer: Indexer, followed: _Followed) -> None:
        vault, began = indexer.vault, time.monotonic()
        with followed.busy:
            stamp = _stamp(vault)
            disabled = not self._add(vault, followed, grown=_is_grown(followed.stamp, stamp))
            followed.stamp, followed.disabled = stamp, disabled
            if disabled:
                followed.pages = {}
            else:
                try:
                    followed.pages = _standings(indexer, followed)
                    _write(vault, followed.pages)
                except (CatalogError, Cancelled) as problem:  # the vault is being closed, or its index repaired
                    log.debug("feedback_without_index", error=type(problem).__name__)
                    followed.stamp = None
            followed.rests_until = time.monotonic() + max(REST_SECONDS, REST_SHARE * (time.monotonic() - began))

    def _add(self, vault: Vault, followed: _Followed, *, grown: bool) -> bool:
        """Add what the log has more than before, or all of it where it is another; whether it can be trusted."""
        lines = self._logs.of(vault).read_behind(followed.mark if grown else START)
        if lines.start == START:
            followed.tally = Tally()
        followed.mark, events = lines.start, list[Event]()
        for found, behind in scan_events(lines.data, lines.start):
            followed.mark = behind
            if isinstance(found, Event):
                events.append(found)
        followed.tally.add(reactions(events, vault.vault_id))
        return not (followed.mark.malformed or (lines.fault is not None and lines.fault.malformed_after_wikid))


def _key(vault: Vault) -> Key:
    return vault.root, vault.vault_id


def _standings(indexer: Indexer, followed: _Followed) -> Mapping[str, Standing]:
    """Of the pages there are. CatalogError, Cancelled."""
    store = indexer.store
    if store is None:
        return followed.pages
    generation = store.generation
    if generation != followed.generation:
        followed.corrections = _corrections(indexer, store)
        followed.generation = generation
    wanted = list({*followed.tally.page_ids, *(each.corrected for each in followed.corrections)})
    known: set[str] = set()
    for start in range(0, len(wanted), AT_ONCE):
        known.update(store.catalog.numbers_of(wanted[start : start + AT_ONCE]))
    return followed.tally.standings(known, followed.corrections)


def _corrections(indexer: Indexer, store: Store) -> list[Correction]:
    vault = indexer.vault
    read = indexer.reader.pages(store.catalog.paths_of_category(CORRECTION))
    parsed = [parse_page(path, found.data, strict=vault.strict) for path, found in read if not isinstance(found, str)]
    found = [correction_of(each.document, vault.vault_id) for each in parsed if each.document is not None]
    return [each for each in found if each is not None]


def _is_grown(before: Stamp | None, now: Stamp | None) -> bool:
    """Whether more was appended, as far as can be told: one that is as long and changed was written over."""
    if before is None or now is None or before[2] != now[2]:
        return False
    return before == now or before[0] < now[0]


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
