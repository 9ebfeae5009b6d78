"""Judged collections in BEIR's layout: `corpus.jsonl`, `queries.jsonl` and `qrels.tsv` in one folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wikid_daemon.bench.dataset import DatasetUnusable, JudgedQuery

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels.tsv"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NAME_LENGTH = 6


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    title: str
    text: str


def read_documents(folder: Path) -> Iterator[Document]:
    """The corpus in file order. DatasetUnusable."""
    for number, row in json_rows(folder / CORPUS):
        yield Document(
            _text(row, "_id", CORPUS, number), str(row.get("title") or ""), _text(row, "text", CORPUS, number)
        )


def read_queries(folder: Path) -> list[JudgedQuery]:
    """Every query with its judgements, judged or not. DatasetUnusable."""
    grades = _read_qrels(folder / QRELS)
    return [
        JudgedQuery(query_id, _text(row, "text", QUERIES, number), grades.get(query_id, {}))
        for number, row in json_rows(folder / QUERIES)
        for query_id in (_text(row, "_id", QUERIES, number),)
    ]


def _read_qrels(path: Path) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    for number, line in enumerate(_lines(path), 1):
        fields = line.split("\t")
        if number == 1 or not line.strip():  # the header names the columns
            continue
        if len(fields) != 3:
            raise DatasetUnusable(f"{path.name}, line {number}: query-id, corpus-id and score are expected")
        try:
            grades.setdefault(fields[0], {})[fields[1]] = int(float(fields[2]))
        except ValueError as problem:
            raise DatasetUnusable(f"{path.name}, line {number}: the score is no number") from problem
    return grades


def write_vault(documents: Iterator[Document], folder: Path) -> dict[str, str]:
    """Write one page a document into `folder`; the result maps page ids to document ids.

    File names are searched like titles, so they carry no document id: a number there would answer a number in a query.
    """
    folder.mkdir(parents=True)
    document_of = {}
    for number, document in enumerate(documents):
        name = _name(number)
        (folder / f"{name}.md").write_text(_page(document), encoding="utf-8", newline="\n")
        document_of[name] = document.id
    return document_of


def _page(document: Document) -> str:
    # a JSON string is a YAML string, whatever is in it
    title = json.dumps(document.title.strip() or "untitled", ensure_ascii=False)
    return f"---\ntitle: {title}\n---\n\n{document.text}\n"


def _name(number: int) -> str:
    letters = ""
    for _ in range(_NAME_LENGTH):
        number, digit = divmod(number, len(_LETTERS))
        letters = _LETTERS[digit] + letters
    return f"x{letters}"


def json_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The objects of a JSON Lines file with their line numbers, blank lines left out. DatasetUnusable."""
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as problem:
            raise DatasetUnusable(f"{path.name}, line {number}: this is not JSON") from problem
        if not isinstance(row, dict):
            raise DatasetUnusable(f"{path.name}, line {number}: an object is expected")
        yield number, row


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as stream:
            yield from (line.rstrip("\n") for line in stream)
    except OSError as problem:
        raise DatasetUnusable(f"{path} cannot be read: {problem.strerror or type(problem).__name__}") from problem
    except UnicodeDecodeError as problem:
        raise DatasetUnusable(f"{path.name} is not UTF-8") from problem


def _text(row: Mapping[str, Any], key: str, name: str, number: int) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise DatasetUnusable(f"{name}, line {number}: {key} is missing or no text")
    return value
