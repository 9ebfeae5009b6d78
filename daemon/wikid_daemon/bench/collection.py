"""A set of judged queries with the vault that they are asked of: a BEIR folder, or a golden file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wikid_daemon.bench import beir, golden
from wikid_daemon.bench.dataset import DatasetUnusable, JudgedQuery, Split, by_hash, by_ordinal
from wikid_daemon.bench.indexing import Workplace, fingerprint

DOCUMENTS: Final = "documents.json"  # written last: a folder that has it is whole


@dataclass(frozen=True, slots=True)
class Collection:
    """A vault to be asked: `document_of` names a page's document where that is not the page id itself.

    `state` is the folder for the index, `split` how the queries are halved.
    """

    name: str
    root: Path
    state: Path
    queries: Sequence[JudgedQuery]
    split: Split
    document_of: Mapping[str, str] | None = None

    def documents(self, pages: Sequence[str]) -> list[str]:
        """The judged names of ranked pages."""
        return list(pages) if self.document_of is None else [self.document_of[page] for page in pages]


@contextmanager
def opened(place: Path, vault: Path | None, workplace: Workplace, model: str) -> Iterator[Collection]:
    """The BEIR folder or golden file at `place`; a BEIR folder becomes a vault in the workplace. DatasetUnusable."""
    if not place.exists():
        raise DatasetUnusable(f"{place} does not exist")
    file = place / golden.GOLDEN if place.is_dir() else place
    if not place.is_dir() or file.exists():
        root = (vault or file.parent).resolve()
        queries = golden.read_golden(file)
        with workplace.folder(root.name, str(root), model) as folder:
            yield Collection(root.name, root, folder / "state", queries, by_hash)
        return
    name, queries = place.resolve().name, beir.read_queries(place)
    with workplace.folder(name, fingerprint([place / beir.CORPUS]), model) as folder:
        document_of = _pages(place, folder)
        yield Collection(name, folder / "vault", folder / "state", queries, by_ordinal, document_of)


def _pages(place: Path, folder: Path) -> dict[str, str]:
    """The documents as pages below `folder`, written unless they already are; page id → document id."""
    known = folder / DOCUMENTS
    if known.exists():
        document_of: dict[str, str] = json.loads(known.read_text(encoding="utf-8"))
        return document_of
    shutil.rmtree(folder / "vault", ignore_errors=True)  # what an interrupted run has left
    document_of = beir.write_vault(beir.read_documents(place), folder / "vault")
    known.write_text(json.dumps(document_of), encoding="utf-8")
    return document_of
