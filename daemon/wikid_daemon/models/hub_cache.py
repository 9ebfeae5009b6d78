"""The cache of the Hugging Face hub, read as it lies there: no library is needed and nothing in it is ever changed.

``models--publisher--name/refs/main`` names a commit, ``snapshots/<commit>/`` holds its files as links into ``blobs/``,
where each file is named by its own hash: SHA-256 for large files, that of a Git blob for small ones.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

NAME: Final = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT: Final = re.compile(r"[0-9a-f]{6,64}")
_BLOB: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_FOLDER: Final = "models--"
_BLOCK_BYTES: Final = 1 << 20
_TRUE: Final = frozenset({"1", "on", "yes", "true"})


def is_hub_name(name: str) -> bool:
    """Whether it reads ``publisher/name``."""
    return NAME.fullmatch(name) is not None and ".." not in name


def is_offline(env: Mapping[str, str]) -> bool:
    """Whether the user keeps the hub's own tools from the network."""
    return any(env.get(each, "").lower() in _TRUE for each in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def hub_cache(env: Mapping[str, str]) -> Path:
    """Where the hub's tools keep models for this user."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if given := env.get(variable):
            return _expanded(given)
    if given := env.get("HF_HOME"):
        return _expanded(given) / "hub"
    caches = env.get("XDG_CACHE_HOME") or str(Path(env.get("HOME") or Path.home()) / ".cache")
    return _expanded(caches) / "huggingface" / "hub"


def _expanded(given: str) -> Path:
    """As the hub's own tools do it: the home of nobody stays as it is written."""
    return Path(os.path.expanduser(given))


def snapshot(env: Mapping[str, str], name: str) -> Path | None:
    """The folder of the model ``publisher/name`` as ``main`` was when it was fetched last; None where it is not."""
    if not is_hub_name(name):
        return None
    root = hub_cache(env) / (_FOLDER + name.replace("/", "--"))
    try:
        commit = (root / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    folder = root / "snapshots" / commit
    return folder if _COMMIT.fullmatch(commit) and folder.is_dir() else None


def cached_names(env: Mapping[str, str]) -> Iterator[str]:
    """Every ``publisher/name`` of which the cache holds a snapshot."""
    for entry in sorted(hub_cache(env).glob(f"{_FOLDER}*--*")):
        name = entry.name.removeprefix(_FOLDER).replace("--", "/", 1)
        if snapshot(env, name) is not None:
            yield name


def name_of(path: Path) -> str | None:
    """``publisher/name`` of a snapshot's folder; None for any other folder."""
    root = path.parent.parent
    if path.parent.name != "snapshots" or not root.name.startswith(_FOLDER):
        return None
    return root.name.removeprefix(_FOLDER).replace("--", "/", 1)


def blob_hash(file: Path) -> str | None:
    """What the cache says the file's content hashes to; None where it does not say."""
    if not file.is_symlink():
        return None
    target = file.readlink().name
    return target if _BLOB.fullmatch(target) else None


def is_intact(file: Path, recorded: str) -> bool:
    """Whether a file still has the hash that its blob is named by."""
    if not file.is_file():
        return False
    digest = hashlib.sha256()
    if len(recorded) == 40:  # Git hashes the length as well
        digest = hashlib.sha1(b"blob %d\0" % file.stat().st_size, usedforsecurity=False)
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest() == recorded
