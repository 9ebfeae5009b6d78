"""The daemon, its models and vaults for a person. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from wikid_client.layout.notes import ago, diagnostics, elapsed, hanging, listed, size, span_of
from wikid_client.layout.spans import BLANK, Line, Span, Style, row, table, width_of
from wikid_client.text import count, joined, line
from wikid_protocol.records import (
    DaemonStatus,
    ModelList,
    ModelRecord,
    PathReason,
    ReindexReport,
    ReindexReports,
    Resolution,
    StatusReport,
    SyncedVaults,
    VaultList,
    VaultRecord,
    VaultStatus,
    VerifyReport,
    VerifyReports,
)

_STATE_STYLES: Final[dict[str, Style]] = {
    "ready": "good",
    "built": "good",
    "indexing": "warn",
    "loading": "warn",
    "absent": "warn",
    "unavailable": "bad",
    "blocked": "bad",
    "failed": "bad",
}
_SHOWN_PATHS: Final = 5
_SHOWN_CODES: Final = 4
_SHOWN_DIFFERENCES: Final = 20


def status(
    report: StatusReport,
    width: int,
    *,
    now: datetime | None = None,
    more: Callable[[VaultStatus], list[Line]] = lambda _: [],
) -> list[Line]:
    """The whole report, with `more` lines under each vault; times as what they are `now`, or as moments."""
    lines = _daemon(report.daemon)
    lines += [BLANK, *models(report.models, width)] if report.models else []
    for each in report.vaults:
        lines += [BLANK, *_vault(each, width, now), *more(each)]
    if not report.vaults:
        lines += [BLANK, *_no_vaults()]
    if report.diagnostics:
        lines += [BLANK, *diagnostics(report.diagnostics, width)]
    if _is_in_trouble(report):
        lines += [BLANK, row(Span("→ what to do about it: wikid doctor", "dim"))]
    return lines


def _is_in_trouble(report: StatusReport) -> bool:
    """Whether a part does not work, or works worse than it could for a reason that can be removed."""
    vaults = any(each.state not in ("ready", "indexing") or each.vault.blocked or each.failed for each in report.vaults)
    return vaults or bool(report.diagnostics) or any(each.state == "failed" for each in report.models)


def vault_list(found: VaultList, width: int) -> list[Line]:
    """One vault a line, its path beneath."""
    lines: list[Line] = []
    for each in found.vaults:
        lines += [vault_line(each), row(Span(line(each.path), "dim", each.path), indent=2)]
    return [*(lines or _no_vaults()), *diagnostics(found.diagnostics, width)]


def vault_line(vault: VaultRecord) -> Line:
    """Name, kind and what keeps the vault from being used in full."""
    about = joined((vault.kind, line(vault.topic), line(vault.mode), "read-only" if vault.read_only else ""))
    blocked = f"  blocked: {line(vault.blocked)}" if vault.blocked else ""
    return row(Span(line(vault.name), "title"), "  ", Span(about, "dim"), Span(blocked, "bad"))


def resolution(found: Resolution, width: int) -> list[Line]:
    """Which vaults answer for the folder, and which of them without being asked."""
    automatic = {each.vault_id for each in found.automatic}
    lines: list[Line] = [row("For ", Span(line(found.cwd), "id"), ":")]
    for each in found.vaults:
        asked = "" if each.vault_id in automatic else "  only when asked"
        lines.append(row(Span(line(each.name), "title"), "  ", Span(each.layer, "label"), Span(asked, "dim"), indent=2))
        lines += hanging("", line(each.reason), width, 4, "dim")
    return lines if found.vaults else [*lines, row("no vault applies.", indent=2), *_no_vaults()]


def models(found: tuple[ModelRecord, ...], width: int) -> list[Line]:
    """Purpose, name, state and size, and the reason where a model cannot be used."""
    rows: list[list[str | Span]] = [
        [
            Span(each.purpose, "label"),
            Span(line(each.name), "title"),
            Span(line(each.state), _STATE_STYLES.get(each.state, "")),
            Span(_size_of(each), "dim"),
        ]
        for each in found
    ]
    is_narrow = any(width_of(each) > width for each in table(rows))
    lines: list[Line] = []
    for each, shown in zip(found, table([cols[:3] for cols in rows] if is_narrow else rows), strict=True):
        lines.append(shown)
        if is_narrow:
            lines += hanging("", _size_of(each), width, 2, "dim")
        if each.reason:
            lines += hanging("", line(each.reason), width, 2, "warn")
    return lines


def _size_of(model: ModelRecord) -> str:
    dims = f"{model.dims} dimensions" if model.dims else ""
    return joined((dims, size(model.size_bytes) if model.size_bytes else "", line(model.licence)))


def model_list(found: ModelList, width: int) -> list[Line]:
    return models(found.models, width) or [row("wikid knows no models.")]


def reindexed(found: ReindexReports, width: int) -> list[Line]:
    """What changed in each vault."""
    lines: list[Line] = []
    for each in found.vaults:
        lines += _reindexed(each, width)
    return [*lines, *diagnostics(found.diagnostics, width)] or _none_meant("No vault was indexed.")


def synced(found: SyncedVaults, width: int) -> list[Line]:
    """The generation at which everything saved is searchable."""
    rows: list[list[str | Span]] = [
        [
            Span(line(each.name), "title"),
            f"searchable at generation {each.generation:,}",
            Span(elapsed(each.elapsed_ms), "dim"),
        ]
        for each in found.vaults
    ]
    return [*table(rows), *diagnostics(found.diagnostics, width)] or _none_meant("No vault to wait for.")


def verified(found: VerifyReports, width: int) -> list[Line]:
    """Whether each index is what a fresh build is, and the first places where it is not."""
    lines: list[Line] = []
    for each in found.vaults:
        lines += _verified(each, width)
    return [*lines, *diagnostics(found.diagnostics, width)] or _none_meant("No vault was compared.")


def _daemon(daemon: DaemonStatus) -> list[Line]:
    about = joined(
        (
            f"pid {daemon.pid}",
            f"up {span_of(daemon.uptime_s)}",
            size(daemon.rss_bytes) if daemon.rss_bytes else "",
            count(daemon.connections, "connection") if daemon.connections else "",
        )
    )
    rows: list[list[str | Span]] = [[Span("socket", "label"), line(daemon.endpoint)]]
    if daemon.java:
        rows.append([Span("java", "label"), line(daemon.java)])
    return [row(Span(f"wikid {line(daemon.version)}", "title"), "  ", Span(about, "dim")), *table(rows, indent=2)]


def _vault(found: VaultStatus, width: int, now: datetime | None) -> list[Line]:
    vault = found.vault
    state: list[str | Span] = [Span(found.state, _STATE_STYLES[found.state])]
    if found.stale and found.state in ("ready", "indexing"):
        state += ["  ", Span("may be behind", "warn")]
    lines: list[Line] = [row(Span(line(vault.name), "title"), "  ", *state)]
    lines.append(row(Span(line(vault.path), "dim", vault.path), indent=2))
    reason = found.reason or vault.blocked
    if reason:
        lines += hanging("! ", line(reason), width, 2, "warn")
    if found.generation or not reason:
        lines += listed(_amounts(found), width, 2, "")
        lines += listed(_proof(found, now), width, 2, "")
    lines += listed(_left_out(found), width, 2)
    lines += listed([f"made anew: {line(each.message)}" for each in found.rebuilt], width, 2)
    if found.feedback == "disabled":
        why = line(found.feedback_reason).replace("_", " ")
        lines += hanging("! ", f"feedback is disabled: {why}; see: wikid events", width, 2, "warn")
    return lines + _failures(found.failed, width)


def _amounts(found: VaultStatus) -> tuple[str, ...]:
    return (
        count(found.pages, "page"),
        count(found.chunks, "chunk"),
        f"{found.embedded:,} embedded",
        f"{count(found.embedding_pending, 'chunk')} to embed" if found.embedding_pending else "",
        f"{count(found.pending, 'page')} pending" if found.pending else "",
        f"generation {found.generation:,}",
    )


def _proof(found: VaultStatus, now: datetime | None) -> tuple[str, ...]:
    return (
        f"scanned {ago(found.last_scan, now) or 'never'}",
        f"canary {ago(found.last_canary, now) or 'never'}",
        joined((f"watcher {line(found.watcher)}", line(found.watcher_reason)), ": "),
    )


def _left_out(found: VaultStatus) -> tuple[str, ...]:
    often = sorted(found.findings_by_code.items(), key=lambda each: (-each[1], each[0]))
    codes = ", ".join(f"{line(code)} {number:,}" for code, number in often[:_SHOWN_CODES])
    if len(often) > _SHOWN_CODES:
        codes += f" and {count(len(often) - _SHOWN_CODES, 'other kind')}; all of them: wikid lint"
    skipped = ", ".join(f"{line(why).replace('_', ' ')} {number:,}" for why, number in sorted(found.skipped.items()))
    packets = count(found.packets_without_page, "source packet")
    return (
        count(found.findings, "finding") + (f" ({codes})" if codes else "") if found.findings else "",
        f"skipped: {skipped}" if skipped else "",
        f"{packets} without a page" if found.packets_without_page else "",
    )


def _failures(failed: tuple[PathReason, ...], width: int) -> list[Line]:
    lines: list[Line] = []
    for each in failed[:_SHOWN_PATHS]:
        lines += hanging("! ", f"{line(each.path)}: {line(each.reason).replace('_', ' ')}", width, 2, "bad")
    if len(failed) > _SHOWN_PATHS:
        lines.append(
            row(Span(f"and {len(failed) - _SHOWN_PATHS:,} more; all of them: wikid status --json", "dim"), indent=4)
        )
    return lines


def _reindexed(report: ReindexReport, width: int) -> list[Line]:
    counts = (
        (report.indexed, "new"),
        (report.updated, "updated"),
        (report.unchanged, "unchanged"),
        (report.removed, "removed"),
        (report.generated, "embedded"),
        (report.needing, "to embed"),
        (report.skipped, "skipped"),
    )
    done = [f"{number:,} {what}" for number, what in counts if number] or ["nothing to do"]
    lines: list[Line] = [row(Span(line(report.name), "title"), Span(f"  {elapsed(report.elapsed_ms)}", "dim"))]
    lines += listed(done, width, 2, "")
    lines += diagnostics(report.errors, width, 2)
    return lines + diagnostics(report.warnings, width, 2)


def _verified(report: VerifyReport, width: int) -> list[Line]:
    same = Span("equals a fresh build", "good")
    other = Span(f"differs from a fresh build in {count(report.differing, 'place')}", "bad")
    name, seconds = Span(line(report.name), "title"), Span(f"  {elapsed(report.elapsed_ms)}", "dim")
    lines: list[Line] = [row(name, "  ", other if report.differing else same, seconds)]
    amounts = (
        count(report.pages, "page"),
        count(report.chunks, "chunk"),
        f"{report.embedded:,} embedded",
        f"{count(report.embedding_pending, 'chunk')} to embed" if report.embedding_pending else "",
        count(report.probes, "query", "queries"),
        f"{100 * report.deleted_share:.0f} % deleted, not merged yet",
        f"generation {report.generation:,}",
    )
    lines += listed(amounts, width, 2, "")
    lines += listed(("compared: " + ", ".join(map(line, report.compared)),), width, 2, "")
    for each in report.differences[:_SHOWN_DIFFERENCES]:
        what = joined((line(each.kind).replace("_", " "), line(each.detail)), ": ")
        lines += hanging("! ", f"{line(each.path)}: {what}", width, 2, "bad")
    if report.differing > _SHOWN_DIFFERENCES:
        more = f"and {report.differing - _SHOWN_DIFFERENCES:,} more; see: wikid verify --json"
        lines.append(row(Span(more, "dim"), indent=4))
    if report.differing:
        lines.append(row(Span("→ build it anew: wikid reindex --scope all --force", "dim"), indent=2))
    return lines


def _no_vaults() -> list[Line]:
    return [row("No vault is registered."), row(Span("→ add your notes: wikid vault add PATH", "dim"), indent=2)]


def _none_meant(what: str) -> list[Line]:
    """For a call that named no vault there is, whether or not others are registered."""
    said = "→ name one: --vault V; or add your notes: wikid vault add PATH"
    return [row(what), row(Span(said, "dim"), indent=2)]
