"""The judged vault and its queries: which cards and which evidence answer, and which claims must be shown together.

One JSON object a line: `{"id", "class", "query", "cards": {page id: grade}, "evidence": {page id: grade}, "conflicts":
[[page id, page id], …]}`, grades 1–3; and the prompts that nothing in the vault answers: `{"id", "kind", "prompt"}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wikid_daemon.bench.beir import json_rows
from wikid_daemon.bench.dataset import DatasetUnusable, Half, JudgedQuery, by_hash, chosen

VAULT: Final = "vault"
QUERIES: Final = "queries-*.jsonl"
UNRELATED: Final = "unrelated.jsonl"
KINDS: Final = (
    "exact",
    "vague",
    "paraphrase",
    "entity",
    "concluded",
    "source",
    "temporal",
    "contradiction",
    "synthesis",
    "multilingual",
    "generic",
)
EXACT: Final = frozenset({"exact", "entity"})  # a page is named
GRADES: Final = range(1, 4)


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """A query, and what a good answer to it holds. `kind` is one of seed A's eleven classes."""

    id: str
    kind: str
    query: str
    cards: Mapping[str, int]
    evidence: Mapping[str, int]
    conflicts: Sequence[frozenset[str]]

    @property
    def grades(self) -> dict[str, int]:
        return {**self.evidence, **self.cards}

    def as_query(self) -> JudgedQuery:
        return JudgedQuery(self.id, self.query, self.grades)


@dataclass(frozen=True, slots=True)
class Unrelated:
    """A prompt that nothing in the vault answers."""

    id: str
    prompt: str


@dataclass(frozen=True, slots=True)
class JudgedVault:
    """The folder of the vault, everything judged in it, and the prompts that are about something else."""

    root: Path
    answers: Sequence[JudgedAnswer]
    unrelated: Sequence[Unrelated]

    def half(self, half: Half, limit: int = 0) -> list[JudgedAnswer]:
        """The answers of a half, by sorted id; the unrelated prompts are not halved, since no constant is fitted on
        them alone."""
        by_id = {each.id: each for each in self.answers}
        queries = chosen([each.as_query() for each in self.answers], limit, half, by_hash)
        return [by_id[each.id] for each in queries]


def read_judged(folder: Path) -> JudgedVault:
    """The judged vault in `folder`. DatasetUnusable."""
    files = sorted(folder.glob(QUERIES))
    if not files or not (folder / VAULT).is_dir():
        raise DatasetUnusable(f"{folder} holds no judged vault: {VAULT}/ and {QUERIES} are expected")
    answers = [_answer(row, path.name, number) for path in files for number, row in json_rows(path)]
    if len({each.id for each in answers}) < len(answers):
        raise DatasetUnusable(f"{folder}: two queries have the same id")
    prompts = [
        Unrelated(*(_text(row, key, UNRELATED, number) for key in ("id", "prompt")))
        for number, row in json_rows(folder / UNRELATED)
    ]
    return JudgedVault(folder / VAULT, answers, prompts)


def _answer(row: Mapping[str, Any], name: str, number: int) -> JudgedAnswer:
    cards, evidence = (_grades(row, key, name, number) for key in ("cards", "evidence"))
    kind, pairs = row.get("class"), row.get("conflicts", [])
    if kind not in KINDS:
        raise DatasetUnusable(f"{name}, line {number}: there is no such class")
    if not cards and not evidence:
        raise DatasetUnusable(f"{name}, line {number}: nothing is judged to answer")
    if not isinstance(pairs, list) or any(not _is_pair(each) for each in pairs):
        raise DatasetUnusable(f"{name}, line {number}: conflicts must be pairs of page ids")
    query_id, query = (_text(row, key, name, number) for key in ("id", "query"))
    return JudgedAnswer(query_id, kind, query, cards, evidence, [frozenset(each) for each in pairs])


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value) and len(set(value)) == 2


def _grades(row: Mapping[str, Any], key: str, name: str, number: int) -> dict[str, int]:
    grades = row.get(key, {})
    if not isinstance(grades, dict) or any(type(each) is not int or each not in GRADES for each in grades.values()):
        raise DatasetUnusable(f"{name}, line {number}: {key} must map page ids to grades from 1 to 3")
    return grades


def _text(row: Mapping[str, Any], key: str, name: str, number: int) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise DatasetUnusable(f"{name}, line {number}: {key} is missing or no text")
    return value
