"""Opening vaults: layouts, blocking states, the one key that is added, the place of the state, registry, resolution."""

import errno
import json
import os
import shutil
import socket
import stat
import time
import uuid
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_daemon import files
from wikid_daemon.vault import config_json, state, vault
from wikid_daemon.vault.config_json import BackfillRefused, with_vault_id
from wikid_daemon.vault.filesystem import filesystem_of, parse_mountinfo, sync_folder
from wikid_daemon.vault.registry import Registry, RegistryEntry, RegistryUnreadable
from wikid_daemon.vault.resolve import resolve
from wikid_daemon.vault.vault import Vault, init_vault, inside, open_vault, read_page

DATA = Path(__file__).parents[1] / "data"
VARIANTS = json.loads((DATA / "expected" / "ugly.variants.json").read_text())
UNREADABLE = {"config-is-an-array.json", "config-is-empty.json", "config-is-not-json.json", "config-with-bom.json"}


@pytest.fixture
def state_home(tmp_path: Path) -> Path:
    return tmp_path / "state"


def copy(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / name, tmp_path / name))


def opened(root: Path, state_home: Path, **options: bool) -> Vault:
    return open_vault(root, name=None, state_home=state_home, **options)


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


# -- layouts and names


def test_a_new_layout_vault(tmp_path: Path, state_home: Path) -> None:
    root = copy("project", tmp_path)
    found = opened(root, state_home)
    assert (found.kind, found.layout, found.root) == ("wiki", "new", root.resolve())
    assert (found.vault_id, found.name, found.mode) == (
        "8c1d7b3e-52f4-4a0e-9a54-7d2b8f0c6e19",
        "orders-service",
        "company",
    )
    assert found.pages_root == root / ".llm-wiki" / "wiki"
    assert found.meta == root / ".llm-wiki" / "meta"
    assert (found.state, found.state_outside) == (root / ".llm-wiki" / "meta" / "wikid", None)
    assert found.blocked is None


def test_a_legacy_layout_vault(tmp_path: Path, state_home: Path) -> None:
    (tmp_path / "old" / ".wiki").mkdir(parents=True)
    (tmp_path / "old" / ".wiki" / "config.json").write_text('{\n  "topic": "Old"\n}\n')
    (tmp_path / "old" / "meta").mkdir()
    found = opened(tmp_path / "old", state_home)
    assert (found.kind, found.layout, found.topic, found.name) == ("wiki", "legacy", "Old", "old")
    assert found.pages_root == tmp_path / "old" / "wiki"
    assert found.state == tmp_path / "old" / "meta" / "wikid"


def test_the_new_marker_wins(tmp_path: Path, state_home: Path) -> None:
    root = copy("project", tmp_path)
    (root / ".wiki").mkdir()
    assert opened(root, state_home).layout == "new"


def test_a_plain_folder_is_read_only_and_never_written(tmp_path: Path, state_home: Path) -> None:
    notes = tmp_path / "notes"
    (notes / ".obsidian").mkdir(parents=True)
    (notes / "a.md").write_text("# A")
    found = opened(notes, state_home)
    assert (found.kind, found.layout, found.name, found.read_only) == ("plain", "plain", "notes", True)
    assert found.pages_root == notes
    assert state_home in found.state.parents
    assert found.vault_id == str(uuid.uuid5(uuid.NAMESPACE_URL, notes.as_uri()))
    assert tree(notes) == {"a.md": b"# A"}


def test_two_plain_folders_of_one_name_do_not_share_their_state(tmp_path: Path, state_home: Path) -> None:
    for parent in ("x", "y"):
        (tmp_path / parent / "notes").mkdir(parents=True)
    one, other = (opened(tmp_path / parent / "notes", state_home) for parent in ("x", "y"))
    assert one.state != other.state
    assert one.vault_id != other.vault_id


def test_the_marker_folder_stands_for_the_vault_around_it_and_symlinks_are_resolved(
    tmp_path: Path, state_home: Path
) -> None:
    root = copy("project", tmp_path)
    (tmp_path / "link").symlink_to(root)
    assert opened(root / ".llm-wiki", state_home) == opened(tmp_path / "link", state_home) == opened(root, state_home)


def test_a_symlinked_marker_is_followed(tmp_path: Path, state_home: Path) -> None:
    root = copy("personal", tmp_path)
    moved = tmp_path / "elsewhere"
    (root / ".llm-wiki").rename(moved)
    (root / ".llm-wiki").symlink_to(moved)
    found = opened(root, state_home)
    assert found.pages_root == moved / "wiki"
    assert read_page(found, "reading-list.md", 1 << 20).data


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda _: None, vault.VaultMissing),
        (lambda path: path.write_text("x"), vault.NotAFolder),
        (lambda path: path.symlink_to(path), vault.VaultMissing),
    ],
)
def test_what_is_no_folder_cannot_be_opened(tmp_path: Path, state_home: Path, make: object, error: type) -> None:
    make(tmp_path / "x")  # type: ignore[operator]
    with pytest.raises(error):
        opened(tmp_path / "x", state_home)


# -- blocking states


@pytest.mark.parametrize("case", sorted(VARIANTS))
def test_every_variant_blocks_as_the_extension_does(case: str, tmp_path: Path, state_home: Path) -> None:
    root = copy("ugly", tmp_path)
    kind, name = case.split(": ")
    config = root / ".llm-wiki" / "config.json"
    if kind == "config":
        shutil.copy(root / "config-variants" / name, config)
    else:
        mode = kind.removesuffix(" root index")
        config.write_text(json.dumps({**json.loads(config.read_text()), "knowledge_format": mode}))
        shutil.copy(root / "okf-root-index-variants" / name, root / ".llm-wiki" / "wiki" / "index.md")
    before = config.read_bytes()
    expected = VARIANTS[case]
    read = config_json.read_config(config, root / ".llm-wiki" / "wiki" / "index.md")
    found = opened(root, state_home)
    assert read.knowledge_format == expected["format"]
    assert ([found.blocked.code] if found.blocked else []) == expected["codes"]
    assert (found.blocked is not None) == expected["blocking"]
    if found.blocked is not None:
        assert found.blocked.serve == (name not in UNREADABLE)
        assert config.read_bytes() == before
        assert found.state_outside == "read_only"


def test_a_missing_config_blocks_and_serves_nothing(tmp_path: Path, state_home: Path) -> None:
    root = copy("project", tmp_path)
    (root / ".llm-wiki" / "config.json").unlink()
    found = opened(root, state_home)
    assert found.blocked is not None
    assert (found.blocked.code, found.blocked.serve) == ("config_invalid_knowledge_format", False)
    assert not (root / ".llm-wiki" / "config.json").exists()


def test_a_missing_root_index_is_fine_and_an_unreadable_one_is_not(tmp_path: Path, state_home: Path) -> None:
    root = copy("personal", tmp_path)
    index = root / ".llm-wiki" / "wiki" / "index.md"
    index.unlink()
    assert opened(root, state_home).blocked is None
    index.mkdir()
    blocked = opened(root, state_home).blocked
    assert blocked is not None
    assert blocked.code == "okf_version_mismatch"


# -- the vault_id


def test_an_absent_vault_id_is_added_once_and_nothing_else_changes(tmp_path: Path, state_home: Path) -> None:
    root = copy("personal", tmp_path)
    config = root / ".llm-wiki" / "config.json"
    config.chmod(0o640)
    before, all_before = config.read_text(), tree(root)
    found = opened(root, state_home)
    uuid.UUID(found.vault_id)
    assert config.read_text() == before.replace('"okf-0.2"\n}', f'"okf-0.2",\n  "vault_id": "{found.vault_id}"\n}}')
    assert stat.S_IMODE(config.stat().st_mode) == 0o640
    assert opened(root, state_home).vault_id == found.vault_id
    assert tree(root) == {**all_before, ".llm-wiki/config.json": config.read_bytes()}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"name":"ok"}\n', '{"name":"ok", "vault_id": "ID"}\n'),
        ("{}", '{"vault_id": "ID"}'),
        ('{\r\n\t"a": {"b": "}"}\r\n}\r\n', '{\r\n\t"a": {"b": "}"},\r\n\t"vault_id": "ID"\r\n}\r\n'),
        ('\n {\n    "a": [1]}', '\n {\n    "a": [1],\n    "vault_id": "ID"}'),
    ],
)
def test_the_key_is_inserted_in_the_files_own_style(before: str, after: str) -> None:
    assert with_vault_id(before.encode(), "ID").decode() == after


@pytest.mark.parametrize(
    "data", [b'\xef\xbb\xbf{"a":1}', b'{"a":1,"a":2}', b'{"a":"\xff"}', b"[]", b"", b'{"vault_id":null}', b'{"a":NaN}']
)
def test_odd_files_are_not_touched(data: bytes) -> None:
    with pytest.raises(BackfillRefused):
        with_vault_id(data, "ID")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(
    st.dictionaries(st.text(), json_values).filter(lambda values: "vault_id" not in values),
    st.sampled_from([None, 0, 2, 4, "\t"]),
    st.booleans(),
)
def test_adding_the_key_keeps_every_other_byte(values: dict[str, object], indent: object, ascii_only: bool) -> None:
    before = json.dumps(values, indent=indent, ensure_ascii=ascii_only) + "\n"  # type: ignore[arg-type]
    after = with_vault_id(before.encode("utf-8", "surrogatepass"), "ID").decode()
    assert json.loads(after) == {**values, "vault_id": "ID"}
    start = next((at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
    assert after[:start] + after[start + len(after) - len(before) :] == before


@pytest.mark.parametrize("variant", ["vault-id-not-a-uuid.json", "vault-id-number.json"])
def test_an_invalid_vault_id_is_reported_and_never_replaced(variant: str, tmp_path: Path, state_home: Path) -> None:
    root = copy("ugly", tmp_path)
    config = root / ".llm-wiki" / "config.json"
    shutil.copy(root / "config-variants" / variant, config)
    before = config.read_bytes()
    found = opened(root, state_home)
    assert [finding.code for finding in found.findings] == ["config_invalid_vault_id"]
    assert found.vault_id == vault.path_vault_id(root)
    assert config.read_bytes() == before


def test_opting_out_uses_the_path(tmp_path: Path, state_home: Path) -> None:
    root = copy("personal", tmp_path)
    before = tree(root)
    assert opened(root, state_home, may_backfill=False).vault_id == vault.path_vault_id(root)
    assert tree(root) == before


def test_another_writer_during_the_backfill_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"name": "a"}')
    theirs = str(uuid.uuid4())
    real = config_json.with_vault_id
    calls: list[int] = []

    def interrupted(data: bytes, vault_id: str) -> bytes:
        if not calls:
            config.write_text(json.dumps({"name": "a", "vault_id": theirs}))
        calls.append(1)
        return real(data, vault_id)

    monkeypatch.setattr(config_json, "with_vault_id", interrupted)
    assert config_json.backfill_vault_id(config) == theirs
    assert json.loads(config.read_text())["vault_id"] == theirs
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_a_full_disk_leaves_the_config_alone(tmp_path: Path, state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copy("personal", tmp_path)
    before = tree(root)

    def full(*_: object) -> bool:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(files, "replace_if_unchanged", full)
    found = opened(root, state_home)
    assert [finding.code for finding in found.findings] == ["vault_id_not_stored"]
    assert "disk_full" in found.findings[0].message
    assert tree(root) == before


def test_a_symlinked_config_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "config.json").symlink_to(tmp_path / "real.json")
    with pytest.raises(BackfillRefused):
        config_json.backfill_vault_id(tmp_path / "config.json")


# -- the place of the generated tree


def test_a_vault_that_cannot_be_written_is_not(
    tmp_path: Path, state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copy("personal", tmp_path)
    before = tree(root)
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: root not in Path(path).parents and real(path, mode))
    found = opened(root, state_home)
    assert (found.read_only, found.state_outside) == (True, "read_only")
    assert state_home in found.state.parents
    assert found.vault_id == vault.path_vault_id(root)
    assert tree(root) == before


def test_another_machines_tree_is_left_alone(tmp_path: Path, state_home: Path) -> None:
    root = copy("project", tmp_path)
    ours = root / ".llm-wiki" / "meta" / "wikid"
    state.prepare_tree(ours, orjson.dumps({"machine": state.machine_id(state_home)}))
    assert opened(root, state_home).state == ours
    elsewhere = opened(root, tmp_path / "state of another machine")
    assert elsewhere.state_outside == "other_machine"
    assert ours not in elsewhere.state.parents


@pytest.mark.parametrize("manifest", [None, b"not json", b"[]", b'{"machine": 5}'])
def test_a_tree_nobody_can_tell_the_owner_of_is_left_alone(
    manifest: bytes | None, tmp_path: Path, state_home: Path
) -> None:
    root = copy("project", tmp_path)
    (root / ".llm-wiki" / "meta" / "wikid" / "current").mkdir(parents=True)
    if manifest is not None:
        (root / ".llm-wiki" / "meta" / "wikid" / "manifest.json").write_bytes(manifest)
    assert opened(root, state_home).state_outside == "other_machine"


def test_a_tree_whose_first_write_was_cut_off_is_still_ours(tmp_path: Path, state_home: Path) -> None:
    root = copy("project", tmp_path)
    (root / ".llm-wiki" / "meta" / "wikid").mkdir()
    (root / ".llm-wiki" / "meta" / "wikid" / "manifest.json.tmp-1-ab").write_text("{")
    assert opened(root, state_home).state_outside is None


@pytest.mark.parametrize("link", ["meta", "meta/wikid"])
def test_a_linked_tree_is_not_written_through(link: str, tmp_path: Path, state_home: Path) -> None:
    root = copy("project", tmp_path)
    (tmp_path / "target").mkdir()
    place = root / ".llm-wiki" / link
    if place.exists():
        shutil.rmtree(place)
    place.symlink_to(tmp_path / "target")
    assert opened(root, state_home).state_outside == "linked_elsewhere"


@pytest.mark.parametrize(("above", "marker"), [("Dropbox", None), ("OneDrive - Work", None), ("any", ".stfolder")])
def test_a_vault_in_a_sync_folder_keeps_its_state_outside(
    above: str, marker: str | None, tmp_path: Path, state_home: Path
) -> None:
    (tmp_path / above).mkdir()
    if marker is not None:
        (tmp_path / above / marker).mkdir()
    root = copy("project", tmp_path / above)
    found = opened(root, state_home)
    assert found.state_outside == "sync_folder"
    assert sync_folder(root) == tmp_path / above


def test_a_network_file_system_is_told_from_the_deepest_mount(
    tmp_path: Path, state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = (
        b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        b"40 22 0:45 / /mnt/my\\040share rw shared:9 - nfs4 host:/x rw\n"
        b"41 40 0:46 / /mnt/my\\040share/local rw - tmpfs none rw\n"
    )
    mounts = parse_mountinfo(listing)
    assert filesystem_of(Path("/mnt/my share/notes"), mounts) == "nfs4"
    assert filesystem_of(Path("/mnt/my share/local/notes"), mounts) == "tmpfs"
    assert filesystem_of(Path("/mnt/my shared"), mounts) == "ext4"
    monkeypatch.setattr("wikid_daemon.vault.filesystem._mounts", lambda: [("/", "fuse.sshfs")])
    assert opened(copy("project", tmp_path), state_home).state_outside == "network_filesystem"


# -- reading pages


@pytest.mark.parametrize(
    "relative", ["../outside.md", "/etc/passwd", "a//b.md", "", ".", "a/../../x.md", "linked/secret.md", "a\0.md"]
)
def test_paths_out_of_the_vault_are_refused(relative: str, tmp_path: Path, state_home: Path) -> None:
    notes, outside = tmp_path / "notes", tmp_path / "outside"
    notes.mkdir()
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    (tmp_path / "outside.md").write_text("secret")
    (notes / "linked").symlink_to(outside)
    with pytest.raises(vault.OutsideVault):
        inside(opened(notes, state_home), relative)


def test_only_regular_files_of_bounded_size_are_read(tmp_path: Path) -> None:
    (tmp_path / "ok.md").write_bytes(b"0123456789")
    (tmp_path / "link.md").symlink_to(tmp_path / "ok.md")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "device.md").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.md")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s.md"))
        assert files.read_regular(tmp_path / "ok.md", 10).data == b"0123456789"
        for name in ("link.md", "folder.md", "device.md", "pipe.md", "s.md"):
            with pytest.raises(files.NotRegular):
                files.read_regular(tmp_path / name, 10)
    with pytest.raises(files.TooLarge):
        files.read_regular(tmp_path / "ok.md", 9)
    with pytest.raises(FileNotFoundError):
        files.read_regular(tmp_path / "none.md", 9)


def test_a_file_swapped_for_a_symlink_after_the_look_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a.md").write_text("ok")
    real = os.lstat

    def then_swap(path: Path) -> os.stat_result:
        status = real(path)
        path.unlink()
        path.symlink_to(tmp_path / "secret")
        return status

    monkeypatch.setattr(os, "lstat", then_swap)
    with pytest.raises(files.NotRegular):
        files.read_regular(tmp_path / "a.md", 100)


def test_a_fresh_files_stamp_is_distrusted_and_an_old_ones_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.md"
    path.write_text("x")
    status = files.stamp_of(path.stat())
    assert files.read_regular(path, 10).stamp == status.distrusted()
    monkeypatch.setattr(time, "time_ns", lambda: status.ctime_ns + 10**10)
    assert files.read_regular(path, 10).stamp == status


def test_a_file_that_keeps_changing_is_not_read_torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.md"
    path.write_text("x")
    real = os.read

    def growing(descriptor: int, size: int) -> bytes:
        with path.open("a") as file:
            file.write("y")
        return real(descriptor, 1) if size > 9_990 else b""

    monkeypatch.setattr(os, "read", growing)
    with pytest.raises(files.Unstable):
        files.read_regular(path, 9_999)


@pytest.mark.parametrize("durable", [False, True])
def test_an_atomic_write_keeps_the_mode_and_leaves_nothing_behind(durable: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    files.atomic_write(path, b"one", durable=durable)
    path.chmod(0o600)
    files.atomic_write(path, b"two", durable=durable)
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"one")

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="broken"):
        files.atomic_write(path, b"two")
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["a.json"]


# -- new vaults


def test_a_new_vault_opens_and_is_never_overwritten(tmp_path: Path, state_home: Path) -> None:
    root = init_vault(tmp_path / "new", "Gardening", "personal")
    found = opened(root, state_home)
    config = json.loads((root / ".llm-wiki" / "config.json").read_text())
    assert (found.topic, found.name, found.mode, found.blocked) == ("Gardening", "Gardening", "personal", None)
    assert config["knowledge_format"] == "okf-0.2"
    assert found.vault_id == config["vault_id"]
    assert (root / ".llm-wiki" / "config.json").read_text().startswith('{\n  "name": "Gardening"')
    assert {path.name for path in found.pages_root.iterdir()} == {
        "sources",
        "entities",
        "concepts",
        "syntheses",
        "analyses",
        "requirements",
    }
    event = json.loads((root / ".llm-wiki" / "meta" / "events.jsonl").read_text())
    assert (event["kind"], event["topic"], event["timestamp"][-1]) == ("bootstrap", "Gardening", "Z")
    before = tree(root)
    with pytest.raises(vault.VaultExists):
        init_vault(root, "Other", "personal")
    assert tree(root) == before


def test_a_half_made_vault_is_completed_around_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "v" / ".llm-wiki" / "wiki" / "concepts").mkdir(parents=True)
    (tmp_path / "v" / ".llm-wiki" / "wiki" / "concepts" / "a.md").write_text("mine")
    (tmp_path / "v" / ".llm-wiki" / "WIKI_SCHEMA.md").write_text("mine")
    root = init_vault(tmp_path / "v", " ", "company")
    assert (root / ".llm-wiki" / "wiki" / "concepts" / "a.md").read_text() == "mine"
    assert (root / ".llm-wiki" / "WIKI_SCHEMA.md").read_text() == "mine"
    assert json.loads((root / ".llm-wiki" / "config.json").read_text())["topic"] == "pending"


def test_a_vault_is_not_made_over_a_legacy_one_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "old" / ".wiki").mkdir(parents=True)
    with pytest.raises(vault.VaultExists):
        init_vault(tmp_path / "old", "x", "personal")
    (tmp_path / "file").write_text("x")
    with pytest.raises(vault.NotAFolder):
        init_vault(tmp_path / "file", "x", "personal")


# -- the registry


def entry(path: str, name: str = "n") -> RegistryEntry:
    return RegistryEntry(Path(path), name, "8c1d7b3e-52f4-4a0e-9a54-7d2b8f0c6e19")


def test_the_registry_keeps_its_entries(tmp_path: Path) -> None:
    path = tmp_path / "config" / "vaults.json"
    registry = Registry(path)
    assert registry.load() == ()
    registry.add(entry("/b"))
    registry.add(entry("/a"))
    registry.add(entry("/b", "renamed"))
    again = Registry(path)
    assert again.load() == ()
    assert again.list() == (entry("/a"), entry("/b", "renamed"))
    assert again.remove(Path("/a")) == entry("/a")
    assert again.remove(Path("/a")) is None
    registry.load()
    assert registry.list() == (entry("/b", "renamed"),)


@pytest.mark.parametrize(
    ("data", "left"),
    [
        (b'{"vaults": [', 0),
        (b"[]", 0),
        (
            b'{"vaults": [{"path": "/a", "name": "n", "vault_id": "i"}, {"path": "b", "name": "n", "vault_id": "i"}]}',
            1,
        ),
        (b'{"vaults": [{"path": "/a", "name": "n", "vault_id": "i"}, 7, {"path": "/b"}]}', 1),
    ],
)
def test_a_damaged_registry_is_kept_aside_before_it_is_written(data: bytes, left: int, tmp_path: Path) -> None:
    path = tmp_path / "vaults.json"
    path.write_bytes(data)
    registry = Registry(path)
    assert registry.load()
    assert len(registry.list()) == left
    assert path.read_bytes() == data
    registry.add(entry("/new"))
    kept = {fault.kept_as for fault in registry.faults}
    assert kept == {tmp_path / "vaults.damaged-1.json"}
    assert (tmp_path / "vaults.damaged-1.json").read_bytes() == data
    again = Registry(path)
    assert again.load() == ()
    assert len(again.list()) == left + 1


def test_a_registry_that_cannot_be_read_is_not_taken_for_empty(tmp_path: Path) -> None:
    (tmp_path / "vaults.json").mkdir()
    with pytest.raises(RegistryUnreadable):
        Registry(tmp_path / "vaults.json").load()


# -- which vaults apply


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    found = {
        name: tmp_path / name for name in ("home", "home/project", "home/project/src/deep", "other/wiki-home", "free")
    }
    for path in found.values():
        path.mkdir(parents=True)
    for name in ("home", "home/project", "other/wiki-home"):
        (found[name] / ".llm-wiki").mkdir()
    return found


@pytest.mark.parametrize(
    ("cwd", "registered", "wiki_home", "active", "why"),
    [
        ("home/project", [], False, "home/project", "marker_here"),
        ("home/project", [], True, "home/project", "marker_here"),
        ("home/project/src/deep", [], False, "home/project", "marker_above"),
        ("home/project/src/deep", [], True, "other/wiki-home", "wiki_home"),
        ("home/project/src/deep", ["home/project/src", "home/project"], False, "home/project/src", "registered"),
        ("home/project/src/deep", ["home/project"], True, "home/project", "registered"),
        ("home/project/src/deep", ["home"], False, "home/project", "marker_above"),
        ("home", [], False, "home", "marker_here"),
        ("free", [], False, "home", "personal"),
        ("free", ["home/project"], True, "other/wiki-home", "wiki_home"),
    ],
)
def test_the_order_of_the_rules(
    places: dict[str, Path],
    tmp_path: Path,
    cwd: str,
    registered: list[str],
    wiki_home: bool,
    active: str,
    why: str,
) -> None:
    result = resolve(
        places[cwd],
        [tmp_path / name for name in registered],
        home=places["home"],
        wiki_home=str(places["other/wiki-home"]) if wiki_home else None,
    )
    assert result.active is not None
    assert (result.active.root, result.active.why) == (tmp_path / active, why)
    personal = places["other/wiki-home" if wiki_home else "home"]
    assert result.roots == tuple(dict.fromkeys([tmp_path / active, personal]))
    assert result.unprompted == (why != "personal")


def test_nothing_applies_without_a_marker_or_a_personal_vault(places: dict[str, Path]) -> None:
    result = resolve(places["free"], [], home=places["free"], wiki_home=None)
    assert (result.active, result.personal, result.roots, result.unprompted) == (None, None, (), False)


def test_a_linked_folder_is_resolved_before_the_rules_apply(places: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(places["home/project"])
    result = resolve(tmp_path / "link", [], home=places["home"], wiki_home=None)
    assert result.roots == (places["home/project"], places["home"])
