"""A cross-encoder: query and passage read together by a model that the user chose.

It answers with one or two logits for a pair, or, being a language model, with the words yes and no after a dialogue
that holds both. Pairs run in batches of eight, the best candidates first, while there is time: ONNX Runtime's arena
grows to the largest batch and stays there. What was judged for a query is kept, so that asking again costs nothing.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

import numpy as np

from wikid_daemon.index.encoders import (
    MAX_CHARACTERS_PER_TOKEN,
    Tokenizer,
    Vector,
    damage,
    open_session,
    open_tokenizer,
    token_id,
)
from wikid_daemon.index.inputs import Inputs
from wikid_daemon.index.late_interaction import RESERVE_MS, Asked, Passage
from wikid_daemon.index.passes import Ended, Passes, finished
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import ModelFolder, damaged_files
from wikid_daemon.models.presets import Dialogue

BATCH: Final = 8
KEPT_SCORES: Final = 4_096
CALLS: Final = 4  # whose batches may be computed at once
OUTPUT: Final = "logits"
YES: Final = "yes"
NO: Final = "no"
HINT: Final = (
    "Check WIKID_RERANK_MODEL and rerankModel: it must be a sequence classifier with one or two labels, or a language "
    "model of a family whose dialogue wikid knows, as Qwen3-Reranker."
)

Row = tuple[Sequence[int], Sequence[int]]
"""A pair as the model reads it: its token ids, and which side each belongs to."""


class Reading(Protocol):
    """How one kind of model reads a pair, and what its answer comes to."""

    @property
    def at_once(self) -> int: ...
    def pair(self, query: str, passage: str) -> Row: ...
    def verdicts(self, logits: Vector) -> list[float]:
        """Scores 0 to 1 of the logits for each pair."""
        ...


class CrossEncoder:
    """Scores 0 to 1. Every method may be called from several threads at once."""

    def __init__(self, folder: ModelFolder, session: Any, tokenizer: Tokenizer) -> None:
        self.identity = f"cross-encoder:{folder.identity}"
        self._folder = folder
        self._session = session
        self._inputs = Inputs(session)
        self._reading = _reading(folder, tokenizer)
        self._kept: OrderedDict[bytes, float] = OrderedDict()
        self._guard = threading.Lock()
        # whoever asks has to be free to end a batch that takes too long
        self._workers = ThreadPoolExecutor(CALLS, "judge")

    @classmethod
    def load(cls, folder: ModelFolder) -> CrossEncoder:
        """Open the folder's files after checking their hashes, and judge one pair. Raises ModelUnusable."""
        if damaged := damaged_files(folder):
            raise damage(folder, damaged)
        try:
            # of a pair the query is never cut: it is short, and all that is asked
            tokenizer = open_tokenizer(folder, pairs=folder.recipe.verdict == "logits")
            encoder = cls(folder, open_session(folder, threads=0), tokenizer)
            encoder._judge([encoder._pair("ready", "ready")], Passes())
        except Exception as error:  # both libraries raise private exception types
            reason = f"The reranker {folder.name} does not load ({type(error).__name__}: {error})."
            raise ModelUnusable(reason, HINT) from error
        return encoder

    def scores(self, asked: Asked, passages: Sequence[Passage], left_ms: Callable[[], float]) -> list[float | None]:
        """One score a passage until the time is over, the first passages first; None for those it did not suffice for
        and for what is refused. `left_ms` is asked on the way too: a batch ends where nothing is left."""
        keys = [self._key(asked, each) for each in passages]
        found = [self._known(key) for key in keys]
        waiting = [place for place, score in enumerate(found) if score is None]
        passes, slowest = Passes(), 0.0
        step = self._reading.at_once
        for start in range(0, len(waiting), step):
            before = left_ms()
            if before < RESERVE_MS + slowest:
                break
            places = waiting[start : start + step]
            work = self._workers.submit(self._scores, asked, [passages[place] for place in places], passes)
            for scores in finished([work], passes, left_ms, RESERVE_MS):
                for place, score in zip(places, scores, strict=False):
                    found[place] = score
                    self._keep(keys[place], score)
            if passes.ended:
                break
            slowest = max(slowest, before - left_ms())
        return found

    def _scores(self, asked: Asked, passages: Sequence[Passage], passes: Passes) -> Sequence[float]:
        """Of each passage, or none at all where the model refuses one."""
        try:
            return self._judge([self._pair(asked.text, each.text) for each in passages], passes)
        except Ended:
            raise
        except Exception:  # noqa: BLE001 - what the model refuses gets no score, and keeps its place
            return ()

    def _pair(self, query: str, passage: str) -> Row:
        return self._reading.pair(query, passage[: self._folder.max_tokens * MAX_CHARACTERS_PER_TOKEN])

    def _judge(self, pairs: Sequence[Row], passes: Passes) -> list[float]:
        recipe = self._folder.recipe
        width = max(len(ids) for ids, _ in pairs)
        shape = (len(pairs), width)
        ids, mask, sides = (
            np.full(shape, recipe.padding, np.int64),
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64),
        )
        for place, (tokens, side) in enumerate(pairs):
            filled = slice(width - len(tokens), None) if recipe.pads_left else slice(len(tokens))
            ids[place, filled], sides[place, filled], mask[place, filled] = tokens, side, 1
        (logits,) = passes.run(self._session, [OUTPUT], self._inputs.feed(ids, mask, sides))
        return self._reading.verdicts(np.asarray(logits, np.float32))

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


class _Classifier:
    """A sequence classifier: both texts as a pair, one or two logits."""

    at_once = BATCH

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def pair(self, query: str, passage: str) -> Row:
        encoding = self._tokenizer.encode(query, passage)
        return encoding.ids, encoding.type_ids

    def verdicts(self, logits: Vector) -> list[float]:
        return probabilities(logits)


class _Conversation:
    """A language model: both texts inside a dialogue of which the next word would be yes or no. The dialogue around
    them is never cut, and of them only the passage is. One at a time: the graph gives a logit for every word of the
    language at every token, which is some hundred megabytes a pair."""

    at_once = 1

    def __init__(self, tokenizer: Tokenizer, dialogue: Dialogue, most: int) -> None:
        self._tokenizer = tokenizer
        self._dialogue = dialogue
        self._verdicts = [token_id(tokenizer, word) for word in (NO, YES)]
        self._after = self._tokens(dialogue.after)
        self._most = most - len(self._after)

    def pair(self, query: str, passage: str) -> Row:
        dialogue = self._dialogue
        asked = self._tokens(dialogue.before + query + dialogue.between + passage)[: self._most]
        ids = [*asked, *self._after]
        return ids, [0] * len(ids)

    def verdicts(self, logits: Vector) -> list[float]:
        if logits.ndim != 3:
            raise ValueError(f"the graph gives {logits.shape} for one pair, not logits of every word at every token")
        return probabilities(logits[:, -1][:, np.array(self._verdicts, np.int64)])

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def _reading(folder: ModelFolder, tokenizer: Tokenizer) -> Reading:
    recipe = folder.recipe
    if recipe.verdict == "logits":
        return _Classifier(tokenizer)
    if recipe.dialogue is None:
        raise ValueError("it is a language model of a family whose dialogue is not known")
    return _Conversation(tokenizer, recipe.dialogue, folder.max_tokens)


def probabilities(logits: Vector) -> list[float]:
    """Of shape (n, 1), a logit for yes; or (n, 2), logits for no and yes. ValueError for any other."""
    if logits.ndim != 2 or logits.shape[1] not in (1, 2):
        raise ValueError(f"the graph gives {logits.shape} for one pair, not one or two logits")
    yes = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
    found: list[float] = (1.0 / (1.0 + np.exp(-np.clip(yes.astype(np.float64), -50, 50)))).tolist()
    return found
