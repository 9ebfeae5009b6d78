"""The validated mirror: a copy of each accepted page, and `manifest.json` that tells where it came from (§11.11)."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, get_args

import orjson

from wikid_daemon import files
from wikid_daemon.core.mirror_names import mirror_name
from wikid_daemon.core.page import Role
from wikid_daemon.vault.state import MANIFEST, is_prepared, prepare_tree
from wikid_daemon.vault.vault import Vault

_DOCUMENTS = "documents"
_LIMIT = 256 << 20
_VERSION = 1
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class MirrorRecord:
    """A mirrored page. ``source_path`` is relative to the pages' folder, so that a moved vault keeps its manifest;
    ``content_hash`` is the SHA-256 of the page's own bytes, not of the copy."""

    page_id: str
    source_path: str
    content_hash: str
    role: Role
    type: str

    @property
    def key(self) -> str:
        """Where the copy is, relative to the generated tree."""
        return f"{_DOCUMENTS}/{self.role}/{mirror_name(self.page_id)}"


class Mirror:
    """The mirror of one vault, for its single writer. Copies change at once, the manifest at `write_manifest`."""

    def __init__(self, vault: Vault, machine: str) -> None:
        """``machine`` is `state.machine_id`; it marks the tree as this machine's."""
        self._folder = vault.state
        self._meta = vault.meta if vault.state_outside is None else None
        self._vault_id = vault.vault_id
        self._machine = machine
        self._records: dict[str, MirrorRecord] = {}
        self._written = False

    @property
    def records(self) -> Mapping[str, MirrorRecord]:
        """What is mirrored, by page id."""
        return MappingProxyType(self._records)

    @property
    def in_place(self) -> bool:
        """Whether the tree is as `open` and the copies left it, as far as a few looks tell. Raises OSError."""
        return is_prepared(self._folder) and (not self._records or (self._folder / _DOCUMENTS).exists())

    def open(self) -> None:
        """Make the tree and read its manifest; a damaged manifest counts as empty, since all of it can be rebuilt.

        Raises OSError when the tree cannot be made, as where the vault has been moved away.
        """
        if self._meta is None:
            self._folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        else:
            self._meta.mkdir(exist_ok=True)
        prepare_tree(self._folder, self._manifest({}))
        try:
            documents = orjson.loads(files.read_regular(self._folder / MANIFEST, _LIMIT).data)["documents"].values()
            records = [_record(document) for document in documents]
        except (files.NotReadable, orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
            records = []
        if not (self._folder / _DOCUMENTS).exists():
            records = []  # whose copies went all at once
        self._records = {record.page_id: record for record in records}
        self._written = bool(records)

    def apply(self, record: MirrorRecord, data: bytes) -> None:
        """Write the copy of a page's bytes, with LF line ends; a page whose role changed leaves its old place."""
        path = self._folder / record.key
        if not path.parent.is_dir():
            for parent in reversed(path.relative_to(self._folder).parents[:-1]):
                (self._folder / parent).mkdir(exist_ok=True)  # never a vault that has been moved away meanwhile
        files.atomic_write(path, lf_copy(data))
        previous = self._records.get(record.page_id)
        if previous is not None and previous.key != record.key:
            self._unlink(previous)
        if previous != record:
            self._records[record.page_id] = record
            self._written = False

    def remove(self, page_id: str) -> None:
        """Drop a page's copy; unknown ids are ignored."""
        record = self._records.pop(page_id, None)
        if record is not None:
            self._written = False
            self._unlink(record)

    def write_manifest(self) -> None:
        """Write `manifest.json`, when anything changed since it was written."""
        if not self._written:
            files.atomic_write(self._folder / MANIFEST, self._manifest(self._records))
            self._written = True

    def sweep(self) -> frozenset[str]:
        """After a crash: delete files that no record owns, forget records whose copy is gone, and return their ids."""
        owned = {os.path.normcase(self._folder / record.key) for record in self._records.values()}
        present = set()
        for folder, _, names in os.walk(self._folder / _DOCUMENTS, topdown=False):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.normcase(path) in owned:
                    present.add(os.path.normcase(path))
                else:
                    os.unlink(path)
            with contextlib.suppress(OSError):  # not empty, which is how a folder in use looks
                os.rmdir(folder)
        lost = {
            page_id
            for page_id, record in self._records.items()
            if os.path.normcase(self._folder / record.key) not in present
        }
        for page_id in lost:
            del self._records[page_id]
        self._written = self._written and not lost
        return frozenset(lost)

    def _unlink(self, record: MirrorRecord) -> None:
        path = self._folder / record.key
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        for parent in list(path.relative_to(self._folder).parents)[:-3]:  # not ".", documents and the role
            try:
                (self._folder / parent).rmdir()
            except OSError:
                break  # still in use

    def _manifest(self, records: Mapping[str, MirrorRecord]) -> bytes:
        documents = {
            record.key: {
                "sourcePath": record.source_path,
                "vaultId": self._vault_id,
                "pageId": record.page_id,
                "contentHash": record.content_hash,
                "role": record.role,
                "type": record.type,
            }
            for _, record in sorted(records.items())
        }
        head = {"version": _VERSION, "machine": self._machine, "vaultId": self._vault_id}
        return orjson.dumps({**head, "documents": documents}, option=orjson.OPT_INDENT_2) + b"\n"


class NoMirror:
    """Stands in for `Mirror` where pages are read for an index that answers nobody."""

    records: Mapping[str, MirrorRecord] = MappingProxyType({})
    in_place = True

    def apply(self, record: MirrorRecord, data: bytes) -> None:
        """Keep nothing."""

    def remove(self, page_id: str) -> None:
        """Nothing was kept."""

    def sweep(self) -> frozenset[str]:
        return frozenset()


class MirrorBeside(NoMirror):
    """Writes copies into a mirror that another index of the same vault keeps in order."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def apply(self, record: MirrorRecord, data: bytes) -> None:
        self._mirror.apply(record, data)


def lf_copy(data: bytes) -> bytes:
    """The same bytes with LF line ends; UTF-16, where those bytes mean other things, is left alone."""
    if data.startswith(_UTF16_MARKS):
        return data
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _record(document: Any) -> MirrorRecord:
    texts = [document[key] for key in ("pageId", "sourcePath", "contentHash", "role", "type")]
    if not all(isinstance(text, str) for text in texts) or document["role"] not in get_args(Role):
        raise ValueError("not a manifest entry")
    page_id, source_path, content_hash, role, type_ = texts
    return MirrorRecord(page_id, source_path, content_hash, role, type_)
