"""What the storm benchmark makes of its phases."""

from __future__ import annotations

from dataclasses import replace

from wikid_daemon.bench.report import growth_table
from wikid_daemon.bench.storm import Phase, figures

QUIET = Phase(
    phase="quiet",
    seconds=20.0,
    recalls=400,
    p50_ms=5.0,
    p95_ms=10.0,
    p95_ratio=1.0,
    cores=0.2,
    memory_before_mb=300.0,
    memory_peak_mb=310.0,
    memory_after_mb=300.0,
    save_p50_ms=70.0,
    save_max_ms=90.0,
    fresh_s=None,
    stale=0,
    degraded=0,
    errors=0,
)


def test_storms_are_held_against_the_quiet_phase() -> None:
    log = replace(QUIET, phase="log", p95_ratio=1.9, cores=0.6)
    checkout = replace(QUIET, phase="checkout", p95_ratio=2.1, cores=1.5, memory_after_mb=360.0)
    met = {each.name: each.met for each in figures([QUIET, log, checkout])}
    assert met == {
        "recall p95 during log, of quiet p95": True,
        "recall p95 during checkout, of quiet p95": False,
        "processor during log, beyond quiet": True,
        "memory after log, of before": True,
        "memory after checkout, of before": False,
    }


def test_what_the_system_does_not_tell_is_no_figure() -> None:
    silent = replace(QUIET, phase="log", cores=None, memory_before_mb=None, memory_after_mb=None)
    assert [each.name for each in figures([replace(QUIET, cores=None), silent])] == [
        "recall p95 during log, of quiet p95"
    ]


def test_the_table_has_a_column_for_each_phase() -> None:
    head, *rows = growth_table([QUIET.to_json(), replace(QUIET, phase="log", fresh_s=1.5).to_json()]).splitlines()
    assert head.split() == ["phase", "quiet", "log"]
    (fresh,) = (row for row in rows if row.startswith("fresh_s"))
    assert "not measured" in fresh
    assert fresh.endswith("1.5")
