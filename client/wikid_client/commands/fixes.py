"""What `wikid doctor --fix` does: only what is safe, and nothing to a note."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wikid_client.caller import DEFAULT_TIMEOUT
from wikid_client.client import Client
from wikid_client.console import Console
from wikid_client.progress import shown
from wikid_client.stopping import shut_down
from wikid_client.transport import try_connect
from wikid_protocol.doctor import DoctorFinding, DoctorFix
from wikid_protocol.errors import DaemonFailed, DaemonNotRunning, WikidError

BUILD: Final = "wikid models build"  # a remedy that begins so may name the model


@dataclass(frozen=True, slots=True)
class Repairer:
    """Puts right what can be, over the endpoint `path`; without `start` nothing that needs a new daemon."""

    path: Path
    start: bool
    console: Console
    timeout: float = DEFAULT_TIMEOUT

    def repaired(self, findings: Iterable[DoctorFinding]) -> Iterator[DoctorFix]:
        """Everything that may be put right, the endpoint first, each once for a vault. Never raises."""
        wanted = {(each.kind, _vault(each)): each for each in findings if each.fix and each.kind in _REPAIRS}
        for kind, repair in _REPAIRS.items():
            for finding in [each for (found, _), each in wanted.items() if found == kind]:
                try:
                    done, message = True, repair(self, finding)
                except (WikidError, OSError) as error:
                    done, message = False, _why(error)
                yield DoctorFix(kind=kind, done=done, message=message, vault=finding.vault)

    def close_folder(self, _finding: DoctorFinding) -> str:
        os.chmod(self.path.parent, 0o700)
        return f"{self.path.parent} is closed to other users now"

    def close_socket(self, _finding: DoctorFinding) -> str:
        os.chmod(self.path, 0o600)
        return f"{self.path} is closed to other users now"

    def remove_socket(self, _finding: DoctorFinding) -> str:
        listening = try_connect(self.path, time.monotonic() + self.timeout) if self.path.is_socket() else None
        if listening is not None:  # somebody started one meanwhile
            listening.close()
            return "a daemon listens again"
        self.path.unlink(missing_ok=True)
        return f"{self.path} is gone; nobody listened on it"

    def restart(self, _finding: DoctorFinding) -> str:
        if not self.start:
            raise DaemonNotRunning("a daemon may not be started", hint="run it without --no-start")
        shut_down(self.path, self.timeout)
        with self._client() as client:
            return f"the daemon was started again, as wikid {client.ping().version}"

    def build_model(self, finding: DoctorFinding) -> str:
        chosen = finding.remedy.removeprefix(BUILD).split() if finding.remedy.startswith(BUILD) else []
        with self._client() as client, shown(self.console, "Building the model") as progress:
            built = client.models_build(*chosen[:1], progress=progress)
        if built.state == "failed":
            raise DaemonFailed(f"{built.name} does not load: {built.reason}", hint="wikid models list")
        return f"the model {built.name} is built"

    def reindex(self, finding: DoctorFinding) -> str:
        with self._client() as client, shown(self.console, "Building the index anew") as progress:
            # vectors are kept by the texts they were made of, and nothing says that those are damaged
            found = client.reindex(
                scope="all", components=("lexical",), force=True, vault=_vault(finding), progress=progress
            )
        for error in (each for report in found.vaults for each in report.errors):
            raise DaemonFailed(error.message, hint=error.remedy)
        return "its index was built anew"

    def _client(self) -> Client:
        return Client(endpoint=self.path, start=self.start, timeout=self.timeout)


_REPAIRS: Final[dict[str, Callable[[Repairer, DoctorFinding], str]]] = {
    "endpoint_folder_open": Repairer.close_folder,
    "socket_open": Repairer.close_socket,
    "socket_stale": Repairer.remove_socket,
    "version_differs": Repairer.restart,
    "index_stopped": Repairer.restart,
    "model_absent": Repairer.build_model,
    "index_damaged": Repairer.reindex,
}


def _vault(finding: DoctorFinding) -> str | None:
    return finding.vault_id or finding.vault


def _why(error: WikidError | OSError) -> str:
    if isinstance(error, WikidError):
        return f"{error.message}; {error.hint}" if error.hint else error.message
    return f"it may not be changed: {error.strerror}"
