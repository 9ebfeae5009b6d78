"""What the doctor found and did, for a person. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from wikid_client.layout.notes import hanging
from wikid_client.layout.spans import BLANK, Line, Span, Style, row
from wikid_client.text import count, line
from wikid_protocol.records import DoctorFinding, DoctorFix, DoctorReport

_SIGNS: Final[dict[str, tuple[str, Style]]] = {"error": ("✗ ", "bad"), "warning": ("! ", "warn"), "info": ("· ", "dim")}
_A_VAULT: Final = "vault "


def report(found: DoctorReport, width: int) -> list[Line]:
    """What was done, what is wrong with each vault and with the rest, and the sum of it."""
    lines = [each for fix in found.fixed for each in _fixed(fix, width)]
    if lines:
        lines.append(BLANK)
    for finding in found.findings:
        lines += _finding(finding, width)
    if found.findings:
        lines.append(BLANK)
    lines += _sum(found, width)
    return lines


def _fixed(fix: DoctorFix, width: int) -> list[Line]:
    where = f"{line(fix.vault)}: " if fix.vault else ""
    sign, style = ("✓ ", "good") if fix.done else _SIGNS["error"]
    return hanging(sign, where + line(fix.message), width, 0, style)  # type: ignore[arg-type]


def _finding(finding: DoctorFinding, width: int) -> list[Line]:
    sign, style = _SIGNS[finding.severity]
    where = f"{line(finding.vault)}: " if finding.vault else ""
    lines = hanging(sign, where + line(finding.message), width, 0, style)
    if finding.remedy:
        lines += hanging("→ ", line(finding.remedy), width, 2, "dim")
    return lines


def _sum(found: DoctorReport, width: int) -> list[Line]:
    errors, warnings = (_count_of(severity, found.findings) for severity in ("error", "warning"))
    looked = hanging("", f"looked at: {', '.join(_parts(found.checked))}", width, 0, "dim") if found.checked else []
    if not errors and not warnings:
        return [row(Span("✓ Nothing is wrong.", "good")), *looked]
    amounts = [count(errors, "error")] if errors else []
    amounts += [count(warnings, "warning")] if warnings else []
    lines = [row(Span(" and ".join(amounts), "bad" if errors else "warn"))]
    repairable = sum(each.fix for each in found.findings)
    if repairable:
        what = "one of these is" if repairable == 1 else f"{repairable} of these are"
        lines.append(row(Span(f"→ {what} put right by: wikid doctor --fix", "dim"), indent=2))
    return lines + looked


def _parts(checked: Iterable[str]) -> list[str]:
    """What was looked at, the vaults as a number."""
    names = list(checked)
    vaults = sum(each.startswith(_A_VAULT) for each in names)
    others = [line(each) for each in names if not each.startswith(_A_VAULT)]
    return [*others, count(vaults, "vault")] if vaults else others


def _count_of(severity: str, findings: Iterable[DoctorFinding]) -> int:
    return sum(each.severity == severity for each in findings)
