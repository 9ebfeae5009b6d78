"""Lets the models go from memory once nobody has used them for as long as the settings say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from wikid_daemon.warm import WarmEmbedder
from wikid_daemon.warm_reranker import WarmReranker

LOOK_SECONDS: Final = 30.0
MINUTE_SECONDS: Final = 60.0


class Idling:
    """`minutes` is the setting, 0 for never. Vectors that are being made count as use, so nothing is pending then but
    what the model refuses."""

    def __init__(self, embedder: WarmEmbedder, reranker: WarmReranker, minutes: Callable[[], int]) -> None:
        self._embedder = embedder
        self._reranker = reranker
        self._minutes = minutes

    async def watch(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Let the models go where it is time to."""
        minutes = self._minutes()
        if minutes > 0:
            self._embedder.rest(minutes * MINUTE_SECONDS)
        # at every look: it may have been loading when the embedder was let go, or been loaded since
        if self._embedder.rests:
            self._reranker.rest(lambda: self._embedder.rests)
