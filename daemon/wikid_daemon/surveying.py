"""Reading a whole vault for lint and rebuilds: which vault is meant, its pages, its packets, its config."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, get_args

import orjson

from wikid_daemon import files
from wikid_daemon.addressing import all_of, one_vault
from wikid_daemon.core.catalogues import INDEX, LOG, is_generated_index, is_generated_log
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.names import printable
from wikid_daemon.core.page import Finding, Json, KnowledgeDocument
from wikid_daemon.core.projections import Packet
from wikid_daemon.core.remarks import Remark
from wikid_daemon.core.survey import Survey, marker_line, unreadable, without_text
from wikid_daemon.index.catalog import CatalogError
from wikid_daemon.indexer import Indexer
from wikid_daemon.threads import Alive
from wikid_daemon.vault.config_json import Blocked, Config, read_config
from wikid_daemon.vault.scan import RootUnavailable
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vaults import Vaults
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused

MANIFEST_LIMIT: Final = 1 << 20
GENERATED_LIMIT: Final = 1 << 28
LISTED_RELATED: Final = 50
FINDINGS_BYTES: Final = 700_000  # of one answer; what else is in it comes on top
_KINDS: Final[tuple[Literal["sources", "trajectories"], ...]] = get_args(Literal["sources", "trajectories"])


def meant(vaults: Vaults, wanted: str | None, cwd: str | None) -> list[Indexer]:
    """The vaults that a call names or, where it names none, the one that is active in its folder.

    Nothing is judged, let alone written, that was not asked for: neither the personal vault from within a project, nor
    every vault there is from a folder without one. RequestRefused, UnknownVault, AmbiguousVault.
    """
    if wanted in (None, "active"):
        return [vaults.find(str(one_vault(vaults, wanted, cwd).root))]
    found = all_of(vaults, wanted, cwd)
    if not found:
        raise RequestRefused("vault_not_found", "no vault applies to this call", hint="name one with: --vault V")
    return found


def survey(indexer: Indexer, alive: Alive = lambda: None) -> Survey:
    """Read every page and packet as they are on disk now. RequestRefused where the folder is not there; Cancelled, and
    what `alive` raises, which is called at each file."""
    vault, reader = indexer.vault, indexer.reader
    try:
        found = reader.scan(_known_pages(indexer), alive)
    except RootUnavailable as problem:
        message = f"the folder of {vault.name} cannot be read: {problem.reason.replace('_', ' ')}"
        raise RequestRefused("vault_unavailable", message, hint="bring the folder back") from None
    documents: list[KnowledgeDocument] = []
    findings: list[Finding] = [*found.findings, *(unreadable(path or ".", reason) for path, reason in found.failed)]
    markers: dict[str, int] = {}
    for path, content in reader.pages(tuple(found.entries)):
        alive()
        if isinstance(content, str):
            findings += [unreadable(path, content)] if content != "vanished" else []
            continue
        parsed = parse_page(path, content.data, strict=vault.strict)
        findings += parsed.findings
        if parsed.document is not None:
            line = marker_line(parsed.document)
            if line is not None:
                markers[parsed.document.page_id] = line
            documents.append(without_text(parsed.document))
    skipped = found.skipped
    packets = () if vault.raw is None else tuple(_packets(vault.raw, findings, alive))
    return Survey(
        documents=tuple(documents),
        packets=packets,
        findings=tuple(findings),
        markers=markers,
        copies=tuple(path for path, reason in skipped if reason == "conflict_copy"),
        reserved=tuple(path for path, reason in skipped if reason == "reserved_name"),
    )


def config(vault: Vault) -> Config:
    """What `config.json` says at this moment. The vault must be one with a marker."""
    assert vault.config_path is not None
    return read_config(vault.config_path, vault.pages_root / "index.md")


def generated(path: Path) -> bytes | None:
    """The bytes of a generated file; None where there is none, and no bytes where it cannot be read as a file."""
    try:
        return files.read_regular(path, GENERATED_LIMIT).data
    except FileNotFoundError:
        return None
    except (OSError, files.NotReadable):
        return b""


def hand_written(vault: Vault, found: Survey) -> list[Remark]:
    """The indexes and the log of an OKF vault in which there is a person's text: no rebuild touches them."""
    remarks = []
    for path in found.reserved:
        is_log, is_index = path == LOG, path.rpartition("/")[2].lower() == INDEX
        data = generated(vault.pages_root / path) if is_log or is_index else None
        if data is None:
            continue
        if is_index and not is_generated_index(path, data):
            remarks.append(kept_remark("index_hand_written", path))
        if is_log and not is_generated_log(data):
            remarks.append(kept_remark("log_hand_written", path))
    return remarks


def kept_remark(code: str, path: str) -> Remark:
    return Remark("warning", code, path, "there is text in it that no rebuild would write, so it is kept")


def blocked_remark(blocked: Blocked) -> Remark:
    """What keeps a vault from being written, or even read (vault format §1.4)."""
    path = "wiki/index.md" if blocked.code == "okf_version_mismatch" else "config.json"
    return Remark("error", blocked.code, path, blocked.message)


def listed(remarks: Iterable[Remark], room: int) -> tuple[r.LintFinding, ...]:
    """The first of the findings, as many as have room in that many bytes of an answer."""
    found = []
    for each in remarks:
        record = _record(each)
        room -= len(orjson.dumps(record)) + 1
        if room < 0:
            break
        found.append(record)
    return tuple(found)


def _record(remark: Remark) -> r.LintFinding:
    return r.LintFinding(
        severity=remark.severity,
        code=remark.code,
        path=printable(remark.path),
        message=remark.message,
        line=remark.line,
        column=remark.column,
        remedy=remark.remedy,
        related=tuple(r.PageId(printable(each)) for each in remark.related[:LISTED_RELATED]),
    )


def _known_pages(indexer: Indexer) -> int:
    """How many pages there were: an empty folder is one that is not mounted, unless there never were any."""
    try:
        return 1 if indexer.store is None else indexer.store.catalog.counts()[0]
    except CatalogError:
        return 1


def _packets(raw: Path, findings: list[Finding], alive: Alive) -> Iterator[Packet]:
    """Every folder of sources and trajectories that has a manifest, in the order of their names."""
    for kind in _KINDS:
        try:
            names = sorted(os.listdir(raw / kind), key=os.fsencode)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as problem:
            findings.append(unreadable(f"raw/{kind}", files.failure_reason(problem)))
            continue
        for name in names:
            alive()
            manifest = _manifest(raw / kind / name)
            if manifest is not None:
                yield Packet(kind, name, manifest)


def _manifest(folder: Path) -> dict[str, Json] | None:
    """A packet's manifest, empty where it cannot be read; None where there is none, and no packet."""
    try:
        values = orjson.loads(files.read_regular(folder / "manifest.json", MANIFEST_LIMIT).data)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, files.NotReadable, orjson.JSONDecodeError):
        return {}  # the packet is there all the same, and has the name of its folder
    return values if isinstance(values, dict) else {}
