"""Logistic regression by Newton's method, with the sign of every coefficient given beforehand. Pure.

A signal that speaks for a page must not speak against it because of an accident in the data, so a coefficient that
would come out with the wrong sign is left out, and the others are fitted without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

RIDGE: Final = 1e-5  # per unit of weight, on the coefficients and not on the bias: only against runaway estimates
STEPS: Final = 100
ENOUGH: Final = 1e-9  # a step this small changes nothing
SHORTEST: Final = 1e-6  # of a Newton step, when it has been halved until the loss falls

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fit:
    """A logit: the bias, and a coefficient for each column; 0 for a column that was left out."""

    bias: float
    coefficients: tuple[float, ...]

    def probabilities(self, features: Floats) -> Floats:
        """Of `features`, shape (rows, columns), one for each row."""
        return _sigmoid(self.bias + features @ np.asarray(self.coefficients))


def fitted(features: Floats, labels: Floats, weights: Floats, signs: Sequence[int]) -> Fit:
    """The fit of labels 0 or 1 to `features` of shape (rows, columns). `signs`: 1 where a column's coefficient must not
    be negative, -1 where it must not be positive. A column without any spread is left out."""
    share = weights / weights.sum()
    used = [column for column in range(features.shape[1]) if np.ptp(features[:, column]) > 0]
    while True:
        solution = _newton(np.column_stack([np.ones(len(features)), features[:, used]]), labels, share)
        wrong = {column: found * signs[column] for column, found in zip(used, solution[1:], strict=True)}
        worst = min(wrong, key=lambda column: wrong[column], default=None)
        if worst is None or wrong[worst] >= 0:
            break
        used.remove(worst)
    coefficients = np.zeros(features.shape[1])
    coefficients[used] = solution[1:]
    return Fit(float(solution[0]), tuple(coefficients.tolist()))


def log_loss(probabilities: Floats, labels: Floats, weights: Floats) -> float:
    """The weighted mean of -ln of the probability that was given to what came true."""
    given = np.where(labels > 0, probabilities, 1 - probabilities)
    return float(-np.average(np.log(np.maximum(given, np.finfo(np.float64).tiny)), weights=weights))


def _newton(design: Floats, labels: Floats, share: Floats) -> Floats:
    """The minimum over the columns of `design`, the first of which is the bias."""
    ridge = np.full(design.shape[1], RIDGE)
    ridge[0] = 0.0
    at = np.zeros(design.shape[1])
    loss = _loss(at, design, labels, share, ridge)
    for _ in range(STEPS):
        probabilities = _sigmoid(design @ at)
        gradient = design.T @ (share * (probabilities - labels)) + ridge * at
        curvature = (design * (share * probabilities * (1 - probabilities))[:, None]).T @ design + np.diag(ridge)
        step = np.linalg.solve(curvature + 1e-12 * np.eye(len(at)), gradient)
        length = 1.0
        while length > SHORTEST and _loss(at - length * step, design, labels, share, ridge) > loss:
            length /= 2
        at = at - length * step
        loss = _loss(at, design, labels, share, ridge)
        if float(np.abs(step).max()) < ENOUGH or length <= SHORTEST:
            break
    return at


def _loss(at: Floats, design: Floats, labels: Floats, share: Floats, ridge: Floats) -> float:
    z = design @ at
    return float(share @ (np.logaddexp(0.0, z) - labels * z) + (ridge * at) @ at / 2)


def _sigmoid(z: Floats) -> Floats:
    positive: Floats = np.exp(-np.logaddexp(0.0, -z))
    return positive
