"""The models for a person: what there is, what is used from now on, and whether the files are whole. Pure."""

from __future__ import annotations

from wikid_client.layout.notes import diagnostics, hanging, size
from wikid_client.layout.spans import BLANK, Line, Span, row, table
from wikid_client.layout.status import models
from wikid_client.text import count, joined, line
from wikid_protocol.records import ModelCheck, ModelChecks, ModelList, ModelRecord, ModelUse


def model_list(found: ModelList, width: int) -> list[Line]:
    """The models as `status` shows them, and what else may be said instead of a name."""
    lines = models(found.models, width)
    named = [each for each in found.models if each.aliases]
    if named:
        rows: list[list[str | Span]] = [
            [Span(", ".join(map(line, each.aliases)), "id"), line(each.name), Span(_languages(each), "dim")]
            for each in named
        ]
        lines += [BLANK, row(Span("Short names:", "dim")), *table(rows, indent=2)]
    return lines or [row("wikid knows no models.")]


def used(found: ModelUse, width: int) -> list[Line]:
    """The model, where that is written down, and what still has to be done."""
    lines = models((found.model,), width)
    is_set = "is no longer set" if found.value is None else "is set"
    lines += hanging("", f"{line(found.setting)} {is_set} in {line(found.path)}", width, 2, "dim")
    if found.embedding_pending and not found.diagnostics:
        chunks, have = count(found.embedding_pending, "chunk"), "has" if found.embedding_pending == 1 else "have"
        what = "what it holds" if found.embedding_pending == 1 else "what they hold"
        told = (
            f"{chunks} {have} no vector of it yet: words find {what} meanwhile, and `wikid status` shows how far it is"
        )
        lines += hanging("", told, width, 2)
    return [*lines, *diagnostics(found.diagnostics, width)]


def checked(found: ModelChecks, width: int) -> list[Line]:
    """One model a line; of a damaged one the files, and the remedy."""
    rows: list[list[str | Span]] = [
        [
            Span(line(each.name), "title"),
            Span(each.state, "good" if each.state == "intact" else "bad"),
            Span(
                joined(
                    (count(each.files, "file") if each.files else "", size(each.size_bytes) if each.size_bytes else "")
                ),
                "dim",
            ),
        ]
        for each in found.models
    ]
    lines: list[Line] = []
    for each, shown in zip(found.models, table(rows), strict=True):
        lines += [shown, *_damage(each, width)]
    return lines or [row("No model is on this machine.")]


def _damage(check: ModelCheck, width: int) -> list[Line]:
    lines: list[Line] = []
    for each in check.damaged:
        lines += hanging("", f"{line(each)} is missing, or not what it was", width, 2, "warn")
    for words in (check.reason, check.remedy):
        if words:
            lines += hanging("", line(words), width, 2, "warn")
    return lines


def _languages(model: ModelRecord) -> str:
    return ", ".join("English" if each == "en" else line(each) for each in model.languages)
