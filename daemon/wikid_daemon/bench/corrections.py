"""A vault's recall corrections as judged queries, so that none is forgotten (seed A: every correction is tested again).

A correction is an observation page that a person's own words made, with `category: recall-correction`, the page it
corrects, that page's vault and the hash of the query that had shown it (seed A, feedback). The query itself is kept
nowhere, so the correction's first sentence stands for it: who asks for that must find the correction first.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wikid_daemon.bench.dataset import DatasetUnusable
from wikid_daemon.core.document import MAX_BYTES, parse_page
from wikid_daemon.core.page import KnowledgeDocument
from wikid_daemon.core.query import MAX_CODE_POINTS, normalise
from wikid_daemon.files import NotReadable, atomic_write
from wikid_daemon.vault.scan import RootUnavailable, scan
from wikid_daemon.vault.vault import OutsideVault, Vault, VaultError, open_vault, read_page

CATEGORY: Final = "recall-correction"
CORRECTION_GRADE: Final = 2
CORRECTED_GRADE: Final = 1  # it still is what the query was about

_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|\[\[(?:[^\]|]*\|)?([^\]]*)\]\]")
_MARKS = re.compile(r"^\s*(?:[-+>]|\*(?=\s)|\d+\.\s)\s*|(?<!\w)[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}(?!\w)", re.MULTILINE)
_SENTENCE = re.compile(r".+?(?:[.!?](?=\s|$)|[。！？])")
_NO_PROSE = ("#", "```", "~~~", "|", "<!--")


@dataclass(frozen=True, slots=True)
class Correction:
    """`corrected` is None where the corrected page is another vault's."""

    page_id: str
    query: str
    corrected: str | None
    query_hash: str | None

    def to_json(self) -> dict[str, Any]:
        """A line of a golden file."""
        relevant = {self.page_id: CORRECTION_GRADE}
        if self.corrected is not None:
            relevant[self.corrected] = CORRECTED_GRADE
        return {"id": self.page_id, "query": self.query, "relevant": relevant, "query_hash": self.query_hash}


def write_golden(root: Path, target: Path) -> int:
    """Write the vault's corrections as a golden file; how many there are. DatasetUnusable."""
    with tempfile.TemporaryDirectory(prefix="wikid-bench-") as state:
        found = list(corrections(_opened(root, Path(state))))
    lines = [json.dumps(each.to_json(), ensure_ascii=False) + "\n" for each in found]
    if not lines:
        raise DatasetUnusable(f"{root} holds no recall correction yet")
    try:
        atomic_write(target, "".join(lines).encode())
    except OSError as problem:
        raise DatasetUnusable(f"{target} cannot be written: {problem.strerror or type(problem).__name__}") from problem
    return len(lines)


def corrections(vault: Vault) -> Iterator[Correction]:
    """The vault's corrections by path; pages that are not valid are none. DatasetUnusable."""
    try:
        found = scan(vault)
    except RootUnavailable as problem:
        raise DatasetUnusable(f"the pages of {vault.root} cannot be read: {problem}") from problem
    for path in found.entries:
        try:
            data = read_page(vault, path, MAX_BYTES).data
        except (OSError, NotReadable, OutsideVault):
            continue  # gone or unreadable: nothing that recall could find either
        document = parse_page(path, data, strict=vault.strict).document
        if document is not None and document.category == CATEGORY:
            yield _correction(document, vault.vault_id)


def first_sentence(body: str) -> str:
    """The first sentence of a page's prose, without marks and the addresses of links; empty where there is none."""
    for paragraph in re.split(r"\n\s*\n", body):
        lines = [line for line in paragraph.split("\n") if line.strip() and not line.lstrip().startswith(_NO_PROSE)]
        prose = "\n".join(lines)
        if not any(each.isalnum() for each in _LINK.sub("", prose)):
            continue  # a heading, or links alone
        text = normalise(_MARKS.sub("", _LINK.sub(lambda link: link[1] or link[2] or "", prose)))
        sentence = _SENTENCE.match(text)
        return (sentence[0] if sentence else text)[:MAX_CODE_POINTS]
    return ""


def _correction(document: KnowledgeDocument, vault_id: str) -> Correction:
    given = {key: document.metadata.get(key) for key in ("corrected_page", "vault_id", "query_hash")}
    text = {key: value if isinstance(value, str) and value else None for key, value in given.items()}
    elsewhere = text["vault_id"] not in (None, vault_id)
    return Correction(
        document.page_id,
        first_sentence(document.body) or document.title,
        None if elsewhere else text["corrected_page"],
        text["query_hash"],
    )


def _opened(root: Path, state: Path) -> Vault:
    try:
        return open_vault(root, name=None, state_home=state, may_backfill=False)
    except VaultError as problem:
        raise DatasetUnusable(str(problem)) from problem
