"""What a session is fed: the inputs it declares, made from a batch of token ids, and nothing else."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_KINDS: Final[dict[str, Any]] = {
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(float16)": np.float16,
    "tensor(float)": np.float32,
    "tensor(bool)": np.bool_,
}
_PAST: Final = re.compile(r"past_key_values\.\d+\.(?:key|value)")
_FROM_TOKENS: Final = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
_CONSTANT: Final = {"use_cache_branch": np.zeros(1, np.bool_), "num_logits_to_keep": np.array(1, np.int64)}


class Inputs:
    """The inputs of one session. Any thread."""

    def __init__(self, session: Any) -> None:
        """ValueError names an input that nothing is known of."""
        self._declared = tuple(session.get_inputs())
        for each in self._declared:
            if each.name not in (*_FROM_TOKENS, *_CONSTANT) and not _PAST.fullmatch(each.name):
                raise ValueError(f"the graph wants {each.name}, which is not supported")

    def feed(self, ids: Ints, mask: Ints | None = None, sides: Ints | None = None) -> dict[str, Any]:
        """Of token ids (texts, tokens), which of them are no padding, and which side of a pair each belongs to: all are
        of the one text where nothing else is said."""
        mask = np.ones_like(ids) if mask is None else mask
        offered = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids) if sides is None else sides,
            # padding on the left moves no token
            "position_ids": np.where(mask == 1, np.maximum(mask.cumsum(axis=1) - 1, 0), 1),
            **_CONSTANT,
        }
        return {each.name: _cast(offered.get(each.name), each, len(ids)) for each in self._declared}


def _cast(value: Any, declared: Any, texts: int) -> Any:
    if value is None:  # a language model's memory of what came before: there was nothing
        _, heads, _, width = declared.shape
        value = np.zeros((texts, int(heads), 0, int(width)), np.float32)
    return value.astype(_KINDS.get(getattr(declared, "type", ""), value.dtype), copy=False)
