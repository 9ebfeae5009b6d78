"""`wikid lint` and `wikid rebuild-meta`."""

from __future__ import annotations

import argparse
from dataclasses import replace

from wikid_client.commands.calling import connect, folder, show
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout.lint import linted, rebuilt
from wikid_protocol.errors import EXIT_FINDING, EXIT_OK
from wikid_protocol.records import LintReport, LintReports


def configure_lint(parser: CommandParser) -> None:
    parser.add_argument("--errors-only", action="store_true", help="say nothing of warnings and hints")
    parser.set_defaults(run=_lint)
    parser.epilog = (
        "For example: wikid lint --vault work --errors-only. Exit code 1 where there is an error or a warning."
    )


def configure_rebuild_meta(parser: CommandParser) -> None:
    parser.set_defaults(run=_rebuild_meta)


def _lint(options: argparse.Namespace, console: Console) -> int:
    """Exit code 1 where there is an error or a warning among what is shown; hints are no reason for it."""
    with connect(options) as client:
        found = client.vault_lint(vault=options.vault, cwd=folder(), timeout=options.timeout)
    if options.errors_only:
        found = LintReports(vaults=tuple(map(_errors, found.vaults)))
    show(options, console, found, lambda: linted(found, console.width))
    return EXIT_FINDING if any(each.errors or each.warnings for each in found.vaults) else EXIT_OK


def _errors(report: LintReport) -> LintReport:
    errors = tuple(each for each in report.findings if each.severity == "error")
    codes = {each.code for each in errors}
    counts = {code: number for code, number in report.findings_by_code.items() if code in codes}
    return replace(report, warnings=0, hints=0, findings_by_code=counts, findings=errors)


def _rebuild_meta(options: argparse.Namespace, console: Console) -> int:
    with connect(options) as client:
        found = client.vault_rebuild_meta(vault=options.vault, cwd=folder(), timeout=options.timeout)
    code = show(options, console, found, lambda: rebuilt(found, console.width))
    return code if all(each.rebuilt for each in found.vaults) else EXIT_FINDING
