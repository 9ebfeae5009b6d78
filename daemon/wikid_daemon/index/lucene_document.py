"""What Lucene keeps of a chunk: its fields, and the document that is refilled for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from wikid_daemon.index.analysis import fold, has_kana, split_scripts

LONGEST_TYPE: Final = 200


@dataclass(frozen=True, slots=True)
class LexicalChunk:
    """What Lucene sees of one chunk. `key` is the catalog's chunk number."""

    key: int
    title: str
    aliases: str
    headings: str
    body: str
    page_id: str
    type: str


class LexicalDocument:
    """A Lucene document whose fields are refilled for each chunk: two thirds fewer calls into Java than new objects."""

    def __init__(self, java: Any) -> None:
        self.java = java.Document()
        no, yes = java.Store.NO, java.Store.YES
        self._id = java.StringField("id", "", yes)
        self._page = java.StringField("page", "", no)
        self._type = java.StringField("type", "", no)
        names = ("text", "title", "aliases", "headings", "identifiers", "cjk", "ja")
        self._texts = {name: java.TextField(name, "", no) for name in names}
        for field in (self._id, self._page, self._type, *self._texts.values()):
            self.java.add(field)

    def fill(self, page: int, chunk: LexicalChunk) -> None:
        title, headings, body = fold(chunk.title), fold(chunk.headings), fold(chunk.body)
        whole = f"{title}\n{headings}\n{body}"
        latin, cjk = split_scripts(whole)
        asian = f"{whole}\n{fold(chunk.aliases)}" if cjk else ""
        self._id.setStringValue(str(chunk.key))
        self._page.setStringValue(str(page))
        self._type.setStringValue(type_term(chunk.type))
        texts = self._texts
        values = {
            "text": latin,
            "title": title,
            "aliases": fold(chunk.aliases),
            "headings": headings,
            "identifiers": f"{fold(chunk.page_id)}\n{whole}",
            "cjk": asian,
            "ja": asian if has_kana(asian) else "",
        }
        for name, value in values.items():
            field = texts[name]
            field.setStringValue(value)


def type_term(kind: str) -> str:
    """A page's type as it is filtered by; Lucene refuses immense terms."""
    return kind.strip().lower()[:LONGEST_TYPE]
