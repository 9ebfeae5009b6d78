"""Writing into one vault with every other writer of wikid's kept out: pages first, then what is told of them in the log
(vault format §6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from wikid_daemon.addressing import writable
from wikid_daemon.core.events import EventRefused
from wikid_daemon.core.names import printable
from wikid_daemon.core.noted import says_the_same
from wikid_daemon.core.page import Json
from wikid_daemon.core.slugs import numbered
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.indexer import Indexer
from wikid_daemon.vault.event_log import EXPLICIT_MS, Appender, EventNotWritten, ReadOnlyVault
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vault.writing import PageExists, PageFile, PageWriter, WriteRefused
from wikid_protocol import records as r

MOST_OF_ONE_NAME: Final = 1_000

log = structlog.get_logger("curation")


@dataclass(frozen=True, slots=True)
class Curating:
    """A vault that nobody else of wikid's writes into now."""

    vault: Vault
    writer: PageWriter
    appender: Appender

    def tell(self, event: Mapping[str, Json]) -> tuple[r.Diagnostic, ...]:
        """Append the event; a page that was written stays, so that a log which cannot be is no more than told."""
        try:
            self.appender.append(event)
        except (EventNotWritten, EventRefused, ReadOnlyVault) as problem:
            log.warning("event_not_written", vault_id=self.vault.vault_id, kind=type(problem).__name__)
            message = "the page was written, but the vault's log could not be"
            remedy = f"look at {printable(str(self.vault.meta))}"
            return (
                r.Diagnostic(kind="event_not_written", message=message, remedy=remedy, vault_id=self.vault.vault_id),
            )
        return ()


@contextmanager
def curating(indexer: Indexer, logs: EventLogs) -> Iterator[Curating]:
    """Wait for the vault's lock, for two seconds at most: LockBusy then, and nothing is written.

    RequestRefused, WriteRefused.
    """
    writer = PageWriter(writable(indexer.vault), indexer.notice)
    writer.prove_writable()
    with logs.of(indexer.vault).locked(EXPLICIT_MS) as appender:
        yield Curating(indexer.vault, writer, appender)


def create_numbered(
    writer: PageWriter, folder: str, name: str, make: Callable[[str], bytes]
) -> tuple[str, PageFile, bool]:
    """The name, the page, and whether it was made: the first page of this name, or of its numbered forms, that is free
    or says the same. Nothing is overwritten."""
    for number in range(1, MOST_OF_ONE_NAME + 1):
        wanted = numbered(name, number)
        data = make(wanted)
        try:
            return wanted, writer.create(f"{folder}/{wanted}", data), True
        except PageExists as taken:
            present = writer.read(taken.path)
            if present is not None and says_the_same(present.data, data):
                return present.path[len(folder) + 1 : -len(".md")], present, False
    raise WriteRefused("invalid_params", "too many pages have this name", "give it another title")
