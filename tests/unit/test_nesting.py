"""How deep a JSON text nests, before it is parsed."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from wikid_daemon.core.nesting import MAX_DEPTH, is_too_deep


def test_the_border_is_where_it_is_said_to_be() -> None:
    assert not is_too_deep("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert is_too_deep("[" * (MAX_DEPTH + 1))
    assert is_too_deep('{"a":' * (MAX_DEPTH + 1))


def test_brackets_side_by_side_or_in_text_are_not_deep() -> None:
    assert not is_too_deep("[" + "{}," * 5_000 + "{}]")
    assert not is_too_deep(json.dumps({"text": '[{"\\' * 5_000}))


@given(st.text('[]{}"\\a', max_size=3_000))
def test_any_text_can_be_asked_about(text: str) -> None:
    assert isinstance(is_too_deep(text), bool)
