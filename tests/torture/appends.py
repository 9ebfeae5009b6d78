"""`kill -9` while many clients append events: what was acknowledged is there, whole, once, and in each client's order.

One more writer knows nothing of the lock, as an older program does. A client whose call was broken off cannot know
whether its event was written, so it tries again under another number, and either or both may be found.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import orjson

from builders import until
from daemon_process import DaemonProcess
from wikid_client import Client, DaemonFailed, DaemonNotRunning, RequestRefused
from wikid_daemon.core.dates import instant
from wikid_daemon.vault.event_lock import STALE_AFTER
from wikid_daemon.vault.event_log import LOCK_NAME, EventLog
from wikid_daemon.vault.vault import init_vault

CLIENTS: Final = 20
APPENDS: Final = 1_000
KILLS: Final = 8
KIND: Final = "campaign"
_FOREIGN: Final = "foreign"
_CALL_SECONDS: Final = 120.0
_GIVE_UP_SECONDS: Final = 600.0
_PAUSE_SECONDS: Final = 0.02

Say = Callable[[str], None]
Entry = tuple[int, int]
"""Which of a client's events, and at which attempt."""


@dataclass(slots=True)
class Totals:
    """What a campaign did. `differences` names each promise that was broken."""

    acknowledged: int = 0
    kills: int = 0
    locks_left: int = 0
    broken_off: int = 0
    refused: int = 0
    lines: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} acknowledged, {self.kills} kills of which {self.locks_left} left a lock,"
            f" {self.broken_off} calls broken off, {self.refused} refused as busy, {self.lines} lines,"
            f" differences: {len(self.differences)}"
        )


class AppendCampaign:
    """One vault below `folder`, and a daemon that keeps dying. With `patient` a dead daemon's lock is waited for;
    otherwise it is made to look older."""

    def __init__(self, folder: Path, clients: int, appends: int, seed: int, say: Say, *, patient: bool) -> None:
        self._root = init_vault(folder / "vault", "campaign", "personal")
        self._meta = self._root / ".llm-wiki" / "meta"
        self._daemon = DaemonProcess(folder / "home")
        self._clients = clients
        self._each = appends // clients
        self._random = random.Random(seed)
        self._say = say
        self._patient = patient
        self._guard = threading.Lock()
        self._acknowledged: list[list[Entry]] = [[] for _ in range(clients)]
        self._totals = Totals()

    def run(self, kills: int) -> Totals:
        """All appends, with so many kills spread over them, then the totals."""
        threads = [threading.Thread(target=self._append_all, args=(number,)) for number in range(self._clients)]
        threads.append(threading.Thread(target=self._write_foreign))
        total = self._clients * self._each
        moments = sorted(self._random.randrange(total // 20, total - total // 20) for _ in range(kills))
        with self._daemon:
            self._daemon.client.vault_add(str(self._root), name="campaign")
            for each in threads:
                each.start()
            for moment in moments:
                until(lambda count=moment: self._count() >= count, "enough appends", _GIVE_UP_SECONDS)  # type: ignore[misc]
                self._kill()
                self._daemon.start()
                self._say(str(self._totals))
            for each in threads:
                each.join(_GIVE_UP_SECONDS)
        self._judge()
        return self._totals

    def _count(self) -> int:
        with self._guard:
            self._totals.acknowledged = sum(map(len, self._acknowledged))
            return self._totals.acknowledged

    # -- the writers ---------------------------------------------------------------------------------------------------

    def _append_all(self, client: int) -> None:
        pause = threading.Event()
        with Client(endpoint=self._daemon.endpoint, start=False, timeout=_CALL_SECONDS) as wikid:
            for number in range(self._each):
                attempt = 0
                while not self._append(wikid, client, (number, attempt)):
                    attempt += 1
                    pause.wait(_PAUSE_SECONDS)

    def _append(self, wikid: Client, client: int, entry: Entry) -> bool:
        number, attempt = entry
        details: dict[str, Any] = {"client": str(client), "number": number, "attempt": attempt, "text": "größe " * 40}
        try:
            wikid.event_append(KIND, details=details, vault="campaign")
        except (DaemonFailed, DaemonNotRunning):
            with self._guard:
                self._totals.broken_off += 1
            return False
        except RequestRefused as refused:
            if refused.kind not in ("busy", "lock_busy", "vault_not_found"):
                raise
            with self._guard:
                self._totals.refused += 1
            return False
        with self._guard:
            self._acknowledged[client].append(entry)
        return True

    def _write_foreign(self) -> None:
        path, pause = self._meta / "events.jsonl", threading.Event()
        for number in range(self._each):
            event = {"client": _FOREIGN, "number": number, "attempt": 0, "timestamp": "2026-07-01", "kind": KIND}
            with path.open("ab", buffering=0) as file:
                file.write(orjson.dumps(event) + b"\n")
            pause.wait(_PAUSE_SECONDS)

    # -- the killer ----------------------------------------------------------------------------------------------------

    def _kill(self) -> None:
        self._daemon.kill()
        self._totals.kills += 1
        lock = self._meta / LOCK_NAME
        if not lock.exists():
            return
        self._totals.locks_left += 1
        if not self._patient:
            record = orjson.loads(lock.read_bytes())
            older = instant(record["acquired"]) - STALE_AFTER - timedelta(seconds=1)
            aged = lock.with_name("aged")
            aged.write_bytes(orjson.dumps({**record, "acquired": older.isoformat()}))
            os.replace(aged, lock)

    # -- the judge -----------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        self._count()
        stream = EventLog(self._meta, "judge").read()
        self._totals.lines = len(stream.events)
        differences = self._totals.differences
        differences += [f"line {each.line}: {each.code}" for each in stream.findings]
        found: dict[object, list[Entry]] = {}
        for event in stream.events:
            if event.kind == KIND:
                number, attempt = event.details["number"], event.details["attempt"]
                assert isinstance(number, int)
                assert isinstance(attempt, int)
                found.setdefault(event.details["client"], []).append((number, attempt))
        for client, acknowledged in enumerate(self._acknowledged):
            entries = found.get(str(client), [])
            if len(acknowledged) != self._each:
                differences.append(f"client {client}: gave up after {len(acknowledged)}")
            differences += [f"client {client}: lost {each}" for each in acknowledged if each not in entries]
            if any(later <= earlier for earlier, later in itertools.pairwise(entries)):
                differences.append(f"client {client}: out of order, or twice")
        if found.get(_FOREIGN) != [(number, 0) for number in range(self._each)]:
            differences.append("the foreign writer: lost, or out of order")
