"""The page half of a correction: what a person says against a page, kept as an observation of its own (seed A,
Feedback).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from wikid_daemon.addressing import writable
from wikid_daemon.core import noted
from wikid_daemon.core.composing import one_line
from wikid_daemon.core.slugs import slug
from wikid_daemon.curating import create_numbered
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vault.writing import PageWriter, WriteRefused
from wikid_daemon.vaults import Vaults


class Corrections:
    """Saves corrections. The event is its caller's to append, afterwards."""

    def __init__(self, vaults: Vaults, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._vaults = vaults
        self._now = now

    def save(self, vault: Vault, page_id: str, correction: str, query_hash: str) -> str:
        """Save the observation that corrects the page, and return its page id; the same one again for the same words of
        the same day. RequestRefused, WriteRefused."""
        if not correction.strip():
            raise WriteRefused("invalid_params", "a correction needs words", "say what is right instead")
        writer = PageWriter(writable(vault), self._vaults.find(str(vault.root)).notice)
        corrected = writer.find(page_id)
        if corrected is None:
            raise WriteRefused("page_not_found", "the page that is corrected is not there")
        title = page_id if corrected.document is None else one_line(corrected.document.title)
        moment = self._now()
        about = slug(f"correction {title}", noted.OBSERVED_LONGEST)
        name, _, _ = create_numbered(
            writer,
            noted.FOLDERS["source"],
            f"obs-{noted.day_of(moment)}-{about}",
            lambda name: noted.correction(name, page_id, title, correction, vault.vault_id, query_hash, moment),
        )
        return f"{noted.FOLDERS['source']}/{name}"
