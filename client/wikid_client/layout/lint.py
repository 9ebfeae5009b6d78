"""What lint and a rebuild of the generated files say, for a person. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from wikid_client.layout.notes import hanging, listed
from wikid_client.layout.spans import BLANK, Line, Span, Style, row
from wikid_client.text import count, joined, line
from wikid_protocol.records import LintFinding, LintReport, LintReports, MetaRebuild, MetaRebuilds

_SHOWN: Final = 10  # of each code
_SHOWN_RELATED: Final = 5
_STYLES: Final[dict[str, Style]] = {"error": "bad", "warning": "warn", "hint": "dim"}


def linted(found: LintReports, width: int) -> list[Line]:
    """Each vault's findings under their codes: errors, warnings, hints, in each the code with its number, what can be
    done, and the places."""
    return _apart(_report(each, width) for each in found.vaults)


def rebuilt(found: MetaRebuilds, width: int) -> list[Line]:
    """What was written and removed in each vault, or what kept it from being."""
    return _apart(_rebuild(each, width) for each in found.vaults)


def _apart(parts: Iterable[list[Line]]) -> list[Line]:
    lines: list[Line] = []
    for part in parts:
        lines += [BLANK, *part] if lines else part
    return lines


def _report(report: LintReport, width: int) -> list[Line]:
    amounts = (
        count(report.errors, "error") if report.errors else "",
        count(report.warnings, "warning") if report.warnings else "",
        count(report.hints, "hint") if report.hints else "",
    )
    style: Style = "bad" if report.errors else "warn" if report.warnings else "good"
    words = joined(amounts, ", ") or "nothing to say"
    lines: list[Line] = [row(Span(line(report.name), "title"), "  ", Span(words, style))]
    lines += listed((count(report.pages, "page"), line(report.path)), width, 2)
    lines += _codes(report.findings, report.findings_by_code, width)
    if sum(report.findings_by_code.values()) > len(report.findings):
        lines.append(row(Span(f"the first {len(report.findings):,} findings are shown", "dim"), indent=2))
    return lines


def _codes(findings: Sequence[LintFinding], counts: Mapping[str, int], width: int) -> list[Line]:
    """`counts` is of all findings, of which only the first may have come."""
    lines: list[Line] = []
    groups = [list(group) for _, group in groupby(findings, lambda each: (each.severity, each.code))]
    come = Counter(each.code for each in findings)
    last = {group[0].code: group for group in groups}
    for group in groups:
        severity, code, remedy = group[0].severity, group[0].code, group[0].remedy
        missing = counts.get(code, 0) - come[code] if last[code] is group else 0
        number = len(group) + max(missing, 0)
        head = (Span(line(code), _STYLES[severity]), Span(f"  {severity} × {number:,}", "dim"))
        lines += [BLANK, row(*head, indent=2)]
        lines += hanging("→ ", line(remedy), width, 4, "dim") if remedy else []
        lines += _places(group[:_SHOWN], width)
        if number > _SHOWN:
            lines.append(row(Span(f"and {number - _SHOWN:,} more; see: wikid lint --json", "dim"), indent=4))
    return lines


def _places(members: Sequence[LintFinding], width: int) -> list[Line]:
    """What they have in common is said once."""
    lines: list[Line] = []
    said = ""
    for each in members:
        if each.message != said:
            said = each.message
            lines += hanging("", line(said), width, 4)
        where = line(each.path) + (f":{each.line}" if each.line else "")
        lines += hanging("- ", joined((where, _related(each)), " ↔ "), width, 4, "id")
    return lines


def _related(finding: LintFinding) -> str:
    names = [line(each) for each in finding.related[:_SHOWN_RELATED]]
    more = len(finding.related) - _SHOWN_RELATED
    return ", ".join([*names, f"{more:,} more"] if more > 0 else names)


def _rebuild(found: MetaRebuild, width: int) -> list[Line]:
    words = Span("rebuilt", "good") if found.rebuilt else Span("not rebuilt; nothing was changed", "bad")
    lines: list[Line] = [row(Span(line(found.name), "title"), "  ", words)]
    amounts = (
        count(found.pages, "page"),
        count(found.packets_without_page, "packet without a page", "packets without a page")
        if found.packets_without_page
        else "",
        f"{count(len(found.written), 'file')} written",
        f"{len(found.removed):,} removed" if found.removed else "",
    )
    lines += listed(amounts if found.rebuilt else (), width, 2, "")
    for path in found.removed:
        lines.append(row(Span(f"- {line(path)}", "id"), indent=4))
    return lines + _codes(found.findings, {}, width)
