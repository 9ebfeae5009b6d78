"""The score of a second look, over one query's candidates. Pure.

Standardised scores are added: the first look's and the reranker's, then what the candidates near a candidate have,
which is dense pseudo-relevance feedback from all of them at once. Chosen among some 1,500 variants on the tuning halves
of Cranfield, CACM, SciFact and XQuAD-en (nDCG@10 +4.7 % over the first look, the mean of the four gains) and measured
once on their reporting halves (+2.7 %; .411 to .444, .540 to .555, .767 to .767, .980 to .984). A model that does not
know the query's language has its say cut by as much: ungated, Chinese falls from .990 to .966.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

RERANK_WEIGHT: Final = 1.0
NEIGHBOUR_WEIGHT: Final = 0.5
NEIGHBOUR_POWER: Final = 6  # of the cosine: only what stands very near counts

_NOTHING: Final = 1e-9

Matrix: TypeAlias = npt.NDArray[np.float64]


def combined(first: Matrix, reranked: Sequence[float | None], near: Matrix, known: float) -> list[float]:
    """The candidates' new scores, stretched to 0–1, for the first look's scores of shape (n,).

    `reranked` holds None for those that the time did not suffice for, which count as the lowest that was judged;
    `near`, of shape (n, n), their cosines with each other, 0–1, with 0 on the diagonal; `known` how far the model knows
    the query's language, 0–1.
    """
    own = _standard(first)
    judged = np.asarray([score is not None for score in reranked])
    if judged.any():
        of_judged = _standard(np.asarray([score for score in reranked if score is not None]))
        late = np.full(len(own), of_judged.min())
        late[judged] = of_judged
        own = _standard(own + RERANK_WEIGHT * known * late)
    closeness = near**NEIGHBOUR_POWER
    total = closeness.sum(axis=1)
    # one without any neighbour is judged by itself
    neighbours = np.where(total > _NOTHING, closeness @ own / np.maximum(total, _NOTHING), own)
    final = own + NEIGHBOUR_WEIGHT * known * _standard(neighbours)
    low, span = float(final.min()), float(np.ptp(final))
    found: list[float] = ((final - low) / span if span > 0 else np.ones_like(final)).tolist()
    return found


def _standard(values: Matrix) -> Matrix:
    spread = float(values.std())
    return (values - values.mean()) / spread if spread > _NOTHING else np.zeros_like(values)
