"""The embedder over a tiny model: what a vector is, what a failure is, and what familiarity measures."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiny_model as tiny
from wikid_daemon.index.encoders import Embedder, EmbedFailed, PassagesFailed
from wikid_daemon.index.familiarity import familiarity
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import ModelFolder, read_model_folder

WEIGHTS = tiny.tiny_weights()
POISON = tiny.PIECES.index("poison")
PROMPTS = '{"prompts": {"query": "search ", "passage": "note "}}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return read_model_folder(tiny.export_folder(tmp_path_factory.mktemp("m") / "tiny", WEIGHTS))


@pytest.fixture(scope="module")
def embedder(folder: ModelFolder) -> Embedder:
    return Embedder.load(folder, workers=1)


def session_of(run: Any, output: str = "sentence_embedding", inputs: tuple[str, ...] = ("input_ids",)) -> Any:
    """Stands in for a session: ``run`` gets the token ids of a text."""
    return SimpleNamespace(
        get_inputs=lambda: [SimpleNamespace(name=name) for name in inputs],
        get_outputs=lambda: [SimpleNamespace(name="something"), SimpleNamespace(name=output)],
        run=lambda _outputs, feed, _options=None: [np.asarray(run(feed["input_ids"][0]), np.float32)[None]],
    )


def poisoned(ids: np.ndarray) -> np.ndarray:
    if POISON in ids:
        raise RuntimeError("poison")
    return np.ones(tiny.HIDDEN)


class TestVectors:
    def test_a_vector_is_the_models_own(self, embedder: Embedder) -> None:
        ids = [2, *(tiny.PIECES.index(word) for word in ("the", "cat", "sat")), 3]
        expected = tiny.sentence_vector(tiny.forward(WEIGHTS, ids))
        vector = embedder.embed_query("The cat sat")
        assert vector.dtype == np.float32
        assert vector.shape == (embedder.dims,) == (tiny.HIDDEN,)
        assert vector @ expected > 0.98
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)

    def test_passages_come_back_in_order(self, embedder: Embedder) -> None:
        texts = ["the mat", "cat", "the cat sat on the mat", "", "on"]
        vectors = embedder.embed_passages(texts)
        assert vectors.shape == (5, tiny.HIDDEN)
        for text, vector in zip(texts, vectors, strict=True):
            np.testing.assert_array_equal(vector, embedder.embed_passages([text])[0])
        assert embedder.embed_passages([]).shape == (0, tiny.HIDDEN)

    @settings(deadline=None, max_examples=40)
    @given(st.text(max_size=200))
    def test_any_text_has_one_unit_vector(self, embedder: Embedder, text: str) -> None:
        vector = embedder.embed_query(text)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
        np.testing.assert_array_equal(vector, embedder.embed_query(text))

    def test_text_past_the_window_counts_for_nothing(self, embedder: Embedder) -> None:
        window = "cat " * embedder.max_tokens
        np.testing.assert_array_equal(embedder.embed_query(window), embedder.embed_query(window + "mat " * 100_000))
        assert not np.array_equal(embedder.embed_query("cat " * 40), embedder.embed_query("cat " * 20 + "mat " * 20))

    def test_threads_share_it(self, embedder: Embedder) -> None:
        texts = ["the cat", "sat on the mat", "note", "search the note"] * 8
        expected = embedder.embed_passages(texts)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(embedder.embed_query, texts))
        np.testing.assert_array_equal(np.stack(found), expected)

    def test_prefixes_mark_queries_and_passages(self, embedder: Embedder, tmp_path: Path) -> None:
        path = tiny.export_folder(tmp_path / "m", WEIGHTS, config_sentence_transformers__json=PROMPTS)
        prefixed = Embedder.load(read_model_folder(path), workers=1)
        np.testing.assert_array_equal(prefixed.embed_query("cat"), embedder.embed_query("search cat"))
        np.testing.assert_array_equal(prefixed.embed_passages(["cat"])[0], embedder.embed_query("note cat"))

    @pytest.mark.parametrize(("pooling", "expected"), [("mean", [3, 1]), ("cls", [1, 0])])
    def test_token_outputs_are_pooled_as_the_folder_says(
        self, folder: ModelFolder, pooling: Any, expected: Any
    ) -> None:
        session = session_of(lambda ids: [[1, 0], *[[4, 2]] * (len(ids) - 2), [4, 1]], output="last_hidden_state")
        pooled = replace(folder, recipe=replace(folder.recipe, pooling=pooling), dims=2)
        embedder = Embedder(pooled, session, tiny.tiny_tokenizer(), workers=1)
        found = embedder.embed_query("cat")
        np.testing.assert_allclose(found, np.array(expected) / np.linalg.norm(expected), rtol=1e-6)

    def test_only_declared_inputs_are_fed(self, folder: ModelFolder) -> None:
        fed: list[set[str]] = []
        session = session_of(poisoned, inputs=("input_ids", "token_type_ids"))

        def run(_outputs: object, feed: dict[str, Any]) -> list[np.ndarray]:
            fed.append(set(feed))
            return [np.ones((1, tiny.HIDDEN), np.float32)]

        session.run = run
        Embedder(folder, session, tiny.tiny_tokenizer(), workers=1).embed_query("cat")
        assert fed == [{"input_ids", "token_type_ids"}]


class TestFailures:
    @pytest.fixture
    def fragile(self, folder: ModelFolder) -> Embedder:
        return Embedder(folder, session_of(poisoned), tiny.tiny_tokenizer(), workers=1)

    def test_a_bad_text_costs_the_others_nothing(self, fragile: Embedder) -> None:
        with pytest.raises(PassagesFailed) as caught:
            fragile.embed_passages(["cat", "poison", "mat", "bad \ud800 text"])
        assert [failure.index for failure in caught.value.failed] == [1, 3]
        np.testing.assert_allclose(np.linalg.norm(caught.value.vectors, axis=1), [1, 0, 1, 0], atol=1e-6)

    def test_failures_arrive_in_place(self, fragile: Embedder) -> None:
        kinds = [isinstance(outcome, EmbedFailed) for outcome in fragile.passages(["poison", "cat", "poison"])]
        assert kinds == [True, False, True]

    def test_a_bad_query_is_an_error_without_its_text(self, fragile: Embedder) -> None:
        with pytest.raises(EmbedFailed) as caught:
            fragile.embed_query("secret poison")
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
    def test_a_vector_without_direction_is_a_failure(self, folder: ModelFolder, value: float) -> None:
        session = session_of(lambda _ids: np.full(tiny.HIDDEN, value))
        with pytest.raises(EmbedFailed, match="direction"):
            Embedder(folder, session, tiny.tiny_tokenizer(), workers=1).embed_query("cat")

    def test_stopping_early_computes_little_more(self, folder: ModelFolder) -> None:
        seen: list[int] = []

        def run(ids: np.ndarray) -> np.ndarray:
            seen.append(len(ids))
            return np.ones(tiny.HIDDEN)

        stream = Embedder(folder, session_of(run), tiny.tiny_tokenizer(), workers=1).passages(["cat"] * 100)
        next(stream)
        next(stream)
        del stream
        assert len(seen) <= 2 + 2


class TestLoading:
    def test_damage_is_found_before_use(self, folder: ModelFolder, tmp_path: Path) -> None:
        copy = read_model_folder(Path(shutil.copytree(folder.path, tmp_path / "tiny")))
        copy.graph.write_bytes(copy.graph.read_bytes()[:-1])
        with pytest.raises(ModelUnusable, match=r"model\.onnx"):
            Embedder.load(copy)

    @pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
    def test_a_file_that_is_something_else(self, folder: ModelFolder, tmp_path: Path, name: str) -> None:
        path = Path(shutil.copytree(folder.path, tmp_path / "tiny"))
        (path / name).write_text("{}")
        with pytest.raises(ModelUnusable, match="does not load"):
            Embedder.load(read_model_folder(path))

    def test_other_dimensions_than_promised(self, folder: ModelFolder) -> None:
        with pytest.raises(ModelUnusable, match="32 dimensions"):
            Embedder.load(replace(folder, dims=768))

    def test_a_graph_without_vectors_is_refused(self, folder: ModelFolder) -> None:
        with pytest.raises(ValueError, match="last_hidden_state"):
            Embedder(folder, session_of(poisoned, output="logits"), tiny.tiny_tokenizer(), workers=1)


class TestFamiliarity:
    def test_known_words_are_familiar_and_letters_alone_are_not(self, embedder: Embedder) -> None:
        assert embedder.familiarity("The cat sat on the mat.") == 1
        assert embedder.familiarity("xyzzyqwk") == 0
        assert embedder.familiarity("ΔΣΩ") == 0
        assert 0 < embedder.familiarity("cat xyzzyqwk") < embedder.familiarity("cat mat xyz") < 1

    def test_an_unspaced_script_cut_into_characters_is_unfamiliar(self, embedder: Embedder) -> None:
        assert embedder.familiarity("猫") == 0
        assert embedder.familiarity("猫猫猫") == 0

    def test_long_pieces_make_an_unspaced_script_familiar(self) -> None:
        assert familiarity("データベース", [(0, 3), (3, 6)], [False, False]) == 1

    def test_digits_and_punctuation_say_nothing(self, embedder: Embedder) -> None:
        assert embedder.familiarity("") == 1
        assert embedder.familiarity("1.0.21 ???") == 1
        assert embedder.familiarity("cat 7 8 9 ???") == 1

    def test_what_cannot_be_encoded_is_unfamiliar(self, embedder: Embedder) -> None:
        assert embedder.familiarity("\ud800") == 0

    @settings(deadline=None, max_examples=60)
    @given(st.text(max_size=120))
    def test_it_is_a_share(self, embedder: Embedder, text: str) -> None:
        assert 0 <= embedder.familiarity(text) <= 1
