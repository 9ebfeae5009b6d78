"""A vault's `config.json`: what it says, whether it blocks the vault, the one key wikid may add (vault format §1.4)."""

import json
import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from wikid_daemon import files
from wikid_daemon.core import frontmatter
from wikid_daemon.core.nesting import is_too_deep
from wikid_daemon.core.page import Finding

OKF = "okf-0.2"
LEGACY = "legacy"
_OKF_VERSION = "0.2"
_LIMIT = 1 << 20
_INDEX_LIMIT = 4 << 20
_BACKFILL_TRIES = 3
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_FIRST_KEY = re.compile(r'\s*\{(\r?\n)([ \t]*)"')


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why nothing may be written into a vault; ``serve`` is False when its pages may not be read either (§11.7)."""

    code: str
    message: str
    serve: bool


@dataclass(frozen=True, slots=True)
class Config:
    """The keys of `config.json` that wikid reads; ``vault_id`` is a canonical UUID or None."""

    name: str = ""
    topic: str = ""
    mode: str = "personal"
    knowledge_format: str = LEGACY
    vault_id: str | None = None
    blocked: Blocked | None = None
    findings: tuple[Finding, ...] = ()


class BackfillRefused(Exception):
    """`config.json` was left alone; the message says why."""


def read_config(path: Path, root_index: Path) -> Config:
    """Read a vault's config and check it against the version that its root index declares. Never raises."""
    try:
        values = _parse(files.read_regular(path, _LIMIT).data)
    except FileNotFoundError:
        return Config(blocked=_unreadable("config.json is missing; restore it, or run the vault's bootstrap again"))
    except (OSError, files.NotReadable) as error:
        return Config(blocked=_unreadable(f"config.json cannot be read: {files.failure_reason(error)}"))
    if values is None:
        return Config(blocked=_unreadable("config.json is not a JSON object in UTF-8 without a byte order mark"))
    stated = values.get("knowledge_format", LEGACY)
    known = isinstance(stated, str) and stated in (OKF, LEGACY)
    knowledge_format = stated if known else LEGACY
    vault_id, findings = _vault_id(values)
    return Config(
        name=_text(values, "name", ""),
        topic=_text(values, "topic", ""),
        mode=_text(values, "mode", "personal"),
        knowledge_format=knowledge_format,
        vault_id=vault_id,
        blocked=_index_block(root_index, knowledge_format) if known else _BAD_FORMAT,
        findings=findings,
    )


_BAD_FORMAT = Blocked(
    "config_invalid_knowledge_format",
    f'knowledge_format in config.json must be "{OKF}", "{LEGACY}" or absent',
    serve=True,
)


def _unreadable(message: str) -> Blocked:
    return Blocked("config_invalid_knowledge_format", message, serve=False)


def _parse(data: bytes) -> dict[str, Any] | None:
    """The object, or None; bad UTF-8 is replaced, as the extension does."""
    try:
        values = orjson.loads(data.decode("utf-8", "replace"))
    except orjson.JSONDecodeError:
        return None
    return values if isinstance(values, dict) else None


def _text(values: dict[str, Any], key: str, default: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) and value.strip() else default


def _vault_id(values: dict[str, Any]) -> tuple[str | None, tuple[Finding, ...]]:
    if "vault_id" not in values:
        return None, ()
    value = values["vault_id"]
    if isinstance(value, str) and _UUID.fullmatch(value):
        return value.lower(), ()
    finding = Finding(
        "error", "config_invalid_vault_id", "config.json", "vault_id must be a UUID; it is never replaced"
    )
    return None, (finding,)


def _index_block(path: Path, knowledge_format: str) -> Blocked | None:
    """OKF mode wants the string "0.2" of an existing root index; legacy mode only minds another declared version."""
    strict = knowledge_format == OKF
    try:
        data = files.read_regular(path, _INDEX_LIMIT).data
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, files.NotReadable) as error:
        return _mismatch(f"wiki/index.md cannot be read: {files.failure_reason(error)}") if strict else None
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    fenced = frontmatter.split(text)
    values = fenced if isinstance(fenced, frontmatter.Fault) else frontmatter.parse(fenced.yaml)
    if isinstance(values, frontmatter.Fault):
        return _mismatch("wiki/index.md has no readable frontmatter") if strict else None
    if values.get("okf_version") == _OKF_VERSION or (not strict and "okf_version" not in values):
        return None
    return _mismatch(f'wiki/index.md must declare okf_version as the string "{_OKF_VERSION}"')


def _mismatch(message: str) -> Blocked:
    return Blocked("okf_version_mismatch", message, serve=True)


def backfill_vault_id(path: Path) -> str:
    """Add a new ``vault_id`` to `config.json` as its last key and return the id that the file holds afterwards.

    All other bytes stay. Raises BackfillRefused for a file that is not plain enough to edit, or cannot be written.
    """
    if path.is_symlink():
        raise BackfillRefused("config.json is a symlink")
    try:
        for _ in range(_BACKFILL_TRIES):
            before = files.read_regular(path, _LIMIT).data
            present, _ = _vault_id(_parse(before) or {})
            if present is not None:
                return present
            vault_id = str(uuid.uuid4())
            if files.replace_if_unchanged(path, before, with_vault_id(before, vault_id)):
                return vault_id
    except (OSError, files.NotReadable) as error:
        raise BackfillRefused(f"config.json cannot be written: {files.failure_reason(error)}") from error
    raise BackfillRefused("config.json keeps changing")


def with_vault_id(data: bytes, vault_id: str) -> bytes:
    """The same JSON text with one more key. Raises BackfillRefused when that cannot be done by inserting text."""
    try:
        text = data.decode("utf-8")
        if is_too_deep(text):
            raise ValueError("it nests too deep")
        values = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise BackfillRefused("config.json is not plain JSON") from error
    if not isinstance(values, dict) or "vault_id" in values:
        raise BackfillRefused("config.json has no place for a vault_id")
    close = text.rindex("}")
    head = text[:close].rstrip(" \t\r\n")
    first = _FIRST_KEY.match(text)
    gap = f"{first[1]}{first[2]}" if first else " "
    comma = "," if values else ""
    added = f'{head}{comma}{gap if values else ""}"vault_id": "{vault_id}"{text[len(head) :]}'
    if json.loads(added) != {**values, "vault_id": vault_id}:
        raise BackfillRefused("config.json is not plain JSON")
    return added.encode("utf-8")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key is repeated")
    return values


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
