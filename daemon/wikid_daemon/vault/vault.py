"""A vault on disk: where its parts are, who it is, and what forbids it to be written or read (vault format §1)."""

import datetime
import errno
import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import orjson

from wikid_daemon import files
from wikid_daemon.core import names
from wikid_daemon.core.events import timestamp_of
from wikid_daemon.core.page import Finding
from wikid_daemon.vault.config_json import OKF, BackfillRefused, Blocked, Config, backfill_vault_id, read_config
from wikid_daemon.vault.state import state_place

NEW_MARKER = ".llm-wiki"
LEGACY_MARKER = ".wiki"
_WIKI_FOLDERS = ("sources", "entities", "concepts", "syntheses", "analyses", "requirements")
_OTHER_FOLDERS = ("templates/pages", "raw/sources", "raw/assets", "raw/articles", "meta", "outputs", ".discoveries")
_SCHEMA = (
    "# Rules of this wiki\n\n"
    "Pages live in `wiki/`, one idea each, with `type` and `title` in the frontmatter.\n"
    "Link pages by path, as in `[title](/concepts/page.md)`.\n"
    "Never edit `raw/` or `meta/` by hand.\n"
)


class VaultError(Exception):
    """A folder that cannot be opened or made a vault; the message says what to do."""


class VaultMissing(VaultError):
    """Nothing is at the path."""


class NotAFolder(VaultError):
    """The path is a file."""


class FolderUnreadable(VaultError):
    """The folder may not be listed."""


class VaultExists(VaultError):
    """The folder already is a vault."""


class OutsideVault(VaultError):
    """A relative path that is absolute, leaves the vault, or goes through a symlink."""


@dataclass(frozen=True, slots=True)
class Vault:
    """An opened vault; nothing in it changes until it is opened again.

    ``root`` is a real path and ``pages_root`` the folder that page paths are relative to. ``state`` is the folder of
    the generated tree, and ``state_outside`` why that is not `meta/wikid` (see `state.StatePlace`). ``read_only``
    means that not even events may be appended.
    """

    vault_id: str
    name: str
    root: Path
    kind: Literal["wiki", "plain"]
    layout: Literal["new", "legacy", "plain"]
    pages_root: Path
    meta: Path | None
    state: Path
    state_outside: str | None
    topic: str = ""
    mode: str = "personal"
    read_only: bool = False
    blocked: Blocked | None = None
    findings: tuple[Finding, ...] = field(default=())

    @property
    def strict(self) -> bool:
        """Whether the page rules of marker vaults apply."""
        return self.kind == "wiki"

    @property
    def config_path(self) -> Path | None:
        """`config.json`, or None for a plain folder."""
        return None if self.kind == "plain" else _base(self.root, self.layout) / "config.json"

    @property
    def raw(self) -> Path | None:
        """The folder of source packets, or None for a plain folder."""
        return None if self.meta is None else self.meta.with_name("raw")

    def page_id(self, relative: str) -> str:
        """The id of the page at this path; normalised in strict vaults only."""
        return names.page_id(relative, normalise=self.strict)


def marker_of(folder: Path) -> Literal["new", "legacy"] | None:
    """The layout that the folder's marker tells, the new one first; None when it has no marker."""
    if os.path.lexists(folder / NEW_MARKER):
        return "new"
    return "legacy" if os.path.lexists(folder / LEGACY_MARKER) else None


def open_vault(path: Path, *, name: str | None, state_home: Path, may_backfill: bool = True) -> Vault:
    """Open the vault or plain folder at ``path``; its marker folder is taken as the vault around it.

    The first time, and unless ``may_backfill`` is False or something forbids it, a `vault_id` is added to its
    `config.json`. Raises VaultMissing, NotAFolder or FolderUnreadable.
    """
    root = _real_folder(path)
    if root.name in (NEW_MARKER, LEGACY_MARKER):
        root = root.parent
    layout = marker_of(root)
    if layout is None:
        return _plain_vault(root, name, state_home)
    base = Path(os.path.realpath(_base(root, layout)))
    inner = base if layout == "new" else root
    config = read_config(base / "config.json", inner / "wiki" / "index.md")
    read_only = not _is_writable(inner / "meta", inner, base)
    may_write = not read_only and config.blocked is None
    vault_id, findings = _identity(base / "config.json", root, config, may_write=may_write and may_backfill)
    place = state_place(root, inner / "meta", state_home, writable=may_write)
    return Vault(
        vault_id=vault_id,
        name=name or config.name or root.name or str(root),
        root=root,
        kind="wiki",
        layout=layout,
        pages_root=Path(os.path.realpath(inner / "wiki")),
        meta=inner / "meta",
        state=place.folder,
        state_outside=place.outside,
        topic=config.topic,
        mode=config.mode,
        read_only=read_only,
        blocked=config.blocked,
        findings=findings,
    )


def absent_vault(root: Path, *, name: str, vault_id: str, state_home: Path) -> Vault | None:
    """A plain folder that is not there now but whose index is, so that what is known of it can be asked; else None."""
    vault = _plain_vault(root, name, state_home)
    return vault if vault.vault_id == vault_id and vault.state.is_dir() else None


def _plain_vault(root: Path, name: str | None, state_home: Path) -> Vault:
    place = state_place(root, None, state_home, writable=False)
    return Vault(
        vault_id=path_vault_id(root),
        name=name or root.name or str(root),
        root=root,
        kind="plain",
        layout="plain",
        mode="",
        pages_root=root,
        meta=None,
        state=place.folder,
        state_outside=place.outside,
        read_only=True,
    )


def path_vault_id(root: Path) -> str:
    """The id of a vault that has none of its own: UUIDv5 of its real path."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, root.as_uri()))


def _base(root: Path, layout: str) -> Path:
    return root / (NEW_MARKER if layout == "new" else LEGACY_MARKER)


def _real_folder(path: Path) -> Path:
    try:
        root = Path(os.path.realpath(path, strict=True))
        with os.scandir(root):
            return root
    except FileNotFoundError as error:
        raise VaultMissing(f"{path} does not exist") from error
    except NotADirectoryError as error:
        raise NotAFolder(f"{path} is not a folder; give the folder that holds the notes") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise VaultMissing(f"{path} is a symlink that leads nowhere") from error
        raise FolderUnreadable(f"{path} cannot be listed: {files.failure_reason(error)}") from error


def _identity(config_path: Path, root: Path, config: Config, *, may_write: bool) -> tuple[str, tuple[Finding, ...]]:
    if config.vault_id is not None:
        return config.vault_id, config.findings
    if config.findings or not may_write:
        return path_vault_id(root), config.findings
    try:
        return backfill_vault_id(config_path), ()
    except BackfillRefused as refused:
        finding = Finding("warning", "vault_id_not_stored", "config.json", f"{refused}; an id of the path is used")
        return path_vault_id(root), (finding,)


def _is_writable(meta: Path, *others: Path) -> bool:
    """Whether files can be made in `meta`, or `meta` itself in the folder around it, and beside `config.json`."""
    folders = [meta, *others[1:]] if meta.exists() else list(others)
    return all(os.access(folder, os.W_OK | os.X_OK) for folder in folders)


def read_page(vault: Vault, relative: str, limit: int) -> files.FileBytes:
    """Read one file below ``pages_root``. Raises OutsideVault, a `files.NotReadable` or OSError."""
    return files.read_regular(inside(vault, relative), limit)


def inside(vault: Vault, relative: str) -> Path:
    """The absolute path of a relative one, proved to stay inside. Raises OutsideVault; the file need not exist."""
    parts = relative.split("/")
    separators = {os.sep, os.altsep or "/"} - {"/"}
    if not all(parts) or {".", ".."} & set(parts) or "\0" in relative or any(mark in relative for mark in separators):
        raise OutsideVault("the path is not a relative path inside the vault")
    path = vault.pages_root.joinpath(*parts)
    if os.path.splitdrive(relative)[0] or os.path.realpath(path.parent) != os.fspath(path.parent):
        raise OutsideVault("the path leads through a symlink or out of the vault")
    return path


def init_vault(path: Path, topic: str, mode: str) -> Path:
    """Make a new-layout OKF vault at ``path`` as the extension's bootstrap does, and return its real root.

    Files that exist are never overwritten; a vault that has its config raises VaultExists, and a place that cannot be
    written another VaultError.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        root = _real_folder(path)
        _bootstrap(root, topic.strip() or "pending", mode)
    except (FileExistsError, NotADirectoryError) as error:
        raise NotAFolder(f"{path} cannot hold a vault: a file is where a folder is needed") from error
    except OSError as error:
        raise VaultError(f"no vault can be made at {path}: {files.failure_reason(error)}") from error
    return root


def _bootstrap(root: Path, topic: str, mode: str) -> None:
    base = root / NEW_MARKER
    if marker_of(root) == "legacy" or os.path.lexists(base / "config.json"):
        raise VaultExists(f"{root} already is a vault; nothing was changed")
    now = datetime.datetime.now(datetime.UTC)
    config = {
        "name": topic,
        "topic": topic,
        "mode": mode,
        "created": now.date().isoformat(),
        "version": "1.0",
        "knowledge_format": OKF,
        "vault_id": str(uuid.uuid4()),
    }
    event = {"topic": topic, "mode": mode, "timestamp": timestamp_of(now), "kind": "bootstrap"}
    for folder in (*(f"wiki/{name}" for name in _WIKI_FOLDERS), *_OTHER_FOLDERS):
        (base / folder).mkdir(parents=True, exist_ok=True)
    _create(base / "WIKI_SCHEMA.md", _SCHEMA.encode())
    _create(base / "meta" / "events.jsonl", orjson.dumps(event) + b"\n")
    _create(base / "config.json", orjson.dumps(config, option=orjson.OPT_INDENT_2) + b"\n")


def _create(path: Path, data: bytes) -> None:
    if not os.path.lexists(path):
        files.atomic_write(path, data, durable=True)
