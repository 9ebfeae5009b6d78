"""The warm embedder: one ONNX Runtime session and one tokenizer, shared by queries and background passages.

Texts run one at a time, never padded into a batch. Measured on two cores with the default model and chunks of 160 words
that is also the cheapest: 22 ms of CPU a chunk, against 34 in batches of 4, 40 of 8 and 46 of 16, whose activations no
longer fit the cache; texts of 25 words cost 3.5 ms alone and 2.9 in batches of 8. It keeps the memory arena small (the
whole embedder takes 75 MB, with batches of 8 163), and a vector depends on its text alone, which it otherwise does not:
int8 takes its scales from the whole batch. Each run has one thread and two passages run at once: 132 chunks/s on two
cores against 72 with both cores on one text, and a query takes 1.3 ms instead of 1.7. While somebody asks, passages
take turns and leave a core to the recalls: those then take 14 ms each instead of 19, or 9 with no passage at all.
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
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import ModelFolder, Pooling, damaged_files

Vector = NDArray[np.float32]

ASKED_SECONDS: Final = 0.2  # for so long after a query the next one is expected
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

    A query therefore never waits for running passages; it only shares the cores with the one that is being computed.
    """

    def __init__(self, folder: ModelFolder, session: Any, tokenizer: Tokenizer, workers: int) -> None:
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
        self._workers = ThreadPoolExecutor(workers, "embed")
        self._ahead = 2 * workers
        self._asked = float("-inf")

    @classmethod
    def load(cls, folder: ModelFolder, workers: int = 2) -> Embedder:
        """Open the folder's files after checking their hashes, and run once. `workers` passages are embedded at once.

        Raises ModelUnusable.
        """
        if damaged := damaged_files(folder):
            raise damage(folder, damaged)
        try:
            embedder = cls(folder, open_session(folder), open_tokenizer(folder), workers)
            produced = len(embedder._infer("ready"))
        except Exception as error:  # both libraries raise private exception types
            reason = f"The model {folder.name} does not load ({type(error).__name__}: {error})."
            raise ModelUnusable(reason, folder.remedy) from error
        if produced != folder.dims:
            reason = f"The model {folder.name} makes vectors of {produced} dimensions, its settings say {folder.dims}."
            raise ModelUnusable(reason, folder.remedy)
        return embedder

    def embed_query(self, text: str) -> Vector:
        """The unit vector (dims,) of a query. Raises EmbedFailed."""
        self._asked = time.monotonic()
        return self._embed(0, self._folder.query_prefix + text)

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
        """One unit vector or failure per text, in order, a few computed ahead: stop whenever you like. While queries
        come, each text waits for the one before."""
        waiting: deque[Future[Vector | EmbedFailed]] = deque()
        try:
            for index, text in enumerate(texts):
                waiting.append(self._workers.submit(self._embed_or_tell, index, self._folder.passage_prefix + text))
                while len(waiting) > (0 if self._asked_lately else self._ahead):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()

    @property
    def _asked_lately(self) -> bool:
        return time.monotonic() < self._asked + ASKED_SECONDS

    def _embed_or_tell(self, index: int, text: str) -> Vector | EmbedFailed:
        try:
            return self._embed(index, text)
        except EmbedFailed as failure:
            return failure

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
            vector = self._infer(text)
        except Exception as error:  # both libraries raise private exception types
            raise EmbedFailed(index, f"the model refused it ({type(error).__name__})") from error
        norm = float(np.linalg.norm(vector))
        if not np.isfinite(norm) or norm == 0:
            raise EmbedFailed(index, "its vector has no direction")
        unit: Vector = (vector / norm).astype(np.float32)
        return unit

    def _infer(self, text: str) -> Vector:
        ids = closed(self._tokenizer.encode(self._clipped(text)).ids, self._closing, self.max_tokens)
        (output,) = self._session.run([self._output], self._inputs.feed(np.array([ids], np.int64)))
        return _pooled(output[0], self._folder.pooling)

    def _clipped(self, text: str) -> str:
        """Bound the tokenizer's work on megabyte lines; no tokenizer packs this much text into its window."""
        return text[: self.max_tokens * MAX_CHARACTERS_PER_TOKEN]


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
