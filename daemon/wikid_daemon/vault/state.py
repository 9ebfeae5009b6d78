"""Where wikid's generated tree of a vault lives, and whose it is (vault format §11.37)."""

import hashlib
import os
import re
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path

import orjson

from wikid_daemon import files
from wikid_daemon.vault.filesystem import network_filesystem, sync_folder

MANIFEST = "manifest.json"
MARKERS = "markers"
_TREE = "wikid"
_MANIFEST_LIMIT = 256 << 20
_CACHEDIR_TAG = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"
    b"# wikid generates this folder from the notes of its vault and can build it again.\n"
    b"# About cache directory tags: https://bford.info/cachedir/\n"
)
_LABELS = {".gitignore": b"*\n", "CACHEDIR.TAG": _CACHEDIR_TAG}
_UNSAFE = re.compile(r"[^a-z0-9]+")
_ID_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class StatePlace:
    """The folder of the generated tree; ``outside`` says why it is not inside the vault, and is None when it is."""

    folder: Path
    outside: str | None


def state_place(root: Path, meta: Path | None, state_home: Path, *, writable: bool) -> StatePlace:
    """Choose the tree's place for the vault at ``root`` (a real path). ``meta`` is None for a plain folder."""
    away = state_home / "vaults" / _folder_name(root)
    if meta is None:
        return StatePlace(away, "plain_folder")
    tree = meta / _TREE
    reason = _reason_outside(tree, writable=writable, machine=machine_id(state_home))
    return StatePlace(tree, None) if reason is None else StatePlace(away, reason)


def _reason_outside(tree: Path, *, writable: bool, machine: str) -> str | None:
    if not writable:
        return "read_only"
    if os.path.realpath(tree) != os.path.join(os.path.realpath(tree.parent.parent), tree.parent.name, tree.name):
        return "linked_elsewhere"
    if network_filesystem(tree.parent) is not None:
        return "network_filesystem"
    if sync_folder(tree.parent) is not None:
        return "sync_folder"
    return None if owner_of(tree) in (None, machine) else "other_machine"


def owner_of(tree: Path) -> str | None:
    """The machine whose tree this is: "" when nobody can tell, None when there is nothing yet."""
    try:
        if not any(".tmp-" not in name for name in os.listdir(tree)):
            return None
        manifest = orjson.loads(files.read_regular(tree / MANIFEST, _MANIFEST_LIMIT).data)
    except FileNotFoundError:
        return "" if tree.exists() else None
    except (OSError, files.NotReadable, orjson.JSONDecodeError):
        return ""
    machine = manifest.get("machine") if isinstance(manifest, dict) else None
    return machine if isinstance(machine, str) else ""


def machine_id(state_home: Path) -> str:
    """This user's random id on this machine, made on first use and kept in the state directory."""
    path = state_home / "machine-id"
    with _ID_LOCK:  # vaults are opened side by side, and all by one id
        try:
            return str(uuid.UUID(path.read_text("ascii").strip()))
        except (FileNotFoundError, ValueError):
            made = str(uuid.uuid4())
            state_home.mkdir(parents=True, exist_ok=True, mode=0o700)
            files.atomic_write(path, f"{made}\n".encode(), durable=True)
            return made


def prepare_tree(folder: Path, empty_manifest: bytes) -> None:
    """Make the folder, in one that is there, and the files that tell git, backup and sync tools to leave it alone.
    Harmless when repeated.

    The manifest comes first, because it says whose tree this is.
    """
    folder.mkdir(exist_ok=True, mode=0o700)
    for name, data in ((MANIFEST, empty_manifest), *_LABELS.items()):
        path = folder / name
        if not path.exists():
            files.atomic_write(path, data)
    (folder / MARKERS).mkdir(exist_ok=True)


def is_prepared(folder: Path) -> bool:
    """Whether all that `prepare_tree` makes is there. Raises OSError where nobody can tell."""
    return all((folder / name).exists() for name in (MANIFEST, *_LABELS, MARKERS))


def _folder_name(root: Path) -> str:
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    slug = _UNSAFE.sub("-", root.name.lower()).strip("-")[:32]
    return f"{slug}-{digest}" if slug else digest
