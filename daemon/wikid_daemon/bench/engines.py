"""The models that recall would use on this machine, loaded for a benchmark, or the reasons why one is not there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wikid_daemon.index.vectors import PassageEncoder
from wikid_daemon.models.location import ModelFolder, locate
from wikid_daemon.searching import Absence, Models, QueryEncoder
from wikid_daemon.settings_files import SettingsFiles
from wikid_daemon.warm import WarmEmbedder
from wikid_daemon.warm_reranker import WarmReranker
from wikid_protocol.endpoint import folders


@dataclass(frozen=True, slots=True)
class Engines:
    """The models as recall takes them, and the embedder as an indexer takes it."""

    models: Models
    encoder: PassageEncoder | None

    @property
    def notes(self) -> Sequence[str]:
        """What is not there, for a person."""
        lacking = (self.models.embedder, self.models.reranker)
        return [f"{each.message} {each.remedy}".rstrip() for each in lacking if isinstance(each, Absence)]

    @property
    def identities(self) -> dict[str, str]:
        """What each model calls itself; empty for none."""
        embedder, reranker = self.models.embedder, self.models.reranker
        return {
            "embedder": "" if isinstance(embedder, Absence) else embedder.identity,
            "reranker": "" if isinstance(reranker, Absence) else reranker.identity,
        }


NONE: Final = Engines(
    Models(Absence("model_absent", "no model was asked for"), Absence("reranker_absent", "no model was asked for")),
    None,
)


def load() -> Engines:
    """Both models of this user, as the daemon would load them."""
    places = folders()
    chosen = SettingsFiles(places.config, os.environ).settings_for(None).settings
    embedder = WarmEmbedder(os.environ, places.cache, chosen.embed_model, lambda: None)
    reranker = WarmReranker(os.environ, places.cache, configured=chosen.rerank_model, embedder=chosen.embed_model)
    embedder.load()
    reranker.load()
    return Engines(Models(embedder.for_recall(), reranker.for_recall()), embedder.current())


def model_folder() -> ModelFolder | None:
    """The built embedding model of this user. ModelUnusable."""
    return locate(os.environ, folders().cache, None)


def query_encoder(models: Models) -> QueryEncoder | None:
    return None if isinstance(models.embedder, Absence) else models.embedder
