"""The fuzz campaign in short: a few thousand inputs of all kinds over every framing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from torture.fuzz import FuzzCampaign

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

INPUTS = 3_000
SEED = 1
NEVER_WAIT = 10**9
MEMORY_BYTES = 100_000_000  # so few inputs warm nothing up: the long campaign looks at memory


def test_every_input_is_answered_with_a_known_word_or_its_connection_closed(tmp_path: Path) -> None:
    campaign = FuzzCampaign(tmp_path, SEED, print, wait_every=NEVER_WAIT, max_growth=MEMORY_BYTES)
    totals = campaign.run(INPUTS)
    assert totals.differences == []
    assert sum(totals.inputs.values()) > INPUTS * 0.95  # but for those that could do harm
    assert set(totals.inputs) == {"lines", "headers", "rpc", "websocket", "connections"}
    assert totals.recalls
