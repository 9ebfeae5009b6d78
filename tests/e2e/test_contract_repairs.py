"""What the contract in words promises to plugins, asked of one real daemon, which is restarted on the way."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from builders import base_notes, page, write
from daemon_process import DaemonProcess
from links import ask, call, linked
from serving import Message, scenario
from wikid_client import RequestRefused

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")

PAGES = 450  # more than are read at once, so that there is something to tell between two reads
RELATION = "\n  - target: concepts/other\n    type: supports"
LINKED = page("# Linked\n\nIt rests on [the other](/concepts/other.md).\n", title="Linked", relations=RELATION)
UNLINKED = page("# Unlinked\n\nIt rests on [[concepts/other]].\n", title="Unlinked", relations=RELATION)


@dataclass(frozen=True, slots=True)
class World:
    daemon: DaemonProcess
    wiki: Path
    plain: Path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A daemon without a model that serves a vault, `wiki`, and a folder of notes, `notes`."""
    home = tmp_path_factory.mktemp("contract")
    base_notes(home / "notes", PAGES)
    with DaemonProcess(home / "home") as daemon:
        (home / "wiki").mkdir()
        daemon.client.vault_init(str(home / "wiki"), topic="contracts", name="wiki")
        pages = home / "wiki" / ".llm-wiki" / "wiki"
        write(pages, "concepts/linked.md", LINKED)
        write(pages, "concepts/unlinked.md", UNLINKED)
        write(pages, "concepts/other.md", page("# Other\n\ntokother\n", title="Other"))
        daemon.add(home / "notes", "notes")
        daemon.client.sync(vault="wiki")
        yield World(daemon, home / "wiki", home / "notes")


def refusal(work: Any) -> str:
    with pytest.raises(RequestRefused) as refused:
        work()
    return refused.value.kind


def refused_page(world: World, page_id: str) -> RequestRefused | None:
    """Why the page is not given; None where it is."""
    try:
        world.daemon.client.page_get(page_id, vault_id="notes")
    except RequestRefused as refused:
        return refused
    return None


async def steps_of(world: World, method: str, **params: Any) -> tuple[list[Message], Message]:
    """The steps that a call tells of, and its answer."""
    async with linked(world.daemon.endpoint, "lines") as link:
        await link.send(json.dumps(call(1, method, progress_token="t", **params)).encode())
        steps = []
        while "id" not in (message := await link.read()):
            steps.append(message["params"]["value"])
        return steps, message


# -- soon after the start ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("_time", range(2))
def test_nothing_is_claimed_to_be_absent_while_vaults_are_opened(world: World, _time: int) -> None:
    daemon = world.daemon
    daemon.stop()
    daemon.start()
    while True:
        answer = daemon.client.recall("tok07zebra", vault="notes", mode="lexical")
        assert answer.bundles or answer.reason == "vault_opening"
        matches = daemon.client.page_search("n07", vault="notes")
        assert matches.matches or [each.kind for each in matches.diagnostics] == ["vault_opening"]
        if (refused := refused_page(world, "n07")) is None:
            break
        assert (refused.kind, refused.row.retry, bool(refused.hint)) == ("vault_unavailable", True, True)
    daemon.client.sync(vault="notes")
    assert refusal(lambda: daemon.client.page_get("nowhere", vault_id="notes")) == "page_not_found"


@pytest.mark.parametrize("vault", ["wiki", "notes"])
def test_a_sync_right_after_the_start_finds_the_vault_current(world: World, vault: str) -> None:
    world.daemon.stop()
    world.daemon.start()
    [synced] = world.daemon.client.sync(vault=vault).vaults
    assert (synced.stale, synced.pending) == (False, 0)


# -- progress ----------------------------------------------------------------------------------------------------------


@scenario
async def test_a_reindex_tells_how_far_it_is_between_its_beginning_and_its_end(world: World) -> None:
    steps, answer = await steps_of(world, "index/reindex", vault="notes", scope="all", components=["lexical"])
    assert answer["result"]["vaults"][0]["unchanged"] + answer["result"]["vaults"][0]["updated"] == PAGES
    assert [each["kind"] for each in (steps[0], steps[-1])] == ["begin", "end"]
    assert {each["kind"] for each in steps[1:-1]} == {"report"}
    shares = [each["percentage"] for each in steps[1:-1] if each["message"].endswith("reading")]
    assert shares == sorted(shares)
    assert any(0 < each < 100 for each in shares)
    assert (steps[0]["percentage"], steps[-1]["percentage"]) == (None, 100.0)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("index/reindex", {"vault": "nowhere"}),
        ("index/verify", {"vault": "nowhere"}),
        ("models/build", {"name": "nothing-of-the-kind"}),
        ("models/use", {"name": "nothing-of-the-kind"}),
        ("models/verify", {"name": "nothing-of-the-kind"}),
    ],
)
@scenario
async def test_a_long_call_that_fails_begins_and_ends_as_well(world: World, method: str, params: Message) -> None:
    steps, answer = await steps_of(world, method, **params)
    assert "error" in answer
    assert steps[0]["kind"] == "begin"
    assert (steps[-1]["kind"], steps[-1]["percentage"]) == ("end", None)


@scenario
async def test_a_long_call_that_is_cancelled_begins_and_ends_as_well(world: World) -> None:
    async with linked(world.daemon.endpoint, "lines") as link:
        params = {"vault": "notes", "progress_token": "t"}
        for number in range(3):  # one after another, so that the last is not done when it is cancelled
            await link.send(
                json.dumps(call(number, "index/verify", **{**params, "progress_token": str(number)})).encode()
            )
        await link.send(json.dumps({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 2}}).encode())
        told = []
        while (message := await link.read()).get("id") != 2:
            if message.get("method") == "$/progress" and message["params"]["token"] == "2":
                told.append(message["params"]["value"]["kind"])
        assert message["error"]["data"]["kind"] == "cancelled"
        assert message["error"]["data"]["retry"] is False
        assert (told[0], told[-1]) == ("begin", "end")


# -- what an answer says of itself -------------------------------------------------------------------------------------


def test_the_reasons_of_a_mode_name_what_was_lacking(world: World) -> None:
    client = world.daemon.client
    adaptive = client.recall("tok07zebra", vault="notes", mode="adaptive")
    assert (adaptive.mode_used, adaptive.mode_reasons) == ("lexical", ("model_absent",))
    quality = client.recall("tok07zebra", vault="notes", mode="quality")
    assert quality.mode_reasons == ("requested", "model_absent")
    asked = client.recall("tok07zebra", vault="notes", mode="lexical")
    assert (asked.mode_reasons, asked.diagnostics) == (("requested",), ())


@scenario
async def test_every_refusal_of_a_call_has_a_mark(world: World) -> None:
    async with linked(world.daemon.endpoint, "lines") as link:
        marks = [
            (await ask(link, number, method, **params))["error"]["data"]["call"]
            for number, (method, params) in enumerate(
                [("no/such", {}), ("recall", {}), ("recall", {"query": "x", "vault": "nowhere"})]
            )
        ]
    assert len(set(marks)) == 3


@pytest.mark.parametrize("method", ["page/search", "event/list", "conflict/list"])
@scenario
async def test_a_list_of_nothing_is_not_asked_for(world: World, method: str) -> None:
    more = {"query": "n"} if method == "page/search" else {}
    async with linked(world.daemon.endpoint, "lines") as link:
        for limit in (0, -1):
            answer = await ask(link, 1, method, vault="wiki", limit=limit, **more)
            assert answer["error"]["data"]["kind"] == "invalid_params"


# -- vaults ------------------------------------------------------------------------------------------------------------


def test_a_vault_goes_by_its_id_its_name_and_its_path(world: World) -> None:
    client = world.daemon.client
    record = world.daemon.status("wiki").vault
    for named in (record.vault_id, "wiki", record.path):
        assert client.page_get("concepts/other", vault_id=named).vault == "wiki"
        assert client.vault_lint(vault=named).vaults[0].name == "wiki"
        assert client.recall("tokother", vault=named, mode="lexical", session="named").bundles
        assert (
            client.feedback_judge("concepts/other", judgment="relevant", vault_id=named, session="named").vault
            == "wiki"
        )


def test_without_a_vault_some_methods_take_all_and_some_refuse_to_choose(world: World) -> None:
    client = world.daemon.client
    assert {each.name for each in client.recall("tok07zebra").vaults} == {"wiki", "notes"}
    assert {each.name for each in client.sync().vaults} == {"wiki", "notes"}
    for work in (
        client.conflict_list,
        client.event_list,
        client.vault_lint,
        lambda: client.observe("a title", content="a text"),
    ):
        assert refusal(work) == "invalid_params"


def test_a_vault_may_be_added_twice(world: World) -> None:
    client = world.daemon.client
    before = world.daemon.status("notes").vault
    assert client.vault_add(str(world.plain)) == before
    assert refusal(lambda: client.vault_init(str(world.wiki), topic="again")) == "vault_exists"


def test_a_plain_folder_takes_neither_judgments_nor_notes(world: World) -> None:
    client = world.daemon.client
    assert client.recall("tok07zebra", vault="notes", mode="lexical", session="plain").bundles
    assert refusal(lambda: client.feedback_judge("n07", judgment="relevant", session="plain")) == "read_only"
    assert refusal(lambda: client.observe("a title", content="a text", vault="notes")) == "read_only"


# -- notes -------------------------------------------------------------------------------------------------------------


def test_a_relation_counts_where_the_body_has_a_link(world: World) -> None:
    client = world.daemon.client
    assert [each.target for each in client.page_get("concepts/linked", vault_id="wiki").relations] == ["concepts/other"]
    unlinked = client.page_get("concepts/unlinked", vault_id="wiki")
    assert unlinked.relations == ()
    assert unlinked.metadata["relations"] == [{"target": "concepts/other", "type": "supports"}]
    [report] = client.vault_lint(vault="wiki").vaults
    found = {each.path for each in report.findings if each.code == "relation_missing_body_link"}
    assert found == {"concepts/unlinked.md"}


def test_lines_are_those_of_the_file(world: World) -> None:
    client = world.daemon.client
    lines = LINKED.split("\n")
    whole = client.page_get("concepts/linked", vault_id="wiki")
    assert whole.total_lines == len(lines)
    assert lines[whole.from_line - 1] == whole.text.split("\n")[0] == "# Linked"
    last = client.page_get("concepts/linked", vault_id="wiki", from_line=whole.from_line + 2, max_lines=1)
    assert (last.from_line, last.text) == (whole.from_line + 2, lines[whole.from_line + 1])
    assert client.page_get("concepts/linked", vault_id="wiki", from_line=-3).text == whole.text
    past = client.page_get("concepts/linked", vault_id="wiki", from_line=1_000)
    assert (past.text, past.total_lines) == ("", len(lines))
    assert client.page_get("concepts/linked", vault_id="wiki", max_lines=0).text == ""


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_only_a_recall_shows_a_page(world: World) -> None:
    client = world.daemon.client
    client.page_get("concepts/other", vault_id="wiki", session="reader")
    client.page_search("other", vault="wiki")
    assert (
        refusal(lambda: client.feedback_judge("concepts/other", judgment="relevant", vault_id="wiki", session="reader"))
        == "not_shown"
    )


@scenario
async def test_an_empty_session_is_none(world: World) -> None:
    async with linked(world.daemon.endpoint, "lines") as link:
        await ask(link, 1, "initialize", session="")
        assert (await ask(link, 2, "recall", query="tokother", vault="wiki", session=""))["result"]["bundles"]
        judged = await ask(link, 3, "feedback/judge", page_id="concepts/other", judgment="relevant", session="")
        assert judged["error"]["data"]["kind"] == "not_shown"
