"""A cross-encoder: query and passage read together by a model that the user chose, one logit a pair.

Pairs run in batches of eight, the best candidates first, while there is time: ONNX Runtime's arena grows to the largest
batch and stays there. What was judged for a query is kept, so that asking again costs nothing.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from wikid_daemon.index.encoders import (
    MAX_CHARACTERS_PER_TOKEN,
    Encoding,
    Tokenizer,
    Vector,
    open_session,
    open_tokenizer,
)
from wikid_daemon.index.late_interaction import RESERVE_MS, Asked, Passage
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import ModelFolder

BATCH: Final = 8
KEPT_SCORES: Final = 4_096
OUTPUT: Final = "logits"
HINT: Final = "Check WIKID_RERANK_MODEL and rerankModel: it must be a sequence classifier with one or two labels."


class CrossEncoder:
    """Scores 0 to 1. Every method may be called from several threads at once."""

    def __init__(self, folder: ModelFolder, session: Any, tokenizer: Tokenizer) -> None:
        self.identity = f"cross-encoder:{folder.identity}"
        self._folder = folder
        self._session = session
        self._tokenizer = tokenizer
        self._inputs = tuple(entry.name for entry in session.get_inputs())
        self._kept: OrderedDict[bytes, float] = OrderedDict()
        self._guard = threading.Lock()

    @classmethod
    def load(cls, folder: ModelFolder) -> CrossEncoder:
        """Open the folder's files and judge one pair. Raises ModelUnusable."""
        try:
            # the query is never cut: it is short, and all that is asked
            encoder = cls(folder, open_session(folder, threads=0), open_tokenizer(folder, pairs=True))
            encoder._judge([encoder._pair("ready", "ready")])
        except Exception as error:  # both libraries raise private exception types
            reason = f"The reranker {folder.name} does not load ({type(error).__name__}: {error})."
            raise ModelUnusable(reason, HINT) from error
        return encoder

    def scores(self, asked: Asked, passages: Sequence[Passage], left_ms: Callable[[], float]) -> list[float | None]:
        """One score a passage until the time is over, the first passages first; None for those it did not suffice for
        and for what is refused."""
        keys = [self._key(asked, each) for each in passages]
        found = [self._known(key) for key in keys]
        waiting = [place for place, score in enumerate(found) if score is None]
        slowest = 0.0
        for start in range(0, len(waiting), BATCH):
            before = left_ms()
            if before < RESERVE_MS + slowest:
                break
            self._fill(asked, passages, keys, found, waiting[start : start + BATCH])
            slowest = max(slowest, before - left_ms())
        return found

    def _fill(
        self,
        asked: Asked,
        passages: Sequence[Passage],
        keys: Sequence[bytes],
        found: list[float | None],
        places: Sequence[int],
    ) -> None:
        try:
            pairs = [self._pair(asked.text, passages[place].text) for place in places]
            scores = self._judge(pairs)
        except Exception:  # noqa: BLE001 - what the model refuses gets no score, and keeps its place
            return
        for place, score in zip(places, scores, strict=True):
            found[place] = score
            self._keep(keys[place], score)

    def _pair(self, query: str, passage: str) -> Encoding:
        return self._tokenizer.encode(query, passage[: self._folder.max_tokens * MAX_CHARACTERS_PER_TOKEN])

    def _judge(self, pairs: Sequence[Encoding]) -> list[float]:
        width = max(len(each.ids) for each in pairs)

        def padded(rows: Sequence[Sequence[int]]) -> Any:
            return np.array([[*row, *[0] * (width - len(row))] for row in rows], np.int64)

        offered = {
            "input_ids": padded([each.ids for each in pairs]),
            "attention_mask": padded([each.attention_mask for each in pairs]),
            "token_type_ids": padded([each.type_ids for each in pairs]),
        }
        (logits,) = self._session.run([OUTPUT], {name: offered[name] for name in self._inputs})
        return probabilities(logits)

    # -- what was judged before ----------------------------------------------------------------------------------------

    @staticmethod
    def _key(asked: Asked, passage: Passage) -> bytes:
        query = hashlib.sha256(asked.text.encode("utf-8", "surrogatepass")).digest()[:16]
        return query + passage.hash

    def _known(self, key: bytes) -> float | None:
        with self._guard:
            score = self._kept.get(key)
            if score is not None:
                self._kept.move_to_end(key)
            return score

    def _keep(self, key: bytes, score: float) -> None:
        with self._guard:
            self._kept[key] = score
            if len(self._kept) > KEPT_SCORES:
                self._kept.popitem(last=False)


def probabilities(logits: Vector) -> list[float]:
    """Of shape (n, 1), a logit for yes; or (n, 2), logits for no and yes. ValueError for any other."""
    if logits.ndim != 2 or logits.shape[1] not in (1, 2):
        raise ValueError(f"the graph gives {logits.shape} for one pair, not one or two logits")
    yes = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
    found: list[float] = (1.0 / (1.0 + np.exp(-np.clip(yes.astype(np.float64), -50, 50)))).tolist()
    return found
