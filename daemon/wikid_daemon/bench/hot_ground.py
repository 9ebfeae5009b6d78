"""What the hot paths work on: a generated vault with its index, twenty of its pages, and the models that are here.

Each part is made when it is first asked for, so that a few paths can be measured again without the rest.
"""

from __future__ import annotations

import functools
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np

from wikid_daemon.bench.engines import model_folder
from wikid_daemon.bench.generate import GeneratedPage, VaultGenerator, letters, write_pages
from wikid_daemon.bench.indexing import Indexed, indexed
from wikid_daemon.core.manifest import Known, Stamp
from wikid_daemon.index.catalog_rows import NewPage
from wikid_daemon.index.dense import Vectors
from wikid_daemon.index.encoders import Embedder
from wikid_daemon.index.late_interaction import LateInteraction
from wikid_daemon.index.pages import new_page
from wikid_daemon.models.failures import ModelUnusable
from wikid_daemon.models.location import ModelFolder
from wikid_daemon.searching import Absence, Models
from wikid_daemon.vault.vault import Vault, init_vault, open_vault

SEED: Final = 1
PAGES: Final = 2_000  # of the vault that is asked
FILES: Final = 1_000  # of the folder that is scanned
SAMPLE: Final = 20  # pages that are parsed, cut and indexed
QUERIES: Final = 20


class StandIn:
    """Vectors without a model: a fixed direction for each telling word, summed, so that shared words mean nearness."""

    identity: Final = "stand-in@1"
    dims: Final = 384

    def __init__(self, words: Iterable[str]) -> None:
        self._directions = {word: self._direction(word) for word in words}
        self._nowhere = self._direction("")

    def passages(self, texts: Iterable[str]) -> Iterator[Vectors | Exception]:
        return map(self.embed_query, texts)

    def embed_query(self, text: str) -> Vectors:
        known = [self._directions[word] for word in letters(text).split() if word in self._directions]
        total = np.sum(known or [self._nowhere], axis=0)
        vector: Vectors = total / np.linalg.norm(total)
        return vector

    def familiarity(self, _text: str) -> float:
        return 1.0

    def _direction(self, word: str) -> Vectors:
        # the hash of a string differs from process to process
        chance = np.random.default_rng(zlib.crc32(word.encode()))
        return chance.standard_normal(self.dims).astype(np.float32)


class Ground:
    """Below `folder`, until it is closed. `pages` and `files` are the sizes of the two vaults."""

    def __init__(self, folder: Path, pages: int = PAGES, files: int = FILES) -> None:
        self.folder = folder
        self.generator = VaultGenerator(pages, SEED)
        self.files = files
        self.open = ExitStack()

    def close(self) -> None:
        """Let go of every index, in reverse order."""
        self.open.close()

    def place(self, name: str) -> Path:
        """A new folder, named after that."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))

    @functools.cached_property
    def sample(self) -> Sequence[GeneratedPage]:
        return [self.generator.page(number) for number in range(SAMPLE)]

    @functools.cached_property
    def queries(self) -> Sequence[str]:
        return self.generator.queries(QUERIES)

    def parsed(self, suffix: str = "") -> list[NewPage]:
        """The sample as the catalog takes it; another `suffix`, other bytes and chunks."""
        found = []
        for each in self.sample:
            data = f"{each.text}\n{suffix}\n".encode()
            known = Known(Stamp(len(data), 1, 1, 1), f"{zlib.crc32(data):064x}")
            found.append(new_page(each.path, each.path.removesuffix(".md"), data, known, strict=True))
        return found

    @functools.cached_property
    def stand_in(self) -> StandIn:
        return StandIn(self.generator.telling_words)

    @functools.cached_property
    def models(self) -> Models:
        """Stand-in vectors and no reranker."""
        return Models(self.stand_in, Absence("reranker_absent", "no model was asked for"))

    @functools.cached_property
    def vault(self) -> Indexed:
        """The whole vault, with words and vectors."""
        root = self.folder / "vault"
        write_pages(self.generator, init_vault(root, "generated", "personal") / ".llm-wiki" / "wiki")
        return self.open.enter_context(indexed(root, self.folder / "state", self.stand_in, _silently))

    @functools.cached_property
    def scanned(self) -> Vault:
        """A vault of many small files."""
        root = init_vault(self.folder / "files", "files", "personal")
        for number in range(self.files):
            path = root / ".llm-wiki" / "wiki" / f"concepts/folder-{number % 20:02d}/file-{number:05d}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"---\ntype: concept\ntitle: File {number}\n---\n", encoding="utf-8")
        return open_vault(root, name=None, state_home=self.folder / "files-state")

    @functools.cached_property
    def model(self) -> ModelFolder | None:
        """The embedding model of this user; None also where it is damaged."""
        try:
            return model_folder()
        except ModelUnusable:
            return None

    def embedder(self) -> Embedder | None:
        return None if self.model is None else Embedder.load(self.model, workers=1)

    def reranker(self) -> LateInteraction | None:
        return None if self.model is None else LateInteraction.load(self.model, workers=1)


def _silently(_message: str) -> None:
    """Nobody reads the progress of a child."""
