"""One suite over every framing of the endpoint, against one real daemon: the same questions get the same answers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import HANG_GUARD_SECONDS, base_notes, write
from daemon_process import DaemonProcess
from links import CONVERSATIONS, FRAMINGS, Closed, FramingName, ask, call, http_session, kind_of, linked
from serving import Message, scenario
from wikid_protocol.limits import LIMITS, MAX_QUERY_CODE_POINTS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")

OWN_TO_EACH_ANSWER = ("recall_id", "elapsed_ms")
each_framing = pytest.mark.parametrize("framing", FRAMINGS)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a daemon without a model answers about one folder, `notes`."""
    home = tmp_path_factory.mktemp("framings")
    base_notes(home / "notes", 60)
    write(home / "notes", "other.md", "# Größe\n\nDas Café über dem Ufer 🎉 and a word: tokother\n")
    with DaemonProcess(home / "home") as running:
        running.add(home / "notes", "notes")
        yield running.endpoint


@each_framing
@scenario
async def test_ping_and_status(endpoint: Path, framing: FramingName) -> None:
    async with linked(endpoint, framing) as link:
        pong = (await ask(link, 1, "ping"))["result"]
        status = (await ask(link, "two", "status", vault="notes"))["result"]
    assert status["daemon"]["pid"] == pong["pid"]
    assert [each["pages"] for each in status["vaults"]] == [61]


@each_framing
@scenario
async def test_the_handshake_tells_the_limits(endpoint: Path, framing: FramingName) -> None:
    async with linked(endpoint, framing) as link:
        agreed = (await ask(link, 1, "initialize", protocol={"min": 1, "max": 99}))["result"]
    assert agreed["protocol"] == 1
    assert agreed["limits"]["message_bytes"] == LIMITS.message_bytes


@scenario
async def test_a_recall_is_the_same_record_over_every_framing(endpoint: Path) -> None:
    found: list[Message] = []
    for query in ("tok07zebra harbour", "Größe café 🎉", "nothing of the kind at all xyzzy"):
        for framing in FRAMINGS:
            async with linked(endpoint, framing) as link:
                answer = (await ask(link, 1, "recall", query=query, vault="notes"))["result"]
            found.append({name: value for name, value in answer.items() if name not in OWN_TO_EACH_ANSWER})
    for start in range(0, len(found), len(FRAMINGS)):
        assert all(each == found[start] for each in found[start : start + len(FRAMINGS)])
    assert found[0]["bundles"]
    assert found[-1]["bundles"] == []


@each_framing
@pytest.mark.parametrize(
    ("method", "params", "kind"),
    [
        ("no/such", {}, "method_not_found"),
        ("recall", {}, "invalid_params"),
        ("recall", {"query": 5}, "invalid_params"),
        ("recall", {"query": "tide", "vault": "notes", "mode": "psychic"}, "invalid_params"),
        ("recall", {"query": "x" * (MAX_QUERY_CODE_POINTS + 1), "vault": "notes"}, "recall_query_too_long"),
        ("recall", {"query": "tide", "vault": "nowhere"}, "vault_not_found"),
        ("recall", {"query": "tide", "vault": "/no\0where"}, "vault_not_found"),
        ("recall", {"query": "tide", "cwd": "/no\0where"}, "invalid_params"),
        ("page/get", {"vault_id": "notes", "page_id": "../../etc/passwd"}, None),
    ],
    ids=[
        "unknown method",
        "no query",
        "a number as query",
        "unknown mode",
        "long query",
        "unknown vault",
        "NUL in a vault",
        "NUL in a folder",
        "way out",
    ],
)
@scenario
async def test_a_refusal_is_typed_and_the_connection_goes_on(
    endpoint: Path, framing: FramingName, method: str, params: dict[str, Any], kind: str | None
) -> None:
    async with linked(endpoint, framing) as link:
        data = (await ask(link, 1, method, **params))["error"]["data"]
        assert data["kind"] == kind or (kind is None and data["kind"] in {"outside_vault", "page_not_found"})
        assert "result" in await ask(link, 2, "ping")


@each_framing
@scenario
async def test_a_time_out_may_be_as_long_as_a_number_can_be(endpoint: Path, framing: FramingName) -> None:
    async with linked(endpoint, framing) as link:
        assert "result" in await ask(link, 1, "index/sync", vault="notes", timeout_ms=2**63)


@each_framing
@scenario
async def test_what_is_no_message_is_refused_and_the_connection_goes_on(endpoint: Path, framing: FramingName) -> None:
    nested = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":[' * 40 + b"]}" * 40 + b"}"
    deep = b"[" * 100_000 + b"]" * 100_000
    async with linked(endpoint, framing) as link:
        for message, kind in (
            (b'{"jsonrpc"', "parse_error"),
            (b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}', "parse_error"),
            (nested, "parse_error"),
            (deep, "parse_error"),
            (b"{}", "invalid_request"),
            (b"[]", "invalid_request"),
            (
                b'[{"jsonrpc":"2.0","method":"ping"}' + b',{"jsonrpc":"2.0","method":"ping"}' * 256 + b"]",
                "invalid_request",
            ),
        ):
            if framing in ("websocket", "rpc") or message[:1] in (b"{", b"["):
                assert await kind_of(link, message) == kind
        assert "result" in await ask(link, 2, "ping")


@each_framing
@scenario
async def test_a_batch_is_answered_as_one_array(endpoint: Path, framing: FramingName) -> None:
    batch = [
        call(1, "ping"),
        {"jsonrpc": "2.0", "method": "ping"},
        call(2, "no/such"),
        5,
        call(3, "recall", query="tok07zebra", vault="notes", mode="lexical"),
    ]
    async with linked(endpoint, framing) as link:
        await link.send(json.dumps(batch).encode())
        answers = {each["id"]: each for each in await link.read()}
        assert set(answers) == {1, 2, 3, None}
        assert answers[2]["error"]["data"]["kind"] == "method_not_found"
        assert answers[None]["error"]["data"]["kind"] == "invalid_request"
        assert answers[3]["result"]["bundles"]


@each_framing
@scenario
async def test_notifications_are_never_answered(endpoint: Path, framing: FramingName) -> None:
    async with linked(endpoint, framing) as link:
        for method in ("ping", "no/such", "recall", "$/cancelRequest", "$/whatever"):
            await link.send(json.dumps({"jsonrpc": "2.0", "method": method}).encode())
        assert "result" in await ask(link, 1, "ping")


@each_framing
@scenario
async def test_a_batch_may_have_more_calls_than_may_be_in_flight(endpoint: Path, framing: FramingName) -> None:
    async with linked(endpoint, framing) as link:
        await link.send(json.dumps([call(number, "ping") for number in range(LIMITS.queue)]).encode())
        answers = await link.read()
    assert sorted(each["id"] for each in answers) == list(range(LIMITS.queue))
    assert all("result" in each for each in answers)


@each_framing
@scenario
async def test_a_short_deadline_is_answered_by_words_and_said(endpoint: Path, framing: FramingName) -> None:
    async with linked(endpoint, framing) as link:
        params = {"query": "tok07zebra", "vault": "notes", "mode": "hybrid"}
        answer = (await ask(link, 1, "recall", **params, deadline_ms=1))["result"]
    assert answer["mode_used"] == "lexical"
    assert [each["kind"] for each in answer["diagnostics"]] == ["deadline_short"]
    assert answer["mode_reasons"] == ["requested", "deadline_short"]


@each_framing
@scenario
async def test_progress_comes_before_the_answer_where_there_is_a_way_for_it(
    endpoint: Path, framing: FramingName
) -> None:
    async with linked(endpoint, framing) as link:
        params = {"vault": "notes", "components": ["lexical"], "progress_token": "t"}
        await link.send(json.dumps(call(1, "index/reindex", **params)).encode())
        told = []
        while "method" in (message := await link.read()):
            assert (message["method"], message["params"]["token"]) == ("$/progress", "t")
            told.append(message["params"]["value"]["kind"])
    assert message["result"]["vaults"][0]["name"] == "notes"
    assert [told[:1], set(told[1:-1]), told[-1:]] == (
        [[], set(), []] if framing == "rpc" else [["begin"], {"report"}, ["end"]]
    )


@pytest.mark.parametrize("framing", CONVERSATIONS)
@scenario
async def test_a_cancelled_call_ends_as_cancelled(endpoint: Path, framing: FramingName) -> None:
    async with linked(endpoint, framing) as link:
        params = {"vault": "notes", "components": ["lexical"], "force": True, "progress_token": "t"}
        for number in range(20):  # one after another, so that the last ones cannot be done when they are cancelled
            await link.send(json.dumps(call(number, "index/reindex", **params)).encode())
        while "id" in await link.read():
            pass
        cancel = {"jsonrpc": "2.0", "method": "$/cancelRequest"}
        for number in range(20):
            await link.send(json.dumps({**cancel, "params": {"id": number}}).encode())
        answers: dict[int, Message] = {}
        while len(answers) < 20:
            message = await link.read()
            answers.update({message["id"]: message} if "id" in message else {})
        assert answers[19]["error"]["code"] == -32800
        assert answers[19]["error"]["data"]["kind"] == "cancelled"
        assert "result" in await ask(link, "after", "ping")


@pytest.mark.parametrize("framing", CONVERSATIONS)
@scenario
async def test_what_changes_is_told_on_the_connection_that_subscribed(endpoint: Path, framing: FramingName) -> None:
    async with linked(endpoint, framing) as link, linked(endpoint, "rpc") as other:
        subscribed = (await ask(link, 1, "subscribe", vaults=["notes"], kinds=["index/changed"]))["result"]
        await ask(other, 1, "index/reindex", vault="notes", components=["lexical"], force=True)
        ((vault_id, generation),) = subscribed["generations"].items()
        while (told := await link.read())["params"]["generation"] <= generation:
            pass
        assert (told["method"], told["params"]["vault_id"]) == ("index/changed", vault_id)
        assert told["params"]["subscription"] == subscribed["subscription"]


@scenario
async def test_a_request_that_is_closed_is_cancelled(endpoint: Path) -> None:
    before = await _metric(endpoint, 'wikid_calls_total{method="index/reindex",outcome="cancelled"}')
    async with linked(endpoint, "rpc") as link:
        params = {"vault": "notes", "components": ["lexical"], "force": True}
        await link.send(json.dumps([call(number, "index/reindex", **params) for number in range(20)]).encode())
        while not await _metric(endpoint, "wikid_calls_in_flight"):
            pass
    while await _metric(endpoint, "wikid_calls_in_flight"):
        pass
    assert await _metric(endpoint, 'wikid_calls_total{method="index/reindex",outcome="cancelled"}') > before


async def _metric(endpoint: Path, name: str) -> float:
    """The value of one sample; 0 where there is none yet."""
    async with http_session(endpoint) as http, http.get("/metrics") as response:
        samples = dict(line.rsplit(" ", 1) for line in (await response.text()).splitlines() if line[0] != "#")
    return float(samples.get(name, 0))


@each_framing
@scenario
async def test_a_message_over_the_limit_is_refused_and_nobody_else_notices(
    endpoint: Path, framing: FramingName
) -> None:
    async with linked(endpoint, framing) as other, linked(endpoint, framing) as link:
        assert "result" in await ask(other, 1, "ping")
        message = json.dumps(call(1, "ping", padding="x" * LIMITS.message_bytes)).encode()
        if framing == "websocket":  # which has a word of its own for it
            await link.send(message)
            with pytest.raises(Closed):
                await link.read()
        else:
            assert await kind_of(link, message) == "message_too_large"
        assert "result" in await ask(other, 2, "ping")


@each_framing
@scenario
async def test_many_clients_at_once_are_all_answered(endpoint: Path, framing: FramingName) -> None:
    async def one(number: int) -> str:
        async with linked(endpoint, framing) as link:
            answer = await ask(link, number, "recall", query=f"tok{number:02}zebra", vault="notes", mode="lexical")
            return str(answer["result"]["bundles"][0]["card"]["page_id"])

    found = await asyncio.gather(*(one(number) for number in range(1, 25)))
    assert found == [f"n{number:02}" for number in range(1, 25)]


def test_http_costs_nothing_before_somebody_speaks_it() -> None:
    program = "import sys, wikid_daemon.app; sys.exit('aiohttp' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-P", "-c", program], timeout=HANG_GUARD_SECONDS, check=False).returncode == 0
    )
