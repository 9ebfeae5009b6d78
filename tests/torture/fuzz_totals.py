"""What a fuzz campaign counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import quantiles

from torture.resources import Usage


@dataclass(slots=True)
class Totals:
    """What a campaign did, and what it cost the daemon. `differences` names each promise that was broken."""

    inputs: dict[str, int] = field(default_factory=dict)
    answers: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    recalls: list[float] = field(default_factory=list)
    before: Usage | None = None
    after: Usage | None = None
    seconds: float = 0.0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        streams = ", ".join(f"{count} {name}" for name, count in sorted(self.inputs.items()))
        parts = [f"{sum(self.inputs.values())} inputs ({streams}) in {self.seconds:.0f} s, {self.answers} answers"]
        if len(self.recalls) > 1:
            cuts = quantiles(self.recalls, n=100)
            parts.append(f"{len(self.recalls)} recalls beside it: p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms")
        parts.append(f"before {self.before}, after {self.after}, faults: {len(self.differences)}")
        return "; ".join(parts)
