"""How a model wants its texts: what its own files say, what its family's preset adds, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wikid_daemon.models.declared import Recipe, read_recipe
from wikid_daemon.models.presets import NONE, PRESETS, preset_for

BERT: dict[str, Any] = {"model_type": "bert", "hidden_size": 384, "max_position_embeddings": 512}
ENGLISH_SEARCH = "Represent this sentence for searching relevant passages: "


def folder(root: Path, **files: Any) -> Path:
    """A folder of JSON files; in their names ``__`` is a dot and ``_in_`` stands before the folder's name."""
    for name, content in {"config__json": BERT, **files}.items():
        place, _, inside = name.partition("_in_")
        path = root / inside / place.replace("__", ".") if inside else root / place.replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return root


def recipe(root: Path, name: str = "some/model", **files: Any) -> Recipe:
    return read_recipe(folder(root, **files), name)[0]


class TestFamilies:
    @pytest.mark.parametrize(
        ("name", "pooling", "query", "passage", "tokens"),
        [
            ("sentence-transformers/all-MiniLM-L6-v2", "mean", "", "", 256),
            ("Xenova/all-MiniLM-L12-v2", "mean", "", "", 256),
            ("intfloat/multilingual-e5-small", "mean", "query: ", "passage: ", 512),
            ("intfloat/e5-base-v2", "mean", "query: ", "passage: ", 512),
            ("BAAI/bge-small-en-v1.5", "cls", ENGLISH_SEARCH, "", 512),
            ("BAAI/bge-base-zh-v1.5", "cls", "为这个句子生成表示以用于检索相关文章：", "", 512),
            ("BAAI/bge-m3", "cls", "", "", 8192),
            ("thenlper/gte-small", "mean", "", "", 512),
            ("Alibaba-NLP/gte-base-en-v1.5", "cls", "", "", 8192),
            ("Alibaba-NLP/gte-multilingual-base", "cls", "", "", 8192),
            ("Snowflake/snowflake-arctic-embed-s", "cls", ENGLISH_SEARCH, "", 512),
            ("Snowflake/snowflake-arctic-embed-m-v1.5", "cls", ENGLISH_SEARCH, "", 512),
            ("Snowflake/snowflake-arctic-embed-l-v2.0", "cls", "query: ", "", 8192),
        ],
    )
    def test_an_export_without_settings_is_read_as_its_family_is(
        self, tmp_path: Path, name: str, pooling: str, query: str, passage: str, tokens: int
    ) -> None:
        found = recipe(tmp_path, name, config__json=BERT | {"max_position_embeddings": 8192})
        assert (found.pooling, found.query_prefix, found.passage_prefix) == (pooling, query, passage)
        assert found.max_tokens == tokens

    def test_a_language_model_embeds_by_its_last_token_behind_an_instruction(self, tmp_path: Path) -> None:
        found = recipe(tmp_path, "onnx-community/Qwen3-Embedding-0.6B-ONNX")
        assert (found.pooling, found.closing, found.passage_prefix) == ("last", "<|endoftext|>", "")
        assert found.query_prefix.startswith("Instruct: ")
        assert found.query_prefix.endswith("\nQuery:")

    def test_an_instructed_e5_is_not_the_plain_one(self, tmp_path: Path) -> None:
        found = recipe(tmp_path, "intfloat/multilingual-e5-large-instruct")
        assert found.query_prefix.startswith("Instruct: ")
        assert found.passage_prefix == ""

    @pytest.mark.parametrize(
        ("name", "verdict"),
        [
            ("cross-encoder/ms-marco-MiniLM-L6-v2", "logits"),
            ("BAAI/bge-reranker-v2-m3", "logits"),
            ("zhiqing/Qwen3-Reranker-0.6B-ONNX", "yes_no"),
        ],
    )
    def test_rerankers_answer_as_their_family_does(self, tmp_path: Path, name: str, verdict: str) -> None:
        found = recipe(tmp_path, name)
        assert found.verdict == verdict
        assert (found.dialogue is not None) == (verdict == "yes_no")

    @pytest.mark.parametrize(
        "name", ["someone/gte-like", "acme/bge", "made/e5", "x/qwen3-coder", "all-mini", "a/big-e5-large2vec/y"]
    )
    def test_a_name_that_only_looks_alike_is_of_no_family(self, name: str) -> None:
        assert preset_for(name) is NONE

    def test_every_row_says_where_it_is_written(self) -> None:
        for each in PRESETS:
            assert each.source.startswith("https://"), each.family
            assert preset_for(each.source) is each

    def test_a_renamed_folder_is_known_by_what_its_configuration_was_made_from(self, tmp_path: Path) -> None:
        found = recipe(tmp_path, "mine", config__json=BERT | {"_name_or_path": "intfloat/multilingual-e5-small"})
        assert found.query_prefix == "query: "

    def test_an_unknown_model_is_pooled_by_the_mean_without_prefixes(self, tmp_path: Path) -> None:
        assert recipe(tmp_path) == Recipe(512)


class TestOwnFiles:
    def test_they_win_over_the_preset(self, tmp_path: Path) -> None:
        found = recipe(
            tmp_path,
            "BAAI/bge-small-en-v1.5",
            config__json_in_1_Pooling={"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False},
            config_sentence_transformers__json={"prompts": {"query": "find: ", "document": "text: "}},
            sentence_bert_config__json={"max_seq_length": 128},
        )
        assert (found.pooling, found.query_prefix, found.passage_prefix) == ("mean", "find: ", "text: ")
        assert found.max_tokens == 128

    def test_no_prompts_at_all_leaves_the_preset_its_say(self, tmp_path: Path) -> None:
        whole = {"prompts": {}, "similarity_fn_name": "cosine"}
        found = recipe(tmp_path, "intfloat/e5-small", config_sentence_transformers__json=whole)
        assert found.passage_prefix == "passage: "

    @pytest.mark.parametrize(
        ("said", "pooling"),
        [
            ({"pooling_mode_cls_token": True}, "cls"),
            ({"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}, "last"),
            ({"pooling_mode": "mean"}, "mean"),
            ({"pooling_mode": "lasttoken"}, "last"),
        ],
    )
    def test_every_pooling_it_knows(self, tmp_path: Path, said: dict[str, object], pooling: str) -> None:
        assert recipe(tmp_path, config__json_in_1_Pooling=said).pooling == pooling

    def test_the_pooling_lies_where_the_modules_say(self, tmp_path: Path) -> None:
        modules = [
            {"path": "", "type": "sentence_transformers.models.Transformer"},
            {"path": "7_Pool", "type": "sentence_transformers.models.Pooling"},
            {"path": "8", "type": "sentence_transformers.models.Normalize"},
        ]
        said = {"pooling_mode_cls_token": True}
        assert recipe(tmp_path, modules__json=modules, config__json_in_7_Pool=said).pooling == "cls"

    @pytest.mark.parametrize(
        ("config", "files", "tokens"),
        [
            ({}, {}, 512),
            ({"max_position_embeddings": 128}, {}, 128),
            ({"model_type": "xlm-roberta", "max_position_embeddings": 514}, {}, 512),
            (
                {"model_type": "xlm-roberta", "max_position_embeddings": 514},
                {"sentence_bert_config__json": {"max_seq_length": 514}},
                512,
            ),
            ({"max_position_embeddings": 8192}, {"tokenizer_config__json": {"model_max_length": 1e30}}, 512),
            ({"max_position_embeddings": 8192}, {"tokenizer_config__json": {"model_max_length": 384}}, 384),
            ({"max_position_embeddings": 8192}, {"sentence_bert_config__json": {"max_seq_length": 8192}}, 8192),
            ({"max_position_embeddings": 512}, {"sentence_bert_config__json": {"max_seq_length": 9000}}, 512),
        ],
    )
    def test_the_window_is_the_smallest_that_is_said(
        self, tmp_path: Path, config: dict[str, Any], files: dict[str, Any], tokens: int
    ) -> None:
        assert recipe(tmp_path, config__json=BERT | config, **files).max_tokens == tokens

    def test_padding_for_batches(self, tmp_path: Path) -> None:
        config = BERT | {"pad_token_id": 1}
        found = recipe(tmp_path, config__json=config, tokenizer_config__json={"padding_side": "left"})
        assert (found.padding, found.pads_left) == (1, True)

    @pytest.mark.parametrize("key", ["dim", "d_model", "n_embd"])
    def test_dimensions_have_other_names_in_other_architectures(self, tmp_path: Path, key: str) -> None:
        assert read_recipe(folder(tmp_path, config__json={key: 96}), "m")[1] == 96

    def test_a_layer_behind_the_pooling_is_told_with_its_dimensions(self, tmp_path: Path) -> None:
        modules = [{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]
        dense = {"in_features": 384, "out_features": 64}
        found, dims = read_recipe(folder(tmp_path, modules__json=modules, config__json_in_2_Dense=dense), "m")
        assert (found.layer, dims) == ("2_Dense", 64)


class TestRefused:
    @pytest.mark.parametrize(
        ("files", "words"),
        [
            ({"config__json_in_1_Pooling": {"pooling_mode_max_tokens": True}}, "max_tokens"),
            (
                {"config__json_in_1_Pooling": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}},
                "cls_token, mean_tokens",
            ),
            ({"modules__json": [{"path": "", "type": "sentence_transformers.models.LSTM"}]}, "LSTM"),
            ({"modules__json": "{"}, "modules.json"),
            ({"modules__json": [3]}, "modules.json"),
            ({"sentence_bert_config__json": "[]"}, "sentence_bert_config.json does not hold an object"),
            ({"tokenizer_config__json": "{"}, "tokenizer_config.json is not JSON"),
            ({"config_sentence_transformers__json": {"similarity_fn_name": "dot"}}, "by dot"),
            (
                {
                    "config__json_in_1_Pooling": {"include_prompt": False},
                    "config_sentence_transformers__json": {"prompts": {"query": "q: "}},
                },
                "leaves the prompt out",
            ),
        ],
    )
    def test_what_it_does_not_do_is_named(self, tmp_path: Path, files: dict[str, Any], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            recipe(tmp_path, **files)

    def test_products_of_unit_vectors_are_cosines(self, tmp_path: Path) -> None:
        modules = [{"path": "2", "type": "sentence_transformers.models.Normalize"}]
        whole = {"similarity_fn_name": "dot"}
        assert recipe(tmp_path, modules__json=modules, config_sentence_transformers__json=whole) == Recipe(512)

    def test_a_configuration_without_dimensions(self, tmp_path: Path) -> None:
        with pytest.raises(KeyError, match="hidden_size"):
            recipe(tmp_path, config__json={"model_type": "bert"})
