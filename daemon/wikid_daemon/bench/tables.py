"""The tables of the quality benchmark, for people."""

from __future__ import annotations

from collections.abc import Sequence

from wikid_daemon.bench.gates import Gate
from wikid_daemon.bench.latency import Latency
from wikid_daemon.bench.metrics import Estimate
from wikid_daemon.bench.own_vault import AutomaticQuality, OwnVaultReport
from wikid_daemon.bench.quality import RECALL_AT, QualityReport
from wikid_daemon.bench.release import ReleaseReport, ablations
from wikid_daemon.bench.report import rounded, table


def quality_table(found: QualityReport) -> str:
    rows: list[tuple[str, ...]] = [
        ("system", "nDCG@5", "nDCG@10", "MRR", f"Recall@{RECALL_AT}", "calibration", "escalated", "ms a query")
    ]
    for name, each in found.systems.items():
        estimates = [_estimate(one) for one in (each.ndcg5, each.ndcg10, each.mrr, each.recall)]
        rows.append((name, *estimates, _share(each.calibration), _percent(each.escalated), f"{each.query_ms:.1f}"))
    half = "" if found.half == "all" else f" of the {found.half} half"
    head = f"{found.name}: {found.pages} pages, {found.chunks} chunks, {found.queries} judged queries{half}"
    return "\n".join((head, table(rows), *(f"note: {note}" for note in found.notes)))


def release_text(found: ReleaseReport) -> str:
    """Everything that was measured, the gates last."""
    parts = [quality_table(each) for each in found.collections]
    parts += [own_vault_text(found.own), _ablations(found)]
    if found.latency is not None:
        parts.append(_latency(found.latency))
    return "\n\n".join([*parts, gate_table(found.gates)])


def own_vault_text(own: OwnVaultReport) -> str:
    head = f"own vault: {own.pages} pages, {own.queries} of {own.judged} judged queries ({own.half})"
    rows: list[tuple[str, ...]] = [("system", "nDCG@5", "nDCG@10", "MRR", f"Recall@{RECALL_AT}", "calibration")]
    for name, each in own.systems.items():
        estimates = [_estimate(one) for one in (each.ndcg5, each.ndcg10, each.mrr, each.recall)]
        rows.append((name, *estimates, _share(each.calibration)))
    notes = "".join(f"\nnote: {note}" for note in own.notes)
    return f"{head}\n{table(rows)}{notes}\n\n{_answers(own)}\n\n{_automatic(own.automatic)}"


def _answers(own: OwnVaultReport) -> str:
    about = [
        (
            mode,
            _estimate(each.quality.card_first),
            _estimate(each.quality.evidence_precision),
            _estimate(each.quality.evidence_recall),
            _estimate(each.quality.contradictions),
            _estimate(each.quality.waste),
            _percent(each.quality.abstained),
            _estimate(each.top3),
            f"{each.times.p50:.1f} / {each.times.p95:.1f}",
            ", ".join(f"{path} {count}" for path, count in each.used.items()),
        )
        for mode, each in own.answers.items()
    ]
    head = ("answers", "card first", "evidence precision", "evidence recall", "contradictions", "waste", "abstained")
    rows = [(*head, "names kept in 3", "ms p50 / p95", "answered by"), *about]
    kinds = sorted({kind for each in own.answers.values() for kind in each.quality.by_kind})
    by_kind = [
        (mode, *(_percent(each.quality.by_kind.get(kind)) for kind in kinds)) for mode, each in own.answers.items()
    ]
    return f"{_turned(rows)}\n\n{_turned([('card first, by class', *kinds), *by_kind])}"


def _automatic(found: AutomaticQuality) -> str:
    rows = [
        ("automatic recall", "wikid", "heuristic"),
        (
            f"{found.prompts} unrelated prompts with an injection",
            _estimate(found.false_positives),
            _estimate(found.baseline_false_positives),
        ),
        ("answerable prompts with a useful page", _estimate(found.coverage), _estimate(found.baseline_coverage)),
        ("too late", _percent(found.too_late), ""),
        ("ms p50 / p95 / longest", f"{found.times.p50:.1f} / {found.times.p95:.1f} / {found.times.longest:.1f}", ""),
    ]
    curve = [("floor", "false positives", "coverage", "precision")]
    curve += [
        (f"{each.floor:.1f}", _percent(each.false_positives), _percent(each.coverage), _percent(each.precision))
        for each in found.curve
    ]
    return f"{table(rows)}\n\n{table(curve)}"


def _ablations(found: ReleaseReport) -> str:
    rows = [("ablation (own vault)", "nDCG@10", "card first", "contradictions", "")]
    rows += [
        (
            f"{each.number} {each.name}",
            _estimate(each.ndcg10),
            _estimate(each.card_first),
            _estimate(each.contradictions),
            each.note,
        )
        for each in ablations(found.own)
    ]
    return table(rows)


def _latency(found: Latency) -> str:
    rows = [("warm recall in process", "")]
    rows += [(name, _number(value)) for name, value in found.to_json().items()]
    return table(rows)


def gate_table(gates: Sequence[Gate]) -> str:
    rows = [("gate", "value", "bound", "passed")]
    for each in gates:
        sign = "≥" if each.sense == "at least" else "≤"
        rows.append((each.name, _number(each.value), f"{sign} {each.bound:g}", "yes" if each.passed else "NO"))
    failed = sum(not each.passed for each in gates)
    verdict = "every gate passes" if not failed else f"{failed} of {len(gates)} gates fail"
    return f"{table(rows)}\n{verdict}"


def _turned(rows: Sequence[Sequence[str]]) -> str:
    """The table with rows for columns."""
    return table(list(zip(*rows, strict=True)))


def _estimate(value: Estimate | None) -> str:
    return "–" if value is None else f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{rounded(value):g}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
