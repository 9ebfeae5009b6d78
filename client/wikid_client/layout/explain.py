"""How an answer was found, for a person: what was decided, every list with its ranks and scores, and the time. Pure.

The explanation is plain data that may hold more or less than is known here: what is missing is left out, and what is
new is shown under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wikid_client.layout.items import mode_reason
from wikid_client.layout.notes import elapsed, hanging, listed
from wikid_client.layout.spans import BLANK, Line, Span, Style, row, table, width_of
from wikid_client.text import cells, count, line

_MOST_ROWS: Final = 10
_COLUMNS: Final = {
    "page_id": "page",
    "coverage": "words",
    "confidence": "conf",
    "multiplier": "factor",
    "identity": "named by",
}
_LISTS: Final = {"lexical": "Found by words", "dense": "Found by meaning", "candidates": "Candidates"}
_SHOWN_APART: Final = ("mode", "spent_ms", "vaults", "order")
_LAST: Final = "page_id"

Plain = Mapping[str, Any]


def explanation(found: Plain, width: int) -> list[Line]:
    """The explanation at most `width` columns wide."""
    lines = [BLANK, row(Span("How this was found", "title"))]
    lines += _facts({"mode": _mode(found.get("mode")), **_without(found, _SHOWN_APART)}, width)
    lines += _facts({"time": _spent(found.get("spent_ms"))}, width)
    for vault in _records(found.get("vaults")):
        lines += _vault(vault, width)
    if order := _records(found.get("order")):
        lines += [BLANK, row(Span("Order of the answer", "title")), *_table(order, width, 2)]
    return lines


def _vault(vault: Plain, width: int) -> list[Line]:
    tables = {key: _records(vault[key]) for key in vault if _is_table(vault[key])}
    about = _named(vault.get("layer"), vault.get("reason"))
    name = line(str(vault.get("name", "vault"))) + (f" ({about})" if about else "")
    lines = [BLANK, *hanging("", name, width, 0, "title")]
    lines += _facts(_without(vault, ("name", "layer", "reason", *_LISTS, *tables)), width)
    for key, rows in tables.items():
        lines += hanging("", f"{_LISTS.get(key) or _words(key)} ({len(rows)})", width, 2, "label")
        lines += _table(rows, width, 2)
    return lines


def _named(*parts: object) -> str:
    return ": ".join(line(str(each)) for each in parts if each)


def _facts(about: Plain, width: int) -> list[Line]:
    shown = {_words(key): text for key, value in about.items() if (text := _text(value))}
    return [each for name, text in shown.items() for each in hanging("", f"{name}: {text}", width, 2)]


def _mode(mode: object) -> str:
    if not isinstance(mode, Mapping):
        return _text(mode)
    why = ", ".join(mode_reason(str(each)) for each in mode.get("reasons") or ())
    used, wanted = _text(mode.get("used")), _text(mode.get("wanted"))
    said = f"{used}: {why}" if used and why else used or why
    rest = _text(_without(mode, ("used", "wanted", "reasons")))
    return " · ".join(each for each in (said, f"wanted {wanted}" if wanted not in ("", used) else "", rest) if each)


def _spent(spent: object) -> str:
    if not isinstance(spent, Mapping):
        return _text(spent)
    return " · ".join(
        f"{_words(step)} {elapsed(value) if isinstance(value, int | float) else _text(value)}"
        for step, value in spent.items()
    )


def _table(rows: Sequence[Plain], width: int, indent: int = 0) -> list[Line]:
    """Columns where they fit, otherwise each row as its page and the rest beneath it."""
    shown = [_flat(each) for each in rows[:_MOST_ROWS]]
    names = dict.fromkeys(name for each in shown for name, text in each.items() if text)
    heads = {name: _COLUMNS.get(name) or _words(name) for name in sorted(names, key=lambda name: name == _LAST)}
    lines = _columns(heads, shown, indent)
    if max(map(width_of, lines)) > width:
        lines = [each for values in shown for each in _stacked(heads, values, width, indent)]
    if len(rows) > _MOST_ROWS:
        lines.append(row(Span(f"and {count(len(rows) - _MOST_ROWS, 'more row')}, with --json", "dim"), indent=indent))
    return lines


def _columns(heads: Mapping[str, str], rows: Sequence[Mapping[str, str]], indent: int) -> list[Line]:
    """Everything at the right of its column except the page, which stands last."""
    room = {name: max(cells(each.get(name, "")) for each in (heads, *rows)) for name in heads}

    def columns(values: Mapping[str, str], style: Style) -> list[str | Span]:
        texts = {name: values.get(name) or "–" for name in heads}
        return [
            Span(text, style or "id") if name == _LAST else Span(" " * (room[name] - cells(text)) + text, style)
            for name, text in texts.items()
        ]

    return table([columns(heads, "dim"), *(columns(each, "") for each in rows)], indent)


def _stacked(heads: Mapping[str, str], values: Mapping[str, str], width: int, indent: int) -> list[Line]:
    page = hanging("", values.get(_LAST, ""), width, indent, "id")
    rest = [f"{head} {text}" for name, head in heads.items() if name != _LAST and (text := values.get(name))]
    return page + listed(rest, width, indent + 2)


def _flat(values: Plain) -> dict[str, str]:
    """Names and texts of one row, its mappings taken apart."""
    found: dict[str, str] = {}
    for name, value in values.items():
        found.update(_flat(value) if isinstance(value, Mapping) else {str(name): _text(value)})
    return found


def _text(value: object) -> str:
    """Plain data on one line; "" for nothing."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{_words(key)} {text}" for key, each in value.items() if (text := _text(each)))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(filter(None, map(_text, value)))
    return line(str(value))


def _words(name: object) -> str:
    return line(str(name)).replace("_", " ")


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _records(value: object) -> list[Plain]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _without(values: Plain, names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}
