"""The wire: golden messages, the strict decoder, limits, errors and the endpoint."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_protocol import endpoint, messages
from wikid_protocol import records as r
from wikid_protocol.decode import DecodeError, decode
from wikid_protocol.errors import KINDS, DaemonNotRunning, RequestRefused
from wikid_protocol.limits import LIMITS
from wikid_protocol.methods import METHODS, RecallParams
from wire_values import values_of


@pytest.mark.parametrize("kind", sorted({k for m in METHODS.values() for k in (m.params, m.result)}, key=str))
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_every_params_and_result_survives_the_wire(kind: type, data: st.DataObject) -> None:
    record = data.draw(values_of(kind))
    assert decode(kind, orjson.loads(messages.encode(record))) == record


def test_members_from_a_newer_daemon_are_ignored() -> None:
    assert decode(r.Pong, {"version": "9", "pid": 1, "colour": "blue"}) == r.Pong(version="9", pid=1)


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        (r.Pong, {"version": "1"}, "pid"),
        (r.Pong, {"version": "1", "pid": "1"}, "pid"),
        (r.Pong, {"version": "1", "pid": True}, "pid"),
        (r.Pong, {"version": None, "pid": 1}, "version"),
        (r.VaultList, {"vaults": [{"vault_id": "v", "name": "n", "path": "/", "kind": "odd"}]}, "vaults[0].kind"),
        (r.VaultList, {"vaults": {}}, "vaults"),
        (RecallParams, {"query": "q", "types": ["a", 1]}, "types[1]"),
        (r.VaultStatus, {"vault": {}, "state": "ready"}, "vault.vault_id"),
    ],
)
def test_a_wrong_member_is_named_by_its_path_and_never_quoted(kind: type, value: object, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(kind, value)
    assert caught.value.path == path
    assert "odd" not in str(caught.value)


def test_whole_numbers_are_taken_for_fractions() -> None:
    value = {"vault_id": "v", "name": "n", "generation": 1, "elapsed_ms": 3}
    assert decode(r.Synced, value).elapsed_ms == 3.0


def test_golden_messages() -> None:
    assert (
        messages.request(7, "recall", RecallParams(query="é"))
        == (
            '{"jsonrpc":"2.0","id":7,"method":"recall","params":{"query":"é","cwd":null,"vault":null,"policy":"explicit",'
            '"mode":null,"max_results":5,"types":[],"since":null,"until":null,"session":null,"deadline_ms":null,'
            '"explain":false}}\n'
        ).encode()
    )
    assert messages.result(7, r.Pong(version="0.1", pid=3)) == (
        b'{"jsonrpc":"2.0","id":7,"result":{"version":"0.1","pid":3,"protocol":1}}\n'
    )
    assert messages.notification("$/cancelRequest", {"id": 7}) == (
        b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":7}}\n'
    )
    refused = RequestRefused("busy", "try again", hint="wait a little", retry_after_ms=250)
    assert messages.failure(None, refused) == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32007,"message":"try again",'
        b'"data":{"kind":"busy","hint":"wait a little","retry":true,"retry_after_ms":250}}}\n'
    )


def test_a_message_is_one_line_whatever_is_in_it() -> None:
    assert messages.request(1, "recall", {"query": "a\nb\r\u2028c"}).count(b"\n") == 1


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"{", "parse_error"),
        (b'{"a": "\xff"}', "parse_error"),
        (b"[" * 65 + b"]" * 65, "parse_error"),
        (b'"' + b"a" * LIMITS.message_bytes + b'"', "message_too_large"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes, kind: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        messages.parse(data)
    assert caught.value.kind == kind


def test_brackets_in_strings_are_not_depth() -> None:
    assert messages.parse(b'["' + b'[{\\"' * 100 + b'"]') == ['[{"' * 100]
    assert messages.parse(b"[" * 64 + b"]" * 64)


@pytest.mark.parametrize(
    ("value", "call_id", "kind"),
    [
        ([], None, "invalid_request"),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, None, "invalid_request"),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, None, "invalid_request"),
        ({"id": 1, "method": "ping"}, 1, "invalid_request"),
        ({"jsonrpc": "2.0", "id": 2}, 2, "invalid_request"),
        ({"jsonrpc": "2.0", "id": "x", "method": "ping", "params": [1]}, "x", "invalid_params"),
    ],
)
def test_what_is_no_call_is_answered_under_its_id(value: object, call_id: object, kind: str) -> None:
    found = messages.read_call(value)
    assert isinstance(found, messages.BadCall)
    assert (found.id, found.error.kind) == (call_id, kind)


def test_a_call_without_id_is_a_notification() -> None:
    assert messages.read_call({"jsonrpc": "2.0", "method": "ping"}) == messages.Call(None, "ping", {}, True)
    assert messages.read_call({"jsonrpc": "2.0", "id": None, "method": "ping", "params": None}) == messages.Call(
        None, "ping", {}
    )


@pytest.mark.parametrize("kind", KINDS)
def test_errors_cross_the_wire_unchanged(kind: str) -> None:
    sent = RequestRefused(kind, "words", hint="next", retry_after_ms=5)
    got = RequestRefused.from_wire(orjson.loads(orjson.dumps(sent.to_wire())))
    assert (got.kind, got.message, got.hint, got.retry_after_ms, got.code, got.exit_code) == (
        kind,
        "words",
        "next",
        5,
        KINDS[kind].code,
        KINDS[kind].exit_code,
    )


def test_error_codes_are_distinct_and_in_their_ranges() -> None:
    codes = [row.code for row in KINDS.values()]
    assert len(set(codes)) == len(codes)
    assert all(-32019 <= code <= -32000 or code <= -32600 for code in codes)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (None, "internal"),
        ({"code": -32601, "message": "no"}, "method_not_found"),
        ({"code": 1, "message": None, "data": []}, "internal"),
        ({"code": -32000, "message": "m", "data": {"kind": "from_the_future"}}, "from_the_future"),
    ],
)
def test_odd_errors_still_become_errors(error: object, kind: str) -> None:
    found = RequestRefused.from_wire(error)
    assert found.kind == kind
    assert "None" not in found.message
    assert found.exit_code in range(6)


def test_a_missing_daemon_says_what_to_do_in_its_text() -> None:
    assert str(DaemonNotRunning("nobody answers", hint="run this")) == "nobody answers; run this"


def test_the_socket_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert endpoint.socket_path({"WIKID_SOCKET": "a.sock"}) == tmp_path / "a.sock"
    assert endpoint.socket_path({"XDG_RUNTIME_DIR": "/run/me"}) == Path("/run/me/wikid/wikid.sock")


def test_without_a_runtime_folder_the_login_s_own_is_used_then_a_temporary_one(monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"TMPDIR": "/scratch", "XDG_RUNTIME_DIR": "not/absolute"}
    monkeypatch.setattr(endpoint, "_is_own_folder", lambda _: True)
    assert endpoint.socket_path(env) == Path(f"/run/user/{os.getuid()}/wikid/wikid.sock")
    monkeypatch.setattr(endpoint, "_is_own_folder", lambda _: False)
    assert endpoint.socket_path(env) == Path(f"/scratch/wikid-{os.getuid()}/wikid.sock")


@settings(deadline=None)
@given(st.text("abcé/", min_size=1, max_size=300))
def test_every_socket_path_fits_and_stays_apart_from_others(text: str) -> None:
    one = endpoint.socket_path({"WIKID_SOCKET": "/" + text})
    assert len(os.fsencode(one)) <= endpoint.MAX_SOCKET_BYTES
    assert one == endpoint.socket_path({"WIKID_SOCKET": "/" + text})
    assert one != endpoint.socket_path({"WIKID_SOCKET": "/" + text + "z"})


def test_the_socket_s_folder_is_made_private_and_checked(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "wikid"
    endpoint.check_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    endpoint.check_folder(folder)
    folder.chmod(0o750)
    with pytest.raises(endpoint.EndpointRefused, match="chmod 700"):
        endpoint.check_folder(folder)
    (folder / "notes.txt").touch()  # somebody's, who would be shut out of it
    with pytest.raises(endpoint.EndpointRefused, match="set WIKID_SOCKET"):
        endpoint.check_folder(folder)
    (folder / "notes.txt").unlink()
    folder.chmod(0o1777)
    with pytest.raises(endpoint.EndpointRefused, match="set WIKID_SOCKET"):
        endpoint.check_folder(folder)


def test_a_link_or_a_file_is_no_folder_for_a_socket(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name in ("file", "link"):
        with pytest.raises(endpoint.EndpointRefused, match="not a folder"):
            endpoint.check_folder(tmp_path / name)
    assert (tmp_path / "file").read_text() == "mine"


def test_folders_follow_xdg_first_and_each_platform_s_custom_otherwise() -> None:
    xdg = {"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "relative"}
    for platform in ("linux", "darwin", "win32"):
        found = endpoint.folders(xdg, platform)
        assert (found.config, found.state) == (Path("/c/wikid"), Path("/s/wikid"))
    assert endpoint.folders(xdg, "linux").cache == Path("/h/.cache/wikid")
    assert endpoint.folders({"HOME": "/h"}, "darwin").config == Path("/h/Library/Application Support/wikid")
    assert endpoint.folders({"HOME": "/h", "LOCALAPPDATA": "/l"}, "win32").state == Path("/l/wikid")
