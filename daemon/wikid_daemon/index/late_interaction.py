"""Late interaction: each query token meets its closest token in the passage, rare words count more.

The token vectors are those of the embedding model itself, from a session of its own, so nothing else has to be fetched.
A passage's vectors are kept, as int8, in a cache bounded by bytes: what is asked about is often asked about again.

Half of a token's weight is its word's rarity in the vault: on the tuning halves of the judged collections equal weights
alone add half as much to the first look. Kept as int8 the vectors give the same ten best pages.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wikid_daemon.index.encoders import (
    MAX_CHARACTERS_PER_TOKEN,
    TOKEN_OUTPUTS,
    Tokenizer,
    Vector,
    open_session,
    open_tokenizer,
)
from wikid_daemon.index.inputs import Inputs
from wikid_daemon.index.passes import Ended, Passes, finished
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import ModelFolder

CACHE_BYTES: Final = 32 << 20
RESERVE_MS: Final = 10.0  # what scoring takes once the vectors are there
_INT8: Final = 127.0

Codes = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Passage:
    """A text to be judged; `hash` names it, so that what was computed for it can be kept."""

    hash: bytes
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The query, how rare each of its words is in the vault (0–1), and what the vault is about, perhaps nothing."""

    text: str
    rarity: Callable[[str], float]
    intent: str = ""


class LateInteraction:
    """Scores −1 to 1. Every method may be called from several threads at once."""

    def __init__(self, folder: ModelFolder, session: Any, tokenizer: Tokenizer, workers: int) -> None:
        self.identity = f"late-interaction:{folder.identity}"
        self._folder = folder
        self._session = session
        self._tokenizer = tokenizer
        self._inputs = Inputs(session)
        self._output = _token_output(session)
        self._workers = ThreadPoolExecutor(workers, "rerank")
        self._at_once = workers
        self._cache = TokenCache(CACHE_BYTES)

    @classmethod
    def load(cls, folder: ModelFolder, workers: int = 2) -> LateInteraction:
        """Open the folder's files and run once. Raises ModelUnusable."""
        try:
            reranker = cls(folder, open_session(folder), open_tokenizer(folder), workers)
            reranker._tokens("ready", Passes())
        except Exception as error:  # both libraries raise private exception types
            reason = f"The model {folder.name} gives no token vectors ({type(error).__name__}: {error})."
            raise ModelUnusable(reason, folder.remedy) from error
        return reranker

    def scores(self, asked: Asked, passages: Sequence[Passage], left_ms: Callable[[], float]) -> list[float | None]:
        """One score a passage, in order, until the time is over; None for those after it and for what is refused.
        `left_ms` is asked on the way too: passes end where nothing is left."""
        try:
            query, weights = self._query(asked)
        except Exception:  # noqa: BLE001 - what the model refuses, in whatever private type, is judged by the first look
            return [None] * len(passages)
        found: list[Codes | None] = []
        passes, slowest = Passes(), 0.0
        for start in range(0, len(passages), self._at_once):
            before = left_ms()
            # a pass that would be ended on its way is not worth beginning
            if before < RESERVE_MS + slowest:
                break
            together = passages[start : start + self._at_once]
            work = [self._workers.submit(self._passage, each, passes) for each in together]
            done = finished(work, passes, left_ms, RESERVE_MS)
            found += done
            if len(done) < len(together):
                break
            slowest = max(slowest, before - left_ms())
        judged = iter(_max_sim(query, weights, [each for each in found if each is not None]))
        scores = [None if each is None else next(judged) for each in found]
        return scores + [None] * (len(passages) - len(scores))

    def _query(self, asked: Asked) -> tuple[Vector, Vector]:
        """The query's token vectors (n, dims) and their weights (n,), which sum to 1."""
        text = self._folder.query_prefix + asked.text
        encoding = self._tokenizer.encode(text)
        evenly, rarity = np.zeros(len(encoding.ids), np.float32), np.zeros(len(encoding.ids), np.float32)
        spans: dict[int, tuple[int, int]] = {}
        for word, (start, end) in zip(encoding.word_ids, encoding.offsets, strict=True):
            if word is not None:
                spans[word] = (min(start, spans.get(word, (start, end))[0]), end)
        for place, word in enumerate(encoding.word_ids):
            if word is not None and spans[word][0] >= len(self._folder.query_prefix):
                evenly[place] = 1.0
                rarity[place] = asked.rarity(text[slice(*spans[word])])
        evenly /= max(float(evenly.sum()), 1.0)
        weights = (evenly + rarity / rarity.sum()) / 2 if rarity.any() else evenly
        return self._run(encoding.ids, Passes()), weights

    def _passage(self, passage: Passage, passes: Passes) -> Codes | None:
        known = self._cache.get(passage.hash)
        if known is None:
            try:
                known = self._tokens(self._folder.passage_prefix + passage.text, passes)
            except Ended:
                raise
            except Exception:  # noqa: BLE001 - a text that the model refuses gets no score; the others do
                return None
            self._cache.put(passage.hash, known)
        return known

    def _tokens(self, text: str, passes: Passes) -> Codes:
        """A text's unit token vectors (tokens, dims), without those of the marks around it."""
        encoding = self._tokenizer.encode(text[: self._folder.max_tokens * MAX_CHARACTERS_PER_TOKEN])
        vectors = self._run(encoding.ids, passes)
        inner = [place for place, special in enumerate(encoding.special_tokens_mask) if not special]
        kept: Codes = np.rint((vectors[inner] if inner else vectors) * _INT8).astype(np.int8)
        return kept

    def _run(self, ids: Sequence[int], passes: Passes) -> Vector:
        (output,) = passes.run(self._session, [self._output], self._inputs.feed(np.array([ids], np.int64)))
        vectors: Vector = output[0]
        unit: Vector = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        return unit


class TokenCache:
    """Token vectors by passage, the longest unused ones dropped first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[bytes, Codes] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, key: bytes) -> Codes | None:
        with self._guard:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: bytes, codes: Codes) -> None:
        with self._guard:
            old = self._kept.pop(key, None)
            self._bytes += codes.nbytes - (0 if old is None else old.nbytes)
            self._kept[key] = codes
            while self._bytes > self._most:
                _, dropped = self._kept.popitem(last=False)
                self._bytes -= dropped.nbytes

    @property
    def size(self) -> int:
        """In bytes."""
        return self._bytes


def _max_sim(query: Vector, weights: Vector, passages: Sequence[Codes]) -> list[float]:
    """Of each passage, the weighted mean of the query tokens' best cosines."""
    if not passages:
        return []
    # one product for all of them: forty small ones wait for each other's threads
    cosines = query @ np.concatenate(passages).astype(np.float32).T
    starts = np.cumsum([0, *(len(each) for each in passages[:-1])])
    best = np.maximum.reduceat(cosines, starts, axis=1) / _INT8
    scores: list[float] = (weights @ best).tolist()
    return scores


def _token_output(session: Any) -> str:
    present = {entry.name for entry in session.get_outputs()}
    found = next((name for name in TOKEN_OUTPUTS if name in present), None)
    if found is None:
        raise ValueError(f"the graph has none of the outputs {', '.join(TOKEN_OUTPUTS)}")
    return found
