"""How text becomes Lucene terms: Unicode folding, scripts, identifiers, analyzers, and the Java classes for them."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Any, Final

from wikid_daemon.index.jvm import java_class

# 2,000 code points of Chinese make 1,999 bigrams in one field; Lucene's own ceiling is 1,024
SMALLEST_COLLECTION: Final = 1_000
SHORT_QUERY_WORDS: Final = 3
LONGEST_IDENTIFIER: Final = 255
MAX_CLAUSES: Final = 16_384

_LUCENE = "org.apache.lucene."
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]")
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_IDENTIFIER = re.compile(r"[\w$@.~][\w$@./:+~#-]*[\w$+#]|[\w$]")
_COMPOUND = re.compile(r"[\W_]|\d|[a-z][A-Z]")
_IDENTIFIER_PATTERN = r"[\p{L}\p{N}_$@.~][\p{L}\p{N}_$@./:+~#-]*[\p{L}\p{N}_$+#]|[\p{L}\p{N}_$]"


def fold(text: str) -> str:
    """NFKC: NFD names, full-width letters and compatibility forms meet their plain spelling on both sides."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def split_scripts(text: str) -> tuple[str, bool]:
    """The text without its Chinese, Japanese and Korean characters, and whether it had any."""
    if text.isascii():
        return text, False
    latin, count = _CJK.subn(" ", text)
    return (latin if latin.strip() else ""), count > 0


def identifier_words(text: str) -> list[str]:
    """Words of a query that may name identifiers, paths or versions: those with a digit, a sign or a capital inside.

    In a short query every word may be a part of one, as `baz` is of `foo_bar.baz`.
    """
    words: list[str] = _IDENTIFIER.findall(text)
    if len(words) <= SHORT_QUERY_WORDS:
        return words
    return [word for word in words if len(word) > 1 and _COMPOUND.search(word)]


def rarity(frequency: int, total: int) -> float:
    """BM25's inverse document frequency as a share of that of a word in one document.

    A handful of notes on one subject all share its words; taken among a thousand they are rare all the same.
    """
    total = max(total, SMALLEST_COLLECTION)
    rarest = math.log1p((total - 0.5) / 1.5)
    return min(math.log1p((total - frequency + 0.5) / (frequency + 0.5)) / rarest, 1.0)


def has_cjk(text: str) -> bool:
    return _CJK.search(text) is not None


def has_kana(text: str) -> bool:
    """Whether a text is Japanese, of which only kana tell: most of its words are written as Chinese ones are."""
    return not text.isascii() and _KANA.search(text) is not None


class JavaClasses:
    """The Java classes and shared analyzers, resolved once per process."""

    def __init__(self) -> None:
        names = {
            "ArrayList": "java.util.ArrayList",
            "HashMap": "java.util.HashMap",
            "Paths": "java.nio.file.Paths",
            "AnalyzerUtils": "io.anserini.analysis.AnalyzerUtils",
            "English": "io.anserini.analysis.DefaultEnglishAnalyzer",
            "ScoredDocs": "io.anserini.search.ScoredDocs",
            "BM25Similarity": _LUCENE + "search.similarities.BM25Similarity",
            "BooleanQueryBuilder": _LUCENE + "search.BooleanQuery$Builder",
            "BoostQuery": _LUCENE + "search.BoostQuery",
            "BytesRef": _LUCENE + "util.BytesRef",
            "CJKAnalyzer": _LUCENE + "analysis.cjk.CJKAnalyzer",
            "CustomAnalyzer": _LUCENE + "analysis.custom.CustomAnalyzer",
            "Document": _LUCENE + "document.Document",
            "FSDirectory": _LUCENE + "store.FSDirectory",
            "IndexSearcher": _LUCENE + "search.IndexSearcher",
            "IndexWriter": _LUCENE + "index.IndexWriter",
            "IndexWriterConfig": _LUCENE + "index.IndexWriterConfig",
            "JapaneseAnalyzer": _LUCENE + "analysis.ja.JapaneseAnalyzer",
            "KeywordAnalyzer": _LUCENE + "analysis.core.KeywordAnalyzer",
            "MatchAllDocsQuery": _LUCENE + "search.MatchAllDocsQuery",
            "Occur": _LUCENE + "search.BooleanClause$Occur",
            "OpenMode": _LUCENE + "index.IndexWriterConfig$OpenMode",
            "PerFieldAnalyzer": _LUCENE + "analysis.miscellaneous.PerFieldAnalyzerWrapper",
            "QueryBuilder": _LUCENE + "util.QueryBuilder",
            "ScoreDoc": _LUCENE + "search.ScoreDoc",
            "SearcherFactory": _LUCENE + "search.SearcherFactory",
            "SearcherManager": _LUCENE + "search.SearcherManager",
            "Store": _LUCENE + "document.Field$Store",
            "StringField": _LUCENE + "document.StringField",
            "Term": _LUCENE + "index.Term",
            "TermQuery": _LUCENE + "search.TermQuery",
            "TermInSetQuery": _LUCENE + "search.TermInSetQuery",
            "TextField": _LUCENE + "document.TextField",
            "TieredMergePolicy": _LUCENE + "index.TieredMergePolicy",
        }
        for short, name in names.items():
            setattr(self, short, java_class(name))
        self.english = self.English.newDefaultInstance()
        self.cjk = self.CJKAnalyzer()
        self.japanese = self.JapaneseAnalyzer()  # reads its dictionaries when it is first used
        self.identifiers = _identifier_analyzer(self)
        self.IndexSearcher.setMaxClauseCount(MAX_CLAUSES)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


_shared: list[JavaClasses] = []


def java_classes() -> JavaClasses:
    if not _shared:
        _shared.append(JavaClasses())
    return _shared[0]


def field_analyzer(java: Any) -> Any:
    """Which analyzer each field has; English with Porter stems for the rest."""
    by_field = java.HashMap()
    cjk = java.cjk
    japanese = java.japanese
    identifiers = java.identifiers
    keyword = java.KeywordAnalyzer()
    by_field.put("cjk", cjk)
    by_field.put("ja", japanese)
    by_field.put("identifiers", identifiers)
    for name in ("id", "page", "type"):
        by_field.put(name, keyword)
    english = java.english
    return java.PerFieldAnalyzer(english, by_field)


def _identifier_analyzer(java: Any) -> Any:
    """Identifiers, paths and versions whole and split: `foo_bar.baz` is findable as itself and as foo, bar and baz."""
    builder = java.CustomAnalyzer.builder()
    options = _options(java, pattern=_IDENTIFIER_PATTERN, group="0")
    builder.withTokenizer("pattern", options)
    options = _options(
        java, preserveOriginal="1", splitOnCaseChange="1", splitOnNumerics="0", stemEnglishPossessive="0"
    )
    builder.addTokenFilter("wordDelimiterGraph", options)
    options = _options(java)
    builder.addTokenFilter("flattenGraph", options)
    # Lucene refuses a document with a term of more than 32,766 bytes
    options = _options(java, min="1", max=str(LONGEST_IDENTIFIER))
    builder.addTokenFilter("length", options)
    options = _options(java)
    builder.addTokenFilter("lowercase", options)
    return builder.build()


def _options(java: Any, **values: str) -> Any:
    options = java.HashMap()
    for name, value in values.items():
        options.put(name, value)
    return options
