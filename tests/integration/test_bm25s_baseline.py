"""The baseline of bm25s and vectors over a real catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from builders import FakeEmbedder
from wikid_daemon.bench.bm25s_baseline import MISSING, Bm25sBaseline
from wikid_daemon.core.manifest import Known, Stamp
from wikid_daemon.index.pages import new_page, stored_embedding_text
from wikid_daemon.index.store import Store

NOTES = {
    "kiln.md": "# Kiln\n\nThe kiln was firing all night.\n\n## Cones\n\nA cone bends when the kiln is hot enough.\n",
    "glaze.md": "# Glaze\n\nCeladon over stoneware; see the kiln.\n",
    "bees.md": "# Bees\n\nTwo hives came through the winter.\n",
    "empty.md": "---\ntitle: The of\n---\n",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "current")
    opened.apply(
        [
            new_page(path, path.removesuffix(".md"), text.encode(), Known(Stamp(1, 1, 1, 1), path), strict=False)
            for path, text in NOTES.items()
        ],
        [],
    )
    yield opened
    opened.close()


def test_it_is_installed_for_developers() -> None:
    assert MISSING is None


def test_words_alone_rank_each_page_once_by_stems_and_leave_out_pages_without_a_word(store: Store) -> None:
    baseline = Bm25sBaseline(store, None)
    assert baseline.ask("kilns fired") == ["kiln", "glaze"]
    assert baseline.ask("hive") == ["bees"]


@pytest.mark.parametrize("query", ["", "?!", "of the", "zeppelin"])
def test_a_query_without_a_known_word_finds_nothing(store: Store, query: str) -> None:
    assert Bm25sBaseline(store, None).ask(query) == []


def test_an_empty_vault_has_nothing_to_find(tmp_path: Path) -> None:
    empty = Store(tmp_path / "empty")
    assert Bm25sBaseline(empty, None).ask("kiln") == []
    empty.close()


def test_vectors_add_pages_and_a_language_the_model_does_not_know_leaves_the_order_to_words(store: Store) -> None:
    fake = FakeEmbedder(dims=256)
    store.use_model(fake.identity, fake.dims)
    missing = store.missing_vectors(100, ())
    vectors = [fake.embed_query(stored_embedding_text(chunk, title)) for chunk, title in missing]
    store.add_vectors([chunk.hash for chunk, _ in missing], np.stack(vectors))

    assert Bm25sBaseline(store, fake).ask("bees hives winter")[0] == "bees"
    assert set(Bm25sBaseline(store, fake).ask("hives")) == {"kiln", "glaze", "bees", "empty"}
    strange = FakeEmbedder(dims=256, knows=0.0)
    assert Bm25sBaseline(store, strange).ask("kilns fired")[:2] == ["kiln", "glaze"]
