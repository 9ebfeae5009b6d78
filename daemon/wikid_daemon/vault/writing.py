"""The one way into a vault's pages: new ones that overwrite nothing, and changes of what was read and is still there.

A page is proved to be one before it is seen. Nothing but pages can be written here: no packet, no generated file, no
catalogue, nothing hidden, and nothing outside of the pages' folder (vault format §9).
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

from wikid_daemon import files
from wikid_daemon.core import names
from wikid_daemon.core.document import MAX_BYTES, parse_page
from wikid_daemon.core.page import KnowledgeDocument
from wikid_daemon.vault.config_json import read_config
from wikid_daemon.vault.vault import OutsideVault, Vault, inside, read_page

WriteKind = Literal[
    "vault_unavailable",
    "vault_blocked",
    "read_only",
    "outside_vault",
    "invalid_params",
    "page_not_found",
    "hash_conflict",
]
MAX_NAME_BYTES: Final = 250
_FORBIDDEN: Final = frozenset(("permission_denied", "read_only"))
_GONE: Final = frozenset(("vanished", "not_a_regular_file"))


class WriteRefused(Exception):
    """Nothing was written; `kind` is a stable word of the wire, and the message never has text of a page."""

    def __init__(self, kind: WriteKind, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.kind: WriteKind = kind
        self.hint = hint


class PageExists(Exception):
    """A page is there, whose id is the wanted one or cannot be told from it; `path` is its own."""

    def __init__(self, path: str) -> None:
        super().__init__("a page with this id is there")
        self.path = path


@dataclass(frozen=True, slots=True)
class PageFile:
    """A page as it is on disk. `path` is relative to the pages' folder, `hash` is SHA-256 of `data`; `document` is None
    where its frontmatter is broken."""

    path: str
    data: bytes
    hash: str
    document: KnowledgeDocument | None


class PageWriter:
    """Writes into one vault; any thread may call. `noticed` is told the paths that have changed.

    Every method raises WriteRefused.
    """

    def __init__(self, vault: Vault, noticed: Callable[[set[str]], None]) -> None:
        self._vault = vault
        self._noticed = noticed

    def find(self, page_id: str) -> PageFile | None:
        """The page with exactly this id, whatever the normal form of its file's name; None where there is none."""
        with _told():
            taken = self._taken(self._place_of(page_id))
        return None if taken is None or self._vault.page_id(taken) != page_id else self.read(taken)

    def read(self, path: str) -> PageFile | None:
        """The page at the path, or None."""
        try:
            data = read_page(self._vault, path, MAX_BYTES).data
        except OutsideVault as problem:
            raise WriteRefused("outside_vault", str(problem)) from None
        except (OSError, files.NotReadable) as problem:
            reason = files.failure_reason(problem)
            if reason in _GONE:
                return None
            raise WriteRefused("vault_unavailable", f"a page cannot be read: {reason.replace('_', ' ')}") from problem
        return PageFile(path, data, files.content_hash(data), self._parsed(path, data))

    def paths(self, folder: str, begins: str) -> list[str]:
        """The paths of the pages right in the folder whose names begin so."""
        with _told():
            try:
                entries = sorted(os.listdir(inside(self._vault, f"{folder}/{begins}").parent))
            except (FileNotFoundError, NotADirectoryError):
                return []
        found = [f"{folder}/{name}" for name in entries if name.startswith(begins)]
        return [path for path in found if names.skip_reason(path, strict=True) is None]

    def create(
        self, page_id: str, data: bytes, is_right: Callable[[KnowledgeDocument], bool] = lambda _document: True
    ) -> PageFile:
        """Make the page, which must parse to what `is_right`.

        PageExists, without a change, where its id or one that cannot be told from it is taken.
        """
        self.prove_writable()
        with _told():
            path = self._place_of(page_id)
        document = self._proved(path, data)
        if not is_right(document):
            raise WriteRefused("invalid_params", "a reader of the page would not find in it what it is to say")
        with _told():
            place = inside(self._vault, path)
            self._make_folders(path)
            taken = self._taken(path)
            if taken is not None:
                raise PageExists(taken)
            try:
                files.create(place, data)
            except FileExistsError:
                raise PageExists(path) from None
        self._noticed({path})
        return PageFile(path, data, files.content_hash(data), document)

    def edit(self, path: str, expected: str, change: Callable[[bytes], bytes]) -> PageFile:
        """Put what `change` makes of the page in its place, if it still is the one whose SHA-256 is `expected`.

        Else, and where somebody saves it meanwhile, WriteRefused `hash_conflict`: what they wrote stays.
        """
        self.prove_writable()
        present = self.read(path)
        if present is None:
            raise WriteRefused("page_not_found", "there is no such page")
        if present.hash != expected:
            raise _changed(present.hash)
        data = change(present.data)
        if data == present.data:
            return present
        document = self._proved(path, data)
        with _told():
            if not files.replace_if_unchanged(inside(self._vault, path), present.data, data):
                raise _changed(None)
        self._noticed({path})
        return PageFile(path, data, files.content_hash(data), document)

    def prove_writable(self) -> None:
        """That the vault is there and may be written at this moment."""
        vault = self._vault
        if vault.config_path is None or vault.read_only:
            raise WriteRefused("read_only", "nothing may be written into this vault", "name another with: --vault V")
        if not vault.pages_root.is_dir() or not vault.config_path.parent.is_dir():
            raise WriteRefused("vault_unavailable", "the vault's folder is not there now", "look at: wikid status")
        blocked = read_config(vault.config_path, vault.pages_root / "index.md").blocked
        if blocked is not None:
            raise WriteRefused("vault_blocked", blocked.message, "repair its config.json")

    def _place_of(self, page_id: str) -> str:
        """The path of the page with this id, in the folders that are there whatever the normal form of their names."""
        *folders, name = path_of(page_id).split("/")
        place = ""
        for wanted in folders:
            is_there = wanted.isascii() or os.path.lexists(inside(self._vault, f"{place}{wanted}"))
            place += f"{wanted if is_there else self._named(place, wanted)}/"
        return place + name

    def _named(self, place: str, wanted: str) -> str:
        try:
            entries = sorted(os.listdir(inside(self._vault, f"{place}{wanted}").parent))
        except FileNotFoundError:
            return wanted
        return next((each for each in entries if unicodedata.normalize("NFC", each) == wanted), wanted)

    def _taken(self, path: str) -> str | None:
        """The path of the entry in the page's folder that has its name or one that counts as the same; None if free."""
        folder, _, name = path.rpartition("/")
        try:
            entries = os.listdir(inside(self._vault, path).parent)
        except (FileNotFoundError, NotADirectoryError):
            return None
        wanted = names.folded(name)
        found = [each for each in entries if names.folded(each) == wanted]
        if not found:
            return None
        # the one whose id it is, before one that differs in case
        chosen = min(found, key=lambda each: (self._vault.page_id(each) != self._vault.page_id(name), each))
        return f"{folder}/{chosen}" if folder else chosen

    def _make_folders(self, path: str) -> None:
        """The folders between the pages' folder, which must be there, and the page."""
        folder = self._vault.pages_root
        for name in path.split("/")[:-1]:
            parent, folder = folder, folder / name
            if not folder.is_dir():
                folder.mkdir(exist_ok=True)
                files.sync_folder(parent)

    def _proved(self, path: str, data: bytes) -> KnowledgeDocument:
        parsed = parse_page(path, data, strict=True)
        if parsed.document is None:
            code = parsed.findings[-1].code
            raise WriteRefused("invalid_params", f"what was to be written would be no page: {code}", "make it shorter")
        return parsed.document

    def _parsed(self, path: str, data: bytes) -> KnowledgeDocument | None:
        return parse_page(path, data, strict=self._vault.strict).document


def path_of(page_id: str) -> str:
    """Where the page with this id belongs, relative to the pages' folder. WriteRefused for what can be no page's id."""
    slashed = page_id.replace("\\", "/")
    if slashed != page_id or page_id.startswith("/") or ".." in slashed.split("/") or "%2e" in page_id.lower():
        raise WriteRefused("outside_vault", "a page id is a path inside the vault, such as concepts/name")
    path = f"{page_id}.md"
    parts = path.split("/")
    is_sound = all(parts) and page_id == page_id.strip() and not any(each < " " or each == "\x7f" for each in page_id)
    if not is_sound or names.skip_reason(path, strict=True) is not None or page_id.endswith(".md"):
        raise WriteRefused("invalid_params", "that can be no page's id", "give it as concepts/name")
    if max(len(each.encode()) for each in parts) > MAX_NAME_BYTES:
        raise WriteRefused("invalid_params", f"a name has {MAX_NAME_BYTES} bytes at most")
    return path


def _changed(present: str | None) -> WriteRefused:
    hint = "read it again, and write with the hash that it has then"
    return WriteRefused(
        "hash_conflict", "the page is not the one that was read", f"{hint}: {present}" if present else hint
    )


@contextmanager
def _told() -> Iterator[None]:
    """What the system refuses, as a refusal."""
    try:
        yield
    except OutsideVault as problem:
        raise WriteRefused("outside_vault", str(problem)) from None
    except (OSError, files.NotReadable) as problem:
        reason = files.failure_reason(problem)
        kind: WriteKind = "read_only" if reason in _FORBIDDEN else "vault_unavailable"
        raise WriteRefused(kind, f"the vault cannot be written: {reason.replace('_', ' ')}") from problem
