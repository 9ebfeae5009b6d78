"""The table of settings, and what several layers of them come to: the highest layer that sets a key decides. Pure.

Names and ranges are those of the vault format (§1.4) and of seed A (Configuration). The layers, from the lowest: the
defaults, the user's `config.toml`, the files of the agents' hosts in their own order, the daemon's environment. What a
request asks for stands above all of them, and is the caller's to apply.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from wikid_daemon.core.frontmatter import core_scalar
from wikid_daemon.core.modes import MODES, Mode

Host = Literal["pi", "omp"]
Origin = Literal["default", "user", "host", "environment"]
ProblemKind = Literal["config_unknown_key", "config_invalid_value"]
LowPower = Literal["auto", "on", "off"]
Value: TypeAlias = bool | int | str

LOW_POWER: Final[tuple[LowPower, ...]] = ("auto", "on", "off")
LARGEST: Final = 2**53 - 1  # what every reader of JSON keeps exactly

# read by the extension that the hosts load, and nothing to wikid
_EXTENSION_KEYS: Final = frozenset(
    {
        *("semanticWeight", "notices", "trajectories", "synthesisLanguage", "synthesisMaxTokens"),
        *("taskModel", "taskModelBaseUrl", "taskModelApiKey", "taskModelApiKeyEnv"),
        *("embeddingProvider", "embeddingModel", "embeddingBaseUrl", "embeddingApiKey", "embeddingApiKeyEnv"),
        *("wikilinkValidation", "customTypes"),
    }
)
_UNWRITABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LONGEST_MODEL: Final = 4_096


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. `read` gives the value in its range, or None where there is no such value.

    `field` is its name in `Settings`. `strict`: a value that is none is not passed over for the layer below.
    `in_hosts`: the hosts' files may set it. `at_start`: read once, when the daemon starts. `variable` wins over files.
    """

    name: str
    field: str
    default: Value | None
    read: Callable[[object], Value | None]
    expects: str
    meaning: str
    strict: bool = False
    in_hosts: bool = True
    at_start: bool = False
    variable: str = ""

    def read_typed(self, given: object) -> Value | None:
        """Like `read`, for what may have been typed: `80` and `true` are text on a command line."""
        found = self.read(given)
        return self.read(core_scalar(given)) if found is None and isinstance(given, str) else found


def _mode(given: object) -> Value | None:
    return given if isinstance(given, str) and given in MODES else None


def _switch(given: object) -> Value | None:
    return given if isinstance(given, bool) else None


def _low_power(given: object) -> Value | None:
    if isinstance(given, bool):
        return "on" if given else "off"
    return given if isinstance(given, str) and given in LOW_POWER else None


def _count(given: object) -> Value | None:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    if isinstance(given, float):
        if not math.isfinite(given):
            return None
        given = math.floor(given)
    return min(max(given, 0), LARGEST)


def _model(given: object) -> Value | None:
    if not isinstance(given, str) or len(given) > _LONGEST_MODEL or _UNWRITABLE.search(given):
        return None
    return given.strip() or None


TABLE: Final = (
    Setting(
        "retrievalMode",
        "retrieval_mode",
        "adaptive",
        _mode,
        "one of " + ", ".join(MODES),
        "how a recall searches where the request names no mode",
        strict=True,
    ),
    Setting(
        "recallFeedback",
        "recall_feedback",
        True,
        _switch,
        "true or false",
        "keep local signals of what was opened and cited",
    ),
    Setting(
        "recallLinksThreshold",
        "recall_links_threshold",
        50,
        _count,
        "a number of pages",
        "above so many indexed pages an interactive answer leads with links",
    ),
    Setting(
        "recallSkillInlineMax",
        "recall_skill_inline_max",
        1_600,
        _count,
        "a number of characters, 0 for none",
        "how much of a recalled skill or case is written out in full",
    ),
    Setting(
        "ambientPersonalVault",
        "ambient_personal_vault",
        True,
        _switch,
        "true or false",
        "automatic recall uses the personal vault where no project's vault applies",
    ),
    Setting(
        "embedModel",
        "embed_model",
        None,
        _model,
        "a model's name, publisher/name, or the absolute path of its folder",
        "the embedding model, one for all vaults; `wikid models use` changes it at once",
        in_hosts=False,
        at_start=True,
        variable="WIKID_EMBED_MODEL",
    ),
    Setting(
        "rerankModel",
        "rerank_model",
        None,
        _model,
        "a model's name, publisher/name, or the absolute path of its folder",
        "the reranking model, one for all vaults; `wikid models use --reranker` changes it at once",
        in_hosts=False,
        at_start=True,
        variable="WIKID_RERANK_MODEL",
    ),
    Setting(
        "lowPower",
        "low_power",
        "auto",
        _low_power,
        "auto, on or off",
        "make vectors slowly to save power: while on battery, always or never",
        in_hosts=False,
        variable="WIKID_LOW_POWER",
    ),
    Setting(
        "unloadAfterMinutes",
        "unload_after_minutes",
        0,
        _count,
        "a number of minutes, 0 for never",
        "let the models go from memory after so long without use; words answer while they come back",
        in_hosts=False,
    ),
)
BY_NAME: Final[Mapping[str, Setting]] = {each.name: each for each in TABLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What applies. `retrieval_mode` is None where the layer that decides it holds no mode: then a recall that names no
    mode is refused. `recall_links_threshold` counts pages, `recall_skill_inline_max` Unicode code points; the models
    are names or absolute paths, None for wikid's own choice."""

    retrieval_mode: Mode | None
    recall_feedback: bool
    recall_links_threshold: int
    recall_skill_inline_max: int
    ambient_personal_vault: bool
    embed_model: str | None
    rerank_model: str | None
    low_power: LowPower
    unload_after_minutes: int


@dataclass(frozen=True, slots=True)
class Layer:
    """Values as they were read, and where: `source` is a file's path or a variable's name."""

    origin: Origin
    source: str
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Decided:
    """A setting's value and the layer that decided it; None where that layer holds no such value, or none is needed."""

    setting: Setting
    default: Value | None
    value: Value | None
    origin: Origin
    source: str

    @property
    def is_invalid(self) -> bool:
        return self.value is None and self.origin != "default"


@dataclass(frozen=True, slots=True)
class Problem:
    """A key that is none, or a value that its key does not take. The value itself is never repeated."""

    kind: ProblemKind
    key: str
    source: str
    expects: str = ""


def defaults(host: Host) -> Layer:
    """The lowest layer. A personal vault stays quiet in other folders under omp, which loads in every project."""
    values: dict[str, object] = {each.name: each.default for each in TABLE}
    if host == "omp":
        values["ambientPersonalVault"] = False
    return Layer("default", "", values)


def environment_layers(variables: Mapping[str, str]) -> list[Layer]:
    """The highest layers: the variables that are set, each a layer of its own."""
    return [
        Layer("environment", each.variable, {each.name: given})
        for each in TABLE
        if each.variable and (given := variables.get(each.variable))
    ]


def decide(layers: Sequence[Layer]) -> tuple[tuple[Decided, ...], tuple[Problem, ...]]:
    """Every setting in the table's order; `layers` from the lowest, which are the `defaults`. A null sets nothing."""
    found = {each.name: Decided(each, given, given, "default", "") for each, given in _defaults(layers[0])}
    problems: list[Problem] = []
    for layer in layers[1:]:
        for key, given in layer.values.items():
            setting = BY_NAME.get(key)
            if setting is None or (layer.origin == "host" and not setting.in_hosts):
                if layer.origin != "host" or key not in _EXTENSION_KEYS:
                    problems.append(Problem("config_unknown_key", key, layer.source))
                continue
            if given is None:
                continue
            value = setting.read(given)
            if value is None:
                problems.append(Problem("config_invalid_value", key, layer.source, setting.expects))
            if value is not None or setting.strict:
                found[key] = Decided(setting, found[key].default, value, layer.origin, layer.source)
    return tuple(found.values()), tuple(problems)


def _defaults(lowest: Layer) -> list[tuple[Setting, Value | None]]:
    given = [(each, lowest.values[each.name]) for each in TABLE]
    return [(each, None if value is None else each.read(value)) for each, value in given]


def settings_of(decided: Sequence[Decided]) -> Settings:
    """The decisions as typed values."""
    values = {each.setting.field: each.value for each in decided}
    return Settings(**values)  # type: ignore[arg-type]  # each row's `read` gives its field's type
