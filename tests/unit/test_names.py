"""Ids, skipped names, order, collisions and the names of mirror copies."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_daemon.core.mirror_names import mirror_name
from wikid_daemon.core.names import collisions, conflict_original, page_id, printable, skip_reason, sort_key

NFC, NFD = "caf\u00e9", "cafe\u0301"

segments = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=40).filter(
    lambda text: text not in (".", "..")
)
paths = st.lists(segments, min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("relative", "expected"),
    [
        ("concepts/foo.md", "concepts/foo"),
        ("README.md", "README"),
        ("X.MD", "X.MD"),
        ("a.md/inner.md", "a.md/inner"),
        ("twice.md.md", "twice.md"),
        (f"{NFD}.md", NFC),
    ],
)
def test_an_id_is_the_path_in_nfc_without_its_suffix(relative: str, expected: str) -> None:
    assert page_id(relative) == expected


def test_plain_folders_keep_names_apart_that_differ_only_in_normal_form() -> None:
    assert page_id(f"{NFC}.md", normalise=False) != page_id(f"{NFD}.md", normalise=False)


@pytest.mark.parametrize(
    ("relative", "strict", "expected"),
    [
        ("concepts/foo.md", True, None),
        ("name with spaces & (signs).md", True, None),
        ("🎉.md", True, None),
        (".trash/old.md", True, "hidden"),
        (".#x.md", False, "hidden"),
        ("a/.n01.md.tmpK", False, "hidden"),
        ("index.md", True, "reserved_name"),
        ("deep/INDEX.MD", True, "reserved_name"),
        ("Log.md", True, "reserved_name"),
        ("index.md", False, None),
        ("LOG.MD", False, "upper_case_suffix"),
        ("X.Md", True, "upper_case_suffix"),
        ("picture.png", True, "not_markdown"),
        ("4913", False, "not_markdown"),
        ("page.md.tmp-4242-0b7e", True, "temporary"),
        ("page.md.tmp-1-6f1c9a52-0000-4000-8000-000000000000", True, "temporary"),
        ("page.md.legacy-repair-0123456789abcdef", True, "temporary"),
        ("~$x.md", False, "temporary"),
        ("#x.md#", False, "temporary"),
        ("x.md.swp", False, "temporary"),
        ("n02.md~", False, "temporary"),
        ("plan.sync-conflict-20261101-101500-ABCDEFG.md", False, "conflict_copy"),
        ("a/plan (conflicted copy 2026-11-01).md", True, "conflict_copy"),
        ("plan-DESKTOP-AB12.md", False, None),
        ("plan 2.md", False, None),
        ("bad\udce9.md", False, "undecodable_name"),
    ],
)
def test_skip_reason(relative: str, strict: bool, expected: str | None) -> None:
    assert skip_reason(relative, strict=strict) == expected


@pytest.mark.parametrize(
    ("name", "original"),
    [
        ("plan.sync-conflict-20261101-101500-ABCDEFG.md", "plan.md"),
        ("a/b/plan.sync-conflict-20261101-101500-ABCDEFG.md", "a/b/plan.md"),
        ("plan (conflicted copy 2026-11-01).md", "plan.md"),
        ("plan (Ann's conflicted copy 2026-11-01).md", "plan.md"),
        ("plan.sync-conflict-20261101-101500-AAAAAAA.sync-conflict-20261102-101500-BBBBBBB.md", "plan.md"),
        ("plan.md", None),
        ("how to merge a conflicted copy.md", None),
        ("(conflicted copy) and what to do.md", None),
        (" (conflicted copy 2026-11-01).md", None),
        ("sync-conflict-20261101-101500.md", None),
    ],
)
def test_the_original_of_a_conflict_copy(name: str, original: str | None) -> None:
    assert conflict_original(name) == original


def test_order_is_by_utf16_code_units_of_nfc() -> None:
    emoji, private = "\U0001f389.md", "\uf8ff.md"  # code points and UTF-16 units order these two differently
    assert sorted([private, emoji, "b.md", "Z.md", f"{NFD}.md", "cafz.md"], key=sort_key) == [
        "Z.md",
        "b.md",
        "cafz.md",
        f"{NFD}.md",
        emoji,
        private,
    ]


def test_the_first_of_colliding_paths_keeps_the_id() -> None:
    names = ["c/case-differs.md", "c/Case-Differs.md", f"c/{NFC}.md", f"c/{NFD}.md", "c/other.md"]
    assert collisions(names) == {"c/case-differs.md": "c/Case-Differs.md", f"c/{NFC}.md": f"c/{NFD}.md"}


@settings(deadline=None)
@given(st.lists(st.text("aAéÉe\u0301.", min_size=1, max_size=4), unique=True), st.randoms())
def test_collisions_leave_one_page_for_each_folded_path_whatever_the_order(names: list[str], random: object) -> None:
    shuffled = sorted(names, key=lambda _: random.random())  # type: ignore[attr-defined]
    lost = collisions(names)
    assert collisions(shuffled) == lost
    kept = [name for name in names if name not in lost]
    folded = [unicodedata.normalize("NFC", name).lower() for name in kept]
    assert len(set(folded)) == len(folded)
    assert set(folded) == {unicodedata.normalize("NFC", name).lower() for name in names}
    assert set(lost.values()) <= set(kept)


def test_printable_replaces_only_what_cannot_be_encoded() -> None:
    assert printable("caf\udce9/é.md") == "caf?/é.md"
    assert printable("é.md") == "é.md"


@pytest.mark.parametrize("identity", ["concepts/foo", "é/日本語", "name with spaces & (signs)", "a.b/v1.0.21"])
def test_ordinary_ids_keep_their_name_in_the_mirror(identity: str) -> None:
    assert mirror_name(identity) == f"{identity}.md"


@settings(deadline=None)
@given(paths)
def test_mirror_names_are_safe_everywhere(identity: str) -> None:
    parts = mirror_name(identity).split("/")
    assert len(mirror_name(identity).encode()) < 800
    for part in parts:
        assert part not in ("", ".", "..")
        assert not set(part) & set('<>:"\\|?*\0\n')
        assert part[-1] not in ". "
        assert not part.startswith(".")
        assert len(part.encode()) < 255
        assert unicodedata.is_normalized("NFC", part)
        assert part.split(".")[0].lower() not in {"con", "nul", "aux", "prn", "com1", "lpt9"}
    assert parts[-1].endswith(".md")
    assert not any(part.lower().endswith(".md") for part in parts[:-1])


@settings(deadline=None)
@given(paths, paths)
def test_different_ids_have_different_mirror_names(one: str, other: str) -> None:
    assert (mirror_name(one) == mirror_name(other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (NFC, NFD),
        ("a%3Ab", "a:b"),
        ("x" * 400, "x" * 401),
        ("a/" * 400 + "b", "a/" * 400 + "c"),
        ("a.md/b", "a%2Emd/b"),
    ],
)
def test_ids_made_safe_stay_apart(one: str, other: str) -> None:
    assert mirror_name(one) != mirror_name(other)
