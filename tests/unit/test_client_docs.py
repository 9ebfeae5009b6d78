"""The examples in the library's documentation do what they say, against a fake daemon."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wikid_client.testing import FakeDaemon, sample_item, sample_recall
from wikid_protocol import records as r
from wikid_protocol.errors import KINDS, RequestRefused

README = Path(__file__).parents[2] / "client" / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = [(found.start(), found.group(1)) for found in re.finditer(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)]
VAULT = r.VaultId("0b5e3c6a-58b8-4a50-9a1f-000000000001")
COUNTS = r.IndexCounts(pages=3, chunks=9, embedded=9, pending=0)


def _title(start: int) -> str:
    """Heading and line of a block, which is how a failing one is found."""
    heading = re.findall(r"^## (.*)$", TEXT[:start], re.M)[-1]
    return f"{heading}, line {TEXT.count(chr(10), 0, start) + 1}"


def _answers() -> dict[str, object]:
    resolution = r.ConflictResolution(
        id="resolution-1",
        vault_id=VAULT,
        vault="personal",
        page_id=r.PageId("analyses/resolution-1"),
        path="/notes/analyses/resolution-1.md",
        selected_page_id=r.PageId("concepts/new-way"),
        other_page_id=r.PageId("concepts/old-way"),
        relation="supersedes",
        decided_by="user",
        decided_at="2026-01-02T10:00:00+00:00",
    )
    claims = tuple(r.Claim(page_id=r.PageId(each), path=each, title=each) for each in ("one", "other"))
    page_id = r.PageId("observations/ferry")
    page = r.Page(
        vault_id=VAULT,
        vault="personal",
        page_id=page_id,
        path="/notes/ferry.md",
        title="Ferry timetable",
        type="observation",
        role="evidence",
        status="stable",
        freshness="current",
        text="The first ferry leaves at six.",
        hash="0" * 64,
    )
    found = sample_recall(r.Bundle(card=sample_item(), evidence=(sample_item("sources/why", role="evidence"),)))
    return {
        "recall": found,
        "page/get": lambda params: (
            page if params["page_id"] == page_id else RequestRefused("page_not_found", "no page has this id")
        ),
        "feedback/judge": r.Judged(
            vault_id=VAULT, vault="personal", page_id=page_id, judgment="relevant", state="recorded"
        ),
        "feedback/signal": r.Signalled(),
        "conflict/list": r.ConflictList(
            conflicts=(r.Conflict(vault_id=VAULT, vault="personal", state="confirmed", claims=claims),)
        ),
        "conflict/resolve": r.ConflictResolved(resolution=resolution, created=True, hash="0" * 64),
        "observe": r.Observed(
            vault_id=VAULT,
            vault="personal",
            page_id=page_id,
            path="/notes/ferry.md",
            hash="0" * 64,
            created=True,
            slug="ferry",
            title="Ferry timetable",
            relevance="medium",
        ),
        "index/sync": r.SyncedVaults(
            vaults=(r.Synced(vault_id=VAULT, name="personal", generation=8, elapsed_ms=3.0, stale=False),)
        ),
        "index/reindex": r.ReindexReports(vaults=()),
    }


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaemon]:
    """What the examples reach as the user's own daemon."""
    with FakeDaemon(_answers()) as running:
        monkeypatch.setenv("WIKID_SOCKET", str(running.endpoint))
        yield running


@pytest.fixture
def changes(daemon: FakeDaemon) -> Iterator[None]:
    """A vault that goes on changing, so that who waits for a change sees one."""
    ended = threading.Event()

    def change() -> None:
        for generation in range(1, 100_000):
            changed = r.IndexChanged(subscription="", vault_id=VAULT, generation=generation, counts=COUNTS)
            if daemon.notify("index/changed", changed) or ended.wait(0.01):
                return

    changing = threading.Thread(target=change)
    changing.start()
    yield
    ended.set()
    changing.join()


@pytest.mark.usefixtures("changes")
@pytest.mark.parametrize("block", [block for _, block in BLOCKS], ids=[_title(start) for start, _ in BLOCKS])
def test_an_example_runs_as_it_stands(block: str, daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(block, str(README), "exec"), names)
    tests = [each for name, each in names.items() if name.startswith("test_")]
    for each in tests:
        each()
    assert tests or daemon.calls
    assert "Traceback" not in capsys.readouterr().err


def test_the_documentation_covers_what_it_promises() -> None:
    code = "\n".join(block for _, block in BLOCKS)
    shown = ("recall(", "conflict_resolve(", "feedback_judge(", "sync(", "RequestRefused", "AsyncClient", "subscribe(")
    assert [each for each in (*shown, "FakeDaemon", "timeout=", "progress=") if each not in code] == []


def test_each_kind_that_is_named_is_one() -> None:
    table = TEXT[TEXT.index("| kind |") :].split("\n\n")[0]
    named = {word for row in table.splitlines()[2:] for word in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named
    assert named <= set(KINDS)
