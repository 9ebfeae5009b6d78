"""When a newer command replaces an older daemon, and that it does so once and never on doubt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wikid_client import DaemonFailed, RequestRefused, launch, stopping, upgrading
from wikid_client.testing import FakeDaemon
from wikid_client.upgrading import UpgradingClient, is_older
from wikid_protocol import __version__
from wikid_protocol import records as r

LISTED = r.VaultList(vaults=())


@pytest.mark.parametrize(
    ("version", "than", "older"),
    [
        ("0.1.0", "0.2.0", True),
        ("0.9.0", "0.10.0", True),
        ("0.1", "0.1.0", False),
        ("0.1.0", "0.1", False),
        ("0.1.0", "0.1.0", False),
        ("1.0.0", "0.9.9", False),
        ("0.0-fake", "0.1.0", False),
        ("", "0.1.0", False),
        ("0.1.0", "0.2.0rc1", False),
    ],
)
def test_only_a_plain_earlier_release_is_older(version: str, than: str, older: bool) -> None:
    assert is_older(version, than) is older


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaemon]:
    """A daemon in the background, older than this and without any method but the oldest."""
    monkeypatch.setattr(upgrading, "in_background", lambda _pid: True)
    with FakeDaemon({"ping": r.Pong(version="0.0.1", pid=os.getpid())}) as daemon:
        yield daemon


def restarts(daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch, **answers: object) -> None:
    """Starting a daemon is this one again, with what it now answers."""

    def start_daemon(_path: Path, connect: Any, _deadline: float) -> Any:
        daemon.answers.update({name.replace("_", "/"): value for name, value in answers.items()})
        daemon.start()
        return connect()

    monkeypatch.setattr(launch, "start_daemon", start_daemon)


def client_of(daemon: FakeDaemon, *, start: bool = True) -> UpgradingClient:
    return UpgradingClient(daemon.endpoint, start=start, timeout=20)


def called(daemon: FakeDaemon) -> list[str]:
    return [name for name, _ in daemon.calls]


def test_a_method_that_it_lacks_replaces_it_and_is_called_again(
    old: FakeDaemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    restarts(old, monkeypatch, ping=r.Pong(version=__version__, pid=1), vault_list=LISTED)
    with client_of(old) as client:
        assert client.vault_list() == LISTED
    assert called(old) == ["vault/list", "ping", "shutdown", "vault/list"]
    assert capsys.readouterr().err == f"wikid 0.0.1 was running and makes way for {__version__}.\n"


def test_a_daemon_that_comes_back_as_old_as_it_was_is_not_replaced_twice(
    old: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    restarts(old, monkeypatch)
    with client_of(old) as client:
        for _ in range(2):
            with pytest.raises(RequestRefused):
                client.vault_list()
        with pytest.raises(RequestRefused) as refused:
            client.vault_list()
    assert called(old).count("shutdown") == 1
    assert "wikid service install" in refused.value.hint


def test_an_answer_that_cannot_be_read_is_asked_for_again_but_a_change_is_not_made_twice(
    old: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    old.answers.update({"vault/list": r.Done(), "vault/add": r.Done()})
    restarts(old, monkeypatch, vault_list=LISTED)
    with client_of(old) as client:
        with pytest.raises(DaemonFailed, match="cannot be read"):
            client.vault_add("/notes")
        assert called(old) == ["vault/add"]
        assert client.vault_list() == LISTED


def test_a_daemon_that_another_command_has_just_replaced_is_asked_again(old: FakeDaemon) -> None:
    def ping(_params: dict[str, Any]) -> object:
        old.answers["vault/list"] = LISTED
        return r.Pong(version=__version__, pid=os.getpid())

    old.answers["ping"] = ping
    with client_of(old) as client:
        assert client.vault_list() == LISTED
    assert called(old) == ["vault/list", "ping", "vault/list"]


@pytest.mark.parametrize("version", ["999.0", "0.0-fake"])
def test_a_daemon_that_is_not_older_stays(old: FakeDaemon, version: str) -> None:
    old.answers["ping"] = r.Pong(version=version, pid=os.getpid())
    with client_of(old) as client, pytest.raises(RequestRefused) as refused:
        client.vault_list()
    assert called(old) == ["vault/list", "ping"]
    assert "restart" not in refused.value.hint
    assert ("update wikid" in refused.value.hint) is (version == "999.0")


def test_a_daemon_that_another_command_has_just_stopped_is_started_again(
    old: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_params: dict[str, Any]) -> object:
        old._unbind()
        return RequestRefused("method_not_found", "no such method")

    old.answers["vault/list"] = gone
    with client_of(old, start=False) as client, pytest.raises(RequestRefused):
        client.vault_list()
    old.start()
    restarts(old, monkeypatch, vault_list=LISTED)
    with client_of(old) as client:
        assert client.vault_list() == LISTED
    assert called(old) == ["vault/list"] * 3


def test_nothing_is_replaced_where_nothing_may_be_started(old: FakeDaemon) -> None:
    with client_of(old, start=False) as client, pytest.raises(RequestRefused) as refused:
        client.vault_list()
    assert called(old) == ["vault/list", "ping"]
    assert "wikid restart" in refused.value.hint


def test_a_daemon_in_the_foreground_stays_and_the_way_out_is_said(
    old: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrading, "in_background", lambda _pid: False)
    with client_of(old) as client, pytest.raises(RequestRefused) as refused:
        client.vault_list()
    assert called(old) == ["vault/list", "ping"]
    assert "wikid restart" in refused.value.hint


def test_a_client_without_a_daemon_to_start_leaves_the_old_one_running(
    old: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrading, "find_spec", lambda _name: None)
    with client_of(old) as client, pytest.raises(RequestRefused):
        client.vault_list()
    assert called(old) == ["vault/list", "ping"]


def test_calls_that_are_answered_cost_no_other(old: FakeDaemon) -> None:
    old.answers["vault/list"] = LISTED
    with client_of(old) as client:
        assert client.vault_list() == client.vault_list() == LISTED
    assert called(old) == ["vault/list", "vault/list"]


@pytest.mark.skipif(not hasattr(os, "getsid"), reason="sessions of processes")
def test_a_shells_child_is_no_background_process() -> None:
    assert upgrading.in_background(os.getsid(0)) is True
    assert upgrading.in_background(2**22 + 1) is False


def test_a_daemon_that_drops_the_connection_has_stopped(old: FakeDaemon) -> None:
    def broken(_params: dict[str, Any]) -> object:
        raise ConnectionError

    old.answers["shutdown"] = broken
    assert stopping.shut_down(old.endpoint, 20).was_running
