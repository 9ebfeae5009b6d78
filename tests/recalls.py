"""Vaults that are asked as the daemon asks them: real indexes, a fake embedder, a clock that stands still."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builders import NO_RERANKER, Clock, FakeEmbedder, default_settings, until, write
from wikid_daemon.index import jvm
from wikid_daemon.indexer import Indexer
from wikid_daemon.merging import Feedback, no_feedback
from wikid_daemon.recall import Recaller
from wikid_daemon.reranking import Reranker
from wikid_daemon.searching import Absence, Models, QueryEncoder
from wikid_daemon.settings_files import Effective
from wikid_daemon.vault.state import machine_id
from wikid_daemon.vault.vault import init_vault, open_vault
from wikid_daemon.vaults import Applied, Layer
from wikid_protocol import records as r
from wikid_protocol.methods import RecallParams


class Recalls:
    """Vaults in one folder, asked as the daemon asks them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.fake = FakeEmbedder()
        self.indexers: dict[str, Indexer] = {}
        self.clock = Clock()
        self.feedback: Feedback = no_feedback

    def wiki(self, name: str, **pages: str) -> Path:
        """A marker vault with these pages; `__` in a key stands for a slash."""
        root = init_vault(self.home / name, name, "personal")
        wiki = root / ".llm-wiki" / "wiki"
        for key, text in pages.items():
            write(wiki, key.replace("__", "/") + ".md", text)
        self.open(root, name)
        return wiki

    def open(self, root: Path, name: str, *, embed: bool = True) -> Indexer:
        state = self.home / "state"
        vault = open_vault(root, name=name, state_home=state)
        fake = self.fake if embed else None
        indexer = Indexer(vault, machine_id(state), lambda: fake, lambda _indexer: None, jvm.detach)
        self.indexers[name] = indexer
        indexer.start()
        indexer.sync(30)
        if embed:
            until(lambda: self._embedded(indexer), "every chunk having a vector")
        return indexer

    @staticmethod
    def _embedded(indexer: Indexer) -> bool:
        store = indexer.store
        return store is not None and store.embedded == store.catalog.counts()[1]

    def ask(
        self,
        query: str,
        *vaults: tuple[str, Layer],
        model: QueryEncoder | Absence | None = None,
        reranker: Reranker | Absence = NO_RERANKER,
        settings: Effective | None = None,
        cancelled: bool = False,
        **params: Any,
    ) -> r.Recall:
        """A recall in lexical mode unless `mode` says otherwise."""
        recaller = Recaller(lambda: Models(model or self.fake, reranker), self.clock, self.feedback)
        applied = [Applied(self.indexers[name], layer, "") for name, layer in vaults]
        asked = RecallParams(query=query, **{"mode": "lexical", **params})
        return recaller.recall(asked, applied, settings or default_settings(), lambda: cancelled)

    def close(self) -> None:
        for indexer in self.indexers.values():
            indexer.close()


def items(answer: r.Recall) -> list[r.Item]:
    return [
        item
        for bundle in answer.bundles
        for item in (*([bundle.card] if bundle.card else []), *bundle.evidence, *bundle.conflicts)
    ]


def ids(answer: r.Recall) -> list[str]:
    return [item.page_id for item in items(answer)]


def kinds(answer: r.Recall) -> list[str]:
    return [each.kind for each in answer.diagnostics]
