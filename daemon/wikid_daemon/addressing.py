"""Which one vault a call means that writes, or reads what each vault has of its own."""

from __future__ import annotations

from pathlib import Path

from wikid_daemon.calls import absolute
from wikid_daemon.indexer import Indexer
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vaults import Vaults
from wikid_protocol.errors import RequestRefused


def one_vault(vaults: Vaults, wanted: str | None, cwd: str | None) -> Vault:
    """The vault that is named, or the active one of the folder, or the only one there is.

    RequestRefused where that leaves a choice, or none; UnknownVault, AmbiguousVault.
    """
    return one_indexer(vaults, wanted, cwd).vault


def one_indexer(vaults: Vaults, wanted: str | None, cwd: str | None) -> Indexer:
    """The indexer of that vault."""
    where = None if cwd is None else absolute(cwd)
    found = [each.indexer for each in vaults.chosen(wanted, where, automatic=False)]
    if wanted in (None, "active") and where is not None:
        active = vaults.resolve(where).active
        if active is not None:
            return _of_root(found, active.root)
    if not found:
        raise RequestRefused("vault_not_found", "no vault applies to this call", hint="name one with: --vault V")
    if len(found) > 1:
        names = ", ".join(sorted(each.vault.name for each in found))
        raise RequestRefused("invalid_params", "this call is for one vault", hint=f"name one with: --vault V ({names})")
    return found[0]


def writable(vault: Vault) -> Vault:
    """The same vault. RequestRefused `vault_blocked` or `read_only` where nothing may be written into it."""
    if vault.blocked is not None:
        raise RequestRefused("vault_blocked", vault.blocked.message, hint="repair its config.json")
    if vault.read_only:
        raise RequestRefused("read_only", "nothing may be written into this vault", hint="name another with: --vault V")
    return vault


def _of_root(found: list[Indexer], root: Path) -> Indexer:
    for each in found:
        if each.vault.root == root:
            return each
    # its notes must not end up in whichever vault comes next
    raise RequestRefused(
        "vault_unavailable", "the folder's own vault cannot be opened now", hint="look at: wikid status"
    )
