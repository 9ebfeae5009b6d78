"""The fake daemon that plugin authors test with, as clients of every kind meet it."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from wikid_client import Client, DaemonFailed, Progress, RequestRefused
from wikid_client.testing import FakeDaemon, Held, in_turn, sample_recall
from wikid_protocol import records as r
from wikid_protocol.errors import KINDS

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
MODEL = r.ModelRecord(name="m", purpose="embedder", state="ready")


def post(daemon: FakeDaemon, *bodies: object) -> list[tuple[int, Any]]:
    """Status and JSON of `POST /rpc` for each body, all over one connection."""

    async def scenario() -> list[tuple[int, Any]]:
        connector = aiohttp.UnixConnector(path=str(daemon.endpoint), limit=1)
        async with aiohttp.ClientSession(connector=connector) as session:
            return [await ask(session, body) for body in bodies]

    async def ask(session: aiohttp.ClientSession, body: object) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with session.post("http://wikid/rpc", data=data) as response:
            text = await response.read()
            return response.status, json.loads(text) if text else None

    return asyncio.run(scenario())


class Lines:
    """A client of another language: JSON lines, any order."""

    def __init__(self, daemon: FakeDaemon) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(20)
        self._socket.connect(str(daemon.endpoint))
        self._lines = self._socket.makefile("rb")

    def send(self, message: object) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Any:
        return json.loads(self._lines.readline())

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


def test_one_call_a_request() -> None:
    with FakeDaemon({"recall": sample_recall()}) as daemon:
        unknown = {**PING, "method": "nothing"}
        recall = {**PING, "id": "a", "method": "recall", "params": {"query": "q"}}
        answers = post(daemon, PING, unknown, recall, b"{no json")
    assert [status for status, _ in answers] == [200, 200, 200, 200]
    assert answers[0][1]["result"]["version"] == "0.0-fake"
    assert answers[1][1]["error"]["data"]["kind"] == "method_not_found"
    assert (answers[2][1]["id"], answers[2][1]["result"]["recall_id"]) == ("a", "recall-1")
    assert answers[3][1]["error"]["code"] == KINDS["parse_error"].code
    assert daemon.calls[-1] == ("recall", {"query": "q"})


def test_a_batch_is_answered_as_one_and_a_notification_not_at_all() -> None:
    with FakeDaemon() as daemon:
        several = [PING, {**PING, "id": 2}, {"jsonrpc": "2.0", "method": "ping"}, 7]
        (_, answers), (status, nothing) = post(daemon, several, {"jsonrpc": "2.0", "method": "ping"})
    assert [each["id"] for each in answers] == [1, 2, None]
    assert (status, nothing) == (204, None)


def test_a_scripted_break_is_seen_over_http_too() -> None:
    def broken(_: dict[str, Any]) -> object:
        raise ConnectionError

    with FakeDaemon({"status": broken}) as daemon, pytest.raises(aiohttp.ClientError):
        post(daemon, {**PING, "method": "status"})


def test_answers_may_follow_one_another() -> None:
    busy = RequestRefused("busy", "later", retry_after_ms=250)
    with (
        FakeDaemon({"models/list": in_turn(busy, r.ModelList(models=(MODEL,)))}) as daemon,
        Client(endpoint=daemon.endpoint) as client,
    ):
        with pytest.raises(RequestRefused) as caught:
            client.models_list()
        assert (caught.value.kind, caught.value.retry_after_ms) == ("busy", 250)
        assert client.models_list() == client.models_list()


def test_a_line_client_may_cancel_and_is_answered_in_any_order() -> None:
    held = Held(sample_recall())
    with FakeDaemon({"recall": held}) as daemon:
        lines = Lines(daemon)
        lines.send({**PING, "id": 7, "method": "recall", "params": {"query": "q"}})
        assert held.arrived.wait(20)
        lines.send({**PING, "id": 8})
        assert lines.receive()["id"] == 8
        lines.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 7}})
        refused = lines.receive()
        assert (refused["id"], refused["error"]["code"]) == (7, -32800)
        held.release()
        lines.send({**PING, "id": 9})
        assert lines.receive()["id"] == 9
        lines.close()


def test_progress_comes_with_the_token_of_the_call() -> None:
    def build(_: dict[str, Any]) -> Generator[Progress, None, r.ModelRecord]:
        yield Progress("report", "half", 50)
        return MODEL

    with FakeDaemon({"models/build": build}) as daemon:
        lines = Lines(daemon)
        lines.send({**PING, "method": "models/build", "params": {"progress_token": "t"}})
        assert lines.receive()["params"] == {
            "token": "t",
            "value": {"kind": "report", "message": "half", "percentage": 50},
        }
        assert lines.receive()["result"]["name"] == "m"
        lines.close()


def test_those_who_subscribed_are_told_until_they_end_it() -> None:
    with FakeDaemon() as daemon:
        lines = Lines(daemon)
        lines.send({**PING, "method": "subscribe", "params": {"kinds": ["vault/state"]}})
        subscription = lines.receive()["result"]["subscription"]
        assert daemon.notify("index/changed", {"vault_id": "v"}) == 0
        assert daemon.notify("vault/state", {"vault_id": "v", "state": "ready"}) == 1
        told = lines.receive()
        assert told["method"] == "vault/state"
        assert told["params"] == {"vault_id": "v", "state": "ready", "subscription": subscription}
        lines.send({**PING, "method": "unsubscribe", "params": {"subscription": subscription}})
        assert lines.receive()["result"] == {"done": True}
        assert daemon.notify("vault/state", {"vault_id": "v"}) == 0
        lines.close()


def test_a_test_may_wait_for_a_call() -> None:
    with FakeDaemon() as daemon:
        with pytest.raises(TimeoutError, match="vault/list"):
            daemon.until_called("vault/list", timeout=0)
        with Client(endpoint=daemon.endpoint) as client, pytest.raises(RequestRefused):
            client.vault_resolve("/here")
        assert daemon.until_called("vault/resolve") == {"cwd": "/here"}


def test_stopping_releases_what_is_held() -> None:
    held = Held(sample_recall())
    with FakeDaemon({"recall": held}) as daemon:
        with Client(endpoint=daemon.endpoint) as client, pytest.raises(DaemonFailed):
            client.recall("q", timeout=0.05)
        assert held.arrived.wait(20)
    assert held({}) == held.answer  # at once


def test_aiohttp_is_loaded_for_http_alone() -> None:
    code = (
        "import sys\n"
        "from wikid_client import Client\n"
        "from wikid_client.testing import FakeDaemon\n"
        "with FakeDaemon() as daemon, Client(endpoint=daemon.endpoint) as client: client.ping()\n"
        "print('aiohttp' in sys.modules, 'asyncio' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path("/"))
    assert done.stdout == "False False\n"


@pytest.mark.parametrize(
    ("answer", "words"), [(lambda params: params["x"], "KeyError"), (lambda _: object(), "serializable")]
)
def test_a_fault_of_the_table_is_told_and_not_waited_for(answer: Any, words: str) -> None:
    with FakeDaemon({"status": answer}) as daemon, Client(endpoint=daemon.endpoint, start=False) as client:
        with pytest.raises(RequestRefused, match=words) as refused:
            client.status()
        assert refused.value.kind == "internal"
        assert client.ping()
