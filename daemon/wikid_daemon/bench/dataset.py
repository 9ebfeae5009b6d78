"""A set of judged queries over pages, whatever file it was read from, and which of its queries are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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


def chosen(queries: Sequence[JudgedQuery], limit: int) -> list[JudgedQuery]:
    """The first `limit` queries (0 = all) by sorted id among those with a relevant document."""
    judged = sorted((each for each in queries if each.is_judged), key=lambda each: each.id)
    return judged[:limit] if limit else judged
