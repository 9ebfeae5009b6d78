"""In which languages texts are, told by their letters and their commonest words: a guess that is good enough to say
that a model does not know them. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

ENGLISH: Final = "English"
_FEWEST_WORDS: Final = 3  # of the commonest, for a text to count as being in a language
_FEWEST_LETTERS: Final = 20

# the first that holds most of a text's letters; Japanese is told from Chinese by its kana
_SCRIPTS: Final[Mapping[str, re.Pattern[str]]] = {
    "Japanese": re.compile("[\u3040-\u30ff]"),
    "Korean": re.compile("[\u1100-\u11ff\uac00-\ud7af]"),
    "Chinese": re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"),
    "Russian or another language in Cyrillic": re.compile("[\u0400-\u052f]"),
    "Greek": re.compile("[\u0370-\u03ff]"),
    "Arabic": re.compile("[\u0600-\u06ff\u0750-\u077f]"),
    "Hebrew": re.compile("[\u0590-\u05ff]"),
    "Hindi or another language of India": re.compile("[\u0900-\u0d7f]"),
    "Thai": re.compile("[\u0e00-\u0e7f]"),
}
_KANA_SHARE: Final = 0.1
_SCRIPT_SHARE: Final = 0.3
_COMMON: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(words.split())
    for name, words in {
        ENGLISH: "the and of to is that for with on are was this it be not you from have has by at as or an we",
        "German": "der die das und ist nicht mit ein eine einen für auf den dem von zu im auch sich wird werden als",
        "French": "le la les des et est une dans que pour pas sur avec ce cette sont par au aux du plus ne qui",
        "Spanish": "el la los las una que por para con del es y en se no como más pero este esta son al lo",
        "Italian": "il la di che è una per non con sono della del gli nel alla più come anche si da dei",
        "Portuguese": "o a os as uma não para com que do da em é por mais como dos das se ao na no foi",
        "Dutch": "de het een van en niet dat zijn met voor op te is ook maar aan er bij naar worden wordt",
    }.items()
}
_WORD: Final = re.compile(r"[^\W\d_]+")


def language(text: str) -> str | None:
    """The name of the text's language; None where too little of it tells, as in code, lists of names or numbers."""
    words = _WORD.findall(text.lower())
    letters = sum(map(len, words))
    if letters < _FEWEST_LETTERS:
        return None
    for name, script in _SCRIPTS.items():
        share = len(script.findall(text)) / letters
        if share >= (_KANA_SHARE if name == "Japanese" else _SCRIPT_SHARE):
            return name
    hits = {name: sum(word in common for word in words) for name, common in _COMMON.items()}
    best = max(hits, key=lambda name: hits[name])  # English first where two are alike
    return best if hits[best] >= _FEWEST_WORDS else None


def languages(texts: Iterable[str]) -> Counter[str]:
    """How many of the texts are in each language; those that do not tell are left out."""
    return Counter(found for text in texts if (found := language(text)) is not None)
