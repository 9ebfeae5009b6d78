"""Scans of the sample vaults and of folders that mean trouble."""

import errno
import json
import os
import shutil
import socket
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from wikid_daemon import files
from wikid_daemon.core.manifest import Known, plan
from wikid_daemon.vault import scan as scanning
from wikid_daemon.vault.scan import RootUnavailable, folders_below, scan, scan_paths
from wikid_daemon.vault.vault import Vault, open_vault

DATA = Path(__file__).parents[1] / "data"
NFC, NFD = "caf\u00e9", "cafe\u0301"


def opened(root: Path, tmp_path: Path) -> Vault:
    return open_vault(root, name=None, state_home=tmp_path / "state")


@pytest.fixture
def ugly(tmp_path: Path) -> Vault:
    root = Path(shutil.copytree(DATA / "ugly", tmp_path / "ugly"))
    skipped = root / ".llm-wiki" / "wiki" / "skipped"
    (skipped / "symlink-to-a-page.md").symlink_to("../odd-but-valid/plain-target.md")
    (skipped / "symlink-to-a-folder").symlink_to("../links")
    (skipped / "dangling-symlink.md").symlink_to("nowhere.md")
    return opened(root, tmp_path)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "deep" / "er").mkdir(parents=True)
    for name in ("a.md", "b.md", "deep/c.md", "deep/er/d.md"):
        (folder / name).write_text(f"# {name}")
    return folder


def test_the_ugly_vault_has_the_pages_the_extension_finds(ugly: Vault) -> None:
    expected = json.loads((DATA / "expected" / "ugly.discovery.json").read_text())
    faulty = {path.removesuffix(".md") for path, _, code in expected["diagnostics"] if "collision" not in code}
    deviations = {".trash/deleted-in-obsidian", "odd-but-valid/uppercase-extension.MD"}
    found = scan(ugly)
    assert {ugly.page_id(path) for path in found.entries} == {*expected["accepted_ids"], *faulty} - deviations
    assert dict(found.skipped) == {
        ".trash": "hidden",
        "odd-but-valid/uppercase-extension.MD": "upper_case_suffix",
        "odd-but-valid/looks-like-a-page.md": "not_a_regular_file",
        "skipped/LOG.MD": "reserved_name",
        "skipped/index.md": "reserved_name",
        "skipped/page.md.tmp-4242-0b7e": "temporary",
        "skipped/dangling-symlink.md": "symlink",
        "skipped/symlink-to-a-folder": "symlink",
        "skipped/symlink-to-a-page.md": "symlink",
    }
    assert found.failed == ()


def test_collisions_are_findings_of_the_later_path(ugly: Vault) -> None:
    expected = json.loads((DATA / "expected" / "ugly.discovery.json").read_text())
    lost = [unicodedata.normalize("NFC", path) for path, _, code in expected["diagnostics"] if "collision" in code]
    found = scan(ugly)
    assert [unicodedata.normalize("NFC", finding.path) for finding in found.findings] == sorted(lost)
    assert {(finding.severity, finding.code) for finding in found.findings} == {("error", "concept_identity_collision")}
    assert {"collide/Case-Differs.md", f"collide/{NFD}-nfc-vs-nfd.md"} <= set(found.entries)


@pytest.mark.parametrize(("name", "pages", "packets"), [("personal", 40, 2), ("project", 12, 0), ("ugly", None, 2)])
def test_pages_and_packets_without_page(name: str, pages: int | None, packets: int, tmp_path: Path) -> None:
    found = scan(opened(Path(shutil.copytree(DATA / name, tmp_path / name)), tmp_path))
    assert found.packets_without_page == packets
    if pages is not None:
        assert len(found.entries) == pages


def test_entries_are_in_order_with_their_stamps(notes: Path, tmp_path: Path) -> None:
    found = scan(opened(notes, tmp_path))
    assert list(found.entries) == ["a.md", "b.md", "deep/c.md", "deep/er/d.md"]
    assert found.entries["deep/c.md"] == files.stamp_of((notes / "deep" / "c.md").stat())
    assert set(found.folders) == {"", "deep", "deep/er"} == set(folders_below(notes))


def test_a_plain_folder_keeps_both_normal_forms_as_pages(notes: Path, tmp_path: Path) -> None:
    for name in (NFC, NFD):
        (notes / f"{name}.md").write_text(name)
    (notes / "A.md").write_text("differs in case only")
    vault = opened(notes, tmp_path)
    found = scan(vault)
    assert {f"{NFC}.md", f"{NFD}.md", "a.md", "A.md"} <= set(found.entries)
    assert found.findings == ()
    assert len({vault.page_id(path) for path in found.entries}) == len(found.entries)


def test_files_that_are_not_files_are_skipped_with_a_reason(notes: Path, tmp_path: Path) -> None:
    os.mkfifo(notes / "pipe.md")
    (notes / "device.md").symlink_to("/dev/zero")
    (notes / "dir.md").mkdir()
    (notes / "dir.md" / "inner.md").write_text("x")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(notes / "s.md"))
        found = scan(opened(notes, tmp_path))
    assert dict(found.skipped) == {
        "pipe.md": "not_a_regular_file",
        "s.md": "not_a_regular_file",
        "dir.md": "not_a_regular_file",
        "device.md": "symlink",
    }
    assert "dir.md/inner.md" in found.entries


def test_symlinks_are_never_followed(notes: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("secret")
    (notes / "loop").symlink_to("..")
    (notes / "out.md").symlink_to(tmp_path / "outside.md")
    (tmp_path / "link").symlink_to(notes)
    found = scan(opened(tmp_path / "link", tmp_path))
    assert len(found.entries) == 4
    assert dict(found.skipped) == {"loop": "symlink", "out.md": "symlink"}


def test_editor_and_sync_leftovers_are_no_pages(notes: Path, tmp_path: Path) -> None:
    for name in (".obsidian/w.md", ".git/x.md", ".trash/o.md", "~$x.md", "#x.md#", "x.md.swp"):
        (notes / name).parent.mkdir(exist_ok=True)
        (notes / name).write_text("x")
    (notes / ".#x.md").symlink_to("user@host.123")
    (notes / "a.sync-conflict-20261101-101500-ABCDEFG.md").write_text("x")
    (notes / "a 2.md").write_text("x")
    found = scan(opened(notes, tmp_path))
    assert set(found.entries) == {"a.md", "a 2.md", "b.md", "deep/c.md", "deep/er/d.md"}
    assert dict(found.skipped)["a.sync-conflict-20261101-101500-ABCDEFG.md"] == "conflict_copy"


def test_names_that_are_not_utf8_are_skipped_printably(notes: Path, tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(notes) + b"/caf\xe9.md"))).write_text("x")
    assert scan(opened(notes, tmp_path)).skipped == (("caf?.md", "undecodable_name"),)


def failing_at(monkeypatch: pytest.MonkeyPatch, bad: Path, code: int) -> None:
    real: Callable[..., object] = os.scandir

    def scandir(path: str) -> object:
        if Path(path) == bad:
            raise OSError(code, os.strerror(code))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)


def test_a_folder_that_cannot_be_listed_never_stops_a_scan_or_removes_its_pages(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = opened(notes, tmp_path)
    known = {path: Known(stamp, "hash") for path, stamp in scan(vault).entries.items()}
    failing_at(monkeypatch, notes / "deep", errno.EACCES)
    found = scan(vault)
    assert found.failed == (("deep", "permission_denied"),)
    assert set(found.entries) == {"a.md", "b.md"}
    assert plan(known, found).unreachable == ("deep/c.md", "deep/er/d.md")
    assert plan(known, found).removed == ()


def test_a_folder_that_vanishes_during_a_scan_is_simply_gone(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = opened(notes, tmp_path)
    failing_at(monkeypatch, notes / "deep", errno.ENOENT)
    found = scan(vault)
    assert (found.failed, set(found.entries)) == ((), {"a.md", "b.md"})


def test_a_missing_or_empty_root_is_unavailable(notes: Path, tmp_path: Path) -> None:
    vault = opened(notes, tmp_path)
    notes.rename(tmp_path / "away")
    with pytest.raises(RootUnavailable, match="root_missing"):
        scan(vault)
    with pytest.raises(RootUnavailable, match="root_missing"):
        scan_paths(vault, ["a.md"])
    notes.mkdir()
    with pytest.raises(RootUnavailable, match="root_empty"):
        scan(vault)
    with pytest.raises(RootUnavailable, match="root_empty"):
        scan(vault, known_pages=4)
    with pytest.raises(RootUnavailable, match="root_empty"):
        scan_paths(vault, ["a.md"])
    assert scan(vault, known_pages=0).entries == {}


def test_a_root_replaced_during_the_scan_is_unavailable(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = opened(notes, tmp_path)
    real = scanning._Walk.folder

    def then_replace(walk: object, start: str) -> None:
        real(walk, start)  # type: ignore[arg-type]
        notes.rename(tmp_path / "away")
        notes.mkdir()

    monkeypatch.setattr(scanning._Walk, "folder", then_replace)
    with pytest.raises(RootUnavailable, match="root_replaced"):
        scan(vault)


def test_a_marker_vault_whose_root_was_emptied_is_unavailable(tmp_path: Path) -> None:
    root = Path(shutil.copytree(DATA / "project", tmp_path / "project"))
    vault = opened(root, tmp_path)
    shutil.rmtree(root / ".llm-wiki")
    with pytest.raises(RootUnavailable, match="root_missing"):
        scan(vault)


def test_single_paths_are_looked_at_whatever_they_have_become(notes: Path, tmp_path: Path) -> None:
    vault = opened(notes, tmp_path)
    (notes / "b.md").unlink()
    (notes / "link").symlink_to(tmp_path)
    (tmp_path / "outside.md").write_text("secret")
    found = scan_paths(vault, ["a.md", "b.md", "deep", "none/x.md", "link/outside.md", "../outside.md", ".git/x.md"])
    assert list(found.entries) == ["a.md", "deep/c.md", "deep/er/d.md"]
    assert dict(found.skipped) == {"link/outside.md": "symlink", "../outside.md": "symlink"}
    assert scan_paths(vault, [""]).entries == scan(vault).entries


def test_a_change_hidden_by_an_old_time_is_seen(notes: Path, tmp_path: Path) -> None:
    vault = opened(notes, tmp_path)
    before = scan(vault)
    status = (notes / "a.md").stat()
    (notes / "a.md").write_text("# A.md")
    os.utime(notes / "a.md", ns=(status.st_atime_ns, status.st_mtime_ns))
    after = scan(vault)
    assert (after.entries["a.md"].size, after.entries["a.md"].mtime_ns) == (status.st_size, status.st_mtime_ns)
    known = {path: Known(stamp, "hash") for path, stamp in before.entries.items()}
    assert "a.md" in plan(known, after).check
