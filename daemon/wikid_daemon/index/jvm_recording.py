"""`python -m wikid_daemon.index.jvm_recording INDEX CLASSES RECORDED`: Java records what a daemon asks of Lucene.

The classes that this loads are those that the archive will hold (`jvm_archive`); nothing else comes of it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from wikid_daemon.index import jvm
from wikid_daemon.index.admission import Admission
from wikid_daemon.index.lucene import LexicalIndex
from wikid_daemon.index.lucene_document import LexicalChunk

PAGES = 40
QUERIES = ("databases and numbers", "foo_bar.baz", "日本語 のテキスト")


def main(index: Path, classes: Path, recorded: Path) -> None:
    """Record; the process ends with Java's own exit, which is what writes the record."""
    jvm.use_archive(jvm.Archive(classes, ("-XX:AOTMode=record", f"-XX:AOTConfiguration={recorded}")))
    lexical = LexicalIndex(index)
    for round_ in range(2):
        for page in range(PAGES):
            text = f"Some text about databases, number {page}, in foo_bar.baz and 日本語 のテキスト"
            chunk = LexicalChunk(page, f"Page {page}", "another name", "A heading", text, f"concepts/{page}", "concept")
            lexical.put(page, [chunk])
        lexical.refresh()
        lexical.commit(round_ + 1)
    lexical.remove(0)
    lexical.refresh()
    for query in QUERIES:
        lexical.terms(query)
        lexical.words(query)
        lexical.search(query, 160)
        lexical.search(query, 10, Admission(("concept",)), {"databas": 0.5})
        lexical.search(query, 10, Admission(pages=frozenset({1}), others=frozenset({2, 3})))
    lexical.keys()
    lexical.counts()
    lexical.close()
    system = jvm.java_class("java.lang.System")
    system.exit(0)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
