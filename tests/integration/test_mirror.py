"""The validated mirror and its manifest."""

import json
from pathlib import Path

import pytest

from wikid_daemon import files
from wikid_daemon.core.page import Role
from wikid_daemon.vault.mirror import Mirror, MirrorRecord, lf_copy
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import Vault, init_vault, open_vault


@pytest.fixture
def state_home(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def vault(tmp_path: Path, state_home: Path) -> Vault:
    return open_vault(init_vault(tmp_path / "v", "Topic", "personal"), name=None, state_home=state_home)


def opened(vault: Vault, state_home: Path) -> Mirror:
    mirror = Mirror(vault, machine_id(state_home))
    mirror.open()
    return mirror


def record(page_id: str, role: Role = "canonical", content: bytes = b"x") -> MirrorRecord:
    return MirrorRecord(page_id, f"{page_id}.md", files.content_hash(content), role, "concept")


def copies(vault: Vault) -> dict[str, bytes]:
    documents = vault.state / "documents"
    return {str(path.relative_to(documents)): path.read_bytes() for path in documents.rglob("*") if path.is_file()}


def test_the_tree_tells_git_backups_and_other_machines_to_keep_off(vault: Vault, state_home: Path) -> None:
    opened(vault, state_home)
    assert (vault.state / ".gitignore").read_bytes() == b"*\n"
    assert (vault.state / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55")
    assert json.loads((vault.state / "manifest.json").read_text()) == {
        "version": 1,
        "machine": machine_id(state_home),
        "vaultId": vault.vault_id,
        "documents": {},
    }
    assert machine_id(state_home) == machine_id(state_home)


def test_a_page_is_copied_with_lf_and_named_in_the_manifest(vault: Vault, state_home: Path) -> None:
    mirror = opened(vault, state_home)
    content = b"---\r\ntype: concept\r\n---\r\nold\rmac\nlines \xff\r\n"
    mirror.apply(record("concepts/foo", content=content), content)
    mirror.write_manifest()
    assert copies(vault) == {"canonical/concepts/foo.md": b"---\ntype: concept\n---\nold\nmac\nlines \xff\n"}
    manifest = json.loads((vault.state / "manifest.json").read_text())
    assert manifest["documents"] == {
        "documents/canonical/concepts/foo.md": {
            "sourcePath": "concepts/foo.md",
            "vaultId": vault.vault_id,
            "pageId": "concepts/foo",
            "contentHash": files.content_hash(content),
            "role": "canonical",
            "type": "concept",
        }
    }
    assert opened(vault, state_home).records == mirror.records


def test_utf16_is_copied_as_it_is() -> None:
    data = "a\r\nb".encode("utf-16")
    assert lf_copy(data) == data


def test_a_changed_role_moves_the_copy(vault: Vault, state_home: Path) -> None:
    mirror = opened(vault, state_home)
    mirror.apply(record("concepts/deep/foo"), b"1")
    mirror.apply(record("concepts/deep/foo", "evidence"), b"2")
    assert copies(vault) == {"evidence/concepts/deep/foo.md": b"2"}
    assert not (vault.state / "documents" / "canonical" / "concepts").exists()


def test_a_removed_page_leaves_nothing_behind(vault: Vault, state_home: Path) -> None:
    mirror = opened(vault, state_home)
    mirror.apply(record("documents/x/foo"), b"1")
    mirror.apply(record("bar"), b"2")
    mirror.remove("documents/x/foo")
    mirror.remove("never/seen")
    mirror.write_manifest()
    assert copies(vault) == {"canonical/bar.md": b"2"}
    assert not (vault.state / "documents" / "canonical" / "documents").exists()
    assert set(opened(vault, state_home).records) == {"bar"}


@pytest.mark.parametrize(
    "page_id", ["a:b?/c*", "x" * 300, "con/nul", "f/" * 500 + "end", "caf\u0065\u0301", "100%", "dots./end. ", "a\nb"]
)
def test_any_id_has_a_copy(page_id: str, vault: Vault, state_home: Path) -> None:
    mirror = opened(vault, state_home)
    mirror.apply(record(page_id), b"1")
    mirror.write_manifest()
    assert list(copies(vault).values()) == [b"1"]
    again = opened(vault, state_home)
    assert set(again.records) == {page_id}
    again.remove(page_id)
    assert copies(vault) == {}


def test_a_page_and_a_folder_of_the_same_name_have_copies(vault: Vault, state_home: Path) -> None:
    mirror = opened(vault, state_home)
    mirror.apply(record("a"), b"page")
    mirror.apply(record("a.md/inner"), b"inner")
    assert sorted(copies(vault).values()) == [b"inner", b"page"]


def test_the_manifest_is_written_only_when_something_changed(vault: Vault, state_home: Path) -> None:
    mirror = opened(vault, state_home)
    mirror.apply(record("a"), b"1")
    mirror.write_manifest()
    before = (vault.state / "manifest.json").stat().st_ino
    mirror.apply(record("a"), b"1")
    mirror.remove("b")
    mirror.write_manifest()
    assert (vault.state / "manifest.json").stat().st_ino == before


def test_a_sweep_makes_copies_and_records_agree_after_a_crash(vault: Vault, state_home: Path) -> None:
    mirror = opened(vault, state_home)
    for page_id in ("kept", "f/lost", "role"):
        mirror.apply(record(page_id), b"1")
    mirror.write_manifest()
    mirror.apply(record("f/unrecorded"), b"1")
    mirror.apply(record("role", "evidence"), b"1")
    (vault.state / "documents" / "canonical" / "f" / "lost.md").unlink()
    (vault.state / "documents" / "canonical" / "kept.md.tmp-1-ab").write_bytes(b"half")
    again = opened(vault, state_home)
    assert again.sweep() == {"f/lost", "role"}
    assert copies(vault) == {"canonical/kept.md": b"1"}
    assert set(again.records) == {"kept"}
    assert again.sweep() == frozenset()


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"documents": 5}', b'{"documents": {"k": {"pageId": 1}}}'])
def test_a_damaged_manifest_is_built_again(data: bytes, vault: Vault, state_home: Path) -> None:
    mirror = opened(vault, state_home)
    mirror.apply(record("a"), b"1")
    (vault.state / "manifest.json").write_bytes(data)
    again = opened(vault, state_home)
    assert dict(again.records) == {}
    again.write_manifest()
    assert json.loads((vault.state / "manifest.json").read_text())["machine"] == machine_id(state_home)


def test_only_the_generated_tree_of_the_vault_is_written(vault: Vault, state_home: Path) -> None:
    def outside() -> dict[str, bytes]:
        return {
            str(path): path.read_bytes()
            for path in vault.root.rglob("*")
            if path.is_file() and vault.state not in path.parents
        }

    before = outside()
    mirror = opened(vault, state_home)
    mirror.apply(record("a"), b"1")
    mirror.write_manifest()
    mirror.sweep()
    assert outside() == before
