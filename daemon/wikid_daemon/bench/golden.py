"""Golden files: a person's own questions about a vault of theirs, with the pages that answer them.

One JSON object a line: `{"query": "…", "relevant": {"page id": grade, …}}`; `relevant` may also be a list of page ids,
each of grade 1. Pages are named by their id as `wikid search` shows it. `id`, where it is given, decides the half that
the query belongs to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wikid_daemon.bench.beir import json_rows
from wikid_daemon.bench.dataset import DatasetUnusable, JudgedQuery

GOLDEN = "golden.jsonl"


def read_golden(path: Path) -> list[JudgedQuery]:
    """The queries; those without an id have their line number, so that they sort in file order. DatasetUnusable."""
    queries = []
    for number, row in json_rows(path):
        text = row.get("query")
        if not isinstance(text, str):
            raise DatasetUnusable(f"{path.name}, line {number}: query is missing or no text")
        given = row.get("id")
        query_id = given if isinstance(given, str) else f"{number:06d}"
        queries.append(JudgedQuery(query_id, text, _grades(row.get("relevant"), path.name, number)))
    return queries


def _grades(relevant: Any, name: str, number: int) -> dict[str, int]:
    if isinstance(relevant, list) and all(isinstance(each, str) for each in relevant):
        return dict.fromkeys(relevant, 1)
    if isinstance(relevant, dict) and all(type(grade) is int for grade in relevant.values()):
        return relevant
    raise DatasetUnusable(f"{name}, line {number}: relevant must map page ids to whole numbers, or list page ids")
