"""`vault/lint` and `vault/rebuild_meta` on the real daemon, by the client and by the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import page, tree, write
from daemon_process import HELD_TO_PERMISSIONS, NOT_HELD, DaemonProcess
from wikid_client import RequestRefused

SampleVault = Callable[[str], Path]


@pytest.fixture
def daemon(shared_daemon: DaemonProcess) -> DaemonProcess:
    return shared_daemon


def files_of(base: Path) -> dict[str, str]:
    return {path: digest for path, digest in tree(base).items() if not path.startswith("meta/wikid/")}


def test_lint_of_a_sample_vault(daemon: DaemonProcess, sample_vault: SampleVault) -> None:
    root = sample_vault("personal")
    daemon.add(root, "notes")
    before = files_of(root / ".llm-wiki")
    (report,) = daemon.client.vault_lint(vault="notes").vaults
    assert (report.name, report.pages, report.errors) == ("notes", 40, 0)
    found = {(each.code, each.path) for each in report.findings}
    assert ("conflict_unresolved", "concepts/pgbouncer-breaks-prepared-statements.md") in found
    assert ("page_stale", "concepts/collation-upgrade.md") in found
    assert files_of(root / ".llm-wiki") == before


def test_lint_in_ci(daemon: DaemonProcess, tmp_path: Path) -> None:
    root = tmp_path / "notes"
    write(root, "a.md", "# A\n\n[[B]]\n")
    write(root, "B.md", "# B\n")
    daemon.add(root, "notes")
    clean = daemon.wikid("lint", cwd=root)
    assert (clean.returncode, clean.stderr) == (0, "")
    assert "nothing to say" in clean.stdout
    write(root, "B.md", "# B\n\n[gone](gone.md)\n")
    found = daemon.wikid("lint", "--json", cwd=root)
    assert found.returncode == 1
    (report,) = json.loads(found.stdout)["vaults"]
    assert report["findings_by_code"] == {"link_unresolved": 1, "page_missing": 1}
    assert daemon.wikid("lint", "--errors-only", cwd=root).returncode == 0


def test_a_page_saved_a_moment_ago_is_no_stale_index(daemon: DaemonProcess, tmp_path: Path) -> None:
    root = tmp_path / "notes"
    write(root, "n0.md", "# N\n")
    daemon.add(root, "notes")
    for number in range(1, 4):
        write(root, f"n{number}.md", "# N\n")
        (report,) = daemon.client.vault_lint(vault="notes").vaults
        assert (report.pages, report.findings_by_code) == (number + 1, {})


def test_a_rebuild_gives_the_sample_s_own_files(daemon: DaemonProcess, sample_vault: SampleVault) -> None:
    root = sample_vault("project")
    meta = root / ".llm-wiki" / "meta"
    daemon.add(root, "orders")
    registry, backlinks = (meta / "registry.json").read_bytes(), (meta / "backlinks.json").read_bytes()
    ran = daemon.wikid("rebuild-meta", cwd=root)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert (meta / "backlinks.json").read_bytes() == backlinks
    rebuilt = (meta / "registry.json").read_bytes()
    written_at = json.loads(rebuilt)["last_updated"]
    assert rebuilt == registry.replace(b"2026-07-05T07:00:00.000Z", written_at.encode())


def test_a_broken_page_stops_a_rebuild(daemon: DaemonProcess, sample_vault: SampleVault) -> None:
    root = sample_vault("personal")
    daemon.add(root, "notes")
    write(root, ".llm-wiki/wiki/concepts/broken.md", "---\ntitle: no type\n---\n")
    before = files_of(root / ".llm-wiki")
    ran = daemon.wikid("rebuild-meta", "--vault", "notes")
    assert ran.returncode == 1
    assert "concept_missing_type" in ran.stdout
    assert files_of(root / ".llm-wiki") == before


def test_a_hand_written_index_outlives_a_rebuild(daemon: DaemonProcess, sample_vault: SampleVault) -> None:
    root = sample_vault("personal")
    daemon.add(root, "notes")
    mine = write(root, ".llm-wiki/wiki/concepts/index.md", "# concepts\n\nBegin with the pooler.\n")
    (done,) = daemon.client.vault_rebuild_meta(vault="notes").vaults
    assert [each.path for each in done.findings if each.code == "index_hand_written"] == ["concepts/index.md"]
    assert mine.read_text() == "# concepts\n\nBegin with the pooler.\n"


def test_a_blocked_vault_is_refused_and_linted(daemon: DaemonProcess, sample_vault: SampleVault) -> None:
    root = sample_vault("personal")
    daemon.add(root, "notes")
    write(root, ".llm-wiki/wiki/index.md", '---\nokf_version: "0.3"\n---\n')
    before = files_of(root / ".llm-wiki")
    with pytest.raises(RequestRefused) as refused:
        daemon.client.vault_rebuild_meta(vault="notes")
    assert refused.value.kind == "vault_blocked"
    assert files_of(root / ".llm-wiki") == before
    (report,) = daemon.client.vault_lint(vault="notes").vaults
    assert [(each.code, each.path) for each in report.findings if each.severity == "error"] == [
        ("okf_version_mismatch", "wiki/index.md")
    ]
    assert report.pages == 40


@pytest.mark.skipif(HELD_TO_PERMISSIONS is None, reason=NOT_HELD)
def test_a_read_only_vault_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    write(root, ".llm-wiki/config.json", '{"knowledge_format": "okf-0.2"}\n')
    write(root, ".llm-wiki/meta/events.jsonl", "")
    write(root, ".llm-wiki/wiki/a.md", page("Text."))
    folders = (root / ".llm-wiki" / "meta", root / ".llm-wiki")
    before = tree(root)
    for folder in folders:
        folder.chmod(0o555)
    try:
        with DaemonProcess(tmp_path / "home", under=HELD_TO_PERMISSIONS or ()) as daemon:
            daemon.add(root, "locked")
            with pytest.raises(RequestRefused) as refused:
                daemon.client.vault_rebuild_meta(vault="locked")
            assert refused.value.kind == "read_only"
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert tree(root) == before


def test_a_folder_without_a_vault_is_refused_while_there_are_several(daemon: DaemonProcess, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name, "a.md", "# A\n")
        daemon.add(tmp_path / name, name)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ran = daemon.wikid("lint", cwd=elsewhere)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "--vault" in ran.stderr
    assert daemon.wikid("lint", "--vault", "all", cwd=elsewhere).returncode == 0
