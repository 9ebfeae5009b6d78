"""Recalls come first: bulk embedding stands back while any is in flight, and nothing is computed for nobody."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tiny_model as tiny
from brought_models import bag_of_words, bert_cross_encoder
from builders import FAKE_MODEL, HANG_GUARD_SECONDS, NO_RERANKER, Clock, FakeEmbedder, default_settings, until
from wikid_daemon import idling, lanes, searching
from wikid_daemon.core.manifest import Known, Stamp
from wikid_daemon.idling import Idling
from wikid_daemon.index.cross_encoder import BATCH, CrossEncoder
from wikid_daemon.index.encoders import Embedder
from wikid_daemon.index.late_interaction import Asked, LateInteraction, Passage
from wikid_daemon.index.pages import new_page
from wikid_daemon.index.passes import Ended, Passes
from wikid_daemon.index.store import Store
from wikid_daemon.index.vectors import Vectors
from wikid_daemon.lanes import REST_SHARE, GivenUp, Lane
from wikid_daemon.models.location import ModelFolder, read_model_folder
from wikid_daemon.recall import Recaller
from wikid_daemon.searching import Absence, Call, Models
from wikid_daemon.timing import Clock as CallClock
from wikid_daemon.warm import WarmEmbedder
from wikid_daemon.warm_reranker import WarmReranker
from wikid_protocol.errors import RequestRefused
from wikid_protocol.methods import RecallParams

WORKERS = 2
QUERY = "mat"
OWN = "own words"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return read_model_folder(tiny.export_folder(tmp_path_factory.mktemp("m") / "tiny", tiny.tiny_weights()))


class SlowSession:
    """Passes that hold a "cat" take until they are let through or ended; all others are done at once."""

    def __init__(self, real: Any, output: str = "sentence_embedding") -> None:
        self._real = real
        self._output = output
        self._changed = threading.Condition()
        self._let_through = 0
        self.running = 0
        self.most = 0
        self.done = 0
        self.ended = 0

    def get_inputs(self) -> Any:
        return self._real.get_inputs()

    def get_outputs(self) -> Any:
        return self._real.get_outputs()

    def run(self, outputs: Any, feed: Any, options: Any = None) -> Any:
        if tiny.PIECES.index("cat") in feed["input_ids"]:
            self._take_long(options)
        return self._real.run(outputs, feed)

    def _take_long(self, options: Any) -> None:
        with self._changed:
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                while not self._let_through:
                    if options is not None and options.terminate:
                        self.ended += 1
                        raise RuntimeError("Exiting due to terminate flag being set to true.")
                    self._changed.wait(0.005)  # the flag tells nobody that it was set
                self._let_through -= 1
                self.done += 1
            finally:
                self.running -= 1

    def let_through(self, passes: int = 1) -> None:
        with self._changed:
            self._let_through += passes
            self._changed.notify_all()


class Bulk:
    """An embedder over a slow session, and a thread that has it embed passages without end."""

    def __init__(self, folder: ModelFolder, lane: Lane) -> None:
        self.session = SlowSession(onnxruntime.InferenceSession(str(folder.graph)))
        self.embedder = Embedder(folder, self.session, tiny.tiny_tokenizer(), WORKERS, lane)
        self.outcomes: list[Any] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        running = self.embedder.passages("cat" for _ in iter(int, 1))
        for outcome in running:
            self.outcomes.append(outcome)
            if self._stop.is_set():
                break
        running.close()  # type: ignore[attr-defined]  # it is a generator

    def is_running(self, passes: int) -> bool:
        return self.session.running == passes

    def stop(self) -> None:
        self._stop.set()
        self.session.let_through(1_000)
        self._thread.join()


@pytest.fixture
def lane(monkeypatch: pytest.MonkeyPatch) -> Lane:
    monkeypatch.setattr(lanes, "ASKED_SECONDS", 0.0)
    return Lane()


@pytest.fixture
def bulk(folder: ModelFolder, lane: Lane) -> Iterator[Bulk]:
    running = Bulk(folder, lane)
    try:
        until(lambda: running.is_running(WORKERS), "as many passages as there are threads")
        yield running
    finally:
        running.stop()


# -- recalls and bulk work ---------------------------------------------------------------------------------------------


def test_a_query_does_not_wait_for_passages(bulk: Bulk) -> None:
    assert np.linalg.norm(bulk.embedder.embed_query(QUERY)) == pytest.approx(1, abs=1e-5)
    assert bulk.is_running(WORKERS)
    assert bulk.outcomes == []


def test_while_a_recall_is_in_flight_passages_come_one_at_a_time_and_together_afterwards(
    bulk: Bulk, lane: Lane
) -> None:
    session = bulk.session
    with lane.call():
        session.let_through(WORKERS)
        until(lambda: session.done == WORKERS and session.running == 1, "one passage alone")
        session.most = 0
        for done in range(WORKERS + 1, WORKERS + 8):
            session.let_through()
            until(lambda done=done: session.done == done and session.running == 1, "the next passage")  # type: ignore[misc]
        assert session.most == 1
    until(lambda: bulk.is_running(WORKERS), "passages running together again")


def test_recalls_that_overlap_are_all_waited_for(bulk: Bulk, lane: Lane) -> None:
    session = bulk.session
    with lane.call():
        with lane.call():
            session.let_through(WORKERS)
            until(lambda: session.done == WORKERS and session.running == 1, "one passage alone")
        session.most = 0
        session.let_through()
        until(lambda: session.done == WORKERS + 1 and session.running == 1, "the next passage")
        assert session.most == 1
    until(lambda: bulk.is_running(WORKERS), "passages running together again")


def test_a_recall_is_expected_for_a_moment_after_one() -> None:
    now = Seconds()
    lane, asked = Lane(now=now), list[bool]()
    with lane.call():
        now.seconds += 60.0
        asked.append(lane.is_asked)
    for seconds in (0.9 * lanes.ASKED_SECONDS, 0.2 * lanes.ASKED_SECONDS):
        now.seconds += seconds
        asked.append(lane.is_asked)
    assert asked == [True, True, False]


def test_a_recall_marks_the_lane_from_its_beginning_to_its_end(lane: Lane) -> None:
    seen: list[bool] = []

    def models() -> Models:
        seen.append(lane.is_asked)
        return Models(FakeEmbedder(FAKE_MODEL), NO_RERANKER)

    recaller = Recaller(models, Clock(), lane=lane)
    recaller.recall(RecallParams(query="the harbour"), [], default_settings(), lambda: False)
    with pytest.raises(RequestRefused):
        recaller.recall(RecallParams(query="the harbour", max_results=0), [], default_settings(), lambda: False)
    assert (seen, lane.is_asked) == ([True], False)


# -- saving power ------------------------------------------------------------------------------------------------------


class Seconds:
    """Seconds that only go on when told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_while_power_is_saved_a_piece_is_followed_by_a_rest() -> None:
    now, saving, began = Seconds(), [True], list[float]()
    lane = Lane(lambda: saving[0], now)

    def piece() -> None:
        with lane.piece(WORKERS):
            began.append(now.seconds)

    with lane.piece(WORKERS):
        now.seconds = 1.0
    with ThreadPoolExecutor(WORKERS) as pool:
        waiting = [pool.submit(piece) for _ in range(WORKERS)]
        while not all(each.done() for each in waiting):
            now.seconds += 0.5
            lane.stir()
    assert min(began) >= 1.0 + REST_SHARE * 1.0


def test_while_power_is_saved_there_is_one_piece_at_a_time(folder: ModelFolder) -> None:
    running = Bulk(folder, Lane(lambda: True))
    try:
        for done in range(3):
            until(lambda done=done: running.session.done == done and running.is_running(1), "one passage")  # type: ignore[misc]
            running.session.let_through()
        assert running.session.most == 1
    finally:
        running.stop()


def test_a_piece_that_became_unwanted_is_not_begun(lane: Lane) -> None:
    wanted = threading.Event()
    wanted.set()
    with lane.piece(1), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: enter(lane.piece(1, lambda: not wanted.is_set())))
        wanted.clear()
        lane.stir()
        with pytest.raises(GivenUp):
            waiting.result()


def enter(block: Any) -> None:
    with block:
        pass


# -- ending what nobody waits for --------------------------------------------------------------------------------------


def test_whoever_stops_ends_the_passages_under_way(folder: ModelFolder, lane: Lane) -> None:
    session = SlowSession(onnxruntime.InferenceSession(str(folder.graph)))
    embedder = Embedder(folder, session, tiny.tiny_tokenizer(), WORKERS, lane)
    running: Any = embedder.passages(["mat"] + ["cat"] * 10)
    next(running)
    until(lambda: session.running == WORKERS, "passages under way")
    running.close()
    until(lambda: session.running == 0, "their end")
    assert (session.ended, session.done) == (WORKERS, 0)
    assert len(embedder.embed_passages(["mat", "note"])) == 2


def endless_graph() -> bytes:
    """Adds up for as long as it is left to."""
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    true = helper.make_tensor("true", TensorProto.BOOL, [], [True])
    body = helper.make_graph(
        [
            helper.make_node("Constant", [], ["step"], value=one),
            helper.make_node("Add", ["sum_in", "step"], ["sum_out"]),
            helper.make_node("Identity", ["go_in"], ["go_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("number", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_in", TensorProto.BOOL, []),
            helper.make_tensor_value_info("sum_in", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("go_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("sum_out", TensorProto.FLOAT, [1]),
        ],
    )
    graph = helper.make_graph(
        [
            helper.make_node("Constant", [], ["times"], value=helper.make_tensor("n", TensorProto.INT64, [], [2**60])),
            helper.make_node("Constant", [], ["go"], value=true),
            helper.make_node("Loop", ["times", "go", "start"], ["sum"], body=body),
        ],
        "endless",
        [helper.make_tensor_value_info("start", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("sum", TensorProto.FLOAT, [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


def test_onnx_runtime_ends_a_pass_that_is_under_way() -> None:
    session, passes = onnxruntime.InferenceSession(endless_graph()), Passes()
    begun, found = threading.Event(), list[BaseException]()

    def run() -> None:
        begun.set()
        try:
            passes.run(session, ["sum"], {"start": np.zeros(1, np.float32)})
        except Ended as ended:
            found.append(ended)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    begun.wait()
    passes.end()
    until(lambda: not thread.is_alive(), "the end of the pass")
    assert len(found) == 1
    with pytest.raises(Ended):
        passes.run(session, ["sum"], {"start": np.zeros(1, np.float32)})


def test_what_a_model_refuses_is_no_end() -> None:
    with pytest.raises(ValueError, match="refused"):
        Passes().run(SimpleNamespace(run=refuse), [], {})


def refuse(*_: Any) -> Any:
    raise ValueError("refused")


def rerankers(tmp_path: Path, folder: ModelFolder, kind: str) -> tuple[Any, SlowSession]:
    """Either reranker over a slow session."""
    loaded: Any = LateInteraction.load(folder)
    if kind == "cross-encoder":
        loaded = CrossEncoder.load(read_model_folder(bert_cross_encoder(tmp_path / "judge", 1)))
    session = SlowSession(loaded._session)
    loaded._session = session
    return loaded, session


@pytest.mark.parametrize("kind", ["cross-encoder", "late interaction"])
@pytest.mark.parametrize("over", [float("-inf"), 5.0], ids=["cancelled", "past the deadline"])
def test_a_recall_that_is_over_ends_the_judging_of_its_candidates(
    tmp_path: Path, folder: ModelFolder, kind: str, over: float
) -> None:
    reranker, session = rerankers(tmp_path, folder, kind)
    first = [Passage(bytes([number]), "mat") for number in range(BATCH)]
    rest = [Passage(bytes([100 + number]), "the cat sat") for number in range(BATCH)]
    left = [float("inf")]
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(reranker.scores, Asked(QUERY, lambda _: 0.5), [*first, *rest], lambda: left[0])
        until(lambda: session.running, "a pass under way")
        left[0] = over
        scores = asked.result(HANG_GUARD_SECONDS)
    assert [each is not None for each in scores] == [True] * BATCH + [False] * BATCH
    assert (session.running, session.done) == (0, 0)
    assert session.ended > 0


def test_a_cancelled_recall_leaves_its_second_look_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled = threading.Event()
    left: list[float] = []

    def look_again(_store: Any, _question: Any, _first: Any, _reranker: Any, clock: CallClock, _intent: str) -> Any:
        left.append(clock.left_ms)
        cancelled.set()
        left.append(clock.left_ms)
        return SimpleNamespace(reranked=1)

    monkeypatch.setattr(searching, "look_again", look_again)
    question: Any = None
    call = Call(question, "quality", CallClock(), cancelled.is_set, [])
    looked: Any = searching.Looked(*[None] * 3)  # type: ignore[arg-type]
    with pytest.raises(RequestRefused) as refused:
        searching._again(call, [looked], FakeReranker())
    assert refused.value.kind == "cancelled"
    assert left[0] > 0
    assert left[1] == float("-inf")


class FakeReranker:
    identity = "fake"

    def scores(self, *_: Any) -> list[float | None]:
        return []


# -- models that nobody uses -------------------------------------------------------------------------------------------


class Warm:
    """Both warm models over a folder of tiny ones, as the daemon has them."""

    def __init__(self, own: Path) -> None:
        environment = {"WIKID_MODEL_DIR": str(bag_of_words(own / "bag", 24, 1).parent)}
        self.embedder = WarmEmbedder(environment, own / "cache", "bag", lambda: self.reranker.load())
        self.reranker = WarmReranker(environment, own / "cache", configured=None, embedder="bag")
        self.embedder.load()

    def idling(self, minutes: int) -> Idling:
        return Idling(self.embedder, self.reranker, lambda: minutes)

    def state(self) -> str:
        (record,) = self.embedder.records()
        return record.state


@pytest.fixture
def warm(tmp_path: Path) -> Warm:
    return Warm(tmp_path / "own")


def test_models_that_nobody_used_are_let_go_and_come_back_when_a_recall_lacks_them(
    warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idling, "MINUTE_SECONDS", 0.0)
    embedder = weakref.ref(warm.embedder.current())
    reranker: Any = weakref.ref(warm.reranker.for_recall())
    warm.idling(1).look()
    assert (warm.state(), warm.reranker.record().state) == ("built", "built")
    assert warm.embedder.current() is None
    until(lambda: gc.collect() is not None and embedder() is None and reranker() is None, "their memory being free")
    absence = warm.embedder.for_recall()
    assert isinstance(absence, Absence)
    assert absence.kind == "model_loading"
    assert warm.state() == "built"  # nobody lacked it yet: a recall by words does not
    call = Call(FakeQuestion, "hybrid", CallClock(), lambda: False, [])  # type: ignore[arg-type]
    call.tell(absence)
    until(lambda: warm.state() == "ready" and warm.reranker.record().state == "ready", "the models being back")
    assert [each.kind for each in call.diagnostics] == ["model_loading"]


class FakeQuestion:
    """Of no matter here."""


def test_a_reranker_that_came_too_late_follows_the_embedder_to_rest(
    warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idling, "MINUTE_SECONDS", 0.0)
    warm.idling(1).look()
    warm.reranker.load()
    assert warm.reranker.record().state == "ready"
    warm.idling(1).look()
    assert (warm.state(), warm.reranker.record().state) == ("built", "built")


def test_a_reranker_is_not_put_to_rest_once_the_embedder_is_back(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idling, "MINUTE_SECONDS", 0.0)
    rest = warm.embedder.rest

    def and_back(seconds: float) -> bool:
        """Somebody wants the embedder just as it has been let go."""
        rested = rest(seconds)
        warm.embedder.awaken()
        return rested

    monkeypatch.setattr(warm.embedder, "rest", and_back)
    warm.idling(1).look()
    assert (warm.state(), warm.reranker.record().state) == ("ready", "ready")


def test_models_in_use_stay(warm: Warm) -> None:
    warm.idling(1).look()
    assert warm.state() == "ready"


def test_models_stay_unless_the_settings_say_otherwise(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idling, "MINUTE_SECONDS", 0.0)
    warm.idling(0).look()
    assert warm.state() == "ready"


def test_passages_count_as_use(warm: Warm) -> None:
    embedder = warm.embedder.current()
    assert embedder is not None
    before = embedder.unused_seconds
    embedder.embed_passages(["the cat"])
    assert embedder.unused_seconds < before + 1.0


def test_a_refused_text_is_not_tried_again_before_the_model_is_back(tmp_path: Path) -> None:
    text = "# Note\n\npoison\n"
    current: list[FakeEmbedder | None] = [FakeEmbedder(poison="poison")]
    vectors, store = Vectors(lambda: current[0]), Store(tmp_path / "current")
    try:
        known = Known(Stamp(len(text), 1, 1, 1), text)
        store.apply([new_page("note.md", "note", text.encode(), known, strict=False)], [])
        assert vectors.fill(store, lambda: False).tried == 1
        due = vectors.next_retry
        assert due < float("inf")
        model, current[0] = current[0], None
        assert vectors.next_retry == float("inf")  # or the indexer would not sleep until then
        current[0] = model
        assert vectors.next_retry == due
    finally:
        store.close()


def test_only_a_model_at_rest_is_awakened(warm: Warm) -> None:
    first = warm.embedder.current()
    warm.embedder.awaken()
    assert warm.embedder.current() is first
    assert warm.embedder.rest(0.0)
    assert not warm.embedder.rest(0.0)
    warm.embedder.awaken()
    again = warm.embedder.current()
    assert again is not None
    assert again is not first


def test_saving_power_is_told(tmp_path: Path) -> None:
    environment = {"WIKID_MODEL_DIR": str(bag_of_words(tmp_path / "bag", 24, 1).parent)}
    saving = [True]
    embedder = WarmEmbedder(environment, tmp_path / "cache", "bag", lambda: None, Lane(lambda: saving[0]))
    embedder.load()
    (record,) = embedder.records()
    assert (record.state, record.remedy) == ("ready", "wikid config set lowPower off")
    saving[0] = False
    (record,) = embedder.records()
    assert (record.state, record.reason, record.remedy) == ("ready", "", "")
