"""How a model wants its texts, read from the files of a folder laid out as Sentence Transformers does.

What the files leave out comes from the family's preset. What they ask for and wikid does not do is refused by its name
rather than passed over: a vector made in another way would be wrong without looking so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wikid_daemon.models.presets import NONE, Dialogue, Pooling, Preset, Verdict, preset_for

UNSAID_MAX_TOKENS: Final = 512
_HIDDEN_SIZES: Final = ("hidden_size", "dim", "d_model", "n_embd")
_POSITIONS: Final = ("max_position_embeddings", "n_positions", "max_seq_length")
# these number a text's positions from two on
_FROM_TWO: Final = frozenset({"roberta", "xlm-roberta", "camembert", "mpnet"})
_POOLINGS: Final[Mapping[str, Pooling]] = {
    "mean_tokens": "mean",
    "mean": "mean",
    "cls_token": "cls",
    "cls": "cls",
    "lasttoken": "last",
    "last_token": "last",
}
_PLAIN_MODULES: Final = frozenset({"Transformer", "Pooling", "Normalize"})
_BY_ANGLE: Final = frozenset({None, "cosine", "cos_sim"})


@dataclass(frozen=True, slots=True)
class Recipe:
    """From text to vector, or from a pair to a score.

    ``closing`` is the token that ends each text, where the tokenizer may leave it out. ``layer`` names what follows the
    pooling and only the graph itself can compute. ``padding`` is the token that fills up a batch, on the left where
    ``pads_left``.
    """

    max_tokens: int
    pooling: Pooling = "mean"
    query_prefix: str = ""
    passage_prefix: str = ""
    closing: str = ""
    layer: str = ""
    padding: int = 0
    pads_left: bool = False
    verdict: Verdict = "logits"
    dialogue: Dialogue | None = None


def read_recipe(path: Path, name: str) -> tuple[Recipe, int]:
    """The recipe of the model in the folder ``path`` and the dimensions of its vectors. ValueError, KeyError, OSError,
    each naming the file."""
    files = _Files(path)
    preset = preset_for(name)
    config = files.required("config.json")
    if preset is NONE and isinstance(known_as := config.get("_name_or_path"), str):
        preset = preset_for(known_as)
    modules = _modules(path)
    pooling_place = next((place for kind, place in modules if kind == "Pooling"), "1_Pooling")
    pooling = files.optional(f"{pooling_place}/config.json")
    sentence = files.optional("sentence_bert_config.json")
    whole = files.optional("config_sentence_transformers.json")
    tokens = files.optional("tokenizer_config.json")
    layer, dims = _layer(files, modules, pooling, config)
    _refuse_other_likeness(whole, modules)
    query, passage = _prefixes(whole, preset)
    chosen = _pooling(pooling) or preset.pooling or "mean"
    if chosen == "mean" and pooling.get("include_prompt") is False and (query or passage):
        raise ValueError(f"{pooling_place}/config.json leaves the prompt out of the mean, which is not supported")
    return (
        Recipe(
            max_tokens=_max_tokens(config, sentence, tokens, preset),
            pooling=chosen,
            query_prefix=query,
            passage_prefix=passage,
            closing=preset.closing or "",
            layer=layer,
            padding=_padding(config),
            pads_left=tokens.get("padding_side") == "left",
            verdict=_verdict(config, preset),
            dialogue=preset.dialogue,
        ),
        dims,
    )


class _Files:
    """The settings files of one folder; what is wrong with one is said with its name."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def required(self, name: str) -> dict[str, Any]:
        return read_object(self._path / name, name)

    def optional(self, name: str) -> dict[str, Any]:
        return self.required(name) if (self._path / name).is_file() else {}


def read_object(path: Path, name: str) -> dict[str, Any]:
    """The JSON object in a file, called ``name`` in the ValueError that says it holds none."""
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is not JSON that can be read") from error
    if not isinstance(loaded, dict):
        raise ValueError(f"{name} does not hold an object")
    return loaded


def _modules(path: Path) -> Sequence[tuple[str, str]]:
    """The kind and folder of each part of the model, in order; none where the folder does not say."""
    file = path / "modules.json"
    if not file.is_file():
        return ()
    try:
        listed = json.loads(file.read_text(encoding="utf-8"))
        return [(str(each["type"]).rpartition(".")[2], str(each.get("path", ""))) for each in listed]
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise ValueError("modules.json is not a list of modules") from error


def _layer(
    files: _Files, modules: Sequence[tuple[str, str]], pooling: Mapping[str, Any], config: Mapping[str, Any]
) -> tuple[str, int]:
    """What follows the pooling, and the dimensions behind it."""
    found, dims = "", pooling.get("word_embedding_dimension") or pooling.get("embedding_dimension")
    for kind, place in modules:
        if kind == "Dense":
            found, dims = place, files.required(f"{place}/config.json").get("out_features")
        elif kind not in _PLAIN_MODULES:
            raise ValueError(f"modules.json asks for {kind}, which is not supported")
    if dims is None:
        dims = next((config[key] for key in _HIDDEN_SIZES if key in config), None)
    if dims is None:
        raise KeyError("hidden_size in config.json")
    return found, int(dims)


def _refuse_other_likeness(whole: Mapping[str, Any], modules: Sequence[tuple[str, str]]) -> None:
    """Vectors are compared by their angle, which is the same as their product only where they have unit length."""
    likeness = whole.get("similarity_fn_name")
    if likeness not in _BY_ANGLE and not any(kind == "Normalize" for kind, _ in modules):
        raise ValueError(f"config_sentence_transformers.json compares vectors by {likeness}, which is not supported")


def _prefixes(whole: Mapping[str, Any], preset: Preset) -> tuple[str, str]:
    prompts = whole.get("prompts")
    prompts = prompts if isinstance(prompts, dict) else {}
    query = prompts.get("query", preset.query_prefix)
    passage = prompts.get("passage", prompts.get("document", preset.passage_prefix))
    return str(query or ""), str(passage or "")


def _pooling(raw: Mapping[str, Any]) -> Pooling | None:
    marked = [
        key.removeprefix("pooling_mode_") for key, on in raw.items() if key.startswith("pooling_mode_") and on is True
    ]
    named = raw.get("pooling_mode")
    chosen = [named] if isinstance(named, str) else marked
    if not chosen:
        return None
    if len(chosen) > 1 or chosen[0] not in _POOLINGS:
        raise ValueError(f"pooling by {', '.join(chosen)} is not supported")
    return _POOLINGS[chosen[0]]


def _max_tokens(
    config: Mapping[str, Any], sentence: Mapping[str, Any], tokens: Mapping[str, Any], preset: Preset
) -> int:
    said = sentence.get("max_seq_length")
    if said is None:
        # tokenizers that know no limit say a number beyond all bounds
        limit = tokens.get("model_max_length")
        known = isinstance(limit, int | float) and 0 < limit < 1e6
        said = preset.max_tokens or (min(int(limit or 0), UNSAID_MAX_TOKENS) if known else UNSAID_MAX_TOKENS)
    positions = next((int(config[key]) for key in _POSITIONS if config.get(key)), int(said))
    if config.get("model_type") in _FROM_TWO:
        positions -= 2
    return min(positions, int(said))


def _padding(config: Mapping[str, Any]) -> int:
    token = config.get("pad_token_id")
    return token if isinstance(token, int) else 0


def _verdict(config: Mapping[str, Any], preset: Preset) -> Verdict:
    if preset.verdict is not None:
        return preset.verdict
    kinds = config.get("architectures") or ()
    return "yes_no" if any("ForCausalLM" in str(kind) for kind in kinds) else "logits"
