"""The warm embedder: one ONNX Runtime session and one tokenizer, shared by queries and background passages.

Texts run one at a time, never padded into a batch. Measured on two cores with the default model and chunks of 160 words
that is also the cheapest: 22 ms of CPU a chunk, against 34 in batches of 4, 40 of 8 and 46 of 16, whose activations no
longer fit the cache; texts of 25 words cost 3.5 ms alone and 2.9 in batches of 8. It keeps the memory arena small (the
whole embedder takes 75 MB, with batches of 8 163), and a vector depends on its text alone, which it otherwise does not:
int8 takes its scales from the whole batch. Each run has one thread and two passages run at once: 132 chunks/s on two
cores against 72 with both cores on one text, and a query takes 1.3 ms instead of 1.7. The multilingual e5 agrees: 11
chunks of 260 tokens a second of CPU alone, 10.7 in batches of 2, 9.5 of 4 and 8.6 of 8; texts of 47 tokens 46 alone
and 63 in batches of 4, but chunks are seldom that short.

While recalls are in flight passages come one at a time (`lanes`), from threads that have stepped back. On 10,000 pages
with a hybrid recall every 50 ms, p95 was 36 ms with no passage at all, 42 so, and 51 with two passages at once. With
every core taken by others, in turns: 1.1 times the p95 without passages, with two at once 1.3 times. Ending the pass
under way when a recall begins does not pay: no gain beyond the noise, and of 5.3 vectors a second 1.2 were left. So
passes are ended only where nobody waits for them any more.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Encoding as Encoding
from tokenizers import Tokenizer as Tokenizer

from wikid_daemon.index.familiarity import familiarity
from wikid_daemon.index.inputs import Inputs
from wikid_daemon.index.passes import Ended, Passes
from wikid_daemon.lanes import GivenUp, Lane
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import ModelFolder, Pooling, damaged_files
from wikid_daemon.politeness import step_back

Vector = NDArray[np.float32]

MAX_CHARACTERS_PER_TOKEN = 32
POOLED_OUTPUTS = ("sentence_embedding", "dense_vecs")
TOKEN_OUTPUTS = ("last_hidden_state", "token_embeddings")
UNKNOWN_TOKENS = ("[UNK]", "<unk>")


class EmbedFailed(Exception):
    """One text got no vector. ``index`` is its place in the caller's sequence; the text itself is never repeated."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"text {index} could not be embedded: {reason}")
        self.index = index
        self.reason = reason


class PassagesFailed(Exception):
    """Some texts of a call got no vector. ``vectors`` is in input order, with zeros for those in ``failed``."""

    def __init__(self, vectors: Vector, failed: tuple[EmbedFailed, ...]) -> None:
        super().__init__(f"{len(failed)} of {len(vectors)} texts could not be embedded")
        self.vectors = vectors
        self.failed = failed


class Embedder:
    """Text to unit vectors. Every method may be called from several threads at once; nothing holds a lock.

    A query therefore never waits for running passages; it only shares the cores with the one that is being computed,
    whose thread steps back. `lane` says how many passages may be computed at once.
    """

    def __init__(
        self, folder: ModelFolder, session: Any, tokenizer: Tokenizer, workers: int, lane: Lane | None = None
    ) -> None:
        self.identity = folder.identity
        self.dims = folder.dims
        self.max_tokens = folder.max_tokens
        self._folder = folder
        self._session = session
        self._tokenizer = tokenizer
        self._inputs = Inputs(session)
        self._output = _output_of(session, folder.recipe.layer)
        self._closing = token_id(tokenizer, folder.recipe.closing)
        self._unknown = {tokenizer.token_to_id(token) for token in UNKNOWN_TOKENS}
        self._lane = lane or Lane()
        self._workers = ThreadPoolExecutor(workers, "embed", initializer=step_back)
        self._at_once = workers
        self._ahead = 2 * workers
        self._used = time.monotonic()

    @classmethod
    def load(cls, folder: ModelFolder, workers: int = 2, lane: Lane | None = None) -> Embedder:
        """Open the folder's files after checking their hashes, and run once. `workers` passages are embedded at once.

        Raises ModelUnusable.
        """
        if damaged := damaged_files(folder):
            raise damage(folder, damaged)
        try:
            embedder = cls(folder, open_session(folder), open_tokenizer(folder), workers, lane)
            produced = embedder._produced()
        except Exception as error:  # both libraries raise private exception types
            reason = f"The model {folder.name} does not load ({type(error).__name__}: {error})."
            raise ModelUnusable(reason, folder.remedy) from error
        if produced != folder.dims:
            reason = f"The model {folder.name} makes vectors of {produced} dimensions, its settings say {folder.dims}."
            raise ModelUnusable(reason, folder.remedy)
        return embedder

    def _produced(self) -> int:
        """The dimensions of what the model makes of a text."""
        (output,) = self._session.run([self._output], self._feed("ready"))
        return len(_pooled(output[0], self._folder.pooling))

    def embed_query(self, text: str) -> Vector:
        """The unit vector (dims,) of a query. Raises EmbedFailed."""
        self._used = time.monotonic()
        return self._embed(0, self._folder.query_prefix + text)

    @property
    def unused_seconds(self) -> float:
        """How long ago the last text was embedded, or the model opened."""
        return time.monotonic() - self._used

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        """Unit vectors (n, dims) in input order. Raises PassagesFailed, which carries what could be embedded."""
        vectors = np.zeros((len(texts), self.dims), np.float32)
        failed: list[EmbedFailed] = []
        for index, outcome in enumerate(self.passages(texts)):
            if isinstance(outcome, EmbedFailed):
                failed.append(outcome)
            else:
                vectors[index] = outcome
        if failed:
            raise PassagesFailed(vectors, tuple(failed))
        return vectors

    def passages(self, texts: Iterable[str]) -> Iterator[Vector | EmbedFailed]:
        """One unit vector or failure per text, in order, a few computed ahead: stop whenever you like, and what is
        being computed ends."""
        waiting: deque[tuple[int, Future[Any] | EmbedFailed]] = deque()
        passes = Passes()
        try:
            for index, text in enumerate(texts):
                waiting.append((index, self._begun(index, self._folder.passage_prefix + text, passes)))
                while len(waiting) > self._ahead:
                    yield self._outcome(*waiting.popleft())
            while waiting:
                yield self._outcome(*waiting.popleft())
        finally:
            for _, each in waiting:
                if isinstance(each, Future):
                    each.cancel()
            passes.end()
            self._lane.stir()

    # A thread that has stepped back may be kept from the processor while it has the interpreter's lock, which a recall
    # then waits for. So it does nothing but its pass; what comes before and after is done by whoever wants the vectors.

    def _begun(self, index: int, text: str, passes: Passes) -> Future[Any] | EmbedFailed:
        try:
            feed = self._feed(text)
        except Exception as error:  # noqa: BLE001 - the library raises private exception types
            return _refusal(index, error)
        return self._workers.submit(self._pass_in_turn, feed, passes)

    def _pass_in_turn(self, feed: dict[str, Any], passes: Passes) -> Any:
        with self._lane.piece(self._at_once, lambda: passes.ended):
            return passes.run(self._session, [self._output], feed)

    def _outcome(self, index: int, begun: Future[Any] | EmbedFailed) -> Vector | EmbedFailed:
        self._used = time.monotonic()
        if isinstance(begun, EmbedFailed):
            return begun
        try:
            return self._unit(index, begun.result())
        except EmbedFailed as failure:
            return failure
        except (Ended, GivenUp):
            return EmbedFailed(index, "nobody waits for it any more")
        except Exception as error:  # noqa: BLE001 - the library raises private exception types
            return _refusal(index, error)

    def familiarity(self, text: str) -> float:
        """How well the model's tokenizer knows the language of ``text``: 0 not at all, 1 as its own."""
        clipped = self._clipped(text)
        try:
            encoding = self._tokenizer.encode(clipped, add_special_tokens=False)
        except (TypeError, ValueError):  # not expressible in UTF-8
            return 0.0
        return familiarity(clipped, encoding.offsets, [token in self._unknown for token in encoding.ids])

    def _embed(self, index: int, text: str) -> Vector:
        try:
            outputs = self._session.run([self._output], self._feed(text))
        except Exception as error:  # both libraries raise private exception types
            raise _refusal(index, error) from error
        return self._unit(index, outputs)

    def _feed(self, text: str) -> dict[str, Any]:
        ids = closed(self._tokenizer.encode(self._clipped(text)).ids, self._closing, self.max_tokens)
        return self._inputs.feed(np.array([ids], np.int64))

    def _unit(self, index: int, outputs: Any) -> Vector:
        """The unit vector (dims,) of what the graph gave for one text. Raises EmbedFailed."""
        vector = _pooled(outputs[0][0], self._folder.pooling)
        norm = float(np.linalg.norm(vector))
        if not np.isfinite(norm) or norm == 0:
            raise EmbedFailed(index, "its vector has no direction")
        unit: Vector = (vector / norm).astype(np.float32)
        return unit

    def _clipped(self, text: str) -> str:
        """Bound the tokenizer's work on megabyte lines; no tokenizer packs this much text into its window."""
        return text[: self.max_tokens * MAX_CHARACTERS_PER_TOKEN]


def _refusal(index: int, error: Exception) -> EmbedFailed:
    return EmbedFailed(index, f"the model refused it ({type(error).__name__})")


def damage(folder: ModelFolder, files: Sequence[str]) -> ModelUnusable:
    """The failure of a model whose `files` are not what they were."""
    return ModelUnusable(f"Files of the model {folder.name} are damaged: {', '.join(files)}.", folder.remedy)


def token_id(tokenizer: Tokenizer, token: str) -> int | None:
    """The id of a token; None for no token. ValueError for one that the tokenizer lacks."""
    if not token:
        return None
    found: int | None = tokenizer.token_to_id(token)
    if found is None:
        raise ValueError(f"tokenizer.json has no {token}")
    return found


def closed(ids: list[int], closing: int | None, most: int) -> list[int]:
    """The ids with `closing` at their end, unless the tokenizer wrote it, and no more than `most` of them."""
    if closing is None or (ids and ids[-1] == closing):
        return ids
    return [*ids[: most - 1], closing]


# those in use, by the model's identity and whether they read pairs: the vocabulary of a multilingual model takes 290 MB
_TOKENIZERS: Final[WeakValueDictionary[tuple[str, bool], Tokenizer]] = WeakValueDictionary()
_OPENING: Final = threading.Lock()


def open_tokenizer(folder: ModelFolder, *, pairs: bool = False) -> Tokenizer:
    """The folder's tokenizer, cutting at the model's window and padding nothing. Of `pairs` only the second is cut.

    Whoever opens the same model's at the same time shares one, which any thread may use and none may change.
    """
    with _OPENING:
        shared = _TOKENIZERS.get((folder.identity, pairs))
        if shared is not None:
            return shared
        tokenizer = Tokenizer.from_file(str(folder.tokenizer))
        tokenizer.no_padding()
        tokenizer.enable_truncation(folder.max_tokens, strategy="only_second" if pairs else "longest_first")
        _TOKENIZERS[folder.identity, pairs] = tokenizer
        return tokenizer


def open_session(folder: ModelFolder, threads: int = 1) -> Any:
    """`threads` work on one run, 0 for as many as there are cores. The other options are by measurement on two shared
    cores, default model, against their opposites.

    Without spinning: 42 ms of CPU a chunk instead of 58, a query in 3 ms instead of 11, nothing used while idle instead
    of 24 ms a second. Without the fused skip-and-normalise kernel, which is slower than its parts: 37 ms instead of 42.
    With the arena: as fast as without and no larger, since texts run one at a time.
    """
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(
        str(folder.graph),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=["SkipLayerNormFusion"],
    )


def _output_of(session: Any, layer: str) -> str:
    present = {entry.name for entry in session.get_outputs()}
    possible = POOLED_OUTPUTS if layer else (*POOLED_OUTPUTS, *TOKEN_OUTPUTS)
    found = next((name for name in possible if name in present), None)
    if found is None:
        why = f", which the layer {layer} makes necessary" if layer else ""
        raise ValueError(f"the graph has none of the outputs {', '.join(possible)}{why}")
    return found


def _pooled(output: Vector, pooling: Pooling) -> Vector:
    """A text's vector (dims,) from the graph's: already pooled (dims,), or one per token (tokens, dims)."""
    if output.ndim == 1:
        return output
    pooled: Vector = {"cls": output[0], "last": output[-1]}[pooling] if pooling != "mean" else output.mean(axis=0)
    return pooled
