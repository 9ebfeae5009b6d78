"""A set of judged queries over pages, whatever file it was read from, and which of its queries are asked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Half = Literal["tuning", "reporting", "all"]
HALVES: Final[tuple[Half, ...]] = ("tuning", "reporting", "all")


class DatasetUnusable(Exception):
    """The folder or file is missing or not what it should be; the message is for the person who named it."""


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query and the grades of the documents judged for it, by document id."""

    id: str
    text: str
    grades: Mapping[str, int]

    @property
    def is_judged(self) -> bool:
        return any(grade > 0 for grade in self.grades.values())


Split = Callable[[Sequence[JudgedQuery]], Sequence[Half]]
"""Which half each of the judged queries, sorted by id, belongs to."""


def by_ordinal(queries: Sequence[JudgedQuery]) -> list[Half]:
    """Every other query, as the collections' own rule says."""
    return ["reporting" if place % 2 else "tuning" for place in range(len(queries))]


def by_hash(queries: Sequence[JudgedQuery]) -> list[Half]:
    """By the query's id alone, so that a query stays in its half whatever is added or taken away."""
    return [half_of(each.id) for each in queries]


def half_of(query_id: str) -> Half:
    return "reporting" if hashlib.sha256(query_id.encode()).digest()[0] % 2 else "tuning"


def chosen(
    queries: Sequence[JudgedQuery], limit: int, half: Half = "all", split: Split = by_ordinal
) -> list[JudgedQuery]:
    """The first `limit` queries (0 = all) of a half by sorted id, among those with a relevant document."""
    judged = sorted((each for each in queries if each.is_judged), key=lambda each: each.id)
    if half != "all":
        judged = [each for each, where in zip(judged, split(judged), strict=True) if where == half]
    return judged[:limit] if limit else judged
