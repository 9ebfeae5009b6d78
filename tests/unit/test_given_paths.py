"""Paths and cursors that come with a call: which are taken, and that the others are refused by a word of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wikid_daemon.calls import absolute, place_of
from wikid_protocol.errors import RequestRefused


def test_an_absolute_path_and_one_below_the_home_folder_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", os.path.abspath(os.sep))
    monkeypatch.setenv("USERPROFILE", os.path.abspath(os.sep))
    here = os.path.abspath("notes")
    assert absolute(here) == Path(here)
    assert absolute("~/notes") == Path(os.path.abspath(os.sep), "notes")


@pytest.mark.parametrize("path", ["", "notes", "../notes", "\0", "/notes\0", "~no such user/notes"])
def test_what_names_no_place_is_refused_as_a_fault_of_the_caller(path: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        absolute(path)
    assert refused.value.kind == "invalid_params"


def test_a_cursor_is_a_place_in_the_list_and_nothing_else() -> None:
    assert [place_of(each) for each in (None, "0", "50")] == [0, 0, 50]


@pytest.mark.parametrize("cursor", ["", "-1", "1.0", "17-2-0-0-0", "٣", "9" * 5_000])
def test_what_is_no_cursor_is_refused_as_a_fault_of_the_caller(cursor: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        place_of(cursor)
    assert refused.value.kind == "invalid_params"
