"""How a record tells of a model at rest: it is `built`, and the reason begins with why nothing of it is in memory."""

from __future__ import annotations

from typing import Final

from wikid_protocol.records import ModelRecord

AT_REST: Final = "not in memory"


def is_at_rest(model: ModelRecord) -> bool:
    """Whether it is the model in use, let go from memory until somebody wants it."""
    return model.state == "built" and model.reason.startswith(AT_REST)
