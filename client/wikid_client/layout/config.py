"""Settings for a person. Pure."""

from __future__ import annotations

from wikid_client.layout.notes import diagnostics, hanging
from wikid_client.layout.spans import BLANK, Line, Span, row, table
from wikid_client.text import joined, line
from wikid_protocol.records import Configuration, SettingRecord


def settings(found: Configuration, width: int) -> list[Line]:
    """Name, value and origin of each, its meaning beneath, and the file that a change goes to."""
    rows: list[list[str | Span]] = [
        [Span(line(each.key), "title"), _shown(each), _origin(each)] for each in found.settings
    ]
    lines: list[Line] = []
    for each, shown in zip(found.settings, table(rows), strict=True):
        lines += [shown, *hanging("", joined(map(line, (each.meaning, each.expects)), ": "), width, 2, "dim")]
    lines += [BLANK, row(Span("your own file: ", "dim"), Span(line(found.path), "dim", found.path))]
    return lines + diagnostics(found.diagnostics, width)


def value(found: Configuration) -> list[Line]:
    """The value alone, as a script reads it; an empty line where there is none."""
    return [row(_text(each)) for each in found.settings]


def changed(found: Configuration, width: int) -> list[Line]:
    """What applies after a change, and what keeps it from applying."""
    lines: list[Line] = []
    for each in found.settings:
        lines.append(row(Span(line(each.key), "title"), "  ", _shown(each), "  ", _origin(each)))
        if each.at_start:
            lines.append(row(Span("→ it is read when the daemon starts: wikid restart", "dim"), indent=2))
        if each.origin in ("host", "environment"):
            lines += hanging("! ", f"{line(each.source)} decides before your own file does", width, 2, "warn")
    return lines + diagnostics(found.diagnostics, width)


def _shown(setting: SettingRecord) -> Span:
    if not setting.valid:
        return Span("not valid", "bad")
    return Span(_text(setting)) if setting.value is not None else Span("not set", "dim")


def _origin(setting: SettingRecord) -> Span:
    if setting.origin == "default":
        return Span("default", "dim")
    if setting.origin == "user":
        return Span("your own file", "id", setting.source)
    return Span(line(setting.source), "id", setting.source if setting.origin == "host" else "")


def _text(setting: SettingRecord) -> str:
    if isinstance(setting.value, bool):
        return "true" if setting.value else "false"
    return "" if setting.value is None else line(str(setting.value))
