"""What ranks pages: wikid in each of its modes, on the path that recall takes, its vectors alone, and the baselines.

No floor and no bundles: a page that is ranked well counts even where recall would rather say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from wikid_daemon.bench.bm25s_baseline import MISSING, Bm25sBaseline
from wikid_daemon.bench.engines import query_encoder
from wikid_daemon.bench.heuristic import Heuristic, entry_of
from wikid_daemon.bench.indexing import Indexed
from wikid_daemon.core import modes
from wikid_daemon.core import query as q
from wikid_daemon.core.document import MAX_BYTES, parse_page
from wikid_daemon.core.ranking import CANDIDATES
from wikid_daemon.judging import candidates
from wikid_daemon.retrieval import Question
from wikid_daemon.searching import Absence, Call, Models, search
from wikid_daemon.timing import Clock
from wikid_daemon.vault.vault import read_page

Baseline = Literal["heuristic", "bm25s", "dense"]
"""What is measured beside wikid's modes: `dense` is the hybrid mode's list of vectors, without its list of words."""
System = Literal["heuristic", "bm25s", "dense", "lexical", "hybrid", "adaptive", "quality"]
BASELINES: Final[tuple[Baseline, ...]] = get_args(Baseline)
SYSTEMS: Final[tuple[System, ...]] = get_args(System)
DEPTH: Final = CANDIDATES  # ranks that are looked at


@dataclass(frozen=True, slots=True)
class Ranking:
    """Page ids, best first. `used` is the path that wikid took, and `confidences` what it believes of each page; empty
    for a baseline."""

    pages: Sequence[str]
    used: str = ""
    confidences: Sequence[float] = ()


Ranker = Callable[[str], Ranking]


def ranker(system: System, vault: Indexed, models: Models) -> Ranker | str:
    """The system, ready to rank the vault's pages, or why it cannot."""
    if system == "heuristic":
        old = heuristic(vault)
        return lambda text: Ranking(old.ask(text, DEPTH))
    if system == "bm25s":
        if MISSING is not None:
            return MISSING
        plain = Bm25sBaseline(vault.store, query_encoder(models))
        return lambda text: Ranking(plain.ask(text))
    if system == "dense":
        if isinstance(models.embedder, Absence):
            return f"dense: {models.embedder.message}"
        return lambda text: _vectors_alone(vault, models, text)
    return lambda text: _ranking(system, vault, models, text)


def heuristic(vault: Indexed) -> Heuristic:
    """The old recall over the pages that the index serves."""
    about = vault.applied.vault
    entries = []
    for page in vault.store.catalog.all_pages():
        data = read_page(about, page.path, MAX_BYTES).data
        document = parse_page(page.path, data, strict=about.strict).document
        if document is not None:
            entries.append(entry_of(page.page_id, document))
    return Heuristic(entries)


def call_for(text: str, mode: modes.Mode, vault: Indexed) -> Call:
    """A recall of `text` that nothing hurries; cut where it is longer than recall would take."""
    about = vault.applied.vault
    question = Question(q.normalise(text)[: q.MAX_CODE_POINTS], None)
    return Call(question, mode, Clock(), lambda: False, [], q.intent(about.topic, about.mode))


def _vectors_alone(vault: Indexed, models: Models, text: str) -> Ranking:
    call = call_for(text, "hybrid", vault)
    if not q.has_words(call.question.text):
        return Ranking([])
    (looked,) = search(call, vault.asked, models)
    nearest = [each.chunk for each in looked.retrieved.dense]
    found = vault.store.load(nearest)
    return Ranking([found[each].page.page_id for each in nearest if each in found])


def _ranking(mode: modes.Mode, vault: Indexed, models: Models, text: str) -> Ranking:
    call = call_for(text, mode, vault)
    if not q.has_words(call.question.text):
        return Ranking([])
    (looked,) = search(call, vault.asked, models)
    found = candidates(vault.store, call.question, looked.retrieved, DEPTH)
    return Ranking([each.found.page.page_id for each in found], call.used, [each.confidence for each in found])
