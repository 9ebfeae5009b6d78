"""The records of lint and of the projections' rebuild. Everything here is also a name of `wikid_protocol.records`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from wikid_protocol.memories import PageId, VaultId


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFinding:
    """Something worth saying about a vault: a stable `code`, words for a person, and what can be done. A `hint` is no
    fault, only worth a look. `path` is relative to the pages, but for files that are none, as `meta/registry.json` and
    `config.json`; `line` and `column` count from 1; `related` are ids of other pages it is about,
    the first of them where there are many."""

    severity: Literal["error", "warning", "hint"]
    code: str
    path: str
    message: str
    line: int | None = None
    column: int | None = None
    remedy: str = ""
    related: tuple[PageId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LintReport:
    """What lint says of one vault. `path` is the folder that the findings' paths are relative to. The counts are of all
    findings, of which `findings` lists the first: errors, warnings, hints, in each by code, path and line."""

    vault_id: VaultId
    name: str
    path: str
    pages: int
    errors: int
    warnings: int
    hints: int
    findings_by_code: dict[str, int] = field(default_factory=dict)
    findings: tuple[LintFinding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LintReports:
    """One report for each vault."""

    vaults: tuple[LintReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaRebuild:
    """A vault's generated files made anew. Where it is not `rebuilt`, one of `findings` is an error and no file was
    touched. Files that were right already are not among the `written`; `path` is the vault's root."""

    vault_id: VaultId
    name: str
    path: str
    rebuilt: bool
    pages: int
    packets_without_page: int = 0
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    findings: tuple[LintFinding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaRebuilds:
    """One for each vault."""

    vaults: tuple[MetaRebuild, ...]
