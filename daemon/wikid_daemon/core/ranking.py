"""Fusion of first-stage lists into one ranking of pages, bounded adjustments, and the merge across vaults. Pure.

Constants are seed A's where it names them; the fusion's were chosen on the tuning halves of the judged collections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wikid_daemon.core.page import Role, Status

CANDIDATES: Final = 40  # pages per list and vault (seed A, adapter mapping)
RRF_K: Final = 60  # seed A, score normalisation
RERANK: Final = "rerank"  # the name of the reranker's signal
DENSE_SHARE: Final = 0.55  # of the convex sum, for a query in a language the embedder knows
# what share of a query's words a vault must hold for its list of words to count nothing, and in full
FOREIGN_WORDS: Final = 0.3
OWN_WORDS: Final = 0.6

MULTIPLIER_MIN, MULTIPLIER_MAX = 0.90, 1.10  # seed A, score normalisation
IDENTITY_BONUS: Final = 0.05
STABLE_CANONICAL_BONUS: Final = 0.03
VERIFIED_BONUS: Final = 0.02
FEEDBACK_MAX: Final = 0.02  # either way (seed A, Signal strength)
EVIDENCE_MALUS: Final = -0.02
DEPRECATED_MALUS: Final = -0.08


@dataclass(frozen=True, slots=True)
class PageHit:
    """A page's best chunk in one list."""

    page: int
    chunk: int
    score: float


@dataclass(frozen=True, slots=True)
class Fused:
    """A page after fusion: `score` 0–1, `chunk` the better of its best chunks, and each list's part (None = absent).

    `signals`: what a second look found, by name.
    """

    page: int
    chunk: int
    score: float
    lexical: float | None
    cosine: float | None
    signals: tuple[tuple[str, float], ...] = ()


def best_per_page(hits: Sequence[tuple[int, float]], page_of: Callable[[int], int], limit: int) -> list[PageHit]:
    """The first, hence best, chunk of each page, for (chunk, score) hits best first."""
    found: dict[int, PageHit] = {}
    for chunk, score in hits:
        page = page_of(chunk)
        if page not in found:
            found[page] = PageHit(page, chunk, score)
            if len(found) == limit:
                break
    return list(found.values())


def fuse(
    lexical: Sequence[PageHit],
    dense: Sequence[PageHit],
    cosines: Callable[[Sequence[int]], Mapping[int, float]],
    dense_share: float,
) -> list[Fused]:
    """A convex combination of min–max normalised scores, best first, ties by page number.

    `cosines` gives the exact cosine of chunks that the dense list lacks, so no page is judged by its absence there.
    """
    words, vectors = {hit.page: hit for hit in lexical}, {hit.page: hit for hit in dense}
    extra = cosines([hit.chunk for page, hit in words.items() if page not in vectors]) if dense_share else {}
    similarity = {page: hit.score for page, hit in vectors.items()}
    for page, hit in words.items():
        if page not in similarity and hit.chunk in extra:
            similarity[page] = extra[hit.chunk]
    from_words = normalised({page: hit.score for page, hit in words.items()})
    from_vectors = normalised(similarity)
    pages = words.keys() | vectors.keys()
    fused = []
    for page in pages:
        a = from_words.get(page, 0.0)
        # a page whose vector is still to come is judged by its words alone, not by what it lacks
        b = from_vectors.get(page, a)
        # the chunk of the list that speaks more strongly for the page
        better = (
            vectors if page not in words or (page in vectors and b * dense_share > a * (1 - dense_share)) else words
        )
        score = (1 - dense_share) * a + dense_share * b
        lexical_score = words[page].score if page in words else None
        fused.append(Fused(page, better[page].chunk, score, lexical_score, similarity.get(page)))
    fused.sort(key=lambda each: (-each.score, each.page))
    return fused


def share_of_vectors(own: float, held: float) -> float:
    """The share of the convex sum for a query whose vector deserves `own` and of whose words a vault holds `held`, both
    0–1. A question in another language than the notes finds by its words little but names and numbers.

    On the tuning halves with the multilingual model: questions in eleven languages about English text nDCG@10 .891
    instead of .828 (vectors alone .893), German .975 instead of .970, all others as before.
    """
    trust = min(max((held - FOREIGN_WORDS) / (OWN_WORDS - FOREIGN_WORDS), 0.0), 1.0)
    # words are all there is for a language that the embedder does not know
    familiar = own / DENSE_SHARE
    return own + (1.0 - own) * (1.0 - trust) * min(familiar, 1.0)


def normalised(scores: Mapping[int, float]) -> dict[int, float]:
    """Stretched to 0–1; 1 for all where they are the same."""
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    span = high - low
    return {page: (score - low) / span if span > 0 else 1.0 for page, score in scores.items()}


def multiplier(*, identity: bool, role: Role, status: Status, verified_by_human: bool, feedback: float = 0.0) -> float:
    """The bounded adjustment of a page's final score: clamp(1 + sum) (vault format §11.21)."""
    total = 1.0 + min(FEEDBACK_MAX, max(-FEEDBACK_MAX, feedback))
    if identity:
        total += IDENTITY_BONUS
    if role == "canonical" and status == "stable":
        total += STABLE_CANONICAL_BONUS
    if role == "evidence":
        total += EVIDENCE_MALUS
    if status == "deprecated":
        total += DEPRECATED_MALUS
    if verified_by_human:
        total += VERIFIED_BONUS
    return min(MULTIPLIER_MAX, max(MULTIPLIER_MIN, total))


def reciprocal_rank(rank: int) -> float:
    """1 / (60 + rank), rank counted from 1: the only score that means the same in two vaults (seed A)."""
    return 1.0 / (RRF_K + rank)
