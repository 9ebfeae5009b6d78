"""Every error wikid can raise, drawn once and raised alike on both sides of the wire.

    WikidError
    ├── DaemonNotRunning    nothing listens at the endpoint
    ├── RequestRefused      the daemon said no; `kind` is a stable word
    └── DaemonFailed        the daemon broke or the connection did

Callers branch on the class and on `kind`, never on prose. `KINDS` is the one table of kind → code → exit code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800

EXIT_OK: Final = 0
EXIT_FINDING: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNREACHABLE: Final = 3
EXIT_VAULT: Final = 4
EXIT_INTERNAL: Final = 5


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the error table: JSON-RPC code, exit code of the command, and whether trying again can help."""

    code: int
    exit_code: int
    retry: bool = False


KINDS: Final[dict[str, Kind]] = {
    "parse_error": Kind(PARSE_ERROR, EXIT_INTERNAL),
    "invalid_request": Kind(INVALID_REQUEST, EXIT_INTERNAL),
    "method_not_found": Kind(METHOD_NOT_FOUND, EXIT_USAGE),
    "invalid_params": Kind(INVALID_PARAMS, EXIT_USAGE),
    "internal": Kind(INTERNAL_ERROR, EXIT_INTERNAL),
    "cancelled": Kind(REQUEST_CANCELLED, EXIT_FINDING),
    "recall_query_too_long": Kind(-32000, EXIT_USAGE),
    "vault_not_found": Kind(-32001, EXIT_VAULT),
    "vault_unavailable": Kind(-32002, EXIT_VAULT, retry=True),
    "vault_blocked": Kind(-32003, EXIT_VAULT),
    "page_not_found": Kind(-32004, EXIT_FINDING),
    "outside_vault": Kind(-32005, EXIT_FINDING),
    "read_only": Kind(-32006, EXIT_FINDING),
    "busy": Kind(-32007, EXIT_FINDING, retry=True),
    "lock_busy": Kind(-32008, EXIT_FINDING, retry=True),
    "model_unavailable": Kind(-32009, EXIT_FINDING),
    "hash_conflict": Kind(-32010, EXIT_FINDING),
    "not_shown": Kind(-32011, EXIT_FINDING),
    "protocol_unsupported": Kind(-32012, EXIT_INTERNAL),
    "message_too_large": Kind(-32013, EXIT_USAGE),
    "timeout": Kind(-32014, EXIT_FINDING, retry=True),
    "not_a_folder": Kind(-32015, EXIT_VAULT),
    "vault_exists": Kind(-32016, EXIT_FINDING),
    "config_unreadable": Kind(-32017, EXIT_VAULT),
    "config_invalid": Kind(-32018, EXIT_FINDING),
    "resolution_refused": Kind(-32019, EXIT_FINDING),
}


class WikidError(Exception):
    """Root of every error a wikid client raises on purpose. `hint` says what to do next, or is empty."""

    exit_code = EXIT_INTERNAL

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class DaemonNotRunning(WikidError):
    """No daemon answers at the endpoint; the text names the command that starts one."""

    exit_code = EXIT_UNREACHABLE

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class DaemonFailed(WikidError):
    """The daemon broke off, answered with something that is no message, or did not answer in time."""


class RequestRefused(WikidError):
    """The daemon understood and said no.

    `kind` is one of `KINDS`; `hint` says what to do next; `retry` is True where the same call may succeed later, after
    `retry_after_ms` when that is set. `call` is what the daemon's log knows the call by, or empty where it was refused
    before it began. A kind from a newer daemon is kept as it is.
    """

    def __init__(
        self, kind: str, message: str, *, hint: str = "", retry_after_ms: int | None = None, call: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.retry_after_ms = retry_after_ms
        self.call = call

    @property
    def row(self) -> Kind:
        return KINDS.get(self.kind, KINDS["internal"])

    @property
    def code(self) -> int:
        return self.row.code

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return self.row.exit_code

    def to_wire(self, call: str = "") -> dict[str, object]:
        """The JSON-RPC `error` member, for the call that the log knows by `call`."""
        data: dict[str, object] = {"kind": self.kind, "hint": self.hint, "retry": self.row.retry}
        if self.retry_after_ms is not None:
            data["retry_after_ms"] = self.retry_after_ms
        if call or self.call:
            data["call"] = call or self.call
        return {"code": self.code, "message": self.message, "data": data}

    @classmethod
    def from_wire(cls, error: object) -> RequestRefused:
        """Rebuild from a JSON-RPC `error` member; anything malformed becomes kind `internal`."""
        if not isinstance(error, dict):
            return cls("internal", "the daemon sent an error that is no object")
        data = error.get("data")
        data = data if isinstance(data, dict) else {}
        kind = data.get("kind")
        if not isinstance(kind, str):
            kind = next((name for name, row in KINDS.items() if row.code == error.get("code")), "internal")
        after = data.get("retry_after_ms")
        return cls(
            kind,
            str(error.get("message") or ""),
            hint=str(data.get("hint") or ""),
            retry_after_ms=after if isinstance(after, int) else None,
            call=str(data.get("call") or ""),
        )
