"""Which one vault a call means that writes, or reads what each vault has of its own."""

from __future__ import annotations

from pathlib import Path

from wikid_daemon.calls import absolute
from wikid_daemon.indexer import Indexer
from wikid_daemon.unserved import refusal_of
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
    folder = None if cwd is None else absolute(cwd)
    where = None if folder is None or wanted not in (None, "active") else vaults.resolve(folder)
    applied, left_out = vaults.looked_through(wanted, where or folder, automatic=False)
    found = [each.indexer for each in applied]
    if where is not None and where.active is not None:
        return _of_root(found, where.active.root)
    names = sorted([*(each.vault.name for each in found), *(each.entry.name for each in left_out if each.opening)])
    if len(names) > 1:
        hint = f"name one with: --vault V ({', '.join(names)})"
        raise RequestRefused("invalid_params", "this call is for one vault", hint=hint)
    if left_out and not found:
        raise refusal_of(left_out[0])
    if not found:
        raise RequestRefused("vault_not_found", "no vault applies to this call", hint="name one with: --vault V")
    return found[0]


def all_of(vaults: Vaults, wanted: str | None, cwd: str | None) -> list[Indexer]:
    """The indexers of a call that may be for several vaults. RequestRefused where one of them is still being opened, or
    none of them can be; UnknownVault, AmbiguousVault."""
    applied, left_out = vaults.looked_through(wanted, None if cwd is None else absolute(cwd), automatic=False)
    for each in left_out:
        if each.opening or not applied:
            raise refusal_of(each)
    return [each.indexer for each in applied]


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
