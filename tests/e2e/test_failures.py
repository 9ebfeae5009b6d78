"""Seed A's failure table, row by row, against the real daemon over its socket."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders import base_notes, page, tree, until, write
from daemon_process import DaemonProcess
from tiny_model import export_folder, tiny_weights
from wikid_protocol import records as r

QUERY = "which note has the word tok02zebra"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real, very small embedder."""
    return export_folder(tmp_path_factory.mktemp("model") / "tiny", tiny_weights())


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    base_notes(tmp_path / "notes", 3)
    return tmp_path / "notes"


@pytest.fixture
def daemon_with(tmp_path: Path, notes: Path) -> Iterator[Callable[..., DaemonProcess]]:
    """Starts daemons of their own over the three notes, with these variables."""
    running: list[DaemonProcess] = []

    def start(home: str = "home", *, ready: str = "", **variables: str) -> DaemonProcess:
        daemon = DaemonProcess(tmp_path / home, **variables)
        daemon.start()
        running.append(daemon)
        daemon.add(notes, "notes")
        if ready:
            until(lambda: ready in states(daemon).values(), f"a model being {ready}", 60)
        return daemon

    yield start
    for each in running:
        each.stop()
        each.discard()


def states(daemon: DaemonProcess) -> dict[str, str]:
    return {each.purpose: each.state for each in daemon.client.models_list().models if each.state != "absent"}


def embedded(daemon: DaemonProcess) -> None:
    until(lambda: daemon.status("notes").embedded == daemon.status("notes").chunks > 0, "every vector", 60)


def kinds(answer: r.Recall) -> list[str]:
    return [each.kind for each in answer.diagnostics]


def first(answer: r.Recall) -> str:
    bundle = answer.bundles[0]
    return (bundle.card or bundle.evidence[0]).page_id


def test_vectors_missing_words_go_on_and_status_counts_them(daemon_with: Callable[..., DaemonProcess]) -> None:
    daemon = daemon_with()
    answer = daemon.client.recall(QUERY, vault="notes")
    assert (first(answer), answer.mode_used) == ("n02", "lexical")
    assert kinds(answer) == ["model_absent"]
    assert daemon.status("notes").embedding_pending == daemon.status("notes").chunks


def test_an_embedding_model_that_does_not_load_leaves_the_words(
    daemon_with: Callable[..., DaemonProcess], tmp_path: Path, tiny: Path
) -> None:
    broken = Path(shutil.copytree(tiny, tmp_path / "broken"))
    (broken / "model.onnx").write_bytes(b"no graph")
    daemon = daemon_with(ready="failed", WIKID_EMBED_MODEL=str(broken))
    answer = daemon.client.recall(QUERY, vault="notes")
    assert (first(answer), answer.mode_used, kinds(answer)) == ("n02", "lexical", ["model_failed"])


def test_a_reranker_that_fails_leaves_the_fused_answer(
    daemon_with: Callable[..., DaemonProcess], tmp_path: Path, tiny: Path
) -> None:
    write(tmp_path / "reranker", "config.json", "{}")
    daemon = daemon_with(WIKID_EMBED_MODEL=str(tiny), WIKID_RERANK_MODEL=str(tmp_path / "reranker"))
    embedded(daemon)
    until(lambda: states(daemon).get("reranker") == "failed", "the reranker's failure", 60)
    answer = daemon.client.recall(QUERY, vault="notes", mode="quality")
    assert (answer.mode_used, "reranker_failed" in kinds(answer)) == ("hybrid", True)
    assert answer.bundles


def test_a_reranker_without_time_leaves_the_fused_answer(daemon_with: Callable[..., DaemonProcess], tiny: Path) -> None:
    daemon = daemon_with(WIKID_EMBED_MODEL=str(tiny))
    embedded(daemon)
    until(lambda: states(daemon).get("reranker") == "ready", "the reranker", 60)
    answer = daemon.client.recall(QUERY, vault="notes", mode="quality", deadline_ms=50)
    assert answer.mode_used in ("hybrid", "lexical")
    assert "deadline_short" in kinds(answer)


def test_an_index_that_cannot_be_opened_injects_nothing_and_is_told_where_asked(
    daemon_with: Callable[..., DaemonProcess],
) -> None:
    daemon = daemon_with()
    place = Path(daemon.client.vault_list().vaults[0].state_path)
    daemon.stop()
    shutil.rmtree(place)
    place.write_text("not a folder")
    daemon.start()
    until(lambda: daemon.status("notes").reason, "the reason being told", 30)
    automatic = daemon.client.recall(QUERY, vault="notes", policy="automatic")
    assert (automatic.bundles, automatic.reason) == ((), "vault_not_opened")
    assert kinds(daemon.client.recall(QUERY, vault="notes"))[0] == "vault_not_opened"
    place.unlink()
    until(lambda: daemon.found("tok02zebra", "notes") == ["n02"], "the index that opens by itself", 60)


def test_a_malformed_page_is_left_out_and_told(daemon_with: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    wiki = tmp_path / "wiki"
    write(wiki, ".llm-wiki/config.json", '{"name": "w", "knowledge_format": "okf-0.2"}\n')
    write(wiki, ".llm-wiki/wiki/concepts/good.md", page("tokgood", title="Good"))
    write(wiki, ".llm-wiki/wiki/concepts/bad.md", "---\ntype: concept\ntype: twice\n---\n\ntokgood tokbad\n")
    before = tree(wiki / ".llm-wiki" / "wiki")
    daemon = daemon_with()
    daemon.add(wiki, "wiki")
    assert daemon.found("tokgood", "wiki") == ["concepts/good"]
    assert daemon.found("tokbad", "wiki") == []
    assert daemon.status("wiki").findings_by_code["frontmatter_duplicate_key"] == 1
    assert tree(wiki / ".llm-wiki" / "wiki") == before


def test_another_model_means_new_vectors_and_words_meanwhile(
    daemon_with: Callable[..., DaemonProcess], tmp_path: Path, tiny: Path
) -> None:
    other = export_folder(tmp_path / "other", tiny_weights(seed=11))
    daemon = daemon_with(WIKID_EMBED_MODEL=str(tiny))
    embedded(daemon)
    made_by = daemon.status("notes").versions["model"]
    daemon.stop()
    daemon.env = {**daemon.env, "WIKID_EMBED_MODEL": str(other)}
    daemon.start()
    until(lambda: daemon.found("tok02zebra", "notes") == ["n02"], "words answering", 60)
    embedded(daemon)
    status = daemon.status("notes")
    assert status.versions["model"] != made_by
    assert "vectors_rebuilt" in [each.kind for each in status.rebuilt]


def test_low_confidence_is_no_memory_and_no_error(daemon_with: Callable[..., DaemonProcess]) -> None:
    answer = daemon_with().client.recall("quantum chromodynamics lattice", vault="notes")
    assert (answer.bundles, answer.reason) == ((), "no_reliable_memory")
