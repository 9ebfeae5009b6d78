"""What the parts of the daemon raise on purpose → the refusals that the wire knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import structlog

from wikid_daemon.core.events import EventRefused
from wikid_daemon.index.catalog import CatalogError
from wikid_daemon.index.lucene import LexicalIndexDamaged
from wikid_daemon.lanes import never
from wikid_daemon.models.failures import ModelBuildFailed
from wikid_daemon.unserved import AmbiguousVault, NotOpen, UnknownVault, refusal_of
from wikid_daemon.updater import Cancelled
from wikid_daemon.vault.event_lock import LockBusy, LockRecord
from wikid_daemon.vault.event_log import LOCK_NAME, EventNotWritten, ReadOnlyVault
from wikid_daemon.vault.registry import RegistryUnreadable
from wikid_daemon.vault.vault import FolderUnreadable, NotAFolder, VaultError, VaultExists, VaultMissing
from wikid_daemon.vault.writing import WriteRefused
from wikid_protocol.errors import RequestRefused

log = structlog.get_logger("handlers")

T = TypeVar("T")


def translated(work: Callable[[], T], cancelled: Callable[[], bool] = never) -> T:
    """Run `work`; what it raises on purpose becomes the refusal that the wire knows. `cancelled` tells whether its own
    caller gave it up: what was ended otherwise may be asked again."""
    try:
        return work()
    except UnknownVault as problem:
        known = ", ".join(problem.known) or "none yet; add one with: wikid vault add PATH"
        raise RequestRefused("vault_not_found", "no vault has that name, id or path", hint=f"vaults: {known}") from None
    except AmbiguousVault as problem:
        hint = "give its path: " + ", ".join(problem.paths)
        raise RequestRefused("invalid_params", "several vaults have that name or id", hint=hint) from None
    except NotOpen as problem:
        raise refusal_of(problem.unopened) from None
    except RegistryUnreadable as problem:
        raise RequestRefused("config_unreadable", str(problem), hint="check the file and its permissions") from None
    except VaultExists as problem:
        raise RequestRefused("vault_exists", str(problem), hint="register it with: wikid vault add PATH") from None
    except (NotAFolder, VaultMissing) as problem:
        raise RequestRefused("not_a_folder", str(problem), hint="give an existing folder of notes") from None
    except FolderUnreadable as problem:
        raise RequestRefused("vault_unavailable", str(problem), hint="check its permissions") from None
    except VaultError as problem:
        raise RequestRefused("vault_unavailable", str(problem), hint="look at: wikid doctor") from None
    except ReadOnlyVault as problem:
        raise RequestRefused("read_only", str(problem), hint="check the permissions of its meta folder") from None
    except LockBusy as problem:
        raise RequestRefused("lock_busy", str(problem), hint=_who_holds(problem.holder)) from None
    except EventNotWritten as problem:
        raise RequestRefused("vault_unavailable", str(problem), hint="look at: wikid status") from None
    except WriteRefused as problem:
        raise RequestRefused(problem.kind, str(problem), hint=problem.hint) from None
    except EventRefused as problem:
        raise RequestRefused("invalid_params", str(problem), hint=problem.reason) from None
    except ModelBuildFailed as problem:
        kind = "cancelled" if problem.kind == "cancelled" else "model_unavailable"
        raise RequestRefused(kind, problem.reason, hint=problem.hint) from None
    except (CatalogError, LexicalIndexDamaged) as problem:
        log.warning("index_not_readable", kind=type(problem).__name__)
        message = "an index was closed, or repaired, while it was read"
        raise RequestRefused("vault_unavailable", message, hint="ask again, or look at: wikid status") from None
    except Cancelled:
        if cancelled():
            raise RequestRefused("cancelled", "the call was cancelled") from None
        message = "the vault was closed, or opened anew, meanwhile, or the daemon is stopping"
        raise RequestRefused("vault_unavailable", message, hint="ask again, or look at: wikid status") from None
    except TimeoutError:
        raise RequestRefused(
            "timeout", "not everything was searchable in time", hint="ask again, or see: wikid status"
        ) from None


def _who_holds(holder: LockRecord | None) -> str:
    if holder is None:
        return f"ask again; a meta/{LOCK_NAME} that stays and cannot be read may be removed"
    who = f"process {holder.pid} on {holder.host}, since {holder.acquired}"
    return f"ask again; it is {who}; where that is gone for good, remove meta/{LOCK_NAME}"
