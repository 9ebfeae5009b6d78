"""English words, and characters of Chinese and Japanese, that carry a question, not its subject.

BM25 weighs them by itself; in a small vault, where they may be rare, they would make every page look as if it missed
half of what was asked.
"""

from typing import Final

_WORDS: Final = """
a about after all also am an and any are as at be because been before being between both but by can could did do does
doing done for from further get had has have having he her here hers him his how i if in into is it its just let like
made make many may me might more most much must my need no nor not now of off on once only or other our ours out over
own per please same say says shall she should so some such tell than that the their theirs them then there these they
this those through to too under until up upon us use used using very was we were what when where whether which while who
whom whose why will with without would you your yours
"""
FUNCTION_WORDS: Final = frozenset(_WORDS.split())
# hiragana write Japanese grammar; the rest are Chinese particles, pronouns and question words
FUNCTION_CHARACTERS: Final = frozenset(
    "".join(map(chr, range(0x3041, 0x3097))) + "的了是在有和与或就都也很把被吗呢吧么什怎哪谁几这那其之为會会能可以何"
)
