"""What the families of models people use most expect of a text, for what a model's own files leave out.

Many exports come without the files that say how to pool and what to write before a query; these rows are from the
models' own cards. A row never overrides what a file says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

Pooling = Literal["mean", "cls", "last"]
Verdict = Literal["logits", "yes_no"]
"""How a reranker answers: one or two logits for a pair, or the words yes and no after a dialogue."""

_HUB: Final = "https://huggingface.co/"
_ENGLISH_SEARCH: Final = "Represent this sentence for searching relevant passages: "
_WEB_SEARCH: Final = "Given a web search query, retrieve relevant passages that answer the query"


@dataclass(frozen=True, slots=True)
class Dialogue:
    """What is written around query and passage where a language model judges them."""

    before: str
    between: str
    after: str


@dataclass(frozen=True, slots=True)
class Preset:
    """One family: what of a model's name marks it, and what it expects; None where it says nothing.

    ``closing`` is the token that ends each text. ``source`` is where this is written.
    """

    family: str
    name: re.Pattern[str]
    source: str
    pooling: Pooling | None = None
    query_prefix: str | None = None
    passage_prefix: str | None = None
    max_tokens: int | None = None
    closing: str | None = None
    verdict: Verdict | None = None
    dialogue: Dialogue | None = None


def _named(pattern: str) -> re.Pattern[str]:
    """Whole words of a model's own name, whoever publishes it."""
    return re.compile(rf"(?:^|[_.-]){pattern}(?![^\W_])", re.IGNORECASE)


PRESETS: Final = (
    Preset("all-MiniLM", _named("all-minilm"), _HUB + "sentence-transformers/all-MiniLM-L6-v2", "mean", "", "", 256),
    Preset(
        "E5 instruct",
        _named(r"e5-\w+-instruct"),
        _HUB + "intfloat/multilingual-e5-large-instruct",
        "mean",
        f"Instruct: {_WEB_SEARCH}\nQuery: ",
        "",
        512,
    ),
    Preset(
        "E5",
        _named(r"e5-(?:small|base|large)"),
        _HUB + "intfloat/multilingual-e5-small",
        "mean",
        "query: ",
        "passage: ",
        512,
    ),
    Preset("BGE-M3", _named(r"bge-m3"), _HUB + "BAAI/bge-m3", "cls", "", "", 8_192),
    Preset(
        "BGE English",
        _named(r"bge-(?:small|base|large)-en"),
        _HUB + "BAAI/bge-small-en-v1.5",
        "cls",
        _ENGLISH_SEARCH,
        "",
        512,
    ),
    Preset(
        "BGE Chinese",
        _named(r"bge-(?:small|base|large)-zh"),
        _HUB + "BAAI/bge-small-zh-v1.5",
        "cls",
        "为这个句子生成表示以用于检索相关文章：",
        "",
        512,
    ),
    Preset(
        "GTE 1.5 and later",
        _named(r"gte-(?:\w+-en-v1\.5|multilingual-base|modernbert-base)"),
        _HUB + "Alibaba-NLP/gte-base-en-v1.5",
        "cls",
        "",
        "",
        8_192,
    ),
    Preset("GTE", _named(r"gte-(?:small|base|large)"), _HUB + "thenlper/gte-small", "mean", "", "", 512),
    Preset(
        "Arctic Embed 2",
        _named(r"arctic-embed-[ml]-v2"),
        _HUB + "Snowflake/snowflake-arctic-embed-m-v2.0",
        "cls",
        "query: ",
        "",
        8_192,
    ),
    Preset(
        "Arctic Embed",
        _named(r"arctic-embed-(?:xs|s|m|l)"),
        _HUB + "Snowflake/snowflake-arctic-embed-s",
        "cls",
        _ENGLISH_SEARCH,
        "",
        512,
    ),
    Preset(
        "Qwen3 Embedding",
        _named("qwen3-embedding"),
        _HUB + "Qwen/Qwen3-Embedding-0.6B",
        "last",
        f"Instruct: {_WEB_SEARCH}\nQuery:",
        "",
        8_192,
        closing="<|endoftext|>",
    ),
    Preset(
        "MS MARCO MiniLM",
        _named("ms-marco-minilm"),
        _HUB + "cross-encoder/ms-marco-MiniLM-L6-v2",
        max_tokens=512,
        verdict="logits",
    ),
    Preset("BGE reranker", _named("bge-reranker"), _HUB + "BAAI/bge-reranker-v2-m3", max_tokens=512, verdict="logits"),
    Preset(
        "Qwen3 Reranker",
        _named("qwen3-reranker"),
        _HUB + "Qwen/Qwen3-Reranker-0.6B",
        max_tokens=8_192,
        verdict="yes_no",
        dialogue=Dialogue(
            before="<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
            'Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
            f"<Instruct>: {_WEB_SEARCH}\n<Query>: ",
            between="\n<Document>: ",
            after="<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
        ),
    ),
)
NONE: Final = Preset("", re.compile("(?!)"), "")


def preset_for(name: str) -> Preset:
    """The row of a model's name, ``publisher/name`` or a folder's; an empty one for an unknown family."""
    own = name.rpartition("/")[2]
    return next((each for each in PRESETS if each.name.search(own)), NONE)
