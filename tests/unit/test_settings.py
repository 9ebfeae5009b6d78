"""The table of settings, its layers, and the edit of one key in a TOML text."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wikid_daemon.core import toml_edit
from wikid_daemon.core.modes import MODES, Mode
from wikid_daemon.core.settings import (
    BY_NAME,
    TABLE,
    Decided,
    Layer,
    Problem,
    Settings,
    decide,
    defaults,
    environment_layers,
    settings_of,
)

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def user(**values: object) -> Layer:
    return Layer("user", "config.toml", values)


def host(source: str = "settings.json", /, **values: object) -> Layer:
    return Layer("host", source, values)


def outcome(*layers: Layer) -> tuple[Settings, Mapping[str, Decided], tuple[Problem, ...]]:
    decided, problems = decide([defaults("pi"), *layers])
    return settings_of(decided), {each.setting.name: each for each in decided}, problems


def test_without_any_file_the_defaults_apply() -> None:
    settings, decided, problems = outcome()
    assert settings == Settings(
        retrieval_mode="adaptive",
        recall_feedback=True,
        recall_links_threshold=50,
        recall_skill_inline_max=1_600,
        ambient_personal_vault=True,
        embed_model=None,
        rerank_model=None,
        low_power="auto",
        unload_after_minutes=0,
    )
    assert {each.origin for each in decided.values()} == {"default"}
    assert not problems


def test_the_table_and_the_typed_settings_have_the_same_rows() -> None:
    assert [each.field for each in TABLE] == [each.name for each in fields(Settings)]
    assert all(each.default is None or each.read(each.default) == each.default for each in TABLE)


def test_a_personal_vault_is_quiet_elsewhere_under_omp() -> None:
    decided, _ = decide([defaults("omp")])
    assert not settings_of(decided).ambient_personal_vault
    decided, _ = decide([defaults("omp"), user(ambientPersonalVault=True)])
    assert settings_of(decided).ambient_personal_vault


def test_hosts_stand_above_the_user_s_file_and_later_hosts_above_earlier_ones() -> None:
    settings, decided, _ = outcome(
        user(recallLinksThreshold=1, recallSkillInlineMax=1, recallFeedback=False),
        host("agent", recallLinksThreshold=2, recallSkillInlineMax=2),
        host("project", recallLinksThreshold=3),
    )
    assert (settings.recall_links_threshold, settings.recall_skill_inline_max) == (3, 2)
    assert not settings.recall_feedback
    assert [(decided[name].origin, decided[name].source) for name in BY_NAME if decided[name].origin != "default"] == [
        ("user", "config.toml"),
        ("host", "project"),
        ("host", "agent"),
    ]


def test_the_environment_stands_above_every_file() -> None:
    layers = [user(embedModel="mine"), *environment_layers({"WIKID_EMBED_MODEL": "/other", "WIKID_RERANK_MODEL": ""})]
    settings, decided, _ = outcome(*layers)
    assert (settings.embed_model, settings.rerank_model) == ("/other", None)
    assert (decided["embedModel"].origin, decided["embedModel"].source) == ("environment", "WIKID_EMBED_MODEL")


@pytest.mark.parametrize("name", ["recallLinksThreshold", "recallSkillInlineMax"])
@pytest.mark.parametrize(
    ("value", "becomes"),
    [(0, 0), (-5, 0), (7.9, 7), (-0.5, 0), (1e300, 2**53 - 1), (10**400, 2**53 - 1), (80, 80)],
)
def test_a_count_is_floored_and_never_below_zero(name: str, value: float, becomes: int) -> None:
    settings, _, problems = outcome(host(**{name: value}))
    assert getattr(settings, BY_NAME[name].field) == becomes
    assert not problems


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("recallLinksThreshold", True),
        ("recallLinksThreshold", "80"),
        ("recallLinksThreshold", math.nan),
        ("recallSkillInlineMax", math.inf),
        ("recallFeedback", 1),
        ("recallFeedback", "true"),
        ("ambientPersonalVault", "yes"),
        ("embedModel", " "),
        ("embedModel", "a\nb"),
        ("embedModel", "\udc80"),
        ("rerankModel", 3),
    ],
)
def test_a_value_that_is_none_gives_way_to_the_layer_below(name: str, value: object) -> None:
    below = {"recallLinksThreshold": 7, "recallSkillInlineMax": 7, "recallFeedback": False}.get(name)
    lower = [user(**{name: below})] if below is not None else []
    upper = user if name in ("embedModel", "rerankModel") else host
    _, decided, problems = outcome(*lower, upper(**{name: value}))
    assert decided[name].value == (BY_NAME[name].default if below is None else below)
    assert [(each.kind, each.key) for each in problems] == [("config_invalid_value", name)]
    assert problems[0].expects == BY_NAME[name].expects


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_is_one(mode: Mode) -> None:
    assert outcome(host(retrievalMode=mode))[0].retrieval_mode == mode


@pytest.mark.parametrize("value", ["", "Hybrid", "fast", 1, [], {}])
def test_a_mode_that_is_none_fails_closed(value: object) -> None:
    settings, decided, problems = outcome(user(retrievalMode="lexical"), host(retrievalMode=value))
    assert settings.retrieval_mode is None
    assert decided["retrievalMode"].is_invalid
    assert decided["retrievalMode"].source == "settings.json"
    assert [each.kind for each in problems] == ["config_invalid_value"]


def test_a_mode_that_is_none_decides_nothing_where_a_higher_layer_sets_one() -> None:
    settings, _, problems = outcome(user(retrievalMode="fast"), host(retrievalMode="quality"))
    assert settings.retrieval_mode == "quality"
    assert [(each.key, each.source) for each in problems] == [("retrievalMode", "config.toml")]


def test_a_null_sets_nothing() -> None:
    settings, _, problems = outcome(user(retrievalMode="lexical"), host(retrievalMode=None, recallFeedback=None))
    assert (settings.retrieval_mode, settings.recall_feedback) == ("lexical", True)
    assert not problems


def test_an_unknown_key_is_told_and_what_only_the_extension_reads_is_not() -> None:
    foreign = {"semanticWeight": 0.3, "taskModel": {"provider": "p", "id": "i"}, "embeddingApiKey": "secret"}
    assert not outcome(host(**foreign))[2]
    _, _, problems = outcome(user(semanticWeight=0.3, retrievalmode="lexical"), host(recallLinks=1, embedModel="m"))
    assert [(each.kind, each.key, each.source) for each in problems] == [
        ("config_unknown_key", "semanticWeight", "config.toml"),
        ("config_unknown_key", "retrievalmode", "config.toml"),
        ("config_unknown_key", "recallLinks", "settings.json"),
        ("config_unknown_key", "embedModel", "settings.json"),
    ]


def test_a_model_is_one_for_all_vaults_and_no_host_may_choose_it() -> None:
    assert outcome(host(embedModel="theirs", rerankModel="theirs"))[0].embed_model is None


@given(st.sampled_from(TABLE), JUNK, st.sampled_from(["user", "host"]))
def test_whatever_a_file_holds_a_setting_stays_in_its_range(setting: Any, junk: object, origin: Any) -> None:
    decided, problems = decide([defaults("pi"), Layer(origin, "file", {setting.name: junk})])
    [one] = [each for each in decided if each.setting is setting]
    if one.value is None or one.origin == "default":
        assert one.value == (None if one.is_invalid else setting.default)
        assert one.is_invalid <= setting.strict
        assert junk is None or [each.key for each in problems] == [setting.name]
    else:
        assert setting.read(one.value) == one.value
        assert not problems
    others = [each for each in decided if each.setting is not setting]
    assert all(each.origin == "default" for each in others)


@given(st.dictionaries(st.text(), JUNK, max_size=5))
def test_no_key_is_too_odd(values: dict[str, object]) -> None:
    assume(not values.keys() & BY_NAME.keys())
    settings, _, problems = outcome(user(**{}), replace(user(), values=values))
    assert settings == outcome()[0]
    assert [each.key for each in problems] == list(values)


@given(st.lists(st.none() | st.integers(0, 9), max_size=5))
def test_the_highest_layer_that_sets_a_key_decides(values: list[int | None]) -> None:
    layers = [host(str(place), recallLinksThreshold=value) for place, value in enumerate(values)]
    settings, decided, _ = outcome(*layers)
    setting = [(value, str(place)) for place, value in enumerate(values) if value is not None]
    found = (settings.recall_links_threshold, decided["recallLinksThreshold"].source)
    assert found == (setting[-1] if setting else (50, ""))


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("recallFeedback", "false", False),
        ("recallFeedback", True, True),
        ("recallFeedback", "no", None),
        ("recallLinksThreshold", "80", 80),
        ("recallLinksThreshold", "-3", 0),
        ("recallLinksThreshold", "many", None),
        ("recallLinksThreshold", 12.5, 12),
        ("embedModel", "123", "123"),
        ("embedModel", "true", "true"),
        ("retrievalMode", "quality", "quality"),
        ("retrievalMode", "null", None),
    ],
)
def test_typed_words_become_values_of_the_setting_s_kind(name: str, typed: object, value: object) -> None:
    assert BY_NAME[name].read_typed(typed) == value


# -- the edit of one key -----------------------------------------------------------------------------------------------

FILE = """\
# my own settings
retrievalMode = "lexical"   # fast # and quiet

recallFeedback = false
embedModel = 'C:\\models # new'
"""


def test_a_changed_key_keeps_its_comment_and_every_other_line() -> None:
    assert toml_edit.with_key(FILE, "retrievalMode", "quality") == FILE.replace('"lexical"', '"quality"')
    assert toml_edit.with_key(FILE, "embedModel", "m") == FILE.replace("'C:\\models # new'", '"m"')


def test_a_new_key_comes_last_and_above_tables() -> None:
    assert toml_edit.with_key(FILE, "recallLinksThreshold", 80) == FILE + "recallLinksThreshold = 80\n"
    assert toml_edit.with_key("a = 1\n[t]\nb = 2", "c", True) == "a = 1\nc = true\n[t]\nb = 2"
    assert toml_edit.with_key("a = 1", "c", 2) == "a = 1\nc = 2\n"
    assert toml_edit.with_key("", "c", 2) == "c = 2\n"


def test_a_removed_key_takes_its_line_with_it() -> None:
    assert toml_edit.with_key(FILE, "recallFeedback", None) == FILE.replace("recallFeedback = false\n", "")
    assert toml_edit.with_key(FILE, "absent", None) == FILE


def test_line_ends_stay_as_they_are() -> None:
    assert toml_edit.with_key("a = 1\r\nb = 2\r\n", "a", 3) == "a = 3\r\nb = 2\r\n"
    assert toml_edit.with_key("a = 1\r\n", "b", 2) == "a = 1\r\nb = 2\r\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('note = """\na = 1\n"""\na = 2\n', 'note = """\na = 1\n"""\na = 5\n'),
        ("[t]\na = 1\n", "a = 5\n[t]\na = 1\n"),
        ("x = [\n  [1],\n]\n", "x = [\n  [1],\n]\na = 5\n"),
        ('"a" = 1\n', '"a" = 5\n'),
        ("# a = 1\n", "# a = 1\na = 5\n"),
    ],
)
def test_a_line_that_merely_looks_like_the_key_is_left_alone(before: str, after: str) -> None:
    assert toml_edit.with_key(before, "a", 5) == after


@pytest.mark.parametrize("text", ["a.b = 1\n", 'a = """\nlong\n"""\n', "a = [\n 1,\n]\n"])
def test_what_cannot_be_changed_by_the_line_is_refused(text: str) -> None:
    with pytest.raises(toml_edit.EditRefused):
        toml_edit.with_key(text, "a", 5)


KEYS = st.sampled_from(["a", "b", "c", "retrievalMode"])
WORDS = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\u2028\u2029"), max_size=20)
VALUES = st.booleans() | st.integers(0, 2**53) | WORDS
LINES = st.one_of(
    WORDS.map(lambda words: f"# {words}"),
    st.just(""),
    st.tuples(KEYS, VALUES, WORDS).map(lambda each: f"{each[0]} = {toml_edit._literal(each[1])} # {each[2]}"),
)


@given(st.lists(LINES, max_size=6), KEYS, VALUES | st.none(), st.sampled_from(["\n", "\r\n"]))
def test_an_edit_changes_exactly_its_key(lines: list[str], key: str, value: Any, newline: str) -> None:
    text = newline.join(lines)
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(False)
        raise
    after = toml_edit.with_key(text, key, value)
    wanted = {name: each for name, each in before.items() if name != key}
    assert tomllib.loads(after) == (wanted if value is None else {**wanted, key: value})
    kept = [each for each in lines if each.startswith("#")]
    assert [each.removesuffix("\r") for each in after.split("\n") if each.startswith("#")] == kept
