"""Any value that a record on the wire may have, for property tests."""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    Any: JSON,
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any value that the annotation `kind` allows."""
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return st.builds(kind, **{each.name: values_of(hints[each.name]) for each in fields(kind)})
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, types.UnionType):
        return st.one_of(*(st.none() if each is types.NoneType else values_of(each) for each in args))
    if origin is tuple:
        return st.lists(values_of(args[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(TEXT, values_of(args[1]), max_size=2)
    return SCALARS[getattr(kind, "__supertype__", kind)]
