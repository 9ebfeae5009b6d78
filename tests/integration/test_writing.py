"""The one way into a vault's pages, on real files (vault format §9; T20, T35, T39)."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import page, tree, write
from wikid_daemon import files
from wikid_daemon.core.amending import amended
from wikid_daemon.core.names import skip_reason
from wikid_daemon.vault.scan import scan
from wikid_daemon.vault.vault import init_vault, open_vault
from wikid_daemon.vault.writing import PageExists, PageWriter, WriteRefused, path_of

NEW = page("Fresh words.", title="New").encode()


class Desk:
    """A new vault, its writer, and the paths that were noticed."""

    def __init__(self, root: Path) -> None:
        self.root = init_vault(root, "test", "personal")
        self.vault = open_vault(self.root, name=None, state_home=root.parent / "state")
        self.wiki = self.vault.pages_root
        self.noticed: list[set[str]] = []
        self.writer = PageWriter(self.vault, self.noticed.append)

    def refused(self, work: Callable[[], object]) -> str:
        """The kind of the refusal, which must leave every file as it was."""
        before = tree(self.root)
        with pytest.raises(WriteRefused) as caught:
            work()
        assert tree(self.root) == before
        return caught.value.kind

    def pages(self) -> list[str]:
        return sorted(scan(self.vault, known_pages=0, alive=lambda: None).entries)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "vault")


# -- new pages ---------------------------------------------------------------------------------------------------------


def test_a_new_page_is_there_whole_and_noticed(desk: Desk) -> None:
    made = desk.writer.create("concepts/deep/new", NEW)
    assert (desk.wiki / "concepts/deep/new.md").read_bytes() == NEW
    assert (made.path, made.hash, made.data) == ("concepts/deep/new.md", files.content_hash(NEW), NEW)
    assert desk.noticed == [{"concepts/deep/new.md"}]
    assert [each.name for each in (desk.wiki / "concepts/deep").iterdir()] == ["new.md"]


@pytest.mark.parametrize("present", ["new.md", "New.md", "ne\u0301w.md"])
def test_what_is_there_is_never_overwritten(desk: Desk, present: str) -> None:
    mine = write(desk.wiki, f"concepts/{present}", "a person's")
    with pytest.raises(PageExists) as caught:
        desk.writer.create("concepts/néw" if "\u0301" in present else "concepts/new", NEW)
    assert caught.value.path == f"concepts/{present}"
    assert mine.read_text() == "a person's"
    assert desk.noticed == []


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_not_even_a_link_or_a_folder_is_overwritten(desk: Desk, kind: str, tmp_path: Path) -> None:
    place, target = desk.wiki / "concepts/new.md", write(tmp_path, "target", "outside")
    place.symlink_to(target) if kind == "link" else place.mkdir()
    with pytest.raises(PageExists):
        desk.writer.create("concepts/new", NEW)
    assert target.read_text() == "outside"


def test_of_many_who_make_the_same_page_one_does(desk: Desk) -> None:
    outcomes: list[bytes | None] = []
    start = threading.Barrier(8)

    def make(number: int) -> None:
        data = page(f"By {number}.", title="New").encode()
        start.wait()
        try:
            desk.writer.create("concepts/new", data)
            outcomes.append(data)
        except PageExists:
            outcomes.append(None)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = [each for each in outcomes if each is not None]
    assert made == [(desk.wiki / "concepts/new.md").read_bytes()]


def test_a_filesystem_without_hard_links_overwrites_nothing_either(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_args: object, **_options: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no links here")

    monkeypatch.setattr(os, "link", no_links)
    desk.writer.create("concepts/new", NEW)
    assert (desk.wiki / "concepts/new.md").read_bytes() == NEW
    with pytest.raises(FileExistsError):
        files.create(desk.wiki / "concepts/new.md", b"other")
    assert (desk.wiki / "concepts/new.md").read_bytes() == NEW


def test_a_crash_before_the_rename_leaves_nothing_that_is_seen(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    class Crash(BaseException):
        """The process is gone: nothing tidies up."""

    def crash(source: Path, *_args: object, **_options: object) -> None:
        os.rename(source, left)
        raise Crash

    left = desk.wiki / "concepts/left"
    monkeypatch.setattr(os, "link", crash)
    with pytest.raises(Crash):
        desk.writer.create("concepts/new", NEW)
    assert left.read_bytes() == NEW
    assert desk.pages() == []
    assert desk.noticed == []


def test_the_temporary_file_is_one_that_no_scan_takes_for_a_page(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def linked(source: Path, target: Path, **_options: object) -> None:
        seen.append(source.name)
        assert desk.pages() == []
        os.rename(source, target)

    monkeypatch.setattr(os, "link", linked)
    desk.writer.create(f"concepts/{'長' * 80}", NEW)
    assert [skip_reason(f"concepts/{name}", strict=True) for name in seen] == ["temporary"]
    assert f".md.tmp-{os.getpid()}-" in seen[0] or len(seen[0].encode()) > 200


@pytest.mark.parametrize("data", [b"no frontmatter", b"---\ntitle: no type\n---\n", b"---\ntype: [\n---\n", b""])
def test_what_would_be_no_page_is_not_written(desk: Desk, data: bytes) -> None:
    assert desk.refused(lambda: desk.writer.create("concepts/new", data)) == "invalid_params"


def test_what_would_not_say_what_it_is_to_say_is_not_written(desk: Desk) -> None:
    assert desk.refused(lambda: desk.writer.create("concepts/new", NEW, lambda _document: False)) == "invalid_params"


# -- guardrails --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page_id", "kind"),
    [
        ("../../etc/passwd", "outside_vault"),
        ("..\\..\\x", "outside_vault"),
        ("/etc/passwd", "outside_vault"),
        ("%2e%2e/x", "outside_vault"),
        ("concepts/../../meta/x", "outside_vault"),
        ("concepts//x", "invalid_params"),
        ("concepts/./x", "invalid_params"),
        ("", "invalid_params"),
        ("concepts/", "invalid_params"),
        (".hidden/x", "invalid_params"),
        ("concepts/.x", "invalid_params"),
        ("index", "invalid_params"),
        ("concepts/INDEX", "invalid_params"),
        ("log", "invalid_params"),
        ("x.sync-conflict-20260101-101010", "invalid_params"),
        ("a\nb", "invalid_params"),
        ("a\0b", "invalid_params"),
        (" a", "invalid_params"),
        ("x.md", "invalid_params"),
        ("é" * 200, "invalid_params"),
    ],
)
def test_t35_ids_that_are_no_page_s_are_refused(desk: Desk, page_id: str, kind: str) -> None:
    assert desk.refused(lambda: desk.writer.create(page_id, NEW)) == kind
    assert desk.refused(lambda: desk.writer.find(page_id)) == kind
    with pytest.raises(WriteRefused):
        path_of(page_id)


def test_packets_events_and_generated_files_cannot_be_reached(desk: Desk) -> None:
    for page_id in ("raw/x", "meta/x"):
        desk.writer.create(page_id, NEW)
    base = desk.root / ".llm-wiki"
    assert [path for folder in ("raw", "meta") for path in (base / folder).rglob("x.md")] == []
    assert (desk.wiki / "raw/x.md").is_file()


def test_no_symlink_leads_out(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (desk.wiki / "linked").symlink_to(outside)
    assert desk.refused(lambda: desk.writer.create("linked/new", NEW)) == "outside_vault"
    assert list(outside.iterdir()) == []


def test_a_plain_folder_is_never_written(tmp_path: Path) -> None:
    root = tmp_path / "plain"
    write(root, "a.md", "# A")
    writer = PageWriter(open_vault(root, name=None, state_home=tmp_path / "state"), lambda _paths: None)
    with pytest.raises(WriteRefused) as caught:
        writer.create("new", NEW)
    assert caught.value.kind == "read_only"
    assert list(tree(root)) == ["a.md"]


def test_a_vault_whose_config_blocks_it_by_now_is_not_written(desk: Desk) -> None:
    config = desk.root / ".llm-wiki/config.json"
    config.write_text(config.read_text().replace("okf-0.2", "okf-9"))
    assert desk.refused(lambda: desk.writer.create("concepts/new", NEW)) == "vault_blocked"


def test_a_vault_that_is_gone_is_not_made_again(desk: Desk) -> None:
    desk.root.rename(desk.root.with_name("elsewhere"))
    assert desk.refused(lambda: desk.writer.create("concepts/new", NEW)) == "vault_unavailable"
    assert not desk.root.exists()


# -- changes -----------------------------------------------------------------------------------------------------------

MINE = b"---\r\ntype: source   # mine\r\ntitle: 'Old'\r\nzeta: {b: 1, a: 2}\r\n---\r\n\r\nWords \xff without an end"


def retitled(data: bytes) -> bytes:
    return amended(data, {"title": "New", "status": "deprecated"})


def test_t20_an_edit_changes_its_own_lines_and_no_other_byte(desk: Desk) -> None:
    place = write(desk.wiki, "sources/mine.md", MINE)
    place.chmod(0o640)
    done = desk.writer.edit("sources/mine.md", files.content_hash(MINE), retitled)
    expected = MINE.replace(b"'Old'", b"'New'").replace(b"a: 2}\r\n", b"a: 2}\r\nstatus: deprecated\r\n")
    assert place.read_bytes() == done.data == expected
    assert place.stat().st_mode & 0o777 == 0o640
    assert desk.noticed == [{"sources/mine.md"}]


def test_t39_a_page_that_was_saved_since_it_was_read_stays_the_person_s(desk: Desk) -> None:
    place = write(desk.wiki, "sources/mine.md", MINE)
    old = files.content_hash(MINE)
    place.write_bytes(MINE + b" and more")
    assert desk.refused(lambda: desk.writer.edit("sources/mine.md", old, retitled)) == "hash_conflict"
    assert desk.noticed == []


def test_t39_a_page_that_is_saved_in_the_middle_stays_the_person_s(desk: Desk) -> None:
    place = write(desk.wiki, "sources/mine.md", MINE)

    def slowly(data: bytes) -> bytes:
        place.write_bytes(MINE + b" and more")
        return retitled(data)

    with pytest.raises(WriteRefused) as caught:
        desk.writer.edit("sources/mine.md", files.content_hash(MINE), slowly)
    assert caught.value.kind == "hash_conflict"
    assert place.read_bytes() == MINE + b" and more"
    assert [each.name for each in place.parent.iterdir()] == ["mine.md"]


def test_an_edit_that_changes_nothing_writes_nothing(desk: Desk) -> None:
    place = write(desk.wiki, "sources/mine.md", MINE)
    before = place.stat().st_mtime_ns
    desk.writer.edit("sources/mine.md", files.content_hash(MINE), lambda data: data)
    assert (place.stat().st_mtime_ns, desk.noticed) == (before, [])


def test_an_edit_that_breaks_the_page_and_one_of_no_page_are_refused(desk: Desk) -> None:
    write(desk.wiki, "sources/mine.md", MINE)
    broken = desk.refused(lambda: desk.writer.edit("sources/mine.md", files.content_hash(MINE), lambda _data: b"x"))
    gone = desk.refused(lambda: desk.writer.edit("sources/gone.md", "0" * 64, retitled))
    assert (broken, gone) == ("invalid_params", "page_not_found")


# -- finding -----------------------------------------------------------------------------------------------------------


def test_a_page_is_found_by_its_very_id(desk: Desk) -> None:
    write(desk.wiki, "concepts/Cafe\u0301.md", NEW)
    found = desk.writer.find("concepts/Café")
    assert found is not None
    assert found.document is not None
    assert (found.path, found.document.title) == ("concepts/Cafe\u0301.md", "New")
    assert desk.writer.find("concepts/café") is None
    assert desk.writer.find("nowhere/x") is None


def test_folders_are_found_and_used_whatever_the_normal_form_of_their_names(desk: Desk) -> None:
    write(desk.wiki, "cafe\u0301/a.md", NEW)
    found = desk.writer.find("café/a")
    made = desk.writer.create("café/b", NEW)
    assert found is not None
    assert (found.path, made.path) == ("cafe\u0301/a.md", "cafe\u0301/b.md")
    assert desk.pages() == ["cafe\u0301/a.md", "cafe\u0301/b.md"]
