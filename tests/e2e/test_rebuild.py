"""A forced rebuild and `verify` over the wire, while others ask."""

from __future__ import annotations

import threading
from pathlib import Path

import orjson

from builders import base_notes, until, write
from daemon_process import DaemonProcess
from wikid_client import Client, RequestRefused

BETWEEN = {"vault_opening"}  # what a recall may be told at the moment of the swap


def test_recalls_go_on_while_an_index_is_rebuilt(daemon: DaemonProcess, tmp_path: Path) -> None:
    base_notes(tmp_path / "notes", 60)
    daemon.add(tmp_path / "notes")
    over, answered, problems = threading.Event(), list[int](), list[str]()

    def ask() -> None:
        with Client(endpoint=daemon.endpoint, start=False) as client:
            while not over.is_set():
                try:
                    answer = client.recall("tok07zebra", vault="notes", mode="lexical")
                except RequestRefused as refused:
                    if refused.kind != "vault_unavailable":
                        problems.append(refused.kind)
                    continue
                if answer.bundles:
                    answered.append(answer.generation)
                elif not BETWEEN & {each.kind for each in answer.diagnostics}:
                    problems.append("nothing found")

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for each in threads:
        each.start()
    for _ in range(3):
        count = len(answered)
        until(lambda count=count: len(answered) > count + 5, "answers")  # type: ignore[misc]
        report = daemon.client.reindex(scope="all", force=True, vault="notes", timeout=60).vaults[0]
        assert (report.updated, report.errors) == (60, ())
    over.set()
    for each in threads:
        each.join(30)
    assert problems == []
    assert daemon.found("tok07zebra", "notes") == ["n07"]
    assert daemon.status("notes").state == "ready"


def test_verify_tells_an_index_that_equals_a_fresh_build(daemon: DaemonProcess, tmp_path: Path) -> None:
    base_notes(tmp_path / "notes", 5)
    daemon.add(tmp_path / "notes")
    write(tmp_path / "notes", "more.md", "# More\n\nmore words\n")
    shown = daemon.wikid("verify", "--vault", "notes")
    assert (shown.returncode, "equals a fresh build" in shown.stdout) == (0, True)
    report = orjson.loads(daemon.wikid("verify", "--vault", "notes", "--json").stdout)["vaults"][0]
    assert (report["pages"], report["differing"], report["differences"]) == (6, 0, [])
    assert report["compared"] == ["pages", "documents", "ranking"]
    state = Path(daemon.status("notes").vault.state_path)
    assert [each.name for each in state.iterdir() if each.name.startswith("staging-")] == []
