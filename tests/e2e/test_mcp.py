"""`wikid mcp` with the official SDK's client: the tools against a real daemon, the plumbing against a scripted one."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from builders import HANG_GUARD_SECONDS, environment, page, until, write
from daemon_process import WIKID, DaemonProcess
from mcp_host import ENVELOPE, HANDSHAKE, Host, text_of
from wikid_client.caller import Progress
from wikid_client.mcp_server import Tools
from wikid_client.testing import FakeDaemon, Held, sample_recall
from wikid_client.transport import Transport
from wikid_daemon.vault.vault import init_vault
from wikid_protocol import records as r

YES, NO = "concepts/yes", "concepts/no"
DISPUTE = {YES: NO, NO: YES}


class World:
    """A daemon with a vault of its own in the folder `root`, and one host that was started there."""

    def __init__(self, daemon: DaemonProcess, root: Path, host: Host) -> None:
        self.daemon = daemon
        self.root = root
        self.host = host
        self.vault_id = daemon.status("waterworks").vault.vault_id


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("mcp")
    root = init_vault(folder / "waterworks", "waterworks", "personal")
    for page_id, other in DISPUTE.items():
        body = f"The sluice opens at {'dawn' if page_id == YES else 'noon'}, see [other](/{other}.md)."
        links = f"[{{target: {other}, type: contradicts}}]"
        text = page(body, title=f"Sluice {page_id.removeprefix('concepts/')}", relations=links, status="stable")
        write(root / ".llm-wiki" / "wiki", f"{page_id}.md", text)
    with DaemonProcess(folder / "home") as daemon:
        daemon.add(root, "waterworks")
        with Host(daemon.env, folder / "said", cwd=root) as host:
            yield World(daemon, root, host)
        assert "Traceback" not in (folder / "said").read_text()


@pytest.fixture
def fake() -> Iterator[FakeDaemon]:
    with FakeDaemon() as daemon:
        yield daemon


class Scripted(NamedTuple):
    """A daemon that answers as it is told to, and a host of one generation of the protocol."""

    fake: FakeDaemon
    host: Host


@pytest.fixture(scope="module", params=[HANDSHAKE, ENVELOPE])
def scripted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scripted]:
    home = tmp_path_factory.mktemp("scripted")
    with FakeDaemon() as fake, Host(env_of(fake, home), home / "said", mode=request.param) as host:
        yield Scripted(fake, host)


def env_of(fake: FakeDaemon, home: Path) -> dict[str, str]:
    return {**environment(home), "WIKID_SOCKET": str(fake.endpoint)}


# -- the tools ---------------------------------------------------------------------------------------------------------


def test_a_host_learns_the_tools_with_their_hints_and_schemas(world: World) -> None:
    tools = world.host.tools()
    assert len(tools) == 12
    for name in ("wiki_recall", "wiki_search", "wiki_status", "wiki_lint"):
        hints = tools[name].annotations
        assert hints is not None
        assert hints.read_only_hint is True
        assert hints.open_world_hint is False
    resolve = tools["wiki_resolve_conflict"]
    assert resolve.annotations is not None
    assert resolve.annotations.read_only_hint is False
    assert resolve.input_schema["properties"]["relation"]["enum"] == ["supersedes", "qualifies", "applies_under"]
    assert all(each.output_schema is not None for each in tools.values())


def test_a_recall_gives_the_wire_s_record_and_quoted_text(world: World) -> None:
    found = world.host.call("wiki_recall", {"query": "when does the sluice open", "mode": "lexical"})
    answer = found.structured_content
    assert {each["name"] for each in answer["vaults"]} == {"waterworks"}, "the vault of the folder it was started in"
    text = text_of(found)
    assert text.startswith(f"<wikid-notes {answer['marker']}>")
    assert "at dawn" in text
    assert "ask the user" in text


def test_what_was_recalled_can_be_judged_by_the_same_host_and_by_no_other(world: World, tmp_path: Path) -> None:
    world.host.content("wiki_recall", query="when does the sluice open", mode="lexical")
    judgment = {"vault_id": world.vault_id, "page_id": YES, "judgment": "relevant"}
    assert world.host.content("wiki_recall_feedback", **judgment)["state"] == "recorded"
    with Host(world.daemon.env, tmp_path / "said", cwd=world.root, mode=ENVELOPE) as other:
        refused = other.call("wiki_recall_feedback", judgment)
    assert refused.is_error
    assert refused.structured_content["error"]["data"]["kind"] == "not_shown"
    assert text_of(refused).startswith("not_shown: ")
    assert "hint: " in text_of(refused)


def test_a_decision_of_the_user_is_recorded_once(world: World) -> None:
    decision = {
        "vault": "waterworks",
        "selected_page_id": YES,
        "other_page_id": NO,
        "relation": "applies_under",
        "scope": "in summer",
        "rationale": "the warden said so",
    }
    first = world.host.content("wiki_resolve_conflict", **decision)
    again = world.host.content("wiki_resolve_conflict", **decision)
    assert (first["created"], again["created"]) == (True, False)
    assert first["resolution"] == again["resolution"]


def test_notes_are_written_where_the_host_works(world: World) -> None:
    seen = world.host.content("wiki_observe", title="Low water", content="The gate stood dry.", tags="gate, level low")
    assert (seen["vault"], seen["tags"], seen["created"]) == ("waterworks", ["gate", "level", "low"], True)
    learned = world.host.content("wiki_retro", slug="grease-the-gate", title="Grease it", body="Every spring.")
    assert learned["page_id"] == "sources/grease-the-gate"
    made = world.host.content("wiki_ensure_page", type="concept", title="Sluice gate")
    assert Path(made["path"]).is_file()
    assert world.host.content("wiki_ensure_page", type="concept", title="Sluice gate")["created"] is False


def test_the_index_is_looked_after(world: World) -> None:
    assert world.host.content("wiki_reindex", components=["lexical"])["vaults"][0]["name"] == "waterworks"
    assert world.host.content("wiki_reindex_embeddings")["vaults"][0]["name"] == "waterworks"
    assert world.host.content("wiki_lint")["vaults"][0]["vault_id"] == world.vault_id
    assert world.host.content("wiki_rebuild_meta")["vaults"][0]["rebuilt"] is True
    status = world.host.call("wiki_status")
    assert [each["vault"]["name"] for each in status.structured_content["vaults"]] == ["waterworks"]
    assert "waterworks" in text_of(status)
    found = world.host.content("wiki_search", query="concepts/no", type="concept")
    assert [each["page_id"] for each in found["matches"]] == [NO]


@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        ("wiki_recall", {"query": "q" * 2_001}, "recall_query_too_long"),
        ("wiki_recall", {"query": "q", "mode": "clever"}, "invalid_params"),
        ("wiki_recall", {"query": "q", "max_results": "many"}, "invalid_params"),
        ("wiki_search", {"query": "q", "vault": "atlantis"}, "vault_not_found"),
        ("wiki_retro", {"slug": "No Slug", "title": "t", "body": "b"}, "invalid_params"),
        (
            "wiki_resolve_conflict",
            {"vault": "waterworks", "selected_page_id": YES, "other_page_id": YES, "relation": "supersedes"},
            "invalid_params",
        ),
    ],
)
def test_a_refusal_is_an_error_that_a_model_can_read(
    world: World, tool: str, arguments: dict[str, Any], kind: str
) -> None:
    found = world.host.call(tool, arguments)
    assert found.is_error
    assert found.structured_content["error"]["data"]["kind"] == kind
    assert text_of(found).startswith(f"{kind}: ")


def test_a_tool_that_is_none_is_an_error_of_the_protocol(world: World) -> None:
    with pytest.raises(MCPError):
        world.host.call("wiki_everything")


def test_an_open_folder_of_the_host_decides_where_it_works(world: World, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with Host(world.daemon.env, tmp_path / "said", cwd=elsewhere, roots=(tmp_path / "gone", world.root)) as host:
        assert host.content("wiki_observe", title="From a root", content="Seen there.")["vault"] == "waterworks"


def test_a_folder_that_the_host_s_settings_name_goes_before_all(world: World, tmp_path: Path) -> None:
    env = {**world.daemon.env, "WIKI_ROOT": str(world.root)}
    with Host(env, tmp_path / "said", cwd=tmp_path, roots=(tmp_path,)) as host:
        assert host.content("wiki_observe", title="From a setting", content="Seen there.")["vault"] == "waterworks"


def test_the_daemon_may_be_restarted_between_two_calls(world: World) -> None:
    world.host.content("wiki_search", query="sluice")
    world.daemon.kill()
    world.daemon.start()
    world.daemon.client.sync(vault="waterworks")
    assert world.host.content("wiki_search", query="sluice")["matches"]


# -- the plumbing ------------------------------------------------------------------------------------------------------


def test_progress_reaches_the_host_and_only_grows(scripted: Scripted) -> None:
    def reindexed(_params: dict[str, Any]) -> Generator[Progress, None, object]:
        yield Progress("begin", "Reading", None)
        yield Progress("report", "Half of it", 50.0)
        yield Progress("report", "Still half of it", 50.0)
        yield Progress("end", "Done", 100.0)
        return r.ReindexReports(vaults=())

    scripted.fake.answers["index/reindex"] = reindexed
    steps: list[tuple[float, str | None]] = []
    done = scripted.host.start("wiki_reindex", {}, lambda progress, _total, message: steps.append((progress, message)))
    assert done.result(HANG_GUARD_SECONDS).structured_content == {"vaults": [], "diagnostics": []}
    assert [message for _, message in steps] == ["Reading", "Half of it", "Still half of it", "Done"]
    assert sorted({progress for progress, _ in steps}) == [progress for progress, _ in steps]


def test_a_call_that_the_host_cancels_is_cancelled_in_the_daemon(scripted: Scripted) -> None:
    scripted.fake.answers["recall"] = Held(sample_recall())
    scripted.fake.answers["page/search"] = r.PageMatches(matches=())
    waiting = scripted.host.start("wiki_recall", {"query": "q"})
    scripted.fake.until_called("recall", HANG_GUARD_SECONDS)
    waiting.cancel()
    scripted.fake.until_called("$/cancelRequest", HANG_GUARD_SECONDS)
    assert scripted.host.content("wiki_search", query="q")["matches"] == [], "the server goes on"


def test_a_daemon_that_cannot_be_reached_is_said_in_each_answer(tmp_path: Path) -> None:
    env = {**environment(tmp_path), "WIKID_SOCKET": str(tmp_path / "s.sock")}
    with Host(env, tmp_path / "said", "--no-start") as host:
        found = host.call("wiki_status")
    assert found.is_error
    assert found.structured_content["error"]["data"]["kind"] == "daemon_not_running"
    assert "wikid start" in text_of(found)


def test_a_fault_of_the_server_is_an_answer_without_its_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken() -> Transport:
        raise RuntimeError("sluicezebra")

    monkeypatch.setenv("WIKI_ROOT", str(tmp_path))
    params = types.CallToolRequestParams(name="wiki_status")
    context: Any = None
    found = asyncio.run(Tools(broken, vault=None, timeout=1.0).call(context, params))
    assert found.is_error
    assert text_of(found) == "internal: wikid itself failed (RuntimeError)"


class Raw:
    """The server without an SDK, to see its bytes."""

    def __init__(self, env: dict[str, str], cwd: Path) -> None:
        self.process = subprocess.Popen(
            [str(WIKID), "mcp"], env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.send(
            "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "raw", "version": "1"}
        )
        assert self.receive()["result"]["serverInfo"]["name"] == "wikid"
        self.send("notifications/initialized", call_id=None)

    def send(self, method: str, call_id: int | None = 1, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        assert self.process.stdin is not None
        self.process.stdin.write(
            json.dumps(message if call_id is None else {**message, "id": call_id}).encode() + b"\n"
        )
        self.process.stdin.flush()

    def receive(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def end(self) -> tuple[int, bytes, bytes]:
        """Close its input and wait for its end: exit code, and what was left on both outputs."""
        out, err = self.process.communicate(timeout=HANG_GUARD_SECONDS)
        return self.process.returncode, out, err


def test_the_server_ends_with_its_input_and_says_nothing_but_messages(fake: FakeDaemon, tmp_path: Path) -> None:
    """Not even of what it cannot read, which may be anything, and standard error is kept in files."""
    raw = Raw(env_of(fake, tmp_path), tmp_path)
    raw.send("tools/call", name="wiki_status", arguments={}, call_id=2)
    answer = raw.receive()
    assert answer["result"]["structuredContent"]["error"]["data"]["kind"] == "method_not_found"
    raw.send("tools/call", name=["sluicezebra"], arguments="sluicezebra", call_id=2)
    assert raw.receive()["error"]["code"] == -32602
    raw.send("notifications/progress", progressToken=["sluicezebra"], call_id=None)
    assert raw.process.stdin is not None
    raw.process.stdin.write(b'{"sluicezebra"\n')
    raw.send("ping", call_id=3)
    assert raw.receive()["id"] == 3
    code, _, err = raw.end()
    assert (code, err) == (0, b"")


def test_the_server_ends_with_its_input_while_a_call_is_waiting(fake: FakeDaemon, tmp_path: Path) -> None:
    fake.answers["recall"] = Held(sample_recall())
    raw = Raw(env_of(fake, tmp_path), tmp_path)
    raw.send("tools/call", name="wiki_recall", arguments={"query": "q"}, call_id=2)
    fake.until_called("recall", HANG_GUARD_SECONDS)
    code, out, err = raw.end()
    assert (code, err) == (0, b"")
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())


def test_the_server_ends_when_nobody_reads_its_answers(fake: FakeDaemon, tmp_path: Path) -> None:
    raw = Raw(env_of(fake, tmp_path), tmp_path)
    assert raw.process.stdout is not None
    raw.process.stdout.close()
    with suppress(BrokenPipeError):
        raw.send("ping", call_id=2)
    until(lambda: raw.process.poll() is not None, "the server's end")
    assert raw.process.stderr is not None
    assert b"Traceback" not in raw.process.stderr.read()
    raw.process.stderr.close()
    with suppress(BrokenPipeError):
        raw.process.stdin.close()  # type: ignore[union-attr]
