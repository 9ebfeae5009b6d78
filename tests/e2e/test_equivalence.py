"""One call, whatever way it takes to the daemon, has one result: by the Python clients, the command, each framing, the
bridge and the MCP server."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import orjson
import pytest

from builders import HANG_GUARD_SECONDS, page, write
from daemon_process import WIKID, DaemonProcess
from mcp_host import Host
from wikid_client import RequestRefused
from wikid_client.aio import AsyncClient
from wikid_daemon.vault.vault import init_vault
from wikid_protocol import messages

YES, NO = "concepts/yes", "concepts/no"
VAULT = "waterworks"
# what is different in every answer, or with every moment
VOLATILE = frozenset(
    {"recall_id", "elapsed_ms", "marker", "call", "uptime_s", "rss_bytes", "connections", "last_scan", "last_canary"}
)


class Question(NamedTuple):
    """A call, and how the command and the MCP tools say the same. `tool` is None where there is no tool for it."""

    method: str
    params: dict[str, Any]
    words: list[str]
    tool: str | None = None


def recall(query: str, *words: str, vault: str = VAULT, mode: str = "lexical") -> Question:
    params = {"query": query, "vault": vault, "mode": mode}
    return Question("recall", params, ["recall", query, "--vault", vault, "--mode", mode, *words], "wiki_recall")


def of_vault(method: str, *words: str, tool: str | None = None, **params: Any) -> Question:
    return Question(method, {"vault": VAULT, **params}, [*words, "--vault", VAULT], tool)


ANSWERED = {
    "recall": recall("when does the sluice open"),
    "recall of nothing": recall("zzyzx"),
    "search": of_vault("page/search", "search", "sluice", tool="wiki_search", query="sluice"),
    "page": Question("page/get", {"page_id": YES, "vault_id": VAULT}, ["show", f"{VAULT}:{YES}"]),
    "conflicts": of_vault("conflict/list", "conflicts", limit=200),
    "lint": of_vault("vault/lint", "lint", tool="wiki_lint"),
    "status": of_vault("status", "status", tool="wiki_status"),
}
REFUSED = {
    "recall_query_too_long": recall("q" * 2_001),
    "vault_not_found": recall("sluice", vault="atlantis"),
    "invalid_params": recall("sluice", mode="clever"),
    "not_shown": Question(
        "feedback/judge",
        {"page_id": "concepts/dull", "vault_id": VAULT, "judgment": "relevant"},
        ["feedback", f"{VAULT}:concepts/dull", "relevant"],
        "wiki_recall_feedback",
    ),
    "page_not_found": Question(
        "page/get", {"page_id": "concepts/none", "vault_id": VAULT}, ["show", f"{VAULT}:concepts/none"]
    ),
}


class World:
    """The module's daemon with one vault, and one MCP host. Each way takes a question and gives its answer: the result,
    or an error with kind, message and hint. `tally` counts the answers that were compared, and those that agreed."""

    def __init__(self, daemon: DaemonProcess, host: Host) -> None:
        self.daemon = daemon
        self.host = host
        self.tally: Counter[str] = Counter()

    @contextmanager
    def compared(self) -> Iterator[None]:
        self.tally["compared"] += 1
        yield
        self.tally["same"] += 1

    def client(self, question: Question) -> Any:
        call: Callable[..., object] = getattr(self.daemon.client, question.method.replace("/", "_"))
        try:
            return {"result": orjson.loads(orjson.dumps(call(**question.params)))}
        except RequestRefused as error:
            return {"error": error.to_wire()}

    def async_client(self, question: Question) -> Any:
        async def called() -> object:
            async with AsyncClient(endpoint=self.daemon.endpoint, start=False) as client:
                found: object = await getattr(client, question.method.replace("/", "_"))(**question.params)
                return found

        try:
            return {"result": orjson.loads(orjson.dumps(asyncio.run(called())))}
        except RequestRefused as error:
            return {"error": error.to_wire()}

    def command(self, question: Question) -> Any:
        done = self.daemon.wikid(*question.words, "--json", "-v")
        if done.stdout:
            return {"result": json.loads(done.stdout)}
        said = dict(line.split(": ", 1) for line in done.stderr.splitlines() if ": " in line)
        data = {"kind": said["kind"], "hint": said.get("hint", "")}
        return {"error": {"message": said["error"], "data": data}}

    def lines(self, question: Question) -> Any:
        with self._connection() as connection, connection.makefile("rwb") as stream:
            stream.write(_line(question))
            stream.flush()
            return json.loads(stream.readline())

    def headers(self, question: Question) -> Any:
        body = _line(question).strip()
        with self._connection() as connection, connection.makefile("rwb") as stream:
            stream.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            stream.flush()
            length = 0
            while (head := stream.readline().strip()) != b"":
                name, _, value = head.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            return json.loads(stream.read(length))

    def http(self, question: Question) -> Any:
        speaker = http.client.HTTPConnection("wikid", timeout=HANG_GUARD_SECONDS)
        speaker.sock = self._connection()
        try:
            speaker.request("POST", "/rpc", _line(question), {"Content-Type": "application/json"})
            return json.loads(speaker.getresponse().read())
        finally:
            speaker.close()

    def stdio(self, question: Question) -> Any:
        done = subprocess.run(
            [str(WIKID), "stdio"],
            env=self.daemon.env,
            input=_line(question),
            capture_output=True,
            timeout=HANG_GUARD_SECONDS,
            check=True,
        )
        return json.loads(done.stdout)

    def mcp(self, question: Question) -> Any:
        assert question.tool is not None
        found = self.host.call(question.tool, question.params)
        return found.structured_content if found.is_error else {"result": found.structured_content}

    def _connection(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(HANG_GUARD_SECONDS)
        connection.connect(str(self.daemon.endpoint))
        return connection


WAYS = {
    "client": World.client,
    "async-client": World.async_client,
    "command": World.command,
    "headers": World.headers,
    "http": World.http,
    "stdio": World.stdio,
    "mcp": World.mcp,
}


def by_all_ways(questions: dict[str, Question]) -> pytest.MarkDecorator:
    """Each question by each way that can ask it."""
    cases = {
        f"{name}-{asked}": (way, question)
        for name, way in WAYS.items()
        for asked, question in questions.items()
        if name != "mcp" or question.tool is not None
    }
    return pytest.mark.parametrize(("way", "question"), cases.values(), ids=cases)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("equivalence")
    wiki = init_vault(folder / VAULT, VAULT, "personal") / ".llm-wiki" / "wiki"
    for page_id, other, hour in ((YES, NO, "dawn"), (NO, YES, "noon")):
        links = f"[{{target: {other}, type: contradicts}}]"
        text = page(
            f"# Opening\n\nThe sluice opens at {hour}.", title=f"Sluice at {hour}", relations=links, status="stable"
        )
        write(wiki, f"{page_id}.md", text)
    with DaemonProcess(folder / "home") as daemon:
        daemon.add(folder / VAULT, VAULT)
        # else what one way was shown would count for the next
        daemon.client.config_set("recallFeedback", value=False)
        with Host(daemon.env, folder / "said", cwd=folder) as host:
            yield (made := World(daemon, host))
    told = (
        f"equivalence: {len(ANSWERED) + len(REFUSED)} questions by the plain lines and {len(WAYS)} other ways: "
        f"{made.tally['same']} of {made.tally['compared']} answers the same"
    )
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        print(f"\n{told}")


@by_all_ways(ANSWERED)
def test_every_way_gives_the_same_result(
    world: World, way: Callable[[World, Question], Any], question: Question
) -> None:
    plain = world.lines(question)
    with world.compared():
        assert lasting(way(world, question)["result"]) == lasting(plain["result"])
    if question is ANSWERED["recall"]:
        assert plain["result"]["bundles"], "the comparison compares something"


@by_all_ways(REFUSED)
def test_every_way_gives_the_same_refusal(
    world: World, way: Callable[[World, Question], Any], question: Question
) -> None:
    plain = world.lines(question)["error"]
    found = way(world, question)["error"]
    assert REFUSED[plain["data"]["kind"]] is question
    with world.compared():
        for name in ("kind", "hint", "retry"):
            assert found["data"].get(name, plain["data"][name]) == plain["data"][name]
        assert found["message"] == plain["message"]
        assert found.get("code", plain["code"]) == plain["code"]


def lasting(value: Any) -> Any:
    """What two answers to one question have in common."""
    if isinstance(value, dict):
        return {name: lasting(each) for name, each in value.items() if name not in VOLATILE}
    return [lasting(each) for each in value] if isinstance(value, list) else value


def _line(question: Question) -> bytes:
    return messages.request(1, question.method, question.params)
