"""Degenerate levels, at which the multiplier may be unbounded.

Where φ reaches its cap, points with some coordinates saturated (φ' = 0) and the others 0 have 0 ∈ ∂g: MFCQ fails
there. They are on the level η if η is a sum of cap·ω_j over some coordinates; without weights, a whole number of
caps.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox.constraints import Constraint
from levelprox.exceptions import InvalidInputError
from levelprox.problem import Problem

Double = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
_ROUNDING = 16 * _EPS  # of a level and of the cap, relative to the level
_FINEST = 1e-3  # a common unit of the weights below this share of the smallest says nothing
_LARGEST = 10_000  # weights, in common units, up to which their sums are searched
_MOST = 100_000  # a level above so many units has a sum within half a unit, near enough


def cell(constraint: Constraint, alpha: ArrayLike) -> tuple[Double, Double]:
    """Return β and the rest α − β·cap in [0, cap), β the largest whole number; (0, α) without a cap.

    The cap and a level of so many caps are both rounded: an α within a few last digits of a whole number of caps is
    one, and has rest 0.
    """
    given = np.asarray(alpha, dtype=np.float64)
    if math.isinf(constraint.cap):
        return np.zeros_like(given), given
    rest = np.fmod(given, constraint.cap)  # exact
    whole = np.rint((given - rest) / constraint.cap)
    rounding = _ROUNDING * given
    above = constraint.cap - rest <= rounding
    return np.where(above, whole + 1, whole), np.where(above | ((rest <= rounding) & (whole > 0)), 0.0, rest)


def counted_weights(weights: ArrayLike) -> Double:
    """Return the weights that are not 0, checked."""
    omega = np.asarray(weights, dtype=np.float64).ravel()
    if not np.all((omega >= 0) & np.isfinite(omega)):
        raise InvalidInputError("weights must be in [0, inf)")
    return omega[omega > 0]


def common_unit(weights: ArrayLike) -> float | None:
    """Return the largest q of which all positive weights are integer multiples, up to rounding; None if there is none.

    Euclid's algorithm on all weights at once: each round leaves a remainder of at most half of the last unit.

    Parameters
    ----------
    weights : array-like
        ω ≥ 0.

    Returns
    -------
    float or None
        The common unit.

    Examples
    --------
    >>> from levelprox import theory
    >>> theory.common_unit([1.0, 1.5, 0.0, 4.0])
    0.5
    """
    counted = counted_weights(weights)
    if not counted.size:
        return None
    unit = smallest = float(counted.min())
    rounding = _ROUNDING * float(counted.max())
    while unit >= _FINEST * smallest:
        rest = np.abs(counted - unit * np.rint(counted / unit))
        if np.all(rest <= rounding):
            return unit
        unit = float(rest[rest > rounding].min())
    return None


def degenerate_distance(problem: Problem) -> tuple[float | None, str]:
    """Return the distance of η to the nearest degenerate level, in units of cap·q, and whether it was checked.

    q is the common unit of the weights, 1 without weights.

    Parameters
    ----------
    problem : Problem
        The problem with its level η.

    Returns
    -------
    distance : float or None
        The distance; None if there is no degenerate level or it is not known.
    check : str
        "checked", or the reason why not.

    Examples
    --------
    >>> from levelprox import LinearModel, Problem, constraints, theory
    >>> model = LinearModel([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> theory.degenerate_distance(Problem(model, constraints.MCP(lam=2.0, theta=0.5), 1.25))
    (0.25, 'checked')
    """
    nearest, unit, check = degenerate_level(problem)
    return (None if nearest is None else abs(problem.level - nearest) / unit), check


def degenerate_level(problem: Problem) -> tuple[float | None, float, str]:
    """Return the degenerate level nearest to η: the nearest sum of cap·ω_j over some features.

    Parameters
    ----------
    problem : Problem
        The problem with its level η.

    Returns
    -------
    level : float or None
        The nearest degenerate level; None if there is none or it is not known.
    unit : float
        cap·q, with q the common unit of the weights.
    check : str
        "checked", or the reason why not.

    Examples
    --------
    >>> from levelprox import LinearModel, Problem, constraints, theory
    >>> model = LinearModel([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> theory.degenerate_level(Problem(model, constraints.MCP(lam=2.0, theta=0.5), 1.25))
    (1.0, 1.0, 'checked')
    """
    cap, weights = problem.constraint.cap, problem.weights
    counted = None if weights is None else weights[weights > 0]
    if math.isinf(cap) or (counted is not None and not counted.size):
        return None, math.inf, "no degenerate level"
    if counted is None or np.all(counted == counted[0]):  # first, as it is the usual case and checked at every step
        unit = cap * (1.0 if counted is None else float(counted[0]))
        n = problem.n_features if counted is None else counted.size
        return round(min(problem.level / unit, n)) * unit, unit, "checked"
    q = common_unit(counted)
    if q is None or counted.max() > _LARGEST * q:
        return None, math.inf, "not checked: unequal weights"
    multiplicity = np.bincount(np.rint(counted / q).astype(np.intp))
    return _nearest_sum(multiplicity, problem.level / (cap * q)) * (cap * q), cap * q, "checked"


def _nearest_sum(multiplicity: NDArray[np.intp], target: float) -> int:
    """Return the sum of some of the numbers that is nearest to the target; n is there `multiplicity[n]` times."""
    total = int(multiplicity @ np.arange(multiplicity.size))
    if target >= total:
        return total
    if target > _MOST:
        return round(target)
    below = int(target)
    within = (1 << (2 * below + 2)) - 1  # 0 is a sum, so none beyond twice the target is nearer
    sums = 1  # bit s is set when s is a sum
    for number in np.flatnonzero(multiplicity):
        left, taken = int(multiplicity[number]), 1
        while left > 0:  # 1, 2, 4, … copies at a time: every count up to the multiplicity is made of these
            sums |= (sums << (int(number) * min(taken, left))) & within
            left, taken = left - taken, 2 * taken
    lower = (sums & ((2 << below) - 1)).bit_length() - 1
    above = sums >> (below + 1)
    upper = below + (above & -above).bit_length() if above else lower
    return min((lower, upper), key=lambda s: abs(s - target))
