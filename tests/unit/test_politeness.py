"""Politeness: which thread steps back, what counts as running on battery, and when power is saved."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wikid_daemon import politeness
from wikid_daemon.core.settings import BY_NAME, LowPower
from wikid_daemon.politeness import (
    LOOK_SECONDS,
    NICENESS,
    Power,
    draws_on_battery,
    is_on_battery,
    linux_supplies,
    pmset_says_battery,
    windows_says_battery,
)

PLUGGED = """Now drawing from 'AC Power'
 -InternalBattery-0 (id=4653155)\t100%; charged; 0:00 remaining present: true
"""
UNPLUGGED = """Now drawing from 'Battery Power'
 -InternalBattery-0 (id=4653155)\t73%; discharging; 5:12 remaining present: true
"""


def supply(kind: str, *, online: str = "", status: str = "", scope: str = "") -> Mapping[str, str]:
    return {"type": kind, "online": online, "status": status, "scope": scope}


MAINS, NO_MAINS = supply("Mains", online="1"), supply("Mains", online="0")
DISCHARGING, FULL = supply("Battery", status="Discharging"), supply("Battery", status="Full")
MOUSE = supply("Battery", status="Discharging", scope="Device")


class Now:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


# -- priority ----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="niceness is a thread's own on Linux alone")
def test_only_the_thread_that_steps_back_does() -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = niceness()
    with ThreadPoolExecutor(1, initializer=politeness.step_back) as polite:
        assert polite.submit(niceness).result() == max(before, NICENESS)
    assert niceness() == before


@pytest.mark.skipif(sys.platform != "linux", reason="niceness is a thread's own on Linux alone")
def test_where_it_may_not_step_back_a_thread_works_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", forbidden)
    with ThreadPoolExecutor(1, initializer=politeness.step_back) as polite:
        assert polite.submit(lambda: 1).result() == 1


# -- battery -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("supplies", "battery"),
    [
        ([], False),
        ([MAINS], False),
        ([NO_MAINS], False),  # a desktop whose driver is mistaken: nothing else could feed it
        ([MAINS, FULL], False),
        ([NO_MAINS, DISCHARGING], True),
        ([DISCHARGING], True),
        ([MAINS, DISCHARGING], False),  # a weak charger: it is plugged in all the same
        ([supply("USB", online="0"), supply("USB", online="1"), DISCHARGING], False),
        ([NO_MAINS, FULL], False),
        ([NO_MAINS, FULL, DISCHARGING], True),  # two batteries
        ([MOUSE], False),
        ([NO_MAINS, MOUSE, supply("Battery", status="Charging")], False),
        ([supply("", status="Discharging")], False),
    ],
)
def test_linux_tells_what_the_machine_draws_its_power_from(supplies: list[Mapping[str, str]], battery: bool) -> None:
    assert draws_on_battery(supplies) is battery
    assert draws_on_battery(reversed(supplies)) is battery


def test_linux_supplies_are_read_from_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"AC/type": "Mains", "AC/online": "0", "BAT0/type": "Battery", "BAT0/status": "Discharging"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert sorted(linux_supplies(tmp_path), key=lambda each: each["type"]) == [DISCHARGING, NO_MAINS]
    monkeypatch.setattr(politeness, "SUPPLIES", tmp_path / "none")
    assert not is_on_battery()
    if sys.platform == "linux":
        monkeypatch.setattr(politeness, "SUPPLIES", tmp_path)
        assert is_on_battery()


@pytest.mark.parametrize(
    ("text", "battery"), [(PLUGGED, False), (UNPLUGGED, True), ("", False), ("\n" + UNPLUGGED, False)]
)
def test_macos_tells_it_in_words(text: str, battery: bool) -> None:
    assert pmset_says_battery(text) is battery


@pytest.mark.parametrize(
    ("line", "flag", "battery"),
    [(1, 1, False), (0, 1, True), (0, 4, True), (255, 255, False), (0, 128, False), (1, 128, False), (0, 255, True)],
)
def test_windows_tells_it_in_numbers(line: int, flag: int, battery: bool) -> None:
    assert windows_says_battery(line, flag) is battery


# -- saving ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "on_battery", "saved"),
    [("auto", True, True), ("auto", False, False), ("on", False, True), ("off", True, False)],
)
def test_the_setting_decides_and_else_the_battery(setting: LowPower, on_battery: bool, saved: bool) -> None:
    assert Power(lambda: setting, lambda: on_battery).is_saved() is saved


def test_the_source_of_power_is_looked_at_now_and_then() -> None:
    now, found, looks = Now(), [True], list[float]()

    def on_battery() -> bool:
        looks.append(now.seconds)
        return found[0]

    power = Power(lambda: "auto", on_battery, now)
    assert power.is_saved()
    found[0] = False
    now.seconds = LOOK_SECONDS - 1
    assert power.is_saved()
    now.seconds = LOOK_SECONDS
    assert not power.is_saved()
    assert looks == [0.0, LOOK_SECONDS]


@pytest.mark.parametrize(
    ("given", "value"),
    [("auto", "auto"), ("on", "on"), (True, "on"), (False, "off"), ("ON", None), (1, None), ("", None)],
)
def test_the_setting_is_a_word_or_a_switch(given: object, value: str | None) -> None:
    assert BY_NAME["lowPower"].read(given) == value
