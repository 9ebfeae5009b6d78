"""Whether a query asks: the seed's question words and their equivalents in the languages that vaults are written in."""

from __future__ import annotations

import re
from typing import Final

# who, what, when, where, why, how, which, compare, explain (seed A, adaptive), one language a line
_BY_LANGUAGE: Final = (
    "who whom whose what when where why how which compare explain",
    "wer wen wem wessen was wann wo wohin woher warum wieso weshalb wie wieviel welche welcher welches welchen welchem",
    "vergleiche vergleich erkläre erklär",
    "qui que quoi quand où pourquoi comment combien quel quelle quels quelles comparer explique expliquer",
    "quién quiénes qué cuándo dónde cómo cuál cuáles cuánto cuánta cuántos cuántas compara explica",
    "chi cosa quando dove perché come quale quali quanto confronta spiega",
    "quem quê onde como qual quais explique",
    "wat wanneer waar waarom hoe welke hoeveel vergelijk verklaar",
    "кто что когда где почему зачем как какой какая какие сколько сравни объясни",
)
_WORDS: Final = frozenset(word for language in _BY_LANGUAGE for word in language.split())
_STARTS: Final = ("o que ", "por que ", "por qué ", "che cosa ", "qu'", "qu’", "est-ce ")
# Chinese, Japanese and Korean put the question word where the answer would stand, not first
_CJK: Final = re.compile(
    "谁|什么|什麼|何时|何時|哪|为什么|為什麼|为何|怎么|怎麼|如何|多少|几|比较|比較|解释|解釋"
    "|誰|何|いつ|どこ|なぜ|どう|どの|どれ|どんな|いくつ|いくら|説明"
    "|누가|누구|무엇|무슨|언제|어디|왜|어떻게|어느|어떤|몇|얼마|비교|설명"
)
_OPENING: Final = " \"'«„“‘([¿¡"
_FIRST_WORD: Final = re.compile(r"\w+")


def is_question(query: str) -> bool:
    """Whether the query begins with a question word, or holds one in a script where none begins with it."""
    text = query.casefold().lstrip(_OPENING)
    first = _FIRST_WORD.match(text)
    if first is not None and first.group() in _WORDS:
        return True
    return text.startswith(_STARTS) or _CJK.search(text) is not None
