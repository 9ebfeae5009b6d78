"""Choosing models on a running daemon: use, pull, verify and list, by the client and by the command. T29."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from brought_models import bag_of_words, bert_cross_encoder
from builders import HANG_GUARD_SECONDS, base_notes, until
from daemon_process import DaemonProcess
from wikid_client import RequestRefused
from wikid_client.caller import Progress
from wikid_protocol import records as r

NOTES = 30
COMMIT = "5b3c1d7e9f00112233445566778899aabbccddee"


class Hub(BaseHTTPRequestHandler):
    """Answers what the hub's library asks for the models in `offered`, by name: file name → content."""

    offered: ClassVar[dict[str, dict[str, bytes]]] = {}
    asked: ClassVar[threading.Event] = threading.Event()  # somebody wants a graph
    going: ClassVar[threading.Event] = threading.Event()  # and gets it while this is set

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        for name, files in self.offered.items():
            if path in (
                f"/api/models/{name}",
                f"/api/models/{name}/revision/main",
                f"/api/models/{name}/revision/{COMMIT}",
            ):
                return self._send(json.dumps(_described(name, files)).encode(), with_body, "application/json")
            if path.startswith(f"/api/models/{name}/tree/"):
                return self._send(json.dumps(_tree(files)).encode(), with_body, "application/json")
            for revision in ("main", COMMIT):
                head = f"/{name}/resolve/{revision}/"
                if path.startswith(head) and (content := files.get(path.removeprefix(head))) is not None:
                    return self._send(content, with_body, "application/octet-stream")
        return self._refuse()

    def _send(self, content: bytes, with_body: bool, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if not with_body:
            return
        if self.path.endswith(".onnx"):
            self.asked.set()
            self.going.wait(HANG_GUARD_SECONDS)
        self.wfile.write(content)

    def _refuse(self) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()


def _described(name: str, files: dict[str, bytes]) -> dict[str, Any]:
    siblings = [{"rfilename": each, "size": len(content), "blobId": "0" * 40} for each, content in files.items()]
    return {"_id": "1", "id": name, "modelId": name, "sha": COMMIT, "private": False, "tags": [], "siblings": siblings}


def _tree(files: dict[str, bytes]) -> list[dict[str, Any]]:
    return [{"type": "file", "path": each, "size": len(content), "oid": "0" * 40} for each, content in files.items()]


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a user's own models: two embedders of other dimensions, and a cross-encoder."""
    root = tmp_path_factory.mktemp("own")
    bag_of_words(root / "narrow", 24, 1)
    bag_of_words(root / "wide", 48, 2)
    bert_cross_encoder(root / "judge", 1)
    return root


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, own: Path, hub: str) -> Iterator[DaemonProcess]:
    root = tmp_path_factory.mktemp("models")
    more = {"WIKID_MODEL_DIR": str(own), "HF_HUB_CACHE": str(root / "hub"), "HF_ENDPOINT": hub, "NO_PROXY": "127.0.0.1"}
    with DaemonProcess(root / "home", **more) as daemon:
        base_notes(root / "notes", NOTES)
        daemon.add(root / "notes", "notes")
        yield daemon


@pytest.fixture(autouse=True)
def narrow(running: DaemonProcess) -> r.ModelUse:
    """Every test begins with the narrow model in use and wikid's own reranker."""
    running.client.models_use("none", purpose="reranker")
    return running.client.models_use("narrow")


def config(daemon: DaemonProcess) -> str:
    return (daemon.home / "xdg_config_home" / "wikid" / "config.toml").read_text(encoding="utf-8")


def in_use(daemon: DaemonProcess, purpose: str = "embedder") -> r.ModelRecord:
    found = [each for each in daemon.client.status().models if each.purpose == purpose]
    return next(each for each in found if each.state not in ("built", "absent"))


def embedded_by(daemon: DaemonProcess, model: str) -> r.VaultStatus | None:
    """The vault's status once every chunk has a vector of the model with this identity, or any of this name."""
    status = daemon.status("notes")
    is_it = status.versions["model"] == model or status.versions["model"].startswith(model + "@")
    return status if is_it and status.embedded == status.chunks else None


# -- use ---------------------------------------------------------------------------------------------------------------


def test_a_model_is_used_at_once_and_written_down(running: DaemonProcess, narrow: r.ModelUse) -> None:
    assert (narrow.model.state, narrow.model.dims, narrow.setting, narrow.value) == (
        "ready",
        24,
        "embedModel",
        "narrow",
    )
    assert narrow.diagnostics == ()
    assert 'embedModel = "narrow"\n' in config(running)
    assert in_use(running).identity == narrow.model.identity
    until(lambda: embedded_by(running, "narrow"), "every chunk having a vector")


def test_t29_another_dimension_takes_over_while_words_go_on_answering(running: DaemonProcess) -> None:
    until(lambda: embedded_by(running, "narrow"), "every chunk having a vector")
    pid, stop, wrong = running.pid, threading.Event(), list[str]()

    def ask() -> None:
        with running.connect() as client:
            while not stop.is_set():
                answer = client.recall("tok07zebra", vault="all", mode="hybrid")
                if not answer.bundles:
                    wrong.append(answer.mode_used)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        used = running.client.models_use("wide")
        assert (used.model.state, used.model.dims) == ("ready", 48)
        told = until(lambda: embedded_by(running, "wide"), "every chunk having a vector of the new model")
    finally:
        stop.set()
        asking.join()
    assert wrong == []
    assert running.pid == pid
    assert told.versions["model"] == used.model.identity
    answer = running.client.recall("tok07zebra", vault="all", mode="hybrid")
    assert answer.mode_used == "hybrid"
    assert "vectors_missing" not in {each.kind for each in answer.diagnostics}


def test_vectors_of_the_model_before_are_kept_for_it(running: DaemonProcess) -> None:
    until(lambda: embedded_by(running, "narrow"), "every chunk having a vector")
    running.client.models_use("wide")
    until(lambda: embedded_by(running, "wide"), "every chunk having a vector of the new model")
    assert running.client.models_use("narrow").embedding_pending == 0


def test_t29_the_same_name_with_another_file_is_another_model(running: DaemonProcess, own: Path) -> None:
    first = running.client.models_use("wide").model.identity
    until(lambda: embedded_by(running, "wide"), "every chunk having a vector")
    shutil.rmtree(own / "wide")
    bag_of_words(own / "wide", 48, 3)
    again = running.client.models_use("wide")
    assert again.model.identity != first
    assert again.embedding_pending == running.status("notes").chunks
    until(lambda: embedded_by(running, again.model.identity), "every chunk having a new vector")


@pytest.mark.parametrize("name", ["nowhere", "maker/nothing", "judge", "/nowhere/at/all", "../narrow"])
def test_what_cannot_be_used_changes_nothing(running: DaemonProcess, narrow: r.ModelUse, name: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        running.client.models_use(name)
    assert (refused.value.kind, refused.value.exit_code) == ("model_unavailable", 1)
    assert refused.value.hint
    assert in_use(running).identity == narrow.model.identity
    assert 'embedModel = "narrow"\n' in config(running)


def test_a_half_model_is_named_with_its_file(running: DaemonProcess, own: Path) -> None:
    half = Path(shutil.copytree(own / "wide", own / "half"))
    graph = half / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:300])
    with pytest.raises(RequestRefused, match="half does not load"):
        running.client.models_use("half")
    (half / "tokenizer.json").unlink()
    with pytest.raises(RequestRefused, match=r"tokenizer\.json"):
        running.client.models_use(str(half))


def test_a_reranker_is_used_and_left_again(running: DaemonProcess) -> None:
    used = running.client.models_use("judge", purpose="reranker")
    assert (used.model.name, used.model.state, used.setting) == ("judge", "ready", "rerankModel")
    assert in_use(running, "reranker").identity.startswith("cross-encoder:judge@")
    until(lambda: embedded_by(running, "narrow"), "every chunk having a vector")
    assert running.client.recall("the ledger of boats", vault="all", mode="quality").mode_used == "quality"
    left = running.client.models_use("none", purpose="reranker")
    assert (left.value, left.model.name) == (None, "late interaction")
    assert "rerankModel" not in config(running)


def test_a_variable_that_stands_above_the_file_is_told(tmp_path: Path, own: Path) -> None:
    more = {"WIKID_MODEL_DIR": str(own), "WIKID_EMBED_MODEL": "narrow"}
    with DaemonProcess(tmp_path / "home", **more) as daemon:
        until(lambda: in_use(daemon).state == "ready", "the model being warm")
        used = daemon.client.models_use("wide")
        assert [each.kind for each in used.diagnostics] == ["environment_overrides"]
        assert "WIKID_EMBED_MODEL" in used.diagnostics[0].message
        assert 'embedModel = "wide"\n' in config(daemon)
        assert in_use(daemon).name == "narrow"
        done = daemon.wikid("models", "use", "wide")
        assert done.returncode == 1
        assert "unset WIKID_EMBED_MODEL" in done.stdout


# -- verify ------------------------------------------------------------------------------------------------------------


def test_damage_is_told_by_its_file_and_words_go_on_answering(running: DaemonProcess, own: Path) -> None:
    graph = own / "narrow" / "model.onnx"
    whole = graph.read_bytes()
    assert [(each.name, each.state) for each in running.client.models_verify("narrow").models] == [("narrow", "intact")]
    graph.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    try:
        (check,) = running.client.models_verify().models
        assert (check.state, check.damaged, check.in_use) == ("damaged", ("model.onnx",), True)
        assert check.remedy
        told = in_use(running)
        assert told.state == "failed"
        assert "model.onnx" in told.reason
        answer = running.client.recall("tok07zebra", vault="all", mode="hybrid")
        assert answer.bundles
        assert answer.mode_used == "lexical"
        assert "model_failed" in {each.kind for each in answer.diagnostics}
        assert running.wikid("models", "verify").returncode == 1
    finally:
        graph.write_bytes(whole)
    assert running.client.models_use("narrow").model.state == "ready"
    assert running.client.recall("tok07zebra", vault="all", mode="hybrid").mode_used == "hybrid"


def test_a_model_that_is_nowhere_cannot_be_verified(running: DaemonProcess) -> None:
    with pytest.raises(RequestRefused) as refused:
        running.client.models_verify("nowhere")
    assert refused.value.kind == "model_unavailable"


# -- list --------------------------------------------------------------------------------------------------------------


def test_the_list_has_the_catalogue_the_model_in_use_and_the_aliases(running: DaemonProcess) -> None:
    found = {each.name: each for each in running.client.models_list().models}
    assert found["narrow"].state == "ready"
    assert found["narrow"].source == "folder"
    multilingual = found["multilingual-e5-small"]
    assert (multilingual.state, multilingual.source, multilingual.aliases) == ("absent", "catalogue", ("multilingual",))
    assert "wikid models build multilingual-e5-small" in multilingual.remedy
    status = {each.name for each in running.client.status().models}
    assert status == {"narrow", "late interaction"}
    shown = running.wikid("models", "list")
    assert shown.returncode == 0
    assert "multilingual" in shown.stdout


# -- pull --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def offered(own: Path) -> Iterator[dict[str, bytes]]:
    """What the hub offers as `maker/fine`."""
    pytest.importorskip("huggingface_hub")
    files = {name: (own / "wide" / name).read_bytes() for name in ("tokenizer.json", "config.json")}
    files["onnx/model.onnx"] = (own / "wide" / "model.onnx").read_bytes()
    files["pytorch_model.bin"] = b"never fetched"
    Hub.going.set()
    Hub.offered["maker/fine"] = files
    yield files
    del Hub.offered["maker/fine"]


@pytest.mark.usefixtures("offered")
def test_a_model_is_fetched_from_the_hub_when_asked_and_then_used(running: DaemonProcess) -> None:
    steps: list[Progress] = []
    pulled = running.client.models_pull("maker/fine", progress=steps.append)
    assert (pulled.name, pulled.state, pulled.source) == ("maker/fine", "built", "hub")
    assert any("Fetching maker/fine" in each.message for each in steps)
    fetched = {each.name for each in Path(pulled.path).rglob("*") if each.is_file()}
    assert fetched == {"tokenizer.json", "config.json", "model.onnx"}
    assert "maker/fine" in {each.name for each in running.client.models_list().models}
    assert running.client.models_use("maker/fine").model.name == "maker/fine"
    assert 'embedModel = "maker/fine"\n' in config(running)
    assert [each.state for each in running.client.models_verify("maker/fine").models] == ["intact"]
    again = running.wikid("models", "pull", "maker/fine", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["identity"] == pulled.identity


@pytest.mark.usefixtures("offered")
def test_a_fetch_that_is_cancelled_ends_at_once_and_can_go_on_later(running: DaemonProcess) -> None:
    Hub.offered["maker/slow"] = {**Hub.offered["maker/fine"]}
    Hub.asked.clear()
    Hub.going.clear()
    try:
        with socket.socket(socket.AF_UNIX) as wire, wire.makefile("rb") as answers:
            wire.connect(str(running.endpoint))
            wire.settimeout(HANG_GUARD_SECONDS)
            wire.sendall(line({"id": 1, "method": "models/pull", "params": {"name": "maker/slow"}}))
            assert Hub.asked.wait(HANG_GUARD_SECONDS)
            wire.sendall(line({"method": "$/cancelRequest", "params": {"id": 1}}))
            assert json.loads(answers.readline())["error"]["code"] == -32800
        assert "maker/slow" not in {each.name for each in running.client.models_list().models}
        with pytest.raises(RequestRefused) as refused:
            running.client.models_use("maker/slow")
        assert "wikid models pull maker/slow" in refused.value.hint
        until(lambda: not fetching(running), "the child's end")
        Hub.going.set()
        assert running.client.models_pull("maker/slow").state == "built"
    finally:
        Hub.going.set()
        del Hub.offered["maker/slow"]


def line(call: dict[str, object]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **call}).encode() + b"\n"


def fetching(daemon: DaemonProcess) -> bool:
    """Whether a child of the daemon still fetches; where no /proc tells of it, it is taken to have ended."""
    for tasks in Path(f"/proc/{daemon.pid}/task").glob("*/children"):
        for child in tasks.read_text().split():
            try:
                if b"hub_child" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return True
            except OSError:  # it has just ended
                continue
    return False


def test_what_the_hub_cannot_give_is_told_with_a_remedy(running: DaemonProcess, offered: dict[str, bytes]) -> None:
    Hub.offered["maker/torch"] = {"pytorch_model.bin": b"", "config.json": offered["config.json"]}
    try:
        for name, words in (
            ("maker/nothing", "no model maker/nothing"),
            ("maker/torch", "ONNX"),
            ("fine", "not the name"),
        ):
            with pytest.raises(RequestRefused, match=words) as refused:
                running.client.models_pull(name)
            assert refused.value.kind == "model_unavailable"
            assert refused.value.hint
    finally:
        del Hub.offered["maker/torch"]
