"""The warm models over tiny ones: what fails is told, heals by itself, and never stands in the way of what works."""

from __future__ import annotations

import shutil
import weakref
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from brought_models import bag_of_words, bert_cross_encoder
from wikid_daemon.core.manifest import Known, Stamp
from wikid_daemon.index.catalog_rows import NewPage
from wikid_daemon.index.cross_encoder import CrossEncoder
from wikid_daemon.index.encoders import open_tokenizer
from wikid_daemon.index.pages import new_page
from wikid_daemon.index.store import Store
from wikid_daemon.index.vectors import Vectors
from wikid_daemon.models import mending
from wikid_daemon.models.location import locate, read_model_folder
from wikid_daemon.searching import Absence
from wikid_daemon.warm import WarmEmbedder, opened
from wikid_daemon.warm_reranker import WarmReranker


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of models, of which `half` is half one."""
    root = tmp_path / "own"
    bag_of_words(root / "whole", 24, 1)
    bag_of_words(root / "other", 40, 2)
    shutil.copytree(root / "whole", root / "half")
    (root / "half" / "model.onnx").write_bytes((root / "whole" / "model.onnx").read_bytes()[:200])
    bert_cross_encoder(root / "judge", 1)
    return root


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mending, "REST_SECONDS", 0.0)


class Ready:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def embedder(own: Path, configured: str | None, ready: Ready) -> WarmEmbedder:
    return WarmEmbedder({"WIKID_MODEL_DIR": str(own)}, own / "cache", configured, ready)


def reranker(own: Path, configured: str | None, embedder: str) -> WarmReranker:
    environment = {"WIKID_MODEL_DIR": str(own)}
    return WarmReranker(environment, own / "cache", configured=configured, embedder=embedder)


def test_a_half_model_is_told_and_heals_when_its_file_is_whole(own: Path) -> None:
    ready = Ready()
    warm = embedder(own, "half", ready)
    warm.load()
    told = warm.for_recall()
    assert isinstance(told, Absence)
    assert told.kind == "model_failed"
    assert "half does not load" in told.message
    assert str(own / "half") in told.remedy
    assert not warm._mending.look()
    shutil.copy(own / "whole" / "model.onnx", own / "half" / "model.onnx")
    assert warm._mending.look()
    assert warm.current() is not None
    assert ready.times == 1
    assert [each.state for each in warm.records()] == ["ready"]


def test_a_model_that_is_not_there_yet_is_found_when_it_comes(own: Path) -> None:
    warm = embedder(own, "later", Ready())
    warm.load()
    assert [(each.name, each.state) for each in warm.records()] == [("later", "absent")]
    assert not warm._mending.look()
    shutil.copytree(own / "whole", own / "later")
    assert warm._mending.look()
    assert warm.current() is not None


def test_another_model_takes_the_place_of_the_one_before(own: Path) -> None:
    ready = Ready()
    warm = embedder(own, "whole", ready)
    warm.load()
    before = warm.current()
    assert before is not None
    folder = read_model_folder(own / "other")
    warm.switch("other", folder, opened(folder))
    now = warm.current()
    assert now is not None
    assert (now.dims, ready.times, warm.wanted) == (40, 2, "other")
    assert before.embed_query("cat").shape == (24,)  # whoever still holds it goes on undisturbed
    warm.load()
    again = warm.current()
    assert again is not None
    assert again.identity == now.identity


def test_while_a_model_is_loaded_anew_the_old_one_answers_and_a_failure_is_told(own: Path) -> None:
    warm = embedder(own, "whole", Ready())
    warm.load()
    folder = warm.folder
    assert folder is not None
    warm.found_damaged(read_model_folder(own / "other"), ["model.onnx"])
    assert warm.current() is not None
    warm.found_damaged(folder, ["model.onnx"])
    told = warm.for_recall()
    assert isinstance(told, Absence)
    assert "model.onnx" in told.message
    assert not warm._mending.look()
    (own / "whole" / "model.onnx").touch()
    assert warm._mending.look()
    assert warm.current() is not None


def test_while_it_is_looked_for_the_model_that_is_asked_for_is_loading(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[tuple[str, str]]] = []

    def looking(*given: Any) -> Any:
        seen.append([(each.name, each.state) for each in warm.records()])
        return locate(*given)

    monkeypatch.setattr("wikid_daemon.warm.locate", looking)
    shutil.copytree(own / "whole", own / "cache" / "models" / "whole")
    for name, model in (("multilingual", "multilingual-e5-small"), ("whole", "whole")):
        warm = embedder(own, name, Ready())
        warm.load()
        assert dict(seen.pop())[model] == "loading"


@pytest.mark.parametrize("kind", ["embedder", "reranker"])
def test_a_failure_that_nobody_foresaw_is_told_and_is_not_loading_for_ever(
    kind: str, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("wikid_daemon.warm.locate", broken)
    monkeypatch.setattr("wikid_daemon.warm_reranker.locate", broken)
    warm = embedder(own, "whole", Ready()) if kind == "embedder" else reranker(own, None, "whole")
    warm.load()
    record = warm.records()[0] if isinstance(warm, WarmEmbedder) else warm.record()
    assert (record.state, "ZeroDivisionError" in record.reason, bool(record.remedy)) == ("failed", True, True)


def test_a_model_of_nobodys_home_fails_with_a_remedy(own: Path) -> None:
    warm = embedder(own, "~nosuchuser/m", Ready())
    warm.load()
    (record,) = warm.records()
    assert (record.state, "embedModel" in record.remedy) == ("failed", True)
    judge = reranker(own, "~nosuchuser/m", "whole")
    judge.load()
    assert judge.record().state == "failed"


@pytest.mark.parametrize(
    ("configured", "remedy"),
    [
        (None, "wikid models build"),
        ("multilingual", "wikid models build multilingual-e5-small"),
        ("maker/fine", "wikid models pull maker/fine"),
        ("fine", "wikid models list"),
    ],
)
def test_what_is_absent_says_how_to_get_it(own: Path, configured: str | None, remedy: str) -> None:
    warm = embedder(own, configured, Ready())
    warm.load()
    told = warm.for_recall()
    assert isinstance(told, Absence)
    assert (told.kind, told.remedy) == ("model_absent", remedy)


def test_a_broken_reranker_heals_and_an_own_one_follows_the_embedder(own: Path) -> None:
    whole = (own / "judge" / "model.onnx").read_bytes()
    (own / "judge" / "model.onnx").write_bytes(whole[:300])
    warm = reranker(own, "judge", "whole")
    warm.load()
    assert (warm.record().state, warm.record().name) == ("failed", "judge")
    assert isinstance(warm.for_recall(), Absence)
    (own / "judge" / "model.onnx").write_bytes(whole)
    assert warm._mending.look()
    assert isinstance(warm.for_recall(), CrossEncoder)
    warm.configure(None)
    warm.follow("other")
    warm.load()
    assert warm.record().name == "late interaction"
    assert warm.record().identity.startswith("late-interaction:other@")


def note(path: str, text: str) -> NewPage:
    known = Known(Stamp(len(text), 1, 1, 1), f"{path}{text}")
    return new_page(path, path.removesuffix(".md"), text.encode(), known, strict=False)


def test_the_vocabulary_of_a_model_is_in_memory_once(own: Path) -> None:
    folder = read_model_folder(own / "whole")
    first = open_tokenizer(folder)
    assert open_tokenizer(folder) is first
    assert open_tokenizer(folder, pairs=True) is not first
    assert open_tokenizer(read_model_folder(own / "other")) is not first
    gone = weakref.ref(first)
    del first
    assert gone() is None


def test_embedding_stops_where_another_model_takes_over(own: Path, tmp_path: Path) -> None:
    first, second = opened(read_model_folder(own / "whole")), opened(read_model_folder(own / "other"))
    asked = count()
    vectors = Vectors(lambda: first if next(asked) < 3 else second)
    store = Store(tmp_path / "current")
    try:
        store.apply([note(f"n{number:02}.md", f"# Note {number}\n\ncat {number}\n") for number in range(20)], [])
        assert vectors.fill(store, lambda: False).tried == 3
        assert store.model == first.identity
        assert vectors.fill(store, lambda: False).made == 20
        assert (store.model, store.embedded) == (second.identity, 20)
    finally:
        store.close()
