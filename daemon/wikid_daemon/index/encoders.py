"""The warm embedder: one ONNX Runtime session and one tokenizer, shared by queries and background passages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from wikid_daemon.index.familiarity import familiarity
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import REBUILD_HINT, ModelFolder, Pooling, damaged_files

Vectors = NDArray[np.float32]

BATCH_TEXTS = 8
MAX_CHARACTERS_PER_TOKEN = 32
SMALLEST_NORM = 1e-9
POOLED_OUTPUT = "sentence_embedding"
TOKEN_OUTPUTS = ("last_hidden_state", "token_embeddings")
PAD_TOKENS = ("[PAD]", "<pad>")
UNKNOWN_TOKENS = frozenset({"[UNK]", "<unk>"})


class EmbedFailed(Exception):
    """One text got no vector. ``index`` is its place in the caller's sequence; the text itself is never repeated."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"text {index} could not be embedded: {reason}")
        self.index = index
        self.reason = reason


class PassagesFailed(Exception):
    """Some texts of a call got no vector. ``vectors`` holds the others in input order, zeros where ``failed`` says so."""

    def __init__(self, vectors: Vectors, failed: tuple[EmbedFailed, ...]) -> None:
        super().__init__(f"{len(failed)} of {len(vectors)} texts could not be embedded")
        self.vectors = vectors
        self.failed = failed


@dataclass(frozen=True, slots=True)
class PassageBatch:
    """Vectors (len(indexes), dims) of the texts at ``indexes``, and the texts of this batch that failed."""

    indexes: tuple[int, ...]
    vectors: Vectors
    failed: tuple[EmbedFailed, ...]


class Embedder:
    """Text to unit vectors. All methods may be called from several threads at once; nothing holds a lock.

    A query therefore never waits for a running batch, it only shares the cores with it.
    """

    def __init__(self, folder: ModelFolder, session: Any, tokenizer: Tokenizer) -> None:
        self.identity = folder.identity
        self.dims = folder.dims
        self.max_tokens = folder.max_tokens
        self._folder = folder
        self._session = session
        self._tokenizer = tokenizer
        self._pad = _pad_id(tokenizer)
        self._inputs = frozenset(entry.name for entry in session.get_inputs())
        self._output = _output_of(session)

    @classmethod
    def load(cls, folder: ModelFolder, threads: int = 2) -> Embedder:
        """Open the folder's files, after checking their hashes. Raises ModelUnusable."""
        if damaged := damaged_files(folder):
            raise ModelUnusable(f"Files of the model {folder.name} are damaged: {', '.join(damaged)}.", REBUILD_HINT)
        try:
            tokenizer = Tokenizer.from_file(str(folder.tokenizer))
            session = _open_session(folder, threads)
            embedder = cls(folder, session, _prepared(tokenizer, folder.max_tokens))
            embedder._check()
        except Exception as error:
            reason = f"The model {folder.name} does not load ({type(error).__name__}: {error})."
            raise ModelUnusable(reason, REBUILD_HINT) from error
        return embedder

    def embed_query(self, text: str) -> Vectors:
        """The unit vector (dims,) of a query. Raises EmbedFailed."""
        encodings, failed = self._tokenise([self._folder.query_prefix + text])
        batch = self._embed(encodings) if encodings else PassageBatch((), self._no_vectors(), failed)
        if batch.failed:
            raise batch.failed[0]
        vector: Vectors = batch.vectors[0]
        return vector

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (n, dims) in input order. Raises PassagesFailed, which carries what could be embedded."""
        vectors = np.zeros((len(texts), self.dims), np.float32)
        failed: list[EmbedFailed] = []
        for batch in self.passage_batches(texts):
            vectors[list(batch.indexes)] = batch.vectors
            failed.extend(batch.failed)
        if failed:
            raise PassagesFailed(vectors, tuple(failed))
        return vectors

    def passage_batches(self, texts: Sequence[str]) -> Iterator[PassageBatch]:
        """Embed ``texts`` in batches of similar length, shortest first; stop by not asking for the next one.

        Each index appears exactly once, in ``indexes`` or in ``failed`` of one batch.
        """
        encodings, failed = self._tokenise([self._folder.passage_prefix + text for text in texts])
        if failed:
            yield PassageBatch((), self._no_vectors(), failed)
        order = sorted(encodings, key=lambda index: len(encodings[index].ids))
        for start in range(0, len(order), BATCH_TEXTS):
            yield self._embed({index: encodings[index] for index in order[start : start + BATCH_TEXTS]})

    def familiarity(self, text: str) -> float:
        """How well the model's tokenizer knows the language of ``text``, 0 (not at all) to 1; see `familiarity.py`."""
        try:
            encoding = self._tokenizer.encode(self._clipped(text), add_special_tokens=False)
        except (TypeError, ValueError):  # not expressible in UTF-8
            return 0.0
        return familiarity(text, encoding.offsets, [token in UNKNOWN_TOKENS for token in encoding.tokens])

    def _check(self) -> None:
        """One real run: catches a graph with unknown inputs or other dimensions, and warms the session."""
        produced = len(self.embed_query("ready"))
        if produced != self.dims:
            raise ValueError(f"it makes vectors of {produced} dimensions, its configuration says {self.dims}")

    def _no_vectors(self) -> Vectors:
        return np.empty((0, self.dims), np.float32)

    def _tokenise(self, texts: Sequence[str]) -> tuple[dict[int, Encoding], tuple[EmbedFailed, ...]]:
        clipped = [self._clipped(text) for text in texts]
        try:
            return dict(enumerate(self._tokenizer.encode_batch(clipped))), ()
        except Exception:  # noqa: BLE001 - private exception types; the texts at fault are found one by one
            return self._tokenise_singly(clipped)

    def _tokenise_singly(self, texts: Sequence[str]) -> tuple[dict[int, Encoding], tuple[EmbedFailed, ...]]:
        encodings: dict[int, Encoding] = {}
        failed: list[EmbedFailed] = []
        for index, text in enumerate(texts):
            try:
                encodings[index] = self._tokenizer.encode(text)
            except Exception as error:  # noqa: BLE001 - private exception types; reported per text
                failed.append(EmbedFailed(index, f"it cannot be split into tokens ({type(error).__name__})"))
        return encodings, tuple(failed)

    def _embed(self, encodings: Mapping[int, Encoding]) -> PassageBatch:
        """One batch; when it fails, its texts one by one, so that a bad text costs its mates nothing."""
        try:
            vectors = self._infer(list(encodings.values()))
        except Exception as error:  # noqa: BLE001 - the session raises private types; reported per text
            if len(encodings) > 1:
                return _joined([self._embed({index: encoding}) for index, encoding in encodings.items()])
            (index,) = encodings
            failure = EmbedFailed(index, f"the model refused it ({type(error).__name__})")
            return PassageBatch((), self._no_vectors(), (failure,))
        finite = np.isfinite(vectors).all(axis=1)
        return PassageBatch(
            tuple(index for index, good in zip(encodings, finite, strict=True) if good),
            vectors[finite],
            tuple(
                EmbedFailed(i, "its vector is not finite")
                for i, good in zip(encodings, finite, strict=True)
                if not good
            ),
        )

    def _infer(self, encodings: Sequence[Encoding]) -> Vectors:
        longest = max(len(encoding.ids) for encoding in encodings)
        ids = np.full((len(encodings), longest), self._pad, np.int64)
        mask = np.zeros((len(encodings), longest), np.int64)
        for row, encoding in enumerate(encodings):
            ids[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
        offered = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        feed = {name: offered[name] for name in self._inputs}
        (output,) = self._session.run([self._output], feed)
        return _unit(output if output.ndim == 2 else _pooled(output, mask, self._folder.pooling))

    def _clipped(self, text: str) -> str:
        """Bound the tokenizer's work on megabyte lines; no tokenizer packs this much text into its window."""
        return text[: self.max_tokens * MAX_CHARACTERS_PER_TOKEN]


def _open_session(folder: ModelFolder, threads: int) -> Any:
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(folder.graph), options, providers=["CPUExecutionProvider"])


def _prepared(tokenizer: Tokenizer, max_tokens: int) -> Tokenizer:
    """Replace whatever cutting and padding the file presets: texts are cut at the model's window and padded per batch."""
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def _pad_id(tokenizer: Tokenizer) -> int:
    return next((found for token in PAD_TOKENS if (found := tokenizer.token_to_id(token)) is not None), 0)


def _output_of(session: Any) -> str:
    present = {entry.name for entry in session.get_outputs()}
    for name in (POOLED_OUTPUT, *TOKEN_OUTPUTS):
        if name in present:
            return name
    raise ValueError(f"the graph has none of the outputs {POOLED_OUTPUT}, {', '.join(TOKEN_OUTPUTS)}")


def _pooled(tokens: Vectors, mask: NDArray[np.int64], pooling: Pooling) -> Vectors:
    """Token vectors (n, length, dims) to text vectors (n, dims)."""
    if pooling == "cls":
        return tokens[:, 0]
    weights = mask[:, :, None].astype(np.float32)
    mean: Vectors = (tokens * weights).sum(axis=1) / weights.sum(axis=1)
    return mean


def _unit(vectors: Vectors) -> Vectors:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = (vectors / np.maximum(norms, SMALLEST_NORM)).astype(np.float32)
    return scaled


def _joined(batches: Sequence[PassageBatch]) -> PassageBatch:
    return PassageBatch(
        tuple(index for batch in batches for index in batch.indexes),
        np.concatenate([batch.vectors for batch in batches]),
        tuple(failure for batch in batches for failure in batch.failed),
    )
