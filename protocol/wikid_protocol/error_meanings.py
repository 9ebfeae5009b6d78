"""What each kind of error means, and what a client does about it, for the contract in words."""

from __future__ import annotations

from typing import Final

ERRORS: Final[dict[str, str]] = {
    "parse_error": "What came is no message in UTF-8 JSON, or nests too deep. The connection is closed where no more "
    "can be read.",
    "invalid_request": "A message, but no call as JSON-RPC 2.0 has it; or an id that is in flight already.",
    "method_not_found": "This daemon has no such method; it may be older than the client.",
    "invalid_params": "A member is missing, of the wrong type, or not allowed; the message names it.",
    "internal": "wikid itself failed. Its log has the reason, under `data.call`.",
    "cancelled": "The call was cancelled, or the daemon is stopping.",
    "recall_query_too_long": "The query has too many code points. Ask a shorter question; never cut one silently.",
    "vault_not_found": "No vault has that name or id, or none applies to the folder.",
    "vault_unavailable": "The vault's folder or file does not answer now: gone, unmounted, too slow, still being "
    "opened, or closed during the call.",
    "vault_blocked": "The vault's own files keep it from being served; `status` says why.",
    "page_not_found": "No page has that id, or it was deleted; or the page has no such heading.",
    "outside_vault": "An id or a path leads out of the vault.",
    "read_only": "Nothing may be written there: a plain folder, or a vault whose folder cannot be written.",
    "busy": "Too many calls or connections. Wait `retry_after_ms`, then send the same call again.",
    "lock_busy": "Another process writes to the vault. Wait a second, then send the same call again.",
    "model_unavailable": "A model that the call needs is absent or failed; the hint says how to get it.",
    "hash_conflict": "The page has changed since it was read, so the same call never succeeds. Read it again, show the "
    "person both, then write with the new hash.",
    "not_shown": "No recall has shown that page to this session. Recall first, with the same `session`.",
    "protocol_unsupported": "Client and daemon have no protocol in common. Update the older one.",
    "message_too_large": "A message or an answer is over its limit. Ask for less: `limit` and `cursor`, `max_lines`.",
    "timeout": "Not finished in time.",
    "not_a_folder": "The path is no folder that can be a vault.",
    "vault_exists": "`vault/init` of a folder that holds a vault already. Register it with `vault/add`.",
    "config_unreadable": "A file of settings, or the list of vaults, cannot be read or written.",
    "config_invalid": "A setting would have a value that is not allowed.",
    "resolution_refused": "The decision contradicts one that stands, or `replaces` is not the one that stands.",
}
