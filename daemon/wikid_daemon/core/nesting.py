"""How deep a JSON text nests, seen before it is parsed. Pure.

Python's parser recurses: since 3.13 it goes so deep that, beside a JVM, which guards the end of the stack, the process
dies instead of raising RecursionError.
"""

from __future__ import annotations

import re
from typing import Final

MAX_DEPTH: Final = 500

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BRACKET: Final = re.compile(r"[\[\]{}]")


def is_too_deep(text: str) -> bool:
    """Whether arrays and objects stand in each other more than `MAX_DEPTH` deep."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    depth = deepest = 0
    for bracket in _BRACKET.finditer(_STRING.sub("", text)):
        depth += 1 if bracket.group() in "[{" else -1
        deepest = max(deepest, depth)
    return deepest > MAX_DEPTH
