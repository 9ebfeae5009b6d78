"""Names of new pages (vault format §2.1)."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wikid_daemon.core.names import skip_reason
from wikid_daemon.core.slugs import is_slug, numbered, slug


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Hello, World!", "hello-world"),
        ("  many   spaces -- and - hyphens  ", "many-spaces-and-hyphens"),
        ("日本語のタイトル", "日本語のタイトル"),
        ("Настройка пула", "настройка-пула"),
        ("ＡＢＣ　１２", "abc-12"),
        (unicodedata.normalize("NFD", "Café"), unicodedata.normalize("NFC", "café")),
        ("snake_case.md", "snakecasemd"),
        ("../../etc/passwd", "etcpasswd"),
        ("", "untitled"),
        ("🎉🎉", "untitled"),
        ("Index", "index-page"),
        ("LOG", "log-page"),
        ("con", "_con"),
        ("COM1", "_com1"),
        ("com¹", "_com¹"),
        ("Console", "console"),
    ],
)
def test_a_title_becomes_a_name(title: str, expected: str) -> None:
    assert slug(title) == expected


def test_a_long_title_is_cut_in_utf_16_units_and_never_within_a_character() -> None:
    assert slug("a" * 200) == "a" * 80
    assert slug("𝐚" * 60) == "𝐚" * 40
    assert slug("a" + "𝐚" * 60) == "a" + "𝐚" * 39
    assert slug("word " * 30, 12) == "word-word-wo"
    assert slug("word " * 30, 10) == "word-word"


@given(st.text(max_size=120))
def test_every_title_has_a_name_that_is_a_page_s_and_stays_the_same(title: str) -> None:
    name = slug(title)
    assert skip_reason(f"sources/{name}.md", strict=True) is None
    assert is_slug(name)
    assert len(name.encode("utf-16-le")) // 2 <= 80 + len("-page")


def test_the_first_of_a_name_has_no_number() -> None:
    assert [numbered("a", each) for each in (1, 2, 3)] == ["a", "a-2", "a-3"]
