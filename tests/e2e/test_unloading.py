"""Models that go from memory while nobody uses them, and come back, in a real daemon with tiny models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brought_models import bag_of_words
from builders import base_notes, numbered_note, until, write
from daemon_process import DaemonProcess, environ_with
from wikid_protocol import records as r

# a minute of this daemon's idle time is a moment
HURRY = """
from wikid_daemon import idling
idling.MINUTE_SECONDS, idling.LOOK_SECONDS = 0.2, 0.05
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    root = tmp_path_factory.mktemp("unloading")
    write(root, "site/sitecustomize.py", HURRY)
    models = bag_of_words(root / "own" / "bag", 24, 1).parent
    more = {"WIKID_MODEL_DIR": str(models), "WIKID_EMBED_MODEL": "bag", "WIKID_LOW_POWER": "on"}
    with DaemonProcess(root / "home", **more, **environ_with([root / "site"])) as daemon:
        base_notes(root / "notes")
        daemon.add(root / "notes", "notes")
        until(lambda: is_whole(daemon), "every chunk having a vector")
        yield daemon


@pytest.fixture
def at_rest(running: DaemonProcess) -> DaemonProcess:
    """Its models have been let go, and are not again once they are back."""
    running.client.config_set("unloadAfterMinutes", value=1)
    until(lambda: embedder(running).state == "built", "the model being let go")
    running.client.config_set("unloadAfterMinutes")
    return running


def embedder(daemon: DaemonProcess) -> r.ModelRecord:
    return next(each for each in daemon.client.status().models if each.purpose == "embedder")


def is_whole(daemon: DaemonProcess) -> bool:
    status = daemon.status("notes")
    return status.pending == 0 and status.embedded == status.chunks > 0


def kinds(answer: r.Recall) -> set[str]:
    return {each.kind for each in answer.diagnostics}


def test_words_answer_while_the_models_come_back(at_rest: DaemonProcess) -> None:
    assert "not in memory" in embedder(at_rest).reason
    answer = at_rest.client.recall("tok03zebra", vault="notes", mode="hybrid")
    assert (answer.mode_used, kinds(answer) & {"model_loading"}) == ("lexical", {"model_loading"})
    assert answer.bundles
    until(
        lambda: at_rest.client.recall("tok03zebra", vault="notes", mode="hybrid").mode_used == "hybrid",
        "vectors answering again",
    )
    until(lambda: {each.state for each in at_rest.client.status().models} == {"ready"}, "the reranker being back")


def test_a_recall_by_words_leaves_them_at_rest(at_rest: DaemonProcess) -> None:
    answer = at_rest.client.recall("tok03zebra", vault="notes", mode="lexical")
    assert "model_loading" not in kinds(answer)
    assert embedder(at_rest).state == "built"


def test_a_saved_note_gets_its_vectors_without_being_asked_for(at_rest: DaemonProcess) -> None:
    chunks = at_rest.status("notes").chunks
    root = Path(at_rest.status("notes").vault.path)
    write(root, "n77.md", numbered_note(77))
    until(lambda: is_whole(at_rest) and at_rest.status("notes").chunks > chunks, "vectors of the saved note")


def test_a_reindex_of_the_vectors_brings_them_back_first(at_rest: DaemonProcess) -> None:
    (report,) = at_rest.client.reindex(vault="notes", components=["vectors"], force=True).vaults
    assert report.warnings == ()
    assert report.generated == report.needing > 0


def test_status_tells_that_power_is_saved(running: DaemonProcess) -> None:
    running.client.recall("tok03zebra", vault="notes", mode="hybrid")
    model = until(lambda: (found := embedder(running)).state == "ready" and found, "the model being there")
    assert "save power" in model.reason
    assert "--low-power" in model.remedy
