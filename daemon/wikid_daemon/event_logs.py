"""The event logs of this daemon: one for each vault, so that all who write into a vault stand in one queue."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from wikid_daemon.vault.event_log import EventLog
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import Vault


class EventLogs:
    """Any thread may call. The writer's id is this machine's and this process's."""

    def __init__(self, state_home: Path) -> None:
        self._state_home = state_home
        self._guard = threading.Lock()
        self._logs: dict[tuple[Path, Path | None, bool], EventLog] = {}

    def of(self, vault: Vault) -> EventLog:
        """The vault's log. That of a plain folder, and of a vault that is blocked or read-only, cannot be written."""
        read_only = vault.read_only or vault.blocked is not None
        key = (vault.root, vault.meta, read_only)
        with self._guard:
            if key not in self._logs:
                writer = f"{machine_id(self._state_home)}/{os.getpid()}"
                self._logs[key] = EventLog(vault.meta, writer, read_only=read_only)
            return self._logs[key]
