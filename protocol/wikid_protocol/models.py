"""The records of the models' methods. Everything here is also a name of `wikid_protocol.records`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wikid_protocol.memories import Diagnostic

ModelPurpose = Literal["embedder", "reranker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """A model wikid knows. `state`: absent, built, loading, ready, failed. `source` is where it comes from: wikid's own
    catalogue, a folder, or the Hugging Face cache. `aliases` name it as well."""

    name: str
    purpose: ModelPurpose
    state: str
    identity: str = ""
    dims: int = 0
    path: str = ""
    licence: str = ""
    size_bytes: int = 0
    reason: str = ""
    remedy: str = ""
    source: Literal["", "catalogue", "hub", "folder"] = ""
    languages: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    """The models wikid knows."""

    models: tuple[ModelRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """The model that is used from now on, and the `setting` that says so with its `value`, None for wikid's own choice,
    in the user's file at `path`. `diagnostics` tells where something above that file still decides otherwise.
    `embedding_pending` chunks have no vector of it yet; words find them meanwhile."""

    model: ModelRecord
    setting: str
    path: str
    value: str | None = None
    embedding_pending: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCheck:
    """A model whose files were hashed anew. `damaged` are those that are missing or not what they were, relative to
    `path`; `reason` is why the folder cannot even be read."""

    name: str
    path: str
    state: Literal["intact", "damaged"]
    files: int = 0
    size_bytes: int = 0
    damaged: tuple[str, ...] = ()
    in_use: bool = False
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChecks:
    """Every model that was looked at."""

    models: tuple[ModelCheck, ...]
